//! The drive as a memory backend.

use std::collections::VecDeque;

use cxlab_cache::{Completion, MemoryBackend, MemoryRequest, Statistic};
use cxlab_engine::catalog::ParamError;
use cxlab_engine::list::NONE;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::slab::Slab;
use cxlab_engine::units::{Bytes, SimTime};
use serde::{Deserialize, Serialize};

use super::blocks::Plane;
use super::buffer::WriteBuffer;
use super::contents::{DriveContents, ObservedLine};
use super::events::{DriveEvent, EventQueue};
use super::geometry::DriveGeometry;
use super::map::SubPageMap;
use super::mapping_cache::MappingCache;
use super::nand::{ArrayOperation, CommandPurpose, Nand};
use super::params::{Acknowledge, SsdParams};
use super::report::DriveCounters;
use crate::MediumSite;

/// An outstanding request.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Request {
    pub id: u32,
    pub write: bool,
    /// Sub-pages that are not done.
    pub remaining: u32,
    /// The latest completion among its finished sub-pages.
    pub latest: u64,
    /// The first line, and the number of lines.
    pub line: u64,
    pub lines: u32,
}

/// The purpose of a read of a sub-page.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) enum ReadTarget {
    Request(u32),
    /// The slot of the write buffer that needs the rest of its sub-page.
    Fill(u32),
    /// The translation page with that number.
    Translation(u32),
}

/// An entry in a list of pending reads or requests.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct PendingRead {
    pub target: ReadTarget,
    pub logical: u32,
    pub place: u32,
    pub next: u32,
}

/// A part of a write that waits for room in the buffer.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct WriteTask {
    pub request: u32,
    pub logical: u32,
    /// The first line in the sub-page, and the number of lines.
    pub first: u32,
    pub lines: u32,
    /// The number of the write, for tests.
    pub number: u32,
}

/// Times of the controller, in picoseconds.
pub(super) struct ControllerTimes {
    /// For each request.
    pub controller: u64,
    /// For a look-up in the mapping.
    pub mapping: u64,
    /// For a read or write of a sub-page in the buffer.
    pub buffer: u64,
}

/// A flash drive. It is deterministic: the same calls give the same responses.
pub struct Drive {
    pub(super) params: SsdParams,
    pub(super) geometry: DriveGeometry,
    pub(super) events: EventQueue,
    pub(super) nand: Nand,
    pub(super) map: SubPageMap,
    pub(super) cache: MappingCache,
    pub(super) buffer: WriteBuffer,
    pub(super) planes: Vec<Plane>,
    pub(super) requests: Slab<Request>,
    reads: u32,
    writes: u32,
    pub(super) waiters: Slab<PendingRead>,
    pub(super) blocked: VecDeque<WriteTask>,
    /// The content of each program: logical sub-page, and the buffer slot or the place from
    /// which it comes.
    pub(super) carried: Vec<(u32, u32)>,
    /// Position of the next page in the order of allocation.
    pub(super) next_plane: u32,
    /// Number of blocks closed so far.
    pub(super) closed: u64,
    /// Number of pages programmed so far.
    pub(super) clock: u64,
    pub(super) counters: DriveCounters,
    pub(super) contents: Option<Box<DriveContents>>,
    pub(super) rng: StreamRng,
    pub(super) measured_from: u64,
    pub(super) times: ControllerTimes,
    pub(super) dirty_limit: u32,
    pub(super) eager: bool,
}

save_state!(Drive {
    values: requests, reads, writes, waiters, blocked, carried, next_plane, closed, clock, counters, measured_from;
    states: events, nand, map, cache, buffer, planes, contents, rng;
    built: params, geometry, times, dirty_limit, eager;
});

impl Drive {
    /// A drive for a device, preconditioned as the parameters say.
    ///
    /// # Errors
    /// A parameter that is out of range, contradicts another one, or does not fit the capacity.
    pub fn new(params: &SsdParams, site: MediumSite) -> Result<Drive, ParamError> {
        params.check_alone()?;
        let geometry = DriveGeometry::new(params, site.capacity)?;
        let slots = (params.write_buffer.capacity.0 / geometry.sub_bytes) as u32;
        let pages = |bytes: Bytes| u32::try_from(bytes.0 / geometry.sub_bytes).unwrap_or(NONE);
        let cached = params.mapping_cache.map(pages);
        let eager = params.write_buffer.acknowledge == Acknowledge::Programmed;
        let plane = |_| Plane::new(&geometry);
        let mut drive = Drive {
            events: EventQueue::default(),
            nand: Nand::new(params, &geometry),
            map: SubPageMap::new(&geometry),
            cache: MappingCache::new(geometry.translations, cached),
            buffer: WriteBuffer::new(slots),
            planes: (0..geometry.planes).map(plane).collect(),
            requests: Slab::default(),
            reads: 0,
            writes: 0,
            waiters: Slab::default(),
            blocked: VecDeque::new(),
            carried: Vec::new(),
            next_plane: 0,
            closed: 0,
            clock: 0,
            counters: DriveCounters::default(),
            contents: None,
            rng: site.rng,
            measured_from: 0,
            times: ControllerTimes {
                controller: params.controller_time.0,
                mapping: params.mapping_time.0,
                buffer: params.write_buffer.time.0,
            },
            dirty_limit: (f64::from(slots) * params.write_buffer.dirty) as u32,
            eager,
            geometry,
            params: params.clone(),
        };
        drive.precondition();
        Ok(drive)
    }

