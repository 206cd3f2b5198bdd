//! Where in a program its delay comes from: instructions, the calls that led there, and touched memory.
//!
//! A recorded window is analysed again with every instruction told apart. An instruction has the part of
//! its piece of code's delay that its waits have, each wait times the latency that its pool adds. The
//! delay of a piece of code is what was asked for while the program ran, so all parts add up to that.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::extrapolation::extrapolate;
use crate::fabric::Fabric;
use crate::model::Window;
use crate::placement::{Layout, Placement};
use crate::recording::{PhaseRecord, Recording, StackUse, WindowRecord};
use crate::share;

/// Lines missed, and delay.
#[derive(Clone, Copy, PartialEq, Default, Serialize, Deserialize, Debug)]
pub struct MissCost {
    /// Lines read from all pools.
    pub lines: f64,
    /// Delay in nanoseconds.
    pub delay_ns: f64,
}

impl MissCost {
    /// Adds another use.
    pub fn add(&mut self, other: MissCost) {
        self.lines += other.lines;
        self.delay_ns += other.delay_ns;
    }

    fn part(self, part: f64) -> MissCost {
        MissCost {
            lines: part * self.lines,
            delay_ns: part * self.delay_ns,
        }
    }
}

/// Cost of a phase by instruction, object and calls.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
pub struct LocatedPhase {
    /// By place in the code (a number of [`Recording::places`]), of instructions that miss.
    pub instructions: BTreeMap<u32, MissCost>,
    /// By object (a number of [`Recording::objects`]).
    pub objects: BTreeMap<u32, MissCost>,
    /// Lists of calls that led to the phase (numbers of [`Recording::stacks`]), with their CPU time and delay.
    pub stacks: Vec<(u32, StackUse)>,
    /// Delay that no window locates, in nanoseconds.
    pub unlocated_ns: f64,
}

/// Divides the delay of a recording's phases among places. Memory was placed by `placement`, and a read of pool
/// `i` took `latency_ns[i]`; pool 0 is local memory.
pub fn locate(
    recording: &Recording,
    fabric: &dyn Fabric,
    placement: Placement,
    latency_ns: &[f64],
) -> Vec<LocatedPhase> {
    let layouts: Vec<Layout> = recording
        .mappings
        .iter()
        .map(|mappings| mappings.layout(placement))
        .collect();
    let local = latency_ns.first().copied().unwrap_or(0.0);
    let added: Vec<f64> = latency_ns
        .iter()
        .map(|all| (all - local).max(0.0))
        .collect();
    let of = |phase: &PhaseRecord| phase_of(recording, phase, fabric, &layouts, &added);
    recording.phases.iter().map(of).collect()
}

/// Divides the delay of one phase among instructions, objects and calls, by its recorded windows.
fn phase_of(
    recording: &Recording,
    phase: &PhaseRecord,
    fabric: &dyn Fabric,
    layouts: &[Layout],
    added: &[f64],
) -> LocatedPhase {
    let mut located = LocatedPhase {
        stacks: phase
            .stacks
            .iter()
            .map(|(stack, all)| (*stack, *all))
            .collect(),
        ..LocatedPhase::default()
    };
    // By place and object: lines, weighted waits, and lines beyond local memory.
    let mut parts: BTreeMap<(u32, u32), (f64, f64, f64)> = BTreeMap::new();
    let mut instructions = 0.0;
    for (counts, window) in phase.shares() {
        let Some(layout) = layouts.get(window.mappings as usize) else {
            continue;
        };
        let cached = window.cached.iter().copied().collect();
        let model = Window::new(added.len(), recording.overlap).with_cached(cached);
        let model = model.observing();
        let steps = window.steps.clone();
        let used = extrapolate(model, steps, window.before, &mut |address| {
            layout.pool(address, fabric)
        });
        if used.instructions == 0 {
            continue;
        }
        instructions += counts;
        let share = counts / used.instructions as f64;
        let objects = objects_of(window);
        for ((code, pool), of) in &used.by_instruction {
            let place = window.code.get(code).copied().unwrap_or(0);
            let far = added.get(*pool).copied().unwrap_or(0.0);
            let beyond = if *pool == 0 { 0.0 } else { share * of.lines };
            let none = BTreeMap::from([(0, 1.0)]);
            for (object, part) in objects.get(code).unwrap_or(&none) {
                let sum = parts.entry((place, *object)).or_default();
                sum.0 += part * share * of.lines;
                sum.1 += part * share * of.waits * far;
                sum.2 += part * beyond;
            }
        }
    }
    let sum = |of: fn(&(f64, f64, f64)) -> f64| parts.values().map(of).sum::<f64>();
    let (waits, beyond) = (sum(|part| part.1), sum(|part| part.2));
    if waits <= 0.0 && beyond <= 0.0 {
        located.unlocated_ns = phase.delay_ns;
    }
    let lines = share(phase.instructions * phase.chance(), instructions);
    for ((place, object), part) in parts {
        let share = match (waits > 0.0, beyond > 0.0) {
            (true, _) => part.1 / waits,
            // The fabric's bandwidth decided, so each line has the same part.
            (false, true) => part.2 / beyond,
            (false, false) => 0.0,
        };
        let used = MissCost {
            lines: lines * part.0,
            delay_ns: phase.delay_ns * share,
        };
        located.instructions.entry(place).or_default().add(used);
        located.objects.entry(object).or_default().add(used);
    }
    located
}

