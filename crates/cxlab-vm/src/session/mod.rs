//! One run of a guest: QEMU, what it says, and the model beside it.

mod charge;
mod talk;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::console::Console;
use crate::memory::{Memory, Stuck};
use crate::model::{Limits, Model, PoolCounts};
use crate::ring::{ClockState, Counters, LANES, Shared, WORDS};
use crate::sys::{SharedWords, end_with_us};
use charge::consume;
use talk::{MOST_OUTPUT, Talk};

/// Programs that are run at most (one for each memory).
const MOST_RUNS: usize = 64;

/// What is needed to run a guest.
pub struct Job<'a> {
    /// QEMU.
    pub qemu: &'a str,
    /// Its arguments, given the descriptor of what is shared.
    pub arguments: &'a dyn Fn(i32) -> Vec<String>,
    /// Processors.
    pub processors: usize,
    /// What a processor does at once.
    pub limits: Limits,
    /// Longest time for all, on this machine.
    pub limit: Duration,
}

/// Why a guest did not run.
#[derive(Debug)]
pub enum SessionError {
    /// QEMU could not be started, or ended without the guest's having finished.
    Qemu(String),
    /// The guest said what does not work.
    Guest(String),
    /// It took too long.
    Limit(Duration),
    /// A medium never answered.
    Stuck(Stuck),
    /// The system refused something.
    System(io::Error),
}

impl std::fmt::Display for SessionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SessionError::Qemu(text) => write!(f, "QEMU ended early: {text}"),
            SessionError::Guest(text) => write!(f, "the guest: {text}"),
            SessionError::Limit(limit) => write!(
                f,
                "the guest was not done after {} s (--timeout)",
                limit.as_secs()
            ),
            SessionError::Stuck(stuck) => stuck.fmt(f),
            SessionError::System(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for SessionError {}

/// What a program's run was.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Run {
    /// The memory that it was bound to.
    pub memory: String,
    /// How it ended.
    pub exit_code: i32,
    /// Seconds by the guest's clock.
    pub guest_s: Option<f64>,
    /// Seconds of simulated time in which a processor was at work, and its waits.
    pub busy_s: f64,
    /// Seconds of simulated time that were skipped because all processors slept.
    pub idle_s: f64,
    /// Seconds on this machine.
    pub wall_s: f64,
    /// What it wrote.
    pub output: Vec<String>,
    /// What the plugin counted.
    #[serde(skip)]
    pub counters: Counters,
    /// What was asked of each pool.
    #[serde(skip)]
    pub pools: Vec<PoolCounts>,
}

/// A region as the guest made it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
pub struct Region {
    /// The window.
    pub window: usize,
    /// Its first address in the guest.
    pub address: u64,
    /// Its NUMA node.
    pub node: u32,
}

/// What a guest did.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Seconds on this machine until the first process.
    pub boot_s: f64,
    /// Seconds on this machine until all regions were there.
    pub ready_s: f64,
    /// Seconds on this machine in all.
    pub wall_s: f64,
    /// Whether the guest's clock followed simulated time.
    pub clock: ClockState,
    /// Windows that were as fast as other memory.
    pub overlay: u64,
    /// What the guest's kernel read the time from.
    pub clocksource: String,
    /// Regions.
    pub regions: Vec<Region>,
    /// Programs.
    pub runs: Vec<Run>,
    /// What the guest said besides.
    pub console: Vec<String>,
}

