//! `cxlab trace`: import, inspect and capture memory traces.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use cxlab_engine::units::Picos;
use cxlab_scenario::diagnostics::nearest;
use cxlab_system::output::is_special;
use cxlab_workload::import::{self, ExportOptions, FORMATS, Format, writable};
use cxlab_workload::{
    CaptureError, CaptureOptions, Footprint, Hierarchy, OpKind, Recorder, Sampling, Summary,
    TraceError, find_program,
};
use indicatif::ProgressBar;

use super::failure::Failure;
use super::progress::bar;
use super::{OutputFormat, print};

#[derive(Subcommand)]
pub(crate) enum TraceCommand {
    /// Convert a trace of another format to .cxlt
    Import(ImportArgs),
    /// Write a trace in the form of another program
    Export(ExportArgs),
    /// Say what a trace holds
    Info {
        /// Trace file, of any known format
        trace: PathBuf,
        /// What to print
        #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
        format: OutputFormat,
    },
    /// Print the first records of a trace: address, R or W, time in ps
    Head {
        /// Trace file, of any known format
        trace: PathBuf,
        /// How many records
        #[arg(short, long, default_value_t = 10)]
        n: u64,
    },
    /// Run a program under QEMU or Valgrind and record its memory accesses behind a cache hierarchy
    Capture(CaptureArgs),
}

/// The caches between a program and the memory that a trace is of.
#[derive(Args)]
struct FilterArgs {
    /// Caches between program and trace, nearest first: SIZE/WAYS [+ SIZE/WAYS ...], or "none"
    #[arg(long, value_name = "CACHES")]
    filter: Option<String>,
}

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// Trace to read (.gz is unpacked)
    trace: PathBuf,
    /// The .cxlt file to write
    #[arg(long, short)]
    out: PathBuf,
    /// Format of the trace, when it cannot be told (see `cxlab list trace-formats`)
    #[arg(long)]
    format: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// Trace to read, of any known format
    trace: PathBuf,
    /// The file to write, compressed if its name ends with .gz
    #[arg(long, short)]
    out: PathBuf,
    /// Format to write: text, csv, gem5, pin, dramsim3 or ramulator
    #[arg(long)]
    to: String,
    /// Format of the trace, when it cannot be told
    #[arg(long)]
    format: Option<String>,
    /// Clock period, e.g. "833 ps", for formats that count clock cycles
    #[arg(long, value_name = "PERIOD")]
    clock: Option<String>,
}

#[derive(Args)]
pub(crate) struct CaptureArgs {
    /// The .cxlt file to write
    #[arg(long, short)]
    out: PathBuf,
    #[command(flatten)]
    filter: FilterArgs,
    /// Stop the program after so many accesses (before the caches)
    #[arg(long)]
    max_accesses: Option<u64>,
    /// Give each instruction this time, e.g. "250 ps", and write times
    #[arg(long, value_name = "TIME")]
    per_instruction: Option<String>,
    /// What records
    #[arg(long, value_enum, default_value_t)]
    recorder: RecorderName,
    /// Record so many accesses (before the caches) of each so many, e.g. 1000000:50000000; the caches
    /// see all of them
    #[arg(long, value_name = "RECORDED:EVERY")]
    sample: Option<String>,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Tool that records a program.
#[derive(Clone, Copy, Default, clap::ValueEnum)]
enum RecorderName {
    /// QEMU where it can be used, else Valgrind
    #[default]
    Fastest,
    /// QEMU's user mode (7.2)
    Qemu,
    /// Valgrind's Lackey tool
    Valgrind,
}

/// Parses the value of `--sample`.
fn sampling(text: &str) -> Result<Sampling, Failure> {
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
    text.split_once(':')
        .and_then(|(recorded, every)| Some((number(recorded)?, number(every)?)))
        .filter(|(recorded, every)| recorded <= every)
        .map(|(recorded, every)| Sampling { recorded, every })
        .ok_or_else(|| {
            Failure::mistake(format!(
                "--sample: found `{text}`; allowed: RECORDED:EVERY, two numbers of accesses, \
                 1 and more, the first at most the second"
            ))
        })
}

impl FilterArgs {
    /// The requested caches, or `default` without the option.
    fn hierarchy(&self, default: Option<Hierarchy>) -> Result<Option<Hierarchy>, Failure> {
        match self.filter.as_deref() {
            None => Ok(default),
            Some("none") => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|error| Failure::mistake(format!("--filter: {error}"))),
        }
    }
}

