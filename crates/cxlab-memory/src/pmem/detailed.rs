//! Optane DIMMs side by side: interleaving of lines, and outstanding requests.

use cxlab_cache::{Completion, Geometry, MemoryBackend, MemoryRequest, Statistic};
use cxlab_engine::catalog::{ParamError, in_range, refused};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, BytesPerSec, LINE_BYTES, Picos, SimTime};

use super::dimm::{Dimm, DimmCounters, DimmParams, LineRun};
use super::pending::PendingRequests;
use super::{GRANULE, PmemParams};
use crate::MediumSite;
use crate::completion_queue::CompletionQueue;
use crate::split_requests::SplitRequests;

/// Ways of the address indirection table's cache (*assumed*).
const AIT_WAYS: u32 = 16;

/// The resolved parameters of the detailed mode.
pub(super) struct DetailedParams {
    pub(super) dimms: u64,
    /// Consecutive bytes on one DIMM.
    pub(super) interleave: u64,
    queue: u32,
    dimm: DimmParams,
}

impl DetailedParams {
    pub(super) fn new(params: &PmemParams) -> Result<Self, ParamError> {
        let dimms = params.dimms.unwrap_or(6);
        in_range("dimms", dimms, 1..=64)?;
        let interleave = params.interleave.unwrap_or(Bytes(4096));
        if !interleave.0.is_power_of_two() || !(GRANULE..=1 << 30).contains(&interleave.0) {
            let allowed = "a power of two, 256 B to 1 GiB";
            return Err(refused("interleave", interleave, allowed));
        }
        let wpq_lines = params.wpq_lines.unwrap_or(8);
        in_range("wpq_lines", wpq_lines, 1..=4096)?;
        let buffer_lines = params.buffer_lines.unwrap_or(64);
        in_range("buffer_lines", buffer_lines, 2..=65536)?;
        let ait_blocks = params.ait_blocks.unwrap_or(4096);
        let accesses = params.media_accesses.unwrap_or(4);
        in_range("media_accesses", accesses, 1..=256)?;
        let geometry = |field, lines: u32, ways: u32| {
            Geometry::set_associative(lines.into(), ways.into())
                .map_err(|error| ParamError::new(field, error.to_string()))
        };
        if !ait_blocks.is_multiple_of(AIT_WAYS) || !(AIT_WAYS..=1 << 20).contains(&ait_blocks) {
            let allowed = "16 to 1048576, a multiple of 16";
            return Err(refused("ait_blocks", ait_blocks, allowed));
        }
        let media_read = params.media_read.unwrap_or(Picos::from_nanos(155));
        let media_write = params.media_write.unwrap_or(Picos::from_nanos(455));
        for (field, found) in [("media_read", media_read), ("media_write", media_write)] {
            if found == Picos::ZERO {
                return Err(refused(field, found, "1 ps or more"));
            }
        }
        let bus = params.bus.unwrap_or(BytesPerSec(21_328_000_000));
        Ok(DetailedParams {
            dimms: dimms.into(),
            interleave: interleave.0,
            queue: params.queue.unwrap_or(256),
            dimm: DimmParams {
                interface_ps: params.interface.unwrap_or(Picos::from_nanos(127)).0,
                accept_ps: params.write_accept.unwrap_or(Picos::from_nanos(90)).0,
                line_ps: bus.time_for(Bytes(LINE_BYTES)).0,
                ait_ps: params.ait_miss.unwrap_or(Picos(31_500)).0,
                read_ps: media_read.0,
                write_ps: media_write.0,
                accesses,
                wpq: wpq_lines,
                buffer: geometry("buffer_lines", buffer_lines, buffer_lines)?,
                ait: geometry("ait_blocks", ait_blocks, AIT_WAYS)?,
            },
        })
    }
}

pub(super) struct DetailedMemory {
    /// Consecutive lines of 64 bytes on one DIMM.
    interleave: u64,
    dimms: Vec<Dimm>,
    pending: PendingRequests,
    queue: usize,
    held: usize,
}

save_state!(DetailedMemory {
    values: held;
    states: dimms, pending;
    built: interleave, queue;
});

