//! Measures the latency and overlap of this machine's own memory, and finds the size of its cache.

use std::fs;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::maps;
use crate::model::Overlap;
use crate::placement::PAGE;
use crate::sys::{self, Block, Breakpoint};

/// Bytes of memory over which the latency is measured.
const BYTES: usize = 128 << 20;
/// Number of steps timed together, and number of such rounds. The median of the rounds counts. So a program sees the
/// same neighbours, but is not charged for times in which others have its processor.
const STEPS: usize = 5_000;
const ROUNDS: usize = 101;
/// Bytes of last level cache in a guest (*assumed*). The hypervisor shows the cache of the whole
/// machine, of which a guest cannot know its share.
const GUEST_LLC: u64 = 4 << 20;
/// Bytes of last level cache if nothing is known (*assumed*).
const UNKNOWN_LLC: u64 = 32 << 20;

/// Latencies of this machine's memory, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Latency {
    /// In pages of 4 KiB, page table walks included.
    pub small_ns: f64,
    /// In large pages.
    pub large_ns: f64,
}

/// Measures the latency of this machine's memory with a chain of pointers. `None` if there is no free memory for it.
pub fn latency() -> Option<Latency> {
    Some(Latency {
        small_ns: chase(false)?,
        large_ns: chase(true)?,
    })
}

fn chase(large: bool) -> Option<f64> {
    let mut block = Block::new(BYTES, large)?;
    let words = block.words();
    make_walk(words);
    time_chases(words, 1, ROUNDS)
}

/// Writes a walk of full period through all lines: x -> 1664525 x + 1013904223 modulo their
/// number, a power of two (Numerical Recipes). Consecutive lines are not near each other.
fn make_walk(words: &mut [u64]) {
    let lines = words.len() / 8;
    let next = |line: usize| (line.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)) % lines;
    for line in 0..lines {
        words[line * 8] = next(line) as u64 * 8;
    }
}

