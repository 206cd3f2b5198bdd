//! Running the real command in a folder of its own.
#![allow(dead_code)] // each test file uses a part

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The base scenario of many tests.
pub const BASE: &str = include_str!("base.toml");

/// A folder that is removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A folder with the base scenario, `base.toml`.
    pub fn with_base(name: &str) -> Folder {
        let folder = Folder::new(name);
        folder.file("base.toml", BASE.as_bytes());
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn file(&self, name: &str, contents: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, contents).unwrap();
        path
    }

    /// The text of a file of this folder.
    #[track_caller]
    pub fn text(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.path(name));
        text.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    #[track_caller]
    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The names in a folder of this folder, in order.
    #[track_caller]
    pub fn names(&self, name: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(name)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// `cxlab` in this folder with these words, split as a shell does (`'` quotes blanks); not yet run.
    pub fn command(&self, words: &str) -> Command {
        let mut is_quoted = false;
        let words = words.split(|c: char| {
            is_quoted ^= c == '\'';
            !is_quoted && c.is_whitespace()
        });
        let words = words.filter(|word| !word.is_empty());
        let mut command = command(&[]);
        command.args(words.map(|word| word.replace('\'', "")));
        command.current_dir(&self.0);
        command
    }

    /// Runs `cxlab` in this folder with these words.
    pub fn cxlab(&self, words: &str) -> Output {
        finish(&mut self.command(words))
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
    /// The command, for messages.
    pub command: String,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// How a command ended that was spawned.
    pub fn of(command: &str, output: &std::process::Output) -> Output {
        Output {
            command: command.to_owned(),
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    fn expect(self, right: bool, what: &str) -> Output {
        let [out, err] = [&self.stdout, &self.stderr].map(|said| said.chars().take(4000));
        let (out, err): (String, String) = (out.collect(), err.collect());
        let (command, code) = (&self.command, self.code);
        assert!(
            right,
            "{command}\n{what}; it ended with {code:?}\n{out}{err}"
        );
        self
    }

    /// Expects this exit code.
    #[track_caller]
    pub fn ends(self, code: i32) -> Output {
        let right = self.code == Some(code);
        self.expect(right, &format!("exit code {code} is expected"))
    }

    /// Expects these texts in standard error.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Output {
        parts.iter().fold(self, |output, part| {
            let right = output.stderr.contains(part);
            output.expect(right, &format!("{part:?} is expected in standard error"))
        })
    }

    /// Expects these texts in standard output.
    #[track_caller]
    pub fn prints(self, parts: &[&str]) -> Output {
        parts.iter().fold(self, |output, part| {
            let right = output.stdout.contains(part);
            output.expect(right, &format!("{part:?} is expected in standard output"))
        })
    }

    /// Expects success without a word in standard error.
    #[track_caller]
    pub fn done(self) -> Output {
        let right = self.stderr.is_empty();
        self.ends(0)
            .expect(right, "nothing is expected in standard error")
    }
}

/// The command with these arguments, not yet run.
pub fn command(args: &[&dyn AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cxlab"));
    command
        .args(args.iter().map(|arg| arg.as_ref()))
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub fn finish(command: &mut Command) -> Output {
    Output::of(&format!("{command:?}"), &command.output().unwrap())
}

/// Runs `cxlab` with these arguments.
pub fn cxlab(args: &[&dyn AsRef<OsStr>]) -> Output {
    finish(&mut command(args))
}

/// Waits for something that comes within five minutes.
#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(
            began.elapsed() < Duration::from_secs(300),
            "{what} does not come"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal, such as `-INT`.
pub fn signal(child: &Child, name: &str) {
    let mut kill = Command::new("kill");
    let sent = kill.arg(name).arg(child.id().to_string()).status();
    assert!(sent.unwrap().success());
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
    let found = told.lines().filter(|line| line.starts_with("error"));
    let found = found.count();
    let counted = || format!("## {name}\n{found} reports and not {reports}\n{told:.3000}");
    refusal(name, output, says).or_else(|| (found != reports).then(counted))
}

/// What is wrong with the end of a command that must be refused.
pub fn refusal(name: &str, output: &Output, says: &[impl AsRef<str>]) -> Option<String> {
    let told = &output.stderr;
    let mut wrong = Vec::new();
    if output.code != Some(2) {
        wrong.push(format!("exit {:?} and not 2", output.code));
    }
    if !output.stdout.is_empty() {
        wrong.push(format!("standard output: {}", output.stdout));
    }
    let bad = ["panicked", "internal error", "RUST_BACKTRACE"].into_iter();
    wrong.extend(
        bad.filter(|bad| told.contains(bad))
            .map(|bad| format!("says {bad:?}")),
    );
    let says = says.iter().map(AsRef::as_ref);
    let missing = says.filter(|text| !told.contains(text));
    wrong.extend(missing.map(|text| format!("does not say {text:?}")));
    let wrong = (!wrong.is_empty()).then(|| wrong.join("\n"));
    wrong.map(|wrong| format!("## {name}\n{wrong}\n--- it says:\n{told:.3000}"))
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
