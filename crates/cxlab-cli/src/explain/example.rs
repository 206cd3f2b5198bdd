//! A place in a shipped scenario that gives a key.

use cxlab_scenario::diagnostics::Document;
use serde_json::Value;

use crate::templates::SHIPPED;

/// The first shipped scenario with the key: its name, and the line with the key after the header of its
/// table. Of a table that has a header, the header and the line of its first key.
pub(super) fn of(path: &[String]) -> Option<(&'static str, Vec<String>)> {
    SHIPPED.iter().find_map(|(file, text)| {
        let document = Document::parse(file, text).ok()?;
        let place = place_of(document.value(), path, String::new())?;
        Some((*file, lines(&document, text, &place)?))
    })
}

/// The lines of an example: none where they would be a header alone, or a part of a value.
fn lines(document: &Document, text: &str, place: &str) -> Option<Vec<String>> {
    let line_at = |at: usize| {
        let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
        text[begin..].lines().next().unwrap_or_default().trim()
    };
    if let Some(header) = header(document, text, place) {
        let below = text[header..].lines().skip(1).map(str::trim);
        let mut below = below.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let is_whole = |line: &&str| !line.starts_with('[') && !line.ends_with('[');
        let first = below.next().filter(is_whole)?;
        return Some(vec![line_at(header).to_owned(), first.to_owned()]);
    }
    let spans = document.spans(place)?;
    if text[spans.value.clone()].contains('\n') {
        return None;
    }
    let above = || std::iter::successors(parent(place), |place| parent(place));
    let mut own = vec![line_at(spans.key.as_ref().unwrap_or(&spans.value).start)];
    if spans.key.is_none() {
        // An entry of a list, whose key may be in a line above.
        let key = above().find_map(|place| document.spans(place)?.key.clone());
        own.extend(key.map(|key| line_at(key.start)));
        own.reverse();
        own.dedup();
    }
    let header = above().find_map(|place| header(document, text, place));
    let header = header.map(line_at);
    Some(header.into_iter().chain(own).map(str::to_owned).collect())
}

/// Where the header of a table is written, `[fabric]` or `[[hosts]]`, if the table has one.
fn header(document: &Document, text: &str, place: &str) -> Option<usize> {
    let at = document.spans(place)?.value.start;
    let is_table = document.get(place)?.is_object();
    (is_table && text[at..].starts_with('[')).then_some(at)
}

/// The place above: `hosts[0]` of `hosts[0].issue`, and `hosts` of `hosts[0]`.
fn parent(place: &str) -> Option<&str> {
    place.rfind(['.', '[']).map(|end| &place[..end])
}

/// Where a value first has a key, through lists.
fn place_of(value: &Value, path: &[String], place: String) -> Option<String> {
    if let Value::Array(items) = value {
        let mut items = items.iter().enumerate();
        // A list of values is the key's own value.
        return items
            .find_map(|(at, item)| place_of(item, path, format!("{place}[{at}]")))
            .or_else(|| path.is_empty().then_some(place));
    }
    let Some((name, rest)) = path.split_first() else {
        return Some(place);
    };
    let dot = if place.is_empty() { "" } else { "." };
    place_of(value.get(name)?, rest, format!("{place}{dot}{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"x\"\n[fabric]\nswitch = { delay = \"1 ns\" }\nlinks = [\n  1,\n]\n\
                        text = \"\"\"\n\"\"\"\n\
                        [fabric.link]\n\n# A comment.\nlanes = 8\n[[hosts]]\n[hosts.issue]\noutstanding = 4\n";

    /// The lines for a key of the text.
    fn example(key: &str) -> Option<Vec<String>> {
        let document = Document::parse("s.toml", TEXT).unwrap();
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        let place = place_of(document.value(), &path, String::new())?;
        lines(&document, TEXT, &place)
    }

    #[test]
    fn an_example_has_the_header_of_its_table_and_a_key() {
        for (key, expected) in [
            ("name", "name = \"x\""),
            (
                "fabric.switch.delay",
                "[fabric] | switch = { delay = \"1 ns\" }",
            ),
            ("fabric.link.lanes", "[fabric.link] | lanes = 8"),
            ("fabric.link", "[fabric.link] | lanes = 8"),
            ("fabric.links", "[fabric] | links = [ | 1,"),
            ("hosts.issue.outstanding", "[hosts.issue] | outstanding = 4"),
            // A header alone says nothing, and a part of a value is not readable.
            ("hosts", "nothing"),
            ("fabric.text", "nothing"),
            ("fabric.none", "nothing"),
        ] {
            let found = example(key).map_or("nothing".to_owned(), |lines| lines.join(" | "));
            assert_eq!(found, expected, "{key}");
        }
    }
}
