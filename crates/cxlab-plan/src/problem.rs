//! Mistakes of the user: what one is, how they are collected, and checks of single fields.

use std::fmt::Display;

use cxlab_engine::catalog::ParamError;
use cxlab_engine::units::{Bytes, LINE_BYTES, Picos};
use cxlab_scenario::diagnostics::nearest;

/// Longest constant delay of one component or stage.
pub(crate) const LONGEST_DELAY: Picos = Picos(1_000_000_000);

/// A mistake of the user: its place in the scenario and a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Path in the scenario, such as `fabric.topology.switches`.
    pub path: String,
    /// The problem, with the value found and the values allowed.
    pub message: String,
}

impl Problem {
    /// A problem of the value at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Problem {
            path: path.into(),
            message: message.into(),
        }
    }

    /// A parameter that an entry of a catalog refuses, below the entry's own path.
    pub fn of_param(path: &str, error: ParamError) -> Self {
        let joint = match error.field.starts_with('[') {
            true => "",
            false => ".",
        };
        let path = [path, error.field.as_str()].join(joint);
        Problem::new(path.trim_end_matches('.'), error.message)
    }

    /// A value at `path` that is none of those allowed.
    pub(crate) fn refused(
        path: impl Into<String>,
        found: impl Display,
        allowed: impl Display,
    ) -> Self {
        Problem::new(path, format!("found {found}; allowed: {allowed}"))
    }
}

impl From<Problem> for Vec<Problem> {
    fn from(problem: Problem) -> Vec<Problem> {
        vec![problem]
    }
}

/// The problems found so far.
#[derive(Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    pub(crate) fn push(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    /// Adds a problem unless the same one is there already.
    pub(crate) fn push_once(&mut self, problem: Problem) {
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    pub(crate) fn extend(&mut self, problems: impl IntoIterator<Item = Problem>) {
        self.0.extend(problems);
    }

    /// Moves all problems of `other` behind these.
    pub(crate) fn append(&mut self, other: &mut Problems) {
        self.0.append(&mut other.0);
    }

    /// Refuses the value at `path`.
    pub(crate) fn refuse(
        &mut self,
        path: impl Into<String>,
        found: impl Display,
        allowed: impl Display,
    ) {
        self.0.push(Problem::refused(path, found, allowed));
    }

    /// The entry of a catalog at `path`; refuses its parameters where they make none.
    pub(crate) fn built<T>(&mut self, path: &str, built: Result<T, ParamError>) -> Option<T> {
        let built = built.map_err(|error| self.push(Problem::of_param(path, error)));
        built.ok()
    }

    /// Checks of the fields of the table at `path`.
    pub(crate) fn below(&mut self, path: impl Into<String>) -> Fields<'_> {
        Fields {
            path: path.into(),
            problems: self,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value if no problem was found.
    pub(crate) fn into_result<T>(self, value: T) -> Result<T, Vec<Problem>> {
        match self.0.is_empty() {
            true => Ok(value),
            false => Err(self.0),
        }
    }
}

impl FromIterator<Problem> for Problems {
    fn from_iter<I: IntoIterator<Item = Problem>>(problems: I) -> Self {
        Problems(problems.into_iter().collect())
    }
}

/// Checks the fields of one table of the scenario.
pub(crate) struct Fields<'a> {
    path: String,
    problems: &'a mut Problems,
}

