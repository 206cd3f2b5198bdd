//! Attaching uses two processes: the command, which the user sees, and the guard, which traces.
//!
//! Only the guard touches the program. The guard ends when the command does, however the command ends: the kernel
//! signals the parent's death, and the guard checks its parent's process number. Tracing ends with the guard, so no
//! thread stays stopped. The command writes the report that the guard sends.

use std::ffi::OsString;
use std::io::{self, PipeWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::calibrate::{self, Curve, Lines};
use crate::doctor;
use crate::estimate::RECENT_WINDOWS;
use crate::fabric::Fabric;
use crate::images::to_addresses;
use crate::measurement_cache::{self, MachineMeasurements};
use crate::meter::{EventStart, Events, OpenEvents};
use crate::model::Overlap;
use crate::placement::Placement;
use crate::prices::JudgedNs;
use crate::process::Facts;
use crate::profile::cost::{ProfileCost, SampledMachine};
use crate::recorder::Recorder;
use crate::recording::Recording;
use crate::relay::{Link, Message, Relay};
use crate::report::{AttachReport, CpuParts, Tier};
use crate::sites;
use crate::slowdown::{PoolReport, Slowdown, Times};
use crate::sys::{self, Program, Tid};
use crate::tracer::{Outcome, Tracer};
use crate::{Target, maps};

/// Options of [`attach`].
pub struct Options {
    /// The program to follow.
    pub target: Target,
    /// Placement of the program's memory in pools.
    pub placement: Placement,
    /// Latency of this machine's memory in nanoseconds, instead of measuring it.
    pub local_ns: Option<f64>,
    /// Bytes of last level cache that the program is assumed to have, instead of the machine's.
    pub llc_bytes: Option<u64>,
    /// Overlap of misses, instead of measuring it.
    pub overlap: Option<Overlap>,
    /// Whether to measure this machine again instead of using cached measurements.
    pub recalibrate: bool,
    /// Whether to record the run, for the delay by place and for other placements and fabrics.
    pub record: bool,
    /// Events of the processor that count or sample misses, instead of windows.
    pub events: Option<Events>,
}

/// Result of [`attach`].
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct AttachOutcome {
    /// Report for users and programs.
    pub report: AttachReport,
    /// Recording of the run, if [`Options::record`] is set.
    pub recording: Option<Recording>,
    /// Cost by sampled misses, if [`Options::events`] has addresses and the cost is known.
    pub profile: Option<ProfileCost>,
}

impl AttachOutcome {
    /// Reads what [`to_json`](Self::to_json) wrote.
    ///
    /// # Errors
    /// The first value that the types do not accept, with its line and column.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// The outcome on one line, for a file.
    ///
    /// # Errors
    /// A number that JSON does not have.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

/// Error of [`attach`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error, Debug)]
pub enum AttachError {
    /// The command cannot be started.
    #[error("{0}")]
    Start(String),
    /// The process cannot be traced, with a hint.
    #[error("{0}")]
    Trace(String),
    /// Another system call failed.
    #[error("{0}")]
    System(String),
}

fn system(what: &str) -> impl Fn(io::Error) -> AttachError {
    let what = what.to_owned();
    move |error| AttachError::System(format!("{what}: {error}"))
}

/// Signals that end an attachment to a process that ran before.
const END_SIGNALS: [i32; 4] = [libc::SIGCHLD, libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// How often the command checks whether the guard has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Number of windows of a run below which the report has a note (*assumed*: as many as an estimate of a phase uses).
const FEW_WINDOWS: u64 = RECENT_WINDOWS as u64;

/// Attaches to a program and follows it to its end, or until a signal ends the attachment to a
/// process that ran before. Call it only while the process has one thread.
///
/// The program has the standard streams, signal dispositions and mask, working directory, terminal
/// and process group of this process. After the program has started, this process holds no copy
/// of its streams but standard error. Signals that this process receives are passed on.
///
/// # Errors
/// [`AttachError`]; the program then runs on, or was never started.
pub fn attach(options: &Options, fabric: &mut dyn Fabric) -> Result<AttachOutcome, AttachError> {
    let (facts, notes) = facts(options)?;
    let library = options.record.then(sites::library);
    let (mut reader, writer) = io::pipe().map_err(system("no pipe"))?;
    let (own, guards) = Link::pair().map_err(system("no sockets"))?;
    let command = sys::own();
    let pid_given = matches!(options.target, Target::Pid(_));
    let awaited = match pid_given {
        true => END_SIGNALS.to_vec(),
        false => [vec![libc::SIGCHLD], sys::signals_of_others()].concat(),
    };
    sys::receive_child_signals();
    sys::block_signals(&awaited);
    let guard = sys::fork(|| {
        // Signals of the terminal or of a group are the program's, not the guard's.
        sys::block_signals(&sys::signals_of_others());
        sys::block_signals(&[libc::SIGCHLD]);
        sys::become_guard();
        let result = guard(options, fabric, (&facts, notes, library), (guards, command));
        let text = serde_json::to_string(&result).map_err(io::Error::other);
        let written = text.and_then(|text| (&writer).write_all(text.as_bytes()));
        i32::from(written.is_err())
    })
    .map_err(system("no process for the guard"))?;
    // The pipe's reader ends when the guard closes its end, so no write end may stay open here.
    drop(writer);
    if !pid_given {
        sys::let_go_of_streams();
    }
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).map(|_| text)
    });
    loop {
        match sys::wait_signal(&awaited, POLL_INTERVAL) {
            Some(given) if given.signal == libc::SIGCHLD => {}
            Some(_) if pid_given => own.send(Message::Leave),
            // Signals of the terminal or the kernel reach the program as well.
            Some(given) if given.sender != 0 => own.send(Message::Signal(given)),
            _ => {}
        }
        if let Some(Message::Stopped(signal)) = own.receive() {
            sys::suffer(signal);
            while own.receive().is_some() {}
        }
        if !matches!(sys::wait(guard, false), Ok(None)) {
            break;
        }
    }
    let text = reader.join().ok().and_then(Result::ok).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_else(|_| {
        let why = "the guard ended without a report; the program runs on";
        Err(AttachError::System(why.to_owned()))
    })
}

