//! Extrapolation of a window from the instructions that were stepped over to as many as the model needs.
//!
//! A single step takes tens of microseconds. So a window may be shorter than a reorder buffer, and see a fourth of a
//! page of a stream. Without extrapolation, overlapping misses would be split: a block of 100 instructions waits as
//! long for its few misses as a whole block for many. And whether a window sees the first line of a page would be
//! chance. So the window is assumed to go on in the same way: its instructions repeat with continued addresses.
//!
//! Where nearly all instructions belong to a loop, whole rounds of the loop are repeated, from an instruction to its
//! next visit. An instruction with a constant stride continues with that stride. Other instructions touch new lines
//! where they touched new ones, in the same pools and at the same distances from each other. Lines that were touched
//! before the window, and those that the program uses all the time, stay cached. Where there is no loop, the whole
//! window repeats, in new lines.
//!
//! Left out: the end of a loop and of an array. Windows begin anywhere, so the share of windows
//! that see the end is the share of time that the program spends there.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use crate::model::{Step, Touch, Window, WindowUse};

/// Fewest instructions given to the model, as a number and in reorder buffers (*assumed*: some tens
/// of blocks, and some tens of pages of a stream in four windows).
const MIN_INSTRUCTIONS: u64 = 1 << 14;
const MIN_BLOCKS: u64 = 8;
/// Share of a window's instructions inside a loop from which on the window counts as a loop (*assumed*).
const LOOP_SHARE: f64 = 0.9;
/// Number of strides that an instruction must show if they are longer than a page. At least half of
/// its strides must be equal.
const STRIDES: usize = 3;
const PAGE: i64 = 4096;
/// Programs use addresses below 2^`ADDRESS_BITS`. Higher address bits tell the lines of one repetition from another's.
const ADDRESS_BITS: u32 = 48;

/// How an access continues in each repetition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AccessContinuation {
    /// At an address that is farther by this distance each time.
    By(u64),
    /// In a line that nothing touched before.
    Anew,
}

/// Memory use of consecutive instructions, extrapolated. The first `before` instructions are the lead-in: they only mark
/// lines as touched. `find` gives the pool of an address, or `None` if nothing is mapped there.
pub fn extrapolate(
    window: Window,
    mut steps: Vec<Step>,
    before: usize,
    find: &mut dyn FnMut(u64) -> Option<usize>,
) -> WindowUse {
    let before = before.min(steps.len());
    let seen = steps.len() - before;
    if seen == 0 {
        return window.finish();
    }
    let code = profile(&steps[before..]);
    let (rounds, is_loop) = rounds(&steps[before..]);
    let rounds = rounds.start + before..rounds.end + before;
    let known: HashSet<u64> = touched(&steps[..before]).collect();
    let is_known = |line| known.contains(&line) || window.is_cached(line);
    let continuations = continuations(&steps, &is_known, &rounds, is_loop);
    let mut window = window.after(rounds.end as u64);
    for step in &steps[..rounds.end] {
        window.step(step, &mut |address| Some(find(address).unwrap_or(0)));
    }
    let ahead = u64::from(window.ahead());
    let least = MIN_INSTRUCTIONS.max(MIN_BLOCKS * ahead);
    let mut given = 0;
    let own: Vec<Vec<Touch>> = steps.iter().map(|step| step.touches.clone()).collect();
    'all: for again in 1.. {
        for (at, continuations) in rounds.clone().zip(&continuations) {
            let step = &mut steps[at];
            for ((touch, own), continuation) in
                step.touches.iter_mut().zip(&own[at]).zip(continuations)
            {
                touch.address = match continuation {
                    AccessContinuation::By(far) => {
                        own.address.wrapping_add(far.wrapping_mul(again))
                    }
                    AccessContinuation::Anew => own.address.wrapping_add(again << ADDRESS_BITS),
                };
            }
            let mut pool = |address: u64| {
                let pool = find(address & ((1 << ADDRESS_BITS) - 1));
                // Past the end of an array, the access stays in the pool of the original access.
                let own = || {
                    let touches = steps[at].touches.iter().zip(&own[at]);
                    let mut same = touches.filter(|(touch, _)| touch.address == address);
                    same.next().and_then(|(_, own)| find(own.address))
                };
                Some(pool.or_else(own).unwrap_or(0))
            };
            window.step(&steps[at], &mut pool);
            given += 1;
            let enough = given >= least && window.is_between_blocks();
            if enough || given >= least + 2 * ahead {
                break 'all;
            }
        }
    }
    WindowUse {
        seen: seen as u64,
        code,
        ..window.finish()
    }
}

