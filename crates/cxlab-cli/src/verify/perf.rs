//! What hardware that samples addresses would say of an execution that is known exactly: misses go into a ring as the
//! kernel writes them, one of so many, and what is read from it is priced as a profile is (tier 1).
//!
//! The time with misses outstanding is the event engine's, with all memory local. Left out: misses of stores, which such
//! events do not sample, and what a prefetcher hides of a load's latency.

use cxlab_attach::placement::Placement;
use cxlab_attach::profile::ProfileReader;
use cxlab_attach::profile::cost::SampledMachine;
use cxlab_perf::encode::Event;
use cxlab_perf::ring::Written;
use cxlab_perf::{Attr, Format, MemoryMapping, Mode, Record, Sample, Weight};

use super::{Assumed, EngineSide, ModelSide, PeriodResult};
use crate::program_fabric::ProgramFabric;

/// Sampling periods in misses: primes, so that loops do not resonate with them.
pub(super) const PERIODS: [u64; 4] = [1, 101, 1009, 10_007];
/// Bytes of the ring, and number of samples after which it is read (*assumed*: perf's 512 KiB; more samples do not fit).
const RING: usize = 512 << 10;
const SAMPLES_PER_DRAIN: u64 = 4096;
/// Number of the program's process.
const PID: i32 = 1;
/// Numbers of the events.
const LOADS: usize = 0;
const OUTSTANDING: usize = 1;
const CYCLES: usize = 2;
const CLOCK: usize = 3;

/// A load that missed the last level cache.
#[derive(Clone, Copy, Debug)]
struct Miss {
    time: u64,
    thread: u16,
    ip: u64,
    address: u64,
}

/// Loads that missed, and mappings of memory.
#[derive(Clone, Default, Debug)]
pub(super) struct Sampling {
    misses: Vec<Miss>,
    mapped: Vec<(u64, u64, u64)>,
}

impl Sampling {
    /// Adds a miss of a thread's instruction. With one thread, `time` is the number of the instruction.
    pub(super) fn load(&mut self, time: u64, thread: u16, ip: u64, address: u64) {
        self.misses.push(Miss {
            time,
            thread,
            ip,
            address,
        });
    }

    /// Switches to times in nanoseconds when a second thread begins. Earlier instruction numbers are converted by
    /// interpolation between `points`, which have both.
    pub(super) fn in_time(&mut self, points: &[(u64, u64)]) {
        let time_of = |number: u64| {
            let behind = points.partition_point(|(other, _)| *other < number);
            let (from, from_ns) = match behind {
                0 => (0, 0),
                behind => points[behind - 1],
            };
            let (to, to_ns) = points.get(behind).copied().unwrap_or((number, from_ns));
            let part = (number - from) as f64 / (to - from).max(1) as f64;
            from_ns + (part * (to_ns - from_ns) as f64) as u64
        };
        for miss in &mut self.misses {
            miss.time = time_of(miss.time);
        }
        for (time, ..) in &mut self.mapped {
            *time = time_of(*time);
        }
    }

    /// Adds a mapping of memory.
    pub(super) fn map(&mut self, time: u64, start: u64, end: u64) {
        self.mapped.push((time, start, end));
    }

