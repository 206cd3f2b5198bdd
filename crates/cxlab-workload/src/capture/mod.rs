//! Records the memory accesses of an unmodified program.
//!
//! The command runs under QEMU's user mode with a plugin of ours, or under Valgrind's Lackey tool.
//! Their accesses come through a named pipe and pass
//! through the cache filter into a `.cxlt` trace: memory and disk hold nothing else, however long
//! the program runs. Left out: instruction fetches, what the kernel does for the program, and
//! programs that the command itself starts (its threads are recorded). Addresses are virtual.

mod error;
mod execution;
mod pipe;
mod qemu;
mod stream;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cxlab_engine::units::Picos;

pub use error::CaptureError;
pub use execution::{Code, Event, Followed, can_follow, follow};

use crate::error::TraceError;
use crate::filter::Hierarchy;
use crate::import::{AccessSource, Converter, Lackey, Summary};
use crate::trace::Header;
use pipe::NamedPipe;
use qemu::{Qemu, Tells};
use stream::Stream;

/// Accesses between two calls of the progress callback.
const PROGRESS_EVERY: u64 = 1 << 18;

/// How often to look whether the command has ended (*assumed*: short beside Valgrind's start).
const POLL: Duration = Duration::from_millis(10);

/// What runs the program and tells of its accesses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Recorder {
    /// QEMU where it can be used, else Valgrind.
    #[default]
    Fastest,
    /// QEMU's user mode: some 50 to 100 times as fast as Valgrind. Threads run at once.
    Qemu,
    /// Valgrind's Lackey tool. Threads run in turn.
    Valgrind,
}

/// Windows of a program: `recorded` accesses of each `every`. The caches see all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampling {
    /// Accesses of a window.
    pub recorded: u64,
    /// From the beginning of one window to that of the next.
    pub every: u64,
}

/// What to record.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The `.cxlt` file to write.
    pub out: PathBuf,
    /// The caches between program and trace; `None` records every access.
    pub filter: Option<Hierarchy>,
    /// Stops the command after so many accesses of the program (before the filter).
    pub max_accesses: Option<u64>,
    /// Gives each instruction this time and writes times; zero writes none.
    pub per_instruction: Picos,
    /// What records.
    pub recorder: Recorder,
    /// Windows that are recorded; `None` for all.
    pub sampling: Option<Sampling>,
}

impl CaptureOptions {
    /// Records `command` into `out` through the default caches, to its end, without times.
    pub fn new(command: Vec<OsString>, out: PathBuf) -> CaptureOptions {
        CaptureOptions {
            command,
            out,
            filter: Some(Hierarchy::default()),
            max_accesses: None,
            per_instruction: Picos::ZERO,
            recorder: Recorder::Fastest,
            sampling: None,
        }
    }
}

/// Where a shell would find a program: a file of that path, or of that name in a folder of `PATH`.
pub fn find_program(name: &OsStr) -> Option<PathBuf> {
    let places: Vec<PathBuf> = match name.as_encoded_bytes().contains(&b'/') {
        true => vec![PathBuf::from(name)],
        false => std::env::split_paths(&std::env::var_os("PATH")?)
            .map(|folder| folder.join(name))
            .collect(),
    };
    places.into_iter().find(|place| place.is_file())
}

/// What was recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaptureSummary {
    /// What recorded it.
    pub recorder: String,
    /// Why nothing faster did.
    pub slower: Option<String>,
    /// Accesses in, records out.
    pub trace: Summary,
    /// Instructions that the program executed while recorded.
    pub instructions: u64,
    /// How the command ended; when `stopped`, by our signal.
    pub exit: ExitStatus,
    /// Whether `max_accesses` stopped the command.
    pub stopped: bool,
}

/// What records, found and ready to start.
enum Ready {
    Qemu(Qemu),
    Valgrind {
        version: String,
        /// Why QEMU is not used.
        slower: Option<String>,
    },
}

impl Ready {
    fn find(options: &CaptureOptions, folder: &Path) -> Result<Ready, CaptureError> {
        let valgrind = |slower| {
            let version = valgrind_version()?;
            Ok(Ready::Valgrind { version, slower })
        };
        match options.recorder {
            Recorder::Valgrind => valgrind(None),
            Recorder::Qemu => Qemu::prepare(folder, &options.command).map(Ready::Qemu),
            Recorder::Fastest => match Qemu::prepare(folder, &options.command) {
                Ok(qemu) => Ok(Ready::Qemu(qemu)),
                Err(why) => valgrind(Some(why.to_string())),
            },
        }
    }

    fn name(&self) -> String {
        match self {
            Ready::Qemu(qemu) => format!("{}, user mode", qemu.version),
            Ready::Valgrind { version, .. } => format!("{version} lackey"),
        }
    }

    fn start(&self, options: &CaptureOptions, pipe: &NamedPipe) -> Result<Child, CaptureError> {
        match self {
            Ready::Qemu(qemu) => {
                let tells = match options.per_instruction {
                    Picos::ZERO => Tells::Accesses,
                    _ => Tells::Times,
                };
                let started = qemu.command(pipe.path(), tells).spawn();
                started.map_err(CaptureError::Start)
            }
            Ready::Valgrind { .. } => valgrind(options, pipe),
        }
    }
}

/// Where accesses come from.
enum Source {
    Stream(Stream),
    Lackey(Lackey),
}

impl Source {
    fn instructions(&self) -> u64 {
        match self {
            Source::Stream(stream) => stream.instructions(),
            Source::Lackey(lackey) => lackey.instructions(),
        }
    }
}

