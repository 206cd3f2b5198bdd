//! Which hosts are guests, and what each of them runs.

use std::ffi::OsString;
use std::time::Duration;

use cxlab_engine::units::Picos;
use cxlab_plan::Plan;
use cxlab_system::analytic::PlanMemory;
use cxlab_vm::machine::Share;

use super::super::failure::Failure;
use super::RunArgs;
use super::accelerator::Accelerator;

/// Most guests: each is a QEMU with memory and at least one busy processor of this machine.
const MOST_GUESTS: usize = 8;
/// Longest window between guests, far above latencies in the fabric.
const LONGEST_WINDOW: Picos = Picos::from_nanos(1_000_000);

/// The numbers of the hosts that are guests, in the scenario's order.
pub(super) fn chosen(plan: &Plan, args: &RunArgs) -> Result<Vec<usize>, Failure> {
    let (option, names) = match &args.host {
        Some(name) => ("--host", std::slice::from_ref(name)),
        None => ("--hosts", args.hosts.as_slice()),
    };
    let mut chosen = Vec::new();
    for name in names {
        let host = number(plan, option, name)?;
        if chosen.contains(&host) {
            return Err(Failure::mistake(format!(
                "{option}: found `{name}` twice; allowed: each host once"
            )));
        }
        chosen.push(host);
    }
    if names.is_empty() {
        chosen.extend(0..plan.hosts.len());
    }
    chosen.sort_unstable();
    if chosen.len() > MOST_GUESTS {
        return Err(Failure::mistake(format!(
            "found {} hosts, and each would be a guest; allowed: {MOST_GUESTS} guests at once \
             (--hosts names some, --host one)",
            chosen.len()
        )));
    }
    Ok(chosen)
}

fn number(plan: &Plan, option: &str, name: &str) -> Result<usize, Failure> {
    let mut hosts = plan.hosts.iter();
    hosts.position(|host| host.name == name).ok_or_else(|| {
        let known: Vec<&str> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
        Failure::mistake(format!(
            "{option}: found `{name}`; allowed: {}",
            known.join(", ")
        ))
    })
}

/// Refuses options that need one guest, or several.
pub(super) fn check_options(guests: usize, args: &RunArgs) -> Result<(), Failure> {
    if guests > 1 && args.host_clock {
        return Err(Failure::mistake(
            "--host-clock: found several guests; allowed: one (--host), for only clocks of simulated \
             time can be kept in step",
        ));
    }
    if guests > 1 && args.from_save {
        return Err(Failure::mistake(
            "--from-save: found several guests; allowed: one (--host), which is saved alone",
        ));
    }
    match args.window {
        Some(_) if guests == 1 => Err(Failure::mistake(
            "--window: found one guest; allowed with several, which may be ahead of each other",
        )),
        Some(window) if window > LONGEST_WINDOW => Err(Failure::mistake(format!(
            "--window: found {window}; allowed: 0 ns to {LONGEST_WINDOW}"
        ))),
        _ => Ok(()),
    }
}

/// Refuses `--from-roi` and `--from-save` with several memories, because time is only skipped before a guest's first region.
pub(super) fn check_roi(memories: usize, args: &RunArgs) -> Result<(), Failure> {
    match memories {
        several @ 2.. if args.skips() => {
            let option = if args.from_save { "save" } else { "roi" };
            Err(Failure::mistake(format!(
                "--from-{option}: found {several} memories in turn; allowed: one (--memory)"
            )))
        }
        _ => Ok(()),
    }
}

/// The accelerator of the only guest, if it has one.
pub(super) fn accelerator<'a>(
    plan: &'a Plan,
    args: &RunArgs,
) -> Result<Option<Accelerator<'a>>, Failure> {
    if plan.scenario.accelerators.is_empty() {
        return Ok(None);
    }
    if args.skips() {
        let option = if args.from_save { "save" } else { "roi" };
        return Err(Failure::mistake(format!(
            "--from-{option}: found a guest with an accelerator; allowed: programs that are counted from their \
             beginning"
        )));
    }
    Accelerator::new(plan, Duration::from_secs(args.timeout)).map(Some)
}

/// Refuses options that guests with shared memory do not support.
pub(super) fn check_shares(memory: &PlanMemory, args: &RunArgs) -> Result<(), Failure> {
    if memory.shared_regions().is_empty() {
        return Ok(());
    }
    let refused = |option: &str, found: String, allowed: &str| {
        Err(Failure::mistake(format!(
            "{option}: found {found} with guests that share memory; allowed: {allowed}"
        )))
    };
    match args.window {
        Some(window) if window.0 > 0 => {
            let allowed = "0 ns, so that loads and stores of all guests have one order";
            return refused("--window", window.to_string(), allowed);
        }
        _ => {}
    }
    if let Some(dir) = &args.pmem {
        let allowed = "scenarios in which no region has sharing = \"shared\"";
        return refused("--pmem", format!("`{}`", dir.display()), allowed);
    }
    Ok(())
}

