//! The source that replays one requester's share of a trace.

use std::path::PathBuf;
use std::sync::Arc;

use cxlab_engine::catalog::ParamError;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::{Hpa, Picos, SimTime};

use super::stream::Stream;
use super::survey::Survey;
use super::{Share, Timing, Trace};
use crate::error::TraceError;
use crate::op::{MemOp, OpSource};
use crate::params::require;
use crate::trace::Record;
use crate::workload::SourceContext;

/// Fraction bits of the fixed-point time scale, which make it exact to one part in 10^6
/// at the smallest scale.
const SCALE_BITS: u32 = 40;

/// The latest time that a record may have in a run, in picoseconds: half of the range of a run's
/// clock, which is 106 days.
const LATEST: u128 = (u64::MAX / 2) as u128;

/// Converts the time scale to fixed point.
fn fixed_point(time_scale: f64) -> u128 {
    (time_scale * (1u64 << SCALE_BITS) as f64) as u128
}

/// Returns an error for a scale or number of laps that put the last record after [`LATEST`].
pub(super) fn check_times(survey: &Survey, params: &Trace) -> Result<(), ParamError> {
    let (lap, laps) = (survey.latest - survey.earliest, params.repeat);
    let all = u128::from(lap).saturating_mul(u128::from(laps));
    let end = all.saturating_mul(fixed_point(params.time_scale)) >> SCALE_BITS;
    let lap = Picos(lap);
    let allowed = format_args!("times of {laps} laps of {lap} that end within 106 days");
    require(end <= LATEST, "time_scale", params.time_scale, allowed)
}

/// One requester's share of a trace.
pub(super) struct Replay {
    path: PathBuf,
    survey: Arc<Survey>,
    /// Whether this requester is the only one that replays the trace.
    alone: bool,
    records: Stream,
    /// Index of a lap's first record.
    first: u64,
    /// Records of other requesters between two records of this share.
    skip: u64,
    /// Number of records of this share in a lap.
    share: u64,
    left_in_lap: u64,
    lap: u64,
    laps: u64,
    /// Fixed-point time scale; `None` at full speed.
    scale: Option<u128>,
}

impl Replay {
    pub fn new(
        path: PathBuf,
        survey: Arc<Survey>,
        params: &Trace,
        ctx: &SourceContext,
    ) -> Result<Replay, TraceError> {
        let count = survey.records;
        let requesters = ctx.requesters.max(1) as u64;
        let requester = (ctx.requester as u64).min(requesters - 1);
        let bound =
            |index: u64| (u128::from(count) * u128::from(index) / u128::from(requesters)) as u64;
        let (first, skip, share) = match params.share {
            Share::All => (0, 0, count),
            Share::Interleave => (
                requester,
                requesters - 1,
                count.saturating_sub(requester).div_ceil(requesters),
            ),
            Share::Block => (bound(requester), 0, bound(requester + 1) - bound(requester)),
        };
        let scale = (params.timing == Timing::Timestamps).then(|| fixed_point(params.time_scale));
        let alone = requesters == 1;
        let laps = if share == 0 { 0 } else { params.repeat };
        let before = if laps == 0 { 0 } else { first };
        let records = Stream::open(&path, before, alone)?;
        Ok(Replay {
            path,
            survey,
            alone,
            records,
            first,
            skip,
            share,
            left_in_lap: share,
            lap: 0,
            laps,
            scale,
        })
    }

