//! Building guests and running programs in them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cxlab_vm::build::{self, BuildError, Image};
use cxlab_vm::memory::Memory;
use cxlab_vm::qemu::{Clock, Files, Version, arguments};
use cxlab_vm::session::{self, Job, Outcome, SessionError, write_initrd};

use super::super::failure::Failure;
use super::super::load::load;
use super::super::run::file_name;
use super::super::{ScenarioArgs, print};
use super::guest::{archive, bindings, host, limits, machine, notes};
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
    image: Image,
    version: Version,
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
    let version = build::qemu_version(&args.common.qemu)?;
    let image = Image::open(&folder(&args.common)?, version)?;
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
        image,
        version,
    };
    ready.run(host, memory)
}

impl Ready<'_> {
    fn run(&self, host: usize, memory: PlanMemory) -> Result<(), Failure> {
        let args = self.args;
        let machine = machine(self.plan, host, args.cpus)?;
        let most = self.version.most_window();
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
        let own = archive(args, &machine, self.version, &bindings)?;
        let initrd = self.dir.join("initrd");
        let written = write_initrd(&self.image.initrd(), &own, &initrd);
        written.map_err(|error| Failure::Output(format!("{}: {error}", initrd.display())))?;
        let pools = memory.pools();
        let ways_ps = memory.constant_ps();
        let outcome = self.guest(host, &machine, memory, &initrd);
        // It was for this run alone.
        let _ = std::fs::remove_file(&initrd);
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
            version: self.version,
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

    fn guest(
        &self,
        host: usize,
        machine: &cxlab_vm::machine::Machine,
        memory: PlanMemory,
        initrd: &Path,
    ) -> Result<Outcome, Failure> {
        let (kernel, plugin) = (self.image.kernel(), self.image.plugin());
        let clock = match self.args.host_clock {
            true => Clock::Host,
            false => Clock::Simulated,
        };
        let line = |shared_fd: i32| {
            let files = Files {
                kernel: &kernel,
                initrd,
                plugin: &plugin,
                shared_fd,
            };
            arguments(machine, self.version, files, clock)
        };
        let shown: Vec<String> = line(0).iter().map(|word| quoted(word)).collect();
        self.write(
            "qemu.txt",
            &format!("{} {}\n", self.args.common.qemu, shown.join(" ")),
        )?;
        let job = Job {
            qemu: &self.args.common.qemu,
            arguments: &line,
            processors: machine.processors as usize,
            limits: limits(self.plan, host),
            limit: Duration::from_secs(self.args.timeout),
        };
        let quiet = self.args.common.quiet;
        let mut show = |text: &str| {
            if !quiet {
                // What cannot be shown is in the report.
                let _ = print(&format!("{text}\n"));
            }
        };
        Ok(session::run(&job, memory, &mut show)?)
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