impl DetailedMemory {
    pub(super) fn new(params: &DetailedParams, mut site: MediumSite) -> Self {
        let queue = params.queue as usize;
        let dimm = |_: u64| {
            let rng = StreamRng::new(site.rng.next_u64(), "dimm");
            Dimm::new(&params.dimm, rng)
        };
        DetailedMemory {
            interleave: params.interleave / LINE_BYTES,
            dimms: (0..params.dimms).map(dimm).collect(),
            pending: PendingRequests {
                requests: SplitRequests::with_capacity(queue),
                finished: CompletionQueue::with_capacity(queue),
            },
            queue,
            held: 0,
        }
    }
}

/// Splits a request into runs of lines on each DIMM: the first line, counted on the DIMM, and the
/// number of lines.
fn split(
    dimms: &mut [Dimm],
    interleave: u64,
    request: &MemoryRequest,
    mut each: impl FnMut(&mut Dimm, u64, u32),
) {
    let count = dimms.len() as u64;
    let mut line = request.dpa.line().0;
    let end = line + u64::from(request.lines);
    while line < end {
        let block = line / interleave;
        let next = ((block + 1) * interleave).min(end);
        let first = block / count * interleave + line % interleave;
        let dimm = &mut dimms[(block % count) as usize];
        each(dimm, first, (next - line) as u32);
        line = next;
    }
}

impl MemoryBackend for DetailedMemory {
    fn can_accept(&mut self, _now: SimTime, _write: bool) -> bool {
        self.held < self.queue
    }

    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime> {
        self.held += 1;
        let (pending, lines) = (&mut self.pending, request.lines.into());
        let number = pending.requests.begin(request.id, lines);
        let each = |dimm: &mut Dimm, line: u64, lines: u32| {
            let segment = LineRun {
                request: number,
                line,
                lines,
            };
            dimm.enqueue(now.0, segment, request.write, pending);
        };
        split(&mut self.dimms, self.interleave, &request, each);
        None
    }

    fn next_event(&self) -> Option<SimTime> {
        let dimms = self.dimms.iter().map(Dimm::next_event).min();
        let next = dimms.unwrap_or(u64::MAX);
        let next = next.min(self.pending.finished.next().unwrap_or(u64::MAX));
        (next != u64::MAX).then_some(SimTime(next))
    }

    fn advance(&mut self, now: SimTime, done: &mut Vec<Completion>) {
        for dimm in &mut self.dimms {
            while dimm.next_event() <= now.0 {
                dimm.step(&mut self.pending);
            }
        }
        let before = done.len();
        self.pending.finished.drain(now.0, done);
        self.held -= done.len() - before;
    }

    fn granule(&self) -> u32 {
        GRANULE as u32
    }

    fn warm(&mut self, request: MemoryRequest) {
        let each = |dimm: &mut Dimm, first: u64, lines: u32| {
            let lines = first..first + u64::from(lines);
            lines.for_each(|line| dimm.warm(line, request.write));
        };
        split(&mut self.dimms, self.interleave, &request, each);
    }

    fn begin_measurement(&mut self, _now: SimTime) {
        for dimm in &mut self.dimms {
            dimm.counts = DimmCounters::default();
        }
    }

    fn statistics(&self, _now: SimTime, out: &mut Vec<Statistic>) {
        let mut sum = DimmCounters::default();
        for dimm in &self.dimms {
            sum.add(&dimm.counts);
        }
        let written = (sum.writes * LINE_BYTES).max(1);
        let amplification = (sum.media_writes * GRANULE) as f64 / written as f64;
        let values = [
            ("read_lines", sum.reads as f64),
            ("written_lines", sum.writes as f64),
            ("buffer_read_hits", sum.read_hits as f64),
            ("buffer_write_hits", sum.write_hits as f64),
            ("ait_misses", sum.ait_misses as f64),
            ("media_reads", sum.media_reads as f64),
            ("media_writes", sum.media_writes as f64),
            ("write_amplification", amplification),
        ];
        Statistic::append(out, "", &values);
    }
}
