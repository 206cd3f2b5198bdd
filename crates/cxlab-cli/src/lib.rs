//! The command line: what users type, and what they see.
//!
//! It is a library function so that the Python package can be the same command.

mod attach;
mod compare;
mod diff;
mod explain;
mod external;
mod failure;
mod fleet;
mod list;
mod load;
mod new;
mod perfetto;
mod plan;
mod program_fabric;
mod progress;
mod ranks;
mod results;
mod run;
mod seeds;
mod shell;
mod templates;
mod trace;
mod verify;
mod vm;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

use cxlab_scenario::ThreadLimit;
use cxlab_system::checkpoint::CheckpointInterval;
use failure::Failure;

pub use list::catalogs;
pub use plan::summary as plan_summary;
pub use vm::memory::GuestMemory;

/// Simulates CXL systems: fabrics, devices and hosts, from one scenario file.
#[derive(Parser)]
#[command(
    name = "cxlab",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 success, 1 something cannot be written, 2 a mistake in the input, 70 a mistake \
                  of cxlab, 71 of a plug-in, 130 interrupted. `attach` ends with the program's code."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a scenario; print a table and write DIR/report.json
    Run(RunArgs),
    /// Run an unmodified program under a scenario: its threads are held for what CXL memory would add
    Attach(attach::AttachArgs),
    /// Run a program in a guest whose Linux drives the scenario's devices (QEMU)
    #[command(subcommand)]
    Vm(vm::VmCommand),
    /// Plan a fleet: stranded memory, pool size, savings and slowdown of thousands of hosts
    Fleet(fleet::FleetArgs),
    /// Run a scenario in both forms, and say how far apart they are
    Compare(compare::CompareArgs),
    /// Compare two reports: what differs, and whether it is beyond the 95 % intervals
    Diff(diff::DiffArgs),
    /// Write a new scenario file from a shipped one, with the schema that editors read beside it
    New(new::NewArgs),
    /// Check a scenario and report the mistakes in it
    Check(CheckArgs),
    /// Show the resolved system
    Plan(PlanArgs),
    /// List what a scenario can choose from: topologies, workloads, media, policies, presets, and more
    List {
        /// One catalog; all when omitted
        catalog: Option<String>,
    },
    /// Say what a key of a scenario is: type, range, default, and an example
    Explain(explain::ExplainArgs),
    /// Print the JSON Schema of scenario files
    Schema,
    /// Print a shell's completions of this command
    Completions(shell::CompletionsArgs),
    /// Write the man pages of this command
    Man(shell::ManArgs),
    /// Import, inspect and capture memory traces
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    /// Serve one medium in a shared library to a run, in a process of its own
    #[command(name = "__host-medium", hide = true, disable_help_flag = true)]
    PluginHost {
        /// What a run gives it
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Make an HTML page of the results in a folder (Python package)
    Report(InPython),
    /// Run a scenario over a grid of changes (Python package)
    Sweep(InPython),
    /// Measure what Intel MLC measures: idle and loaded latency, peak bandwidth, matrices (Python package)
    Mlc(InPython),
    /// Fit a device to what MLC measured, and judge the fit (Python package)
    Calibrate(InPython),
    /// Reproduce a paper's figures (Python package)
    Reproduce(InPython),
}