    /// Result of sampling one of `period` misses.
    ///
    /// # Errors
    /// Reason why the samples give no result.
    pub(super) fn price(
        &self,
        period: u64,
        engine: &EngineSide,
        assumed: &Assumed,
        placement: Placement,
        fabric: &mut ProgramFabric<'_>,
    ) -> Result<PeriodResult, String> {
        let events = events(period);
        let mut profile = ProfileReader::new(&events, None).map_err(|error| error.to_string())?;
        let mut ring = Written::new(RING, events[LOADS].attr);
        let mut mapped = self.mapped.iter().peekable();
        let cycles = (assumed.local_ns() / assumed.base_ns()).round() as u32;
        let mut wrong = None;
        let mut empty = |ring: &mut Written, profile: &mut ProfileReader| {
            ring.take(&mut |record| {
                let time = match &record {
                    Record::Sample(sample) => sample.time,
                    _ => None,
                };
                if let Err(error) = profile.record(LOADS, time, record) {
                    wrong = Some(error.to_string());
                }
            })
            .map_err(|error| error.to_string())
        };
        let sampled = self.misses.iter().skip(period as usize / 2);
        for (number, miss) in (1..).zip(sampled.step_by(period as usize)) {
            while let Some((time, start, end)) = mapped.next_if(|(time, ..)| *time <= miss.time) {
                let mapped = MemoryMapping {
                    pid: PID,
                    start: *start,
                    bytes: end - start,
                    offset: 0,
                    executable: false,
                    name: "//anon".to_owned(),
                };
                let recorded = profile.record(LOADS, Some(*time), Record::Mapped(mapped));
                recorded.map_err(|error| error.to_string())?;
            }
            ring.push(&Record::Sample(sample(miss, cycles)), miss.time);
            if number % SAMPLES_PER_DRAIN == 0 {
                empty(&mut ring, &mut profile)?;
            }
        }
        empty(&mut ring, &mut profile)?;
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        for (event, of) in [
            (OUTSTANDING, engine.local_outstanding_ns / assumed.base_ns()),
            (CYCLES, engine.local_ns / assumed.base_ns()),
            (CLOCK, engine.local_ns),
        ] {
            profile.count(event, of);
        }
        let machine = SampledMachine {
            local_ns: assumed.local_ns(),
            // The assumed cache takes no time.
            lookup_ns: Some(0.0),
            overlap: assumed.overlap,
            cpu_ns: None,
        };
        let cost = profile.finish().cost(fabric, placement, &machine);
        let cost = cost.map_err(|error| error.to_string())?;
        let beyond = cost.pools.iter().skip(1);
        let side = ModelSide {
            lines: beyond.clone().map(|pool| pool.misses).sum(),
            waits: beyond.map(|pool| pool.waits).sum(),
            local_ns: engine.local_ns,
            delay_ns: 1e9 * (cost.slowdown.with_cxl_s - cost.slowdown.native_s),
            ..ModelSide::default()
        };
        Ok(PeriodResult {
            period,
            side: side.compared(engine),
            least: cost.slowdown.least,
            most: cost.slowdown.most,
        })
    }
}

fn sample(miss: &Miss, cycles: u32) -> Sample<'static> {
    Sample {
        mode: Mode::User,
        pid: PID,
        tid: PID + i32::from(miss.thread),
        ip: miss.ip,
        time: Some(miss.time),
        address: Some(miss.address),
        weight: Some(Weight {
            cycles,
            retire_cycles: 0,
        }),
        ..Sample::default()
    }
}

/// Events of an Intel processor as for `perf record`.
fn events(period: u64) -> Vec<Event> {
    let event = |name: &str, kind, config, period, fields: &[Format]| Event {
        attr: Attr {
            sample_period: period,
            sample_type: Format::bits(fields),
            ..Attr::of_user(kind, config)
        },
        ids: Vec::new(),
        name: name.to_owned(),
    };
    let load = [
        Format::Ip,
        Format::Tid,
        Format::Time,
        Format::Addr,
        Format::Weight,
    ];
    let count = [Format::Tid, Format::Period];
    vec![
        event("mem_load_retired.l3_miss", 4, 0x20d1, period, &load),
        event("cycle_activity.cycles_l3_miss", 4, 0x0200_02a3, 1, &count),
        event("cycles", 0, 0, 1, &count),
        event("task-clock", 1, 1, 1, &count),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_instructions_become_times_when_a_second_thread_begins() {
        let mut sampling = Sampling::default();
        sampling.map(50, 0, 4096);
        for number in [100, 150, 300] {
            sampling.load(number, 0, 0, 0);
        }
        sampling.in_time(&[(100, 1000), (200, 1500)]);
        sampling.load(2000, 1, 0, 0);
        let times: Vec<u64> = sampling.misses.iter().map(|miss| miss.time).collect();
        assert_eq!(times, [1000, 1250, 1500, 2000]);
        assert_eq!(sampling.mapped, [(500, 0, 4096)]);
    }
}