/// Time of one step of `walks` parallel walks, in nanoseconds: the median of the rounds.
fn time_chases(words: &[u64], walks: usize, most: usize) -> Option<f64> {
    let lines = words.len() / 8;
    // The walks start at addresses that differ in all bits, so that they do not share one set or bank.
    let mut at: Vec<usize> = (0..walks)
        .map(|walk| (walk.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % lines * 8)
        .collect();
    let steps = STEPS / walks;
    let mut rounds = Vec::with_capacity(most);
    for _ in 0..most {
        rounds.push(time_each(steps, || {
            for _ in 0..steps {
                for at in &mut at {
                    *at = words[*at] as usize;
                }
            }
        }));
    }
    // The compiler may not drop the walks.
    let made = std::hint::black_box(at).iter().all(|at| *at < words.len());
    made.then_some(median(rounds))
}

/// Time of one line of a stream, in nanoseconds: the median of the rounds.
fn time_stream(words: &[u64], most: usize) -> f64 {
    let mut sum = 0u64;
    let mut rounds = Vec::new();
    for part in words.chunks_exact(STEPS * 8).take(most) {
        rounds.push(time_each(STEPS, || {
            for line in part.chunks_exact(8) {
                sum = sum.wrapping_add(line[0]);
            }
        }));
    }
    std::hint::black_box(sum);
    median(rounds)
}

/// Memory in which marks of pages are cleared, memory of which pages are touched for the first time, and number
/// of rounds of either.
const MARKED_BYTES: usize = 16 << 20;
const FAULTED_BYTES: usize = 4 << 20;
const PAGE_ROUNDS: usize = 9;
/// Words of a page.
const PAGE_WORDS: usize = PAGE as usize / 8;

/// Time by which the first touch of a page of 4 KiB takes longer after its mark was cleared, in
/// nanoseconds: processors set marks in page tables, and hypervisors may copy these. It is 0 if the
/// kernel refuses to clear marks. `None` if there is no free memory for it.
pub fn mark() -> Option<f64> {
    let mut block = Block::new(MARKED_BYTES, false)?;
    let words = block.words();
    words.fill(1);
    let mut rounds = Vec::new();
    for _ in 0..PAGE_ROUNDS {
        let known = time_pages(words);
        if maps::clear_referenced(sys::own()).is_err() {
            return Some(0.0);
        }
        rounds.push((time_pages(words) - known).max(0.0));
    }
    Some(median(rounds))
}

/// Time by which a fault of a page of 4 KiB takes longer while a breakpoint waits for another touch, in nanoseconds:
/// processors have no fast string operations meanwhile, by which the kernel clears the page. It is 0 if the kernel
/// refuses breakpoints. `None` if there is no free memory for it.
pub fn watched_fault() -> Option<f64> {
    let word = 0u64;
    let mut rounds = Vec::new();
    for _ in 0..PAGE_ROUNDS {
        let known = time_faults()?;
        let Ok(breakpoint) = Breakpoint::set(0, (&raw const word) as u64) else {
            return Some(0.0);
        };
        rounds.push((time_faults()? - known).max(0.0));
        drop(breakpoint);
    }
    Some(median(rounds))
}

/// Time of the first touch of a page, in nanoseconds. `None` if there is no free memory.
fn time_faults() -> Option<f64> {
    let mut block = Block::new(FAULTED_BYTES, false)?;
    let words = block.words();
    Some(time_each(words.len() / PAGE_WORDS, || {
        for page in words.chunks_exact_mut(PAGE_WORDS) {
            page[0] = 1;
        }
        std::hint::black_box(&words);
    }))
}

/// Time of a page, each touched once, in nanoseconds.
fn time_pages(words: &[u64]) -> f64 {
    time_each(words.len() / PAGE_WORDS, || {
        let sum = words.chunks_exact(PAGE_WORDS).map(|page| page[0]);
        std::hint::black_box(sum.fold(0, u64::wrapping_add));
    })
}

/// Time of each of `count` steps of some work, in nanoseconds.
fn time_each(count: usize, work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64() * 1e9 / count as f64
}

fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_unstable_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

/// Numbers of parallel walks that are tried. The largest overlap counts.
const WALKS: [usize; 6] = [4, 8, 12, 16, 24, 32];

/// Measures the overlap of misses on this machine without counters: how much faster independent chains of misses are
/// together than one by one, and how much faster a stream is than a chain. `None` if there is no free memory for it.
pub fn overlap(latency: &Latency) -> Option<Overlap> {
    let mut block = Block::new(BYTES, true)?;
    let words = block.words();
    make_walk(words);
    let mut steps = Vec::new();
    for walks in WALKS {
        steps.push((walks, time_chases(words, walks, ROUNDS)?));
    }
    let line_ns = time_stream(words, ROUNDS);
    Some(overlap_of(latency.large_ns, &steps, line_ns))
}

/// Sizes over which lines are timed, from a second-level cache to more than most last-level ones.
pub(crate) const SIZES: [usize; 4] = [4 << 20, 16 << 20, 64 << 20, 256 << 20];
/// Number of timed rounds for each size.
const SIZE_ROUNDS: usize = 21;

/// Time of a line if a program uses this much memory, in nanoseconds. Hits in caches here and page
/// table walks are included.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Lines {
    /// Bytes that the program uses.
    pub bytes: usize,
    /// Time of a line of a pointer chain.
    pub alone_ns: f64,
    /// Time per independent line, with the best number of lines in flight.
    pub apart_ns: f64,
    /// Time per line of a stream.
    pub stream_ns: f64,
}

/// Line times by the amount of memory used, in pages of one size.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Curve(pub Vec<Lines>);

impl Curve {
    /// Measures the curve. `None` if there is no free memory for it.
    pub fn measure(large: bool) -> Option<Curve> {
        let mut all = Block::new(SIZES[SIZES.len() - 1], large)?;
        let of = |bytes: usize| {
            let words = &mut all.words()[..bytes / 8];
            make_walk(words);
            let mut apart_ns = f64::INFINITY;
            for walks in WALKS {
                apart_ns = apart_ns.min(time_chases(words, walks, SIZE_ROUNDS)? / walks as f64);
            }
            Some(Lines {
                bytes,
                alone_ns: time_chases(words, 1, SIZE_ROUNDS)?,
                apart_ns,
                stream_ns: time_stream(words, SIZE_ROUNDS),
            })
        };
        let lines: Option<Vec<_>> = SIZES.into_iter().map(of).collect();
        lines.map(Curve)
    }

