//! Checkpoints: the whole state of a run in a file, from which it goes on as if it had never
//! stopped, on any number of threads.
//!
//! A checkpoint is the run's place (what it measures, since when) and the state of every component
//! and of every event between them. What was built from the scenario is not in it: it is restored
//! into a system that was built from the same one. The windows of warm-up and measurement may
//! change, as far as the run has not passed them.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use cxlab_engine::Simulation;
use cxlab_engine::state::{Refusal, StateError, StateReader, StateWriter};
use cxlab_engine::units::{Picos, SimTime};
use serde::{Deserialize, Serialize};

use crate::batches::Batches;
use crate::output::{is_special, prepare_dir, write_whole};
use crate::plan::{DeviceKind, Plan, Problem};
use crate::run::{RunError, Until, Warmed};
use crate::system::{Node, Notes, System};

/// When checkpoints are written. None of it changes a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Every {
    /// So much simulated time after the last one.
    Simulated(Picos),
    /// So many completed requests after the last one, or soon after.
    Requests(u64),
    /// So much real time after the last one, or soon after.
    Wall(Duration),
    /// Once, when the warm-up has ended.
    WarmUp,
}

/// What [`Every`] reads.
const EVERY: &str = "a simulated time (\"10 ms\"), requests (\"100000 requests\"), a real time (\"30 s wall\"), \
     or \"warm-up\"";

impl Default for Every {
    /// Each minute of real time.
    fn default() -> Self {
        Every::Wall(Duration::from_secs(60))
    }
}

impl FromStr for Every {
    type Err = String;

    fn from_str(text: &str) -> Result<Every, String> {
        let wrong = || format!("found `{text}`; allowed: {EVERY}, above 0");
        let trimmed = text.trim();
        if trimmed == "warm-up" {
            return Ok(Every::WarmUp);
        }
        if let Some(requests) = trimmed.strip_suffix("requests") {
            let count = requests.trim().replace('_', "").parse();
            return match count {
                Ok(count @ 1..) => Ok(Every::Requests(count)),
                _ => Err(wrong()),
            };
        }
        let (time, wall) = match trimmed.strip_suffix("wall") {
            Some(time) => (time, true),
            None => (trimmed, false),
        };
        match time.trim().parse() {
            Ok(Picos(0)) | Err(_) => Err(wrong()),
            Ok(Picos(picos)) if wall => Ok(Every::Wall(Duration::from_nanos(picos.div_ceil(1000)))),
            Ok(span) => Ok(Every::Simulated(span)),
        }
    }
}

/// What a run writes and where it begins.
#[derive(Default)]
pub struct Checkpoints<'a> {
    /// When checkpoints are written, and to which file.
    pub write: Option<(Every, &'a Path)>,
    /// The checkpoint to go on from.
    pub restore: Option<Checkpoint>,
}

/// Why a checkpoint cannot be used or written.
#[derive(Debug)]
pub enum CheckpointError {
    /// It cannot be read, is damaged, or is of another run: the user's mistake.
    Refused(String),
    /// It cannot be written.
    Unwritable(PathBuf, std::io::Error),
}

