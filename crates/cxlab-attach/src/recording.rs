//! What one attached run keeps of a program, so that its delay can be told by place ([`crate::located`])
//! and for other placements and fabrics ([`crate::replay`]) without running it again.
//!
//! It has some windows of each piece of code with every address, how many instructions were executed there,
//! which calls led there, and what the touched memory is.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::estimate::Machine;
use crate::model::{Overlap, Step};
use crate::placement::{Layout, Placement, Region};
use crate::share;

/// Version of the format.
pub const FORMAT: u32 = 2;

/// Number of a list of calls in [`Recording::stacks`]; 0 is the empty one.
pub type StackId = u32;

/// A place in a program's code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
pub struct CodePlace {
    /// Number of the code's file ([`Recording::images`]). `None` for code without a file, such
    /// as that of a just-in-time compiler.
    pub image: Option<u32>,
    /// Address in the file's own numbering, or in the process if the code has no file.
    pub address: u64,
}

/// Identity of a piece of a program's memory.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Object {
    /// Allocated by the call at the end of this list of calls.
    Allocated(StackId),
    /// A variable of a file, at this address in the file's numbering.
    Static(CodePlace),
    /// A mapping of this name: a file's path, `[heap]`, `[stack]`, or `anonymous`, and its size in bytes.
    Mapping(String, u64),
    /// Memory without a known mapping.
    Unknown,
}

/// An allocation site.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Site {
    /// The calls that lead to the site.
    pub stack: StackId,
    /// Peak of the bytes allocated at the site, up to the last window that touched them.
    pub most_bytes: u64,
    /// Number of allocations up to that window.
    pub count: u64,
}

/// A mapping of a process.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct RecordedMapping {
    /// Address of its first byte.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Mappings with a lower number were found by an earlier scan.
    pub batch: u32,
}

/// The mappings of a process at a time.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Mappings(pub Vec<RecordedMapping>);

impl Mappings {
    /// Places these mappings in the order in which they were seen.
    pub fn layout(&self, placement: Placement) -> Layout {
        let mut layout = Layout::new(placement);
        let mut batches: Vec<u32> = self.0.iter().map(|placed| placed.batch).collect();
        batches.sort_unstable();
        batches.dedup();
        for batch in batches {
            let seen = self.0.iter().filter(|placed| placed.batch <= batch);
            let regions: Vec<Region> = seen
                .map(|placed| Region {
                    start: placed.start,
                    end: placed.end,
                })
                .collect();
            layout.update(&regions);
        }
        layout
    }

    /// Takes over the mappings of a process. New mappings belong to the next batch.
    pub fn update(&mut self, regions: &[Region]) {
        let next = self.0.iter().map(|placed| placed.batch + 1).max();
        let next = next.unwrap_or(0);
        let old = std::mem::take(&mut self.0);
        for region in regions {
            let mut at = region.start;
            let fresh = |start, end| RecordedMapping {
                start,
                end,
                batch: next,
            };
            let inside = old
                .iter()
                .filter(|placed| placed.end > region.start && placed.start < region.end);
            for placed in inside {
                let (start, end) = (placed.start.max(region.start), placed.end.min(region.end));
                self.0.extend((start > at).then(|| fresh(at, start)));
                self.0.push(RecordedMapping {
                    start,
                    end,
                    ..*placed
                });
                at = end;
            }
            let left = at < region.end;
            self.0.extend(left.then(|| fresh(at, region.end)));
        }
    }

    /// Bytes of all mappings.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|placed| placed.end - placed.start).sum()
    }
}

/// A recorded window.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
pub struct WindowRecord {
    /// Number of instructions of the lead-in, which only mark lines as touched.
    pub before: usize,
    /// The instructions, with the process's addresses.
    pub steps: Vec<Step>,
    /// Place of each instruction, by its address.
    pub code: BTreeMap<u64, u32>,
    /// Object of each line of 64 bytes that was new to the window, by its number.
    pub objects: BTreeMap<u64, u32>,
    /// Lines that are in a cache because other windows of the process touched them too ([`crate::reuse`]).
    pub cached: BTreeSet<u64>,
    /// Number of the window among those of all processes.
    pub number: u64,
    /// Number of the mappings at that time.
    pub mappings: u32,
    /// Weight of the window: instructions of its phase priced until the next kept window.
    pub stands_for: f64,
}

/// CPU time and delay of a list of calls.
#[derive(Clone, Copy, Default, PartialEq, Serialize, Deserialize, Debug)]
pub struct StackUse {
    /// CPU time with a price, in nanoseconds.
    pub cpu_ns: f64,
    /// Delay requested for that time, in nanoseconds.
    pub delay_ns: f64,
}

/// A piece of code of a process.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Debug)]
pub struct PhaseRecord {
    /// The windows that were kept, in the order in which they were taken.
    pub windows: Vec<WindowRecord>,
    /// Number of priced instructions of the phase.
    pub instructions: f64,
    /// CPU time with a price, in nanoseconds.
    pub cpu_ns: f64,
    /// Requested delay, in nanoseconds.
    pub delay_ns: f64,
    /// Sum over the instructions of the probability that a new line misses the last level cache.
    pub chances: f64,
    /// The machine that the last estimate used.
    pub machine: Option<Machine>,
    /// CPU time and delay by the calls that led to the phase.
    pub stacks: BTreeMap<StackId, StackUse>,
}

