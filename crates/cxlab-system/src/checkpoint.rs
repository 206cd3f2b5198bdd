//! Checkpoints: the whole state of a run in a file, from which the run continues as if it had never stopped,
//! on any number of threads.
//!
//! A checkpoint contains the run's position (what it measures, since when), the state of every component and every
//! event in flight. Data built from the scenario is not stored: a checkpoint is restored into a system that was built
//! from the same scenario. The windows of warm-up and measurement may change, as far as the run has not passed them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cxlab_engine::Simulation;
use cxlab_engine::state::{self, Refusal, StateError, StateReader, StateWriter};
use cxlab_engine::units::{Picos, SimTime};
use cxlab_files::WholeFile;
use cxlab_plan::{DeviceKind, Plan, Problem};
use serde::{Deserialize, Serialize};
use web_time::Instant;

use crate::batches::Batches;
use crate::output::{is_special, prepare_dir, write_whole};
use crate::position::RunPosition;
use crate::system::{Node, System};

/// When checkpoints are written. The choice never changes a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckpointInterval {
    /// Simulated time between checkpoints.
    Simulated(Picos),
    /// Completed requests between checkpoints, or slightly more.
    Requests(u64),
    /// Real time between checkpoints, or slightly more.
    Wall(Duration),
    /// One checkpoint, at the end of the warm-up.
    WarmUp,
}

/// The texts that [`CheckpointInterval`] accepts. Writing a checkpoint takes some milliseconds, most of them to bring it
/// to disk. Shorter intervals would leave a run no time.
const EVERY: &str = "a simulated time from 1 us (\"10 ms\"), requests from 100 (\"100000 requests\"), a real time from \
     10 ms (\"30 s wall\"), or \"warm-up\"";
const LEAST_SIMULATED: Picos = Picos(1_000_000);
const FEWEST_REQUESTS: u64 = 100;
const LEAST_WALL: Duration = Duration::from_millis(10);

impl Default for CheckpointInterval {
    /// One checkpoint each minute of real time.
    fn default() -> Self {
        CheckpointInterval::Wall(Duration::from_secs(60))
    }
}

impl FromStr for CheckpointInterval {
    type Err = String;

    fn from_str(text: &str) -> Result<CheckpointInterval, String> {
        let wrong = || format!("found `{text}`; allowed: {EVERY}");
        let trimmed = text.trim();
        if trimmed == "warm-up" {
            return Ok(CheckpointInterval::WarmUp);
        }
        if let Some(requests) = trimmed.strip_suffix("requests") {
            return match requests.trim().replace('_', "").parse() {
                Ok(count @ FEWEST_REQUESTS..) => Ok(CheckpointInterval::Requests(count)),
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
            true if real >= LEAST_WALL => Ok(CheckpointInterval::Wall(real)),
            false if span >= LEAST_SIMULATED => Ok(CheckpointInterval::Simulated(span)),
            _ => Err(wrong()),
        }
    }
}

/// Checkpoints that a run writes, and the checkpoint from which it continues.
#[derive(Default)]
pub struct Checkpoints<'a> {
    /// When checkpoints are written, and to which file.
    pub write: Option<(CheckpointInterval, &'a Path)>,
    /// Records checkpoints that cannot be written, after which the run continues. Without it, such a run fails.
    pub not_written: Option<&'a NotWritten>,
    /// The checkpoint to continue from.
    pub restore: Option<Checkpoint>,
}

/// The checkpoints of a run that could not be written.
#[derive(Default)]
pub struct NotWritten {
    /// Number of these checkpoints, and the error of the last.
    noted: Mutex<(u64, String)>,
    /// Called for the first of these checkpoints.
    at_once: Option<fn(&CheckpointError)>,
}

impl NotWritten {
    /// An empty record. `at_once` is called for the first checkpoint that cannot be written.
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

    /// Message to the user at the end of the run; `None` where all checkpoints were written.
    pub fn summary(&self) -> Option<String> {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, last) = &*noted;
        (*count > 0).then(|| format!(
            "{count} of the run's checkpoints could not be written; the file is as it was before them. The last: {last}"
        ))
    }
}

