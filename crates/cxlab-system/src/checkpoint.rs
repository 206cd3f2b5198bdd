//! Checkpoints: the whole state of a run in a file, from which it goes on as if it had never
//! stopped, on any number of threads.
//!
//! A checkpoint is the run's place (what it measures, since when) and the state of every component
//! and of every event between them. What was built from the scenario is not in it: it is restored
//! into a system that was built from the same one. The windows of warm-up and measurement may
//! change, as far as the run has not passed them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cxlab_engine::Simulation;
use cxlab_engine::state::{self, Refusal, StateError, StateReader, StateWriter};
use cxlab_engine::units::{Picos, SimTime};
use cxlab_files::WholeFile;
use cxlab_plan::windows::WindowEnd;
use cxlab_plan::{DeviceKind, Plan, Problem};
use serde::{Deserialize, Serialize};

use crate::batches::Batches;

use crate::output::{is_special, prepare_dir, write_whole};
use crate::run::{RunError, Warmed};
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

/// What [`Every`] reads. Writing a checkpoint takes some milliseconds, most of them for bringing it to disk, so
/// that shorter intervals would leave a run no time.
const EVERY: &str = "a simulated time from 1 us (\"10 ms\"), requests from 100 (\"100000 requests\"), a real time from \
     10 ms (\"30 s wall\"), or \"warm-up\"";
const LEAST_SIMULATED: Picos = Picos(1_000_000);
const FEWEST_REQUESTS: u64 = 100;
const LEAST_WALL: Duration = Duration::from_millis(10);

impl Default for Every {
    /// Each minute of real time.
    fn default() -> Self {
        Every::Wall(Duration::from_secs(60))
    }
}

impl FromStr for Every {
    type Err = String;

    fn from_str(text: &str) -> Result<Every, String> {
        let wrong = || format!("found `{text}`; allowed: {EVERY}");
        let trimmed = text.trim();
        if trimmed == "warm-up" {
            return Ok(Every::WarmUp);
        }
        if let Some(requests) = trimmed.strip_suffix("requests") {
            let count = requests.trim().replace('_', "").parse();
            return match count {
                Ok(count @ FEWEST_REQUESTS..) => Ok(Every::Requests(count)),
                _ => Err(wrong()),
            };
        }
        let (time, wall) = match trimmed.strip_suffix("wall") {
            Some(time) => (time, true),
            None => (trimmed, false),
        };
        let span: Picos = time.trim().parse().map_err(|_| wrong())?;
        let real = Duration::from_nanos(span.0.div_ceil(1000));
        match wall {
            true if real >= LEAST_WALL => Ok(Every::Wall(real)),
            false if span >= LEAST_SIMULATED => Ok(Every::Simulated(span)),
            _ => Err(wrong()),
        }
    }
}

/// What a run writes and where it begins.
#[derive(Default)]
pub struct Checkpoints<'a> {
    /// When checkpoints are written, and to which file.
    pub write: Option<(Every, &'a Path)>,
    /// Takes note of checkpoints that cannot be written, after which the run goes on. Without it such a run fails.
    pub not_written: Option<&'a NotWritten>,
    /// The checkpoint to go on from.
    pub restore: Option<Checkpoint>,
}

/// The checkpoints of a run that could not be written.
#[derive(Default)]
pub struct NotWritten {
    /// How many, and why the last of them.
    noted: Mutex<(u64, String)>,
    /// Is called for the first one.
    at_once: Option<fn(&CheckpointError)>,
}

impl NotWritten {
    /// None so far; `at_once` will be told of the first one.
    pub fn telling(at_once: fn(&CheckpointError)) -> NotWritten {
        NotWritten {
            at_once: Some(at_once),
            ..NotWritten::default()
        }
    }

