//! Statistics of a requester.

use std::mem::offset_of;

use cxlab_engine::prefetch;
use cxlab_engine::probe::{LatencyProbe, LevelIntegral};
use cxlab_engine::units::Picos;
use cxlab_protocol::{LatencyStages, LongStage};
use serde::{Deserialize, Serialize};

/// Names of the latency stages, in the order of [`StageTimes`].
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

/// Positions in [`StageTimes`] of the queueing stages, in which a request waits for a buffer slot, credits or a link.
pub const QUEUES: [usize; 5] = [HOST_QUEUE, CREDITS, SWITCH_QUEUE, DEVICE_QUEUE, MEDIA_QUEUE];

/// A request's latency by stage, in picoseconds, in the order of [`STAGE_NAMES`].
pub type StageTimes = [u64; STAGE_NAMES.len()];

/// Position of `process` in [`StageTimes`].
pub const PROCESS: usize = 0;
/// Position of `cache` in [`StageTimes`].
pub const CACHE: usize = 1;
/// Position of `host_queue` in [`StageTimes`].
pub const HOST_QUEUE: usize = 2;
/// Position of `credits` in [`StageTimes`].
pub const CREDITS: usize = 3;
/// Position of `switch_queue` in [`StageTimes`].
pub const SWITCH_QUEUE: usize = 7;
/// Position of `device_queue` in [`StageTimes`].
pub const DEVICE_QUEUE: usize = 9;
/// Position of `coherence` in [`StageTimes`].
pub const COHERENCE: usize = 10;
/// Position of `media_queue` in [`StageTimes`].
pub const MEDIA_QUEUE: usize = 11;
/// Position of `media` in [`StageTimes`].
pub const MEDIA: usize = 12;

/// Used in place of a device's number for the host's own memory.
pub const LOCAL: u16 = u16::MAX - 1;

/// Latency stages of a request: those that its messages collected, and those before the link.
#[inline]
pub fn stages_of(message_stages: &LatencyStages, process_ps: u64, cache_ps: u64) -> StageTimes {
    let long = message_stages.long();
    let long_ps = |stage: LongStage| long[stage as usize];
    [
        process_ps,
        cache_ps,
        long_ps(LongStage::HostQueue),
        long_ps(LongStage::Credits),
        u64::from(message_stages.link),
        u64::from(message_stages.port),
        u64::from(message_stages.switch),
        long_ps(LongStage::SwitchQueue),
        u64::from(message_stages.device),
        long_ps(LongStage::DeviceQueue),
        long_ps(LongStage::Coherence),
        long_ps(LongStage::MediaQueue),
        long_ps(LongStage::Media),
    ]
}

/// Requests that crossed the same number of links on their way back.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub struct HopStats {
    /// Number of requests.
    pub count: u64,
    /// Sum of their latencies in picoseconds.
    pub latency_sum_ps: u128,
    /// Sum of their queueing times (the stages of [`QUEUES`]) in picoseconds.
    pub queue_sum_ps: u128,
}

/// Why a request was not served, other than by denial.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum Failure {
    /// The request timed out. A write may have taken effect nevertheless, or may still do so.
    TimedOut,
    /// No path leads to the device. The host knows this and sent nothing.
    CutOff,
    /// The device's data of the line are corrupted.
    Poisoned,
}

/// Requests that completed without being served, with one kind of outcome. They are not part of the
/// statistics of served requests.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
pub struct UnservedRequests {
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Allocated at the first such request.
    times: Option<Box<UnservedTimes>>,
}

/// Latency of requests that were not served, and the sum of their stages.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
struct UnservedTimes {
    latency: LatencyProbe,
    stages_sum_ps: u128,
}

impl UnservedRequests {
    #[cold]
    #[inline(never)]
    fn count(&mut self, row: &RequestRow, latency: Picos) {
        match row.write {
            true => self.writes += 1,
            false => self.reads += 1,
        }
        let times = self.times.get_or_insert_default();
        times.latency.record(latency);
        times.stages_sum_ps += row.stages.iter().copied().map(u128::from).sum::<u128>();
    }

