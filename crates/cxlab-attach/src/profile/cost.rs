//! What CXL memory would have cost a sampled program.
//!
//! For a part of its time a program has a miss outstanding, one or several at once. Behind a pool whose latency is
//! longer by a part of the local one, that time is longer by the same part: as many misses as before are outstanding
//! at once, and as much is computed meanwhile. So the delay is that time times the added latency over the local one,
//! pool by pool. Events of processors count a miss from when the last level cache is known not to have the line, so the
//! time of a lookup there is taken from the local latency. Which pools the misses are in is known of sampled loads, each of which counts for the loads that it
//! stands for times its own latency.
//!
//! Where no event counts that time ([`OutstandingMethod`]), it is between the time that the program is seen to stand still, or that
//! of its misses if as many as possible are outstanding at once, and that of its misses one after the other.
//!
//! Left out: computing that a longer wait would hide, lines that are written back, and changes of what caches hold.

use std::collections::BTreeMap;

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

use super::space::{KERNEL_START, NOT_RECORDED, Spaces};
use super::{LAST_LEVEL, Profile, ProfileError, Role};
use crate::fabric::{Demand, Fabric, PoolResponse, settled};
use crate::located::{LocatedPhase, MissCost};
use crate::model::Overlap;
use crate::placement::Placement;
use crate::recording::{CodePlace, FORMAT, Object, Recording, StackUse};
use crate::share;
use crate::slowdown::{PoolReport, Slowdown};

/// Largest ratio of counted time with misses outstanding to CPU time (*assumed*: events are multiplexed, and each has
/// an error of its own).
const MOST_OUTSTANDING: f64 = 1.1;
/// Least time for which a miss counts as outstanding, as a part of the local latency (*assumed*: no lookup of a last level
/// cache takes most of the latency).
const MIN_MISS_TIME: f64 = 0.2;
/// Share of the CPU time with misses outstanding below which their addresses are not needed (*assumed*).
const MIN_SHARE: f64 = 1e-3;
/// Half-width of the interval, in standard errors of sampling.
const STANDARD_ERRORS: f64 = 2.0;

/// The machine on which a profile was recorded.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SampledMachine {
    /// Latency of the machine's memory, in nanoseconds.
    pub local_ns: f64,
    /// Time of a lookup of the last level cache, in nanoseconds. Events of the processor count a miss as outstanding only
    /// after it. `None` if the time is unknown.
    pub lookup_ns: Option<f64>,
    /// Overlap of misses, for profiles that do not count the time with misses outstanding.
    pub overlap: Overlap,
    /// CPU time of the program in nanoseconds, instead of the profile's.
    pub cpu_ns: Option<f64>,
}

/// Method that determined the time with misses outstanding.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum OutstandingMethod {
    /// An event counts the time.
    Counted,
    /// The geometric mean of a lower and an upper bound.
    Between,
}

/// Time with misses outstanding, natively, in nanoseconds.
#[derive(Clone, Copy)]
struct Outstanding {
    how: OutstandingMethod,
    /// Time of a miss that is outstanding alone.
    each_ns: f64,
    least_ns: f64,
    ns: f64,
    most_ns: f64,
}

/// Cost of CXL memory for a profiled program.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct ProfileCost {
    /// The slowdown. Its interval includes the sampling error, and the bounds of [`OutstandingMethod::Between`].
    pub slowdown: Slowdown,
    /// Method that determined the time with misses outstanding.
    pub how: OutstandingMethod,
    /// Time with misses outstanding, natively, in seconds.
    pub outstanding_s: f64,
    /// Use of each pool.
    pub pools: Vec<PoolReport>,
    /// Time of a lookup of the last level cache, in nanoseconds. `None` if it is unknown.
    pub lookup_ns: Option<f64>,
    /// Share of sampled misses whose mapping was not recorded.
    pub without_mapping: f64,
    /// Bytes mapped at the end by the process with most.
    pub mapped_bytes: u64,
    /// Bytes of these that are CXL memory.
    pub cxl_bytes: u64,
    /// Places, calls and objects that [`located`](Self::located) refers to.
    pub recording: Recording,
    /// Delay by place, with one entry for each list of calls.
    pub located: Vec<LocatedPhase>,
}

impl ProfileCost {
    /// Scales the delay by place to `delay_ns`, the delay charged to a run.
    pub fn charge(&mut self, delay_ns: f64) {
        let own_ns = 1e9 * (self.slowdown.with_cxl_s - self.slowdown.native_s);
        let part = share(delay_ns, own_ns);
        for one in &mut self.located {
            let of_places = one.instructions.values_mut();
            for used in of_places.chain(one.objects.values_mut()) {
                used.delay_ns *= part;
            }
            for (_, used) in &mut one.stacks {
                used.delay_ns *= part;
            }
            one.unlocated_ns *= part;
        }
    }
}

