//! Running the real command in a folder of its own.
#![allow(dead_code)] // each test file uses a part

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// A broken scenario, and the report that it must get.
pub struct Mistake {
    /// Where the test has the mistake.
    pub name: String,
    /// The scenario's text.
    pub text: String,
    /// The line of `text` that the report names.
    pub line: usize,
    /// What the report says.
    pub says: Vec<String>,
}

/// What is wrong with the end of a command that must be refused with so many reports.
pub fn complaints(
    name: &str,
    output: &Output,
    reports: usize,
    says: &[impl AsRef<str>],
) -> Option<String> {
    let told = &output.stderr;
    let mut wrong = Vec::new();
    let mut expect = |right: bool, what: String| {
        if !right {
            wrong.push(what);
        }
    };
    expect(
        output.code == Some(2),
        format!("exit {:?} and not 2", output.code),
    );
    expect(
        output.stdout.is_empty(),
        format!("standard output: {}", output.stdout),
    );
    let found = told.lines().filter(|line| line.starts_with("error"));
    let found = found.count();
    expect(
        found == reports,
        format!("{found} reports and not {reports}"),
    );
    for bad in ["panicked", "internal error", "RUST_BACKTRACE"] {
        expect(!told.contains(bad), format!("says {bad:?}"));
    }
    for text in says.iter().map(AsRef::as_ref) {
        expect(told.contains(text), format!("does not say {text:?}"));
    }
    let shown = told.chars().take(3000).collect::<String>();
    (!wrong.is_empty()).then(|| format!("## {name}\n{}\n--- it says:\n{shown}", wrong.join("\n")))
}

/// Checks all items, two at a time, and fails with all complaints. `check` gets the number of the item too.
pub fn check_all<T: Sync>(items: &[T], check: impl Fn(usize, &T) -> Option<String> + Sync) {
    let next = AtomicUsize::new(0);
    let work = || -> Vec<String> {
        let numbers = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        let numbers = numbers.take_while(|&number| number < items.len());
        let complaints = numbers.filter_map(|number| check(number, &items[number]));
        complaints.collect()
    };
    let wrong = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        [work(), other.join().unwrap()].concat()
    });
    let count = format!("{} of {}", wrong.len(), items.len());
    assert!(wrong.is_empty(), "{count}\n\n{}", wrong.join("\n\n"));
}

/// Checks that each mistake is one report with file, line, key, value and what is allowed, with exit
/// code 2 and nothing written.
pub fn check_mistakes(folder: &Folder, mistakes: &[Mistake]) {
    check_all(mistakes, |number, mistake| {
        // The name of the file has no word that a report could be expected to say.
        let file = format!("bad{number}.toml");
        let path = folder.file(&file, mistake.text.as_bytes());
        let out = folder.path(&format!("out{number}"));
        let output = cxlab(&[&"run", &path, &"--out", &out]);
        let mut says = mistake.says.clone();
        says.push(format!("{file}:{}:", mistake.line));
        let left = || format!("{} leaves {}", mistake.name, out.display());
        complaints(&mistake.name, &output, 1, &says).or_else(|| out.exists().then(left))
    });
}

/// A mistake in a table of Rust: what stands in the base, what stands there instead, the text on the line
/// of the report, and what it says.
pub type Case = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

/// Checks the mistakes as [`check_mistakes`] does.
pub fn check_cases(name: &str, base: &str, cases: &[Case]) {
    let mistakes = cases.iter().enumerate().map(|(number, case)| {
        let (from, to, at, says) = *case;
        assert!(base.contains(from), "the base has {from:?}");
        let text = base.replacen(from, to, 1);
        let place = text.find(at).unwrap_or_else(|| panic!("{at:?} is there"));
        Mistake {
            name: format!("{name}{number}"),
            line: text[..place].matches('\n').count() + 1,
            text,
            says: says.iter().map(|&text| text.to_owned()).collect(),
        }
    });
    check_mistakes(&Folder::new(name), &mistakes.collect::<Vec<_>>());
}
