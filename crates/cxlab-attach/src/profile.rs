//! A program that its processor sampled (tier 1): loads, with the addresses of their data, where the data were found,
//! and how many cycles that took.
//!
//! A perf.data file of `perf record` has such samples ([`Profile::read`]), and so has a ring that the kernel
//! writes while a program runs. [`cost`] says what CXL memory would have cost.
//!
//! Left out: lines that are written back, which no sample shows, and prefetched lines that no event counts.

pub mod cost;
mod space;

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use cxlab_perf::encode::Event;
use cxlab_perf::file::{FileError, PerfData};
use cxlab_perf::{Format, LoadOrigin, Mode, Operation, Period, Record, Sample};
use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

use crate::share;
use space::{Change, Pid};

/// Most loads that are kept (*assumed*: about a GiB).
const MOST_LOADS: usize = 1 << 24;
/// Most calls that lead to a load (*assumed*: perf's default).
const MOST_CALLS: usize = 127;

/// Use of an event.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Samples loads with their addresses.
    Loads {
        /// Whether each load that it samples missed all caches.
        misses_only: bool,
        /// Whether the processor samples from a part of the loads, so that there are more loads than the period implies.
        some_only: bool,
    },
    /// Counts lines that are read from memory, by prefetchers too.
    Lines,
    /// Counts cycles in which nothing is executed while a load misses the last level cache.
    Stalls,
    /// Counts cycles in which a load misses the last level cache, whether the program waits for it or not.
    Outstanding,
    /// Counts cycles of the processor.
    Cycles,
    /// Counts nanoseconds of CPU time.
    Clock,
    /// The event does not concern memory.
    Unused,
}

impl Role {
    const fn loads(misses_only: bool, some_only: bool) -> Role {
        Role::Loads {
            misses_only,
            some_only,
        }
    }

    fn is_loads(self) -> bool {
        matches!(self, Role::Loads { .. })
    }

    /// Whether the event samples loads, from a part of all loads.
    pub(crate) fn is_some_loads(self) -> bool {
        matches!(self, Role::Loads { some_only, .. } if some_only)
    }
}

const LOADS: Role = Role::loads(false, false);
const SOME_LOADS: Role = Role::loads(false, true);
pub(crate) const MISSES: Role = Role::loads(true, false);

/// Use of an event, by its number or else by its name.
///
/// Sources: Intel SDM volume 3B and the event lists of Linux 6.12 (`tools/perf/pmu-events/arch/x86`).
pub fn role(event: &Event) -> Role {
    use cxlab_perf::kind::{CACHES, HARDWARE, RAW, SOFTWARE};
    /// The last level cache, reads, misses.
    const LLC_READ_MISSES: u64 = 0x1_0002;
    let attr = &event.attr;
    let has_address = attr.has(Format::Addr);
    let known = match (attr.kind, attr.config & 0xffff_ffff) {
        (SOFTWARE, 0 | 1) => Role::Clock,
        // A page fault has the address of the touch: for trying where there are no counters.
        (SOFTWARE, 2 | 5 | 6) if has_address => MISSES,
        (HARDWARE, 0) => Role::Cycles,
        // LLC-misses, LONGEST_LAT_CACHE.MISS
        (HARDWARE, 3) | (CACHES, LLC_READ_MISSES) | (RAW, 0x412e) => Role::Lines,
        (RAW, 0x3c) => Role::Cycles,
        // MEM_LOAD_RETIRED.L3_MISS, MEM_LOAD_L3_MISS_RETIRED.LOCAL_DRAM and .REMOTE_DRAM
        (RAW, 0x20d1 | 0x01d3 | 0x02d3) if has_address => MISSES,
        // MEM_TRANS_RETIRED.LOAD_LATENCY
        (RAW, 0x1cd) if has_address => SOME_LOADS,
        // CYCLE_ACTIVITY.STALLS_L3_MISS, and MEMORY_ACTIVITY.STALLS_L3_MISS from Golden Cove on
        (RAW, 0x0600_06a3 | 0x0900_0947) => Role::Stalls,
        // CYCLE_ACTIVITY.CYCLES_L3_MISS, and OFFCORE_REQUESTS_OUTSTANDING.CYCLES_WITH_L3_MISS_DEMAND_DATA_RD until
        // Ice Lake and from Golden Cove on
        (RAW, 0x0200_02a3 | 0x0100_1060 | 0x0100_1020) => Role::Outstanding,
        (SOFTWARE, _) => Role::Unused,
        _ => by_name(&event.name.to_lowercase()),
    };
    match known {
        Role::Unused if has_address && attr.has(Format::DataSrc) && attr.kind > SOFTWARE => LOADS,
        known if known.is_loads() && !has_address => Role::Unused,
        known => known,
    }
}

