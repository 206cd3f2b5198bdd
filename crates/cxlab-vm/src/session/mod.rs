//! A run of guests: a QEMU for each, their messages, and the model beside them.

mod charge;
mod memory;
mod monitor;
mod talk;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::console::Console;
use crate::contents::Words;
use crate::device::{Counts, Device, Executor};
use crate::memory::{Memory, StuckBackend};
use crate::model::shared::SharedCounts;
use crate::model::{Model, PoolCounts, Processors};
use crate::pace::{GuestSkew, Pace};
use crate::qemu::Descriptors;
use crate::ring::{ClockState, Counters, ModelWords, WORDS, WORDS_WITH_DEVICE};
use crate::snapshot::{Snapshot, SnapshotDraft};
use crate::sys::{SharedWords, end_with_us, inherited, private};
use charge::consume;
use memory::QemuMemory;
use monitor::{Line, Monitor};
use talk::{Conversation, MOST_CONSOLE, MOST_OUTPUT};

/// Most programs that are run, one for each memory.
const MOST_RUNS: usize = 64;

const NO_CLOCK: &str = "its clock cannot follow simulated time in this QEMU, which several guests \
                        at once need";

/// Parameters of running a guest.
pub struct Job<'a> {
    /// Name or path of QEMU.
    pub qemu: &'a str,
    /// Arguments of QEMU, given the descriptors that it inherits.
    pub arguments: &'a (dyn Fn(Descriptors) -> Vec<String> + Sync),
    /// Processors of the guest, at most [`crate::ring::LANES`].
    pub processors: Processors,
    /// Whether the guest's clock must follow simulated time, because several guests run together.
    pub in_step: bool,
    /// Longest time for the whole run, on this machine.
    pub limit: Duration,
}

/// Reason why a guest did not complete.
#[derive(thiserror::Error, Debug)]
pub enum SessionError {
    /// QEMU could not be started, or ended before the guest had finished.
    #[error("QEMU ended early: {0}")]
    Qemu(String),
    /// The guest reported something that does not work.
    #[error("the guest: {0}")]
    Guest(String),
    /// The guest exceeded its time limit.
    #[error("the guest was not done after {} s (--timeout)", .0.as_secs())]
    Limit(Duration),
    /// A memory backend never responded.
    #[error(transparent)]
    Stuck(#[from] StuckBackend),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Result of a program's run.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct GuestRun {
    /// Name of the memory to which the program was bound.
    pub memory: String,
    /// Exit code of the program.
    pub exit_code: i32,
    /// Duration by the guest's clock, in seconds.
    pub guest_s: Option<f64>,
    /// Lines of the program's output.
    pub output: Vec<String>,
    /// Measurements of the whole program.
    pub span: Span,
    /// Measurements of its regions of interest.
    pub interest: Vec<Span>,
}

/// Measurements between two marks.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Span {
    /// Simulated time in which a processor was active or waited for memory, in seconds.
    pub busy_s: f64,
    /// Simulated time that was skipped because all processors slept, in seconds.
    pub idle_s: f64,
    /// Time on this machine, in seconds.
    pub wall_s: f64,
    /// Counters of the plugin.
    pub counters: Counters,
    /// Requests to each pool.
    pub pools: Vec<PoolCounts>,
    /// Accesses to memory that guests share.
    pub shared: SharedCounts,
    /// Commands of the guest's accelerator.
    pub device: Counts,
}

/// A region as the guest created it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
pub struct Region {
    /// Number of the window.
    pub window: usize,
    /// First address of the region in the guest.
    pub address: u64,
    /// NUMA node of the region.
    pub node: u32,
}

/// Result of a guest.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Outcome {
    /// Time on this machine until the first process, in seconds, if the guest was booted.
    pub boot_s: Option<f64>,
    /// Time on this machine until all regions existed, in seconds, if the guest was booted.
    pub ready_s: Option<f64>,
    /// Time on this machine until the guest continued, in seconds, if it was restored.
    pub restored_s: Option<f64>,
    /// Total time on this machine, in seconds.
    pub wall_s: f64,
    /// Whether the guest's clock followed simulated time.
    pub clock: ClockState,
    /// Number of windows that were as fast as other memory in QEMU.
    pub overlay: u64,
    /// Name of the clock source of the guest's kernel.
    pub clocksource: String,
    /// Regions that the guest created.
    pub regions: Vec<Region>,
    /// Programs that the guest ran.
    pub runs: Vec<GuestRun>,
    /// Other lines of the guest's console.
    pub console: Vec<String>,
}

