//! Programs in C, C++, Rust and Python that submit the same requests to the same system have the completions, to the
//! picosecond, and the order digest of a run with a trace of these requests.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{GAP_PS, compile, library_folder, output, root, run_with_trace, scenario};
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
        let program = folder.path().join(source).with_extension("out");
        let flags = [options, &["-O2", "-Wall", "-Wextra", "-Werror"]].concat();
        let source = root().join("examples/coupling").join(source);
        compile(compiler, &flags, &source, &library, &program);
        Command::new(program)
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

fn block<'a>(guide: &'a str, language: &str) -> &'a str {
    let (_, rest) = guide
        .split_once(&format!("\n```{language}\n"))
        .expect("a block");
    rest.split("```").next().expect("its end")
}

#[test]
fn the_program_of_the_guide_prints_a_latency() {
    let folder = TempDir::new().expect("a folder");
    let guide = std::fs::read_to_string(root().join("docs/guide/couplings.md")).expect("a page");
    std::fs::write(folder.path().join("scenario.toml"), block(&guide, "toml")).expect("a scenario");
    let headers = "#include <stdio.h>\n#include \"cxlab.h\"\n";
    for (language, compiler, header, flags) in [
        ("c", "cc", headers, &[] as &[&str]),
        (
            "cpp",
            "c++",
            "#include <cstdio>\n#include \"cxlab.hpp\"\n",
            &["-std=c++17"],
        ),
    ] {
        let code = block(&guide, language);
        let code = code.replace(
            "/* ... */",
            "std::printf(\"%g ns\\n\", (completed.completed - completed.issued) / 1e3);",
        );
        let source = folder.path().join(format!("guide.{language}"));
        std::fs::write(
            &source,
            format!("{header}int main(void) {{\n{code}\nreturn 0;\n}}\n"),
        )
        .expect("a program");
        let library = folder.path().join(language);
        std::fs::create_dir(&library).expect("a folder");
        let library = library_folder(&library);
        let program = folder.path().join("guide");
        compile(compiler, flags, &source, &library, &program);
        let printed = output(Command::new(program).current_dir(folder.path()));
        let latency = printed
            .strip_suffix(" ns\n")
            .and_then(|latency| latency.parse::<f64>().ok());
        assert!(
            latency.is_some_and(|latency| (100.0..10_000.0).contains(&latency)),
            "{printed}"
        );
    }
}

/// Two ports of a program with caches and two hosts of the scenario, on the same lines of two devices.
const MIXED: &str = r#"
name = "mixed"

[fabric]
topology = { kind = "chain", switches = 1 }

[[hosts]]
name = "processor"
count = 2
kind = "external"
snooped = true
issue = { outstanding = 8, cache = { size = "512 B", ways = 2 } }

[[hosts]]
name = "host"
count = 2
issue = { outstanding = 2, rate = "640 MB/s", cache = { size = "512 B", ways = 2 } }
workload = { kind = "uniform", footprint = "1536 B", read_ratio = 0.5 }

[[devices]]
name = "mem"
count = 2
coherence = { class = "hdm-db", filter = { lines = 16 } }
"#;

fn numbers(printed: &str) -> Vec<u64> {
    let words = printed.split_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn caches_of_a_program_lose_no_addition_unless_they_ignore_snoops() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("scenario.toml");
    std::fs::write(&path, MIXED).expect("a scenario");
    let library = library_folder(folder.path());
    let source = root().join("examples/coupling/caches.cpp");
    let program = folder.path().join("caches");
    let flags = ["-std=c++17", "-O2", "-fno-exceptions"];
    compile("c++", &flags, &source, &library, &program);
    let run = |more: &[&str]| {
        let mut command = Command::new(&program);
        numbers(&output(command.arg(&path).arg("5000").args(more)))
    };
    let [additions, sum, invalidated, shared, changed] = run(&[])[..] else {
        panic!("five numbers")
    };
    assert_eq!((additions, sum), (10_000, 10_000));
    assert!(invalidated > 1_000 && shared > 1_000 && changed > 1_000);
    let deaf = run(&["deaf"]);
    assert!(deaf[1] < additions, "additions are lost: {deaf:?}");
}