    /// Line times if `bytes` are used, interpolated between two sizes by the logarithm.
    pub fn at(&self, bytes: u64) -> Lines {
        let size = (bytes as usize).clamp(self.0[0].bytes, self.0[self.0.len() - 1].bytes);
        let behind = self.0.partition_point(|point| point.bytes < size).max(1);
        let (one, other) = (self.0[behind - 1], self.0[behind]);
        let log = |bytes: usize| (bytes as f64).log2();
        let part = (log(size) - log(one.bytes)) / (log(other.bytes) - log(one.bytes));
        one.between(&other, part, size)
    }
}

impl Lines {
    /// Line times a share `part` of the way from these to `other`.
    pub fn between(&self, other: &Lines, part: f64, bytes: usize) -> Lines {
        let mixed = |one: f64, other: f64| one + (other - one) * part;
        Lines {
            bytes,
            alone_ns: mixed(self.alone_ns, other.alone_ns),
            apart_ns: mixed(self.apart_ns, other.apart_ns),
            stream_ns: mixed(self.stream_ns, other.stream_ns),
        }
    }
}

/// Overlap from the times of a single miss, of a step of several parallel walks, and of a line of a stream.
fn overlap_of(miss_ns: f64, steps: &[(usize, f64)], line_ns: f64) -> Overlap {
    let together = |(walks, step): &(usize, f64)| *walks as f64 * miss_ns / step;
    let misses = steps.iter().map(together).fold(1.0, f64::max);
    Overlap {
        window: window().0,
        misses,
        // Without prefetching, a stream misses as well.
        stream: (miss_ns / line_ns).max(misses),
    }
}

/// Instructions that this machine looks ahead (entries of the reorder buffer, by the processor's
/// family and model), and how that is known.
pub fn window() -> (u32, &'static str) {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    window_of(&info)
}

/// Entries of the reorder buffer. Intel: Optimization Reference Manual (248966), the tables of Skylake, Ice Lake (Sunny
/// Cove) and Golden Cove. AMD: Software Optimization Guides for Families 17h, 19h and 1Ah, retire control unit.
fn window_of(info: &str) -> (u32, &'static str) {
    let field = |name: &str| processor_field(info, name);
    let number = |name: &str| field(name).and_then(|value| value.parse::<u32>().ok());
    let vendor = field("vendor_id").unwrap_or_default();
    let entries = match (vendor, number("cpu family"), number("model")) {
        ("AuthenticAMD", Some(0x17), Some(model)) if model < 0x30 => Some(192),
        ("AuthenticAMD", Some(0x17), _) => Some(224),
        ("AuthenticAMD", Some(0x19), Some(0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf)) => Some(320),
        ("AuthenticAMD", Some(0x19), _) => Some(256),
        ("AuthenticAMD", Some(0x1a), _) => Some(448),
        ("GenuineIntel", Some(6), Some(model)) => match model {
            0x4e | 0x5e | 0x55 | 0x8e | 0x9e | 0xa5 | 0xa6 => Some(224),
            0x6a | 0x6c | 0x7d | 0x7e | 0x8c | 0x8d | 0xa7 => Some(352),
            0x8f | 0x97 | 0x9a | 0xb7 | 0xba | 0xbf | 0xcf => Some(512),
            _ => None,
        },
        _ => None,
    };
    match entries {
        Some(entries) => (entries, "the reorder buffer of this processor"),
        None => (Overlap::default().window, "assumed for this processor"),
    }
}

/// Bytes of last level cache that a program is assumed to have, and how that is known.
pub fn last_level_cache() -> (u64, String) {
    let size = |index| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        parse_kib(&fs::read_to_string(path).ok()?)
    };
    let Some(shown) = (0..8).filter_map(size).max() else {
        let text = "last level cache: the system does not say; 32 MiB assumed (--llc)";
        return (UNKNOWN_LLC, text.to_owned());
    };
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !is_guest(&info) {
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

/// A value of the first processor in `/proc/cpuinfo`, by its name.
pub(crate) fn processor_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim())
    })
}

