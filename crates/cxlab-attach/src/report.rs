//! The report of an attached run.

use serde::{Deserialize, Serialize};

use crate::ledger::Accounts;
use crate::model::Overlap;
use crate::profile::cost::{OutstandingMethod, ProfileCost};
use crate::profile::{Profile, ProfileError, Role, Samples};
use crate::slowdown::{PoolReport, Slowdown};

/// The tier of a run: how it found misses, and how good that method is.
#[derive(Clone, Serialize, Deserialize, PartialEq, Eq, Debug)]
pub struct Tier {
    /// Rank of the tier, from 1 (best) to 4.
    pub number: u8,
    /// Name of the method.
    pub name: String,
    /// Accuracy to be expected of the method.
    pub error_class: String,
    /// Reason why each better tier was not used, one line each.
    pub refused: Vec<String>,
}

/// How the program ended.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Eq, Default, Debug)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The program exited with this code.
    Exited(i32),
    /// This signal killed the program.
    Killed(i32),
    /// cxlab detached, and the program runs on.
    #[default]
    Detached,
}

/// CPU time by the method that determined its number of instructions, in seconds, and further sums.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Default, Debug)]
pub struct CpuParts {
    /// CPU time whose number of instructions is known from registers.
    pub counted_s: f64,
    /// CPU time whose instructions follow from the pace at which registers counted the same code.
    pub paced_s: f64,
    /// User CPU time whose instructions follow from the model's own time for them.
    pub priced_s: f64,
    /// CPU time without a price: in the kernel, whose memory stays local.
    pub kernel_s: f64,
    /// User CPU time without a price: of code that no window saw.
    pub unpriced_s: f64,
    /// Time that the model gives for all priced code with all memory being this machine's own. The delay is compared
    /// with it. It is of the machine that the model describes, without page tables, kernel and neighbours.
    pub modelled_s: f64,
    /// Extra CPU time that counted code took after holds compared with elsewhere. It is part of the
    /// time taken by attaching.
    pub slowed_s: f64,
}

/// Results of events of the processor (tier 1).
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct SampledReport {
    /// Time with misses outstanding natively, in seconds.
    pub outstanding_s: f64,
    /// Method that determined this time.
    pub outstanding_known: OutstandingMethod,
    /// Time of a lookup of the last level cache, in nanoseconds. `None` if it is unknown.
    pub lookup_ns: Option<f64>,
    /// Share of sampled misses whose mapping was not recorded, from 0 to 1.
    pub without_mapping: f64,
    /// Summary of samples and counts.
    pub profile: Samples,
}

impl Tier {
    /// The tier of sampled addresses.
    pub fn sampling() -> Tier {
        Tier {
            number: 1,
            name: "hardware address sampling".to_owned(),
            error_class:
                "compared with the event engine on exact samples alone, and never with hardware \
                          (docs/explain/attach.md)"
                    .to_owned(),
            refused: Vec::new(),
        }
    }
}

/// Name of tier 2.
const COUNTING: &str = "counting events and windows";

impl AttachReport {
    /// Makes this the report of a run whose lines an event counted (tier 2).
    pub fn with_lines(&mut self, lines: f64, wrong: Option<String>) {
        self.tier.number = 2;
        self.tier.name = COUNTING.to_owned();
        self.tier.refused.retain(|line| !line.starts_with("tier 2"));
        let placed: f64 = self.pools.iter().map(|pool| pool.misses).sum();
        if placed < (1.0 - NOTABLE) * lines {
            self.notes.push(format!(
                "{:.0} of {lines:.0} counted lines have no price: they are of the kernel, or of code whose windows \
                 touch no memory",
                lines - placed
            ));
        }
        if let Some(wrong) = wrong {
            self.notes
                .push(format!("some lines were not counted: {wrong}"));
        }
    }

    /// Makes this the report of a run whose misses were sampled by events of the processor (tier 1).
    pub fn with_samples(&mut self, profile: &Profile, cost: Result<&ProfileCost, &ProfileError>) {
        self.tier = Tier::sampling();
        self.parts = CpuParts::default();
        match cost {
            Ok(cost) => {
                // The requested delay follows the load at each time.
                let with_cxl_s = cost.slowdown.native_s + self.delay.asked_ns as f64 / 1e9;
                let factor = with_cxl_s / cost.slowdown.native_s;
                self.slowdown = Some(Slowdown {
                    with_cxl_s,
                    factor,
                    least: cost.slowdown.least.min(factor),
                    most: cost.slowdown.most.max(factor),
                    ..cost.slowdown
                });
                self.no_slowdown = None;
                let sampled = SampledReport::of(profile, cost);
                let misses = self.pools.iter().map(|pool| pool.misses).sum();
                self.notes.extend(sampled.notes(misses));
                self.sampled = Some(sampled);
            }
            Err(why) => {
                self.slowdown = None;
                self.no_slowdown = Some(why.to_string());
            }
        }
    }
}

