//! Checks which facilities for attaching this machine offers, and why others are missing.

use std::fs;
use std::io;

use cxlab_perf::kind::{HARDWARE, RAW, SOFTWARE};
use cxlab_perf::{Attr, Format, flag};

use crate::calibrate::processor_field;
use crate::meter::Addresses;
use crate::sys::{self, Counter, Ring};

/// A facility of the system that cxlab checked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FacilityCheck {
    /// Name of the facility.
    pub name: &'static str,
    /// Whether this machine has the facility.
    pub works: bool,
    /// The version or value found, or the error.
    pub found: String,
}

/// A tier: one of the methods to find cache misses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TierCheck {
    /// Rank of the tier, from 1 (best) to 4.
    pub number: u8,
    /// Name of the method.
    pub name: &'static str,
    /// Whether `cxlab attach` can use it here.
    pub usable: bool,
    /// Reason why the tier is usable or not.
    pub why: String,
}

fn check(name: &'static str, result: io::Result<String>) -> FacilityCheck {
    FacilityCheck {
        name,
        works: result.is_ok(),
        found: result.unwrap_or_else(|error| error.to_string()),
    }
}

/// Name and raw event code (unit mask and event) of the counter of lines that demand loads fetch from memory.
fn demand_fills() -> Option<(&'static str, u64)> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    match processor_field(&info, "vendor_id")? {
        // Processor Programming Reference, family 19h: LsDmndFillsFromSys, local memory.
        "AuthenticAMD" => Some(("LsDmndFillsFromSys", 0x0843)),
        // Intel SDM volume 3B: MEM_LOAD_RETIRED.L3_MISS.
        "GenuineIntel" => Some(("MEM_LOAD_RETIRED.L3_MISS", 0x20d1)),
        _ => None,
    }
}

const CYCLES: u64 = 0;
const PAGE_FAULTS: u64 = 2;
/// Events for a sample.
const PERIOD: u64 = 10_007;

/// The event with samples, which have the exact address of the instruction if `precise`.
fn sampled(attr: Attr, precise: bool) -> Attr {
    let precise = if precise { 2 << flag::PRECISE_SHIFT } else { 0 };
    let attr = Attr {
        sample_period: PERIOD,
        sample_type: Format::Ip as u64,
        ..attr
    };
    attr.with(precise)
}

/// The event with samples, each of which sends a signal to the thread.
fn with_signal(attr: Attr) -> Attr {
    sampled(attr, false).with(flag::SIGTRAP | flag::REMOVE_ON_EXEC)
}

fn count_fills() -> io::Result<String> {
    let Some((name, code)) = demand_fills() else {
        return Err(io::Error::other("no event is known for this processor"));
    };
    let counter = hardware(Attr::of_user(RAW, code))?;
    // In a guest a counter may open and yet count nothing, so this produces misses to count.
    let before = counter.read()?;
    let latency = crate::calibrate::latency();
    let counted = counter.read()? - before;
    match counted <= 1000.0 {
        true => Err(io::Error::other(format!(
            "{name} opens, but counted {counted:.0} of about a million misses"
        ))),
        false => Ok(format!("{name}, {counted:.0} counted ({latency:?})")),
    }
}

/// Opens an event of the hardware. Without counters, the kernel refuses with `ENOENT`, `ENODEV` or `EOPNOTSUPP`.
fn hardware(attr: Attr) -> io::Result<Counter> {
    Counter::open(0, &attr).map_err(|error| {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        without_counters(error, crate::calibrate::is_guest(&info))
    })
}

/// Tests a ring of page faults with their addresses. Hardware would write its samples to such a ring.
fn ring() -> io::Result<String> {
    let faults = Attr {
        sample_type: Format::bits(&[Format::Ip, Format::Addr]),
        ..sampled(Attr::of_user(SOFTWARE, PAGE_FAULTS), false)
    };
    Ring::open(0, &faults, 1).map(|_| "opens".to_owned())
}

/// Error of a hardware counter, as users can understand it.
fn without_counters(error: io::Error, guest: bool) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => io::Error::other(match guest {
            true => "no hardware counters in this guest",
            false => "the kernel offers no such hardware counter here",
        }),
        _ => error,
    }
}

fn setting(path: &str) -> io::Result<String> {
    fs::read_to_string(path).map(|text| text.trim().to_owned())
}

