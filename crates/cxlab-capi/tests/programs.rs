//! Programs in C, C++, Rust and Python that submit the same requests to the same system have the completions, to the
//! picosecond, and the order digest of a run with a trace of these requests.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{GAP_PS, library_folder, output, root, run_with_trace, scenario};
use tempfile::TempDir;

/// Runs all programs with so many requests.
fn compare(requests: u64) {
    let folder = TempDir::new().expect("a folder");
    let expected = run_with_trace(folder.path(), requests);
    assert!(expected.starts_with(&format!("completed {requests} hash ")));
    let path = folder.path().join("scenario.toml");
    std::fs::write(&path, scenario("kind = \"external\"", requests)).expect("a scenario");
    let arguments = [
        path.display().to_string(),
        requests.to_string(),
        GAP_PS.to_string(),
    ];

    let library = library_folder(folder.path());
    let compiled = |compiler: &str, source: &str, options: &[&str]| {
        let program = folder.path().join(source);
        let mut command = Command::new(compiler);
        command
            .args(options)
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(root().join("include"))
            .arg(root().join("examples/coupling").join(source))
            .arg("-L")
            .arg(&library)
            .arg(format!("-Wl,-rpath,{}", library.display()))
            .args(["-lcxlab", "-o"])
            .arg(program.with_extension("out"));
        output(&mut command);
        Command::new(program.with_extension("out"))
    };
    let c = compiled("cc", "requests.c", &["-std=c99", "-pedantic"]);
    let cpp = compiled("c++", "requests.cpp", &["-std=c++17", "-fno-exceptions"]);
    let mut python = Command::new("python3");
    python
        .arg(root().join("examples/coupling/requests.py"))
        .arg(library.join("libcxlab.so"));
    let rust = Command::new(example("requests"));
    for mut program in [c, cpp, rust, python] {
        assert_eq!(output(program.args(&arguments)), expected, "{program:?}");
    }
}

/// A program of this crate's examples.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let profile = test.parent().and_then(Path::parent).expect("a folder");
    profile.join("examples").join(name)
}

#[test]
fn programs_in_four_languages_get_what_a_run_with_a_trace_gets() {
    compare(3_000);
}

#[test]
#[ignore = "slow"]
fn programs_in_four_languages_get_what_a_run_with_a_long_trace_gets() {
    compare(1_000_000);
}
