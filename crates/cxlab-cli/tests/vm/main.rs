//! `cxlab vm`: what it says when something is missing, and, where QEMU is installed and the guest
//! can be built, a guest. Where not, the tests of guests say so in a line and end.
//!
//! `CXLAB_QEMU` names another QEMU than the installed one, `CXLAB_KERNEL` the package of another kernel.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

#[path = "../common/mod.rs"]
mod common;
mod offload;
mod refused;
mod several;
mod shared;
mod tiering;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use common::{Folder, Output, command, finish, root, until};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Hpa;
use cxlab_plan::{Files, Plan};
use cxlab_scenario::Scenario;
use cxlab_scenario::diagnostics::Document;
use serde_json::Value;

/// Memories whose latency is known: 80 ns for the host's own, 53 ns and some more than the medium's
/// for the devices.
const SCENARIO: &str = r#"
name = "two"
[fabric]
topology = { kind = "direct" }
edge_link = { generation = "5", port_delay = "12 ns", propagation = "1 ns" }
[address_map]
ways = 1
[[hosts]]
name = "host"
workload = { kind = "uniform" }
core = { cycle = "500 ps", process_time = "0 ns", caches = [{ size = "32 KiB", access_time = "1 ns" }, { size = "256 KiB", access_time = "9 ns" }] }
local = { capacity = "512 MiB", latency = "10 ns", memory = { kind = "fixed", latency = "60 ns" } }
[[devices]]
name = "near"
capacity = "256 MiB"
controller = { process_time = "0 ns" }
memory = { kind = "fixed", latency = "150 ns" }
[[devices]]
name = "far"
capacity = "256 MiB"
controller = { process_time = "0 ns" }
memory = { kind = "fixed", latency = "900 ns" }
"#;

/// The scenario with a switch.
fn switched() -> String {
    SCENARIO.replace("kind = \"direct\"", "kind = \"chain\", switches = 1")
}

/// The scenario with two hosts, and more.
fn hosts(text: &str) -> String {
    SCENARIO.replace("name = \"host\"", "name = \"node\"\ncount = 2") + text
}

/// The QEMU that guests run in.
fn qemu() -> OsString {
    std::env::var_os("CXLAB_QEMU").unwrap_or_else(|| "qemu-system-x86_64".into())
}

/// The folder with a guest, built once; `None` after a line that says why there is none.
fn guest() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        // A QEMU that is named has a guest of its own, so that neither is built anew for the other.
        let name = match std::env::var_os("CXLAB_QEMU") {
            Some(_) => "vm-guest-named",
            None => "vm-guest",
        };
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let kernel = std::env::var_os("CXLAB_KERNEL");
        let kernel = kernel.unwrap_or_else(|| "linux-image-cloud-amd64".into());
        let mut build = command(&[&"vm", &"build", &"--dir", &dir, &"--qemu", &qemu()]);
        let output = finish(build.arg("--kernel").arg(kernel));
        match output.code {
            Some(0) => Some(dir),
            // Something is missing on this machine.
            Some(2) => {
                let why = output.stderr.trim();
                println!("skipped: no guest can be built here: {why}");
                None
            }
            code => panic!("{code:?}: {}", output.stderr),
        }
    });
    built.as_deref()
}

/// `cxlab vm run` with these options, and then the program's words.
fn vm_run(scenario: &Path, options: &[impl AsRef<OsStr>], program: &[&str]) -> Command {
    let mut command = command(&[&"vm", &"run", &scenario]);
    command.args(options).arg("--").args(program);
    command
}

/// `cxlab vm run`, with programs in the guest that was built.
fn attempt(
    dir: &Path,
    folder: &Folder,
    scenario: &Path,
    program: &[&str],
    options: &[&str],
) -> Output {
    let (qemu, out) = (qemu(), folder.path("out"));
    let mut all: Vec<&OsStr> = vec!["--qemu".as_ref(), &qemu, "--timeout=280".as_ref()];
    all.extend([
        "--dir".as_ref(),
        dir.as_os_str(),
        "--out".as_ref(),
        out.as_os_str(),
    ]);
    all.extend(options.iter().map(OsStr::new));
    finish(&mut vm_run(scenario, &all, program))
}