/// What only the Python package does: its `cxlab` command takes these before they come here.
#[derive(Args)]
#[command(disable_help_flag = true)]
struct InPython {
    /// As the Python package has them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

/// A scenario and changes to it.
#[derive(Args)]
struct ScenarioArgs {
    /// Scenario file (TOML)
    scenario: PathBuf,
    /// Change a value of the scenario, e.g. --set fabric.link.lanes=8 (repeatable)
    #[arg(long = "set", value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Run the shared libraries that the scenario names, which can do whatever you can (docs/guide/plugins.md)
    #[arg(long)]
    trust_plugins: bool,
    /// Replay this trace instead of the one that the scenario's trace workloads name
    #[arg(long, value_name = "PATH")]
    trace_file: Option<PathBuf>,
}

#[derive(Args)]
struct RunArgs {
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// Seed of every random stream, instead of the scenario's
    #[arg(long, value_parser = seed)]
    seed: Option<u64>,
    /// Run with so many seeds, from --seed on, side by side: 2 to 1000; the table and DIR/seeds.json have
    /// means over the runs with 95 % intervals
    #[arg(long, value_name = "N", value_parser = seeds::number)]
    seeds: Option<u32>,
    /// Threads at most, instead of the scenario's: 1 to 256, or "auto" for the processors' number; the
    /// result is the same for every number; with --seeds, of all runs together
    #[arg(long, value_name = "N", value_parser = str::parse::<ThreadLimit>)]
    threads: Option<ThreadLimit>,
    /// Run on as many threads as --threads says, whether that is fast or not: for measuring the executor
    #[arg(long, hide = true, requires = "threads")]
    exactly: bool,
    /// Where report.json and topology.svg go [default: out/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also write DIR/requests.parquet, one row for each completed request; those measured have
    /// completed_ps after the report's warmup_ns
    #[arg(long)]
    requests: bool,
    /// Also write a trace of a window of the run for ui.perfetto.dev: requests by stage, links, queues and
    /// credits (docs/guide/why-is-it-slow.md); a FILE that ends in .json has Chrome's format
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// The window, in simulated time since the start of the run, e.g. "10us..12us" or "10us..": requests that
    /// are issued and completed in it [default: from the beginning of the measurement on]
    #[arg(long, value_name = "FROM..TO", requires = "perfetto", value_parser = perfetto::window)]
    perfetto_window: Option<perfetto::Window>,
    /// Most requests in the trace: the first of the window to complete, 1 to 1000000 [default: 1000]
    #[arg(long, value_name = "N", requires = "perfetto", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    perfetto_requests: Option<u32>,
    /// Write the state of the run to this file from time to time, from which --restore goes on
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// How often: "10 ms" (simulated), "100000 requests", "30 s wall", or once after the "warm-up"
    /// [default: "60 s wall"]
    #[arg(long, value_name = "INTERVAL", requires = "checkpoint", value_parser = checkpoint_interval)]
    checkpoint_every: Option<CheckpointInterval>,
    /// Go on from a checkpoint of this scenario, with the same seed, on any number of threads
    #[arg(long, value_name = "FILE")]
    restore: Option<PathBuf>,
    /// Run events, or compute what can be computed without them
    #[arg(long, value_enum, default_value_t = Mode::Events)]
    mode: Mode,
    /// Correct the analytic form by two short event runs, of which the first measures N requests
    /// [default N: 20 for each request in flight, at least 5,000]
    #[arg(long, value_name = "N", num_args = 0..=1, value_parser = clap::value_parser!(u64).range(1..))]
    calibrate: Option<Option<u64>>,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

/// How a report is made.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// The event engine: every request, to the picosecond
    Events,
    /// Sums, closed forms and a fixed point, in a fraction of the time (docs/explain/analytic.md)
    Analytic,
    /// The analytic form where its own error classes promise 10 % or better, events otherwise
    Auto,
}

#[derive(Args)]
struct CheckArgs {
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// How to print mistakes
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,
}

/// Form of what a command prints.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// A text to read
    Text,
    /// JSON, with everything, for programs
    Json,
}

#[derive(Args)]
struct PlanArgs {
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// What to print
    #[arg(long, value_enum, default_value_t = PlanFormat::Text)]
    format: PlanFormat,
    /// Write to this file instead of the terminal
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    /// A summary to read
    Text,
    /// Everything, for programs
    Json,
    /// A graph for Graphviz
    Dot,
    /// A picture of the system
    Svg,
    /// A picture of the system in characters, at most 104 columns wide
    Terminal,
}

/// A number below zero behind an option is that option's value, and refused as such.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let of_options = |arg: clap::Arg| match arg.get_long() {
        Some(_) if arg.get_action().takes_values() => arg.allow_negative_numbers(true),
        _ => arg,
    };
    command
        .mut_args(of_options)
        .mut_subcommands(with_negative_numbers)
}

