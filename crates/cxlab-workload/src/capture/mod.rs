//! Records the memory accesses of an unmodified program.
//!
//! The command runs under Valgrind's Lackey tool, whose rows come through a named pipe and pass
//! through the cache filter into a `.cxlt` trace: memory and disk hold nothing else, however long
//! the program runs. Left out: instruction fetches, what the kernel does for the program, and
//! programs that the command itself starts (its threads are recorded). Addresses are virtual.

mod error;
mod pipe;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cxlab_engine::units::Picos;

pub use error::CaptureError;

use crate::error::TraceError;
use crate::filter::Hierarchy;
use crate::import::{AccessSource, Converter, Lackey, Summary};
use crate::trace::Header;
use pipe::NamedPipe;

/// Accesses between two calls of the progress callback.
const PROGRESS_EVERY: u64 = 1 << 18;

/// How often to look whether the command has ended (*assumed*: short beside Valgrind's start).
const POLL: Duration = Duration::from_millis(10);

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
        }
    }
}

/// What was recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaptureSummary {
    /// Accesses in, records out.
    pub trace: Summary,
    /// Instructions that the program executed while recorded.
    pub instructions: u64,
    /// How the command ended; when `stopped`, by our signal.
    pub exit: ExitStatus,
    /// Whether `max_accesses` stopped the command.
    pub stopped: bool,
}

/// Runs a command and records its memory accesses. `progress` is called now and then with the
/// accesses so far and `max_accesses` (0 when there is none). The file appears only when it is
/// whole; a command that fails is still recorded, and its status is in the summary.
///
/// # Errors
/// Valgrind is absent or fails, the command accesses nothing, or the file cannot be written.
pub fn capture(
    options: &CaptureOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CaptureSummary, CaptureError> {
    if options.command.is_empty() {
        return Err(CaptureError::NoCommand);
    }
    let header = Header {
        has_time: options.per_instruction > Picos::ZERO,
        provenance: provenance(options, &valgrind_version()?),
    };
    let converter = Converter::create(&options.out, &header, options.filter.clone())?;
    let pipe = NamedPipe::create().map_err(CaptureError::Pipe)?;
    let (reader, keeper) = pipe.open().map_err(CaptureError::Pipe)?;
    let child = Mutex::new(start(options, &pipe)?);
    let gave_up = AtomicBool::new(false);
    let (recorded, exit) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let status = wait(&child, &gave_up);
            // While we hold the pipe open for writing its reader sees no end; now it may.
            drop(keeper);
            status
        });
        let lackey = Lackey::new(reader, pipe.path(), options.per_instruction);
        let recorded = record(options, lackey, converter, progress);
        let unfinished = !matches!(recorded, Ok(Recorded { stopped: false, .. }));
        gave_up.store(unfinished, Ordering::Release);
        (recorded, watcher.join())
    });
    let exit = exit.map_err(|_| CaptureError::Wait(std::io::ErrorKind::Other.into()))?;
    let exit = exit.map_err(CaptureError::Wait)?;
    let Recorded {
        converter,
        instructions,
        stopped,
    } = recorded?;
    if converter.summary().accesses == 0 {
        return Err(CaptureError::NothingRecorded { exit });
    }
    Ok(CaptureSummary {
        trace: converter.publish()?,
        instructions,
        exit,
        stopped,
    })
}

struct Recorded {
    converter: Converter,
    instructions: u64,
    stopped: bool,
}

fn record(
    options: &CaptureOptions,
    mut lackey: Lackey,
    mut converter: Converter,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Recorded, TraceError> {
    let limit = options.max_accesses.unwrap_or(u64::MAX);
    let mut accesses = 0;
    while accesses < limit {
        let Some(access) = lackey.next_access()? else {
            break;
        };
        converter.access(access)?;
        accesses += 1;
        if accesses.is_multiple_of(PROGRESS_EVERY) {
            progress(accesses, options.max_accesses.unwrap_or(0));
        }
    }
    let instructions = lackey.instructions();
    Ok(Recorded {
        converter,
        instructions,
        stopped: accesses == limit,
    })
}

fn start(options: &CaptureOptions, pipe: &NamedPipe) -> Result<Child, CaptureError> {
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

fn provenance(options: &CaptureOptions, valgrind: &str) -> String {
    let words: Vec<_> = options
        .command
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    let mut text = format!("captured with {valgrind} lackey: {}", words.join(" "));
    if let Some(hierarchy) = &options.filter {
        text.push_str(&format!("; through caches of {hierarchy}"));
    }
    if let Some(limit) = options.max_accesses {
        text.push_str(&format!("; the first {limit} accesses"));
    }
    // Far below the header's bound, whatever the command.
    text.chars().take(100_000).collect()
}