    fn note(&self, error: &CheckpointError) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if let (0, Some(tell)) = (noted.0, self.at_once) {
            tell(error);
        }
        *noted = (noted.0 + 1, error.to_string());
    }

    /// What to tell the user at the end of the run; nothing where all were written.
    pub fn summary(&self) -> Option<String> {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, last) = &*noted;
        (*count > 0).then(|| {
            format!(
                "{count} of the run's checkpoints could not be written; the file is as it was before them. The last: \
                 {last}"
            )
        })
    }
}

/// Why a checkpoint cannot be used or written.
#[derive(Debug)]
pub enum CheckpointError {
    /// It cannot be read, is damaged, or is of another run: the user's mistake.
    Refused(String),
    /// It would replace a file that is no checkpoint: the user's mistake.
    Foreign(PathBuf),
    /// It cannot be written.
    Unwritable(PathBuf, std::io::Error),
}

impl std::fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CheckpointError::Refused(why) => f.write_str(why),
            CheckpointError::Foreign(path) => write!(
                f,
                "{}: found a file that is no checkpoint; allowed: the name of a new file, or of a checkpoint, \
                 which is replaced",
                path.display()
            ),
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
        match read_state(path) {
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

/// Reads a file to its end where it begins as a saved state, and no more than its beginning where it does not.
fn read_state(path: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        let message = "found no regular file; allowed: one that --checkpoint wrote";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    file.by_ref().take(BEGINNING).read_to_end(&mut bytes)?;
    if state::is_state(&bytes) {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// As many bytes as show whether a file is a saved state.
const BEGINNING: u64 = 64;

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
    pub(crate) warmup: WindowEnd,
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
        let message =
            format!("found in a run with checkpoints: {what} (docs/guide/checkpoints.md)");
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
    not_written: Option<&'a NotWritten>,
    /// When the next one is due, in simulated time or requests.
    due: u64,
    last: Instant,
    slice: u64,
    /// Where the slice began, in requests and real time.
    before: (u64, Instant),
}

impl<'a> Writer<'a> {
    /// From here on, with so many requests completed. Makes the file's folder where it is missing, and tries
    /// whether the file can be written.
    ///
    /// # Errors
    /// The file cannot be written, or is somebody else's.
    pub(crate) fn new(
        (every, path): (Every, &'a Path),
        not_written: Option<&'a NotWritten>,
        now: SimTime,
        completed: u64,
    ) -> Result<Writer<'a>, CheckpointError> {
        let folder = path.parent();
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
        if !is_special(path) {
            prepare_dir(folder.unwrap_or(Path::new(".")))
                .and_then(|()| WholeFile::create(path).map(drop))
                .map_err(|error| CheckpointError::Unwritable(path.to_owned(), error))?;
            // What cannot be read is no checkpoint of this user.
            let foreign = path.exists()
                && read_state(path)
                    .map_or(true, |found| !found.is_empty() && !state::is_state(&found));
            if foreign {
                return Err(CheckpointError::Foreign(path.to_owned()));
            }
        }
        let last = Instant::now();
        let mut writer = Writer {
            every,
            path,
            not_written,
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

    /// Writes a checkpoint, where there is something to write. The file has its name only when it is whole; until
    /// then the one before has it.
    ///
    /// # Errors
    /// It cannot be written, and nobody wants to be told so while the run goes on.
    pub(crate) fn write(
        &mut self,
        bytes: Option<&[u8]>,
        now: SimTime,
        completed: u64,
    ) -> Result<(), CheckpointError> {
        if let Some(Err(error)) = bytes.map(|bytes| write_whole(self.path, bytes)) {
            let error = CheckpointError::Unwritable(self.path.to_owned(), error);
            match self.not_written {
                Some(not_written) => not_written.note(&error),
                None => return Err(error),
            }
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
            "99 requests",
            "999 ns",
            "1 ps",
            "9999 us wall",
            "requests",
            "wall",
            "5 m",
        ] {
            let error = read(wrong).expect_err(wrong);
            assert!(error.contains("allowed: a simulated time"), "{error}");
        }
    }
}