/// Loads of a profile with their pools.
struct PooledLoads {
    pool: usize,
    /// Numbers of the place in the code, of the list of calls, and of the object.
    place: u32,
    stack: u32,
    object: u32,
    /// Number of lines that the load stands for.
    lines: f64,
    /// The load's part of the time with misses outstanding.
    part: f64,
}

impl Profile {
    /// Cost of this program on a fabric, with its memory placed by `placement`.
    ///
    /// # Errors
    /// [`ProfileError::Lacks`]: the CPU time of the program is unknown or shorter than the time with misses outstanding,
    /// or no sample has an address.
    pub fn cost(
        &self,
        fabric: &mut dyn Fabric,
        placement: Placement,
        machine: &SampledMachine,
    ) -> Result<ProfileCost, ProfileError> {
        let clock = Clock::of(self, machine)?;
        let mut numbers = Numbers::default();
        let mut spaces = Spaces::new(placement, &self.history);
        let (placed, without_mapping) = self.place(fabric, &mut spaces, &mut numbers);
        let (mapped_bytes, cxl_bytes) = spaces.bytes();
        let outstanding = self.outstanding(&clock, machine)?;
        let pools = fabric.pools();
        let mut sums = Sums::of(&placed, pools.len());
        if placed.iter().all(|load| load.part <= 0.0) && outstanding.ns > MIN_SHARE * clock.cpu_ns {
            return Err(ProfileError::Lacks(format!(
                "misses are outstanding for {:.3} s, but no load was sampled that says where they are; sample more \
                 often (-c)",
                outstanding.ns / 1e9
            )));
        }
        let open = STANDARD_ERRORS * self.sampling_error(&placed);
        // One after the other, misses take no longer than this.
        let miss_ns = match self.is_of_some_loads() {
            // There are more than samples stand for.
            true => f64::INFINITY,
            false => outstanding.each_ns * (1.0 + open),
        };
        let [least, beyond_ns, most] = sums.beyond(&outstanding, miss_ns);
        // An event that counts all lines also has those that were prefetched.
        let counted = self.sum(Role::Lines);
        let counted = counted.map_or(0.0, |(lines, _)| lines);
        let all_lines: f64 = sums.lines.iter().sum();
        let scale = (counted / all_lines.max(1.0)).max(1.0);
        sums.lines.iter_mut().for_each(|lines| *lines *= scale);
        let delay = |answers: &[PoolResponse], ns: f64| -> f64 {
            // The fabric may need longer for the lines than the program takes.
            let stretch = answers.iter().skip(1).map(|answer| answer.stretch);
            let stretched = (stretch.fold(1.0, f64::max) - 1.0) * clock.cpu_ns;
            let waits = ns / outstanding.each_ns;
            sums.delay(answers, waits, machine.local_ns).max(stretched)
        };
        let running_ns = (self.span_ns as f64).clamp(1.0, clock.cpu_ns.max(1.0));
        let threads = (clock.cpu_ns / running_ns).max(1.0);
        let demand = |lines: &f64| Demand {
            reads_per_ns: *lines,
            ..Demand::default()
        };
        let lines: Vec<Demand> = sums.lines.iter().map(demand).collect();
        let in_flight = (machine.overlap.stream, threads);
        let delayed = |answers: &[PoolResponse]| delay(answers, beyond_ns);
        let answers = settled(fabric, &lines, in_flight, running_ns, &delayed);
        let delay_ns = delay(&answers, beyond_ns);
        let factor = |delay_ns: f64| 1.0 + delay_ns / clock.cpu_ns;
        let slowdown = Slowdown {
            native_s: clock.cpu_ns / 1e9,
            with_cxl_s: (clock.cpu_ns + delay_ns) / 1e9,
            factor: factor(delay_ns),
            least: factor(delay(&answers, least) * (1.0 - open).max(0.0)),
            most: factor(delay(&answers, most) * (1.0 + open)),
        };
        let weights = |load: &PooledLoads| load.part * added(&answers, load.pool, machine.local_ns);
        let located = located(&placed, delay_ns, scale, &weights);
        let here = (outstanding.ns - beyond_ns) / outstanding.each_ns;
        let waits = [here, beyond_ns / outstanding.each_ns];
        Ok(ProfileCost {
            slowdown,
            how: outstanding.how,
            outstanding_s: outstanding.ns / 1e9,
            pools: sums.pools(pools, &answers, waits, machine.local_ns),
            lookup_ns: self.lookup(&clock, machine),
            without_mapping,
            mapped_bytes,
            cxl_bytes,
            recording: numbers.recording(machine.overlap, clock.cpu_ns, threads),
            located,
        })
    }