impl Fields<'_> {
    pub(crate) fn refuse(&mut self, field: &str, found: impl Display, allowed: impl Display) {
        let path = format!("{}.{field}", self.path);
        self.problems.refuse(path, found, allowed);
    }

    /// Adds a problem of a field in other words than what was found and what is allowed.
    pub(crate) fn wrong(&mut self, field: &str, message: impl Into<String>) {
        let path = format!("{}.{field}", self.path);
        self.problems.push(Problem::new(path, message));
    }

    /// Refuses a value outside a range.
    pub(crate) fn between<T: PartialOrd + Display>(
        &mut self,
        field: &str,
        found: T,
        [least, most]: [T; 2],
    ) {
        if found < least || found > most {
            self.refuse(field, found, format_args!("{least} to {most}"));
        }
    }

    /// Refuses zero and counts above `most`.
    pub(crate) fn count(&mut self, field: &str, found: u32, most: u32) {
        self.between(field, found, [1, most]);
    }

    /// Refuses counts above `most`.
    pub(crate) fn at_most(&mut self, field: &str, found: u32, most: u32) {
        self.between(field, found, [0, most]);
    }

    /// Refuses constant delays that are too long for a stage of a transaction.
    pub(crate) fn delay(&mut self, field: &str, found: Picos) {
        self.time(field, found, LONGEST_DELAY);
    }

    /// Refuses times longer than `longest`.
    pub(crate) fn time(&mut self, field: &str, found: Picos, longest: Picos) {
        if found > longest {
            self.refuse(field, found, format_args!("at most {longest}"));
        }
    }

    /// Refuses capacities that are no multiple of `unit` bytes, zero, or above `most` bytes.
    pub(crate) fn multiple(&mut self, field: &str, found: Bytes, unit: u64, most: u64) {
        if found.0 == 0 || !found.0.is_multiple_of(unit) || found.0 > most {
            let (unit, most) = (Bytes(unit), Bytes(most));
            let allowed = format_args!("multiples of {unit} up to {most}");
            self.refuse(field, found, allowed);
        }
    }

    /// Refuses sizes that are no power of two from `least` to `most` bytes.
    pub(crate) fn power_of_two(&mut self, field: &str, found: Bytes, least: u64, most: u64) {
        if !found.0.is_power_of_two() || !(least..=most).contains(&found.0) {
            let (least, most) = (Bytes(least), Bytes(most));
            let allowed = format_args!("powers of two from {least} to {most}");
            self.refuse(field, found, allowed);
        }
    }

    /// Refuses cache sizes that are no whole number of sets of `ways` lines.
    pub(crate) fn whole_sets(&mut self, field: &str, size: Bytes, ways: u32) {
        let set = u64::from(ways) * LINE_BYTES;
        if set == 0 || size.0 == 0 || !size.0.is_multiple_of(set) {
            self.refuse(field, size, whole_sets(size, ways));
        }
    }
}

/// The allowed sizes of a cache, in the words of an error about `size`, with a valid size near it.
/// `ways` may be a default that is not in the scenario.
pub(crate) fn whole_sets(size: Bytes, ways: u32) -> String {
    let ways = ways.max(1);
    let set = Bytes(u64::from(ways) * LINE_BYTES);
    let near = near_size(size.0, set.0).map(|near| format!(", such as {near}"));
    let near = near.unwrap_or_default();
    format!("multiples of {set}, a set of {ways} ways of 64 B{near}")
}

/// A valid cache size near `size` that is short to write: a multiple of `set` bytes times a power of
/// two, the largest for which such a multiple is within a sixteenth of `size`.
fn near_size(size: u64, set: u64) -> Option<Bytes> {
    let powers = (0..40).rev().map(|power| 1 << power);
    let units = powers.filter_map(|power| set.checked_mul(power));
    let mut near = units.filter_map(|unit| {
        let half = u64::from(size % unit >= unit.div_ceil(2));
        let near = (size / unit + half).checked_mul(unit)?;
        (near > 0 && near.abs_diff(size) <= size / 16).then_some(Bytes(near))
    });
    near.next()
}

/// The problem of a name that is not among the known ones, with a near name as a hint.
pub(crate) fn unknown(
    path: impl Into<String>,
    found: &str,
    what: &str,
    known: &[String],
) -> Problem {
    let hint = did_you_mean(found, known.iter().map(String::as_str));
    let shown: Vec<&str> = known.iter().take(8).map(String::as_str).collect();
    let more = if known.len() > 8 { ", ..." } else { "" };
    Problem::refused(
        path,
        format_args!("`{found}`, which is not {what}"),
        format_args!("{}{more}{hint}", shown.join(", ")),
    )
}

/// The hint at a known name near `found`; empty if there is none.
pub(crate) fn did_you_mean<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let near = nearest(found, known);
    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}
