//! `cxlab attach --verify`: the model against the event engine.

use super::*;

/// The event engine and the model agree on a pointer chase that is recorded under QEMU, whatever else the
/// machine does.
#[test]
fn a_run_is_verified_against_the_event_engine() {
    let Some((found, _)) = verified("attach-verify", &[]) else {
        return;
    };
    let steps = 300_000.0;
    // The making of the array misses once a line, too, and the stores overlap.
    let misses = number(&found, "/verified/misses");
    assert!((misses - steps - 262_144.0).abs() < 3000.0, "{found:#}");
    let engine = number(&found, "/verified/engine/delay_ns");
    assert!(engine > steps * 400.0, "{found:#}");
    assert!(engine < (steps + 262_144.0 / 8.0) * 400.0, "{found:#}");
    let error = number(&found, "/verified/exact/error_percent");
    assert!(error.abs() < 10.0, "{found:#}");
    // Each slowdown is over its own time, and the run's is what the run reports.
    let placed = number(&found, "/verified/engine/placed_ns");
    let slowdown = placed / number(&found, "/verified/engine/local_ns");
    // A number read from JSON may be off in its last bit.
    let engine = number(&found, "/verified/engine/slowdown");
    assert!((engine / slowdown - 1.0).abs() < 1e-12, "{found:#}");
    let cpu_ns = number(&found, "/cpu_s") * 1e9;
    let own = 1.0 + number(&found, "/delay/asked_ns") / cpu_ns;
    let run = number(&found, "/verified/run/slowdown");
    assert!((run / own - 1.0).abs() < 1e-9, "{found:#}");
    let error = number(&found, "/verified/run/slowdown_error_percent");
    assert!((error - 100.0 * (run / slowdown - 1.0)).abs() < 1e-6);
    let local = number(&found, "/verified/engine/local_ns");
    let same = 1.0 + number(&found, "/delay/asked_ns") / local;
    let error = number(&found, "/verified/run/same_local_error_percent");
    assert!((error - 100.0 * (same / slowdown - 1.0)).abs() < 1e-6);
    assert!(number(&found, "/verified/exact/slowdown_error_percent").abs() < 10.0);
}

/// With all memory being the host's own nobody has any delay, and it is said why.
#[test]
fn a_verified_run_in_local_memory_is_not_slower_and_says_why() {
    let local = ["--placement=local-first:1TiB"];
    let Some((found, printed)) = verified("attach-verify-local", &local) else {
        return;
    };
    for side in ["engine", "exact", "sampled", "run"] {
        let of = |what: &str| number(&found, &format!("/verified/{side}/{what}"));
        assert_eq!((of("delay_ns"), of("slowdown")), (0.0, 1.0), "{found:#}");
    }
    let notes = found["verified"]["notes"].as_array().unwrap();
    assert_eq!(notes.len(), 4, "{found:#}");
    for note in notes {
        let note = note.as_str().unwrap();
        assert!(note.contains("local-first:1099511627776"), "{note}");
        assert!(printed.contains(note), "{printed}");
    }
}

/// `cxlab attach --verify` of the chase, 400 ns farther away: its report, and what it printed.
fn verified(name: &str, more: &[&str]) -> Option<(Value, String)> {
    let folder = Folder::new(name);
    let program = compiled(&folder, CHASE, &["-static"]);
    let words = [more, &["--verify", "--overlap=256:12:16", "--"]].concat();
    let mut command = attach(&folder, 400, &words);
    let output = finish(command.arg(&program).stdin(Stdio::null()));
    if refused(&output) {
        return None;
    }
    if output.stderr.contains("QEMU's user mode cannot be used") {
        assert_eq!(output.code, Some(2));
        println!("skipped: {}", output.stderr);
        return None;
    }
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    assert!(output.stderr.contains("event engine"), "{}", output.stderr);
    assert_eq!(output.stdout, "");
    Some((report(&folder), output.stderr))
}

/// Every line of 16 MiB is stored to in order, then 300,000 are walked through without order.
const CHASE: &str = r#"
#include <sys/mman.h>
#define LINES 262144ul
int main(void) {
    unsigned long *words = mmap(0, 64 * LINES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long at = 0;
    if (words == MAP_FAILED) return 9;
    for (unsigned long i = 0; i < LINES; i++) words[8 * i] = 8 * ((i * 1664525 + 1013904223) % LINES);
    for (int i = 0; i < 300000; i++) at = words[at];
    return at == 1;
}
"#;