fn by_name(name: &str) -> Role {
    // The first part that a name has decides.
    let roles = [
        ("stalls_l3_miss", Role::Stalls),
        ("cycles_l3_miss", Role::Outstanding),
        ("cycles_with_l3_miss_demand_data_rd", Role::Outstanding),
        ("longest_lat_cache.miss", Role::Lines),
        ("llc-misses", Role::Lines),
        ("cache-misses", Role::Lines),
        ("mem-loads-aux", Role::Unused),
        ("mem-loads", SOME_LOADS),
        ("load_latency", SOME_LOADS),
        ("mem_load_retired.l3_miss", MISSES),
        ("mem_load_l3_miss_retired", MISSES),
    ];
    let known = roles.into_iter().find(|(part, _)| name.contains(part));
    known.map_or(Role::Unused, |(_, role)| role)
}

/// Reason why a profile does not give the cost of CXL memory.
#[derive(thiserror::Error, Debug)]
pub enum ProfileError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The profile lacks data. The message has what was found and what is needed.
    #[error("{0}")]
    Lacks(String),
}

/// An event of a profile.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct EventUse {
    /// Name of the event, as perf writes it.
    pub name: String,
    /// Use of the event.
    pub role: Role,
    /// Number of samples of the selected processes.
    pub samples: u64,
    /// Number of events that the samples stand for.
    pub events: f64,
    /// Whether the event was counted instead of sampled.
    pub counted: bool,
}

/// Loads with one source of data.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
pub struct FoundSum {
    /// Number of samples.
    pub samples: u64,
    /// Number of loads that the samples stand for.
    pub loads: f64,
    /// Mean time of a load in cycles, or 0 if it is unknown.
    pub mean_cycles: f64,
}

/// A sampled load that waited for memory.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Load {
    time: u64,
    pid: Pid,
    ip: u64,
    address: u64,
    /// Number of loads that the sample stands for.
    loads: f64,
    /// Time of the load, and delay of its retirement, in cycles.
    cycles: u32,
    retire_cycles: u16,
    /// Whether the load requested its line, and did not merge with a fill in flight.
    is_miss: bool,
    /// Number of the list of calls that led to the load.
    calls: u32,
}

/// Summary of a profile's samples.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
pub struct Samples {
    /// Name of the machine, if it is known.
    pub host: Option<String>,
    /// Name of the processor, if it is known.
    pub processor: Option<String>,
    /// Events, in the file's order.
    pub events: Vec<EventUse>,
    /// Loads by the source of their data.
    pub found: BTreeMap<String, FoundSum>,
    /// Number of records that were lost.
    pub lost: u64,
    /// Whether the kernel sampled less often for a time.
    pub throttled: bool,
    /// Sampled misses in the kernel, which are left out.
    pub in_kernel: f64,
}

/// Samples of a program.
#[derive(Clone, Default, Debug)]
pub struct Profile {
    /// Summary of the samples.
    pub samples: Samples,
    loads: Vec<Load>,
    calls: Vec<Vec<u64>>,
    history: Vec<(u64, Change)>,
    /// Time between the first and the last sample, in nanoseconds.
    span_ns: u64,
}

impl Profile {
    /// Reads a file. With `only`, records of other processes are skipped.
    ///
    /// # Errors
    /// [`ProfileError`]: the file is damaged, or has no samples of loads with their addresses.
    pub fn read<R: Read + Seek>(
        file: &mut PerfData<R>,
        only: Option<Pid>,
    ) -> Result<Profile, ProfileError> {
        let mut reader = ProfileReader::new(&file.events, only)?;
        reader.profile.samples.host = file.host.clone();
        reader.profile.samples.processor = file.processor.clone();
        let mut wrong = None;
        file.records(&mut |event, time, record| {
            let recorded = reader.record(event, time, record);
            wrong = recorded.err();
            wrong.is_none()
        })?;
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let profile = reader.finish();
        let of_loads = |event: &&EventUse| event.role.is_loads();
        let mut events = profile.samples.events.iter().filter(of_loads);
        if events.clone().all(|event| event.samples == 0) {
            let name = events.next().map_or("loads", |event| &event.name);
            let whose = only.map_or(String::new(), |pid| format!(" of process {pid}"));
            return Err(ProfileError::Lacks(format!(
                "found no sample of {name}{whose}; sample more often (-c), and turn AUX data of Arm's SPE into samples (perf \
                 inject --itrace)"
            )));
        }
        Ok(profile)
    }