/// A guest to run.
pub struct Start<'a> {
    /// Parameters of the run.
    pub job: Job<'a>,
    /// Snapshot to restore the guest from. `None` boots it.
    pub snapshot: Option<&'a Snapshot>,
}

/// Results of guests that ran together.
pub struct GuestOutcomes {
    /// Result by guest. A guest that fails does not end the others.
    pub guests: Vec<Result<Outcome, SessionError>>,
    /// How far guests were out of step.
    pub skew: GuestSkew,
}

/// Runs guests to their ends against one memory. `devices` simulate the accelerators of guests that have one. The model
/// processes no record that is ahead of another guest by the window or more. `show` is called with each line that a
/// program writes, and the number of its guest.
///
/// # Errors
/// [`SessionError`] if a guest cannot start or the model cannot continue. All guests have ended in any case.
pub fn run<M: Memory>(
    starts: &[Start<'_>],
    devices: Vec<Option<Box<dyn Executor + '_>>>,
    memory: M,
    window_ps: u64,
    show: &(dyn Fn(usize, &str) + Sync),
) -> Result<GuestOutcomes, SessionError> {
    let mut words = Vec::new();
    let mut guests = Vec::new();
    let mut memories: Vec<Box<dyn Words>> = Vec::new();
    let mut descriptors = Descriptors::default();
    for (size, descriptor) in memory.shared_sizes().iter().zip(&mut descriptors.memories) {
        let own = SharedWords::new((size / 8) as usize)?;
        *descriptor = own.fd();
        memories.push(Box::new(own));
    }
    // Guests are started on this thread, because they end with the thread that starts them.
    for (start, device) in starts.iter().zip(&devices) {
        let (own, guest) = start_one(start, device.is_some(), descriptors)?;
        words.push(own);
        guests.push(guest);
    }
    let rings = words.iter().map(shared).collect::<Result<Vec<_>, _>>()?;
    let processors: Vec<Processors> = starts.iter().map(|start| start.job.processors).collect();
    let mut model = Model::new(memory, &processors);
    model.share(memories);
    let counts = processors.iter().map(|one| one.count);
    let mut pace = Pace::new(model, rings.iter().copied().zip(counts), window_ps);
    for (guest, executor) in devices.into_iter().enumerate() {
        let Some(executor) = executor else { continue };
        let process = guests[guest].child.0.id();
        let memory = QemuMemory::open(process, rings[guest]).map_err(|error| {
            let what = format!("the memory of QEMU's process cannot be opened: {error}");
            SessionError::System(io::Error::new(error.kind(), what))
        })?;
        pace.attach(guest, Device::new(rings[guest], Box::new(memory), executor));
    }
    let ended: Vec<AtomicBool> = starts.iter().map(|_| AtomicBool::new(false)).collect();
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            let _at_the_end = Raise(&finished);
            consume(pace, &ended)
        });
        let listeners: Vec<_> = guests
            .into_iter()
            .enumerate()
            .map(|(number, mut guest)| {
                let (job, ring) = (&starts[number].job, rings[number]);
                let (ended, finished) = (&ended[number], &finished);
                scope.spawn(move || {
                    let _at_the_end = Raise(ended);
                    let failed = || finished.load(Ordering::Acquire);
                    let mut show = |line: &str| show(number, line);
                    let heard = guest
                        .listen(job, ring, &failed, &mut show, AwaitedState::Programs)
                        .map(|()| guest.outcome(ring));
                    guest.child.end();
                    heard
                })
            })
            .collect();
        let early = |_| SessionError::Qemu("the model ended early".to_owned());
        let heard: Result<Vec<_>, SessionError> = listeners
            .into_iter()
            .map(|listener| listener.join().map_err(early))
            .collect();
        // A stuck memory backend takes precedence, because it is the reason why QEMU was ended.
        let charged = consumer.join().map_err(early)??;
        let mut guests = heard?;
        for (outcome, phases) in guests.iter_mut().zip(charged.phases) {
            let runs = outcome.iter_mut().flat_map(|outcome| &mut outcome.runs);
            for (run, phase) in runs.zip(phases) {
                run.span = phase.span;
                run.interest = phase.interest;
            }
        }
        Ok(GuestOutcomes {
            guests,
            skew: charged.skew,
        })
    })
}