/// What the last run wrote.
fn written(folder: &Folder) -> Value {
    folder.json("out/report.json")
}

/// Expects a number within a part of `wanted`.
#[track_caller]
fn assert_near(found: f64, wanted: f64, within: f64) {
    let apart = (found / wanted - 1.0).abs();
    assert!(apart < within, "{found} for {wanted}");
}

/// The report of programs that ran in a guest.
fn run(folder: &Folder, scenario: &Path, program: &[&str], options: &[&str]) -> Option<Value> {
    attempt(guest()?, folder, scenario, program, options).ends(0);
    Some(written(folder))
}

/// The number after some words in the output of each run.
fn numbers(report: &Value, words: &str) -> Vec<f64> {
    let runs = report["runs"].as_array().unwrap();
    let number = |run: &Value| {
        let lines = run["output"].as_array().unwrap();
        let found = lines
            .iter()
            .find_map(|line| line.as_str()?.strip_prefix(words));
        let word = found.unwrap().split_whitespace().next().unwrap();
        word.parse().unwrap()
    };
    runs.iter().map(number).collect()
}

/// A request to memory follows 10 ns of lookups in the caches, and a step has three instructions of 0.25 ns. No line is used twice, and hardly any is still in a cache from before.
#[test]
fn a_guest_makes_regions_of_the_scenarios_devices_and_sees_their_latencies() {
    let folder = Folder::new("vm-boot");
    let scenario = folder.file("s.toml", SCENARIO.as_bytes());
    let Some(report) = run(&folder, &scenario, &["chase", "2048", "20000"], &[]) else {
        return;
    };
    assert_eq!(report["regions"].as_array().unwrap().len(), 2, "{report:#}");
    assert_eq!(report["fast_windows"], 2);
    assert_eq!(report["guest_clock_is_simulated"], true, "{report:#}");
    let seen = numbers(&report, "chase ");
    for (seen, memory) in seen.iter().zip([80.0, 203.2, 953.2]) {
        assert_near(*seen, 0.75 + 10.0 + memory, 0.04);
    }
    for run in report["runs"].as_array().unwrap() {
        let [guest, simulated] = ["guest_s", "simulated_s"].map(|name| run[name].as_f64());
        assert_near(guest.unwrap(), simulated.unwrap(), 0.02);
    }
}

#[test]
#[ignore = "minutes: make test-all"]
fn stream_and_chase_order_the_memories_of_the_pool_as_cxl_ssd_sim_does() {
    let folder = Folder::new("vm-pool");
    let scenario = root().join("scenarios/vm-pool.toml");
    let Some(report) = run(&folder, &scenario, &["stream"], &[]) else {
        return;
    };
    // The banks that hold the pages of the arrays change from run to run, and with them rates by up to 20 %:
    // sums of all four kernels are compared, and own DRAM by what a miss takes.
    let miss_ns = |memory: usize| {
        let pools = report["runs"][memory]["pools"].as_array().unwrap();
        pools[memory]["latency_ns"].as_f64().unwrap()
    };
    let [own, pooled] = [0, 1].map(miss_ns);
    assert!(1.2 * own < pooled, "{own} {pooled}");
    let kernels = ["copy", "scale", "add", "triad"];
    let rates = kernels.map(|kernel| numbers(&report, &format!("stream {kernel} ")));
    let total = |memory: usize| rates.iter().map(|rate| rate[memory]).sum::<f64>();
    let [dram, cached, ssd] = [1, 2, 3].map(total);
    assert_near(cached, dram, 0.25);
    assert!(ssd * 50.0 < cached, "{dram} {cached} {ssd}");
    let report = run(&folder, &scenario, &["chase"], &[]).unwrap();
    let [local, dram, cached, ssd] = numbers(&report, "chase ")[..] else {
        panic!("{report:#}");
    };
    assert!(local < dram, "{local} {dram}");
    assert_near(cached, dram, 0.2);
    assert!(ssd > 100.0 * cached, "{cached} {ssd}");
}

