//! One run of a guest: QEMU, what it says, and the model beside it.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::console::{Console, Said};
use crate::memory::{Memory, Stuck};
use crate::model::{Limits, Model, PoolCounts};
use crate::ring::{ClockState, Counters, Kind, LANES, Shared, WORDS};
use crate::sys::{SharedWords, end_with_us};

/// Bytes of a program's output that a report keeps.
const MOST_OUTPUT: usize = 64 << 10;
/// Bytes of the guest's console that are kept in all.
const MOST_CONSOLE: usize = 4 << 20;
/// Lines of the guest's console that are shown when it has gone.
const MOST_LAST: usize = 20;
/// Programs that are run at most (one for each memory).
const MOST_RUNS: usize = 64;
/// Records that are charged at once, unless the plugin waits.
const BATCH: u64 = 64;

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

/// Between two marks.
#[derive(Clone, Default)]
struct Phase {
    busy_ps: u64,
    idle_ns: u64,
    wall_s: f64,
    counters: Counters,
    pools: Vec<PoolCounts>,
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

/// What was heard until now.
struct Talk {
    began: Instant,
    outcome: Outcome,
    current: Option<Run>,
    kept: usize,
    failed: Option<String>,
    done: bool,
}

impl Talk {
    fn new(began: Instant) -> Talk {
        Talk {
            began,
            outcome: Outcome {
                boot_s: 0.0,
                ready_s: 0.0,
                wall_s: 0.0,
                clock: ClockState::Unknown,
                overlay: 0,
                clocksource: String::new(),
                regions: Vec::new(),
                runs: Vec::new(),
                console: Vec::new(),
            },
            current: None,
            kept: 0,
            failed: None,
            done: false,
        }
    }

    fn hear(&mut self, said: Said, show: &mut dyn FnMut(&str)) {
        let elapsed = self.began.elapsed().as_secs_f64();
        match said {
            Said::Up(_) => self.outcome.boot_s = elapsed,
            Said::Ready(_) => self.outcome.ready_s = elapsed,
            Said::Clock(name) => self.outcome.clocksource = name,
            Said::Window {
                number,
                address,
                node,
            } if self.outcome.regions.len() < crate::machine::MOST_WINDOWS => {
                self.outcome.regions.push(Region {
                    window: number,
                    address,
                    node,
                });
            }
            Said::Window { .. } => {}
            Said::Begin(memory) => {
                self.kept = 0;
                self.current = Some(Run {
                    memory,
                    exit_code: 0,
                    guest_s: None,
                    busy_s: 0.0,
                    idle_s: 0.0,
                    wall_s: 0.0,
                    output: Vec::new(),
                    counters: Counters::default(),
                    pools: Vec::new(),
                });
            }
            Said::Took(nanos) => {
                if let Some(run) = &mut self.current {
                    run.guest_s = Some(nanos as f64 / 1e9);
                }
            }
            Said::End(code) => {
                if let Some(mut run) = self.current.take()
                    && self.outcome.runs.len() < MOST_RUNS
                {
                    run.exit_code = code;
                    self.outcome.runs.push(run);
                }
            }
            Said::Failed(text) => self.failed = Some(text),
            Said::Done => self.done = true,
            Said::Line(line) => self.line(line, show),
        }
    }

    /// Why QEMU ended before the guest was done: what it said, or the guest's last lines.
    fn why(&self, said: &[u8]) -> String {
        let mut lines = Vec::new();
        let mut console = Console::default();
        let mut take = |said| {
            if let Said::Line(line) = said {
                lines.push(line);
            }
        };
        console.feed(said, &mut take);
        console.finish(&mut take);
        if lines.is_empty() {
            let guest = &self.outcome.console;
            let last = &guest[guest.len().saturating_sub(MOST_LAST)..];
            lines.push("the guest went before its programs had ended".to_owned());
            lines.extend_from_slice(last);
        }
        lines.join("\n")
    }