/// By instruction of a window: the objects of the lines that were new to the window when it touched them,
/// in parts of 1.
fn objects_of(window: &WindowRecord) -> BTreeMap<u64, BTreeMap<u32, f64>> {
    let mut objects: BTreeMap<u64, BTreeMap<u32, f64>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for step in window.steps.iter().skip(window.before) {
        for touch in &step.touches {
            let line = touch.address / 64;
            if let Some(object) = window.objects.get(&line)
                && !window.cached.contains(&line)
                && seen.insert(line)
            {
                *objects
                    .entry(step.code)
                    .or_default()
                    .entry(*object)
                    .or_default() += 1.0;
            }
        }
    }
    for parts in objects.values_mut() {
        let all: f64 = parts.values().sum();
        parts.values_mut().for_each(|part| *part /= all);
    }
    objects
}

/// Total cost of phases.
pub fn total(phases: &[LocatedPhase]) -> MissCost {
    let mut all = MissCost::default();
    for phase in phases {
        phase.instructions.values().for_each(|one| all.add(*one));
        all.delay_ns += phase.unlocated_ns;
    }
    all
}

/// Divides the cost of an instruction among stacks in proportion to their delay.
pub fn by_stack(stacks: &[(u32, StackUse)], used: MissCost) -> Vec<(u32, MissCost)> {
    let sum = |of: fn(&StackUse) -> f64| stacks.iter().map(|(_, all)| of(all)).sum::<f64>();
    let (delay, cpu) = (sum(|all| all.delay_ns), sum(|all| all.cpu_ns));
    stacks
        .iter()
        .map(|(stack, all)| {
            let part = match (delay > 0.0, cpu > 0.0) {
                (true, _) => all.delay_ns / delay,
                (false, true) => all.cpu_ns / cpu,
                (false, false) => 0.0,
            };
            (*stack, used.part(part))
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::estimate::Machine;
    use crate::fabric::tests::{LATENCY_NS, two};
    use crate::knuth;
    use crate::model::{Overlap, Step};
    use crate::recording::{CodePlace, FORMAT, Mappings, Object, RecordedMapping};

    pub(crate) const MIB: u64 = 1 << 20;

    /// A chase of two chains: one instruction in the first MiB, and another in the second.
    fn window(first: u64, second: u64) -> WindowRecord {
        let mut steps = Vec::new();
        let mut state = 1;
        for _ in 0..40 {
            for (code, base, register) in [(0x1000, first, 1), (0x1010, second, 2)] {
                let address = base + (knuth(&mut state) >> 40) % MIB / 64 * 64;
                steps.push(Step::load(address, &[register], &[register]).at(code));
            }
        }
        let objects = steps.iter().map(|step| {
            let address = step.touches[0].address;
            (address / 64, 1 + u32::from(address >= second))
        });
        WindowRecord {
            before: 10,
            code: BTreeMap::from([(0x1000, 1), (0x1010, 2)]),
            objects: objects.collect(),
            steps,
            ..WindowRecord::default()
        }
    }

    /// A recording of that chase, with all its memory in CXL memory.
    pub(crate) fn recording() -> Recording {
        let place = |address| CodePlace {
            image: Some(0),
            address,
        };
        let placed = |start: u64, batch| RecordedMapping {
            start,
            end: start + MIB,
            batch,
        };
        let machine = Machine {
            local_ns: 100.0,
            wait_ns: 100.0,
            here: None,
            base_ns: 0.25,
        };
        Recording {
            format: FORMAT,
            images: vec!["/program".to_owned()],
            places: vec![place(0), place(0x1000), place(0x1010)],
            stacks: vec![vec![], vec![1], vec![2]],
            objects: ["unknown", "first", "second"]
                .map(|name| Object::Mapping(name.to_owned(), MIB))
                .to_vec(),
            mappings: vec![Mappings(vec![placed(16 * MIB, 0), placed(32 * MIB, 1)])],
            phases: vec![PhaseRecord {
                windows: vec![window(16 * MIB, 32 * MIB)],
                instructions: 2e6,
                cpu_ns: 1e8,
                delay_ns: 4e8,
                chances: 1e6,
                machine: Some(machine),
                stacks: BTreeMap::from([(
                    1,
                    StackUse {
                        cpu_ns: 1e8,
                        delay_ns: 4e8,
                    },
                )]),
            }],
            overlap: Overlap::default(),
            cpu_ns: 1e8,
            running_ns: 1e8,
            threads: 1.0,
            ..Recording::default()
        }
    }

    /// Both instructions miss as often, but the far pool adds four times as much.
    #[test]
    fn delay_is_told_by_instruction_and_object_and_adds_up() {
        let recording = recording();
        let found = locate(&recording, &two(), Placement::Cxl, &LATENCY_NS);
        let phase = &found[0];
        for parts in [&phase.instructions, &phase.objects] {
            let [near, far] = [1, 2].map(|number| parts[&number]);
            assert!(
                (far.delay_ns / near.delay_ns / 4.0 - 1.0).abs() < 0.05,
                "{found:?}"
            );
            assert!(
                (near.delay_ns + far.delay_ns - 4e8).abs() < 1.0,
                "{found:?}"
            );
            // Half of the instructions' lines miss.
            assert!((near.lines / 5e5 - 1.0).abs() < 0.05, "{found:?}");
        }
        assert_eq!(total(&found).delay_ns.round(), 4e8);
        // Where all pools are as fast, bandwidth gave the delay, and lines share it.
        let found = locate(&recording, &two(), Placement::Cxl, &[100.0; 3]);
        let [near, far] = [1, 2].map(|number| found[0].instructions[&number]);
        assert!(
            (near.delay_ns / far.delay_ns - 1.0).abs() < 0.05,
            "{found:?}"
        );
        // Local memory has no part.
        let first = Placement::LocalFirst(MIB);
        let found = locate(&recording, &two(), first, &LATENCY_NS);
        assert_eq!(found[0].instructions[&1].delay_ns, 0.0);
        assert!((found[0].instructions[&2].delay_ns - 4e8).abs() < 1.0);
    }

    #[test]
    fn stacks_share_by_their_delay() {
        let stack = |delay_ns| StackUse {
            cpu_ns: 1.0,
            delay_ns,
        };
        let used = MissCost {
            lines: 8.0,
            delay_ns: 4.0,
        };
        let found = by_stack(&[(1, stack(3.0)), (2, stack(1.0))], used);
        assert_eq!(found[0].1.delay_ns, 3.0);
        assert_eq!(found[1].1.lines, 2.0);
        let found = by_stack(&[(1, stack(0.0)), (2, stack(0.0))], used);
        assert_eq!((found[0].1.lines, found[1].1.lines), (4.0, 4.0));
    }
}