/// Starts a guest, with words that are shared with it alone.
fn start_one(
    start: &Start<'_>,
    has_device: bool,
    descriptors: Descriptors,
) -> Result<(SharedWords, Guest), SessionError> {
    let number = if has_device { WORDS_WITH_DEVICE } else { WORDS };
    let words = SharedWords::new(number)?;
    shared(&words)?;
    let descriptors = Descriptors {
        shared: words.fd(),
        ..descriptors
    };
    let guest = match start.snapshot {
        None => Guest::launch(&start.job, descriptors)?,
        Some(snapshot) => Guest::restore(&start.job, descriptors, snapshot)?,
    };
    // The descriptor is not for guests that are started later.
    private(&words)?;
    Ok((words, guest))
}

/// Sets the flag when dropped.
struct Raise<'a>(&'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Where a guest is saved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SaveAt {
    /// When it is ready for its program.
    Ready,
    /// When the guest's program calls `save`.
    Program,
}

/// Boots a guest until it waits, and saves it. The arguments store its memory in the folder of `making`.
///
/// # Errors
/// [`SessionError`]. QEMU has ended in any case.
pub fn save(job: &Job<'_>, making: SnapshotDraft, at: SaveAt) -> Result<Snapshot, SessionError> {
    let words = SharedWords::new(WORDS)?;
    // The plugin needs the ring, although it writes no record yet.
    let ring = shared(&words)?;
    let line = Line::new()?;
    let descriptors = Descriptors {
        shared: words.fd(),
        ..Descriptors::default()
    };
    let (mut guest, mut monitor) = Guest::start(job, descriptors, line)?;
    guest.listen(job, ring, &|| false, &mut |_| {}, AwaitedState::Hold)?;
    if at == SaveAt::Program {
        guest.let_go();
        guest.listen(job, ring, &|| false, &mut |_| {}, AwaitedState::Hold)?;
        if !guest.talk.held {
            let text = "its program ended without `save`, and so cannot be continued from there";
            return Err(SessionError::Guest(text.to_owned()));
        }
    }
    monitor.save(&making.folder().join("state"))?;
    guest.child.end();
    std::fs::write(making.folder().join("console"), &guest.said)?;
    Ok(making.finish()?)
}

fn shared(words: &SharedWords) -> Result<ModelWords<'_>, SessionError> {
    let shared = ModelWords::new(words.words());
    Ok(shared.ok_or_else(|| io::Error::other("the shared memory is too small"))?)
}

/// A child process that ends when this value is dropped.
struct GuardedChild(Child);

impl GuardedChild {
    fn end(&mut self) {
        // The child may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for GuardedChild {
    fn drop(&mut self) {
        self.end();
    }
}

/// State of the guest until which its messages are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AwaitedState {
    /// The guest waits to be released.
    Hold,
    /// The guest has ended, after its programs.
    Programs,
}

/// A running guest, and its messages so far.
struct Guest {
    child: GuardedChild,
    input: Option<ChildStdin>,
    console: Receiver<Vec<u8>>,
    errors: Option<JoinHandle<Vec<u8>>>,
    began: Instant,
    lines: Console,
    talk: Conversation,
    /// All bytes of its console until it waits.
    said: Vec<u8>,
}

impl Guest {
    /// Starts QEMU with its monitor.
    fn start(
        job: &Job<'_>,
        descriptors: Descriptors,
        line: Line,
    ) -> Result<(Guest, Monitor), SessionError> {
        let descriptors = Descriptors {
            monitor: Some(line.number()),
            ..descriptors
        };
        let mut guest = Guest::launch(job, descriptors)?;
        let monitor = line.open().map_err(|error| guest.explained(error))?;
        Ok((guest, monitor))
    }