/// Why a checkpoint cannot be used or written.
#[derive(Debug)]
pub enum CheckpointError {
    /// The checkpoint cannot be read, is damaged, or belongs to another run: a mistake of the user.
    Refused(String),
    /// The checkpoint would replace a file that is no checkpoint: a mistake of the user.
    Foreign(PathBuf),
    /// The file at this path cannot be written.
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
            CheckpointError::Unwritable(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for CheckpointError {}

/// A checkpoint in memory, checked to be whole.
pub struct Checkpoint {
    name: String,
    bytes: Vec<u8>,
}

impl Checkpoint {
    /// Reads a checkpoint file and checks that it is whole.
    ///
    /// # Errors
    /// [`CheckpointError::Refused`] if the file cannot be read, is no checkpoint, or is damaged.
    pub fn read(path: &Path) -> Result<Checkpoint, CheckpointError> {
        let name = path.display().to_string();
        match read_state(path) {
            Ok(bytes) => Checkpoint::of(name, bytes),
            Err(error) => Err(CheckpointError::Refused(format!(
                "{name}: the checkpoint cannot be read: {error}"
            ))),
        }
    }

    /// A checkpoint from bytes in memory, with a name for messages.
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

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn refused(&self, error: &impl std::fmt::Display) -> CheckpointError {
        CheckpointError::Refused(format!("{}: {error}", self.name))
    }

    /// Restores the state into a system that was built from the same plan and seed; returns the run's position.
    pub(crate) fn restore(
        &self,
        plan: &Plan,
        seed: u64,
        simulation: &mut Simulation<Node>,
    ) -> Result<(RunPosition, Option<Batches>), CheckpointError> {
        self.fill(plan, seed, simulation)
            .map_err(|error| self.refused(&error))
    }

    fn fill(
        &self,
        plan: &Plan,
        seed: u64,
        simulation: &mut Simulation<Node>,
    ) -> Result<(RunPosition, Option<Batches>), StateError> {
        let mut from = StateReader::open(&self.bytes)?;
        let of: Origin = from.value("checkpoint")?;
        of.check(&Origin::of(plan, seed))?;
        let position = from.value("place")?;
        let batches = from.value("batches")?;
        simulation.restore(&mut from)?;
        from.finish()?;
        Ok((position, batches))
    }
}

/// Reads a whole file if it begins like a saved state, and only its beginning otherwise.
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

/// Number of bytes that show whether a file is a saved state.
const BEGINNING: u64 = 64;

/// Identity of the run that a checkpoint belongs to.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    version: String,
    plan: String,
    seed: u64,
}

impl Origin {
    pub(crate) fn of(plan: &Plan, seed: u64) -> Origin {
        Origin {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            plan: plan.state_hash.clone(),
            seed,
        }
    }

    pub(crate) fn check(&self, run: &Origin) -> Result<(), StateError> {
        let wrong = if self.version != run.version {
            format!(
                "found a checkpoint of cxlab {}; allowed: of cxlab {}, which this is",
                self.version, run.version
            )
        } else if self.plan != run.plan {
            format!(
                "found a checkpoint of another system (plan {}); allowed: of this scenario with the same \
                 changes (plan {}), of which only [measure] and [execution] may differ",
                self.plan, run.plan
            )
        } else if self.seed != run.seed {
            format!(
                "found a checkpoint of a run with seed {}; allowed: seed {}, which this run has",
                self.seed, run.seed
            )
        } else {
            return Ok(());
        };
        Err(StateError::new(wrong))
    }
}

/// The bytes of a checkpoint: the run's position, and the state of all components.
///
/// # Errors
/// State that cannot be saved, by component.
pub(crate) fn save(
    plan: &Plan,
    seed: u64,
    (position, batches): (&RunPosition, Option<&Batches>),
    simulation: &mut Simulation<Node>,
) -> Result<Vec<u8>, Vec<Refusal>> {
    let mut out = StateWriter::default();
    out.value("checkpoint", &Origin::of(plan, seed));
    out.value("place", position);
    out.value("batches", &batches);
    simulation.save(&mut out);
    out.finish()
}

/// State in a system that cannot be saved, by component.
pub(crate) fn refusals(simulation: &mut Simulation<Node>) -> Vec<Refusal> {
    let mut out = StateWriter::refusals_only();
    simulation.save(&mut out);
    out.finish().err().unwrap_or_default()
}

/// Refusals as problems of the scenario, each once.
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
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    problems
}