/// The lines that instructions touch.
pub(crate) fn touched(steps: &[Step]) -> impl Iterator<Item = u64> {
    let touches = steps.iter().flat_map(|step| &step.touches);
    touches.map(|touch| touch.address / 64)
}

/// Number of instructions by line of code.
fn profile(steps: &[Step]) -> Vec<(u64, u32)> {
    let mut code: BTreeMap<u64, u32> = BTreeMap::new();
    for step in steps {
        *code.entry(step.code / 64).or_default() += 1;
    }
    code.into_iter().collect()
}

/// The instructions that repeat, and whether they are whole rounds of a loop. A candidate is
/// between the first and last visit to one instruction, at least half of the window apart. The
/// instruction visited least often is chosen, because it belongs to the outermost loop.
fn rounds(steps: &[Step]) -> (Range<usize>, bool) {
    let mut visits: BTreeMap<u64, (usize, usize, u32)> = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        let (_, last, count) = visits.entry(step.code).or_insert((at, at, 0));
        (*last, *count) = (at, *count + 1);
    }
    let long = visits
        .into_values()
        .filter(|(first, last, _)| last > first && 2 * (last - first) >= steps.len());
    let outermost =
        long.min_by_key(|(first, last, count)| (*count, std::cmp::Reverse(last - first), *first));
    let Some((first, last, _)) = outermost else {
        return (0..steps.len(), false);
    };
    let inside: HashSet<u64> = steps[first..last].iter().map(|step| step.code).collect();
    let of = steps.iter().filter(|step| inside.contains(&step.code));
    match of.count() as f64 >= LOOP_SHARE * steps.len() as f64 {
        true => (first..last, true),
        false => (0..steps.len(), false),
    }
}

/// How the accesses of each repeated instruction continue, by instruction and access. `is_known` returns whether a line
/// was touched before or is in a cache.
fn continuations(
    steps: &[Step],
    is_known: &dyn Fn(u64) -> bool,
    rounds: &Range<usize>,
    is_loop: bool,
) -> Vec<Vec<AccessContinuation>> {
    let far = match is_loop {
        true => distances(steps, rounds),
        false => HashMap::new(),
    };
    let of = |step: &Step| {
        let mut found: Vec<AccessContinuation> = Vec::with_capacity(step.touches.len());
        for (at, touch) in step.touches.iter().enumerate() {
            let line = touch.address / 64;
            found.push(match far.get(&(step.code, at)) {
                // The second line of one access continues as its first line does.
                _ if is_second(step, at) => found[at - 1],
                Some(far) => AccessContinuation::By(*far),
                None if is_known(line) => AccessContinuation::By(0),
                None => AccessContinuation::Anew,
            });
        }
        found
    };
    steps[rounds.clone()].iter().map(of).collect()
}

/// Whether a touch is the second line of the access before it.
fn is_second(step: &Step, at: usize) -> bool {
    let address = step.touches[at].address;
    at > 0 && address.is_multiple_of(64) && address / 64 == step.touches[at - 1].address / 64 + 1
}

