//! A host's own memory: a memory backend behind the host's memory controller, without a link.

use std::collections::VecDeque;

use cxlab_cache::{Completion, MemoryBackend, MemoryRequest, Statistic};
use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, Dpa, Hpa, Picos, SimTime};
use cxlab_link::Parcel;
use serde::{Deserialize, Serialize};

/// Configuration of a host's own memory.
pub struct LocalConfig {
    /// The memory backend.
    pub backend: Box<dyn MemoryBackend>,
    /// The first host physical address of the memory.
    pub base: Hpa,
    /// Size of the memory.
    pub capacity: Bytes,
    /// Time of one direction between the last private cache and the memory controller.
    pub latency: Picos,
}

/// A request that has come back from the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CompletedRequest {
    /// The owner's number of the request.
    pub(crate) tag: u32,
    /// Time that the request waited until the backend accepted it, in picoseconds.
    pub(crate) queue_ps: u64,
    /// Time that the request took in the backend, in picoseconds.
    pub(crate) media_ps: u64,
}

/// Times of a request in the memory, in picoseconds.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct RequestTimes {
    arrived: u64,
    accepted: u64,
}

/// The memory, with the requests that travel to it and back. Each direction takes a constant time, so the
/// order does not change on the way.
///
/// No other component sees an event of the backend before the way back has passed. The backend is therefore
/// simulated that much later than its events happen, and each event is handled at its own time. A request
/// that the backend serves within the time of the way back costs one wake-up instead of three.
pub(crate) struct LocalMemory {
    backend: Box<dyn MemoryBackend>,
    pub(crate) base: Hpa,
    pub(crate) capacity: Bytes,
    pub(crate) latency_ps: u64,
    /// Requests on their way to the controller, with their times of arrival.
    coming: VecDeque<(u64, MemoryRequest)>,
    /// Reads and writes that have arrived and were not accepted, with their times of arrival. A read waits
    /// for other reads, and for a write of its line.
    refused: [VecDeque<(u64, MemoryRequest)>; 2],
    /// Tags on their way back, with their times of arrival.
    going: VecDeque<(u64, u32)>,
    times: Vec<RequestTimes>,
    done: Vec<Completion>,
    /// Times of arrival of the last read, and of the last write, that the backend has accepted.
    last: [u64; 2],
    /// The time up to which the backend has been simulated.
    simulated_to: SimTime,
    /// The backend's next event, as last reported.
    event: Option<SimTime>,
    wake: u64,
}

save_state!(LocalMemory {
    values: coming, going, times, last, simulated_to, event, refused, wake;
    states: backend;
    built: base, capacity, latency_ps, done;
});

impl LocalMemory {
    pub(crate) fn new(config: LocalConfig, requests: usize) -> Self {
        LocalMemory {
            backend: config.backend,
            base: config.base,
            capacity: config.capacity,
            latency_ps: config.latency.0,
            coming: VecDeque::with_capacity(requests),
            refused: [VecDeque::new(), VecDeque::new()],
            going: VecDeque::with_capacity(requests),
            times: vec![RequestTimes::default(); requests],
            done: Vec::new(),
            last: [0; 2],
            simulated_to: SimTime::ZERO,
            event: None,
            wake: u64::MAX,
        }
    }

    pub(crate) fn statistics(&self, now: SimTime) -> Vec<Statistic> {
        let mut list = Vec::new();
        self.backend.statistics(now, &mut list);
        list
    }

    pub(crate) fn begin_measurement(&mut self, now: SimTime) {
        self.catch_up(now);
        self.backend.begin_measurement(now);
        self.event = self.backend.next_event();
    }

    /// Sends a request that leaves the last private cache in `delay_ps`. From call to call, this
    /// time must not decrease.
    pub(crate) fn send(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        token: u32,
        tag: u32,
        line: u64,
        write: bool,
        delay_ps: u64,
    ) {
        let arrival = ctx.now().0 + delay_ps + self.latency_ps;
        let request = MemoryRequest {
            id: tag,
            dpa: Dpa(line * 64 - self.base.0),
            lines: 1,
            write,
        };
        if self.times.len() <= tag as usize {
            self.times.resize(tag as usize + 1, RequestTimes::default());
        }
        self.coming.push_back((arrival, request));
        self.request_wake(ctx, token);
    }

