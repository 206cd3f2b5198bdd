//! Building guests and running programs in them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cxlab_files::Folder;
use cxlab_plan::Plan;
use cxlab_system::analytic::PlanMemory;
use cxlab_system::output::write_whole;
use cxlab_vm::build::{self, BuildError, Image, InstalledQemu};
use cxlab_vm::cpio::Archive;
use cxlab_vm::device::Executor;
use cxlab_vm::machine::Machine;
use cxlab_vm::model::Processors;
use cxlab_vm::qemu::{Clock, Descriptors, Files, GuestMemoryStore, arguments, hardware};
use cxlab_vm::session::{
    self, GuestOutcomes, Job, Outcome, SaveAt, SessionError, Start, write_initrd,
};
use cxlab_vm::snapshot::{self, Snapshot, SnapshotDraft};
use cxlab_vm::storage::{Storage, StorageError};

use super::super::failure::Failure;
use super::super::load::changed;
use super::super::print;
use super::super::results::{file_name, json, open_folder, replace};
use super::accelerator::Accelerator;
use super::guest::{
    Binding, bindings, boot_archive, boot_script, machine, notes, processors, run_archive,
    run_script,
};
use super::hosts::{
    accelerator, check_memories, check_memory, check_options, check_roi, check_shares, chosen,
    memories, programs, shares,
};
use super::memory::GuestMemory;
use super::report::{Facts, Report};
use super::{BuildArgs, Common, RunArgs, VmCommand};