impl SampledReport {
    /// Results of a profile and its cost.
    pub fn of(profile: &Profile, cost: &ProfileCost) -> SampledReport {
        SampledReport {
            outstanding_s: cost.outstanding_s,
            outstanding_known: cost.how,
            lookup_ns: cost.lookup_ns,
            without_mapping: cost.without_mapping,
            profile: profile.samples.clone(),
        }
    }

    /// Notes for users on a profile with this number of misses.
    pub fn notes(&self, misses: f64) -> Vec<String> {
        let samples = &self.profile;
        let mut notes = Vec::new();
        let has = |role: fn(&Role) -> bool| {
            let mut events = samples.events.iter();
            events.any(|event| event.events > 0.0 && role(&event.role))
        };
        if self.outstanding_known == OutstandingMethod::Between {
            notes.push(
                "how many misses are outstanding at once is not known: the interval is from all that the processor \
                 can have to one after the other; on Intel's processors record cycles, task-clock and \
                 cycle_activity.cycles_l3_miss too (on servers from Ice Lake on \
                 offcore_requests_outstanding.cycles_with_l3_miss_demand_data_rd)"
                    .to_owned(),
            );
        }
        if self.outstanding_known == OutstandingMethod::Counted && self.lookup_ns.is_none() {
            notes.push(
                "a miss is counted as outstanding from when the last-level cache is known not to have the line; how long \
                 that takes is not known, so that the delay is too low by its part of the local latency (record loads that \
                 hit too: mem-loads)"
                    .to_owned(),
            );
        }
        if !has(|role| *role == Role::Lines) {
            let some = match has(|role| role.is_some_loads()) {
                true => ", and the processor looked at some of those only: there are more misses",
                false => "",
            };
            notes.push(format!(
                "lines that were prefetched are not counted, so that the load of the fabric is too low{some}"
            ));
        }
        if self.without_mapping > NOTABLE {
            notes.push(format!(
                "{:.1} % of the misses are in memory whose mapping was not recorded, which is placed where it was \
                 first missed (record with -d)",
                100.0 * self.without_mapping
            ));
        }
        if samples.in_kernel > NOTABLE * misses {
            notes.push(format!(
                "{:.0} misses in the kernel, whose memory stays local, are left out",
                samples.in_kernel
            ));
        }
        if samples.lost > 0 {
            notes.push(format!(
                "{} records were lost, so that there are more misses (sample less often, or record with more \
                 memory, -m)",
                samples.lost
            ));
        }
        if samples.throttled {
            notes.push(
                "the kernel sampled less often for a time, so that there are more misses (sample less often)"
                    .to_owned(),
            );
        }
        if samples.found.contains_key("CXL memory") {
            notes.push(
                "the program had CXL memory when it was recorded; its waits for that are taken for waits for local \
                 memory"
                    .to_owned(),
            );
        }
        notes.push("lines that are written back are not known".to_owned());
        notes
    }
}

/// Share of misses without a mapping, or in the kernel, above which there is a note.
const NOTABLE: f64 = 0.01;

/// Report of an attached run.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct AttachReport {
    /// Kind of the report: always "attach".
    pub mode: String,
    /// Method that found the misses.
    pub tier: Tier,
    /// How addresses were assigned to pools.
    pub placement: String,
    /// Number of processes that were followed.
    pub processes: u64,
    /// Number of threads that were followed.
    pub threads: u64,
    /// How the program, or the process attached to, ended.
    pub end: End,
    /// Slowdown by CXL memory. If it is `None`, `no_slowdown` has the reason.
    pub slowdown: Option<Slowdown>,
    /// Reason why there is no slowdown.
    pub no_slowdown: Option<String>,
    /// Real time from the first instruction to the end.
    pub real_s: f64,
    /// CPU time of all threads, without the time of windows.
    pub cpu_s: f64,
    /// Parts of the CPU time.
    #[serde(flatten)]
    pub parts: CpuParts,
    /// Delay of all threads: requested, charged, held, and taken by attaching itself. The taken
    /// time counts as charged as far as delay was requested.
    pub delay: Accounts,
    /// `charged / asked - 1`, in per cent. 0 if no delay was requested.
    pub delay_error_percent: f64,
    /// Real time without holds, with the cost of attaching. With several threads, it lacks the longest hold of a thread.
    pub undelayed_s: f64,
    /// Number of exact windows.
    pub windows: u64,
    /// Number of instructions in exact windows.
    pub window_instructions: u64,
    /// Time that threads were stopped for windows.
    pub window_s: f64,
    /// Latency of this machine's memory that the estimate used.
    pub local_latency_ns: f64,
    /// Bytes of last level cache that the program is assumed to have.
    pub llc_bytes: u64,
    /// Overlap of misses that the estimate used.
    pub overlap: Overlap,
    /// Use of each pool.
    pub pools: Vec<PoolReport>,
    /// With events of the processor: time with misses outstanding natively, and the samples.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<SampledReport>,
    /// Assumptions and limits of this run that the user should know.
    pub notes: Vec<String>,
}