    /// Time of a load that hits the last level cache, by samples or else by the machine's value.
    fn lookup(&self, clock: &Clock, machine: &SampledMachine) -> Option<f64> {
        let hits = self.samples.found.get(LAST_LEVEL);
        let hits = hits.filter(|found| found.mean_cycles > 0.0);
        let sampled = hits.zip(clock.cycle_ns);
        let sampled = sampled.map(|(found, cycle_ns)| found.mean_cycles * cycle_ns);
        sampled.or(machine.lookup_ns)
    }

    /// Time with misses outstanding natively.
    fn outstanding(
        &self,
        clock: &Clock,
        machine: &SampledMachine,
    ) -> Result<Outstanding, ProfileError> {
        let counted = self.sum(Role::Outstanding);
        let stalled = self.sum(Role::Stalls);
        let loads = self.loads.iter();
        let retired = loads.map(|load| load.loads * f64::from(load.retire_cycles));
        let retired: f64 = retired.sum();
        let known = counted.or(stalled).is_some() || retired > 0.0;
        let cycle_ns = match clock.cycle_ns {
            Some(cycle_ns) => cycle_ns,
            None if !known => 0.0,
            None => {
                return Err(ProfileError::Lacks(
                    "the profile does not say how long a cycle is; record cycles and task-clock too (-e \
                     cycles,task-clock)"
                        .to_owned(),
                ));
            }
        };
        let counted_ns = counted.map(|(cycles, _)| cycles * cycle_ns);
        let stalled_ns = retired.max(stalled.map_or(0.0, |(cycles, _)| cycles)) * cycle_ns;
        let longest = counted_ns.unwrap_or(stalled_ns);
        if longest > MOST_OUTSTANDING * clock.cpu_ns {
            return Err(ProfileError::Lacks(format!(
                "the program waits for memory for {:.3} s, which is more than its CPU time of {:.3} s",
                longest / 1e9,
                clock.cpu_ns / 1e9
            )));
        }
        if let Some(ns) = counted_ns {
            let ns = ns.min(clock.cpu_ns);
            let lookup_ns = self.lookup(clock, machine).unwrap_or(0.0);
            let each_ns = machine.local_ns - lookup_ns;
            return Ok(Outstanding {
                how: OutstandingMethod::Counted,
                each_ns: each_ns.max(MIN_MISS_TIME * machine.local_ns),
                least_ns: ns,
                ns,
                most_ns: ns,
            });
        }
        let misses = self.loads.iter().filter(|load| load.is_miss);
        let alone_ns = misses.map(|load| load.loads).sum::<f64>() * machine.local_ns;
        let least_ns = (alone_ns / machine.overlap.misses).max(stalled_ns);
        let least_ns = least_ns.min(clock.cpu_ns);
        let most_ns = match self.is_of_some_loads() {
            // There are more misses than samples stand for.
            true => clock.cpu_ns,
            false => alone_ns.clamp(least_ns, clock.cpu_ns),
        };
        Ok(Outstanding {
            how: OutstandingMethod::Between,
            each_ns: machine.local_ns,
            least_ns,
            ns: (least_ns * most_ns).sqrt(),
            most_ns,
        })
    }

    /// Finds the pools of all loads. Returns them with the share of misses outside recorded mappings.
    fn place(
        &self,
        fabric: &dyn Fabric,
        spaces: &mut Spaces<'_>,
        numbers: &mut Numbers,
    ) -> (Vec<PooledLoads>, f64) {
        let has_weights = self.loads.iter().any(|load| load.cycles > 0);
        let mut placed = Vec::with_capacity(self.loads.len());
        let (mut without, mut all) = (0.0, 0.0);
        for load in &self.loads {
            let lines = if load.is_miss { load.loads } else { 0.0 };
            let part = match has_weights {
                true => load.loads * f64::from(load.cycles),
                false => lines,
            };
            let (space, layout) = spaces.at(load.time, load.pid, load.address);
            let (pool, object) = match load.address {
                KERNEL_START.. => (0, Object::Mapping("the kernel".to_owned(), 0)),
                address => {
                    let mapping = space.mapping(address).map(|(_, mapping)| mapping);
                    let name = mapping.map_or("", |mapping| &*mapping.name);
                    all += lines;
                    without += if name == NOT_RECORDED { lines } else { 0.0 };
                    let pool = layout.pool(address, fabric).unwrap_or(0);
                    let bytes = mapping.map_or(0, |mapping| mapping.bytes);
                    (pool, Object::Mapping(of_memory(name).to_owned(), bytes))
                }
            };
            let calls = self.calls.get(load.calls as usize);
            let calls = calls.map_or(&[][..], Vec::as_slice);
            placed.push(PooledLoads {
                pool,
                place: numbers.place(space, load.ip),
                stack: numbers.stack(space, calls, load.ip),
                object: numbers.objects.insert_full(object).0 as u32,
                lines,
                part,
            });
        }
        (placed, share(without, all))
    }