impl std::fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CheckpointError::Refused(why) => f.write_str(why),
            CheckpointError::Unwritable(path, error) => {
                write!(f, "{}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for CheckpointError {}

/// A checkpoint that was read.
pub struct Checkpoint {
    name: String,
    bytes: Vec<u8>,
}

impl Checkpoint {
    /// Reads a file, and checks that it is whole.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(path: &Path) -> Result<Checkpoint, CheckpointError> {
        let name = path.display().to_string();
        match std::fs::read(path) {
            Ok(bytes) => Checkpoint::of(name, bytes),
            Err(error) => Err(CheckpointError::Refused(format!(
                "{name}: the checkpoint cannot be read: {error}"
            ))),
        }
    }

    /// A checkpoint that lies in memory, with a name for messages.
    ///
    /// # Errors
    /// The bytes are no checkpoint, or damaged.
    pub fn of(name: impl Into<String>, bytes: Vec<u8>) -> Result<Checkpoint, CheckpointError> {
        let checkpoint = Checkpoint {
            name: name.into(),
            bytes,
        };
        match StateReader::open(&checkpoint.bytes) {
            Ok(_) => Ok(checkpoint),
            Err(error) => Err(checkpoint.refused(&error)),
        }
    }

    /// Checks that it can be read whole into a system of this plan and seed.
    ///
    /// # Errors
    /// What is wrong with it, or with the plan's workloads.
    pub fn inspect(&self, plan: &Plan, seed: u64) -> Result<(), RunError> {
        let notes = Notes {
            states: true,
            ..Notes::default()
        };
        let mut system = System::build(plan, seed, notes).map_err(RunError::Problems)?;
        self.restore(plan, seed, &mut system.simulation)
            .map(|_| ())
            .map_err(RunError::Checkpoint)
    }

    fn refused(&self, error: &impl std::fmt::Display) -> CheckpointError {
        CheckpointError::Refused(format!("{}: {error}", self.name))
    }

    /// Fills a system that was built from the same plan and seed; returns where the run had come to.
    pub(crate) fn restore(
        &self,
        plan: &Plan,
        seed: u64,
        simulation: &mut Simulation<Node>,
    ) -> Result<(Place, Option<Batches>), CheckpointError> {
        self.fill(plan, seed, simulation)
            .map_err(|error| self.refused(&error))
    }

    fn fill(
        &self,
        plan: &Plan,
        seed: u64,
        simulation: &mut Simulation<Node>,
    ) -> Result<(Place, Option<Batches>), StateError> {
        let mut from = StateReader::open(&self.bytes)?;
        let of: Origin = from.value("checkpoint")?;
        of.check(&Origin::of(plan, seed))?;
        let place = from.value("place")?;
        let batches = from.value("batches")?;
        simulation.restore(&mut from)?;
        from.finish()?;
        Ok((place, batches))
    }
}

/// Of which run a checkpoint is.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Origin {
    version: String,
    plan: String,
    seed: u64,
}

impl Origin {
    fn of(plan: &Plan, seed: u64) -> Origin {
        Origin {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            plan: plan.state_hash.clone(),
            seed,
        }
    }

    fn check(&self, run: &Origin) -> Result<(), StateError> {
        if self.version != run.version {
            return Err(StateError::new(format!(
                "found a checkpoint of cxlab {}; allowed: of cxlab {}, which this is",
                self.version, run.version
            )));
        }
        if self.plan != run.plan {
            return Err(StateError::new(format!(
                "found a checkpoint of another system (plan {}); allowed: of this scenario with the same \
                 changes (plan {}), of which only [measure] and [execution] may differ",
                self.plan, run.plan
            )));
        }
        if self.seed != run.seed {
            return Err(StateError::new(format!(
                "found a checkpoint of a run with seed {}; allowed: seed {}, which this run has",
                self.seed, run.seed
            )));
        }
        Ok(())
    }
}

/// Where a run has come to.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct Place {
    /// How the warm-up ends, or ended.
    pub(crate) warmup: Until,
    /// When measurement began.
    pub(crate) measured_since: Option<SimTime>,
    /// What has been simulated.
    pub(crate) now: SimTime,
    /// When the window began that the run is in, and how many requests had completed then.
    pub(crate) since: SimTime,
    pub(crate) completed: u64,
    /// The last look, and how many had completed then.
    pub(crate) look: SimTime,
    pub(crate) seen: u64,
    /// Whether the window has ended at that look.
    pub(crate) over: bool,
    /// What became of the warm-up.
    pub(crate) warmed: Warmed,
}

/// The bytes of a checkpoint: where the run has come to, and all components.
///
/// # Errors
/// What cannot be saved, by component.
pub(crate) fn save(
    plan: &Plan,
    seed: u64,
    (place, batches): (&Place, Option<&Batches>),
    simulation: &mut Simulation<Node>,
) -> Result<Vec<u8>, Vec<Refusal>> {
    let mut out = StateWriter::default();
    out.value("checkpoint", &Origin::of(plan, seed));
    out.value("place", place);
    out.value("batches", &batches);
    simulation.save(&mut out);
    out.finish()
}

/// What in a system cannot be saved, by component.
pub(crate) fn refusals(simulation: &mut Simulation<Node>) -> Vec<Refusal> {
    let mut out = StateWriter::asking();
    simulation.save(&mut out);
    out.finish().err().unwrap_or_default()
}

/// Refusals as mistakes of the scenario, each once.
pub(crate) fn problems(plan: &Plan, system: &System, refusals: &[Refusal]) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    for refusal in refusals {
        let number = refusal.component;
        let path = if number < system.hosts {
            format!("hosts[{}]", plan.hosts[number].group)
        } else if number < system.hosts + system.devices {
            match plan.devices[number - system.hosts].group {
                DeviceKind::Memory(group) => format!("devices[{group}]"),
                DeviceKind::Accelerator(group) => format!("accelerators[{group}]"),
            }
        } else {
            "fabric".to_owned()
        };
        let what = &refusal.what;
        let message = format!("found in a run with checkpoints: {what} (docs/checkpoints.md)");
        let problem = Problem::new(path, message);
        if !problems
            .iter()
            .any(|one| (&one.path, &one.message) == (&problem.path, &problem.message))
        {
            problems.push(problem);
        }
    }
    problems
}