impl WindowRecord {
    /// Lines that may miss: those that were new to the window, and that no other window touched.
    pub fn missing(&self) -> impl Iterator<Item = &u64> {
        let lines = self.objects.keys();
        lines.filter(|line| !self.cached.contains(line))
    }
}

impl PhaseRecord {
    /// Each window with the share of the instructions that it stands for.
    pub fn shares(&self) -> impl Iterator<Item = (f64, &WindowRecord)> {
        let all: f64 = self.windows.iter().map(|window| window.stands_for).sum();
        let equal = 1.0 / self.windows.len().max(1) as f64;
        self.windows.iter().map(move |window| {
            let share = window.stands_for / all;
            (if all > 0.0 { share } else { equal }, window)
        })
    }

    /// Mean probability that a new line misses the last level cache.
    pub fn chance(&self) -> f64 {
        share(self.chances, self.instructions).clamp(0.0, 1.0)
    }
}

/// Recording of one run of a program.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
pub struct Recording {
    /// [`FORMAT`].
    pub format: u32,
    /// Paths of the files that code and variables are from.
    pub images: Vec<String>,
    /// Places in code.
    pub places: Vec<CodePlace>,
    /// Lists of calls, innermost first. The first list is empty.
    pub stacks: Vec<Vec<u32>>,
    /// Objects in memory.
    pub objects: Vec<Object>,
    /// Allocation sites that windows saw.
    pub sites: Vec<Site>,
    /// Mappings of processes, as windows saw them.
    pub mappings: Vec<Mappings>,
    /// Pieces of code, of all processes.
    pub phases: Vec<PhaseRecord>,
    /// Overlap of misses that the run used.
    pub overlap: Overlap,
    /// CPU time of all threads, in nanoseconds.
    pub cpu_ns: f64,
    /// Time in which threads ran without being held, in nanoseconds.
    pub running_ns: f64,
    /// Mean number of threads while the fabric was asked.
    pub threads: f64,
    /// Notes on what is missing.
    pub notes: Vec<String>,
}

impl Recording {
    /// Checks that the values are plausible for a run.
    ///
    /// # Errors
    /// The first implausible value, as a sentence.
    pub fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!("found format {}; allowed: {FORMAT}", self.format));
        }
        for mappings in &self.mappings {
            let mut end = 0;
            for placed in &mappings.0 {
                if placed.start < end || placed.end <= placed.start {
                    return Err(format!(
                        "a mapping from {:#x} to {:#x} behind {end:#x}; allowed: by address, not empty, and \
                         not in each other",
                        placed.start, placed.end
                    ));
                }
                end = placed.end;
            }
        }
        let Overlap {
            window,
            misses,
            stream,
        } = self.overlap;
        if window == 0 || !(1.0..=1e6).contains(&misses) || !(misses..=1e6).contains(&stream) {
            return Err(format!(
                "an overlap of {window}:{misses}:{stream}; allowed: 1 and more of each"
            ));
        }
        let times = self.phases.iter().flat_map(|phase| {
            [
                phase.instructions,
                phase.cpu_ns,
                phase.delay_ns,
                phase.chances,
            ]
        });
        let times = times.chain([self.cpu_ns, self.running_ns, self.threads]);
        for time in times {
            if !(0.0..=1e24).contains(&time) {
                return Err(format!("a time or number of {time}; allowed: 0 and more"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_recording_is_refused() {
        let good = crate::located::tests::recording();
        assert_eq!(good.check(), Ok(()));
        let refused = |change: fn(&mut Recording)| {
            let mut bad = good.clone();
            change(&mut bad);
            bad.check().unwrap_err()
        };
        assert!(refused(|bad| bad.format = 9).contains("format 9"));
        assert!(refused(|bad| bad.mappings[0].0.reverse()).contains("a mapping"));
        assert!(refused(|bad| bad.mappings[0].0[0].end = 0).contains("a mapping"));
        assert!(refused(|bad| bad.overlap.window = 0).contains("overlap"));
        assert!(refused(|bad| bad.phases[0].cpu_ns = -1.0).contains("-1"));
        assert!(refused(|bad| bad.threads = f64::NAN).contains("NaN"));
    }

    fn regions(pages: &[(u64, u64)]) -> Vec<Region> {
        let region = |&(start, end): &(u64, u64)| Region {
            start: start << 12,
            end: end << 12,
        };
        pages.iter().map(region).collect()
    }

    /// Mappings are placed as they were when they were seen one after another.
    #[test]
    fn mappings_are_placed_in_the_order_in_which_they_were_seen() {
        let seen = [
            regions(&[(10, 14)]),
            regions(&[(2, 4), (10, 16)]),
            regions(&[(2, 4), (8, 9), (11, 16)]),
        ];
        for placement in [
            Placement::Cxl,
            Placement::LocalFirst(5 << 12),
            Placement::Interleave(1, 2),
            Placement::Above(2 << 12),
        ] {
            let (mut mappings, mut layout) = (Mappings::default(), Layout::new(placement));
            for regions in &seen[..2] {
                mappings.update(regions);
                layout.update(regions);
                let again = mappings.layout(placement);
                for page in 0..20u64 {
                    assert_eq!(
                        again.place(page << 12),
                        layout.place(page << 12),
                        "{placement} {page}"
                    );
                }
            }
            mappings.update(&seen[2]);
            assert_eq!(mappings.bytes(), 8 << 12);
            let batches: Vec<u32> = mappings.0.iter().map(|placed| placed.batch).collect();
            assert_eq!(batches, [1, 2, 0, 1]);
        }
    }
}
