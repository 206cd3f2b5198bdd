//! What a recorded program would have cost with its memory elsewhere, or on another fabric.
//!
//! Recorded windows are analysed again with each address in its new pool. Each piece of code then asks for
//! the delay of as many instructions as were executed there. Latencies are those at the mean load of the
//! whole run, which depends on the delay in turn; a few rounds settle that.
//!
//! Left out: phases in which the load was higher than its mean, and caches that would hold other lines.

use std::collections::BTreeMap;

use crate::estimate::Estimate;
use crate::extrapolation::extrapolate;
use crate::fabric::{Demand, Fabric, PoolResponse, settled};
use crate::located::LocatedPhase;
use crate::model::{Window, WindowUse};
use crate::placement::{Layout, PAGE, Placement};
use crate::recording::{Mappings, PhaseRecord, Recording, WindowRecord};
use crate::{GOLDEN, drawn};

/// Assumed placement of a program's memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Choice {
    /// By a policy of `cxlab attach`.
    Placed(Placement),
    /// The mappings with most misses per byte are local, up to this many bytes. Of the last mapping, random pages are local.
    Hottest(u64),
}

/// Cost of a choice.
#[derive(Clone, PartialEq, Debug)]
pub struct Cost {
    /// Delay in nanoseconds.
    pub delay_ns: f64,
    /// Lines read of each pool.
    pub lines: Vec<f64>,
}

/// Misses of a part of a mapping.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Heat {
    start: u64,
    bytes: u64,
    lines: f64,
}

/// Adjacent mappings have one count if either is smaller than this, in bytes (*assumed*: a large page).
const PART: u64 = 2 << 20;

/// Parts of mappings by lines missed for each of their bytes, hottest first.
fn hottest(recording: &Recording) -> Vec<Heat> {
    let mut parts: Vec<Heat> = Vec::new();
    let placed = recording.mappings.iter().flat_map(|mappings| &mappings.0);
    let mut placed: Vec<(u64, u64)> = placed.map(|one| (one.start, one.end)).collect();
    placed.sort_unstable();
    for (start, end) in placed {
        match parts.last_mut() {
            // Overlapping mappings are of other times or processes.
            Some(last) if start < last.start + last.bytes => {
                last.bytes = last.bytes.max(end - last.start);
            }
            Some(last)
                if start == last.start + last.bytes && last.bytes.min(end - start) < PART =>
            {
                last.bytes += end - start;
            }
            _ => parts.push(Heat {
                start,
                bytes: end - start,
                lines: 0.0,
            }),
        }
    }
    for phase in &recording.phases {
        for (share, window) in phase.shares() {
            let seen = window.steps.len() - window.before.min(window.steps.len());
            let each = share * phase.instructions * phase.chance() / seen.max(1) as f64;
            for line in window.missing() {
                let behind = parts.partition_point(|part| part.start <= line * 64);
                let part = behind.checked_sub(1).map(|at| &mut parts[at]);
                if let Some(part) = part.filter(|part| line * 64 < part.start + part.bytes) {
                    part.lines += each;
                }
            }
        }
    }
    let density = |heat: &Heat| heat.lines / heat.bytes.max(1) as f64;
    parts.sort_by(|one, other| {
        let order = density(other).total_cmp(&density(one));
        order.then(one.start.cmp(&other.start))
    });
    parts
}

/// By first address of a mapping: the share of its pages that are local.
fn local_shares(recording: &Recording, bytes: u64) -> BTreeMap<u64, (u64, f64)> {
    let mut left = bytes as f64;
    let share = |heat: Heat| {
        let part = (left / heat.bytes.max(1) as f64).clamp(0.0, 1.0);
        left -= part * heat.bytes as f64;
        (heat.start, (heat.start + heat.bytes, part))
    };
    hottest(recording).into_iter().map(share).collect()
}

/// A pseudorandom number from 0 to 1 for a page.
fn chance_of(page: u64) -> f64 {
    (drawn(page.wrapping_mul(GOLDEN)) >> 11) as f64 / (1u64 << 53) as f64
}