/// Runs a trace command.
pub(super) fn trace(command: TraceCommand) -> Result<(), Failure> {
    match command {
        TraceCommand::Import(args) => import_trace(&args),
        TraceCommand::Export(args) => export_trace(&args),
        TraceCommand::Info { trace, format } => info(&trace, format),
        TraceCommand::Head { trace, n } => head(&trace, n),
        TraceCommand::Capture(args) => capture(args),
    }
}

fn summary(summary: &Summary, out: &Path) -> String {
    let records = summary.records();
    format!(
        "{}: {records} records ({} reads, {} writes) of {} accesses, {} bytes\n",
        out.display(),
        summary.reads,
        summary.writes,
        summary.accesses,
        summary.bytes
    )
}

/// Refuses an output path that names no regular file, before any work is done.
fn check_out(out: &Path) -> Result<(), Failure> {
    if out.is_dir() || is_special(out) || out.file_name().is_none() {
        return Err(Failure::mistake(format!(
            "--out: found {}, which is no regular file; allowed: the name of a file to write",
            out.display()
        )));
    }
    Ok(())
}

/// Converts an error: of the output file to a failure of the system, and any other to a mistake of the user.
fn failure(error: TraceError, out: &Path) -> Failure {
    match error.path == out {
        true if error.field.is_empty() => Failure::Output(error.to_string()),
        _ => Failure::mistake(error),
    }
}

fn check_format<'a>(
    option: &str,
    name: &str,
    formats: impl Iterator<Item = &'a Format> + Clone,
) -> Result<(), Failure> {
    let names = || formats.clone().map(|format| format.name);
    if names().any(|known| known == name) {
        return Ok(());
    }
    let hint = nearest(name, names()).map(|near| format!("; did you mean `{near}`?"));
    Err(Failure::mistake(format!(
        "{option}: found `{name}`; allowed: {}{}",
        names().collect::<Vec<_>>().join(", "),
        hint.unwrap_or_default()
    )))
}

/// Refuses a format of a trace to be read that is not known.
fn check_read_format(name: Option<&str>) -> Result<(), Failure> {
    name.map_or(Ok(()), |name| {
        check_format("--format", name, FORMATS.iter())
    })
}

/// A progress bar that counts the bytes read of a trace.
fn bytes_bar() -> ProgressBar {
    let template = "{elapsed_precise} [{bar:30}] {binary_bytes}/{binary_total_bytes} \
                    {binary_bytes_per_sec}, {eta} left";
    bar(template, None, false)
}

fn import_trace(args: &ImportArgs) -> Result<(), Failure> {
    let filter = args.filter.hierarchy(None)?;
    check_out(&args.out)?;
    check_read_format(args.format.as_deref())?;
    let bar = bytes_bar();
    let result = import::import(
        &args.trace,
        args.format.as_deref(),
        filter,
        &args.out,
        &mut |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        },
    );
    bar.finish_and_clear();
    let result = result.map_err(|error| failure(error, &args.out))?;
    print(&summary(&result, &args.out))
}

fn export_trace(args: &ExportArgs) -> Result<(), Failure> {
    check_out(&args.out)?;
    check_read_format(args.format.as_deref())?;
    check_format("--to", &args.to, writable())?;
    let clock = args.clock.as_deref().map(|text| {
        let period = text.parse::<Picos>();
        period.map_err(|error| Failure::mistake(format!("--clock: {error}")))
    });
    let options = ExportOptions {
        from: args.format.clone(),
        clock: clock.transpose()?,
    };
    let bar = bytes_bar();
    let progress = &mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    };
    let result = import::export(&args.trace, &options, &args.to, &args.out, progress);
    bar.finish_and_clear();
    let records = result.map_err(|error| match error.field {
        "clock" => Failure::mistake(format!("--clock: {}", error.message)),
        _ => failure(error, &args.out),
    })?;
    print(&format!("{}: {records} records\n", args.out.display()))
}

