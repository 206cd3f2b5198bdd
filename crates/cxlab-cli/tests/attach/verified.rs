//! `cxlab attach --verify`: the model against the event engine.

use super::*;

/// The event engine and the model agree on a pointer chase that is recorded under QEMU, on a busy machine
/// as on an idle one.
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
    near(&found, "/verified/engine/slowdown", slowdown, 1e-12);
    let cpu_ns = number(&found, "/cpu_s") * 1e9;
    let own = 1.0 + number(&found, "/delay/asked_ns") / cpu_ns;
    near(&found, "/verified/run/slowdown", own, 1e-9);
    let run = number(&found, "/verified/run/slowdown");
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

/// A thread begins when it was made, takes a lock when another one has left it, and is joined when it has ended. So two
/// threads whose walks follow one another take the sum of their times, and neither's waits are its time.
#[test]
fn threads_wait_for_one_another_in_the_event_engine() {
    let Some((found, printed)) = verified_program("attach-verify-threads", TURNS, &[]) else {
        return;
    };
    let threads = found["verified"]["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 2, "{found:#}");
    for time in ["local_ns", "placed_ns"] {
        let times = threads.iter().map(|thread| thread[time].as_f64().unwrap());
        let sum: f64 = times.sum();
        near(&found, &format!("/verified/engine/{time}"), sum, 1e-9);
        near(&found, &format!("/verified/to_end/{time}"), sum, 0.02);
    }
    let steps = 100_000.0;
    for (thread, walks) in [(0, 2.0), (1, 1.0)] {
        let of = |what: &str| number(&found, &format!("/verified/threads/{thread}/{what}"));
        // Now and then two steps look like a stream, and the third line is prefetched.
        assert!(of("delay_ns") > 0.99 * walks * steps * 400.0, "{found:#}");
        let error = of("exact/error_percent");
        assert!(error.abs() < 10.0, "{found:#}");
        assert!(printed.contains(&format!("thread {thread}")), "{printed}");
    }
    // The thread's walk is all that it does.
    let delay = number(&found, "/verified/threads/1/delay_ns");
    assert!(delay < 1.05 * steps * 400.0, "{found:#}");
}

/// A forked process would be in the native run and not in what QEMU tells.
#[test]
fn a_program_of_several_processes_is_not_verified() {
    let folder = Folder::new("attach-verify-forks");
    let program = compiled(&folder, FORKS, &["-static"]);
    let mut command = attach(&folder, 400, &["--verify", "--"]);
    let output = finish(command.arg(&program).stdin(Stdio::null()));
    if refused(&output) || output.stderr.contains("QEMU's user mode cannot be used") {
        return;
    }
    let why = "found a program of 2 processes; allowed: 1, with threads";
    output.ends(2).says(&[why]);
}

/// `cxlab attach --verify` of the chase.
fn verified(name: &str, more: &[&str]) -> Option<(Value, String)> {
    verified_program(name, CHASE, more)
}

/// `cxlab attach --verify` of a program in C, 400 ns farther away: its report, and what it printed.
fn verified_program(name: &str, source: &str, more: &[&str]) -> Option<(Value, String)> {
    let folder = Folder::new(name);
    let program = compiled(&folder, source, &["-static", "-pthread"]);
    let words = [more, &["--verify", "--overlap=256:12:16", "--"]].concat();
    let mut command = attach(&folder, 400, &words);
    let output = finish(command.arg(&program).stdin(Stdio::null()));
    if refused(&output) {
        return None;
    }
    if output.stderr.contains("QEMU's user mode cannot be used") {
        println!("skipped: {}", output.ends(2).stderr);
        return None;
    }
    let output = output.ends(0).says(&["event engine"]);
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

/// Two walks of 100,000 lines without order, each through 8 MiB and under a lock, and a third of the first thread's. It
/// lets go of the lock when the other one waits for it.
const TURNS: &str = r#"
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#define LINES 131072ul
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static unsigned long *made(void) {
    unsigned long *words = mmap(0, 64 * LINES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned long i = 0; i < LINES; i++) words[8 * i] = 8 * ((i * 1664525 + 1013904223) % LINES);
    return words;
}
static unsigned long walk(unsigned long *words) {
    unsigned long at = 0;
    for (int i = 0; i < 100000; i++) at = words[at];
    return at;
}
static void *other(void *words) {
    pthread_mutex_lock(&turn);
    unsigned long at = walk(words);
    pthread_mutex_unlock(&turn);
    return (void *)at;
}
int main(void) {
    unsigned long *own = made(), *its = made();
    pthread_t thread;
    void *at;
    pthread_mutex_lock(&turn);
    if (pthread_create(&thread, 0, other, its)) return 9;
    while (*(volatile int *)&turn != 2) sched_yield();
    unsigned long mine = walk(own);
    pthread_mutex_unlock(&turn);
    if (pthread_join(thread, &at)) return 9;
    return mine + walk(own) + (unsigned long)at == 1;
}
"#;

const FORKS: &str = r#"
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    int status = 1, child = fork();
    if (!child) _exit(0);
    return waitpid(child, &status, 0) != child || status != 0;
}
"#;