    /// Number of events with that use, and its uncertainty because of sampling. `None` without such events.
    fn sum(&self, role: Role) -> Option<(f64, f64)> {
        let events = self.samples.events.iter().filter(|one| one.role == role);
        let seen = events.filter(|event| event.samples > 0 || event.counted);
        let seen: Vec<&EventUse> = seen.collect();
        let samples: u64 = seen.iter().map(|event| event.samples).sum();
        let open = share(1.0, samples as f64).sqrt();
        let all = seen.iter().map(|event| event.events).sum();
        (!seen.is_empty()).then_some((all, open))
    }

    /// Whether the processor sampled from a part of the loads.
    fn is_of_some_loads(&self) -> bool {
        let of_some = |event: &EventUse| event.samples > 0 && event.role.is_some_loads();
        self.samples.events.iter().any(of_some)
    }
}

/// Builds a profile from records.
pub struct ProfileReader {
    profile: Profile,
    /// Sampling period of each event, in events. `None` if each sample has its own.
    periods: Vec<Option<u64>>,
    only: Option<Pid>,
    calls: IndexSet<Vec<u64>>,
    /// Number of records, which replaces their time if they have none.
    records: u64,
    times: Option<(u64, u64)>,
    cycles: BTreeMap<String, f64>,
}

const NEEDED: &str = "needed are samples of loads with their addresses, for example by `perf mem record`, or by \
                      `perf record -d -W -e cpu/mem-loads,ldlat=30/P` on Intel's processors and \
                      `perf record -d -W -e ibs_op//` on AMD's";

impl ProfileReader {
    /// A reader for records of the events `known`. With `only`, records of other processes are skipped.
    ///
    /// # Errors
    /// [`ProfileError::Lacks`]: no event samples loads with their addresses.
    pub fn new(known: &[Event], only: Option<Pid>) -> Result<ProfileReader, ProfileError> {
        ProfileReader::of(known.iter().map(|event| (event, role(event))), only)
    }

    /// Like [`ProfileReader::new`], with the use of each event given.
    ///
    /// # Errors
    /// As [`ProfileReader::new`] has them.
    pub fn of<'a>(
        known: impl Iterator<Item = (&'a Event, Role)>,
        only: Option<Pid>,
    ) -> Result<ProfileReader, ProfileError> {
        let mut events = Vec::new();
        let mut periods = Vec::new();
        for (event, role) in known {
            let (attr, name) = (&event.attr, &event.name);
            periods.push(match attr.period() {
                _ if attr.has(Format::Period) => None,
                Period::Events(events) => Some(events),
                Period::PerSecond(_) if role == Role::Unused => Some(1),
                Period::PerSecond(_) => {
                    return Err(ProfileError::Lacks(format!(
                        "the samples of {name} do not say how many events each stands for; record with a period \
                         (-c 10007)"
                    )));
                }
            });
            let all = matches!(role, Role::Loads { misses_only, .. } if !misses_only);
            if all && !attr.has(Format::DataSrc) {
                return Err(ProfileError::Lacks(format!(
                    "the samples of {name} do not say where loads found their data; record with -d"
                )));
            }
            events.push(EventUse {
                name: name.clone(),
                role,
                samples: 0,
                events: 0.0,
                counted: false,
            });
        }
        if !events.iter().any(|event| event.role.is_loads()) {
            let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
            return Err(ProfileError::Lacks(format!(
                "found samples of {}; {NEEDED}",
                names.join(", ")
            )));
        }
        let mut profile = Profile::default();
        profile.samples.events = events;
        Ok(ProfileReader {
            profile,
            periods,
            only,
            calls: [Vec::new()].into(),
            records: 0,
            times: None,
            cycles: BTreeMap::new(),
        })
    }

    /// Adds a record of an event, by the event's number, with its time in nanoseconds.
    ///
    /// # Errors
    /// [`ProfileError::Lacks`]: there are too many sampled misses.
    pub fn record(
        &mut self,
        event: usize,
        time: Option<u64>,
        record: Record<'_>,
    ) -> Result<(), ProfileError> {
        self.records += 1;
        let at = time.unwrap_or(self.records);
        let history = &mut self.profile.history;
        match record {
            Record::Sample(sample) => return self.sample(event, at, &sample),
            Record::Mapped(mapped) if mapped.pid >= 0 => {
                history.push((at, Change::Mapped(mapped)));
            }
            Record::Executes { pid } => history.push((at, Change::Executes(pid))),
            Record::Fork(task) if task.pid != task.parent_pid => {
                let (parent, child) = (task.parent_pid, task.pid);
                history.push((at, Change::Forks { parent, child }));
            }
            Record::Lost(records) => {
                let lost = &mut self.profile.samples.lost;
                *lost = lost.saturating_add(records);
            }
            Record::Throttled => self.profile.samples.throttled = true,
            Record::Mapped(_) | Record::Fork(_) | Record::Exit(_) | Record::Other(_) => {}
        }
        Ok(())
    }