    fn restore(
        job: &Job<'_>,
        descriptors: Descriptors,
        snapshot: &Snapshot,
    ) -> Result<Guest, SessionError> {
        let said = std::fs::read(snapshot.console())?;
        let state = std::fs::File::open(snapshot.state())?;
        inherited(&state)?;
        let (mut guest, mut monitor) = Guest::start(job, descriptors, Line::new()?)?;
        let restored = monitor.restore(&state);
        restored.map_err(|error| guest.explained(error))?;
        guest.talk.recall(&said);
        Ok(guest)
    }

    fn launch(job: &Job<'_>, descriptors: Descriptors) -> Result<Guest, SessionError> {
        let mut command = Command::new(job.qemu);
        command
            .args((job.arguments)(descriptors))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        end_with_us(&mut command);
        let mut child = command
            .spawn()
            .map_err(|error| SessionError::Qemu(format!("{}: {error}", job.qemu)))?;
        let began = Instant::now();
        Ok(Guest {
            input: child.stdin.take(),
            console: pump(child.stdout.take()),
            errors: Some(keep(child.stderr.take())),
            child: GuardedChild(child),
            began,
            lines: Console::default(),
            talk: Conversation::new(began),
            said: Vec::new(),
        })
    }

    /// The error with QEMU's own messages, if QEMU ended during a monitor command.
    fn explained(&mut self, error: SessionError) -> SessionError {
        self.child.end();
        let said = self.errors.take().and_then(|errors| errors.join().ok());
        match (error, said) {
            (SessionError::Qemu(text), Some(said)) if !said.is_empty() => {
                SessionError::Qemu(format!("{text}\n{}", self.talk.end_reason(&said)))
            }
            (error, _) => error,
        }
    }

    /// Releases a waiting guest. If it has ended meanwhile, reading its messages reports that.
    fn let_go(&mut self) {
        if let Some(mut input) = self.input.take() {
            let _ = input.write_all(b"go\n").and_then(|()| input.flush());
            self.input = Some(input);
        }
        self.talk.held = false;
    }

    /// Reads the messages of QEMU and the guest until the guest waits, or until both have ended.
    fn listen(
        &mut self,
        job: &Job<'_>,
        ring: ModelWords<'_>,
        failed: &dyn Fn() -> bool,
        show: &mut dyn FnMut(&str),
        until: AwaitedState,
    ) -> Result<(), SessionError> {
        loop {
            if self.talk.held {
                if until == AwaitedState::Hold {
                    return Ok(());
                }
                if job.in_step && ring.clock() != ClockState::Simulated {
                    return Err(SessionError::Guest(NO_CLOCK.to_owned()));
                }
                self.let_go();
            }
            match self.console.recv_timeout(Duration::from_millis(100)) {
                Ok(bytes) => {
                    if until == AwaitedState::Hold && self.said.len() < MOST_CONSOLE {
                        self.said.extend_from_slice(&bytes);
                    }
                    let talk = &mut self.talk;
                    self.lines.feed(&bytes, |said| talk.receive(said, show));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.began.elapsed() > job.limit {
                return Err(SessionError::Limit(job.limit));
            }
            if failed() || self.talk.failed.is_some() {
                break;
            }
        }
        let talk = &mut self.talk;
        self.lines.finish(|said| talk.receive(said, show));
        if let Some(text) = self.talk.failed.take() {
            return Err(SessionError::Guest(text));
        }
        if !self.talk.done && !failed() {
            // The stream has ended, so QEMU has ended or soon will.
            self.child.0.wait()?;
            let said = self.errors.take().and_then(|errors| errors.join().ok());
            return Err(SessionError::Qemu(
                self.talk.end_reason(&said.unwrap_or_default()),
            ));
        }
        Ok(())
    }

    fn outcome(&mut self, shared: ModelWords<'_>) -> Outcome {
        let mut outcome = std::mem::replace(&mut self.talk, Conversation::new(self.began)).outcome;
        outcome.wall_s = self.began.elapsed().as_secs_f64();
        outcome.clock = shared.clock();
        outcome.overlay = shared.overlay();
        outcome
    }
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

/// Writes the initial file system that all runs share, followed by the archive of one run.
///
/// # Errors
/// The error of the file system.
pub fn write_initrd(base: &Path, own: &[u8], to: &Path) -> io::Result<PathBuf> {
    let mut whole = std::fs::read(base)?;
    whole.extend_from_slice(own);
    match std::fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::File::create_new(to)?.write_all(&whole)?;
    Ok(to.to_owned())
}