/// Whether the processors of `/proc/cpuinfo` are those of a guest: they have the hypervisor flag.
pub(crate) fn is_guest(info: &str) -> bool {
    let lines = info.lines().filter(|line| line.starts_with("flags"));
    let mut flags = lines.flat_map(str::split_ascii_whitespace);
    flags.any(|flag| flag == "hypervisor")
}

fn parse_kib(text: &str) -> Option<u64> {
    let kib: u64 = text.trim().strip_suffix('K')?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_caches_are_read() {
        assert_eq!(parse_kib("307200K\n"), Some(300 << 20));
        assert_eq!(parse_kib("12M"), None);
    }

    /// A step of up to 12 walks takes one miss. More walks take longer in proportion.
    #[test]
    fn overlap_is_what_several_walks_gain() {
        let step = |walks: usize| (walks, 90.0 * (walks as f64 / 12.0).max(1.0));
        let found = overlap_of(90.0, &WALKS.map(step), 5.0);
        assert!((found.misses - 12.0).abs() < 1e-9, "{found:?}");
        assert!((found.stream - 18.0).abs() < 1e-9, "{found:?}");
        // An in-order machine without prefetching has no overlap.
        let alone = overlap_of(90.0, &WALKS.map(|walks| (walks, 90.0 * walks as f64)), 95.0);
        assert_eq!((alone.misses, alone.stream), (1.0, 1.0));
    }

    #[test]
    fn this_machine_has_some_overlap() {
        let found = overlap(&latency().unwrap()).unwrap();
        assert!(
            found.misses >= 1.0 && found.stream >= found.misses,
            "{found:?}"
        );
        assert!(found.misses.is_finite() && found.stream.is_finite());
    }

    #[test]
    fn lines_take_what_was_measured_and_between_two_sizes_what_lies_between() {
        let point = |bytes: usize, ns: f64| Lines {
            bytes,
            alone_ns: ns,
            apart_ns: ns / 10.0,
            stream_ns: ns / 20.0,
        };
        let curve = Curve(vec![
            point(4 << 20, 10.0),
            point(16 << 20, 30.0),
            point(64 << 20, 100.0),
        ]);
        for (bytes, ns) in [
            (0, 10.0),
            (4 << 20, 10.0),
            (8 << 20, 20.0),
            (16 << 20, 30.0),
            (32 << 20, 65.0),
            (64 << 20, 100.0),
            (1 << 40, 100.0),
        ] {
            let found = curve.at(bytes);
            assert!((found.alone_ns - ns).abs() < 1e-9, "{bytes}: {found:?}");
            assert!((found.stream_ns - ns / 20.0).abs() < 1e-9);
        }
    }

    #[test]
    fn lines_of_this_machine_take_some_time() {
        for lines in Curve::measure(true).unwrap().0 {
            assert!(
                lines.alone_ns > 0.0 && lines.alone_ns.is_finite(),
                "{lines:?}"
            );
            assert!(lines.apart_ns > 0.0 && lines.stream_ns > 0.0, "{lines:?}");
        }
    }

    #[test]
    fn reorder_buffers_are_known_by_family_and_model() {
        let info = |vendor: &str, family: u32, model: u32| {
            format!(
                "processor : 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: x\n"
            )
        };
        for (vendor, family, model, entries) in [
            ("AuthenticAMD", 0x17, 0x01, 192),
            ("AuthenticAMD", 0x17, 0x31, 224),
            ("AuthenticAMD", 0x19, 0x01, 256),
            ("AuthenticAMD", 0x19, 0x11, 320),
            ("GenuineIntel", 6, 0x55, 224),
            ("GenuineIntel", 6, 0x6a, 352),
            ("GenuineIntel", 6, 0x8f, 512),
        ] {
            let found = window_of(&info(vendor, family, model));
            assert_eq!(found, (entries, "the reorder buffer of this processor"));
        }
        assert_eq!(window_of("").1, "assumed for this processor");
        assert_eq!(window_of(&info("GenuineIntel", 6, 1)).0, 256);
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
