//! `cxlab attach` on real programs: this test program, run again as one. Where the system refuses
//! tracing, each test says so and ends.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

#[path = "../common/mod.rs"]
mod common;
mod located;
mod running;
mod sampled;
mod streams;
mod verified;

use std::ffi::OsStr;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Folder, Output, command, cxlab, finish};
use serde_json::Value;

/// A scenario with one device, whose memory is 202 ns away.
const SCENARIO: &str = r#"
name = "one"
[fabric]
topology = { kind = "direct" }
link = { preset = "esf" }
[[hosts]]
name = "host"
issue = { preset = "esf" }
workload = { kind = "uniform" }
[[devices]]
name = "mem"
controller = { preset = "esf" }
"#;

/// Where what was measured of the machine is kept, for all of these tests.
const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/cache");

/// What this program does when it is the one that is attached to.
const ROLE: &str = "CXLAB_ATTACH_ROLE";

/// A walk through 64 MiB in an order that no prefetcher knows.
fn walk(lines: &[u64], mut at: usize, steps: usize) -> usize {
    for _ in 0..steps {
        at = lines[at] as usize;
    }
    at
}

fn lines() -> Vec<u64> {
    let count = (64 << 20) / 64;
    let mut words = vec![0; count * 8];
    for at in 0..count {
        let next = (at * 1_664_525 + 1_013_904_223) % count;
        words[at * 8] = next as u64 * 8;
    }
    words
}

/// Not a test: the programs that are attached to.
#[test]
#[ignore = "a part of the other tests, which run it"]
fn program() {
    match std::env::var(ROLE).as_deref() {
        Ok("walk") => {
            black_box(walk(&lines(), 0, 2_000_000));
            println!("walked");
        }
        Ok("forever") => {
            let lines = lines();
            println!("pid {}", std::process::id());
            let mut at = 0;
            loop {
                at = black_box(walk(&lines, at, 1_000_000));
            }
        }
        Ok("threads") => {
            let lines = lines();
            std::thread::scope(|scope| {
                for start in 0..3 {
                    let lines = &lines;
                    scope.spawn(move || black_box(walk(lines, start * 8, 300_000)));
                }
            });
        }
        // With the slow tests it is run for itself, and there is nothing to do.
        _ => {}
    }
}

fn role(command: &mut Command, role: &str) {
    command.env(ROLE, role).stdin(Stdio::null());
}

/// The words that run this program as one to attach to.
fn words() -> Vec<String> {
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap().to_owned();
    let rest = ["--exact", "program", "--ignored", "--nocapture"];
    std::iter::once(own)
        .chain(rest.map(str::to_owned))
        .collect()
}

/// `cxlab attach` with memory that is so much slower (or faster) than this machine's, behind a cache of 1 MiB.
fn attach(folder: &Folder, added_ns: i64, more: &[&str]) -> Command {
    attach_with_cache(folder, "1MiB", added_ns, more)
}

