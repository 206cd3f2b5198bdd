//! What a requester measures.

use std::mem::offset_of;

use cxlab_engine::prefetch;
use cxlab_engine::probe::{LatencyProbe, LevelIntegral};
use cxlab_engine::units::Picos;
use cxlab_protocol::{LatencyStages, LongStage};
use serde::{Deserialize, Serialize};

/// Names of the latency stages, in the order of [`Stages`].
pub const STAGE_NAMES: [&str; 13] = [
    "process",
    "cache",
    "host_queue",
    "credits",
    "link",
    "port",
    "switch",
    "switch_queue",
    "device",
    "device_queue",
    "coherence",
    "media_queue",
    "media",
];

/// Positions in [`Stages`] of the stages in which a request waits for a place or a wire.
pub const QUEUES: [usize; 5] = [HOST_QUEUE, CREDITS, SWITCH_QUEUE, DEVICE_QUEUE, MEDIA_QUEUE];

/// A request's latency by stage, in picoseconds, in the order of [`STAGE_NAMES`].
pub type Stages = [u64; STAGE_NAMES.len()];

/// Position of `process` in [`Stages`].
pub const PROCESS: usize = 0;
/// Position of `cache` in [`Stages`].
pub const CACHE: usize = 1;
/// Position of `host_queue` in [`Stages`].
pub const HOST_QUEUE: usize = 2;
/// Position of `credits` in [`Stages`].
pub const CREDITS: usize = 3;
/// Position of `switch_queue` in [`Stages`].
pub const SWITCH_QUEUE: usize = 7;
/// Position of `device_queue` in [`Stages`].
pub const DEVICE_QUEUE: usize = 9;
/// Position of `coherence` in [`Stages`].
pub const COHERENCE: usize = 10;
/// Position of `media_queue` in [`Stages`].
pub const MEDIA_QUEUE: usize = 11;
/// Position of `media` in [`Stages`].
pub const MEDIA: usize = 12;

/// In place of a device's number: the host's own memory.
pub const LOCAL: u16 = u16::MAX - 1;

/// The stages that a message gathered, and those before the link.
#[inline]
pub fn stages_of(own: &LatencyStages, process_ps: u64, cache_ps: u64) -> Stages {
    let long = own.long();
    let of = |stage: LongStage| long[stage as usize];
    [
        process_ps,
        cache_ps,
        of(LongStage::HostQueue),
        of(LongStage::Credits),
        u64::from(own.link),
        u64::from(own.port),
        u64::from(own.switch),
        of(LongStage::SwitchQueue),
        u64::from(own.device),
        of(LongStage::DeviceQueue),
        of(LongStage::Coherence),
        of(LongStage::MediaQueue),
        of(LongStage::Media),
    ]
}

/// Requests that crossed the same number of links on their way back.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub struct HopStats {
    /// How many.
    pub count: u64,
    /// Sum of their latencies, picoseconds.
    pub latency_ps: u128,
    /// Sum of their waits ([`QUEUES`]), picoseconds.
    pub queue_ps: u128,
}

/// What a request ends with when it is not served for a failure.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum Failure {
    /// Its time was over. A write may have been made nevertheless, or may be yet.
    TimedOut,
    /// The host knows that no way leads to the device, and sent nothing.
    CutOff,
    /// What the device has of the line is corrupted.
    Poisoned,
}

/// Requests that completed without being served, in one way. They enter no statistics of served
/// requests.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
pub struct Unserved {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Allocated when the first request ends so.
    times: Option<Box<UnservedTimes>>,
}

/// Latency of requests that were not served, and where it was spent.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
struct UnservedTimes {
    latency: LatencyProbe,
    stages_ps: u128,
}

impl Unserved {
    #[cold]
    #[inline(never)]
    fn count(&mut self, row: &RequestRow, latency: Picos) {
        match row.write {
            true => self.writes += 1,
            false => self.reads += 1,
        }
        let times = self.times.get_or_insert_default();
        times.latency.record(latency);
        times.stages_ps += row.stages.iter().copied().map(u128::from).sum::<u128>();
    }

    /// Adds all of another requester's.
    pub fn merge(&mut self, other: &Unserved) {
        self.reads += other.reads;
        self.writes += other.writes;
        if let Some(other) = &other.times {
            let times = self.times.get_or_insert_default();
            times.latency.merge(&other.latency);
            times.stages_ps += other.stages_ps;
        }
    }

