//! The simplest medium: a fixed latency, a bandwidth, and banks that stay busy for a cycle.
//!
//! A request waits first for its bank and then for the data bus, and completes one latency later.
//! The bus serves requests in order of arrival: one that waits for its bank holds up all later ones,
//! also those whose banks are free. Left out: rows, refresh, scheduling, which other media have.

use std::collections::VecDeque;

use cxlab_cache::{Completion, MemoryBackend, MemoryRequest, Statistic};
use cxlab_engine::catalog::{Entry, in_range, read_params, refused};
use cxlab_engine::units::{Bytes, BytesPerSec, LINE_BYTES, Picos, SimTime};
use cxlab_engine::{prefetch, save_state};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Medium, MediumSite};

/// Parameters of the `fixed` medium.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct FixedParams {
    /// Latency of a read. Default 46 ns: an idle random read of DDR5-4800 with closed rows, with
    /// tRCD + tCL + burst and controller (*assumed*; data sheets give 16.7 + 16.7 + 3.3 ns for the
    /// device by itself).
    pub latency: Picos,
    /// Time from the start of a write until the medium has finished it. The write occupies one of the `queue`
    /// entries for this time. A controller with `write_completion = "accepted"`, the default, completes a
    /// write when the medium accepts it. The latency of a write then contains no `write_latency`, but writes
    /// wait where the queue is full. Default: as a read.
    pub write_latency: Option<Picos>,
    /// Bandwidth of all banks together, reads and writes. Default: unlimited.
    pub bandwidth: Option<BytesPerSec>,
    /// Number of banks that work in parallel. Consecutive lines are in consecutive banks. 1 to
    /// 65536. Default 1.
    #[schemars(range(min = 1, max = 65536))]
    pub banks: u32,
    /// Whether each round of lines over the banks begins one bank later than the round before, so that
    /// aligned blocks of memory do not all begin in the same bank (skewed storage). Default false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bank_skew: bool,
    /// Time for which a request keeps its bank busy. With `bandwidth`, a request that waits for its bank
    /// holds up all later ones, also those for free banks (head-of-line blocking). Default 0 ns: banks
    /// never stall a request.
    pub bank_cycle: Picos,
    /// Most requests in the medium. 1 to 65536. Default 256 (*assumed*: four DDR5 channels of 64 entries).
    #[schemars(range(min = 1, max = 65536))]
    pub queue: u32,
}

impl Default for FixedParams {
    fn default() -> Self {
        FixedParams {
            latency: Picos::from_nanos(46),
            write_latency: None,
            bandwidth: None,
            banks: 1,
            bank_skew: false,
            bank_cycle: Picos::ZERO,
            queue: 256,
        }
    }
}

pub(crate) const ENTRY: Entry<Box<dyn Medium>> = Entry {
    name: "fixed",
    summary: "fixed latency, a bandwidth limit, banks with a busy time",
    schema: <FixedParams as JsonSchema>::json_schema,
    build: |params| {
        let params: FixedParams = read_params(params)?;
        in_range("banks", params.banks, 1..=65536)?;
        in_range("queue", params.queue, 1..=65536)?;
        if let Some(none @ BytesPerSec(0)) = params.bandwidth {
            return Err(refused("bandwidth", none, "1 B/s and more"));
        }
        Ok(Box::new(params))
    },
};

impl Medium for FixedParams {
    fn backend(&self, _site: MediumSite) -> Box<dyn MemoryBackend> {
        Box::new(FixedMemory {
            read_ps: self.latency.0,
            write_ps: self.write_latency.unwrap_or(self.latency).0,
            line_ps: self
                .bandwidth
                .map_or(0, |rate| rate.time_for(Bytes(LINE_BYTES)).0),
            cycle_ps: self.bank_cycle.0,
            bank_free: vec![0; self.banks as usize],
            skew: u64::from(self.bank_skew),
            bus_free: 0,
            capacity: self.queue as usize,
            returns_times: self.bank_cycle.0 == 0
                && self.write_latency.is_none_or(|write| write == self.latency),
            returned: 0,
            pending: VecDeque::new(),
            waits: Waits::default(),
        })
    }

    fn keeps_state(&self) -> bool {
        false
    }

    fn idle_read_ps(&self) -> Option<u64> {
        Some(self.latency.0)
    }
}

/// Completed requests are removed once this many are pending (*assumed*).
const REMOVAL_SIZE: usize = 8;