#[test]
#[ignore = "minutes: make test-all"]
fn devices_behind_a_switch_are_interleaved_and_programs_of_this_machine_run() {
    let folder = Folder::new("vm-switch");
    let text = switched()
        .replace("ways = 1", "ways = 2")
        .replace("latency = \"900 ns\"", "latency = \"150 ns\"");
    let scenario = folder.file("s.toml", text.as_bytes());
    let options = ["--memory", "near+far"];
    let program = [
        "sh",
        "-c",
        "cxl list -R | grep interleave_ways; cat /cxlab/argv | wc -c",
    ];
    let Some(report) = run(&folder, &scenario, &program, &options) else {
        return;
    };
    let output = report["runs"][0]["output"].to_string();
    assert!(output.contains("\\\"interleave_ways\\\":2"), "{output}");
    let pools = report["runs"][0]["pools"].as_array().unwrap();
    let is_read = |at: usize| pools[at]["bytes_read"].as_u64() > Some(0);
    assert!(is_read(1) && is_read(2), "both are used: {report:#}");
    let printf = ["/usr/bin/printf", "from this machine\\n"];
    let report = run(&folder, &scenario, &printf, &options).unwrap();
    assert_eq!(report["runs"][0]["output"][0], "from this machine");
}

/// What a guest's driver has programmed: of each target of its region in order, the serial number of the device
/// and its first DPA.
struct Region {
    start: u64,
    size: u64,
    granularity: u64,
    targets: Vec<(u64, u64)>,
}

impl Region {
    /// Prints what the driver says of its only region.
    const SCRIPT: &str = "cd /sys/bus/cxl/devices; for r in region*; do \
        echo region $(cat $r/resource $r/size $r/interleave_granularity $r/interleave_ways); \
        n=0; while [ $n -lt $(cat $r/interleave_ways) ]; do d=$(cat $r/target$n); \
        e=$(readlink -f $d/..); m=$(basename $(readlink -f $e/uport)); \
        echo target $(cat $m/serial) $(cat $d/dpa_resource); n=$((n+1)); done; done";

    fn read(report: &Value) -> Region {
        let lines = report["runs"][0]["output"].as_array().unwrap();
        let words = |line: &Value, first: &str| -> Option<Vec<u64>> {
            let words = line.as_str()?.strip_prefix(first)?.split_whitespace();
            let number = |word: &str| match word.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => word.parse(),
            };
            words.map(|word| number(word).ok()).collect()
        };
        let all =
            |first| -> Vec<_> { lines.iter().filter_map(|line| words(line, first)).collect() };
        let (regions, targets) = (all("region "), all("target "));
        let [region] = &regions[..] else {
            panic!("{report:#}")
        };
        assert_eq!(targets.len() as u64, region[3], "{report:#}");
        Region {
            start: region[0],
            size: region[1],
            granularity: region[2],
            targets: targets
                .iter()
                .map(|target| (target[0], target[1]))
                .collect(),
        }
    }

    /// The device's serial number and the DPA of an address of the region, as its decoders have it (CXL 3.1, section
    /// 8.2.4.20.13: ways are a power of two here).
    fn decode(&self, offset: u64) -> (u64, u64) {
        assert!(self.start + offset < self.start + self.size);
        let ways = self.targets.len() as u64;
        let (piece, inside) = (offset / self.granularity, offset % self.granularity);
        let (serial, first) = self.targets[(piece % ways) as usize];
        (serial, first + piece / ways * self.granularity + inside)
    }
}

