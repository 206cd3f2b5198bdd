//! Calls of the operating system that fail, one after the other: each is one error with an exit code, and the folder
//! holds the files of one run: those of before, or the new ones.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Folder, Output, Random, command, finish, root};
use serde_json::Value;

const BASE: &str = include_str!("common/base.toml");

/// Functions that can fail, and how many of their first calls are tried one by one.
const FUNCTIONS: [(&str, u32); 9] = [
    ("write", 40),
    ("read", 60),
    ("open", 60),
    ("rename", 10),
    ("unlink", 10),
    ("fsync", 20),
    ("mkdir", 4),
    ("mmap", 8),
    ("thread", 4),
];

struct Injector {
    folder: Folder,
    library: PathBuf,
    what: Tried,
    out: PathBuf,
}

/// The command whose calls fail.
#[derive(Clone, Copy, PartialEq)]
enum Tried {
    Run,
    Fleet,
}

impl Injector {
    fn new(name: &str, what: Tried) -> Injector {
        let folder = Folder::new(name);
        let library = folder.path("fail.so");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let status = Command::new(compiler)
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(root().join("crates/cxlab-cli/tests/faults/fail.c"))
            .arg("-ldl")
            .status();
        assert!(status.expect("a C compiler").success());
        folder.file("base.toml", BASE.as_bytes());
        let out = folder.path("out");
        Injector {
            folder,
            library,
            what,
            out,
        }
    }

    /// The command, which writes a checkpoint too where it is a run.
    fn command(&self) -> Command {
        let base = self.folder.path("base.toml");
        match self.what {
            Tried::Run => {
                let mut run = command(&[&"run", &base, &"--requests", &"--exactly"]);
                run.arg("--checkpoint").arg(self.folder.path("state"));
                run.args(["--checkpoint-every", "200 requests"]);
                run
            }
            Tried::Fleet => {
                let fleet = root().join("scenarios/fleet-pond.toml");
                let small = ["--set=fleet.hosts=50", "--set=fleet.days=1"];
                let mut study = command(&[&"fleet", &fleet]);
                study.args(small);
                study
            }
        }
    }

    /// Runs it with a seed and a failure; whether something failed.
    fn run(&self, seed: u32, failure: &str) -> (Output, bool) {
        let mark = self.folder.path("mark");
        // It is there where the last one failed.
        let _ = std::fs::remove_file(&mark);
        let mut run = self.command();
        run.arg("--out")
            .arg(&self.out)
            .args(["--seed", &seed.to_string(), "--threads", "2"])
            .env("LD_PRELOAD", &self.library)
            .env("CXLAB_FAIL", failure)
            .env("CXLAB_FAIL_MARK", &mark);
        let output = finish(&mut run);
        (output, mark.exists())
    }

    /// The seed of the run that all files of the folder are of.
    fn seed(&self) -> u64 {
        let text = |name: &str| {
            let bytes = std::fs::read(self.out.join(name)).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (report, others) = match self.what {
            Tried::Run => ("report.json", &["topology.svg", "requests.parquet"][..]),
            Tried::Fleet => ("fleet.json", &["fleet.svg"][..]),
        };
        let report: Value = serde_json::from_str(&text(report)).unwrap();
        let run = report["run"].as_str().unwrap();
        for name in others {
            assert!(text(name).contains(run), "{name} is of another run");
        }
        report["seed"].as_u64().unwrap()
    }

    /// Runs with a failure, and looks at what it left; whether something failed.
    fn check(&self, seed: u32, failure: &str) -> bool {
        if self.out.join(".cxlab-replacing").exists() {
            self.settle(seed + 1000);
        }
        let before = self.seed();
        let (done, failed) = self.run(seed, failure);
        let what = format!("{failure}, seed {seed}: {:?} {}", done.code, done.stderr);
        // Without any memory Rust programs end by SIGABRT, and say so.
        let starved = failure.starts_with("mmap") && done.stderr.contains("memory allocation of");
        assert!(starved || matches!(done.code, Some(0..=2)), "{what}");
        // Where nothing can be written any more, the error cannot either.
        let mute = failure.starts_with("write") && failure.ends_with('+');
        let quiet = done.code == Some(0) && !done.stderr.contains("warning");
        assert!(mute || done.stderr.is_empty() == quiet, "{what}");
        assert!(!done.stderr.contains("internal error"), "{what}");
        assert!(!done.stderr.contains("panicked"), "{what}");
        if !self.out.join(".cxlab-replacing").exists() {
            let after = self.seed();
            let new = after == u64::from(seed);
            assert!(new || after == before, "{what}");
            assert!(
                new || done.code != Some(0),
                "{what}: a success without files"
            );
        }
        failed
    }

    /// The next run does what is left to do.
    fn settle(&self, seed: u32) {
        let (done, _) = self.run(seed, "none:0");
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert_eq!(self.seed(), u64::from(seed));
        let entries = std::fs::read_dir(&self.out).unwrap();
        let hidden = entries.filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            Path::new(&name).to_string_lossy().starts_with('.')
        });
        assert_eq!(hidden.count(), 0, "something is left");
    }
}

#[test]
fn every_call_that_fails_is_one_error_and_leaves_the_files_of_one_run() {
    let injector = Injector::new("faults", Tried::Run);
    injector.settle(1);
    let mut seed = 2;
    for (function, most) in FUNCTIONS {
        let mut failures = 0;
        for number in 1..=most {
            seed += 1;
            failures += u32::from(injector.check(seed, &format!("{function}:{number}")));
        }
        println!("{function}: {failures} of {most} failed");
        injector.settle(seed + 1000);
    }
}

#[test]
#[ignore = "slow: 500 runs"]
fn calls_that_fail_anywhere_once_or_from_then_on_do_no_other_harm() {
    let injectors = [
        Injector::new("faults-drawn", Tried::Run),
        Injector::new("faults-fleet", Tried::Fleet),
    ];
    injectors.iter().for_each(|injector| injector.settle(1));
    let mut random = Random::new();
    let mut failures = 0;
    for injection in 0..500 {
        let (function, most) = FUNCTIONS[random.below(FUNCTIONS.len() as u64) as usize];
        let number = 1 + random.below(most.into());
        let after = ["", "+"][random.below(2) as usize];
        let failure = format!("{function}:{number}{after}");
        // Four runs, and then a study of a fleet.
        let injector = &injectors[usize::from(injection % 5 == 4)];
        failures += u32::from(injector.check(10 + injection, &failure));
    }
    println!("{failures} of 500 failed");
    injectors.iter().for_each(|injector| injector.settle(9));
}