    /// Adds the counts and times of another requester.
    pub fn merge(&mut self, other: &UnservedRequests) {
        self.reads += other.reads;
        self.writes += other.writes;
        if let Some(other) = &other.times {
            let times = self.times.get_or_insert_default();
            times.latency.merge(&other.latency);
            times.stages_sum_ps += other.stages_sum_ps;
        }
    }

    /// Latency of these requests; `None` if there are none.
    pub fn latency(&self) -> Option<&LatencyProbe> {
        self.times.as_ref().map(|times| &times.latency)
    }

    /// Sum of the latencies, in picoseconds.
    pub fn latency_ps(&self) -> u128 {
        self.latency().map_or(0, LatencyProbe::sum_ps)
    }

    /// Sum of all stages, in picoseconds.
    pub fn stages_ps(&self) -> u128 {
        self.times.as_ref().map_or(0, |times| times.stages_sum_ps)
    }
}

/// One completed request, for the request log.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub struct RequestRow {
    /// Number of the requester.
    pub requester: u16,
    /// Number of the device; `u16::MAX` if the private cache responded, [`LOCAL`] if the host's own memory did.
    pub device: u16,
    /// Number of the request, by the requester's own count.
    pub id: u64,
    /// True for a write, false for a read.
    pub write: bool,
    /// Host physical address.
    pub hpa: u64,
    /// Time of issue, picoseconds.
    pub issued_ps: u64,
    /// Time of completion, picoseconds.
    pub completed_ps: u64,
    /// Links that the response crossed.
    pub hops: u16,
    /// Time spent in each stage, in picoseconds.
    pub stages: StageTimes,
    /// Whether the device denied the request because no decoder of the host maps the address.
    pub denied: bool,
    /// The failure, if neither data nor a completion came.
    pub failure: Option<Failure>,
    /// Stand-in for the line's data that was read or written, for checkers; 0 where none is kept.
    pub value: u16,
    /// Whether other caches may have the line that a coherent cache read.
    pub shared: bool,
}

/// Statistics of a requester. Counters named *ever* start at the beginning of the run, all others
/// at the beginning of measurement.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
#[repr(C)]
pub struct RequesterStats {
    /// Requests issued since the run began.
    pub issued_ever: u64,
    /// Requests completed since the run began.
    pub completed_ever: u64,
    /// Requests issued during the measurement.
    pub issued: u64,
    /// Reads completed during the measurement, served or not.
    pub reads: u64,
    /// Writes completed during the measurement, served or not.
    pub writes: u64,
    /// Requests served by the private cache, among those completed.
    pub cache_hits: u64,
    /// Messages that a device denied, since the run began.
    pub denied_ever: u64,
    /// Requests in flight, integrated over time.
    pub in_flight: LevelIntegral,
    /// Served requests, by the number of links that the response crossed.
    pub by_hops: Vec<HopStats>,
    /// Sum of each stage over all served requests, in picoseconds.
    pub stages_ps: [u64; STAGE_NAMES.len()],
    /// Latency of served reads.
    pub read_latency: LatencyProbe,
    /// Latency of served writes.
    pub write_latency: LatencyProbe,
    /// Completed requests that timed out.
    pub timed_out: UnservedRequests,
    /// Completed requests to devices that no path leads to.
    pub cut_off: UnservedRequests,
    /// Completed requests that met poison.
    pub poisoned: UnservedRequests,
    /// Completed requests that a device denied.
    pub denied: UnservedRequests,
    /// Messages that timed out, since the run began. Without caches each is a request.
    pub timed_out_ever: u64,
    /// Responses that arrived after the timeout of their message, since the run began; each belongs
    /// to one of [`Self::timed_out_ever`].
    pub late_ever: u64,
    /// Late responses by which a device denied the message, since the run began.
    pub late_denied_ever: u64,
    /// Latency of served operations of several lines, from the issue of the first line to the
    /// completion of the last; each line also counts as a request. `None` while there is none.
    pub multi_line_latency: Option<Box<LatencyProbe>>,
    /// Dirty lines written back from the private cache; not counted as requests.
    pub writebacks: u64,
    /// Lines that were read in vain; not counted as requests.
    pub overfetched: u64,
    /// Whether a request since the run began spent more than [`LatencyStages::LONGEST`] in one
    /// stage, so that its stages are lost.
    pub has_lost_stages: bool,
    /// Value of [`Self::in_flight`]'s integral when measurement began.
    pub integral_before: u128,
    /// Summed age, in picoseconds, of the requests in flight when measurement began: the part of
    /// their latency before the measurement.
    pub age_before_ps: u128,
}