/// The driver's decoders send each address to the device and DPA that the plan's do.
#[test]
#[ignore = "minutes: make test-all"]
fn a_guest_decodes_addresses_as_the_plan_does() {
    for (devices, ways, granularity) in [(2, 2, 256), (4, 4, 256), (4, 4, 4096)] {
        let folder = Folder::new("vm-decoders");
        let map = format!("ways = {ways}\ngranularity = \"{granularity} B\"");
        let mut text = switched().replace("ways = 1", &map);
        text.truncate(text.find("[[devices]]").unwrap());
        let names: Vec<String> = (0..devices).map(|device| format!("d{device}")).collect();
        for name in &names {
            text += &format!("[[devices]]\nname = \"{name}\"\ncapacity = \"256 MiB\"\n");
        }
        let scenario = folder.file("s.toml", text.as_bytes());
        let options = ["--memory", &names.join("+")];
        let Some(report) = run(&folder, &scenario, &["sh", "-c", Region::SCRIPT], &options) else {
            return;
        };
        let region = Region::read(&report);
        assert_eq!(region.size, devices * (256 << 20));
        let document = Document::parse("s.toml", &text).unwrap();
        let scenario: Scenario = serde_json::from_value(document.value().clone()).unwrap();
        let plan = Plan::new(scenario, Files::default()).unwrap_or_else(|why| panic!("{why:?}"));
        let mut rng = StreamRng::new(1, "decoders");
        for _ in 0..1_000 {
            // The plan's window begins at 0, the guest's where its platform has put it.
            let offset = rng.below(region.size);
            let (device, dpa) = plan.hosts[0].map.locate(Hpa(offset)).unwrap();
            let (found, expected) = (region.decode(offset), (u64::from(device.0), dpa.0));
            assert_eq!(
                found, expected,
                "{ways} ways of {granularity} B: {offset:#x}"
            );
        }
    }
}

/// A kernel may look for a region's place only at addresses above its size, and the first window's address is
/// not much above 4 GiB by itself.
#[test]
#[ignore = "minutes: make test-all"]
fn a_window_that_is_larger_than_the_address_at_which_windows_begin_becomes_memory() {
    let folder = Folder::new("vm-8-gib");
    let text = SCENARIO.replacen("capacity = \"256 MiB\"", "capacity = \"8 GiB\"", 1);
    let scenario = folder.file("s.toml", text.as_bytes());
    let total = [
        "sh",
        "-c",
        "chase 2048 20000; cat /sys/devices/system/node/node1/meminfo",
    ];
    let Some(report) = run(&folder, &scenario, &total, &["--memory", "near"]) else {
        return;
    };
    assert_near(numbers(&report, "chase ")[0], 10.75 + 203.2, 0.04);
    let kib = numbers(&report, "Node 1 MemTotal:")[0];
    // Less what the kernel's alignment takes.
    let [most, least] = [8.0 * 1024.0, 8.0 * 1024.0 - 128.0].map(|mib| mib * 1024.0);
    assert!((least..=most).contains(&kib), "{report:#}");
}

#[test]
#[ignore = "minutes: make test-all"]
fn a_build_that_is_killed_leaves_the_guest_of_before() {
    if guest().is_none() {
        return;
    }
    let folder = Folder::new("vm-kills");
    let dir = folder.path("guest");
    let qemu = qemu();
    let build = || {
        command(&[
            &"vm", &"build", &"--again", &"--dir", &dir, &"--qemu", &qemu,
        ])
    };
    let files = || {
        let stamp = std::fs::read_to_string(dir.join("built")).unwrap();
        let (_, name) = stamp.rsplit_once("files ").unwrap();
        let files = dir.join(name.trim_end());
        ["vmlinuz", "initrd", "plugin.so"].map(|name| std::fs::read(files.join(name)).unwrap())
    };
    let begun = std::time::Instant::now();
    finish(&mut build()).ends(0);
    let longest = begun.elapsed();
    let first = files();
    let mut finished = 0;
    for kill in 1..=30 {
        let mut child = build().stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(longest * kill / 28);
        child.kill().unwrap();
        finished += u32::from(child.wait().unwrap().success());
        assert!(files() == first, "kill {kill}");
    }
    println!("{finished} of 30 had finished");
    finish(&mut build()).ends(0);
    assert!(files() == first);
    let mut names = folder.names("guest");
    names.retain(|name| !name.starts_with("guest-"));
    assert_eq!(names, ["built", "packages"]);
}

/// Processes whose arguments name a file that the command made for QEMU alone.
fn left(folder: &Folder, file: &str) -> usize {
    let name = folder.path("out").join(file).display().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(&name))
        .count()
}

