//! Building guests and running programs in them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cxlab_vm::build::{self, BuildError, Image, Installed};
use cxlab_vm::machine::Machine;
use cxlab_vm::memory::Memory;
use cxlab_vm::qemu::{Clock, Descriptors, Files, Keep, arguments, hardware};
use cxlab_vm::session::{self, Job, Outcome, SessionError, write_initrd};
use cxlab_vm::snapshot::{self, Making, Snapshot};

use super::super::failure::Failure;
use super::super::load::load;
use super::super::run::file_name;
use super::super::{ScenarioArgs, print};
use super::guest::{
    bindings, boot_archive, boot_script, host, limits, machine, notes, run_archive,
};
use super::report::Facts;
use super::{BuildArgs, Common, RunArgs, VmCommand};
use crate::analytic::PlanMemory;
use crate::output::{prepare_dir, write_whole};
use crate::plan::Plan;

/// Carries out a command.
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
            // Only news; nothing depends on whether it can be shown.
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

/// A guest, ready to be started.
struct Ready<'a> {
    args: &'a RunArgs,
    plan: &'a Plan,
    dir: PathBuf,
    /// Where guests are built, and saved.
    cache: PathBuf,
    image: Image,
    qemu: Installed,
}

fn run(args: &RunArgs) -> Result<(), Failure> {
    let loaded = load(&ScenarioArgs {
        scenario: args.scenario.clone(),
        set: args.set.clone(),
        trace_file: None,
    })?
    .map_err(Failure::from)?;
    let plan = &loaded.plan;
    let host = host(plan, args.host.as_deref())?;
    let memory = PlanMemory::new(plan, host, plan.scenario.seed)
        .map_err(|problems| loaded.mistakes(problems))?;
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
    prepare_dir(&dir).map_err(failed)?;
    let dir = std::path::absolute(&dir).map_err(failed)?;
    let ready = Ready {
        args,
        plan,
        dir,
        cache,
        image,
        qemu,
    };
    ready.run(host, memory)
}

impl Ready<'_> {
    fn run(&self, host: usize, memory: PlanMemory) -> Result<(), Failure> {
        let args = self.args;
        let machine = machine(self.plan, host, args.cpus)?;
        let most = self.qemu.version.most_window();
        if let Some(window) = machine.windows.iter().find(|window| window.size() > most) {
            return Err(Failure::mistake(format!(
                "`{}`: found {} GiB in one window; allowed with this QEMU: {} GiB (smaller, for \
                 instance with --set devices[0].capacity='\"4 GiB\"', or QEMU 10.0)",
                window.name(),
                window.size() >> 30,
                most >> 30
            )));
        }
        let bindings = bindings(&machine, &args.memory)?;
        let own = run_archive(args, &bindings)?;
        let pools = memory.pools();
        let ways_ps = memory.constant_ps();
        let run = self.dir.join("run.cpio");
        write_whole(&run, &own)
            .map_err(|error| Failure::Output(format!("{}: {error}", run.display())))?;
        let outcome = self.guest(host, &machine, memory, &run);
        // It was for this run alone.
        let _ = std::fs::remove_file(&run);
        let outcome = outcome?;
        let mut notes = notes(self.plan, host);
        if outcome.overlay < machine.windows.len() as u64 {
            notes.push(
                "CXL memory was not made as fast as other memory in this QEMU: its accesses are \
                 taken for a device's and not charged"
                    .to_owned(),
            );
        }
        let facts = Facts {
            plan: self.plan,
            host,
            image: &self.image,
            version: self.qemu.version,
            pools: &pools,
            ways_ps: &ways_ps,
            bindings: &bindings,
            outcome: &outcome,
            notes: &notes,
        };
        self.write("console.txt", &(outcome.console.join("\n") + "\n"))?;
        self.write("report.json", &format!("{:#}\n", facts.json()))?;
        if !args.common.quiet {
            let written = self.dir.join("report.json");
            print(&format!(
                "{}\nwritten: {}\n",
                facts.text(),
                written.display()
            ))?;
        }
        let code = outcome
            .runs
            .iter()
            .map(|run| run.exit_code)
            .find(|code| *code != 0);
        match code {
            Some(code) => Err(Failure::Program(u8::try_from(code).unwrap_or(1))),
            None => Ok(()),
        }
    }

    /// The guest's run, from its boot or from a guest that was saved when it waited.
    fn guest(
        &self,
        host: usize,
        machine: &Machine,
        memory: PlanMemory,
        run: &Path,
    ) -> Result<Outcome, Failure> {
        let args = self.args;
        let script = boot_script(machine, self.qemu.version, args.devdax);
        let initrd = self.dir.join("initrd");
        let snapshot = if args.boot {
            self.write_initrd(&script, &initrd)?;
            None
        } else {
            let hardware = hardware(machine, self.qemu.version, Keep::Nothing).join(" ");
            let parts = [&self.qemu.text, &self.image.stamp, &hardware, &script];
            let name = snapshot::name(parts.map(String::as_str));
            Some(match Snapshot::find(&self.cache, &name) {
                Some(snapshot) => snapshot,
                None => {
                    self.write_initrd(&script, &initrd)?;
                    self.tell("booting the guest; it is saved for later runs\n");
                    let making = Making::begin(&self.cache, &name).map_err(|error| {
                        let place = self.cache.display();
                        Failure::Output(format!("{place}: cannot be written to: {error}"))
                    })?;
                    let folder = making.folder().to_owned();
                    let keep = Keep::Save(&folder);
                    let line = |descriptors| self.line(machine, &initrd, None, keep, descriptors);
                    session::save(&self.job(host, machine, &line), making)?
                }
            })
        };
        let (keep, first) = match &snapshot {
            Some(snapshot) => (Keep::Restore(snapshot.folder()), self.image.initrd()),
            None => (Keep::Nothing, initrd.clone()),
        };
        let line = |descriptors| self.line(machine, &first, Some(run), keep, descriptors);
        let shown: Vec<String> = line(Descriptors::default())
            .iter()
            .map(|word| quoted(word))
            .collect();
        self.write(
            "qemu.txt",
            &format!("{} {}\n", args.common.qemu, shown.join(" ")),
        )?;
        let mut show = |text: &str| self.tell(&format!("{text}\n"));
        let job = self.job(host, machine, &line);
        let outcome = session::run(&job, snapshot.as_ref(), memory, &mut show);
        // It is there only where the guest was booted.
        let _ = std::fs::remove_file(&initrd);
        outcome.map_err(|error| match (error, &snapshot) {
            (error @ SessionError::Qemu(_), Some(snapshot)) => Failure::Output(format!(
                "{error}\nthe guest was restored from {}; remove that, or try --boot",
                snapshot.folder().display()
            )),
            (error, _) => error.into(),
        })
    }

    fn job<'a>(
        &'a self,
        host: usize,
        machine: &Machine,
        arguments: &'a dyn Fn(Descriptors) -> Vec<String>,
    ) -> Job<'a> {
        Job {
            qemu: &self.args.common.qemu,
            arguments,
            processors: machine.processors as usize,
            limits: limits(self.plan, host),
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
        keep: Keep<'_>,
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
            descriptors,
        };
        arguments(machine, self.qemu.version, files, clock)
    }

    /// What cannot be shown is in the report.
    fn tell(&self, text: &str) {
        if !self.args.common.quiet {
            let _ = print(text);
        }
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.dir.join(name);
        write_whole(&path, text.as_bytes())
            .map_err(|error| Failure::Output(format!("{}: {error}", path.display())))
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=:+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