/// Runs a guest to its end. `show` gets the lines that its programs write.
///
/// # Errors
/// [`SessionError`]. QEMU has ended in any case.
pub fn run<M: Memory>(
    job: &Job<'_>,
    memory: M,
    show: &mut dyn FnMut(&str),
) -> Result<Outcome, SessionError> {
    let words = SharedWords::new(WORDS).map_err(SessionError::System)?;
    let shared = Shared::new(words.words())
        .ok_or_else(|| SessionError::System(io::Error::other("the shared memory is too small")))?;
    let model = Model::new(memory, job.limits, job.processors.min(LANES));
    let stop = AtomicBool::new(false);
    let mut child = Guarded(start(job, words.fd())?);
    thread::scope(|scope| {
        let consumer = scope.spawn(|| consume(model, shared, &stop));
        let heard = listen(job, &mut child.0, shared, &|| consumer.is_finished(), show);
        child.end();
        stop.store(true, Ordering::Release);
        let charged = consumer
            .join()
            .map_err(|_| SessionError::Qemu("the model ended early".to_owned()))?;
        // That a medium is stuck is why QEMU was ended.
        let phases = charged.map_err(SessionError::Stuck)?;
        let mut outcome = heard?;
        for (run, phase) in outcome.runs.iter_mut().zip(phases) {
            run.busy_s = phase.busy_ps as f64 / 1e12;
            run.idle_s = phase.idle_ns as f64 / 1e9;
            run.wall_s = phase.wall_s;
            run.counters = phase.counters;
            run.pools = phase.pools;
        }
        Ok(outcome)
    })
}

/// A child that ends when this does.
struct Guarded(Child);

impl Guarded {
    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.end();
    }
}

fn start(job: &Job<'_>, fd: i32) -> Result<Child, SessionError> {
    let mut command = Command::new(job.qemu);
    command
        .args((job.arguments)(fd))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    end_with_us(&mut command);
    command
        .spawn()
        .map_err(|error| SessionError::Qemu(format!("{}: {error}", job.qemu)))
}

/// Reads what QEMU and the guest say until both are done.
fn listen(
    job: &Job<'_>,
    child: &mut Child,
    shared: Shared<'_>,
    failed: &dyn Fn() -> bool,
    show: &mut dyn FnMut(&str),
) -> Result<Outcome, SessionError> {
    let began = Instant::now();
    let console = pump(child.stdout.take());
    let errors = keep(child.stderr.take());
    let mut talk = Talk::new(began);
    let mut lines = Console::default();
    loop {
        match console.recv_timeout(Duration::from_millis(100)) {
            Ok(bytes) => lines.feed(&bytes, |said| talk.hear(said, show)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if began.elapsed() > job.limit {
            return Err(SessionError::Limit(job.limit));
        }
        if failed() || talk.failed.is_some() {
            break;
        }
    }
    lines.finish(|said| talk.hear(said, show));
    if let Some(text) = talk.failed {
        return Err(SessionError::Guest(text));
    }
    if !talk.done && !failed() {
        // The stream has ended with QEMU, or soon will.
        child.wait().map_err(SessionError::System)?;
        let said = errors.join().unwrap_or_default();
        return Err(SessionError::Qemu(talk.why(&said)));
    }
    let mut outcome = talk.outcome;
    outcome.wall_s = began.elapsed().as_secs_f64();
    outcome.clock = shared.clock();
    outcome.overlay = shared.overlay();
    Ok(outcome)
}

/// Reads a stream on a thread of its own.
fn pump(stream: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = sync_channel(64);
    if let Some(mut stream) = stream {
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}

/// Reads a stream to its end on a thread of its own, and keeps its beginning.
fn keep(stream: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        let mut buffer = [0; 4096];
        if let Some(mut stream) = stream {
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                let room = MOST_OUTPUT.saturating_sub(kept.len());
                kept.extend_from_slice(&buffer[..count.min(room)]);
            }
        }
        kept
    })
}

/// Writes the archive of a run behind the one that all runs share.
///
/// # Errors
/// Whatever the file system says.
pub fn write_initrd(base: &Path, own: &[u8], to: &Path) -> io::Result<PathBuf> {
    let mut whole = std::fs::read(base)?;
    whole.extend_from_slice(own);
    match std::fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = std::fs::File::options()
        .write(true)
        .create_new(true)
        .open(to)?;
    io::Write::write_all(&mut file, &whole)?;
    Ok(to.to_owned())
}