/// The longest simulated time between two looks at whether a checkpoint is due, at first: 1 us. It
/// grows and shrinks with the speed of the run, so that a checkpoint is late by little.
const FIRST_SLICE: u64 = 1_000_000;

/// Writes checkpoints when they are due.
pub(crate) struct Writer<'a> {
    every: Every,
    path: &'a Path,
    /// When the next one is due, in simulated time or requests.
    due: u64,
    last: Instant,
    slice: u64,
    /// Where the slice began, in requests and real time.
    before: (u64, Instant),
}

impl<'a> Writer<'a> {
    /// From here on, with so many requests completed. Makes the file's folder where it is missing.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn new(
        every: Every,
        path: &'a Path,
        now: SimTime,
        completed: u64,
    ) -> Result<Writer<'a>, CheckpointError> {
        let folder = path.parent();
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
        if !is_special(path) {
            prepare_dir(folder.unwrap_or(Path::new(".")))
                .map_err(|error| CheckpointError::Unwritable(path.to_owned(), error))?;
        }
        let last = Instant::now();
        let mut writer = Writer {
            every,
            path,
            due: 0,
            last,
            slice: FIRST_SLICE,
            before: (completed, last),
        };
        writer.plan_next(now, completed);
        Ok(writer)
    }

    pub(crate) fn is_after_warmup(&self) -> bool {
        self.every == Every::WarmUp
    }

    fn plan_next(&mut self, now: SimTime, completed: u64) {
        self.due = match self.every {
            Every::Simulated(span) => now.0.saturating_add(span.0),
            Every::Requests(count) => completed.saturating_add(count),
            Every::Wall(_) | Every::WarmUp => u64::MAX,
        };
        self.last = Instant::now();
    }

    /// How far to simulate before the next look, at most.
    pub(crate) fn slice(&mut self, now: SimTime, completed: u64) -> SimTime {
        self.before = (completed, Instant::now());
        SimTime(match self.every {
            Every::Simulated(_) => self.due,
            Every::Requests(_) | Every::Wall(_) => now.0.saturating_add(self.slice),
            Every::WarmUp => u64::MAX,
        })
    }

    /// Whether a checkpoint is due. A slice is to be between a 32nd and an eighth of the way from one
    /// to the next.
    pub(crate) fn is_due(&mut self, now: SimTime, completed: u64) -> bool {
        let (share, due) = match self.every {
            Every::Simulated(_) => return now.0 >= self.due,
            Every::WarmUp => return false,
            Every::Requests(count) => (
                (completed - self.before.0) as f64 / count as f64,
                completed >= self.due,
            ),
            Every::Wall(span) => (
                self.before.1.elapsed().as_secs_f64() / span.as_secs_f64().max(1e-9),
                self.last.elapsed() >= span,
            ),
        };
        if share > 1.0 / 8.0 {
            self.slice = (self.slice / 2).max(1_000);
        } else if share < 1.0 / 32.0 {
            self.slice = self.slice.saturating_mul(2);
        }
        due
    }

    /// Writes a checkpoint, where there is something to write. The file has its name only when it is whole; until then the one before
    /// has it.
    pub(crate) fn write(
        &mut self,
        bytes: Option<&[u8]>,
        now: SimTime,
        completed: u64,
    ) -> Result<(), CheckpointError> {
        if let Some(bytes) = bytes {
            write_whole(self.path, bytes)
                .map_err(|error| CheckpointError::Unwritable(self.path.to_owned(), error))?;
        }
        self.plan_next(now, completed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_read_as_they_are_written_and_nothing_else_does() {
        let read = |text: &str| text.parse::<Every>();
        assert_eq!(read("10 ms"), Ok(Every::Simulated(Picos(10_000_000_000))));
        assert_eq!(read("100_000 requests"), Ok(Every::Requests(100_000)));
        assert_eq!(read("30 s wall"), Ok(Every::Wall(Duration::from_secs(30))));
        assert_eq!(read(" warm-up "), Ok(Every::WarmUp));
        for wrong in [
            "",
            "10",
            "0 ms",
            "0 requests",
            "-1 requests",
            "requests",
            "wall",
            "5 m",
        ] {
            let error = read(wrong).expect_err(wrong);
            assert!(error.contains("allowed: a simulated time"), "{error}");
        }
    }
}