struct FixedMemory {
    read_ps: u64,
    write_ps: u64,
    line_ps: u64,
    cycle_ps: u64,
    /// By bank, the time from which it is free, in picoseconds.
    bank_free: Vec<u64>,
    /// Number of banks by which each round of lines begins later.
    skew: u64,
    /// Time from which the bus is free, in picoseconds.
    bus_free: u64,
    /// Most requests in the queue.
    capacity: usize,
    /// Whether `enqueue` returns completion times. It may if no request overtakes another, until `defer`.
    returns_times: bool,
    /// Number of completions at the front of `pending` that `enqueue` returned before `defer`.
    returned: usize,
    /// Completions in order of time.
    pending: VecDeque<Completion>,
    /// Since the measurement began.
    waits: Waits,
}

/// Requests, and the sums of their waits for banks and for the bus.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Waits {
    requests: u64,
    bank_ps: u64,
    bus_ps: u64,
}

save_state!(FixedMemory {
    values: bus_free, returns_times, returned, pending, waits;
    sized: bank_free;
    built: read_ps, write_ps, line_ps, cycle_ps, capacity, skew;
});

impl FixedMemory {
    /// Removes requests whose completion time `enqueue` returned, once they are done.
    fn forget(&mut self, now: SimTime) {
        while self.pending.front().is_some_and(|first| first.at <= now) {
            self.pending.pop_front();
        }
    }
}

impl MemoryBackend for FixedMemory {
    fn can_accept(&mut self, now: SimTime, _write: bool) -> bool {
        // Several are removed at once, because the processor cannot predict whether the first
        // is done. The bound keeps the list short and cached, and completed requests never
        // fill the queue.
        if self.returns_times && self.pending.len() + 1 >= self.capacity.min(REMOVAL_SIZE) {
            self.forget(now);
        }
        self.pending.len() < self.capacity
    }

    fn prefetch(&self) {
        for done in [self.pending.front(), self.pending.back()]
            .into_iter()
            .flatten()
        {
            prefetch(done);
        }
    }

    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime> {
        let mut start = now.0;
        self.waits.requests += 1;
        if self.cycle_ps > 0 {
            let (line, banks) = (request.dpa.line().0, self.bank_free.len() as u64);
            let bank = ((line + self.skew * (line / banks)) % banks) as usize;
            start = start.max(self.bank_free[bank]);
            self.bank_free[bank] = start + self.cycle_ps;
            self.waits.bank_ps += start - now.0;
        }
        if self.line_ps > 0 {
            let ready = start;
            start = start.max(self.bus_free);
            self.waits.bus_ps += start - ready;
            self.bus_free = start + self.line_ps * u64::from(request.lines);
        }
        let latency = if request.write {
            self.write_ps
        } else {
            self.read_ps
        };
        let done = Completion {
            id: request.id,
            at: SimTime(start + latency),
        };
        if self.returns_times {
            self.pending.push_back(done);
            return Some(done.at);
        }
        let place = match self.pending.back() {
            Some(last) if last.at > done.at => {
                self.pending.partition_point(|other| other.at <= done.at)
            }
            _ => self.pending.len(),
        };
        self.pending.insert(place, done);
        None
    }

    fn defer(&mut self) {
        if std::mem::take(&mut self.returns_times) {
            self.returned = self.pending.len();
        }
    }

    fn next_event(&self) -> Option<SimTime> {
        if self.returns_times && self.pending.len() < self.capacity {
            return None;
        }
        self.pending.front().map(|first| first.at)
    }

    fn advance(&mut self, now: SimTime, done: &mut Vec<Completion>) {
        if self.returns_times {
            self.forget(now);
            return;
        }
        while let Some(first) = self.pending.front().copied()
            && first.at <= now
        {
            self.pending.pop_front();
            match self.returned {
                0 => done.push(first),
                _ => self.returned -= 1,
            }
        }
    }

    fn begin_measurement(&mut self, _now: SimTime) {
        self.waits = Waits::default();
    }

