//! `cxlab run --perfetto`: what the arguments say, and the file.

use std::path::Path;

use cxlab_engine::units::Picos;
use cxlab_files::WholeFile;
use cxlab_plan::Plan;
use cxlab_system::output::write_whole;
use cxlab_system::perfetto::{TraceWindow, Tracer};

use super::RunArgs;
use super::failure::Failure;
use super::tell;

/// Requests of a trace by default: 4 MB where requests pass three switches, which the UI opens at once.
const REQUESTS: u32 = 1000;

/// A window of simulated time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    from: Picos,
    to: Option<Picos>,
}

/// Parses a window of the command line.
pub(super) fn window(text: &str) -> Result<Window, String> {
    let allowed = "allowed: FROM..TO or FROM.., times with units such as 10us..12us";
    let (from, to) = text.split_once("..").ok_or_else(|| allowed.to_owned())?;
    let time = |text: &str| {
        text.trim()
            .parse::<Picos>()
            .map_err(|error| format!("`{text}`: {error}; {allowed}"))
    };
    let from = time(from)?;
    let to = match to.trim() {
        "" => None,
        to => Some(time(to)?),
    };
    match to {
        Some(to) if to <= from => Err(format!(
            "found an end that is not after the beginning; {allowed}"
        )),
        _ => Ok(Window { from, to }),
    }
}

/// The tracer that the arguments request.
pub(super) fn tracer(args: &RunArgs) -> Option<Tracer> {
    args.perfetto.as_ref()?;
    let window = args.perfetto_window;
    Some(Tracer::new(TraceWindow {
        from: window.map(|window| window.from),
        to: window.and_then(|window| window.to),
        requests: args.perfetto_requests.unwrap_or(REQUESTS) as usize,
    }))
}

/// Checks before a long run that the file can be written.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    if cxlab_files::is_special(path) {
        return Ok(());
    }
    let begun = WholeFile::create(path);
    begun.map(drop).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!(
        "--perfetto {}: cannot be written to: {error}",
        path.display()
    );
    match error.kind() {
        std::io::ErrorKind::InvalidInput => Failure::mistake(message),
        _ => Failure::Output(message),
    }
}

/// Writes the trace of a run that ended at `end_ns`, and prints a summary of its content.
pub(super) fn write(
    path: &Path,
    tracer: Tracer,
    plan: &Plan,
    end_ns: f64,
    quiet: bool,
) -> Result<(), Failure> {
    let trace = tracer.finish(plan, end_ns);
    let is_json = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let content = match is_json {
        true => trace.chrome_json().into_bytes(),
        false => trace.perfetto(),
    };
    write_whole(path, &content).map_err(|error| unwritable(path, &error))?;
    if !quiet || trace.requests() == 0 {
        tell(&format!("trace {}: {}", path.display(), trace.summary()));
    }
    Ok(())
}