/// Measures the properties of this machine that the estimate needs. Returns them with notes for the user.
fn facts(options: &Options) -> Result<(Facts, Vec<String>), AttachError> {
    let mut notes = Vec::new();
    let no_memory = || {
        AttachError::System(
            "no memory to measure this machine's latency with: 256 MiB are needed (ulimit -v); a run \
             without the limit keeps what it measures"
                .to_owned(),
        )
    };
    let (measured, kept) =
        measurement_cache::measured(options.recalibrate).ok_or_else(no_memory)?;
    let MachineMeasurements {
        latency,
        overlap,
        small,
        large,
        mark_ns,
        watched_fault_ns,
    } = measured;
    notes.push(kept);
    notes.push(format!(
        "this machine's memory: {:.0} ns in large pages, {:.0} ns in pages of 4 KiB",
        latency.large_ns, latency.small_ns
    ));
    if let Some(local_ns) = options.local_ns {
        notes.push(format!(
            "added latencies are those over {local_ns} ns (--local-latency)"
        ));
    }
    let llc_bytes = match options.llc_bytes {
        Some(bytes) => bytes,
        None => {
            let (bytes, text) = calibrate::last_level_cache();
            notes.push(text);
            bytes
        }
    };
    let overlap = options.overlap.unwrap_or(overlap);
    let (overlaps, ahead) = match options.overlap {
        Some(_) => ("as told", "as told"),
        None => ("measured", calibrate::window().1),
    };
    notes.push(format!(
        "overlap: {:.1} misses without order and {:.1} lines of a stream at once, {overlaps}; {} \
         instructions ahead, {ahead}",
        overlap.misses, overlap.stream, overlap.window
    ));
    notes.push(shown(&small));
    if let Err(error) = sys::Breakpoint::probe() {
        notes.push(format!(
            "how soon lines are used again cannot be seen, because the kernel refuses breakpoints ({error}): \
             touched pages and lines of windows say how many miss"
        ));
    }
    let facts = Facts {
        small,
        large,
        mark_ns,
        watched_fault_ns,
        memory_ns: latency.large_ns,
        local_ns: options.local_ns.unwrap_or(latency.large_ns),
        llc_bytes,
        overlap,
        own: options.llc_bytes.is_none() && options.overlap.is_none(),
    };
    Ok((facts, notes))
}

/// Note on line times in small pages.
fn shown(small: &Curve) -> String {
    let shown = |lines: &Lines| {
        format!(
            "{:.1}, {:.1} and {:.1} in {} MiB",
            lines.alone_ns,
            lines.apart_ns,
            lines.stream_ns,
            lines.bytes >> 20
        )
    };
    let points: Vec<String> = small.0.iter().map(shown).collect();
    format!(
        "ns that a line takes here in pages of 4 KiB, alone, without order and in a stream, measured: {}",
        points.join("; ")
    )
}

