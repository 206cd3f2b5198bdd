//! A guest with an accelerator: kernels on the memory of the guest's program.

use std::path::PathBuf;

use serde_json::Value;

use super::common::{Folder, finish};
use super::{attempt, guest, root, run, vm_run, written};

fn scenario() -> PathBuf {
    root().join("scenarios/vm-accelerator.toml")
}

/// The option that takes a file with the module along.
fn module(folder: &Folder) -> String {
    let text = include_str!("../../src/vm/accelerator/kernels.wat");
    let path = folder.file("kernels.wasm", &wat::parse_str(text).unwrap());
    format!("{}:/kernels.wasm", path.display())
}

/// The words of the line of the guest's program that begins with the kernel's name.
fn line(report: &Value, kernel: &str) -> Vec<String> {
    let lines = report["runs"][0]["output"].as_array().unwrap().iter();
    let mut lines = lines.filter_map(Value::as_str);
    let line = lines.find(|line| line.starts_with(kernel));
    let words = line.unwrap_or_default().split_whitespace();
    words.map(str::to_owned).collect()
}

#[test]
#[ignore = "minutes: make test-all"]
fn kernels_run_on_memory_of_malloc_in_the_guests_own_memory_and_in_the_accelerators() {
    let folder = Folder::new("vm-offload");
    let file = module(&folder);
    for memory in ["local", "xpu"] {
        for kernel in ["axpy", "histogram", "walk"] {
            let options = ["--memory", memory, "--file", &file];
            let program = ["offload", "/kernels.wasm", kernel, "512"];
            let Some(report) = run(&folder, &scenario(), &program, &options) else {
                return;
            };
            let words = line(&report, kernel);
            assert!(
                words.last().is_some_and(|word| word == "equal"),
                "{report:#}"
            );
            let counts = &report["runs"][0]["accelerator"];
            for (name, count) in [("commands", 1), ("failed", 0), ("races", 0)] {
                assert_eq!(counts[name], count, "{name}: {report:#}");
            }
            // What the device says of its time is what the report has, and the program waited for it.
            let nanoseconds = |at: usize| words[at].parse::<f64>().unwrap();
            let busy = counts["busy_s"].as_f64().unwrap() * 1e9;
            assert!((nanoseconds(5) - busy).abs() < 1.0, "{report:#}");
            assert!(nanoseconds(8) > busy, "{report:#}");
            // Each memory has its own cache in the device.
            let (own, other) = match memory {
                "local" => ("hmc_misses", "dmc_misses"),
                _ => ("dmc_misses", "hmc_misses"),
            };
            let [own, other] = [own, other].map(|name| counts[name].as_u64());
            assert!(own > other, "{memory}: {counts:#}");
        }
    }
}

#[test]
#[ignore = "minutes: make test-all"]
fn a_command_that_fails_says_why_to_the_guests_program() {
    let folder = Folder::new("vm-offload-fails");
    let file = folder.file("kernels.wasm", b"no module at all");
    let Some(dir) = guest() else { return };
    let file = format!("{}:/kernels.wasm", file.display());
    let program = ["offload", "/kernels.wasm", "axpy"];
    let options = ["--memory", "local", "--file", &file];
    attempt(dir, &folder, &scenario(), &program, &options).ends(1);
    let report = written(&folder);
    let words = line(&report, "offload:");
    assert!(words.join(" ").contains("magic"), "{report:#}");
    assert_eq!(report["runs"][0]["accelerator"]["failed"], 1, "{report:#}");
}

#[test]
fn what_a_guest_with_an_accelerator_cannot_do_is_refused() {
    let lines = r#"hosts[0].workload={ kind = "uniform" }"#;
    let chain = r#"fabric.topology={ kind = "chain", switches = 1 }"#;
    let device = r#"devices=[{ name = "mem", capacity = "256 MiB" }]"#;
    let cases: [(&[&str], &[&str]); 6] = [
        (
            &["--from-roi"],
            &["--from-roi", "counted from their beginning"],
        ),
        (
            &["--from-save"],
            &["--from-save", "counted from their beginning"],
        ),
        (&["--cpus", "2"], &["found 2 processors", "allowed: 1"]),
        (
            &["--set", "hosts[0].count=2", "--set", chain, "--set", lines],
            &["`hosts`: found 2", "allowed", ": 1"],
        ),
        (
            &["--set", "accelerators[0].count=2"],
            &["`accelerators`: found 2", ": 1"],
        ),
        (
            &["--set", device],
            &["`devices`: found 2 windows", "allowed", "hosts[0].os"],
        ),
    ];
    for (options, says) in cases {
        let refused = finish(&mut vm_run(&scenario(), options, &["offload"]));
        refused.ends(2).says(says);
    }
}