/// Initial limit on the simulated time between two checks whether a checkpoint is due: 1 us. The limit grows
/// and shrinks with the speed of the run, so that a checkpoint is only slightly late.
const FIRST_SLICE: u64 = 1_000_000;

/// Writes checkpoints when they are due.
pub(crate) struct Writer<'a> {
    every: CheckpointInterval,
    path: &'a Path,
    not_written: Option<&'a NotWritten>,
    /// When the next checkpoint is due, in simulated time or requests.
    due: u64,
    last: Instant,
    slice: u64,
    /// Beginning of the slice, in requests and real time.
    before: (u64, Instant),
}

impl<'a> Writer<'a> {
    /// A writer that starts at `now` with `completed` requests. Creates the file's folder where it is
    /// missing, and tests whether the file can be written.
    ///
    /// # Errors
    /// The file cannot be written, or is no checkpoint.
    pub(crate) fn new(
        (every, path): (CheckpointInterval, &'a Path),
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
            // A file that cannot be read is no checkpoint of this user.
            let is_own = |found: Vec<u8>| found.is_empty() || state::is_state(&found);
            if path.exists() && !read_state(path).is_ok_and(is_own) {
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
        self.every == CheckpointInterval::WarmUp
    }

    fn plan_next(&mut self, now: SimTime, completed: u64) {
        self.due = match self.every {
            CheckpointInterval::Simulated(span) => now.0.saturating_add(span.0),
            CheckpointInterval::Requests(count) => completed.saturating_add(count),
            CheckpointInterval::Wall(_) | CheckpointInterval::WarmUp => u64::MAX,
        };
        self.last = Instant::now();
    }

    /// Latest time of the next check whether a checkpoint is due.
    pub(crate) fn slice(&mut self, now: SimTime, completed: u64) -> SimTime {
        self.before = (completed, Instant::now());
        SimTime(match self.every {
            CheckpointInterval::Simulated(_) => self.due,
            CheckpointInterval::Requests(_) | CheckpointInterval::Wall(_) => {
                now.0.saturating_add(self.slice)
            }
            CheckpointInterval::WarmUp => u64::MAX,
        })
    }

    /// Whether a checkpoint is due. A slice should be between a 32nd and an eighth of the distance between checkpoints.
    pub(crate) fn is_due(&mut self, now: SimTime, completed: u64) -> bool {
        let (share, due) = match self.every {
            CheckpointInterval::Simulated(_) => return now.0 >= self.due,
            CheckpointInterval::WarmUp => return false,
            CheckpointInterval::Requests(count) => (
                (completed - self.before.0) as f64 / count as f64,
                completed >= self.due,
            ),
            CheckpointInterval::Wall(span) => (
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

    /// Writes a checkpoint, where there is something to write. The new file gets its name only when it is
    /// whole. Until then the name belongs to the previous checkpoint.
    ///
    /// # Errors
    /// The checkpoint cannot be written, and the caller did not ask to record such errors and continue.
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
        let read = |text: &str| text.parse::<CheckpointInterval>();
        assert_eq!(
            read("10 ms"),
            Ok(CheckpointInterval::Simulated(Picos(10_000_000_000)))
        );
        assert_eq!(
            read("100_000 requests"),
            Ok(CheckpointInterval::Requests(100_000))
        );
        assert_eq!(
            read("30 s wall"),
            Ok(CheckpointInterval::Wall(Duration::from_secs(30)))
        );
        assert_eq!(read(" warm-up "), Ok(CheckpointInterval::WarmUp));
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
