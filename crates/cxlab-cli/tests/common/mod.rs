//! Running the real command in a folder of its own.
#![allow(dead_code)] // each test file uses a part

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder that is removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn file(&self, name: &str, contents: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, contents).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing depends on it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How a command ended and what it said.
pub struct Output {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// The command with these arguments, not yet run.
pub fn command(args: &[&dyn AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cxlab"));
    for arg in args {
        command.arg(arg.as_ref());
    }
    command
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub fn finish(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    Output {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs `cxlab` with these arguments.
pub fn cxlab(args: &[&dyn AsRef<OsStr>]) -> Output {
    finish(&mut command(args))
}

/// A generator of random numbers (xorshift) from one fixed seed.
pub struct Random(u64);

impl Random {
    pub fn new() -> Random {
        Random(0x9e37_79b9_7f4a_7c15)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A mistake: what stands in the base, what stands there instead, the text on the line of the report, and
/// what it says.
pub type Case = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

/// Checks that each mistake is one report with file, line, key, value and what is allowed, with exit
/// code 2 and nothing written.
pub fn check_cases(name: &str, base: &str, cases: &[Case]) {
    let folder = Folder::new(name);
    for (number, (from, to, at, says)) in cases.iter().enumerate() {
        assert!(base.contains(from), "the base has {from:?}");
        let text = base.replacen(from, to, 1);
        let place = text.find(at).unwrap_or_else(|| panic!("{at:?} is there"));
        let line = text[..place].matches('\n').count() + 1;
        let file = format!("bad{number}.toml");
        let path = folder.file(&file, text.as_bytes());
        let out = folder.path(&format!("out{number}"));
        let output = cxlab(&[&"run", &path, &"--out", &out]);
        let told = &output.stderr;
        assert_eq!(output.code, Some(2), "{to:?}: {told}");
        let reports = told.lines().filter(|line| line.starts_with("error"));
        assert_eq!(reports.count(), 1, "{to:?}: {told}");
        let line = format!("{file}:{line}:");
        for part in says.iter().copied().chain([line.as_str()]) {
            assert!(told.contains(part), "{to:?} says {part:?}: {told}");
        }
        assert!(!out.exists(), "{to:?} leaves something");
    }
}
