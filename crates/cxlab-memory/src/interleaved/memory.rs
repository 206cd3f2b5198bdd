//! The state of interleaved media.

use std::collections::VecDeque;

use cxlab_cache::{Completion, MemoryBackend, MemoryRequest, Statistic};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;
use serde::{Deserialize, Serialize};

use super::map::InterleaveMap;
use super::params::ResolvedInterleave;
use crate::MediumSite;
use crate::completion_queue::CompletionQueue;
use crate::nested::InnerMedium;
use crate::split_requests::SplitRequests;

/// A memory backend that consists of several media in parallel.
pub(super) struct Interleaved {
    map: InterleaveMap,
    channels: Vec<MediumChannel>,
    granule: u32,
    /// Number of queued pieces, and the number from which requests are refused.
    waiting: usize,
    most: usize,
    open: SplitRequests,
    finished: CompletionQueue,
    now: u64,
    done: Vec<Completion>,
}

save_state!(Interleaved {
    values: waiting, open, now;
    states: channels, finished;
    built: map, granule, most, done;
});

struct MediumChannel {
    medium: InnerMedium,
    /// Pieces that found no room in the medium, oldest first, with the time since which they wait.
    input: VecDeque<(u64, MemoryRequest)>,
    /// Time of the medium's next event.
    next: u64,
    counts: ChannelCounters,
}

save_state!(MediumChannel {
    values: input, next, counts;
    states: medium;
});

#[derive(Default, Serialize, Deserialize)]
struct ChannelCounters {
    reads: u64,
    writes: u64,
    lines: u64,
    waited_ps: u64,
}

impl MediumChannel {
    fn look(&mut self) {
        self.next = self.medium.next_event().unwrap_or(u64::MAX);
    }

    /// Passes queued pieces to the medium while it has room, and returns how many it took.
    fn offer(&mut self, now: u64) -> usize {
        let before = self.input.len();
        while let Some((since, piece)) = self.input.front()
            && self.medium.offer(now, *piece)
        {
            let counts = &mut self.counts;
            counts.reads += u64::from(!piece.write);
            counts.writes += u64::from(piece.write);
            counts.lines += u64::from(piece.lines);
            counts.waited_ps += now - since;
            self.input.pop_front();
        }
        before - self.input.len()
    }
}

impl Interleaved {
    pub(super) fn new(resolved: &ResolvedInterleave, site: MediumSite) -> Interleaved {
        let MediumSite {
            capacity,
            mut rng,
            context,
        } = site;
        let mut granule = 0;
        let shares = resolved.shares(capacity);
        let parts = resolved.media.iter().zip(shares);
        let channels = parts.map(|(medium, capacity)| {
            let rng = StreamRng::new(rng.next_u64(), "channel");
            let backend = medium.backend(MediumSite {
                capacity,
                rng,
                context: context.clone(),
            });
            granule = backend.granule().max(granule);
            MediumChannel {
                medium: InnerMedium::new(backend),
                input: VecDeque::with_capacity(16),
                next: u64::MAX,
                counts: ChannelCounters::default(),
            }
        });
        Interleaved {
            map: resolved.map(capacity),
            channels: channels.collect(),
            granule,
            waiting: 0,
            most: resolved.queue,
            open: SplitRequests::with_capacity(64),
            finished: CompletionQueue::with_capacity(64),
            now: 0,
            done: Vec::with_capacity(64),
        }
    }

    /// Advances all media to `now`, event by event.
    fn run(&mut self, now: u64) {
        loop {
            let next = self.channels.iter().map(|channel| channel.next).min();
            let at = next.unwrap_or(u64::MAX).max(self.now);
            if at > now {
                break;
            }
            self.step(at);
            if at == now {
                break;
            }
        }
        self.now = now;
    }

    /// Handles the events at one time.
    fn step(&mut self, at: u64) {
        self.now = at;
        for number in 0..self.channels.len() {
            if self.channels[number].next <= at {
                self.serve(number, at);
            }
        }
    }

    /// Collects the completions of a medium, and passes queued pieces to it.
    fn serve(&mut self, number: usize, now: u64) {
        let channel = &mut self.channels[number];
        channel.medium.advance(now, &mut self.done);
        self.waiting -= channel.offer(now);
        channel.look();
        for piece in self.done.drain(..) {
            if let Some((at, id)) = self.open.finish(piece.id, 1, piece.at.0) {
                self.finished.push(at, id);
            }
        }
    }
}

impl MemoryBackend for Interleaved {
    fn can_accept(&mut self, now: SimTime, _write: bool) -> bool {
        self.run(now.0);
        self.waiting < self.most
    }

    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime> {
        self.run(now.0);
        let id = self.open.begin(request.id, 0);
        let (mut touched, mut pieces) = (0u64, 0);
        let channels = &mut self.channels;
        self.map.split(request.dpa, request.lines, |piece| {
            let part = MemoryRequest {
                id,
                dpa: piece.dpa,
                lines: piece.lines,
                write: request.write,
            };
            channels[piece.medium].input.push_back((now.0, part));
            touched |= 1 << piece.medium;
            pieces += 1;
        });
        self.open.set_parts(id, pieces);
        self.waiting += pieces as usize;
        while touched != 0 {
            self.serve(touched.trailing_zeros() as usize, now.0);
            touched &= touched - 1;
        }
        None
    }

    fn next_event(&self) -> Option<SimTime> {
        let media = self.channels.iter().map(|channel| channel.next);
        let next = media.chain(self.finished.next()).min();
        next.filter(|at| *at != u64::MAX).map(SimTime)
    }

    fn advance(&mut self, now: SimTime, done: &mut Vec<Completion>) {
        self.run(now.0);
        self.finished.drain(now.0, done);
    }

    fn granule(&self) -> u32 {
        self.granule
    }

    fn warm(&mut self, request: MemoryRequest) {
        let channels = &mut self.channels;
        self.map.split(request.dpa, request.lines, |piece| {
            channels[piece.medium].medium.warm(MemoryRequest {
                dpa: piece.dpa,
                lines: piece.lines,
                ..request
            });
        });
    }

    fn begin_measurement(&mut self, now: SimTime) {
        self.run(now.0);
        for channel in &mut self.channels {
            channel.counts = ChannelCounters::default();
            channel.medium.begin_measurement(now);
            channel.look();
        }
    }

    fn statistics(&self, now: SimTime, out: &mut Vec<Statistic>) {
        for (number, channel) in self.channels.iter().enumerate() {
            let prefix = format!("channel{number}.");
            let counts = &channel.counts;
            let values = [
                ("reads", counts.reads as f64),
                ("writes", counts.writes as f64),
                ("lines", counts.lines as f64),
                ("wait_ns", counts.waited_ps as f64 / 1e3),
            ];
            Statistic::append(out, &prefix, &values);
            channel.medium.statistics(now, &prefix, out);
        }
    }
}
