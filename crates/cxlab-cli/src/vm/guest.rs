//! From a plan to a guest: its machine, and what its initial file system has besides.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cxlab_engine::units::Picos;
use cxlab_host::{CacheLevel, CoreParams, ProcessorParams};
use cxlab_plan::{End, Plan};
use cxlab_scenario::{Arithmetic, HostKind};
use cxlab_vm::build::{Image, add_program};
use cxlab_vm::cpio::Archive;
use cxlab_vm::machine::{Cache, Device, Machine, Share, Window};
use cxlab_vm::model::{Limits, Processors};
use cxlab_vm::qemu::Version;

use super::super::failure::Failure;
use super::RunArgs;

/// Limits of a guest's own memory, in MiB. The kernel and its initial file system need the least, and this machine must
/// provide the most.
const MEMORY_MIB: (u64, u64) = (512, 8192);
/// Programs of other packages in the guest.
const TOOLS: [&str; 5] = ["cxl", "ndctl", "daxctl", "numactl", "sh"];

/// The core of the host in the scenario, or the default core of hosts without one.
fn core(plan: &Plan, host: usize) -> CoreParams {
    let group = &plan.scenario.hosts[plan.hosts[host].group];
    let issue = match &group.kind {
        HostKind::Core(core) => return core.clone(),
        HostKind::Requester(issue) => issue.clone(),
        HostKind::Processor(processor) => return core_of(processor),
    };
    CoreParams {
        misses: issue.outstanding,
        ..CoreParams::default()
    }
}

/// A core of a processor, with the last-level cache as a private one. Its access time includes the path to that cache.
fn core_of(processor: &ProcessorParams) -> CoreParams {
    let llc = CacheLevel {
        size: processor.llc.size,
        ways: processor.llc.ways,
        access_time: Picos(processor.llc.access_time.0 + 2 * processor.mesh_time.0),
    };
    CoreParams {
        cycle: processor.cycle,
        misses: processor.misses,
        caches: vec![processor.l1.clone(), processor.l2.clone(), llc],
        ..CoreParams::default()
    }
}

/// The guest's processors, with the limits of each.
pub(super) fn processors(plan: &Plan, host: usize, cpus: u32) -> Processors {
    let core = core(plan, host);
    Processors {
        count: cpus as usize,
        limits: Limits {
            misses: core.misses,
            writebacks: core.writebacks,
        },
    }
}

/// The machine of a guest. `shares` has the memory shared with other guests, by window.
pub(super) fn machine(
    plan: &Plan,
    host: usize,
    args: &RunArgs,
    shares: &[Option<Share>],
) -> Result<Machine, Failure> {
    if plan.scenario.address_map.arithmetic == Arithmetic::Xor {
        return Err(Failure::mistake(
            "`address_map.arithmetic`: found \"xor\"; allowed in a guest: \"modulo\" (QEMU's windows have no other)",
        ));
    }
    let core = core(plan, host);
    let group = &plan.scenario.hosts[plan.hosts[host].group];
    let own = group.own_memory().0 >> 20;
    let memory_mib = match own {
        0 => 1024,
        own => own.clamp(MEMORY_MIB.0, MEMORY_MIB.1),
    };
    let caches = core.caches.iter().map(|level| Cache {
        sets: level.size.0 / 64 / u64::from(level.ways),
        ways: u64::from(level.ways),
        access_ps: level.access_time.0,
    });
    let windows = plan.hosts[host].map.windows().iter().zip(shares);
    let windows = windows.map(|(window, share)| {
        let devices = window
            .targets
            .iter()
            .map(|port| port.0 as usize - plan.hosts.len());
        let devices: Vec<usize> = devices.collect();
        Window {
            base: window.base.0,
            granularity: plan.scenario.address_map.granularity.0,
            switched: devices.iter().any(|device| behind_switch(plan, *device)),
            devices: devices
                .iter()
                .map(|device| Device {
                    name: plan.devices[*device].name.clone(),
                    capacity: window.size.0 / devices.len() as u64,
                })
                .collect(),
            share: *share,
        }
    });
    let machine = Machine {
        memory_mib,
        processors: args.cpus,
        instruction_ps: (core.cycle.0 / u64::from(core.width)).max(1),
        caches: caches.collect(),
        windows: windows.collect(),
        persistent: args.pmem.is_some(),
        accelerator: plan.accelerators_of(host).next().is_some(),
    };
    let problems = machine.problems();
    if problems.is_empty() {
        return Ok(machine);
    }
    let text = problems.iter().map(|problem| format!("error: {problem}\n"));
    Err(Failure::Mistake(text.collect()))
}