/// Runs the guard: traces the program, follows it to its end, and sends the outcome to the command.
fn guard(
    options: &Options,
    fabric: &mut dyn Fabric,
    (facts, mut notes, library): (&Facts, Vec<String>, Option<Result<PathBuf, String>>),
    (link, command): (Link, Tid),
) -> Result<AttachOutcome, AttachError> {
    let mut missing = Vec::new();
    let library = match (library, &options.target) {
        (Some(Ok(_)), Target::Pid(_)) => {
            missing.push("allocation sites are not told of a process that ran before".to_owned());
            None
        }
        (Some(Err(why)), _) => {
            missing.push(format!("allocation sites are not told: {why}"));
            None
        }
        (library, _) => library.and_then(Result::ok),
    };
    let recorder = options.record.then(|| Recorder::new(library.clone()));
    let lookup_ns = match &options.events {
        Some(Events::Addresses(events)) if events.is_in_nanoseconds() => 0.0,
        _ => facts.small.at(0).alone_ns,
    };
    let events = OpenEvents::open(options.events.clone(), facts.local_ns - lookup_ns);
    let events = events.map_err(|why| AttachError::Trace(format!("--events: {why}")))?;
    let facts = facts.clone();
    let (root, go) = match &options.target {
        Target::Command(words) => {
            let (root, go) = start(words, library.as_deref())?;
            sys::let_go_of_streams();
            sys::seize(root).map_err(|error| {
                // The child waits for a byte that never comes, and ends when the pipe closes.
                AttachError::Trace(doctor::why_not_traced(&error))
            })?;
            (root, Some(go))
        }
        Target::Pid(pid) => (*pid, None),
    };
    let relay = Relay::new(link, command, go.is_some().then_some(root));
    let known = (facts.clone(), recorder, events);
    let mut tracer = Tracer::new(fabric, options.placement, known, root, relay);
    if go.is_some() {
        tracer.add(root, EventStart::AtExec);
    }
    run_first(&mut notes);
    match go {
        Some(mut go) => go
            .write_all(&[1])
            .map_err(system("the program was not let go"))?,
        None => seize_all(root, &mut tracer)?,
    }
    let mut outcome = tracer.follow().map_err(system("following the program"))?;
    let recorder = outcome.recorder.take();
    let recording = recorder.map(|all| all.finish(facts.overlap, outcome.cpu_ns as f64, missing));
    let (metered, counted) = (outcome.metered.take(), outcome.counted.take());
    let cpu_ns = outcome.cpu_ns as f64;
    let mut report = report(options, &facts, notes, outcome);
    if let Some((lines, wrong)) = counted {
        report.with_lines(lines, wrong);
    }
    let profile = metered.and_then(|(profile, wrong)| {
        let machine = SampledMachine {
            local_ns: facts.local_ns,
            lookup_ns: Some(lookup_ns),
            overlap: facts.overlap,
            cpu_ns: Some(cpu_ns),
        };
        let cost = profile.cost(fabric, options.placement, &machine);
        report.with_samples(&profile, cost.as_ref());
        if let Some(wrong) = wrong {
            report
                .notes
                .push(format!("some misses are not known: {wrong}"));
        }
        let mut cost = cost.ok()?;
        cost.charge(report.delay.asked_ns as f64);
        to_addresses(&mut cost.recording);
        Some(cost)
    });
    Ok(AttachOutcome {
        report,
        recording,
        profile,
    })
}

/// Requests real-time priority, and adds a note if the system refuses. The program has started before,
/// because a child would lose its nice value.
fn run_first(notes: &mut Vec<String>) {
    if !sys::run_first() {
        notes.push(
            "the system does not let cxlab run first (SCHED_RR): holds may end late, and the next \
             ones are shorter for it"
                .to_owned(),
        );
    }
}