/// By instruction and access: the distance that it advances in the rounds, if its stride is constant.
fn distances(steps: &[Step], rounds: &Range<usize>) -> HashMap<(u64, usize), u64> {
    let mut visits: BTreeMap<(u64, usize), Vec<(usize, u64)>> = BTreeMap::new();
    for (number, step) in steps.iter().enumerate() {
        for (at, touch) in step.touches.iter().enumerate() {
            let of = visits.entry((step.code, at)).or_default();
            of.push((number, touch.address));
        }
    }
    let distance = |(name, visits): ((u64, usize), Vec<(usize, u64)>)| {
        let stride = stride(&visits)?;
        let inside = visits.iter().filter(|(at, _)| rounds.contains(at));
        let mut inside = inside.map(|(_, address)| *address);
        let first = inside.next()?;
        let last = inside.next_back().unwrap_or(first);
        Some((name, last.wrapping_sub(first).wrapping_add(stride)))
    };
    visits.into_iter().filter_map(distance).collect()
}

/// The stride that at least half of the consecutive addresses have.
fn stride(visits: &[(usize, u64)]) -> Option<u64> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for pair in visits.windows(2) {
        *counts.entry(pair[1].1.wrapping_sub(pair[0].1)).or_default() += 1;
    }
    let (stride, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    let all = visits.len() - 1;
    let is_plain = all >= STRIDES || (-PAGE..=PAGE).contains(&(stride as i64));
    (2 * count >= all && is_plain).then_some(stride)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Overlap;
    use crate::{GOLDEN, drawn};

    /// The second half of each 2^40 bytes is pool 1.
    fn pool(address: u64) -> Option<usize> {
        Some(usize::from(address >> 39 & 1 == 1))
    }

    fn seen(steps: Vec<Step>, before: usize) -> WindowUse {
        let window = Window::new(2, Overlap::default());
        extrapolate(window, steps, before, &mut pool)
    }

    fn compute(code: u64) -> Step {
        Step::default().at(code)
    }

    /// A random number for each `at`.
    fn number(at: u64) -> u64 {
        drawn(at.wrapping_mul(GOLDEN))
    }

    fn loads(found: &WindowUse) -> f64 {
        let loads = found.blocks.iter().flat_map(|block| &block.demand_misses);
        f64::from(loads.sum::<u32>())
    }

    /// Reads through memory, twice in each 32 bytes, with 5 instructions a round.
    fn stream(rounds: u64) -> Vec<Step> {
        let round = |round: u64| {
            [
                Step::load(round * 32, &[1], &[2]).at(1),
                compute(2),
                Step::load(round * 32 + 16, &[1], &[2]).at(3),
                compute(4),
                compute(5),
            ]
        };
        (0..rounds).flat_map(round).collect()
    }

    /// The window saw ten lines, but neither the first nor the second line of a page, which miss.
    /// Extrapolated, two of 64 lines miss.
    #[test]
    fn a_stream_goes_on_from_page_to_page() {
        let mut steps = stream(48);
        steps.drain(..33);
        let found = seen(steps, 100);
        assert_eq!(found.seen, 48 * 5 - 33 - 100);
        assert!(found.instructions >= MIN_INSTRUCTIONS);
        let lines = found.pools[0].reads;
        let instructions = found.instructions as f64;
        assert!((lines * 10.0 / instructions - 1.0).abs() < 0.01, "{lines}");
        assert!((loads(&found) - lines / 32.0).abs() <= 2.0, "{lines}");
        // Without extrapolation, chance decides.
        let mut window = Window::new(2, Overlap::default()).after(100);
        for step in &stream(48)[33..] {
            window.step(step, &mut pool);
        }
        assert_eq!(loads(&window.finish()), 0.0);
    }

    /// A loop's instruction sometimes crosses a line's end and touches two lines. Both lines continue with the others.
    #[test]
    fn accesses_of_two_lines_go_on_together() {
        let round = |round: u64| {
            let address = round * 24 + 8;
            let mut step = Step::load(address, &[1], &[2]).at(1);
            if address % 64 > 64 - 16 {
                step.touches.push(Touch {
                    address: (address / 64 + 1) * 64,
                    write: false,
                });
            }
            [step, compute(2)]
        };
        let found = seen((0..60).flat_map(round).collect(), 40);
        let lines = found.instructions as f64 / 2.0 * 24.0 / 64.0;
        let reads = found.pools[0].reads;
        assert!((reads / lines - 1.0).abs() < 0.01, "{reads} {lines}");
    }

    /// A window of a fourth of a reorder buffer: misses overlap as in a whole one.
    #[test]
    fn misses_without_order_fill_the_buffers_however_short_the_window() {
        let round = |round: u64| {
            let address = number(round) >> 20;
            [
                compute(1),
                Step::load(address, &[1], &[2]).at(2),
                compute(3),
                compute(4),
            ]
        };
        for rounds in [16, 100, 1000] {
            let found = seen((0..rounds).flat_map(round).collect(), 8);
            let reads: f64 = found.pools.iter().map(|pool| pool.reads).sum();
            let waits: f64 = found.pools.iter().map(|pool| pool.waits).sum();
            let per = found.instructions as f64 / reads;
            assert!((per / 4.0 - 1.0).abs() < 0.02, "{rounds}: {per}");
            assert!(
                (reads / waits / 12.0 - 1.0).abs() < 0.02,
                "{rounds}: {}",
                reads / waits
            );
        }
    }

    /// One step of a chain in one pool per three steps of another chain in the other pool: whole rounds repeat.
    #[test]
    fn each_step_of_a_chain_waits_in_its_pool() {
        let round = |round: u64| {
            let far = |step| number(4 * round + step) >> 26 << 1;
            let load = |code, pool: u64, step, register: u8| {
                let address = (far(step) & ((1 << 39) - 1)) | pool << 39;
                Step::load(address, &[register], &[register]).at(code)
            };
            [
                load(1, 0, 0, 1),
                compute(2),
                load(3, 1, 1, 2),
                load(3, 1, 2, 2),
                load(3, 1, 3, 2),
            ]
        };
        let mut steps: Vec<Step> = (0..12).flat_map(round).collect();
        steps.drain(..3);
        let found = seen(steps, 10);
        let [one, other] = [found.pools[0].reads, found.pools[1].reads];
        assert!((other / one / 3.0 - 1.0).abs() < 0.01, "{one} {other}");
        let waits = found.pools[0].waits + found.pools[1].waits;
        // The three steps wait for each other, and hide the one.
        assert!((waits / other - 1.0).abs() < 0.02, "{waits} {other}");
    }

    /// Without a loop, lines touched before stay cached, and new lines are new again in each repetition.
    #[test]
    fn code_without_a_loop_is_repeated_in_new_lines() {
        let step = |code: u64, line: u64| Step::load(line * 4096, &[1], &[2]).at(code);
        let mut steps: Vec<Step> = (0..40).map(|code| step(code, code % 8)).collect();
        steps.extend((40..100).map(|code| match code % 3 {
            0 => step(code, 100 + code),
            _ => step(code, code % 8),
        }));
        let found = seen(steps, 40);
        let per = found.instructions as f64 / found.pools[0].reads;
        assert!((per - 3.0).abs() < 0.02, "{per}");
        assert_eq!(found.code.iter().map(|(_, count)| count).sum::<u32>(), 60);
    }

    /// Past the end of its mapping, a stream stays in its own pool.
    #[test]
    fn a_stream_goes_on_in_its_pool_behind_the_end_of_its_memory() {
        let window = Window::new(2, Overlap::default());
        let mut find = |address: u64| (address < 48 * 32).then_some(1);
        let found = extrapolate(window, stream(48), 64, &mut find);
        assert_eq!(found.pools[0].reads, 0.0);
        assert!(found.pools[1].reads > 1000.0);
    }

    #[test]
    fn a_window_of_nothing_is_nothing() {
        assert_eq!(seen(stream(4), 100), seen(Vec::new(), 0));
        assert_eq!(seen(Vec::new(), 0).instructions, 0);
    }
}