    /// Relative standard error of the delay by sampling.
    fn sampling_error(&self, placed: &[PooledLoads]) -> f64 {
        let sum: f64 = placed.iter().map(|load| load.part).sum();
        let squares: f64 = placed.iter().map(|load| load.part * load.part).sum();
        let loads = share(squares, sum * sum);
        let counted = self.sum(Role::Outstanding);
        let counted = counted.map_or(0.0, |(_, open)| open);
        (loads + counted * counted).sqrt()
    }
}

/// Latency that a pool adds, in nanoseconds. Pool 0 is local memory.
fn added(answers: &[PoolResponse], pool: usize, local_ns: f64) -> f64 {
    match pool {
        0 => 0.0,
        _ => (answers[pool].latency_ns - local_ns).max(0.0),
    }
}

/// Sums over loads, by pool.
struct Sums {
    /// Number of lines read.
    lines: Vec<f64>,
    /// Parts of the time with misses outstanding.
    parts: Vec<f64>,
}

impl Sums {
    fn of(placed: &[PooledLoads], pools: usize) -> Sums {
        let mut sums = Sums {
            lines: vec![0.0; pools],
            parts: vec![0.0; pools],
        };
        for load in placed {
            sums.lines[load.pool] += load.lines;
            sums.parts[load.pool] += load.part;
        }
        sums
    }

    /// Least, proportional and largest native time with misses of CXL memory outstanding. The largest assumes that these
    /// misses never overlap, with `miss_ns` each. The least is the time that local misses cannot explain.
    fn beyond(&self, outstanding: &Outstanding, miss_ns: f64) -> [f64; 3] {
        let beyond = |all: &[f64]| all.iter().skip(1).sum::<f64>();
        let all: f64 = self.parts.iter().sum();
        let share = share(beyond(&self.parts), all);
        let &Outstanding {
            least_ns,
            ns,
            most_ns,
            ..
        } = outstanding;
        if share == 0.0 || share == 1.0 {
            return [least_ns, ns, most_ns].map(|ns| ns * share);
        }
        let least = (least_ns - self.lines[0] * miss_ns).max(0.0);
        let most = most_ns.min(beyond(&self.lines) * miss_ns);
        [
            least.min(least_ns * share),
            ns * share,
            most.max(most_ns * share),
        ]
    }

    /// Share of a pool in the time with misses of CXL memory outstanding.
    fn share(&self, pool: usize) -> f64 {
        share(self.parts[pool], self.parts.iter().skip(1).sum())
    }

    /// Delay of `waits` latencies of CXL memory, in nanoseconds.
    fn delay(&self, answers: &[PoolResponse], waits: f64, local_ns: f64) -> f64 {
        let pools = 1..self.parts.len();
        let of = |pool: usize| self.share(pool) * added(answers, pool, local_ns);
        pools.map(of).sum::<f64>() * waits
    }

    /// Use of each pool, given the waits for local and for CXL memory.
    fn pools(
        &self,
        names: Vec<String>,
        answers: &[PoolResponse],
        [here, beyond]: [f64; 2],
        local_ns: f64,
    ) -> Vec<PoolReport> {
        let all: f64 = self.lines.iter().sum();
        let report = |(pool, name): (usize, String)| {
            let (waits, latency_ns) = match pool {
                0 => (here, local_ns),
                _ => (beyond * self.share(pool), answers[pool].latency_ns),
            };
            PoolReport {
                name,
                share: share(self.lines[pool], all),
                misses: self.lines[pool],
                write_backs: 0.0,
                waits,
                latency_ns: (waits > 0.0).then_some(latency_ns),
            }
        };
        names.into_iter().enumerate().map(report).collect()
    }
}

/// Name of a mapping for users.
fn of_memory(name: &str) -> &str {
    match name {
        "" | "//anon" => "anonymous",
        name => name,
    }
}

/// CPU time of a profile.
struct Clock {
    cpu_ns: f64,
    cycle_ns: Option<f64>,
}

