//! Recording of the memory accesses of an unmodified program.
//!
//! The command runs under QEMU's user mode with cxlab's plugin, or under Valgrind's Lackey tool.
//! The recorder writes the accesses to a named pipe, from which they pass through the cache filter
//! into a `.cxlt` trace: memory and disk hold nothing else, however long the program runs. Left
//! out: instruction fetches, accesses of the kernel on behalf of the program, and processes that
//! the command starts. The command's threads are recorded. Addresses are virtual.

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
pub use execution::{Code, Event, ExecutionEnd, can_follow, follow};

use crate::error::TraceError;
use crate::filter::Hierarchy;
use crate::import::{AccessSource, Converter, Lackey, Summary};
use crate::trace::Header;
use pipe::NamedPipe;
use qemu::{PluginReport, Qemu};
use stream::Stream;

/// Number of accesses between two calls of the progress callback.
const PROGRESS_EVERY: u64 = 1 << 18;

/// Interval of checks whether the command has ended (*assumed*: short
/// compared to Valgrind's start).
const POLL: Duration = Duration::from_millis(10);

/// The tool that runs the program and reports its accesses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Recorder {
    /// QEMU where it can be used, otherwise Valgrind.
    #[default]
    Fastest,
    /// QEMU's user mode, some 50 to 100 times as fast as Valgrind. Threads run concurrently.
    Qemu,
    /// Valgrind's Lackey tool. Only one thread runs at a time.
    Valgrind,
}

/// Windows of a program: the first `recorded` of every `every` accesses. The
/// caches see all accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampling {
    /// Number of accesses in a window.
    pub recorded: u64,
    /// Number of accesses from the beginning of one window to the beginning of the next.
    pub every: u64,
}

/// The program to record, and how.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The `.cxlt` file to write.
    pub out: PathBuf,
    /// The caches between program and trace; `None` records every access.
    pub filter: Option<Hierarchy>,
    /// Number of accesses of the program, before the filter, after which the command is stopped;
    /// `None` for no limit.
    pub max_accesses: Option<u64>,
    /// Time of each instruction, for the times of the records; with zero, the trace has no times.
    pub per_instruction: Picos,
    /// The tool that records.
    pub recorder: Recorder,
    /// The windows to record; `None` records everything.
    pub sampling: Option<Sampling>,
}

impl CaptureOptions {
    /// Options to record `command` into `out` through the default caches, to the
    /// command's end, without times.
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

/// Finds a program as a shell does: the file at that path, or a file of that name in
/// a folder of `PATH`.
pub fn find_program(name: &OsStr) -> Option<PathBuf> {
    let places: Vec<PathBuf> = match name.as_encoded_bytes().contains(&b'/') {
        true => vec![PathBuf::from(name)],
        false => std::env::split_paths(&std::env::var_os("PATH")?)
            .map(|folder| folder.join(name))
            .collect(),
    };
    places.into_iter().find(|place| place.is_file())
}

/// Summary of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaptureSummary {
    /// Name and version of the recorder.
    pub recorder: String,
    /// Why no faster recorder was used; `None` if the fastest was used or one was chosen.
    pub slower: Option<String>,
    /// Accesses read and records written.
    pub trace: Summary,
    /// Number of instructions that the program executed while it was recorded.
    pub instructions: u64,
    /// The command's exit status; if `stopped`, that of the signal that ended it.
    pub exit: ExitStatus,
    /// Whether `max_accesses` stopped the command.
    pub stopped: bool,
}

/// A recorder that was found and can be started.
enum ReadyRecorder {
    Qemu(Qemu),
    Valgrind {
        version: String,
        /// Why QEMU is not used; `None` if Valgrind was chosen.
        slower: Option<String>,
    },
}

impl ReadyRecorder {
    fn find(options: &CaptureOptions, folder: &Path) -> Result<ReadyRecorder, CaptureError> {
        let valgrind = |slower| {
            let version = valgrind_version()?;
            Ok(ReadyRecorder::Valgrind { version, slower })
        };
        match options.recorder {
            Recorder::Valgrind => valgrind(None),
            Recorder::Qemu => Qemu::prepare(folder, &options.command).map(ReadyRecorder::Qemu),
            Recorder::Fastest => match Qemu::prepare(folder, &options.command) {
                Ok(qemu) => Ok(ReadyRecorder::Qemu(qemu)),
                Err(why) => valgrind(Some(why.to_string())),
            },
        }
    }

    fn name(&self) -> String {
        match self {
            ReadyRecorder::Qemu(qemu) => format!("{}, user mode", qemu.version),
            ReadyRecorder::Valgrind { version, .. } => format!("{version} lackey"),
        }
    }

    fn start(&self, options: &CaptureOptions, pipe: &NamedPipe) -> Result<Child, CaptureError> {
        match self {
            ReadyRecorder::Qemu(qemu) => {
                let tells = match options.per_instruction {
                    Picos::ZERO => PluginReport::Accesses,
                    _ => PluginReport::Times,
                };
                let started = qemu.command(pipe.path(), tells).spawn();
                started.map_err(CaptureError::Start)
            }
            ReadyRecorder::Valgrind { .. } => valgrind(options, pipe),
        }
    }
}

/// A source of accesses.
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

/// Runs a command and records its memory accesses. `progress` is called at intervals with the
/// number of accesses so far and `max_accesses` (0 for no limit). The file appears only when it is
/// complete. A command that fails is recorded as well; the summary has its exit status.
///
/// # Errors
/// When no recorder can be used or the recorder fails, when the command makes no access, or when
/// the file cannot be written.
pub fn capture(
    options: &CaptureOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CaptureSummary, CaptureError> {
    if options.command.is_empty() {
        return Err(CaptureError::NoCommand);
    }
    let pipe = NamedPipe::plan().map_err(CaptureError::Pipe)?;
    let ready = ReadyRecorder::find(options, pipe.folder())?;
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
        ReadyRecorder::Qemu(_) => Source::Stream(Stream::new(reader, path, time)),
        ReadyRecorder::Valgrind { .. } => Source::Lackey(Lackey::new(reader, path, time)),
    };
    let (recorded, exit) = beside(child, keeper, |finished| {
        let recorded = match &mut source {
            Source::Stream(stream) => record(options, stream, converter, progress),
            Source::Lackey(lackey) => record(options, lackey, converter, progress),
        };
        let recorded = recorded.map(|recorded| (recorded, source.instructions()));
        finished(matches!(recorded, Ok((Recorded { stopped: false, .. }, _))));
        // The end of the pipe is closed, so that the child does not block on a full pipe.
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
            ReadyRecorder::Valgrind { slower, .. } => slower,
            ReadyRecorder::Qemu(_) => None,
        },
        trace: converter.publish()?,
        instructions,
        exit,
        stopped,
    })
}

/// Runs `work` on a child's output while the child runs, until both have ended. `work` reports
/// whether it has finished before it closes its input; if it has not, the child is killed.
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
            // The reader sees the end of the pipe only when no process has it open for writing.
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

/// Waits for the command, and kills it when the reader of its output has given up.
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
    // This is far below the header's limit, however long the command is.
    text.chars().take(100_000).collect()
}