/// Bytes of CXL memory that the program's mappings take, at most.
pub fn cxl_bytes(recording: &Recording, choice: Choice) -> u64 {
    let of = |mappings: &Mappings| match choice {
        Choice::Hottest(local) => mappings.bytes().saturating_sub(local),
        Choice::Placed(placement) => mappings.layout(placement).cxl_bytes(),
    };
    recording.mappings.iter().map(of).max().unwrap_or(0)
}

/// Largest number of bytes that a process had mapped.
pub fn mapped_bytes(recording: &Recording) -> u64 {
    let bytes = recording.mappings.iter().map(Mappings::bytes);
    bytes.max().unwrap_or(0)
}

/// Cost of the recorded program on a fabric, with its memory placed by `choice`.
pub fn cost(recording: &Recording, fabric: &mut dyn Fabric, choice: Choice) -> Cost {
    let pools = fabric.pools().len();
    let windows = windows(recording, fabric, choice);
    // Estimates do not depend on latencies, and a choice is tried at several.
    let estimates = recording.phases.iter().zip(&windows);
    let estimates = estimates.map(|(phase, windows)| {
        let counted = windows.iter().map(|(counts, window)| (*counts, window));
        Estimate::weighted(counted, phase.machine.as_ref()?, phase.chance())
    });
    let estimates: Vec<Option<Estimate>> = estimates.collect();
    let mut lines = vec![Demand::default(); pools];
    for (phase, estimate) in recording.phases.iter().zip(&estimates) {
        let Some(estimate) = estimate else { continue };
        let time_ns = phase.instructions * estimate.instruction_ns();
        for (sum, rate) in lines.iter_mut().zip(&estimate.rates) {
            sum.reads_per_ns += time_ns * rate.reads;
            sum.writes_per_ns += time_ns * rate.writes;
        }
    }
    let threads = recording.threads.max(1.0);
    let running_ns = recording.running_ns.max(recording.cpu_ns / threads);
    let delay = |answers: &[PoolResponse]| -> f64 {
        let phases = recording.phases.iter().zip(&estimates);
        let delays = phases.filter_map(|(phase, estimate)| {
            let (estimate, machine) = (estimate.as_ref()?, phase.machine.as_ref()?);
            let time_ns = phase.instructions * estimate.instruction_ns();
            Some(time_ns * estimate.delay(answers, machine))
        });
        delays.sum()
    };
    let in_flight = (recording.overlap.stream, threads);
    let answers = settled(fabric, &lines, in_flight, running_ns, &delay);
    Cost {
        delay_ns: delay(&answers),
        lines: lines.iter().map(|lines| lines.reads_per_ns).collect(),
    }
}

/// The windows of each piece of code, with each address where the choice puts it, and the share of
/// instructions that each stands for.
fn windows(
    recording: &Recording,
    fabric: &dyn Fabric,
    choice: Choice,
) -> Vec<Vec<(f64, WindowUse)>> {
    let placement = match choice {
        Choice::Placed(placement) => placement,
        Choice::Hottest(_) => Placement::Cxl,
    };
    let layouts = recording.mappings.iter();
    let layouts: Vec<Layout> = layouts.map(|one| one.layout(placement)).collect();
    let local = match choice {
        Choice::Placed(_) => BTreeMap::new(),
        Choice::Hottest(bytes) => local_shares(recording, bytes),
    };
    let pools = fabric.pools().len();
    let of = |(share, window): (f64, &WindowRecord)| -> Option<(f64, WindowUse)> {
        let layout = layouts.get(window.mappings as usize)?;
        let mut find = |address: u64| {
            let share = local.range(..=address).next_back();
            let share = share.filter(|(_, (end, _))| address < *end);
            match share {
                Some((_, (_, part))) if chance_of(address / PAGE) < *part => Some(0),
                _ => layout.pool(address, fabric),
            }
        };
        let cached = window.cached.iter().copied().collect();
        let model = Window::new(pools, recording.overlap).with_cached(cached);
        let used = extrapolate(model, window.steps.clone(), window.before, &mut find);
        Some((share, used))
    };
    let windows = |phase: &PhaseRecord| phase.shares().filter_map(of).collect();
    recording.phases.iter().map(windows).collect()
}