    /// Tracks the contents of every line from now on, for [`Drive::observed`]. This takes memory
    /// for the whole drive.
    ///
    /// # Panics
    /// If a request has already written to the drive, because its contents are unknown. Lines
    /// written by the fill before the run count as never written.
    pub fn observe(&mut self) {
        let writes = self.counters.writes;
        assert_eq!(writes, 0, "a drive is observed from the beginning");
        let places = u64::from(self.geometry.planes) * u64::from(self.geometry.blocks);
        let places = places * u64::from(self.geometry.block_subs());
        let lines = self.geometry.lines as usize;
        self.contents = Some(Box::new(DriveContents::new(places as usize, lines)));
    }

    /// The lines that reads returned since the last call, in no particular order. Writes are
    /// numbered in the order in which they were enqueued.
    pub fn observed(&mut self) -> Vec<ObservedLine> {
        let contents = self.contents.as_mut();
        contents.map_or_else(Vec::new, |contents| std::mem::take(&mut contents.observed))
    }

    /// Number of allocated chunks of the mapping, and of blocks with a state.
    pub fn allocated(&self) -> (usize, usize) {
        let blocks = self.planes.iter().map(|plane| plane.blocks.len());
        (self.map.chunks(), blocks.sum())
    }

    /// Records that a sub-page of a request is done at `at`.
    pub(super) fn part_done(&mut self, request: u32, at: u64) {
        let entry = &mut self.requests[request];
        entry.latest = entry.latest.max(at);
        entry.remaining -= 1;
        if entry.remaining == 0 {
            self.events.push(entry.latest, DriveEvent::Done(request));
        }
    }

    fn handle(&mut self, now: u64, event: DriveEvent, done: &mut Vec<Completion>) {
        match event {
            DriveEvent::Done(number) => {
                let request = self.requests.remove(number);
                if request.write {
                    self.writes -= 1;
                } else {
                    self.reads -= 1;
                }
                let (id, at) = (request.id, SimTime(now));
                done.push(Completion { id, at });
            }
            DriveEvent::Bus(channel) => self.nand.bus(now, channel, &mut self.events),
            DriveEvent::Array(die, turn) => self.nand.array(now, die, turn, &mut self.events),
            DriveEvent::Data(die) => self.nand.data(now, die, &mut self.events),
            DriveEvent::Suspended(die) => self.nand.suspended(die),
            DriveEvent::Begun(die, turn) => self.nand.begun(now, die, turn, &mut self.events),
        }
        for at in 0..self.nand.finished.len() {
            self.finish(now, self.nand.finished[at]);
        }
        self.nand.finished.clear();
        self.nand.settle(now, &mut self.events);
    }

    fn finish(&mut self, now: u64, id: u32) {
        let op = self.nand.ops[id];
        match (op.command, op.class) {
            (ArrayOperation::Read, CommandPurpose::Read) => self.read_done(now, &op),
            (ArrayOperation::Read, _) => self.collect_read_done(&op),
            (ArrayOperation::Program, CommandPurpose::Program) => self.flush_done(now, id),
            (ArrayOperation::Program, _) => self.collect_program_done(id),
            (ArrayOperation::Erase, _) => self.erase_done(&op),
        }
        self.nand.release(id);
    }

    /// Discards all requests after a power failure.
    pub(super) fn drop_requests(&mut self) {
        self.events.clear();
        self.requests.clear();
        self.waiters.clear();
        self.blocked.clear();
        self.reads = 0;
        self.writes = 0;
    }
}

impl MemoryBackend for Drive {
    fn can_accept(&mut self, _now: SimTime, write: bool) -> bool {
        if write {
            self.writes < self.params.write_queue
        } else {
            self.reads < self.params.read_queue
        }
    }

    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime> {
        let lines = u64::from(self.geometry.lines);
        let (line, count) = (request.dpa.line().0, u64::from(request.lines));
        let (first, last) = (line / lines, (line + count - 1) / lines);
        let end = u64::from(self.geometry.user);
        assert!(last < end, "a request lies in the device");
        let entry = Request {
            id: request.id,
            write: request.write,
            remaining: (last - first + 1) as u32,
            latest: 0,
            line,
            lines: count as u32,
        };
        let number = self.requests.insert(entry);
        if request.write {
            self.writes += 1;
            self.write_request(now.0, number, first as u32, last as u32);
        } else {
            self.reads += 1;
            self.counters.reads += 1;
            self.counters.read_lines += count;
            for logical in first..=last {
                self.read(now.0, number, logical as u32);
            }
        }
        self.nand.settle(now.0, &mut self.events);
        None
    }

    fn next_event(&self) -> Option<SimTime> {
        self.events.first().map(SimTime)
    }

    fn advance(&mut self, now: SimTime, done: &mut Vec<Completion>) {
        while let Some((at, event)) = self.events.pop_until(now.0) {
            self.handle(at, event, done);
        }
    }

    fn granule(&self) -> u32 {
        self.geometry.sub_bytes as u32
    }

    fn warm(&mut self, request: MemoryRequest) {
        self.warm_request(request);
    }

    fn begin_measurement(&mut self, now: SimTime) {
        self.measured_from = now.0;
        self.counters = DriveCounters::default();
        self.cache.hits = 0;
        self.cache.misses = 0;
        self.nand.begin_measurement(now.0);
    }

    fn statistics(&self, now: SimTime, out: &mut Vec<Statistic>) {
        self.report(now, out);
    }
}

/// Checks whether a drive with these parameters can be built for a capacity.
pub(super) fn check(params: &SsdParams, capacity: Bytes) -> Result<(), ParamError> {
    params.check_alone()?;
    DriveGeometry::new(params, capacity).map(|_| ())
}