    fn statistics(&self, _now: SimTime, out: &mut Vec<Statistic>) {
        if self.cycle_ps == 0 && self.line_ps == 0 {
            return;
        }
        let Waits {
            requests,
            bank_ps,
            bus_ps,
        } = self.waits;
        let mean_ns = |sum_ps: u64| sum_ps as f64 / 1e3 / requests.max(1) as f64;
        let values = [
            ("requests", requests as f64),
            ("bank_wait_ns", mean_ns(bank_ps)),
            ("bus_wait_ns", mean_ns(bus_ps)),
        ];
        Statistic::append(out, "fixed.", &values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{drive, prompt_times, request, statistics};

    fn backend(params: &FixedParams) -> Box<dyn MemoryBackend> {
        params.backend(MediumSite::alone(Bytes(1 << 30), 1))
    }

    /// Completion times of requests (time, line, whether it writes).
    fn run(params: &FixedParams, arrivals: &[(u64, u64, bool)]) -> Vec<u64> {
        let request = |one: &(u64, u64, bool)| (one.0, one.1 * 64, 1, one.2);
        let requests: Vec<_> = arrivals.iter().map(request).collect();
        prompt_times(&mut *backend(params), &requests)
    }

    /// Completion times of reads of lines that all come at time 0.
    fn run_reads(params: &FixedParams, lines: &[u64]) -> Vec<u64> {
        let reads: Vec<_> = lines.iter().map(|line| (0, *line, false)).collect();
        run(params, &reads)
    }

    #[test]
    fn an_idle_request_takes_its_latency() {
        let params = FixedParams {
            write_latency: Some(Picos(7_000)),
            ..Default::default()
        };
        let times = run(&params, &[(1_000, 3, false), (1_000, 4, true)]);
        assert_eq!(times, [47_000, 8_000]);
    }

    #[test]
    fn a_refused_parameter_is_named_with_what_was_found_and_what_is_allowed() {
        for (params, message) in [
            (
                serde_json::json!({ "banks": 0 }),
                "`banks`: found 0; allowed: 1 to 65536",
            ),
            (
                serde_json::json!({ "queue": 65537 }),
                "`queue`: found 65537; allowed: 1 to 65536",
            ),
            (
                serde_json::json!({ "bandwidth": "0 B/s" }),
                "`bandwidth`: found 0 B/s; allowed: 1 B/s and more",
            ),
        ] {
            let error = (ENTRY.build)(&params).map(|_| ()).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn bandwidth_spaces_requests_and_banks_serialize() {
        let params = FixedParams {
            latency: Picos(10_000),
            bandwidth: Some(BytesPerSec(64_000_000_000)),
            ..Default::default()
        };
        let times = run(&params, &[(0, 0, false), (0, 1, false), (0, 2, true)]);
        assert_eq!(times, [10_000, 11_000, 12_000]);
        let params = FixedParams {
            latency: Picos(10_000),
            banks: 2,
            bank_cycle: Picos(50_000),
            ..Default::default()
        };
        assert_eq!(run_reads(&params, &[0, 2, 1]), [10_000, 60_000, 10_000]);
        let skewed = FixedParams {
            bank_skew: true,
            ..params
        };
        // Lines 0 and 3 are in bank 0, lines 1 and 2 in bank 1.
        let times = run_reads(&skewed, &[0, 2, 1, 3]);
        assert_eq!(times, [10_000, 10_000, 60_000, 60_000]);
    }

    #[test]
    fn a_request_that_waits_for_its_bank_holds_up_those_for_free_banks() {
        let params = FixedParams {
            latency: Picos(10_000),
            bandwidth: Some(BytesPerSec(64_000_000_000)),
            banks: 2,
            bank_cycle: Picos(50_000),
            ..Default::default()
        };
        let mut backend = backend(&params);
        // Two of bank 0, and one of bank 1, which is free.
        let reads = [(0, 0, 1, false), (0, 128, 1, false), (0, 64, 1, false)];
        let heard = drive(&mut *backend, &reads, None);
        assert_eq!((heard.known, heard.sent), (0, vec![0; 3]));
        assert_eq!(heard.done, [10_000, 60_000, 61_000]);
        let values = |backend: &dyn MemoryBackend| {
            let all = statistics(backend, 1_000_000).into_iter();
            all.map(|one| one.value).collect::<Vec<_>>()
        };
        // One waits 50 ns for its bank, and the last 51 ns for the bus.
        assert_eq!(values(&*backend), [3.0, 50.0 / 3.0, 51.0 / 3.0]);
        backend.begin_measurement(SimTime(1_000_000));
        assert_eq!(values(&*backend), [0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_full_queue_asks_to_be_woken_once_for_each_place_that_becomes_free() {
        let params = FixedParams {
            latency: Picos(10_000),
            queue: 1,
            ..Default::default()
        };
        let mut backend = backend(&params);
        let request = request(0, 0, 1, false);
        assert!(backend.can_accept(SimTime(0), false));
        assert_eq!(backend.enqueue(SimTime(0), request), Some(SimTime(10_000)));
        assert!(!backend.can_accept(SimTime(9_999), false));
        assert_eq!(backend.next_event(), Some(SimTime(10_000)));
        backend.advance(SimTime(10_000), &mut Vec::new());
        assert_eq!(backend.next_event(), None);
        assert!(backend.can_accept(SimTime(10_000), false));
    }
}