fn info(path: &Path, format: OutputFormat) -> Result<(), Failure> {
    let info = cxlab_workload::info(path).map_err(Failure::mistake)?;
    let times = info.time_range.map(|(first, last)| (first.0, last.0));
    if format == OutputFormat::Json {
        let value = serde_json::json!({
            "format": info.format,
            "provenance": info.provenance,
            "accesses": info.accesses,
            "reads": info.reads,
            "writes": info.writes,
            "footprint_lines": info.footprint.lines(),
            "footprint_exact": matches!(info.footprint, Footprint::Exact { .. }),
            "time_range_ps": times,
            "file_bytes": info.file_bytes,
        });
        return print(&format!("{value:#}\n"));
    }
    let mut text = format!("{}\n", path.display());
    let mut row = |name: &str, value: String| text.push_str(&format!("  {name:<12} {value}\n"));
    row("format", info.format.to_owned());
    if !info.provenance.is_empty() {
        row("made by", info.provenance.clone());
    }
    let (all, reads, writes) = (info.accesses, info.reads, info.writes);
    row(
        "accesses",
        format!("{all} ({reads} reads, {writes} writes)"),
    );
    let lines = info.footprint.lines();
    let how = match info.footprint {
        Footprint::Exact { .. } => String::new(),
        Footprint::Sampled { one_page_in, .. } => {
            format!(", estimated from 1 page in {one_page_in}")
        }
    };
    let mib = lines as f64 * 64.0 / 1048576.0;
    row("footprint", format!("{lines} lines, {mib:.2} MiB{how}"));
    if let Some((first, last)) = times {
        row("time", format!("{first} ps to {last} ps"));
    }
    let bytes = info.file_bytes;
    let each = bytes as f64 / info.accesses.max(1) as f64;
    row("size", format!("{bytes} bytes, {each:.2} an access"));
    print(&text)
}

/// Size of the buffer of printed text, in bytes.
const PRINT_BYTES: usize = 1 << 16;

fn head(path: &Path, n: u64) -> Result<(), Failure> {
    let mut text = String::new();
    for record in cxlab_workload::head(path, n).map_err(Failure::mistake)? {
        let record = record.map_err(Failure::mistake)?;
        let is_write = record.kind == OpKind::Write;
        let kind = if is_write { 'W' } else { 'R' };
        let (address, time) = (record.line.0 * 64, record.time.0);
        text.push_str(&format!("{address:#x} {kind} {time}\n"));
        if text.len() > PRINT_BYTES {
            print(&text)?;
            text.clear();
        }
    }
    print(&text)
}

/// Refuses a missing program, for which Valgrind would print a message of its own.
fn check_program(program: &OsStr) -> Result<(), Failure> {
    if find_program(program).is_some() {
        return Ok(());
    }
    let shown = program.to_string_lossy();
    let why = match shown.contains('/') {
        true => "is no file",
        false => "is in no folder of PATH",
    };
    Err(Failure::mistake(format!(
        "COMMAND: found `{shown}`, which {why}; allowed: a program to run"
    )))
}

/// Records the memory accesses of a program behind a cache hierarchy, and writes the trace.
fn capture(args: CaptureArgs) -> Result<(), Failure> {
    check_out(&args.out)?;
    let default = CaptureOptions::new(args.command, args.out);
    let filter = args.filter.hierarchy(default.filter.clone())?;
    let per_instruction = match args.per_instruction {
        None => default.per_instruction,
        Some(text) => text
            .parse()
            .map_err(|error| Failure::mistake(format!("--per-instruction: {error}")))?,
    };
    let options = CaptureOptions {
        filter,
        max_accesses: args.max_accesses,
        per_instruction,
        recorder: match args.recorder {
            RecorderName::Fastest => Recorder::Fastest,
            RecorderName::Qemu => Recorder::Qemu,
            RecorderName::Valgrind => Recorder::Valgrind,
        },
        sampling: args.sample.as_deref().map(sampling).transpose()?,
        ..default
    };
    check_program(&options.command[0])?;
    let template = "{elapsed_precise} {spinner} {human_pos} accesses {per_sec}";
    let bar = bar(template, None, false);
    let result = cxlab_workload::capture(&options, &mut |done, all| {
        if all > 0 {
            bar.set_length(all);
        }
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let captured = result.map_err(|error| match error {
        CaptureError::Trace(error) => failure(error, &options.out),
        error => Failure::mistake(error),
    })?;
    let mut text = summary(&captured.trace, &options.out);
    text.push_str(&format!(
        "{} instructions were executed, under {}\n",
        captured.instructions, captured.recorder
    ));
    if let Some(why) = &captured.slower {
        text.push_str(&format!("note: a faster recorder was not used: {why}\n"));
    }
    print(&text)?;
    match captured.exit.code() {
        _ if captured.stopped => Ok(()),
        Some(0) => Ok(()),
        code => {
            print(&format!("the program ended with {}\n", captured.exit))?;
            Err(Failure::Program(
                code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
            ))
        }
    }
}