    /// Adds `events` occurrences of an event that is counted instead of sampled.
    pub fn count(&mut self, event: usize, events: f64) {
        let of = &mut self.profile.samples.events[event];
        of.events += events;
        of.counted = true;
    }

    /// Adds a sample to the sums by source of data, and keeps sampled misses in user space.
    fn sample(&mut self, event: usize, at: u64, sample: &Sample<'_>) -> Result<(), ProfileError> {
        // The kernel's own threads have the process 0 or no program's memory.
        if self.only.is_some_and(|only| only != sample.pid) || sample.pid <= 0 {
            return Ok(());
        }
        let of = self.periods[event].or(sample.period).unwrap_or(1) as f64;
        let seen = &mut self.profile.samples.events[event];
        let in_kernel = sample.mode != Mode::User;
        let is_of_program = matches!(seen.role, Role::Stalls | Role::Outstanding | Role::Lines);
        if in_kernel && is_of_program {
            return Ok(());
        }
        seen.samples += 1;
        seen.events += of;
        if let Some(time) = sample.time {
            let (first, last) = self.times.unwrap_or((time, time));
            self.times = Some((first.min(time), last.max(time)));
        }
        let Role::Loads { misses_only, .. } = seen.role else {
            return Ok(());
        };
        let found = match sample.source {
            Some(source) if source.found() != LoadOrigin::Unknown => {
                if source.operation() != Operation::Load {
                    return Ok(());
                }
                source.found()
            }
            _ if misses_only => LoadOrigin::Memory {
                remote: false,
                cxl: false,
            },
            _ => LoadOrigin::Unknown,
        };
        let weight = sample.weight.unwrap_or_default();
        let name = name_of(found).to_owned();
        let sum = self.profile.samples.found.entry(name.clone()).or_default();
        sum.samples += 1;
        sum.loads += of;
        *self.cycles.entry(name).or_default() += of * f64::from(weight.cycles);
        let is_miss = matches!(found, LoadOrigin::Memory { .. });
        let address = sample.address.filter(|address| *address > 0);
        let Some(address) = address.filter(|_| is_miss || found == LoadOrigin::InFlight) else {
            return Ok(());
        };
        if in_kernel {
            self.profile.samples.in_kernel += if is_miss { of } else { 0.0 };
            return Ok(());
        }
        if self.profile.loads.len() == MOST_LOADS {
            return Err(ProfileError::Lacks(format!(
                "found more than {MOST_LOADS} sampled misses; record with a longer period (-c)"
            )));
        }
        let calls = sample.calls.of_user().take(MOST_CALLS).collect();
        self.profile.loads.push(Load {
            time: at,
            pid: sample.pid,
            ip: sample.ip,
            address,
            loads: of,
            cycles: weight.cycles,
            retire_cycles: weight.retire_cycles,
            is_miss,
            calls: self.calls.insert_full(calls).0 as u32,
        });
        Ok(())
    }

    /// The profile of all records.
    pub fn finish(self) -> Profile {
        let mut profile = self.profile;
        profile.calls = self.calls.into_iter().collect();
        for (name, sum) in &mut profile.samples.found {
            let cycles = self.cycles.get(name).copied().unwrap_or(0.0);
            sum.mean_cycles = cycles / sum.loads.max(1.0);
        }
        // Rings of several processors are written one after the other.
        profile.history.sort_by_key(|(time, _)| *time);
        profile.loads.sort_by_key(|load| load.time);
        profile.span_ns = self.times.map_or(0, |(first, last)| last - first);
        profile
    }
}

/// Name of the last level cache as a source of data.
const LAST_LEVEL: &str = "L3";

/// Name of a source of data, as a key in reports.
fn name_of(found: LoadOrigin) -> &'static str {
    match found {
        LoadOrigin::Cache(1) => "L1",
        LoadOrigin::Cache(2) => "L2",
        LoadOrigin::Cache(3) => LAST_LEVEL,
        LoadOrigin::Cache(_) => "L4",
        LoadOrigin::InFlight => "under way",
        LoadOrigin::OtherCache => "another core's cache",
        LoadOrigin::Memory { cxl: true, .. } => "CXL memory",
        LoadOrigin::Memory { remote: true, .. } => "another node's memory",
        LoadOrigin::Memory { .. } => "memory",
        LoadOrigin::Device => "a device",
        LoadOrigin::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests;