/// The same behind a last-level cache of that size.
fn attach_with_cache(folder: &Folder, llc: &str, added_ns: i64, more: &[&str]) -> Command {
    let scenario = folder.file("one.toml", SCENARIO.as_bytes());
    let set = format!(
        "--set=devices[0].memory={{ kind = \"fixed\", latency = \"{} ns\" }}",
        46 + added_ns
    );
    let out = folder.path("out");
    let mut command = command(&[&"attach", &scenario, &set, &"--out", &out]);
    command
        .args(["--llc", llc, "--local-latency=202 ns"])
        .args(more)
        .env("XDG_CACHE_HOME", CACHE)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn report(folder: &Folder) -> Value {
    folder.json("out/report.json")
}

/// Says so where the system refuses tracing.
fn refused(output: &Output) -> bool {
    let refused = output.stderr.contains("cannot be traced");
    if refused {
        println!("skipped: this system refuses tracing: {}", output.stderr);
    }
    refused
}

/// Runs a command without input to its end, which has this exit code. `None` where the system refuses tracing.
#[track_caller]
fn ended(command: &mut Command, code: i32) -> Option<Output> {
    let output = finish(command.stdin(Stdio::null()));
    (!refused(&output)).then(|| output.ends(code))
}

/// Runs the walk with so much added latency.
fn walked(name: &str, added_ns: i64) -> Option<Value> {
    Some(walk_with(&Folder::new(name), added_ns, &[])?.0)
}

/// Runs the walk with so much added latency and these options: its report, and what was printed.
fn walk_with(folder: &Folder, added_ns: i64, more: &[&str]) -> Option<(Value, Output)> {
    let mut command = attach(folder, added_ns, more);
    command.arg("--");
    role(command.args(words()), "walk");
    let output = ended(&mut command, 0)?.prints(&["walked"]);
    Some((report(folder), output))
}

fn number(report: &Value, pointer: &str) -> f64 {
    let value = report.pointer(pointer).and_then(Value::as_f64);
    value.unwrap_or_else(|| panic!("{pointer} in {report:#}"))
}

/// Expects a number of a report within a part of `wanted`.
#[track_caller]
fn near(report: &Value, pointer: &str, wanted: f64, within: f64) {
    let found = number(report, pointer);
    let apart = (found / wanted - 1.0).abs();
    assert!(
        apart < within,
        "{pointer}: {found} for {wanted}: {report:#}"
    );
}

#[test]
fn memory_that_is_not_slower_adds_nothing_and_the_report_says_why() {
    let Some(report) = walked("attach-zero", -10) else {
        return;
    };
    for none in ["asked", "charged", "held"] {
        assert_eq!(number(&report, &format!("/delay/{none}_ns")), 0.0, "{none}");
    }
    // What attaching took shows all the same.
    let taken = number(&report, "/delay/taken_ns");
    assert!(taken >= number(&report, "/window_s") * 1e9, "{report:#}");
    assert!(number(&report, "/windows") >= 1.0, "{report:#}");
    let notes = report["notes"].to_string();
    assert!(notes.contains("no delay was asked for"), "{notes}");
    let are_few = number(&report, "/windows") < 4.0;
    assert_eq!(notes.contains("is what was seen of"), are_few, "{notes}");
    assert_eq!(report["tier"]["number"], 3);
    assert!(report["tier"]["refused"].to_string().contains("tier 2"));
    // The walk is all in CXL memory, and is seen to wait for it.
    assert!(number(&report, "/pools/1/share") > 0.99, "{report:#}");
    assert!(number(&report, "/pools/1/misses") > 500_000.0, "{report:#}");
}

#[test]
fn charged_is_asked_within_one_per_cent_and_more_latency_asks_for_more() {
    let mut last = 0.0;
    for added in [100, 400, 2000] {
        let Some(report) = walked(&format!("attach-{added}"), added) else {
            return;
        };
        let names = ["asked", "charged", "held", "taken"];
        let [asked, charged, held, taken] =
            names.map(|name| number(&report, &format!("/delay/{name}_ns")));
        // The program is delayed by the part that tracing does not take anyway, and by no more than the charge.
        assert!(charged >= asked * 0.999, "{report:#}");
        assert!(held <= charged && charged <= held + taken, "{report:#}");
        let user = number(&report, "/cpu_s");
        assert!(asked / user > last, "{added}: {asked} after {last}");
        last = asked / user;
        assert!(number(&report, "/real_s") * 1e9 > charged);
        // Holds are ended by a timer: the last one may be a scheduling delay too long.
        if added == 2000 {
            assert!(asked > 5e8, "{report:#}");
            assert!((charged / asked - 1.0).abs() < 0.01, "{asked} {charged}");
        }
    }
}

#[test]
fn threads_and_children_are_followed_and_codes_passed_on() {
    let folder = Folder::new("attach-tree");
    let mut command = attach(&folder, 400, &["--", "sh", "-c"]);
    let script = format!("'{}' && (exit 3) ; exit 7", words().join("' '"));
    role(command.arg(script), "threads");
    let Some(_) = ended(&mut command, 7) else {
        return;
    };
    let report = report(&folder);
    // The shell, its subshell, and the program with the test's own thread and three more.
    assert!(number(&report, "/processes") >= 2.0, "{report:#}");
    assert!(number(&report, "/threads") >= 5.0, "{report:#}");
    let asked = number(&report, "/delay/asked_ns");
    assert!(asked > 0.0, "{report:#}");
    // The program ends when its threads have said that they are done, which may owe delay by then.
    let charged = number(&report, "/delay/charged_ns");
    assert!(charged >= asked * 0.999, "{report:#}");
    assert_eq!(report["end"]["exited"], 7);
}

/// Children walk through memory that their parent made, one after the other, each for less time than windows
/// need to find out what it does: what is known of the parent and of its children is true of the next one.
#[test]
fn forked_children_are_charged_as_their_parent() {
    const FORKS: &str = r#"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#define LINES 1048576ul
int main(void) {
    unsigned long *words = malloc(64 * LINES), at = 0;
    for (unsigned long i = 0; i < LINES; i++) words[8 * i] = 8 * ((i * 1664525 + 1013904223) % LINES);
    for (int child = 0; child < 8; child++) {
        if (!fork()) {
            for (int i = 0; i < 400000; i++) at = words[at];
            _exit(at == 1);
        }
        int status = 1;
        if (wait(&status) < 0 || status) return 9;
    }
    return 0;
}
"#;
    let folder = Folder::new("attach-forks");
    let program = compiled(&folder, FORKS, &[]);
    let Some(_) = ended(attach(&folder, 400, &["--"]).arg(&program), 0) else {
        return;
    };
    let report = report(&folder);
    assert!(number(&report, "/processes") >= 9.0, "{report:#}");
    // The children wait for most of their 3.2 million steps, one after the other. The parent hardly waits for the
    // lines that it makes in order. (Where no register told how many those are, its CPU time did, which has page
    // faults: misses without waits say little.)
    let waits = number(&report, "/pools/1/waits");
    assert!(waits > 2.4e6 && waits < 4.0e6, "{report:#}");
    near(&report, "/delay/asked_ns", 400.0 * waits, 0.05);
}

/// A program in C, with further options of the compiler.
fn compiled(folder: &Folder, code: &str, options: &[&str]) -> PathBuf {
    let source = folder.file("program.c", code.as_bytes());
    let program = folder.path("program");
    let compiled = Command::new("cc")
        .args(options)
        .args(["-O1", "-o"])
        .args([&program, &source])
        .status();
    assert!(compiled.unwrap().success());
    program
}

/// A program stores and loads its flags all the time, as some code for floating-point numbers does. Single steps
/// set one of them, which the program must never keep: it would be killed by a trap.
#[test]
fn a_program_keeps_no_trap_flag() {
    const FLAGS: &str = r#"
#include <stdio.h>
int main(void) {
    unsigned long flags, seen = 0, sum = 0;
    for (long round = 0; round < 20000000; round++) {
        for (int i = 0; i < 10; i++) __asm__ volatile("add %1, %0" : "+r"(sum) : "r"(round));
        __asm__ volatile("pushfq; popq %0; pushq %0; popfq" : "=r"(flags) : : "cc", "memory");
        seen |= flags;
    }
    printf("%lu %lu\n", sum != 0, seen >> 8 & 1);
    return 0;
}
"#;
    let folder = Folder::new("attach-flags");
    let program = compiled(&folder, FLAGS, &[]);
    let Some(output) = ended(attach(&folder, 400, &["--"]).arg(&program), 0) else {
        return;
    };
    assert_eq!(output.stdout, "1 0\n");
    assert!(number(&report(&folder), "/windows") >= 2.0);
}

/// A program of a few instructions that no compiler has changed: it writes to each page of 64 MiB and then makes
/// so many steps, each of which reads a line there, at random, and needs what the step before it has read. A sparse
/// one reads one line of each page alone, which is another line in each 128 pages.
fn steps(folder: &Folder, steps: u32, sparse: bool) -> PathBuf {
    const BYTES: u64 = 64 << 20;
    const CODE: u64 = 0x40_0000;
    const DATA: u32 = 0x1000_0000;
    let (pages, data) = (((BYTES / 4096) as u32).to_le_bytes(), DATA.to_le_bytes());
    let full = [0x81, 0xe2, 0xc0, 0xff, 0xff, 0x03]; // and edx, 64 MiB - 64
    let one = [
        &[0x81, 0xe2, 0, 0xf0, 0xff, 0x03][..], // and edx, 64 MiB - 4096
        &[0x48, 0x89, 0xd1],                    // mov rcx, rdx
        &[0x48, 0xc1, 0xe9, 0x0d],              // shr rcx, 13
        &[0x81, 0xe1, 0xc0, 0x0f, 0, 0],        // and ecx, 4096 - 64
        &[0x48, 0x09, 0xca],                    // or rdx, rcx
    ]
    .concat();
    // The jump back is as much longer as the place of a line takes more instructions.
    let (place, back): (&[u8], u8) = match sparse {
        true => (&one, 0xda - 16),
        false => (&full, 0xda),
    };
    let code = [
        &[0xb9][..],
        &pages, // mov ecx, pages
        &[0xbf],
        &data,                              // mov edi, data
        &[0xc6, 0x07, 1],                   // page: mov byte [rdi], 1
        &[0x48, 0x81, 0xc7, 0, 0x10, 0, 0], // add rdi, 4096
        &[0xff, 0xc9, 0x75, 0xf2],          // dec ecx; jnz page
        &[0x90; 64],                        // the second loop has lines of code of its own
        &[0xbf],
        &data, // mov edi, data
        &[0xbd],
        &steps.to_le_bytes(),                        // mov ebp, steps
        &[0x31, 0xc0, 0x31, 0xdb],                   // xor eax, eax; xor ebx, ebx
        &[0x48, 0x69, 0xdb, 0x0d, 0x66, 0x19, 0],    // step: imul rbx, rbx, 1664525
        &[0x48, 0x81, 0xc3, 0x5f, 0xf3, 0x6e, 0x3c], // add rbx, 1013904223
        &[0x48, 0x01, 0xc3],                         // add rbx, rax
        &[0x48, 0x89, 0xda],                         // mov rdx, rbx
        &[0x48, 0xc1, 0xea, 0x0d],                   // shr rdx, 13
        place,
        &[0x48, 0x8b, 0x04, 0x17],                 // mov rax, [rdi + rdx]
        &[0xff, 0xcd, 0x75, back],                 // dec ebp; jnz step
        &[0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 5], // exit(0)
    ]
    .concat();
    let words = |words: &[u64]| {
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let halves = |halves: &[u16]| {
        halves
            .iter()
            .flat_map(|half| half.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let start = 64 + 2 * 56;
    let file = start + code.len() as u64;
    let (loaded, executable, writable) = (1, 5, 6);
    let program = [
        &b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"[..],
        &halves(&[2, 62, 1, 0]),
        &words(&[CODE + start, 64, 0]),
        &halves(&[0, 0, 64, 56, 2, 64, 0, 0]),
        &words(&[executable << 32 | loaded, 0, CODE, CODE, file, file, 4096]),
        &words(&[
            writable << 32 | loaded,
            0,
            DATA.into(),
            DATA.into(),
            0,
            BYTES,
            4096,
        ]),
        &code,
    ]
    .concat();
    let path = folder.file("steps", &program);
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, all).unwrap();
    path
}

/// Ten million steps, of which 1023 of 1024 miss, on whatever machine, however busy: registers count them. The cache
/// is small because each watched line that it holds moves the count of misses by some percent.
#[test]
fn what_is_executed_natively_is_counted_by_its_registers() {
    const STEPS: u32 = 10_000_000;
    let folder = Folder::new("attach-steps");
    let program = steps(&folder, STEPS, false);
    let mut command = attach_with_cache(&folder, "64KiB", 50, &["--"]);
    let Some(_) = ended(command.arg(program), 0) else {
        return;
    };
    let report = report(&folder);
    let waits = f64::from(STEPS) * 1023.0 / 1024.0;
    near(&report, "/pools/1/waits", waits, 0.05);
    near(&report, "/delay/asked_ns", waits * 50.0, 0.05);
    let told = number(&report, "/counted_s") + number(&report, "/paced_s");
    assert!(told > 0.9 * number(&report, "/cpu_s"), "{report:#}");
    assert!(number(&report, "/counted_s") > 0.5 * told, "{report:#}");
}

/// Twenty million steps over one line of each of 16,384 pages, which fit the cache. More misses than fit in the
/// program's time are charged on no machine. How many are depends on how busy the machine is
/// (docs/explain/attach.md); tests of `cxlab-attach` have lines that decide.
#[test]
fn a_sparse_program_is_not_charged_more_misses_than_fit_in_its_time() {
    const STEPS: u32 = 20_000_000;
    let folder = Folder::new("attach-sparse");
    let program = steps(&folder, STEPS, true);
    let scenario = folder.file("one.toml", SCENARIO.as_bytes());
    let out = folder.path("out");
    let mut command = command(&[&"attach", &scenario, &"--out", &out, &"--", &program]);
    let Some(_) = ended(command.env("XDG_CACHE_HOME", CACHE), 0) else {
        return;
    };
    let report = report(&folder);
    let parts = ["/counted_s", "/paced_s", "/priced_s"];
    let priced: f64 = parts.map(|name| number(&report, name)).iter().sum();
    let modelled = number(&report, "/modelled_s");
    let is_paid = modelled <= 1.25 * priced;
    assert!(report["slowdown"].is_null() || is_paid, "{report:#}");
    let misses = number(&report, "/pools/1/misses");
    println!("{misses:.0} misses of {STEPS} steps, {modelled:.3} s of {priced:.3} s");
    assert!(misses <= f64::from(STEPS), "{report:#}");
}

/// Links that the program lays where the report will be are not followed.
#[test]
fn a_program_cannot_lead_the_report_elsewhere() {
    let folder = Folder::new("attach-hostile");
    let victim = folder.file("victim", b"untouched");
    let out = folder.path("out");
    let script = format!(
        "for name in report.json $(ls -d /proc/[0-9]* | sed 's#/proc/#report.json.partial-#'); do \
         ln -sf '{}' '{}'/$name; done",
        victim.display(),
        out.display()
    );
    let Some(_) = ended(&mut attach(&folder, 100, &["--", "sh", "-c", &script]), 0) else {
        return;
    };
    assert_eq!(std::fs::read(&victim).unwrap(), b"untouched");
    let file = std::fs::symlink_metadata(out.join("report.json"));
    assert!(file.unwrap().is_file());
    let report = report(&folder);
    assert_eq!(report["mode"], "attach");
    assert_eq!(report["run"].as_str().unwrap().len(), 16);
}

#[test]
fn a_file_of_the_users_with_the_reports_name_stays_and_nothing_runs() {
    let folder = Folder::new("attach-mine");
    std::fs::create_dir(folder.path("out")).unwrap();
    let mine = folder.file("out/report.json", b"{ \"mine\": 1 }");
    let run = folder.path("run");
    let touch = ["--".as_ref(), "touch".as_ref(), run.as_os_str()];
    let refused = finish(attach(&folder, 100, &[]).args(touch)).ends(2);
    refused.says(&["which cxlab did not write"]);
    assert_eq!(std::fs::read(&mine).unwrap(), b"{ \"mine\": 1 }");
    assert!(!run.exists());
}

#[test]
fn mistakes_are_said_before_anything_runs() {
    let folder = Folder::new("attach-mistakes");
    for (more, said) in [
        (&["--", "no-such-command-at-all"][..], "was not found"),
        (&[], "-- COMMAND"),
        (&["--placement=elsewhere", "--", "true"], "--placement"),
        (&["--llc=much", "--", "true"], "--llc"),
        (&["--overlap=256:12", "--", "true"], "--overlap"),
        (&["--overlap=256:12:8", "--", "true"], "at least the second"),
        (&["--overlap=0:12:16", "--", "true"], "--overlap"),
        (&["--verify", "--pid", "1"], "cannot be used with"),
        (&["--verify"], "-- COMMAND"),
        (&["--pid", "2147483647"], "no such process"),
    ] {
        finish(&mut attach(&folder, 0, more)).ends(2).says(&[said]);
    }
}

#[test]
fn the_doctor_says_of_each_tier_why() {
    cxlab(&[&"attach", &"--doctor"]).ends(0).prints(&[
        "ptrace",
        "1 hardware",
        "2 counting",
        "3 no counters",
        "4 exact",
    ]);
}

/// The command of another as a user without any right; `None` where nobody may become another.
fn as_nobody(command: &Command) -> Option<Command> {
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    other.arg(command.get_program()).args(command.get_args());
    other.stdout(Stdio::piped()).stderr(Stdio::piped());
    let can = |words: &[&OsStr]| {
        let mut command = Command::new("setpriv");
        let command = command
            .args(["--reuid=65534", "--clear-groups"])
            .args(words);
        let status = command.stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let sees = ["test".as_ref(), "-x".as_ref(), command.get_program()];
    let all = can(&["true".as_ref()]) && can(&sees);
    if !all {
        println!("skipped: this test cannot become another user here");
    }
    all.then_some(other)
}

/// Without root nothing changes for what one starts oneself, and others' processes are refused with a
/// line that says what is left.
#[test]
fn without_any_right_the_third_tier_works_and_others_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("attach-nobody");
    let out = folder.path("out");
    std::fs::create_dir_all(&out).unwrap();
    for path in [out.parent().unwrap(), &out] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let root_only = attach(&folder, 400, &["--", "sh", "-c", "exit 4"]);
    let Some(mut own) = as_nobody(&root_only) else {
        return;
    };
    let Some(_) = ended(&mut own, 4) else { return };
    let found = report(&folder);
    assert_eq!(found["tier"]["number"], 3);
    assert_eq!(found["tier"]["refused"].as_array().unwrap().len(), 2);
    // It is over too soon for anything to be charged, and that is said.
    assert_eq!(number(&found, "/delay/asked_ns"), 0.0);
    let notes = found["notes"].to_string();
    assert!(notes.contains("no delay was asked for"), "{notes}");

    let pid = std::process::id().to_string();
    let others = attach(&folder, 400, &["--pid", &pid]);
    let refused = finish(&mut as_nobody(&others).unwrap()).ends(2);
    refused.says(&["cannot be traced", "tier 4"]);

    let mut doctor = as_nobody(&command(&[&"attach", &"--doctor"])).unwrap();
    finish(&mut doctor).ends(0).prints(&["no: not needed"]);
}