#[test]
fn qemu_ends_with_its_time_and_with_cxlab_however_that_ends() {
    let Some(dir) = guest() else { return };
    let folder = Folder::new("vm-end");
    let scenario = folder.file("s.toml", SCENARIO.as_bytes());
    // A guest that is booted, and one that is restored and runs for longer than we wait.
    for (name, options, file) in [
        ("booted", &["--boot"][..], "initrd"),
        ("restored", &[], "run.cpio"),
    ] {
        let (out, qemu) = (folder.path("out"), qemu());
        let start = |more: &[&str], program: &[&str]| {
            let mut all: Vec<&OsStr> = vec!["--qemu".as_ref(), &qemu, "--dir".as_ref()];
            all.extend([dir.as_os_str(), "--out".as_ref(), out.as_os_str()]);
            all.extend(options.iter().chain(more).map(OsStr::new));
            vm_run(&scenario, &all, program)
        };
        let program = ["chase", "8192", "2000000000"];
        if name == "restored" {
            finish(&mut start(&[], &["sh", "-c", "true"])).ends(0);
        }
        let output = finish(&mut start(&["--timeout", "2"], &program));
        output.ends(1).says(&["not done after 2 s"]);
        assert_eq!(left(&folder, file), 0, "{name}");
        let mut killed = start(&[], &program).spawn().unwrap();
        until(&format!("QEMU, {name}"), || left(&folder, file) == 1);
        killed.kill().unwrap();
        killed.wait().unwrap();
        until(&format!("QEMU's end, {name}"), || left(&folder, file) == 0);
    }
}

#[test]
fn a_guest_that_is_restored_is_the_one_that_was_booted_and_takes_files_of_its_run() {
    if guest().is_none() {
        return;
    }
    let folder = Folder::new("vm-saved");
    // No other test has this machine, so its first run saves it.
    let text = SCENARIO.replace("capacity = \"512 MiB\"", "capacity = \"640 MiB\"");
    let scenario = folder.file("s.toml", text.as_bytes());
    // What QEMU was given: the file with the guest's memory, and when that was last changed.
    let saved = || {
        let line = folder.text("out/qemu.txt");
        let path = line.split("id=main,").nth(1).unwrap();
        let path = path.split("mem-path=").nth(1).unwrap();
        let path = PathBuf::from(path.split_whitespace().next().unwrap());
        let changed = std::fs::metadata(&path).unwrap().modified().unwrap();
        (path, changed)
    };
    let chase = ["chase", "2048", "20000"];
    let near = ["--memory", "near"];
    let booted = run(&folder, &scenario, &chase, &["--memory", "near", "--boot"]).unwrap();
    assert!(booted["boot_s"].is_f64() && booted["restored_s"].is_null());
    let first = run(&folder, &scenario, &chase, &near).unwrap();
    assert!(first["restored_s"].is_f64() && first["boot_s"].is_null());
    assert_eq!(first["regions"], booted["regions"]);
    let before = saved();
    // A file and a folder, of some megabytes and of several transfers.
    let bytes: Vec<u8> = (0..3_000_000u32)
        .flat_map(|at| (at * 7).to_le_bytes())
        .collect();
    let path = folder.file("blob", &bytes);
    std::fs::create_dir(folder.path("tree")).unwrap();
    folder.file("tree/leaf", b"a leaf\n");
    let blob = format!("{}:/in/blob", path.display());
    let tree = format!("{}:/in/tree", folder.path("tree").display());
    let program = ["sh", "-c", "md5sum < /in/blob; cat /in/tree/leaf"];
    let options = ["--memory", "near", "--file", &blob, "--file", &tree];
    let report = run(&folder, &scenario, &program, &options).unwrap();
    let here = std::process::Command::new("md5sum")
        .stdin(std::fs::File::open(&path).unwrap())
        .output()
        .unwrap();
    let here = String::from_utf8_lossy(&here.stdout);
    assert_eq!(report["runs"][0]["output"][0], here.trim());
    assert_eq!(report["runs"][0]["output"][1], "a leaf");
    // The same machine with other times is the same guest.
    let slow = text.replace("\"150 ns\"", "\"400 ns\"");
    let second = folder.file("t.toml", slow.as_bytes());
    let slower = run(&folder, &second, &chase, &near).unwrap();
    assert_eq!(saved(), before, "and stays as it was saved");
    let [booted, first, slower] =
        [booted, first, slower].map(|report| numbers(&report, "chase ")[0]);
    assert_near(first, booted, 0.02);
    assert!((slower - first - 250.0).abs() < 8.0, "{slower} {first}");
}