/// Forks a child that executes the program once a byte arrives on its pipe. A child that cannot execute the program
/// exits as `env` does: with code 127 if the program is not found, and with code 126 otherwise. The loader loads
/// `library`, if there is one, into the program first.
fn start(words: &[OsString], library: Option<&Path>) -> Result<(Tid, PipeWriter), AttachError> {
    let shown = words
        .first()
        .map_or_else(String::new, |word| word.to_string_lossy().into_owned());
    let program = Program::new(words)
        .map_err(|error| AttachError::Start(format!("{shown}: cannot be started: {error}")))?;
    find(&shown)?;
    let (mut read, write) = io::pipe().map_err(system("no pipe"))?;
    let root = sys::fork(|| {
        if read.read_exact(&mut [0]).is_ok() {
            if let Some(library) = library {
                sys::load_first(library);
            }
            let error = program.become_it();
            let text = format!("cxlab: {shown}: {error}\n");
            let _ = io::stderr().write_all(text.as_bytes());
            if error.kind() != io::ErrorKind::NotFound {
                return 126;
            }
        }
        127
    })
    .map_err(system("no process for the program"))?;
    Ok((root, write))
}

/// Reports a missing command before anything is started.
fn find(word: &str) -> Result<(), AttachError> {
    let exists = if word.contains('/') {
        std::path::Path::new(word).is_file()
    } else {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&paths).any(|folder| folder.join(word).is_file())
    };
    let why = || AttachError::Start(format!("{word}: the command was not found"));
    exists.then_some(()).ok_or_else(why)
}

/// Traces every thread of a running process. It rescans for threads that began meanwhile, until a scan finds none. The
/// start time of the process proves that the number still means the same process.
fn seize_all(pid: Tid, tracer: &mut Tracer<'_>) -> Result<(), AttachError> {
    let gone = |_| AttachError::Trace(format!("{pid}: there is no such process"));
    let before = maps::stat(pid).map_err(gone)?;
    let mut known = Vec::new();
    loop {
        let mut more = false;
        for tid in maps::threads(pid).map_err(gone)? {
            if known.contains(&tid) {
                continue;
            }
            match sys::seize(tid) {
                Ok(()) => {
                    known.push(tid);
                    tracer.add(tid, EventStart::Now);
                    more = true;
                }
                // The thread ended, or the thread that started it is traced already and it with it.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) if known.is_empty() => {
                    return Err(AttachError::Trace(format!(
                        "{pid}: {}",
                        doctor::why_not_traced(&error)
                    )));
                }
                Err(_) => known.push(tid),
            }
        }
        if !more {
            break;
        }
    }
    let after = maps::stat(pid).map_err(gone)?;
    match after.began == before.began && !known.is_empty() {
        true => Ok(()),
        false => Err(AttachError::Trace(format!(
            "{pid}: the process ended, and another has its number"
        ))),
    }
}