/// Runs the command line, whose first argument is the command's own name, and returns the exit
/// code: 0 on success, 2 for the user's mistakes, 1 when something cannot be written, 70 for our
/// own mistakes, 71 for a plug-in's, 130 when interrupted. `attach` ends as its program does, by a
/// signal too, and gives up the streams of the process. It owns the process: it handles its signals,
/// and an assertion that fails ends it.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    std::panic::set_hook(Box::new(internal_error));
    let matches = with_negative_numbers(Cli::command()).try_get_matches_from(arguments);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are errors that are none; nothing can be done when it cannot be
            // printed.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    let result = match cli.command {
        Command::Run(args) => run::run(args),
        Command::Attach(args) => attach::attach(args),
        Command::Vm(command) => vm::vm(command),
        Command::Fleet(args) => fleet::fleet(args),
        Command::Compare(args) => compare::show(&args),
        Command::Diff(args) => diff::show(&args),
        Command::New(args) => new::new(&args),
        Command::Check(args) => plan::check(&args),
        Command::Plan(args) => plan::show(&args),
        Command::List { catalog } => list::list(catalog.as_deref()),
        Command::Explain(args) => explain::explain(&args),
        Command::Schema => list::schema(),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
        Command::PluginHost { arguments } => return cxlab_plugin::serve(&arguments),
        Command::Trace(command) => trace::trace(command),
        Command::Report(args) => Err(in_python("report", &args)),
        Command::Sweep(args) => Err(in_python("sweep", &args)),
        Command::Mlc(args) => Err(in_python("mlc", &args)),
        Command::Calibrate(args) => Err(in_python("calibrate", &args)),
        Command::Reproduce(args) => Err(in_python("reproduce", &args)),
    };
    match result {
        Ok(()) => 0,
        Err(failure) => failure.report(),
    }
}

/// Says how to get a command that is not in this program.
fn in_python(name: &str, args: &InPython) -> Failure {
    let arguments: String = args
        .arguments
        .iter()
        .map(|argument| format!(" {}", argument.to_string_lossy()))
        .collect();
    Failure::mistake(format!(
        "`cxlab {name}` is part of the Python package, which this program is not; install it with \
         `pip install .` in the source folder, and then run: cxlab {name}{arguments}"
    ))
}

/// Ends the command when an assertion of ours fails, whichever thread it is in.
fn internal_error(panic: &std::panic::PanicHookInfo<'_>) {
    let payload = panic.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let what = text
        .or(payload.downcast_ref::<&str>().copied())
        .unwrap_or("of unknown cause");
    // Where a thread cannot be had, the standard library panics: that is the system's limit and no mistake.
    if let Some(why) = what.strip_prefix("failed to spawn thread: ") {
        let failure = Failure::Output(format!("no thread can be begun: {why}"));
        std::process::exit(failure.report().into());
    }
    let place = panic
        .location()
        .map(|place| format!(" ({place})"))
        .unwrap_or_default();
    let failure = Failure::Internal(format!(
        "internal error, please report it with the command and its files: {what}{place}"
    ));
    failure.report();
    std::process::exit(Failure::INTERNAL.into());
}

fn seed(text: &str) -> Result<u64, String> {
    let allowed = || format!("allowed: a whole number from 0 to {}", u64::MAX);
    text.parse().map_err(|_| allowed())
}

/// Reads an interval of checkpoints. The error has no value, because it follows the option's value.
fn checkpoint_interval(text: &str) -> Result<CheckpointInterval, String> {
    text.parse().map_err(|error: String| {
        let allowed = error.strip_prefix(&format!("found `{text}`; "));
        allowed.map_or(error.clone(), str::to_owned)
    })
}

/// Text without what a terminal obeys, such as the escape sequences in a name.
fn harmless(text: &str) -> Cow<'_, str> {
    let obeyed = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    for character in text.chars() {
        match obeyed(character) {
            true => kept.extend(character.escape_default()),
            false => kept.push(character),
        }
    }
    Cow::Owned(kept)
}

/// Prints a line to standard error, where that can be written.
fn tell(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{}", harmless(text));
}

/// Prints to standard output; a closed pipe is success, another error a failure.
fn print(text: &str) -> Result<(), Failure> {
    print_as_it_is(&harmless(text))
}

/// The same with colours and whatever else is in it.
fn print_as_it_is(text: &str) -> Result<(), Failure> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::Output(
            format!("cannot write to standard output: {error}"),
        )),
        _ => Ok(()),
    }
}
