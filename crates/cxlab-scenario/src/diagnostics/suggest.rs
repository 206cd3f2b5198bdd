//! Near names: what the user may have meant.

/// Names longer than this are no misspelling of ours, and comparing them would take long.
const LONGEST_NAME: usize = 64;

/// The candidate that `found` is most likely a misspelling of, when one is near enough.
///
/// Near is a Damerau-Levenshtein distance of at most a third of the longer name (so one slip in a
/// short name), a Jaro-Winkler similarity of at least 0.88, a name cut short after three or more
/// characters, or one word of such a length of a name of several. Case and the choice between `-`
/// and `_` count for nothing (*assumed* limits).
pub fn nearest<'a>(found: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if found.is_empty() || found.chars().nth(LONGEST_NAME).is_some() {
        return None;
    }
    let found = normalised(found);
    candidates
        .into_iter()
        .filter_map(|candidate| distance(&found, candidate).map(|distance| (distance, candidate)))
        .min()
        .map(|(_, candidate)| candidate)
}

/// How far apart two names are, or nothing when they are not near.
fn distance(found: &str, candidate: &str) -> Option<usize> {
    let candidate = normalised(candidate);
    let edits = strsim::damerau_levenshtein(found, &candidate);
    let longer = found.chars().count().max(candidate.chars().count());
    let near = edits <= (longer / 3).max(1) && edits < longer;
    let cut_short = found.len() >= 3 && candidate.starts_with(found);
    let is_word = found.len() >= 3 && candidate.split('_').any(|word| word == found);
    let similar = || strsim::jaro_winkler(found, &candidate) >= 0.88;
    (near || cut_short || is_word || similar()).then_some(edits)
}

fn normalised(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}