impl Clock {
    fn of(profile: &Profile, machine: &SampledMachine) -> Result<Clock, ProfileError> {
        let clock = profile.sum(Role::Clock).map(|(ns, _)| ns);
        let cycles = profile.sum(Role::Cycles);
        let cycles = cycles.map(|(all, _)| all).filter(|cycles| *cycles > 0.0);
        let processor = profile.samples.processor.as_deref();
        let nominal_ns = processor.and_then(nominal_cycle_ns);
        let by_cycles = cycles.zip(nominal_ns).map(|(cycles, ns)| cycles * ns);
        let cpu_ns = machine.cpu_ns.or(clock).or(by_cycles);
        let Some(cpu_ns) = cpu_ns.filter(|cpu_ns| *cpu_ns > 0.0) else {
            return Err(ProfileError::Lacks(
                "the profile does not say how much CPU time the program used; record task-clock too (-e \
                 task-clock), or give --cpu-time"
                    .to_owned(),
            ));
        };
        let cycle_ns = cycles.map(|cycles| cpu_ns / cycles).or(nominal_ns);
        Ok(Clock { cpu_ns, cycle_ns })
    }
}

/// Length of a cycle in nanoseconds, from the frequency in the processor's name, which Intel's names have.
fn nominal_cycle_ns(processor: &str) -> Option<f64> {
    let (_, frequency) = processor.rsplit_once("@ ")?;
    let gigahertz: f64 = frequency.strip_suffix("GHz")?.trim().parse().ok()?;
    (gigahertz > 0.0).then(|| 1.0 / gigahertz)
}

/// Delay and lines by calls, and within these by place in the code and by object. The delay is divided by the loads' weight.
fn located(
    placed: &[PooledLoads],
    delay_ns: f64,
    scale: f64,
    weight: &dyn Fn(&PooledLoads) -> f64,
) -> Vec<LocatedPhase> {
    let all: f64 = placed.iter().map(weight).sum();
    let mut located: BTreeMap<u32, LocatedPhase> = BTreeMap::new();
    for load in placed {
        let used = MissCost {
            lines: scale * load.lines,
            delay_ns: delay_ns * share(weight(load), all),
        };
        let one = located.entry(load.stack).or_insert_with(|| LocatedPhase {
            stacks: vec![(load.stack, StackUse::default())],
            ..LocatedPhase::default()
        });
        one.instructions.entry(load.place).or_default().add(used);
        one.objects.entry(load.object).or_default().add(used);
        one.stacks[0].1.delay_ns += used.delay_ns;
    }
    let mut located: Vec<LocatedPhase> = located.into_values().collect();
    if all <= 0.0 && delay_ns > 0.0 {
        located.push(LocatedPhase {
            unlocated_ns: delay_ns,
            ..LocatedPhase::default()
        });
    }
    located
}

/// Numbers of places, calls and objects, as a [`Recording`] has them.
#[derive(Default)]
struct Numbers {
    images: IndexSet<String>,
    places: IndexSet<CodePlace>,
    stacks: IndexSet<Vec<u32>>,
    objects: IndexSet<Object>,
}

impl Numbers {
    /// Number of the place of an instruction, given as an offset in its file.
    fn place(&mut self, space: &super::space::Space, ip: u64) -> u32 {
        let (mut image, mut address) = (None, ip);
        if let Some((start, mapping)) = space.mapping(ip)
            && mapping.name.starts_with('/')
            && !mapping.name.starts_with("//")
        {
            image = Some(self.images.insert_full(mapping.name.to_string()).0 as u32);
            address = ip - start + mapping.offset;
        }
        self.places.insert_full(CodePlace { image, address }).0 as u32
    }

    /// Calls that led to an instruction, without the instruction itself.
    fn stack(&mut self, space: &super::space::Space, calls: &[u64], ip: u64) -> u32 {
        let calls = match calls.split_first() {
            Some((first, callers)) if *first == ip => callers,
            _ => calls,
        };
        // Addresses of callers are behind their calls.
        let place = |call: &u64| self.place(space, call.saturating_sub(1));
        let places = calls.iter().map(place).collect();
        self.stacks.insert_full(places).0 as u32
    }

    fn recording(self, overlap: Overlap, cpu_ns: f64, threads: f64) -> Recording {
        Recording {
            format: FORMAT,
            images: self.images.into_iter().collect(),
            places: self.places.into_iter().collect(),
            stacks: self.stacks.into_iter().collect(),
            objects: self.objects.into_iter().collect(),
            overlap,
            cpu_ns,
            running_ns: cpu_ns / threads,
            threads,
            ..Recording::default()
        }
    }
}