    /// Handles a wake-up. Requests that have come back are appended to `back`.
    pub(crate) fn wake(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        token: u32,
        back: &mut Vec<CompletedRequest>,
    ) {
        let now = ctx.now();
        if self.wake <= now.0 {
            self.wake = u64::MAX;
        }
        self.catch_up(now);
        while let Some((arrival, tag)) = self.going.front()
            && *arrival <= now.0
        {
            let times = self.times[*tag as usize];
            back.push(CompletedRequest {
                tag: *tag,
                queue_ps: times.accepted - times.arrived,
                media_ps: arrival - self.latency_ps - times.accepted,
            });
            self.going.pop_front();
        }
        self.request_wake(ctx, token);
    }

    /// Simulates the backend up to `now`, with each arrival and event at its own time.
    pub(crate) fn catch_up(&mut self, now: SimTime) {
        while let Some(time) = self.next_time()
            && time <= now
        {
            self.simulated_to = self.simulated_to.max(time);
            self.step(self.simulated_to);
        }
    }

    /// The time of the backend's next event, or of the next arrival.
    fn next_time(&self) -> Option<SimTime> {
        // Requests that were refused wait for the backend's next event.
        match self.coming.front() {
            Some((arrival, _)) => {
                let event = self.event.unwrap_or(SimTime::NEVER);
                Some(event.min(SimTime(*arrival)))
            }
            None => self.event,
        }
    }

    /// Simulates the events and arrivals at `now`.
    fn step(&mut self, now: SimTime) {
        if self.event.is_some_and(|event| event <= now) {
            self.backend.advance(now, &mut self.done);
            for completion in self.done.drain(..) {
                self.going
                    .push_back((completion.at.0 + self.latency_ps, completion.id));
            }
        }
        self.accept(now);
        self.event = self.backend.next_event();
    }

    /// Hands the arrived requests to the backend, as far as it has room. The kind whose head arrived first
    /// goes first, so that neither kind keeps the other from a queue that they share.
    fn accept(&mut self, now: SimTime) {
        while let Some((arrival, request)) = self.coming.front().copied()
            && arrival <= now.0
        {
            self.coming.pop_front();
            let none_refused = self.refused.iter().all(VecDeque::is_empty);
            if none_refused && self.backend.can_accept(now, request.write) {
                self.enqueue(now, arrival, request);
            } else {
                self.refused[usize::from(request.write)].push_back((arrival, request));
            }
        }
        while self.accept_refused(now) {}
    }

    /// Hands one refused request to the backend, if it has room. Returns whether it had.
    fn accept_refused(&mut self, now: SimTime) -> bool {
        let first_arrival = |kind: usize| self.refused[kind].front().map(|(arrival, _)| *arrival);
        let order = match (first_arrival(0), first_arrival(1)) {
            (None, None) => return false,
            (read, write) if write.is_none() || read.is_some_and(|read| Some(read) <= write) => {
                [0, 1]
            }
            _ => [1, 0],
        };
        for kind in order {
            if let Some((arrival, request)) = self.refused[kind].front().copied()
                && self.takes(now, &request)
            {
                self.refused[kind].pop_front();
                self.enqueue(now, arrival, request);
                return true;
            }
        }
        false
    }

    /// Whether the backend accepts a request now. A read does not overtake a write of its line.
    fn takes(&mut self, now: SimTime, request: &MemoryRequest) -> bool {
        let mut writes = self.refused[1].iter();
        let waits = !request.write && writes.any(|(_, write)| write.dpa == request.dpa);
        !waits && self.backend.can_accept(now, request.write)
    }

    fn enqueue(&mut self, now: SimTime, arrived: u64, request: MemoryRequest) {
        let last = &mut self.last[usize::from(request.write)];
        debug_assert!(
            arrived >= *last,
            "a later request of its kind was accepted before"
        );
        *last = arrived;
        let times = &mut self.times[request.id as usize];
        (times.arrived, times.accepted) = (arrived, now.0);
        if let Some(done) = self.backend.enqueue(now, request) {
            self.going.push_back((done.0 + self.latency_ps, request.id));
        }
    }

    /// Requests a wake-up for the next time at which a request comes back, or may.
    fn request_wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        let now = ctx.now().0;
        let mut wake = u64::MAX;
        if let Some(event) = self.event {
            wake = event.0 + self.latency_ps;
        }
        if let Some((arrival, _)) = self.coming.front() {
            let done = self.backend.soonest(SimTime(*arrival));
            wake = wake.min(done.0 + self.latency_ps);
        }
        if let Some((arrival, _)) = self.going.front() {
            wake = wake.min(*arrival);
        }
        let wake = wake.max(now);
        if wake < self.wake && wake != u64::MAX {
            self.wake = wake;
            ctx.wake_at(SimTime(wake), token);
        }
    }
}