fn freezer() -> io::Result<String> {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    let root = roots
        .into_iter()
        .find(|root| fs::metadata(format!("{root}/cgroup.controllers")).is_ok())
        .ok_or_else(|| io::Error::other("cgroup v2 is not mounted"))?;
    let writable = fs::OpenOptions::new()
        .write(true)
        .open(format!("{root}/cgroup.procs"));
    writable.map(|_| format!("{root}, writable"))
}

fn traced() -> io::Result<String> {
    let child = sys::fork(|| {
        std::thread::sleep(std::time::Duration::from_secs(10));
        0
    })?;
    let seized = sys::seize(child);
    let _ = sys::kill(child, libc::SIGKILL);
    while let Ok(Some((_, news))) = sys::wait(child, true) {
        match news {
            sys::Status::Exited(_) | sys::Status::Killed(_) => break,
            _ => {
                let _ = sys::resume(child, sys::Resume::Continue(0));
            }
        }
    }
    seized.map(|()| match setting("/proc/sys/kernel/yama/ptrace_scope") {
        Ok(scope) => format!("own children; ptrace_scope {scope} for --pid"),
        Err(_) => "own children, and with --pid what belongs to you".to_owned(),
    })
}

/// Checks all facilities. Call it only while the process has one thread.
pub fn examine() -> Vec<FacilityCheck> {
    let why_not = "no: not needed for what you start yourself";
    let root = sys::is_root().then(|| "yes".to_owned());
    let fills = Attr::of_user(RAW, demand_fills().map_or(0, |(_, event)| event));
    let faults = Attr::of_user(SOFTWARE, PAGE_FAULTS);
    let opens = |_| "opens".to_owned();
    let can = |what: &str| {
        let what = format!("can be {what}");
        move |()| what
    };
    let all = [
        ("root", root.ok_or_else(|| io::Error::other(why_not))),
        (
            "perf_event_paranoid",
            setting("/proc/sys/kernel/perf_event_paranoid"),
        ),
        (
            "hardware counters (cycles)",
            hardware(Attr::of_user(HARDWARE, CYCLES)).map(opens),
        ),
        ("demand fills from memory", count_fills()),
        (
            "precise addresses (PEBS, IBS)",
            hardware(sampled(fills, true)).map(opens),
        ),
        ("rings of samples (software events)", ring()),
        (
            "signal at overflow (sigtrap), software event",
            Counter::open(0, &with_signal(faults)).map(opens),
        ),
        (
            "signal at overflow (sigtrap), demand fills",
            hardware(with_signal(fills)).map(opens),
        ),
        (
            "breakpoints on data",
            sys::Breakpoint::probe().map(can("set")),
        ),
        ("tracing (ptrace)", traced()),
        (
            "touched pages (clear_refs)",
            crate::maps::clear_referenced(sys::own()).map(can("cleared")),
        ),
        ("cgroup v2 freezer", freezer()),
        ("eBPF programs", sys::may_load_ebpf().map(can("loaded"))),
        ("QEMU's user mode", version("qemu-x86_64")),
        ("Valgrind", version("valgrind")),
    ];
    all.map(|(name, result)| check(name, result)).into()
}