fn behind_switch(plan: &Plan, device: usize) -> bool {
    plan.links.iter().any(|link| {
        let ends = [link.a, link.b];
        let is_device = |end: &End| matches!(end, End::Device(one, _) if *one == device);
        ends.iter().any(is_device) && ends.iter().any(|end| matches!(end, End::Switch(..)))
    })
}

/// Notes for the report on differences between the scenario and the guest.
pub(super) fn notes(plan: &Plan, host: usize) -> Vec<String> {
    let mut notes = Vec::new();
    let group = &plan.scenario.hosts[plan.hosts[host].group];
    if let HostKind::Processor(processor) = &group.kind {
        notes.push(format!(
            "the guest's processors are cores of the host's `processor`, with {} instructions a cycle, and have a \
             last-level cache each",
            CoreParams::default().width
        ));
        if processor.cores > 1 || group.nodes.len() > 1 {
            notes.push(
                "the guest's own memory is as far as the host's first node; `--cpus` says how many \
                 processors the guest has"
                    .to_owned(),
            );
        }
        return notes;
    }
    if !matches!(group.kind, HostKind::Core(_)) {
        notes.push(
            "the host has no `core`: caches and cycle are the defaults of one, its MSHRs are \
             issue.outstanding"
                .to_owned(),
        );
    }
    if group.local.is_none() {
        notes.push(
            "the host has no `local` memory: the guest's own takes the default of one (`fixed`, \
             5 ns each way)"
                .to_owned(),
        );
    }
    notes
}

/// A memory that the program is bound to.
pub(super) struct Binding {
    /// Name for users.
    pub(super) name: String,
    /// Word of the guest's script: a window's number, `local` or `any`.
    pub(super) word: String,
}

/// The memories that `--memory` names.
pub(super) fn bindings(machine: &Machine, wanted: &[&str]) -> Result<Vec<Binding>, Failure> {
    let mut all = vec![Binding {
        name: "local".to_owned(),
        word: "local".to_owned(),
    }];
    let windows = machine.windows.iter().enumerate();
    for (number, window) in windows.filter(|(_, window)| window.share.is_none()) {
        all.push(Binding {
            name: window.name(),
            word: number.to_string(),
        });
    }
    let mut bindings = Vec::new();
    for name in wanted {
        match *name {
            "all" => bindings.extend(all.iter().map(Binding::again)),
            "any" => bindings.push(Binding {
                name: "any".to_owned(),
                word: "any".to_owned(),
            }),
            name => {
                let found = all.iter().find(|one| one.name == name);
                bindings.push(found.map(Binding::again).ok_or_else(|| {
                    let known: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
                    Failure::mistake(format!(
                        "--memory: found `{name}`; allowed: all, any, {}",
                        known.join(", ")
                    ))
                })?);
            }
        }
    }
    Ok(bindings)
}

impl Binding {
    fn again(&self) -> Binding {
        Binding {
            name: self.name.clone(),
            word: self.word.clone(),
        }
    }
}

/// The script that the guest's first process reads to set up its memory. The script contains numbers and fixed words, but
/// no text of the user.
pub(super) fn boot_script(machine: &Machine, version: Version, args: &RunArgs) -> String {
    let flag = |on: bool| u8::from(on);
    let mut text = format!(
        "VOLATILE={}\nDEVDAX={}\nPMEM={}\nSHARED=\nmake_windows() {{\n",
        flag(version.is_volatile(machine)),
        flag(args.devdax),
        flag(args.pmem.is_some())
    );
    let mut serial = 0;
    for (number, window) in machine.windows.iter().enumerate() {
        if window.share.is_some() {
            text.push_str(&format!("SHARED=\"$SHARED {number}\"\n"));
        }
        text.push_str(&format!(
            "window {number} {} {}",
            window.granularity,
            window.size()
        ));
        for _ in &window.devices {
            serial += 1;
            text.push_str(&format!(" {serial}"));
        }
        text.push('\n');
    }
    text.push_str("}\n");
    text
}

