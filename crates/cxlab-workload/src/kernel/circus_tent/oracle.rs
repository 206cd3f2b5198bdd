//! The expected result of CircusTent, computed by plain sequential code.
//!
//! Where the order among the benchmark's threads does not matter, or there is only one thread,
//! every word must have exactly the value that sequential code computes. Where the order matters
//! (`scatter`, `gather` and `sg` of several threads), each operation logs the word that it found
//! and the word that it left. Some order must explain all logs. For each word, the values found
//! together with the final value must equal, with multiplicity, the values left together with the
//! initial value. No operation may have found a value that the word never had.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use cxlab_engine::units::Hpa;

use super::run::Data;
use super::{Operation, Pattern};
use crate::image::Image;

/// The results of the operations of one of the benchmark's threads.
#[derive(Clone, Default, Debug)]
pub(super) struct ThreadResults {
    /// The index at which a pointer chase ended.
    pub end: u64,
    /// The number of a word of the array, the value that an operation found, and the value that it
    /// left. Logged only where the order among threads matters.
    pub words: Vec<(u64, u64, u64)>,
}

/// The words accessed, each with the value that sequential code computes, one
/// thread after the other.
fn sequential(data: &Data) -> BTreeMap<u64, u64> {
    let mut array: BTreeMap<u64, u64> = data
        .reached()
        .map(|word| (word, data.initial(word)))
        .collect();
    let params = &data.params;
    let index = |i: u64| data.indices[i as usize];
    let mut change = |word: u64, add: u64, swap: Option<u64>| -> u64 {
        let Some(value) = array.get_mut(&word) else {
            return 0;
        };
        let old = *value;
        *value = match params.operation {
            Operation::Add => old.wrapping_add(add),
            Operation::Cas => swap.unwrap_or(old),
        };
        old
    };
    for i in 0..data.pes * params.iterations {
        match params.pattern {
            Pattern::Rand => drop(change(index(i), 1, None)),
            Pattern::Stride1 => drop(change(i, 0xf, None)),
            Pattern::StrideN => drop(change(i * params.stride, 0xf, None)),
            Pattern::PtrChase => {}
            Pattern::Central => drop(change(0, 1, None)),
            Pattern::Scatter => {
                let value = change(i, 1, None);
                change(index(i + 1), value, Some(value));
            }
            Pattern::Gather => {
                let value = change(index(i + 1), 1, None);
                change(i, value, Some(value));
            }
            Pattern::Sg => {
                let value = change(index(i), 1, None);
                change(index(i + 1), value, Some(value));
            }
        }
    }
    array
}

/// Checks that an order of the logged operations explains the final contents of the array.
fn explained(data: &Data, seen: &[ThreadResults], image: &Image) -> Result<(), String> {
    let mut words: Vec<u64> = data.reached().collect();
    words.sort_unstable();
    words.dedup();
    let last = |word: u64| image.read(Hpa(data.array + word * 8), 8);
    let mut found: Vec<(u64, u64)> = words.iter().map(|word| (*word, last(*word))).collect();
    let mut left: Vec<(u64, u64)> = words
        .iter()
        .map(|word| (*word, data.initial(*word)))
        .collect();
    let operations = || seen.iter().flat_map(|one| &one.words);
    for (word, old, new) in operations().filter(|(_, old, new)| old != new) {
        found.push((*word, *old));
        left.push((*word, *new));
    }
    found.sort_unstable();
    left.sort_unstable();
    for (word, old, _) in operations().filter(|(_, old, new)| old == new) {
        if left.binary_search(&(*word, *old)).is_err() {
            return Err(format!(
                "word {word} was found to be {old:#x}, which it never was"
            ));
        }
    }
    match found.iter().zip(&left).find(|(found, left)| found != left) {
        Some((found, left)) => {
            let word = found.0.min(left.0);
            Err(format!(
                "no order of the operations explains what was found in word {word}"
            ))
        }
        None => Ok(()),
    }
}

/// The index at which a pointer chase of a thread ends.
fn chase(data: &Data, pe: u64) -> u64 {
    (0..data.params.iterations).fold(data.first(pe), |at, _| data.indices[at as usize])
}

/// Checks memory and the results of the operations.
pub(super) fn check(data: &Data, image: &Image) -> Result<(), String> {
    for (place, index) in (0..).zip(&data.indices) {
        if image.read(Hpa(data.index + place * 8), 8) != *index {
            return Err(format!("index {place} is no longer {index}"));
        }
    }
    let seen = data.seen.lock().unwrap_or_else(PoisonError::into_inner);
    if data.params.pattern == Pattern::PtrChase {
        for (pe, seen) in (0..).zip(&*seen) {
            let end = chase(data, pe);
            let found = seen.end;
            if found != end {
                return Err(format!("thread {pe} ended at index {found}, not at {end}"));
            }
        }
    }
    if data.depends_on_order() {
        let operations: usize = seen.iter().map(|one| one.words.len()).sum();
        let expected = 2 * data.pes * data.params.iterations;
        if operations as u64 != expected {
            return Err(format!(
                "found {operations} operations on the array, not {expected}"
            ));
        }
        return explained(data, &seen, image);
    }
    for (word, value) in sequential(data) {
        let found = image.read(Hpa(data.array + word * 8), 8);
        if found != value {
            return Err(format!("word {word} is {found:#x}, not {value:#x}"));
        }
    }
    Ok(())
}