impl RequesterStats {
    /// Size of the fields at the end of the struct that are not accessed for each request, in bytes.
    pub const SELDOM: usize = size_of::<Self>() - offset_of!(Self, timed_out);

    /// Prefetches the statistics of requests that crossed `hops` links, before one completes.
    #[inline]
    pub fn prefetch(&self, hops: u16) {
        if let Some(hops) = self.by_hops.get(usize::from(hops)) {
            prefetch(hops);
        }
    }

    /// Resets the statistics at the beginning of measurement. `issue_times_ps` is the sum of the issue
    /// times of the requests in flight; times in picoseconds.
    pub fn begin(&mut self, now: u64, in_flight: u64, issue_times_ps: u128) {
        let mut fresh = RequesterStats {
            issued_ever: self.issued_ever,
            completed_ever: self.completed_ever,
            denied_ever: self.denied_ever,
            timed_out_ever: self.timed_out_ever,
            late_ever: self.late_ever,
            late_denied_ever: self.late_denied_ever,
            has_lost_stages: self.has_lost_stages,
            in_flight: self.in_flight,
            ..RequesterStats::default()
        };
        fresh.integral_before = self.in_flight.at(now);
        fresh.age_before_ps = u128::from(now) * u128::from(in_flight) - issue_times_ps;
        *self = fresh;
    }

    /// Adds the statistics of another window, without integrals over time. For counters named
    /// *ever* the larger value is kept.
    pub fn merge(&mut self, other: &RequesterStats) {
        self.issued_ever = self.issued_ever.max(other.issued_ever);
        self.completed_ever = self.completed_ever.max(other.completed_ever);
        self.denied_ever = self.denied_ever.max(other.denied_ever);
        self.timed_out_ever = self.timed_out_ever.max(other.timed_out_ever);
        self.late_ever = self.late_ever.max(other.late_ever);
        self.late_denied_ever = self.late_denied_ever.max(other.late_denied_ever);
        self.has_lost_stages |= other.has_lost_stages;
        self.issued += other.issued;
        self.reads += other.reads;
        self.writes += other.writes;
        self.cache_hits += other.cache_hits;
        self.writebacks += other.writebacks;
        self.overfetched += other.overfetched;
        self.read_latency.merge(&other.read_latency);
        self.write_latency.merge(&other.write_latency);
        self.timed_out.merge(&other.timed_out);
        self.cut_off.merge(&other.cut_off);
        self.poisoned.merge(&other.poisoned);
        self.denied.merge(&other.denied);
        if let Some(other) = &other.multi_line_latency {
            self.multi_line_latency.get_or_insert_default().merge(other);
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
            sum.latency_sum_ps += hops.latency_sum_ps;
            sum.queue_sum_ps += hops.queue_sum_ps;
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

    /// Requests that completed without being served: denied, timed out, cut off, poisoned.
    pub fn unserved(&self) -> [&UnservedRequests; 4] {
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

    #[inline(always)]
    fn serve(&mut self, row: &RequestRow, latency: Picos, hit: bool) {
        // Reads and writes are mixed unpredictably, so the selection should compile without a branch.
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
        by_hops.latency_sum_ps += u128::from(latency.0);
        let waited: u64 = QUEUES.iter().map(|stage| row.stages[*stage]).sum();
        by_hops.queue_sum_ps += u128::from(waited);
    }
}