/// Total delay if the memory of one object were local, in nanoseconds.
pub fn without(phases: &[LocatedPhase], object: u32) -> f64 {
    let of = |phase: &LocatedPhase| {
        let all = phase.instructions.values().map(|all| all.delay_ns);
        all.sum::<f64>() + phase.unlocated_ns
            - phase.objects.get(&object).map_or(0.0, |all| all.delay_ns)
    };
    phases.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::tests::{LATENCY_NS, two};
    use crate::knuth;
    use crate::located::locate;
    use crate::located::tests::{MIB, recording};

    /// A step of each chain waits once with chance one half: 100 ns more in the near pool, and 400 in the
    /// far one. The chains run beside each other, so the longer one decides.
    #[test]
    fn choices_cost_what_their_pools_add() {
        let recording = recording();
        let mut fabric = two();
        let mut of = |choice| cost(&recording, &mut fabric, choice).delay_ns / 1e6;
        let all = of(Choice::Placed(Placement::Cxl));
        assert!((all / 200.0 - 1.0).abs() < 0.1, "{all}");
        let first = of(Choice::Placed(Placement::LocalFirst(MIB)));
        // The second mapping is then the first of CXL memory, in the near pool.
        assert!((first / 50.0 - 1.0).abs() < 0.1, "{first}");
        assert_eq!(of(Choice::Placed(Placement::LocalFirst(2 * MIB))), 0.0);
        assert_eq!(of(Choice::Placed(Placement::Above(2 * MIB))), 0.0);
        assert_eq!(of(Choice::Hottest(4 * MIB)), 0.0);
        let lines = cost(&recording, &mut fabric, Choice::Hottest(MIB)).lines;
        let ratio = lines[0] / (lines[1] + lines[2]);
        assert!((ratio - 1.0).abs() < 0.05, "{lines:?}");
        assert_eq!(cxl_bytes(&recording, Choice::Hottest(MIB)), MIB);
        assert_eq!(mapped_bytes(&recording), 2 * MIB);
    }

    /// A file of a recording may hold anything. What passes for one is analysed without a panic.
    #[test]
    fn damaged_recordings_are_refused_or_analysed() {
        let good = serde_json::to_vec(&recording()).unwrap();
        let mut state = 1;
        let mut number = |below: usize| (knuth(&mut state) >> 33) as usize % below;
        let mut analysed = 0;
        for _ in 0..600 {
            let mut bad = good.clone();
            for _ in 0..=number(4) {
                let at = number(bad.len());
                bad[at] = match number(3) {
                    // Another digit gives another number, and keeps the form.
                    0 | 1 if bad[at].is_ascii_digit() => b'0' + number(10) as u8,
                    0 => number(256) as u8,
                    _ => bad[at],
                };
            }
            let Ok(read) = serde_json::from_slice::<Recording>(&bad) else {
                continue;
            };
            if read.check().is_ok() {
                analysed += 1;
                let phases = locate(&read, &two(), Placement::Cxl, &LATENCY_NS);
                let left = without(&phases, 1);
                assert!(left >= -1.0, "{left}");
                let first = Choice::Placed(Placement::LocalFirst(MIB));
                for choice in [first, Choice::Hottest(MIB)] {
                    let delay_ns = cost(&read, &mut two(), choice).delay_ns;
                    assert!(delay_ns >= 0.0, "{delay_ns}");
                }
            }
        }
        assert!(analysed > 60, "{analysed}");
    }

    #[test]
    fn more_local_memory_never_costs_more() {
        let recording = recording();
        let mut last = f64::INFINITY;
        for part in 0..=16 {
            let choice = Choice::Hottest(part * MIB / 8);
            let now = cost(&recording, &mut two(), choice).delay_ns;
            assert!(now <= last * 1.0001, "{part}: {now} after {last}");
            last = now;
        }
        assert_eq!(last, 0.0);
    }
}