/// The first line of a program's `--version` output.
fn version(program: &str) -> io::Result<String> {
    let output = std::process::Command::new(program)
        .arg("--version")
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// Which tiers the facilities in `checks` allow.
pub fn tiers(checks: &[FacilityCheck]) -> Vec<TierCheck> {
    let of = |name: &str| checks.iter().find(|check| check.name.starts_with(name));
    let works = |name: &str| of(name).is_some_and(|check| check.works);
    let found = |name: &str| of(name).map_or(String::new(), |check| check.found.clone());
    let no_counters = |name: &str, why: &str| match works(name) {
        true => why.to_owned(),
        false => format!("refused: {}; {UNTESTED_TIERS}", found(name)),
    };
    let events = Addresses::of_this_processor();
    vec![
        TierCheck {
            number: 1,
            name: "hardware address sampling",
            usable: works("precise") && events.is_ok(),
            why: match &events {
                Err(why) if works("precise") => format!("{why}; --events says others"),
                _ => no_counters("precise", TIER_1),
            },
        },
        TierCheck {
            number: 2,
            name: "counting events and windows",
            usable: works("demand fills"),
            why: no_counters("demand fills", TIER_2),
        },
        TierCheck {
            number: 3,
            name: "no counters: exact windows, registers that count, and CPU time",
            usable: works("tracing"),
            why: format!(
                "ptrace: {}; reuse of lines: {}; touched pages: {}",
                found("tracing"),
                match works("breakpoints") {
                    true => "seen by breakpoints",
                    false => "not seen, touched pages say how many lines miss",
                },
                match works("touched") {
                    true => "marked by the kernel",
                    false => "not known, all resident ones count as used",
                }
            ),
        },
        TierCheck {
            number: 4,
            name: "exact instrumentation (cxlab trace capture)",
            usable: works("QEMU") || works("Valgrind"),
            why: match works("QEMU") {
                true => found("QEMU"),
                false => found("Valgrind"),
            },
        },
    ]
}

/// Status of tier 1.
const TIER_1: &str = "built, never run on a PMU; --events auto uses it";
/// Status of tiers 1 and 2 if the processor shows no counters.
const UNTESTED_TIERS: &str = "built, never run on a PMU";

/// Status of tier 2.
const TIER_2: &str = "built, never run on a PMU; --events cache-misses uses it";

/// Reason why each tier better than tier 3 is not used, one line each.
pub(crate) fn refused() -> Vec<String> {
    let fills = demand_fills();
    let counters = match fills {
        None => "no event of demand fills is known for this processor".to_owned(),
        Some((name, code)) => match hardware(Attr::of_user(RAW, code)) {
            Ok(_) => format!("{name} can be counted; {TIER_2}"),
            Err(error) => error.to_string(),
        },
    };
    let code = fills.map_or(0, |(_, code)| code);
    let sampling = match hardware(sampled(Attr::of_user(RAW, code), true)) {
        Ok(_) => {
            let events = Addresses::of_this_processor();
            events.map_or_else(|why| why, |_| TIER_1.to_owned())
        }
        Err(error) => error.to_string(),
    };
    vec![
        format!("tier 1, hardware address sampling: {sampling}"),
        format!("tier 2, counting events: {counters}"),
    ]
}

/// Reason why a process cannot be traced, with a hint at the remedy.
pub(crate) fn why_not_traced(error: &io::Error) -> String {
    let hint = match error.raw_os_error() {
        Some(libc::EPERM) => {
            "; it belongs to another user, is traced by another program, or \
             /proc/sys/kernel/yama/ptrace_scope forbids it (start it with `cxlab attach ... -- COMMAND`, \
             or be root; tier 4 does without: `cxlab trace capture`, then `cxlab run`)"
        }
        Some(libc::ESRCH) => "; there is no such process",
        _ => "",
    };
    format!("cannot be traced: {error}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake(works: &[&str]) -> Vec<TierCheck> {
        let names = [
            "hardware counters (cycles)",
            "demand fills from memory",
            "precise addresses (PEBS, IBS)",
            "breakpoints on data",
            "tracing (ptrace)",
            "touched pages (clear_refs)",
            "QEMU's user mode",
            "Valgrind",
        ];
        let checks: Vec<FacilityCheck> = names
            .into_iter()
            .map(|name| FacilityCheck {
                name,
                works: works.iter().any(|one| name.starts_with(one)),
                found: "Permission denied".to_owned(),
            })
            .collect();
        tiers(&checks)
    }

    #[test]
    fn each_tier_says_why() {
        for works in [&[][..], &["tracing"], &["tracing", "precise", "demand"]] {
            let tiers = fake(works);
            assert_eq!(tiers.len(), 4);
            assert!(tiers.iter().all(|tier| !tier.why.is_empty()));
        }
        let usable = |works: &[&str]| -> Vec<u8> {
            let tiers = fake(works);
            let usable = tiers.iter().filter(|tier| tier.usable);
            usable.map(|tier| tier.number).collect()
        };
        assert_eq!(usable(&[]), [0u8; 0]);
        assert_eq!(usable(&["tracing"]), [3]);
        assert_eq!(usable(&["tracing", "Valgrind"]), [3, 4]);
        assert_eq!(usable(&["QEMU"]), [4]);
        assert!(fake(&[])[0].why.contains("refused: Permission denied"));
    }

    #[test]
    fn a_guest_without_counters_is_called_that() {
        let of =
            |code, guest| without_counters(io::Error::from_raw_os_error(code), guest).to_string();
        assert_eq!(of(libc::ENOENT, true), "no hardware counters in this guest");
        assert!(of(libc::EOPNOTSUPP, false).contains("no such hardware counter"));
        assert!(of(libc::EACCES, true).contains("denied"));
    }

    #[test]
    fn what_is_refused_comes_with_a_hint() {
        let text = why_not_traced(&io::Error::from_raw_os_error(libc::EPERM));
        assert!(text.contains("ptrace_scope"), "{text}");
    }
}