    /// Their latency; `None` where there are none.
    pub fn latency(&self) -> Option<&LatencyProbe> {
        self.times.as_ref().map(|times| &times.latency)
    }

    /// Sum of their latencies, in picoseconds.
    pub fn latency_ps(&self) -> u128 {
        self.latency().map_or(0, LatencyProbe::sum_ps)
    }

    /// Sum of all their stages, in picoseconds.
    pub fn stages_ps(&self) -> u128 {
        self.times.as_ref().map_or(0, |times| times.stages_ps)
    }
}

/// One completed request, for the request log.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub struct RequestRow {
    /// The requester's number.
    pub requester: u16,
    /// The device's number; `u16::MAX` when the private cache answered, [`LOCAL`] when the host's
    /// own memory did.
    pub device: u16,
    /// The requester's own count of requests.
    pub id: u64,
    /// Whether it wrote.
    pub write: bool,
    /// Host physical address.
    pub hpa: u64,
    /// Time of issue, picoseconds.
    pub issued_ps: u64,
    /// Time of completion, picoseconds.
    pub completed_ps: u64,
    /// Links crossed on the way back.
    pub hops: u16,
    /// Where the time went.
    pub stages: Stages,
    /// Whether the device denied it: no decoder of the host's had its address.
    pub denied: bool,
    /// What it ended with, if neither data nor a completion came.
    pub failure: Option<Failure>,
    /// For checkers, a stand-in for the line that it read or wrote; 0 where none is kept.
    pub value: u16,
}

/// What a requester measured. Counts named *ever* run from the start; all others from the
/// beginning of measurement.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
#[repr(C)]
pub struct RequesterStats {
    /// Requests issued, ever.
    pub issued_ever: u64,
    /// Requests completed, ever.
    pub completed_ever: u64,
    /// Requests issued.
    pub issued: u64,
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Requests that the private cache answered, among those completed.
    pub cache_hits: u64,
    /// Messages that a device denied, ever.
    pub denied_ever: u64,
    /// Requests in flight, integrated over time.
    pub in_flight: LevelIntegral,
    /// Served requests by links crossed.
    pub by_hops: Vec<HopStats>,
    /// Sum of each stage over served requests, picoseconds.
    pub stages_ps: [u64; STAGE_NAMES.len()],
    /// Latency of served reads.
    pub read_latency: LatencyProbe,
    /// Latency of served writes.
    pub write_latency: LatencyProbe,
    /// Requests whose time was over, among those completed.
    pub timed_out: Unserved,
    /// Requests to devices that no way leads to, among those completed.
    pub cut_off: Unserved,
    /// Requests that met poison, among those completed.
    pub poisoned: Unserved,
    /// Requests that a device denied, among those completed.
    pub denied: Unserved,
    /// Messages whose time was over, ever. Where there are no caches, each is a request.
    pub timed_out_ever: u64,
    /// Answers that came after their message's time, ever: each to one of [`Self::timed_out_ever`].
    pub late_ever: u64,
    /// Answers among those by which a device denied the message, ever.
    pub late_denied_ever: u64,
    /// Latency of operations of several lines that were served, from the issue of the first line to the end
    /// of the last; each line is a request too. `None` while there is none.
    pub whole_latency: Option<Box<LatencyProbe>>,
    /// Dirty lines written back from the private cache; not counted as requests.
    pub writebacks: u64,
    /// A request, ever, spent more than [`LatencyStages::LONGEST`] in a stage: its stages are lost.
    pub too_long: bool,
    /// What [`Self::in_flight`] held when measurement began.
    pub integral_before: u128,
    /// Age of the requests in flight when measurement began, summed: latency that completed
    /// requests spent before the measurement.
    pub age_before_ps: u128,
}

impl RequesterStats {
    /// Bytes at its end that are not looked at for each request.
    pub const SELDOM: usize = size_of::<Self>() - offset_of!(Self, timed_out);

    /// A request will be completed soon that crossed so many links.
    #[inline]
    pub fn fetch(&self, hops: u16) {
        if let Some(hops) = self.by_hops.get(usize::from(hops)) {
            prefetch(hops);
        }
    }