/// The part of the initial file system that depends on the machine and not on the run's program.
pub(super) fn boot_archive(script: &str) -> Vec<u8> {
    let mut archive = Archive::default();
    archive.file("cxlab/boot", script.as_bytes(), false);
    archive.finish()
}

/// The script that the guest's first process reads to run programs. `fresh` has the windows whose storage is empty.
pub(super) fn run_script(host: &str, bindings: &[Binding], fresh: &[usize]) -> String {
    // Names of hosts have only a to z, digits, `-` and `_`.
    let mut text = format!("export CXLAB_HOST={host}\nmake_runs() {{\n");
    for window in fresh {
        text.push_str(&format!("FRESH{window}=1\n"));
    }
    for binding in bindings {
        text.push_str(&format!("run {0} {0}\n", binding.word));
    }
    text.push_str("}\n");
    text
}

/// Archive of a run without its script: the program, its arguments, and files.
pub(super) fn run_archive(command: &[OsString], files: &[String]) -> Result<Archive, Failure> {
    let mut archive = Archive::default();
    let mut known = BTreeSet::new();
    let mut words: Vec<Vec<u8>> = command
        .iter()
        .map(|word| word.as_encoded_bytes().to_vec())
        .collect();
    let program = command[0].to_string_lossy().into_owned();
    if let Some(path) = program_path(&program)? {
        let wrong = |error| Failure::mistake(error);
        add_program(&mut archive, &path, "cxlab/program", None, &mut known).map_err(wrong)?;
        words[0] = b"/cxlab/program".to_vec();
    }
    let mut argv = Vec::new();
    for word in words {
        argv.extend(word);
        argv.push(0);
    }
    archive.file("cxlab/argv", &argv, false);
    for file in files {
        let (from, to) = file.split_once(':').unwrap_or((file, file));
        let to = to.trim_start_matches('/');
        if to.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(Failure::mistake(format!(
                "--file: found `{to}`; allowed: a path in the guest without `.` and `..`"
            )));
        }
        take_along(&mut archive, Path::new(from), to, 0)?;
    }
    Ok(archive)
}

/// Deepest nesting of folders that are copied: a link may lead back to a folder that has it.
const MAX_DEPTH: u32 = 32;

/// Adds a file, or a folder with its contents.
fn take_along(archive: &mut Archive, from: &Path, to: &str, depth: u32) -> Result<(), Failure> {
    let wrong =
        |error: std::io::Error| Failure::mistake(format!("--file {}: {error}", from.display()));
    if !from.is_dir() {
        archive.file(to, &std::fs::read(from).map_err(wrong)?, true);
        return Ok(());
    }
    if depth == MAX_DEPTH {
        return Err(Failure::mistake(format!(
            "--file {}: found folders in folders; allowed: {MAX_DEPTH}",
            from.display()
        )));
    }
    archive.folder(to);
    let entries = std::fs::read_dir(from).map_err(wrong)?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        // Broken links, sockets and the like are skipped.
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if path.is_dir() || path.is_file() {
            take_along(archive, &path, &format!("{to}/{name}"), depth + 1)?;
        }
    }
    Ok(())
}

/// The path of a program on this machine; `None` if the program is the guest's own.
fn program_path(name: &str) -> Result<Option<PathBuf>, Failure> {
    if name.contains('/') {
        return Ok(Some(PathBuf::from(name)));
    }
    if Image::has(name) || TOOLS.contains(&name) {
        return Ok(None);
    }
    let found = cxlab_workload::find_program(name.as_ref());
    found.map(Some).ok_or_else(|| {
        Failure::mistake(format!(
            "the program `{name}` is not found; allowed: stream, chase, table, mailbox, offload, {}, or a \
             program of this machine",
            TOOLS.join(", ")
        ))
    })
}