/// Runs a command and records its memory accesses. `progress` is called now and then with the
/// accesses so far and `max_accesses` (0 when there is none). The file appears only when it is
/// whole; a command that fails is still recorded, and its status is in the summary.
///
/// # Errors
/// Nothing that records is there or it fails, the command accesses nothing, or the file cannot be
/// written.
pub fn capture(
    options: &CaptureOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CaptureSummary, CaptureError> {
    if options.command.is_empty() {
        return Err(CaptureError::NoCommand);
    }
    let pipe = NamedPipe::plan().map_err(CaptureError::Pipe)?;
    let ready = Ready::find(options, pipe.folder())?;
    pipe.make().map_err(CaptureError::Pipe)?;
    let header = Header {
        has_time: options.per_instruction > Picos::ZERO,
        provenance: provenance(options, &ready.name()),
    };
    let converter = Converter::create(&options.out, &header, options.filter.clone())?;
    let (reader, keeper) = pipe.open().map_err(CaptureError::Pipe)?;
    let child = ready.start(options, &pipe)?;
    let (path, time) = (pipe.path(), options.per_instruction);
    let mut source = match ready {
        Ready::Qemu(_) => Source::Stream(Stream::new(reader, path, time)),
        Ready::Valgrind { .. } => Source::Lackey(Lackey::new(reader, path, time)),
    };
    let (recorded, exit) = beside(child, keeper, |finished| {
        let recorded = match &mut source {
            Source::Stream(stream) => record(options, stream, converter, progress),
            Source::Lackey(lackey) => record(options, lackey, converter, progress),
        };
        let recorded = recorded.map(|recorded| (recorded, source.instructions()));
        finished(matches!(recorded, Ok((Recorded { stopped: false, .. }, _))));
        // Whoever still writes finds nobody, instead of a pipe that is full.
        drop(source);
        recorded
    })?;
    let (Recorded { converter, stopped }, instructions) = recorded?;
    if converter.summary().accesses == 0 {
        return Err(CaptureError::NothingRecorded { exit });
    }
    Ok(CaptureSummary {
        recorder: ready.name(),
        slower: match ready {
            Ready::Valgrind { slower, .. } => slower,
            Ready::Qemu(_) => None,
        },
        trace: converter.publish()?,
        instructions,
        exit,
        stopped,
    })
}

/// Works on what a child tells, beside it, until both have ended. `work` says whether it has
/// finished, before it lets go of what it reads; a child whose listener has given up is ended.
fn beside<T>(
    child: Child,
    keeper: File,
    work: impl FnOnce(&dyn Fn(bool)) -> T,
) -> Result<(T, ExitStatus), CaptureError> {
    let child = Mutex::new(child);
    let gave_up = AtomicBool::new(false);
    let (result, exit) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let status = wait(&child, &gave_up);
            // While we hold the pipe open for writing its reader sees no end; now it may.
            drop(keeper);
            status
        });
        let result = work(&|finished| gave_up.store(!finished, Ordering::Release));
        (result, watcher.join())
    });
    let exit = exit.map_err(|_| CaptureError::Wait(std::io::ErrorKind::Other.into()))?;
    Ok((result, exit.map_err(CaptureError::Wait)?))
}

struct Recorded {
    converter: Converter,
    stopped: bool,
}

fn record(
    options: &CaptureOptions,
    source: &mut impl AccessSource,
    mut converter: Converter,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Recorded, TraceError> {
    let limit = options.max_accesses.unwrap_or(u64::MAX);
    let windows = options.sampling.unwrap_or(Sampling {
        recorded: 1,
        every: 1,
    });
    let mut accesses = 0;
    let mut at = 0;
    while accesses < limit {
        let Some(access) = source.next_access()? else {
            break;
        };
        if at < windows.recorded {
            converter.access(access)?;
        } else {
            converter.pass(access);
        }
        at += 1;
        if at == windows.every {
            at = 0;
        }
        accesses += 1;
        if accesses.is_multiple_of(PROGRESS_EVERY) {
            progress(accesses, options.max_accesses.unwrap_or(0));
        }
    }
    Ok(Recorded {
        converter,
        stopped: accesses == limit,
    })
}

fn valgrind(options: &CaptureOptions, pipe: &NamedPipe) -> Result<Child, CaptureError> {
    Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes", "--basic-counts=no"])
        .args(["--trace-children=no", "--child-silent-after-fork=yes"])
        .arg(pipe.log_file_argument())
        .arg("--")
        .args(&options.command)
        .spawn()
        .map_err(CaptureError::from_spawn)
}

/// Waits for the command, and ends it when the recorder has given up.
fn wait(child: &Mutex<Child>, gave_up: &AtomicBool) -> std::io::Result<ExitStatus> {
    let mut child = child
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if gave_up.load(Ordering::Acquire) {
            child.kill()?;
            return child.wait();
        }
        std::thread::sleep(POLL);
    }
}

fn valgrind_version() -> Result<String, CaptureError> {
    let output = Command::new("valgrind").arg("--version").output();
    let output = output.map_err(CaptureError::from_spawn)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn provenance(options: &CaptureOptions, recorder: &str) -> String {
    let words: Vec<_> = options
        .command
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    let mut text = format!("captured with {recorder}: {}", words.join(" "));
    if let Some(hierarchy) = &options.filter {
        text.push_str(&format!("; through caches of {hierarchy}"));
    }
    if let Some(Sampling { recorded, every }) = options.sampling {
        text.push_str(&format!("; {recorded} of each {every} accesses"));
    }
    if let Some(limit) = options.max_accesses {
        text.push_str(&format!("; the first {limit} accesses"));
    }
    // Far below the header's bound, whatever the command.
    text.chars().take(100_000).collect()
}