    /// Measurement begins at `now`, with requests in flight that were issued at times that sum
    /// to `issued_sum`.
    pub fn begin(&mut self, now: u64, in_flight: u64, issued_sum: u128) {
        let mut fresh = RequesterStats {
            issued_ever: self.issued_ever,
            completed_ever: self.completed_ever,
            denied_ever: self.denied_ever,
            timed_out_ever: self.timed_out_ever,
            late_ever: self.late_ever,
            late_denied_ever: self.late_denied_ever,
            too_long: self.too_long,
            in_flight: self.in_flight,
            ..RequesterStats::default()
        };
        fresh.integral_before = self.in_flight.at(now);
        fresh.age_before_ps = u128::from(now) * u128::from(in_flight) - issued_sum;
        *self = fresh;
    }

    /// Adds what was measured in another window, but integrals over time. What is counted *ever* is the
    /// larger of both.
    pub fn merge(&mut self, other: &RequesterStats) {
        self.issued_ever = self.issued_ever.max(other.issued_ever);
        self.completed_ever = self.completed_ever.max(other.completed_ever);
        self.denied_ever = self.denied_ever.max(other.denied_ever);
        self.timed_out_ever = self.timed_out_ever.max(other.timed_out_ever);
        self.late_ever = self.late_ever.max(other.late_ever);
        self.late_denied_ever = self.late_denied_ever.max(other.late_denied_ever);
        self.too_long |= other.too_long;
        self.issued += other.issued;
        self.reads += other.reads;
        self.writes += other.writes;
        self.cache_hits += other.cache_hits;
        self.writebacks += other.writebacks;
        self.read_latency.merge(&other.read_latency);
        self.write_latency.merge(&other.write_latency);
        self.timed_out.merge(&other.timed_out);
        self.cut_off.merge(&other.cut_off);
        self.poisoned.merge(&other.poisoned);
        self.denied.merge(&other.denied);
        if let Some(other) = &other.whole_latency {
            self.whole_latency.get_or_insert_default().merge(other);
        }
        for (sum, stage) in self.stages_ps.iter_mut().zip(other.stages_ps) {
            *sum += stage;
        }
        if self.by_hops.len() < other.by_hops.len() {
            self.by_hops
                .resize(other.by_hops.len(), HopStats::default());
        }
        for (sum, hops) in self.by_hops.iter_mut().zip(&other.by_hops) {
            sum.count += hops.count;
            sum.latency_ps += hops.latency_ps;
            sum.queue_ps += hops.queue_ps;
        }
    }

    /// Latency of all served requests.
    pub fn latency(&self) -> LatencyProbe {
        let mut all = self.read_latency.clone();
        all.merge(&self.write_latency);
        all
    }

    /// Sum of the latencies of all served requests, in picoseconds.
    pub fn served_ps(&self) -> u128 {
        self.read_latency.sum_ps() + self.write_latency.sum_ps()
    }

    /// Requests that completed without being served, by the way in which they ended.
    pub fn unserved(&self) -> [&Unserved; 4] {
        [&self.denied, &self.timed_out, &self.cut_off, &self.poisoned]
    }

    /// Counts a completed request.
    #[inline(always)]
    pub fn complete(&mut self, row: &RequestRow, hit: bool) {
        let latency = Picos(row.completed_ps - row.issued_ps);
        self.completed_ever += 1;
        self.writes += u64::from(row.write);
        self.reads += u64::from(!row.write);
        let unserved = match row.failure {
            None if row.denied => &mut self.denied,
            None => return self.serve(row, latency, hit),
            Some(Failure::CutOff) => &mut self.cut_off,
            Some(Failure::TimedOut) => &mut self.timed_out,
            Some(Failure::Poisoned) => &mut self.poisoned,
        };
        unserved.count(row, latency);
    }

    /// Counts a served request.
    #[inline(always)]
    fn serve(&mut self, row: &RequestRow, latency: Picos, hit: bool) {
        // Nobody can predict which of the two it is, so there is no branch.
        let probe = if row.write {
            &mut self.write_latency
        } else {
            &mut self.read_latency
        };
        probe.record(latency);
        self.cache_hits += u64::from(hit);
        for (sum, stage) in self.stages_ps.iter_mut().zip(row.stages) {
            *sum += stage;
        }
        let hops = row.hops as usize;
        if self.by_hops.len() <= hops {
            self.by_hops.resize(hops + 1, HopStats::default());
        }
        let by_hops = &mut self.by_hops[hops];
        by_hops.count += 1;
        by_hops.latency_ps += u128::from(latency.0);
        let waited: u64 = QUEUES.iter().map(|stage| row.stages[*stage]).sum();
        by_hops.queue_ps += u128::from(waited);
    }
}