/// Executes a subcommand of `cxlab vm`.
pub(in super::super) fn vm(command: VmCommand) -> Result<(), Failure> {
    match command {
        VmCommand::Build(args) => make(&args),
        VmCommand::Run(args) => run(&args),
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Failure {
        match error {
            BuildError::Missing(text) => Failure::mistake(text),
            BuildError::Output(text) => Failure::Output(text),
        }
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Failure {
        match error {
            SessionError::Stuck(_) => Failure::Internal(error.to_string()),
            error => Failure::Output(error.to_string()),
        }
    }
}

/// Where guests are built.
fn folder(common: &Common) -> Result<PathBuf, Failure> {
    if let Some(dir) = &common.dir {
        return std::path::absolute(dir).map_err(|error| Failure::Output(error.to_string()));
    }
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let absolute = |path: &PathBuf| path.is_absolute();
    let cache = named("XDG_CACHE_HOME").filter(absolute);
    let cache = cache.or_else(|| Some(named("HOME").filter(absolute)?.join(".cache")));
    cache.map(|cache| cache.join("cxlab/vm")).ok_or_else(|| {
        Failure::mistake(
            "no cache folder: neither XDG_CACHE_HOME nor HOME is set; allowed: --dir DIR",
        )
    })
}

fn make(args: &BuildArgs) -> Result<(), Failure> {
    let options = build::Options {
        folder: folder(&args.common)?,
        qemu: args.common.qemu.clone(),
        kernel: args.kernel.clone(),
        again: args.again,
    };
    let quiet = args.common.quiet;
    let mut tell = |what: &str| {
        if !quiet {
            // A progress message that cannot be printed is no failure.
            let _ = print(&format!("{what}\n"));
        }
    };
    let image = build::build(&options, &mut tell)?;
    if quiet {
        return Ok(());
    }
    print(&format!(
        "{}built in {}\n",
        image.stamp,
        options.folder.display()
    ))
}

/// State that all guests of a run share.
struct CommonSetup<'a> {
    args: &'a RunArgs,
    plan: &'a Plan,
    dir: PathBuf,
    /// Where guests are built, and saved.
    cache: PathBuf,
    image: Image,
    qemu: InstalledQemu,
    several: bool,
    /// Accelerator of the only guest, if it has one.
    accelerator: Option<Accelerator<'a>>,
}

/// One guest, ready to be started.
struct ReadyGuest {
    host: usize,
    machine: Machine,
    processors: Processors,
    bindings: Vec<Binding>,
    pools: Vec<String>,
    ways_ps: Vec<u64>,
    /// Archive of the run's own files, until it is written.
    own: Archive,
}

/// Checks the options, prepares all guests, and runs them.
fn run(args: &RunArgs) -> Result<(), Failure> {
    let loaded = changed(&args.scenario, args.set.clone())?;
    let plan = &loaded.plan;
    let chosen = chosen(plan, args)?;
    check_options(chosen.len(), args)?;
    check_memories(plan, &chosen, args)?;
    let accelerator = accelerator(plan, args)?;
    let programs = programs(plan, &chosen, args)?;
    let memory = PlanMemory::new(plan, &chosen, plan.scenario.seed)
        .map_err(|problems| loaded.mistakes(problems))?;
    check_memory(plan, &chosen, &memory)?;
    check_shares(&memory, args)?;
    let mut parts = Vec::new();
    for (guest, host) in chosen.iter().enumerate() {
        let machine = machine(plan, *host, args, &shares(&memory, guest))?;
        let bindings = bindings(&machine, &memories(plan, *host, args))?;
        let program = programs.iter().find(|(other, _)| other == host);
        let command = program.map_or(&args.command, |(_, words)| words);
        check_roi(bindings.len(), args)?;
        parts.push(ReadyGuest {
            host: *host,
            processors: processors(plan, *host, args.cpus),
            own: run_archive(command, &args.files)?,
            machine,
            bindings,
            pools: memory.pools(guest),
            ways_ps: memory.constant_ps(guest),
        });
    }
    let qemu = build::qemu_version(&args.common.qemu)?;
    let cache = folder(&args.common)?;
    let image = Image::open(&cache, qemu.version)?;
    let dir = args.out.clone().unwrap_or_else(|| {
        let mut name = file_name(&plan.scenario.name).into_os_string();
        name.push("-vm");
        Path::new("out").join(name)
    });
    let failed =
        |error| Failure::Output(format!("{}: cannot be written to: {error}", dir.display()));
    // The lock keeps other runs from writing to the folder.
    let folder = open_folder(&dir, &["report.json"])?;
    let dir = std::path::absolute(&dir).map_err(failed)?;
    let ready = CommonSetup {
        args,
        plan,
        dir,
        cache,
        image,
        qemu,
        several: parts.len() > 1,
        accelerator,
    };
    ready.run(&mut parts, GuestMemory(memory), &folder)
}

impl CommonSetup<'_> {
    /// Runs the prepared guests, and writes and prints the report.
    fn run(
        &self,
        parts: &mut [ReadyGuest],
        memory: GuestMemory,
        folder: &Folder,
    ) -> Result<(), Failure> {
        let args = self.args;
        let prepared = self.prepare(parts);
        let parts = &*parts;
        let together = prepared.and_then(|kept| self.guests(parts, &kept, memory));
        for part in parts {
            // The archive was for this run alone.
            let _ = std::fs::remove_file(self.file(part, "run", ".cpio"));
        }
        let mut together = together?;
        if !self.several
            && let Some(Err(_)) = together.guests.first()
            && let Some(Err(error)) = together.guests.pop()
        {
            return Err(error.into());
        }
        let facts = parts
            .iter()
            .zip(&together.guests)
            .map(|(part, result)| Facts {
                plan: self.plan,
                host: part.host,
                pools: &part.pools,
                ways_ps: &part.ways_ps,
                bindings: &part.bindings,
                shares: part.machine.shares(),
                accelerator: part.machine.accelerator,
                result,
                notes: self.notes(part, result),
            });
        let report = Report {
            plan: self.plan,
            image: &self.image,
            version: self.qemu.version,
            window: args.window.unwrap_or_default(),
            skew: together.skew,
            guests: facts.collect(),
        };
        let mut files = vec![("report.json".to_owned(), json(&report.json())?)];
        for (part, result) in parts.iter().zip(&together.guests) {
            if let Ok(outcome) = result {
                let console = outcome.console.join("\n") + "\n";
                files.push((self.name(part, "console", ".txt"), console));
            }
        }
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        replace(folder, &files, None, &names)?;
        let written = self.dir.join("report.json");
        if !args.common.quiet {
            print(&format!(
                "{}\nwritten: {}\n",
                report.text(),
                written.display()
            ))?;
        }
        self.code(parts, together)
    }

    /// Finds snapshots and storage of the guests, and writes their archives.
    fn prepare(&self, parts: &mut [ReadyGuest]) -> Result<Vec<GuestOrigin>, Failure> {
        let mut kept = Vec::new();
        for part in parts {
            let snapshot = match self.args.from_save {
                // The guest is saved after its files are written.
                true => None,
                false => self.saved(part)?,
            };
            let storage = match (&self.args.pmem, &snapshot) {
                (Some(dir), Some(snapshot)) => self.storage(part, dir, snapshot)?,
                _ => Vec::new(),
            };
            let is_fresh = |one: &Option<Storage>| one.as_ref().is_some_and(|one| one.fresh);
            let fresh = storage.iter().enumerate().filter(|(_, one)| is_fresh(one));
            let fresh: Vec<usize> = fresh.map(|(window, _)| window).collect();
            let name = &self.plan.hosts[part.host].name;
            let script = run_script(name, &part.bindings, &fresh);
            let mut own = std::mem::take(&mut part.own);
            own.file("cxlab/run", script.as_bytes(), false);
            let run = self.file(part, "run", ".cpio");
            let brought = own.finish();
            write_whole(&run, &brought)
                .map_err(|error| Failure::Output(format!("{}: {error}", run.display())))?;
            let snapshot = match self.args.from_save {
                true => Some(self.saved_by(part, &run, &brought)?),
                false => snapshot,
            };
            kept.push(GuestOrigin { snapshot, storage });
        }
        Ok(kept)
    }

    /// Result of the command: that of the first guest that failed, or of the first program that failed.
    fn code(&self, parts: &[ReadyGuest], together: GuestOutcomes) -> Result<(), Failure> {
        let mut code = None;
        for (part, result) in parts.iter().zip(together.guests) {
            match result {
                Err(error) => {
                    let name = &self.plan.hosts[part.host].name;
                    return Err(Failure::Output(format!("`{name}`: {error}")));
                }
                Ok(outcome) => {
                    let codes = outcome.runs.iter().map(|run| run.exit_code);
                    code = code.or_else(|| codes.into_iter().find(|code| *code != 0));
                }
            }
        }
        match code {
            Some(code) => Err(Failure::Program(u8::try_from(code).unwrap_or(1))),
            None => Ok(()),
        }
    }

    fn notes(&self, part: &ReadyGuest, result: &Result<Outcome, SessionError>) -> Vec<String> {
        let mut notes = notes(self.plan, part.host);
        let windows = part.machine.windows.len() as u64;
        if result
            .as_ref()
            .is_ok_and(|outcome| outcome.overlay < windows)
        {
            notes.push(
                "CXL memory was not made as fast as other memory in this QEMU: its accesses are \
                 taken for a device's and not charged"
                    .to_owned(),
            );
        }
        let counted = |outcome: &Outcome| outcome.runs.iter().all(|run| !run.interest.is_empty());
        let races = |outcome: &Outcome| -> u64 {
            outcome.runs.iter().map(|run| run.span.device.races).sum()
        };
        if let Ok(outcome) = result
            && races(outcome) > 0
        {
            notes.push(format!(
                "{} words were stored by a command and by the program at once: the command's values stand, and on \
                 a real machine either might",
                races(outcome)
            ));
        }
        if self.args.skips() && !result.as_ref().is_ok_and(counted) {
            notes.push("nothing was counted: the program never said `roi begin`".to_owned());
        }
        notes
    }

    /// Name of a guest's output file, with the name of its host if there are several.
    fn name(&self, part: &ReadyGuest, stem: &str, end: &str) -> String {
        match self.several {
            true => format!("{stem}-{}{end}", self.plan.hosts[part.host].name),
            false => format!("{stem}{end}"),
        }
    }

    fn file(&self, part: &ReadyGuest, stem: &str, end: &str) -> PathBuf {
        self.dir.join(self.name(part, stem, end))
    }

    /// Runs the guests, booted or restored from snapshots.
    fn guests(
        &self,
        parts: &[ReadyGuest],
        kept: &[GuestOrigin],
        memory: GuestMemory,
    ) -> Result<GuestOutcomes, Failure> {
        let args = self.args;
        let lines: Vec<_> = parts
            .iter()
            .zip(kept)
            .map(|(part, kept)| {
                let (keep, initrd) = match &kept.snapshot {
                    Some(snapshot) => (
                        GuestMemoryStore::Restore(snapshot.folder()),
                        self.image.initrd(),
                    ),
                    None => (GuestMemoryStore::Nothing, self.file(part, "initrd", "")),
                };
                let run = self.file(part, "run", ".cpio");
                let storage = kept.storage.iter();
                let storage: Vec<Option<&Path>> =
                    storage.map(|one| one.as_ref().map(Storage::path)).collect();
                move |descriptors| {
                    let run = Some(&*run);
                    self.line(&part.machine, &initrd, run, (keep, &storage), descriptors)
                }
            })
            .collect();
        for (part, line) in parts.iter().zip(&lines) {
            let words = line(Descriptors::default());
            let shown: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            let text = format!("{} {}\n", args.common.qemu, shown.join(" "));
            self.write(&self.file(part, "qemu", ".txt"), &text)?;
        }
        let each = parts.iter().zip(kept).zip(&lines);
        let starts: Vec<Start<'_>> = each
            .map(|((part, kept), line)| Start {
                job: self.job(part, line),
                snapshot: kept.snapshot.as_ref(),
            })
            .collect();
        let show = |guest: usize, text: &str| match self.several {
            true => self.print(&format!(
                "{}: {text}\n",
                self.plan.hosts[parts[guest].host].name
            )),
            false => self.print(&format!("{text}\n")),
        };
        let window = args.window.unwrap_or_default().0;
        let devices = parts.iter().map(|_| {
            let accelerator = self.accelerator.clone()?;
            Some(Box::new(accelerator) as Box<dyn Executor + '_>)
        });
        let together = session::run(&starts, devices.collect(), memory, window, &show);
        for part in parts {
            // The file only exists if the guest was booted.
            let _ = std::fs::remove_file(self.file(part, "initrd", ""));
        }
        let explained = |error, snapshot: Option<&Snapshot>| match (error, snapshot) {
            (SessionError::Qemu(text), Some(snapshot)) => SessionError::Qemu(format!(
                "{text}\nthe guest was restored from {}; remove that, or try --boot",
                snapshot.folder().display()
            )),
            (error, _) => error,
        };
        let first = kept.first().and_then(|one| one.snapshot.as_ref());
        let together = together.map_err(|error| explained(error, first))?;
        let guests = together.guests.into_iter().zip(kept);
        let guests = guests.map(|(mut result, kept)| {
            if let (Ok(outcome), true) = (&mut result, args.skips()) {
                // The program began by another clock.
                outcome.runs.iter_mut().for_each(|run| run.guest_s = None);
            }
            result.map_err(|error| explained(error, kept.snapshot.as_ref()))
        });
        Ok(GuestOutcomes {
            guests: guests.collect(),
            skew: together.skew,
        })
    }

    /// Files with the contents of a guest's windows.
    fn storage(
        &self,
        part: &ReadyGuest,
        dir: &Path,
        snapshot: &Snapshot,
    ) -> Result<Vec<Option<Storage>>, Failure> {
        let dir =
            std::path::absolute(dir).and_then(|dir| std::fs::create_dir_all(&dir).map(|()| dir));
        let dir = dir.map_err(|error| Failure::Output(format!("--pmem: {error}")))?;
        let host = &self.plan.hosts[part.host].name;
        let windows = part.machine.windows.iter().enumerate();
        windows
            .map(|(at, window)| {
                // Other windows are not used in this run.
                let bound = |one: &Binding| one.word == at.to_string();
                if !part.bindings.iter().any(bound) {
                    return Ok(None);
                }
                let path = dir.join(format!("{host}-{}.pmem", window.name()));
                let like = snapshot.folder().join(format!("window{at}.memory"));
                let storage = Storage::open(&path, &like).map_err(|error| match error {
                    StorageError::System(_) => {
                        Failure::Output(format!("{}: {error}", path.display()))
                    }
                    error => Failure::mistake(format!("--pmem: {}: {error}", path.display())),
                })?;
                Ok(Some(storage))
            })
            .collect()
    }

    /// Snapshot of the guest that waits for its program, saved now if there is none. `None` with `--boot`.
    fn saved(&self, part: &ReadyGuest) -> Result<Option<Snapshot>, Failure> {
        let script = boot_script(&part.machine, self.qemu.version, self.args);
        if self.args.boot {
            self.write_initrd(&script, &self.file(part, "initrd", ""))?;
            return Ok(None);
        }
        let name = self.snapshot_name(part, &script, "");
        if let Some(snapshot) = Snapshot::find(&self.cache, &name) {
            return Ok(Some(snapshot));
        }
        self.print("booting the guest; it is saved for later runs\n");
        self.save(part, &script, (&name, None), SaveAt::Ready)
            .map(Some)
    }

    /// Snapshot of the guest at its program's `save`, with the program's files.
    fn saved_by(&self, part: &ReadyGuest, run: &Path, brought: &[u8]) -> Result<Snapshot, Failure> {
        let script = boot_script(&part.machine, self.qemu.version, self.args);
        let name = self.snapshot_name(part, &script, &snapshot::sum(brought));
        if let Some(snapshot) = Snapshot::find(&self.cache, &name) {
            return Ok(snapshot);
        }
        self.print("booting the guest; it is saved for later runs where its program says `save`\n");
        self.save(part, &script, (&name, Some(run)), SaveAt::Program)
    }

    /// Name of a snapshot, by the guest's machine and the program's files.
    fn snapshot_name(&self, part: &ReadyGuest, script: &str, brought: &str) -> String {
        let hardware = hardware(
            &part.machine,
            self.qemu.version,
            GuestMemoryStore::Nothing,
            &[],
        )
        .join(" ");
        snapshot::name([
            &self.qemu.text,
            &self.image.stamp,
            &hardware,
            script,
            brought,
        ])
    }

    fn save(
        &self,
        part: &ReadyGuest,
        script: &str,
        (name, run): (&str, Option<&Path>),
        at: SaveAt,
    ) -> Result<Snapshot, Failure> {
        let initrd = self.file(part, "initrd", "");
        self.write_initrd(script, &initrd)?;
        let making = SnapshotDraft::begin(&self.cache, name).map_err(|error| {
            let place = self.cache.display();
            Failure::Output(format!("{place}: cannot be written to: {error}"))
        })?;
        let folder = making.folder().to_owned();
        let keep = GuestMemoryStore::Save(&folder);
        let line = |descriptors| self.line(&part.machine, &initrd, run, (keep, &[]), descriptors);
        let saved = session::save(&self.job(part, &line), making, at);
        let _ = std::fs::remove_file(&initrd);
        Ok(saved?)
    }

    fn job<'a>(
        &'a self,
        part: &ReadyGuest,
        arguments: &'a (dyn Fn(Descriptors) -> Vec<String> + Sync),
    ) -> Job<'a> {
        Job {
            qemu: &self.args.common.qemu,
            arguments,
            processors: part.processors,
            in_step: self.several,
            limit: Duration::from_secs(self.args.timeout),
        }
    }

    fn write_initrd(&self, script: &str, to: &Path) -> Result<(), Failure> {
        let written = write_initrd(&self.image.initrd(), &boot_archive(script), to);
        written
            .map(drop)
            .map_err(|error| Failure::Output(format!("{}: {error}", to.display())))
    }

    fn line(
        &self,
        machine: &Machine,
        initrd: &Path,
        run: Option<&Path>,
        (keep, storage): (GuestMemoryStore<'_>, &[Option<&Path>]),
        descriptors: Descriptors,
    ) -> Vec<String> {
        let clock = match self.args.host_clock {
            true => Clock::Host,
            false => Clock::Simulated,
        };
        let files = Files {
            kernel: &self.image.kernel(),
            initrd,
            plugin: &self.image.plugin(),
            run,
            keep,
            storage,
            descriptors,
            in_step: self.several,
            from_interest: self.args.skips(),
        };
        arguments(machine, self.qemu.version, files, clock)
    }

    /// Prints text unless `--quiet`. A failure to print is ignored, because the report has the same content.
    fn print(&self, text: &str) {
        if !self.args.common.quiet {
            let _ = print(text);
        }
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), Failure> {
        write_whole(path, text.as_bytes())
            .map_err(|error| Failure::Output(format!("{}: {error}", path.display())))
    }
}

/// Snapshot and storage that a guest starts from.
struct GuestOrigin {
    /// `None` if the guest is booted.
    snapshot: Option<Snapshot>,
    /// By window: its storage, if the window is persistent and used.
    storage: Vec<Option<Storage>>,
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=:+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