    fn line(&mut self, line: String, show: &mut dyn FnMut(&str)) {
        self.kept += line.len() + 1;
        if let Some(run) = &mut self.current {
            show(&line);
            if self.kept <= MOST_OUTPUT {
                run.output.push(line);
            }
        } else if self.kept <= MOST_CONSOLE {
            self.outcome.console.push(line);
        }
    }
}

/// Charges what the plugin tells, until `stop`.
fn consume<M: Memory>(
    mut model: Model<M>,
    shared: Shared<'_>,
    stop: &AtomicBool,
) -> Result<Vec<Phase>, Stuck> {
    let began = Instant::now();
    let mut tails = [0u64; LANES];
    let mut heads = [0u64; LANES];
    let mut told = [0u64; LANES];
    let lanes = model.processors();
    let mut phases: Vec<Phase> = Vec::new();
    let mut open: Option<Phase> = None;
    let mut quiet = 0u32;
    loop {
        // The processor that is behind goes first, unless it waits for what others may still ask
        // before.
        let mut ready: Option<(u64, usize)> = None;
        let mut waiting: Option<(u64, usize)> = None;
        for lane in 0..lanes {
            if let Some(from) = model.waits_from(lane) {
                waiting = least(waiting, (from, lane));
                continue;
            }
            if heads[lane] == tails[lane] {
                heads[lane] = shared.lane(lane).head();
            }
            if heads[lane] != tails[lane] {
                let record = shared.lane(lane).record(tails[lane]);
                ready = least(ready, (record.at_ps + model.charged_ps(lane), lane));
            }
        }
        let bound = waiting.map_or(u64::MAX, |(from, _)| from + model.least_ps());
        let lane = match (ready, waiting) {
            (Some((at, lane)), _) if at < bound => {
                let record = shared.lane(lane).record(tails[lane]);
                if record.kind() == Kind::Mark {
                    let now = state(&model, shared, at, began);
                    mark(now, record.mark(), &mut open, &mut phases);
                }
                model.record(lane, record)?;
                lane
            }
            (_, Some((_, lane))) => {
                model.resume(lane)?;
                lane
            }
            _ => {
                if stop.load(Ordering::Acquire) {
                    return Ok(phases);
                }
                rest(&mut quiet);
                continue;
            }
        };
        quiet = 0;
        if model.waits_from(lane).is_none() {
            tails[lane] += 1;
            if tails[lane] == heads[lane] || tails[lane] - told[lane] >= BATCH {
                told[lane] = tails[lane];
                shared
                    .lane(lane)
                    .charge(model.charged_ps(lane), tails[lane]);
            }
        }
    }
}

fn least(one: Option<(u64, usize)>, other: (u64, usize)) -> Option<(u64, usize)> {
    Some(one.map_or(other, |one| one.min(other)))
}

/// Nothing to do: first a look again at once, then with ever more time between.
fn rest(quiet: &mut u32) {
    *quiet = quiet.saturating_add(1);
    match *quiet {
        0..500 => std::hint::spin_loop(),
        500..2000 => thread::yield_now(),
        _ => thread::sleep(Duration::from_micros(100)),
    }
}

/// How it stands at a simulated time.
fn state<M: Memory>(model: &Model<M>, shared: Shared<'_>, busy_ps: u64, began: Instant) -> Phase {
    let counters = (0..model.processors())
        .map(|lane| shared.lane(lane).counters())
        .fold(Counters::default(), |sum, one| sum.plus(&one));
    Phase {
        busy_ps,
        idle_ns: shared.idle_ns(),
        wall_s: began.elapsed().as_secs_f64(),
        counters,
        pools: model.counts().to_vec(),
    }
}

/// The guest is at a mark: a phase begins (1) or ends (2).
fn mark(now: Phase, number: u64, open: &mut Option<Phase>, phases: &mut Vec<Phase>) {
    match (number, open.take()) {
        (1, _) => *open = Some(now),
        (2, Some(from)) if phases.len() < MOST_RUNS => {
            let pools = now.pools.iter().zip(&from.pools);
            phases.push(Phase {
                busy_ps: now.busy_ps.saturating_sub(from.busy_ps),
                idle_ns: now.idle_ns.saturating_sub(from.idle_ns),
                wall_s: now.wall_s - from.wall_s,
                counters: now.counters.since(&from.counters),
                pools: pools.map(|(now, from)| now.since(from)).collect(),
            });
        }
        (_, from) => *open = from,
    }
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