/// Builds the report of a run, with the notes on its assumptions and limits.
fn report(
    options: &Options,
    facts: &Facts,
    mut notes: Vec<String>,
    outcome: Outcome,
) -> AttachReport {
    let accounts = outcome.accounts;
    notes.extend(doubts(&outcome.priced.judged));
    notes.extend(few_windows(
        outcome.windows,
        outcome.window_instructions,
        outcome.cpu_ns,
    ));
    if outcome.unmarked {
        notes.push(
            "the kernel does not mark touched pages here (clear_refs): all resident ones count as used"
                .to_owned(),
        );
    }
    for program in &outcome.without_rights {
        notes.push(format!(
            "{program} is a set-user-ID or set-group-ID program, and the kernel gives a traced program \
             no rights but those of who traces it: run cxlab as root, or attach with --pid to what it \
             starts"
        ));
    }
    if outcome.left > 0 {
        notes.push(format!(
            "the program ended and left {} running: they were released, and the report ends there",
            match outcome.left {
                1 => "one process".to_owned(),
                left => format!("{left} processes"),
            }
        ));
    }
    if accounts.asked_ns == 0 && !matches!(options.events, Some(Events::Addresses(_))) {
        notes.push(why_nothing(&outcome));
    }
    if !matches!(options.events, Some(Events::Addresses(_))) {
        notes.push(
            "waits are estimated from sampled windows and a model of overlap; no counter was read"
                .to_owned(),
        );
    }
    let real_s = outcome.real.as_secs_f64();
    let asked = accounts.asked_ns as f64;
    let priced = outcome.priced;
    let by_method = priced.by_method;
    let priced_ns = by_method.counted_ns + by_method.paced_ns + by_method.priced_ns;
    let slowdown = Slowdown::of(&Times {
        cpu_s: outcome.cpu_ns as f64 / 1e9,
        priced_s: priced_ns / 1e9,
        unpriced_s: priced.unpriced_ns / 1e9,
        modelled_s: priced.modelled_ns / 1e9,
        asked_s: asked / 1e9,
        bounds_s: [priced.least_ns, priced.most_ns].map(|ns| ns / 1e9),
        own: facts.own,
    });
    let kernel_ns = outcome.cpu_ns as f64 - priced_ns - priced.unpriced_ns;
    AttachReport {
        mode: "attach".to_owned(),
        tier: Tier {
            number: 3,
            name: "no counters: exact windows, registers that count, and CPU time".to_owned(),
            error_class: "an estimate: delays within a factor of two (docs/guide/attach.md)"
                .to_owned(),
            refused: doctor::refused(),
        },
        placement: options.placement.to_string(),
        processes: outcome.processes,
        threads: outcome.threads,
        end: outcome.end,
        no_slowdown: slowdown.as_ref().err().cloned(),
        slowdown: slowdown.ok(),
        real_s,
        cpu_s: outcome.cpu_ns as f64 / 1e9,
        parts: CpuParts {
            counted_s: by_method.counted_ns / 1e9,
            paced_s: by_method.paced_ns / 1e9,
            priced_s: by_method.priced_ns / 1e9,
            kernel_s: kernel_ns.max(0.0) / 1e9,
            unpriced_s: priced.unpriced_ns / 1e9,
            modelled_s: priced.modelled_ns / 1e9,
            slowed_s: outcome.slowed_ns / 1e9,
        },
        delay_error_percent: match accounts.asked_ns {
            0 => 0.0,
            _ => 100.0 * (accounts.charged_ns as f64 / asked - 1.0),
        },
        undelayed_s: (real_s - outcome.longest_hold_ns as f64 / 1e9).max(0.0),
        delay: accounts,
        windows: outcome.windows,
        window_instructions: outcome.window_instructions,
        window_s: outcome.window_time.as_secs_f64(),
        local_latency_ns: facts.local_ns,
        llc_bytes: facts.llc_bytes,
        overlap: facts.overlap,
        pools: outcome.pools,
        sampled: None,
        notes,
    }
}

/// Notes on CPU time in which touched pages did not decide how many lines miss.
fn doubts(judged: &JudgedNs) -> impl Iterator<Item = String> {
    let all = [
        (
            judged.lines,
            "the program uses few lines of the pages that it touches: the lines that windows saw are the working set \
             there",
        ),
        (
            judged.reuse,
            "breakpoints told how soon lines are used again, and so how many miss",
        ),
        (
            judged.time,
            "misses are bounded by the CPU time over this machine's latency: the program uses less memory at a time \
             than its pages say, or this machine has more cache (--llc)",
        ),
    ];
    let some = all.into_iter().filter(|(ns, _)| *ns > 0.0);
    some.map(|(ns, what)| format!("in {:.3} s of CPU time {what}", ns / 1e9))
}

/// Note on a run with so few windows that one more may change the result.
fn few_windows(windows: u64, instructions: u64, cpu_ns: u64) -> Option<String> {
    let number = match windows {
        1 => "one window".to_owned(),
        2..FEW_WINDOWS => format!("{windows} windows"),
        _ => return None,
    };
    Some(format!(
        "{number} with {instructions} instructions in all is what was seen of {:.3} s of CPU time: misses that it \
         does not show are not charged, and the interval does not have them; a longer run has more windows",
        cpu_ns as f64 / 1e9
    ))
}

/// Note with the reason why a run requested no delay.
fn why_nothing(outcome: &Outcome) -> String {
    let waits = |pools: &[PoolReport]| pools.iter().skip(1).map(|pool| pool.waits).sum::<f64>();
    let reason = if outcome.windows == 0 {
        "no window was seen of it"
    } else if outcome.largest_chance == 0.0 {
        "what it uses fits the last level cache that it is taken to have (--llc)"
    } else if waits(&outcome.pools) == 0.0 {
        "it was not seen to wait for CXL memory"
    } else {
        "the scenario's memory is not slower than this machine's"
    };
    format!("no delay was asked for: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_windows_are_told() {
        assert_eq!(few_windows(0, 0, 1), None);
        assert_eq!(few_windows(FEW_WINDOWS, 900, 1), None);
        let told = |windows| few_windows(windows, 48, 70_000_000).unwrap();
        assert!(told(1).starts_with("one window with 48 instructions in all"));
        assert!(told(3).contains("3 windows") && told(3).contains("0.070 s"));
    }
}
