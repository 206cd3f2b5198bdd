//! What this machine's own memory takes, and how much cache a program is taken to have.

use std::fs;
use std::time::Instant;

use crate::sys::Block;

/// Bytes that the latency is measured over.
const BYTES: usize = 128 << 20;
/// Steps that are timed at once. The median of some rounds counts: a program meets the same
/// neighbours, but is not charged for the time in which others have its processor.
const STEPS: usize = 5_000;
const ROUNDS: usize = 101;
/// Cache of a guest's processor (*assumed*): what the hypervisor shows is the whole machine's, of
/// which a guest cannot know its share.
const GUEST_LLC: u64 = 4 << 20;
/// Where nothing is known (*assumed*).
const UNKNOWN_LLC: u64 = 32 << 20;

/// Latencies in nanoseconds: in pages of 4 KiB, and in large ones.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latency {
    /// In pages of 4 KiB, with the cost of finding them.
    pub small_ns: f64,
    /// In large pages.
    pub large_ns: f64,
}

/// Measures the latency of this machine's memory with a chain of pointers; `None` where there is no
/// memory for it.
pub fn latency() -> Option<Latency> {
    Some(Latency {
        small_ns: chase(false)?,
        large_ns: chase(true)?,
    })
}

fn chase(large: bool) -> Option<f64> {
    let mut block = Block::new(BYTES, large)?;
    let words = block.words();
    let lines = words.len() / 8;
    // A walk of full period through all lines: x -> 5 x + c modulo a power of two, which keeps no
    // line near the one before.
    let next = |line: usize| (line.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)) % lines;
    for line in 0..lines {
        words[line * 8] = next(line) as u64 * 8;
    }
    let mut at = 0;
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..STEPS {
            at = words[at] as usize;
        }
        rounds.push(began.elapsed().as_secs_f64() * 1e9 / STEPS as f64);
    }
    rounds.sort_unstable_by(f64::total_cmp);
    // The walk must have been made.
    (std::hint::black_box(at) < words.len()).then_some(rounds[ROUNDS / 2])
}

/// Bytes of last level cache that a program is taken to have, and how that is known.
pub fn last_level_cache() -> (u64, String) {
    let largest = (0..8)
        .filter_map(|index| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
            parse_kib(&fs::read_to_string(path).ok()?)
        })
        .max();
    let Some(shown) = largest else {
        let text = "last level cache: the system does not say; 32 MiB assumed (--llc)";
        return (UNKNOWN_LLC, text.to_owned());
    };
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let guest = info.lines().any(|line| {
        line.starts_with("flags")
            && line
                .split_ascii_whitespace()
                .any(|flag| flag == "hypervisor")
    });
    if !guest {
        return (shown, format!("last level cache: {} MiB", shown >> 20));
    }
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let taken = shown.min(GUEST_LLC * processors);
    let text = format!(
        "last level cache: a guest cannot know its share of the {} MiB; {} MiB assumed (--llc)",
        shown >> 20,
        taken >> 20
    );
    (taken, text)
}

fn parse_kib(text: &str) -> Option<u64> {
    text.trim()
        .strip_suffix('K')?
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_caches_are_read() {
        assert_eq!(parse_kib("307200K\n"), Some(300 << 20));
        assert_eq!(parse_kib("12M"), None);
    }

    #[test]
    fn a_program_has_some_cache() {
        let (bytes, text) = last_level_cache();
        assert!(bytes >= 1 << 20, "{text}");
    }

    #[test]
    fn the_walk_visits_every_line() {
        let lines = BYTES / 64;
        let mut seen = vec![false; lines];
        let mut line = 0usize;
        for _ in 0..lines {
            assert!(!std::mem::replace(&mut seen[line], true));
            line = (line.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)) % lines;
        }
    }
}
