//! Options of `cxlab attach` as its library takes them.

use cxlab_attach::meter::Events;
use cxlab_attach::model::Overlap;
use cxlab_attach::placement::{Placement, bytes};
use cxlab_attach::{Options, Target};
use cxlab_engine::units::Picos;

use super::{AttachArgs, Failure};

/// Options of an attachment, from the arguments.
pub(super) fn options(args: &AttachArgs) -> Result<Options, Failure> {
    let target = match (args.pid, args.command.is_empty()) {
        (Some(pid), _) => Target::Pid(pid),
        (None, false) => Target::Command(args.command.clone()),
        (None, true) => {
            return Err(Failure::mistake(
                "no program was given; allowed: -- COMMAND [ARGUMENTS], or --pid PID",
            ));
        }
    };
    let llc_bytes = args.llc.as_deref().map(|text| {
        bytes(text).ok_or_else(|| {
            Failure::mistake(format!(
                "--llc: found `{text}`; allowed: a size such as 32MiB"
            ))
        })
    });
    let overlap = args.overlap.as_deref().map(overlap);
    Ok(Options {
        overlap: overlap.transpose()?,
        recalibrate: args.recalibrate,
        record: args.events.is_none() && (args.located || args.advise || args.record.is_some()),
        target,
        placement: placement(args)?,
        local_ns: local_latency(args)?,
        events: events(args)?,
        llc_bytes: llc_bytes.transpose()?,
    })
}

fn events(args: &AttachArgs) -> Result<Option<Events>, Failure> {
    let events = args.events.as_deref().map(str::parse).transpose();
    events.map_err(|error| Failure::mistake(format!("--events: {error}")))
}

pub(super) fn placement(args: &AttachArgs) -> Result<Placement, Failure> {
    let placement = args.placement.parse();
    placement.map_err(|error| Failure::mistake(format!("--placement: {error}")))
}

pub(super) fn local_latency(args: &AttachArgs) -> Result<Option<f64>, Failure> {
    time("--local-latency", args.local_latency.as_deref(), "90 ns")
}

/// The time that an option gives, in nanoseconds.
pub(super) fn time(
    option: &str,
    text: Option<&str>,
    example: &str,
) -> Result<Option<f64>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let picos: Result<Picos, _> = text.parse();
    match picos {
        Ok(picos) if picos.0 > 0 => Ok(Some(picos.0 as f64 / 1e3)),
        _ => Err(Failure::mistake(format!(
            "{option}: found `{text}`; allowed: a time such as \"{example}\""
        ))),
    }
}

/// Parses the value of `--overlap`.
pub(super) fn overlap(text: &str) -> Result<Overlap, Failure> {
    let count = |text: &str| -> Option<f64> {
        let count: f64 = text.parse().ok()?;
        (1.0..=1024.0).contains(&count).then_some(count)
    };
    let parts: Vec<&str> = text.split(':').collect();
    let found = match parts[..] {
        [ahead, misses, stream] => ahead
            .parse::<u32>()
            .ok()
            .filter(|ahead| (1..=65536).contains(ahead))
            .zip(count(misses).zip(count(stream))),
        _ => None,
    };
    match found {
        Some((window, (misses, stream))) if stream >= misses => Ok(Overlap {
            window,
            misses,
            stream,
        }),
        _ => Err(Failure::mistake(format!(
            "--overlap: found `{text}`; allowed: AHEAD:MISSES:STREAM, 1 to 65536 instructions, and \
             1 to 1024 of each of the others, the last at least the second"
        ))),
    }
}