    /// Returns the next record of the share; `None` when all laps are done.
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        let mut skip = self.skip;
        if self.left_in_lap == 0 {
            self.lap = self.laps.min(self.lap + 1);
            self.left_in_lap = self.share;
            if self.lap < self.laps {
                self.records = Stream::open(&self.path, self.first, self.alone)?;
            }
        }
        if self.left_in_lap == self.share {
            skip = 0;
        }
        if self.lap >= self.laps {
            return Ok(None);
        }
        self.left_in_lap -= 1;
        self.records.next(skip)
    }

    /// Appends up to `count` operations of the current lap and returns their number. Only for a
    /// share in which every record belongs to this requester.
    fn run_of(&mut self, count: usize, out: &mut Vec<MemOp>) -> Result<usize, TraceError> {
        let most = usize::try_from(self.left_in_lap).unwrap_or(usize::MAX);
        let (survey, clock) = (&self.survey, self.clock());
        let mut known = true;
        let read = self
            .records
            .each(count.min(most), |record| match survey.hpa(record.line) {
                Some(hpa) => out.push(clock.op(survey, &record, hpa)),
                None => known = false,
            })?;
        if !known {
            // The trace has a line that the survey did not see: the caller reports
            // that the trace changed.
            return Ok(0);
        }
        self.left_in_lap -= read as u64;
        Ok(read)
    }

    fn clock(&self) -> Clock {
        Clock {
            scale: self.scale,
            before: u128::from(self.survey.latest - self.survey.earliest) * u128::from(self.lap),
        }
    }

    fn changed(&self) -> ! {
        panic!("the trace {} changed during the run", self.path.display())
    }
}

/// Computes when the records of the current lap may be issued.
#[derive(Clone, Copy)]
struct Clock {
    /// Fixed-point time scale; `None` at full speed.
    scale: Option<u128>,
    /// Duration of the earlier laps, in picoseconds of the trace. Laps follow one another without a
    /// gap: the earliest record of a lap has the time of the latest record of the preceding lap.
    before: u128,
}

impl Clock {
    /// The operation of a record whose line is at address `hpa`.
    #[inline]
    fn op(&self, survey: &Survey, record: &Record, hpa: Hpa) -> MemOp {
        MemOp {
            hpa,
            kind: record.kind,
            lines: 1,
            not_before: self.not_before(survey, record),
            dependent: false,
            write_back: false,
        }
    }

    #[inline]
    fn not_before(&self, survey: &Survey, record: &Record) -> SimTime {
        let Some(scale) = self.scale else {
            return SimTime::ZERO;
        };
        let own = record.time.0.saturating_sub(survey.earliest);
        let time = self.before.saturating_add(u128::from(own));
        let scaled = time.saturating_mul(scale) >> SCALE_BITS;
        SimTime(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

/// The state has the lap and the records left in it, from which the position in the file follows.
impl SaveState for Replay {
    fn save(&self, out: &mut StateWriter) {
        let Replay {
            left_in_lap,
            lap,
            path: _,
            survey: _,
            alone: _,
            records: _,
            first: _,
            skip: _,
            share: _,
            laps: _,
            scale: _,
        } = self;
        out.value("replay", &(left_in_lap, lap));
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        (self.left_in_lap, self.lap) = from.value("replay")?;
        let Some(taken) = self.share.checked_sub(self.left_in_lap) else {
            return Err(StateError::new("`replay` in the state is of another trace"));
        };
        if self.lap < self.laps {
            let before = match taken {
                0 => self.first,
                taken => self.first + 1 + (taken - 1) * (self.skip + 1),
            };
            let failed = |error: TraceError| StateError::new(error.to_string());
            self.records = Stream::open(&self.path, before, self.alone).map_err(failed)?;
        }
        Ok(())
    }
}

impl OpSource for Replay {
    /// # Panics
    /// If the trace has changed since the survey read it. The results of the
    /// run would mean nothing.
    fn next_op(&mut self, _: &mut StreamRng) -> Option<MemOp> {
        let next = match self.next_record() {
            Ok(next) => next,
            Err(error) => panic!("the trace changed during the run: {error}"),
        };
        let clock = self.clock();
        let op = next.and_then(|record| {
            let hpa = self.survey.hpa(record.line)?;
            Some(clock.op(&self.survey, &record, hpa))
        });
        if op.is_none() && self.lap < self.laps {
            self.changed();
        }
        op
    }

    fn next_ops(&mut self, rng: &mut StreamRng, count: usize, out: &mut Vec<MemOp>) {
        let end = out.len() + count;
        while out.len() < end {
            if self.skip > 0 || self.left_in_lap == 0 || self.lap >= self.laps {
                match self.next_op(rng) {
                    Some(op) => out.push(op),
                    None => return,
                }
                continue;
            }
            match self.run_of(end - out.len(), out) {
                Ok(0) => self.changed(),
                Ok(_) => {}
                Err(error) => panic!("the trace changed during the run: {error}"),
            }
        }
    }
}