/// The memory shared with other guests, by window of a guest.
pub(super) fn shares(memory: &PlanMemory, guest: usize) -> Vec<Option<Share>> {
    let numbers = memory.shared_windows(guest).iter();
    let share = |number: &usize| Share {
        number: *number,
        coherent: memory.shared_regions()[*number].coherent,
    };
    numbers.map(|number| number.as_ref().map(share)).collect()
}

/// Checks that memory outside of shared regions belongs to one guest only.
pub(super) fn check_memory(
    plan: &Plan,
    chosen: &[usize],
    memory: &PlanMemory,
) -> Result<(), Failure> {
    let first = plan.hosts.len();
    // Device, host, and the host's address range on the device.
    let mut taken: Vec<(usize, usize, u64, u64)> = Vec::new();
    for (guest, host) in chosen.iter().enumerate() {
        let windows = plan.hosts[*host].map.windows().iter();
        let windows = windows.zip(memory.shared_windows(guest));
        for (window, _) in windows.filter(|(_, shared)| shared.is_none()) {
            let share = window.size.0 / window.targets.len() as u64;
            for (port, from) in window.targets.iter().zip(&window.first) {
                let (device, from) = (port.0 as usize - first, from.0);
                let meets = |one: &&(usize, usize, u64, u64)| {
                    one.0 == device && one.1 != *host && one.2 < from + share && from < one.3
                };
                if let Some((_, other, ..)) = taken.iter().find(meets) {
                    let (one, other) = (&plan.hosts[*other].name, &plan.hosts[*host].name);
                    let device = &plan.devices[device].name;
                    return Err(Failure::mistake(format!(
                        "hosts `{one}` and `{other}` have the same memory of `{device}`, and each guest \
                         would take it for its own; allowed: memory of its own for each guest (for \
                         instance [[regions]] with capacity = \"512 MiB\", which gives each host so \
                         much), a region with sharing = \"shared\", or one guest (--host)"
                    )));
                }
                taken.push((device, *host, from, from + share));
            }
        }
    }
    Ok(())
}

/// Values of an option for one guest: `HOST=VALUE` of its host, and values without a host.
fn of_host<'a>(plan: &Plan, host: usize, values: &'a [String]) -> Vec<&'a str> {
    let mut own = Vec::new();
    let mut common = Vec::new();
    for value in values {
        match value.split_once('=') {
            Some((name, value)) if name == plan.hosts[host].name => own.push(value),
            Some((name, _)) if plan.hosts.iter().any(|host| host.name == name) => {}
            _ => common.push(value.as_str()),
        }
    }
    if own.is_empty() { common } else { own }
}

/// Checks that `--memory HOST=NAME` names hosts that are guests.
pub(super) fn check_memories(plan: &Plan, chosen: &[usize], args: &RunArgs) -> Result<(), Failure> {
    for value in &args.memory {
        let name = value.split_once('=').map(|(name, _)| name);
        let host = plan
            .hosts
            .iter()
            .position(|host| Some(host.name.as_str()) == name);
        if host.is_some_and(|host| !chosen.contains(&host)) {
            return Err(Failure::mistake(format!(
                "--memory: found `{value}`; allowed: memories of hosts that are guests (--hosts)"
            )));
        }
    }
    Ok(())
}

/// The memories that a guest's program is bound to in turn.
pub(super) fn memories<'a>(plan: &Plan, host: usize, args: &'a RunArgs) -> Vec<&'a str> {
    match of_host(plan, host, &args.memory) {
        // Only other hosts were named.
        none if none.is_empty() => vec!["all"],
        some => some,
    }
}

/// Programs that `--program` gives to hosts that are guests, with their words.
pub(super) fn programs(
    plan: &Plan,
    chosen: &[usize],
    args: &RunArgs,
) -> Result<Vec<(usize, Vec<OsString>)>, Failure> {
    let mut programs: Vec<(usize, Vec<OsString>)> = Vec::new();
    for text in &args.programs {
        let wrong = |allowed: &str| {
            Failure::mistake(format!("--program: found `{text}`; allowed: {allowed}"))
        };
        let (name, words) = text
            .split_once('=')
            .ok_or_else(|| wrong("HOST=WORDS, a host and its program"))?;
        let host = number(plan, "--program", name)?;
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        if words.is_empty() {
            return Err(wrong("HOST=WORDS, with a program"));
        }
        if !chosen.contains(&host) {
            return Err(wrong("programs of hosts that are guests (--hosts)"));
        }
        if programs.iter().any(|(other, _)| *other == host) {
            return Err(wrong("one program for each host"));
        }
        programs.push((host, words));
    }
    Ok(programs)
}
