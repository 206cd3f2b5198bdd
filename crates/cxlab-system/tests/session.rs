//! A session gives the completions and the order digest of a run with a trace of the same requests, however its
//! program advances time and whatever limits the host.

use std::fmt::Write;
use std::path::Path;

use cxlab_engine::units::SimTime;
use cxlab_engine::{Monitor, Threads};
use cxlab_host::RequestRow;
use cxlab_plan::load::{self, Loaded};
use cxlab_plan::{Externals, Files};
use cxlab_system::report::Report;
use cxlab_system::run::{RunOptions, run};
use cxlab_system::session::{Completion, Outcome, RequestKind, Session, SessionError, Submission};
use tempfile::TempDir;

/// The host `outside` and one with a workload share two devices. `LIMITS` and `DEVICES` stand for more keys.
const SCENARIO: &str = r#"
name = "session"

[fabric]
topology = { kind = "chain", switches = 2 }

[[hosts]]
name = "outside"
OUTSIDE
LIMITS

[[hosts]]
name = "inside"
requests = 1500
issue = { outstanding = 8, cache = { size = "8 KiB" } }
workload = { kind = "uniform", read_ratio = 0.5, footprint = "1 MiB" }

[[devices]]
name = "mem"
count = 2
DEVICES
"#;

const TRACE: &str = r#"workload = { kind = "trace", path = "requests.csv", timing = "timestamps", addresses = "exact" }"#;

fn plan(folder: &Path, text: &str) -> Loaded {
    load::read("session.toml", text, &[])
        .and_then(|document| load::resolve(document, Files::of(folder), &Externals::new()))
        .unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)))
}

/// A system: keys of the host `outside`, and of the devices.
#[derive(Clone, Copy)]
struct Case {
    limits: &'static str,
    devices: &'static str,
    /// Time between two requests, at most.
    gap_ps: u64,
}

impl Case {
    fn text(&self, outside: &str) -> String {
        let text = SCENARIO.replace("OUTSIDE", outside);
        let text = text.replace("LIMITS", self.limits);
        text.replace("DEVICES", self.devices)
    }

    fn session(&self) -> Session {
        let text = self.text("kind = \"external\"\ndepth = 4096");
        Session::new(plan(Path::new(""), &text), 1, false).expect("a session")
    }

    /// Random requests; some follow another one at once or after a long time.
    fn requests(&self) -> Vec<Submission> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut time = 0;
        let requests = (0..2000).map(|id| {
            let request = Submission {
                id,
                address: next(1 << 14) * 64,
                size: 64,
                kind: match next(3) {
                    0 => RequestKind::Write,
                    _ => RequestKind::Read,
                },
                time: SimTime(time),
            };
            time += match next(50) {
                0 => 3_000_000,
                1..10 => 0,
                _ => next(self.gap_ps),
            };
            request
        });
        requests.collect()
    }

    /// A run with a trace of the requests: the rows of the host, and the report.
    fn run(&self, requests: &[Submission]) -> (Vec<RequestRow>, Report) {
        let folder = TempDir::new().expect("a folder");
        let mut csv = String::from("address,op,time_ps\n");
        for request in requests {
            let op = match request.kind {
                RequestKind::Read => 'R',
                RequestKind::Write | RequestKind::WriteBack => 'W',
            };
            writeln!(csv, "{},{op},{}", request.address, request.time.0).expect("a text");
        }
        std::fs::write(folder.path().join("requests.csv"), csv).expect("a trace");
        let loaded = plan(folder.path(), &self.text(TRACE));
        let mut rows = Vec::new();
        let mut keep = |new: Vec<RequestRow>| {
            rows.extend(new.into_iter().filter(|row| row.requester == 0));
            Ok(())
        };
        let options = RunOptions {
            seed: 1,
            threads: Threads::Exactly(1),
            monitor: &Monitor::default(),
            rows: Some(&mut keep),
        };
        let report = run(&loaded.plan, options).expect("a report");
        (rows, report)
    }
}

/// How a program uses a session.
#[derive(Clone, Copy, Debug)]
enum Use {
    /// It submits all requests before the first step.
    AllAtOnce,
    /// It advances to the time of each request and submits the request then.
    InTime,
    /// It submits each request up to some time before, and goes from event to event.
    EventByEvent,
}

fn drive(session: &mut Session, requests: &[Submission], used: Use) -> Vec<Completion> {
    for (at, request) in requests.iter().enumerate() {
        match used {
            Use::AllAtOnce => {}
            Use::InTime => session.advance(request.time).expect("a time"),
            Use::EventByEvent => {
                let until = request.time.0.saturating_sub(at as u64 % 7 * 1000);
                while let Some(next) = session.next_event().filter(|next| next.0 < until) {
                    session.advance(SimTime(next.0 + 1)).expect("a time");
                }
            }
        }
        session.submit(0, *request).expect("room");
    }
    session.close(0).expect("a port");
    session.drain().expect("workloads that end");
    std::iter::from_fn(|| session.take_completion()).collect()
}

/// A report without what depends on the speed of the computer, and without what identifies the scenario.
fn comparable(report: &Report) -> serde_json::Map<String, serde_json::Value> {
    let serde_json::Value::Object(mut table) = serde_json::to_value(report).expect("JSON") else {
        panic!("a report is a table");
    };
    for key in [
        "wall_seconds",
        "events_per_second",
        "run",
        "plan_hash",
        "notes",
    ] {
        table.remove(key);
    }
    let requests = table["requests"].as_object_mut().expect("a table");
    requests.remove("per_wall_second");
    table
}

#[track_caller]
fn check(case: Case) {
    let requests = case.requests();
    let (rows, report) = case.run(&requests);
    assert_eq!(rows.len(), requests.len());
    for used in [Use::AllAtOnce, Use::InTime, Use::EventByEvent] {
        let mut session = case.session();
        let completions = drive(&mut session, &requests, used);
        assert_eq!(completions.len(), rows.len(), "{used:?}");
        for (done, row) in completions.iter().zip(&rows) {
            let expected = Completion {
                id: row.id,
                port: 0,
                issued: SimTime(row.issued_ps),
                completed: SimTime(row.completed_ps),
                outcome: Outcome::Served,
            };
            assert_eq!(*done, expected, "{used:?}");
        }
        let own = session.report().expect("a report");
        assert_eq!(own.provenance.digest, report.provenance.digest, "{used:?}");
        let (own, run) = (comparable(&own), comparable(&report));
        assert_eq!(own.len(), run.len());
        for (key, value) in &own {
            assert_eq!(value, &run[key], "{key}, {used:?}");
        }
    }
}

const CASE: Case = Case {
    limits: "",
    devices: "",
    gap_ps: 20_000,
};

#[test]
fn a_session_gives_what_a_run_with_a_trace_gives() {
    check(CASE);
}

#[test]
fn requests_that_wait_for_one_another_are_issued_as_in_a_run() {
    check(Case {
        limits: "issue = { outstanding = 4, queue = 2, in_order = true }",
        gap_ps: 4_000,
        ..CASE
    });
}

#[test]
fn a_limited_rate_delays_requests_as_in_a_run() {
    check(Case {
        limits: "issue = { outstanding = 64, rate = \"4 GB/s\", process_time = \"11 ns\" }",
        gap_ps: 9_000,
        ..CASE
    });
}

#[test]
fn a_private_cache_is_in_front_of_the_port_as_in_a_run() {
    check(Case {
        limits: "issue = { outstanding = 16, cache = { size = \"64 KiB\" } }",
        gap_ps: 8_000,
        ..CASE
    });
}

#[test]
fn a_coherent_cache_is_snooped_as_in_a_run() {
    check(Case {
        limits: "issue = { outstanding = 8, cache = { size = \"32 KiB\" } }",
        devices: "coherence = { class = \"hdm-db\", filter = { lines = 256 } }",
        gap_ps: 30_000,
    });
}

#[test]
fn a_request_of_several_lines_completes_with_its_last_line() {
    let mut session = CASE.session();
    let submission = Submission {
        id: 7,
        address: 4096,
        size: 256,
        kind: RequestKind::Read,
        time: SimTime(500),
    };
    session.submit(0, submission).expect("room");
    session.drain().expect("workloads that end");
    let done = session.take_completion().expect("a completion");
    assert_eq!((done.id, done.issued), (7, SimTime(500)));
    assert!(session.take_completion().is_none());
    let report = session.report().expect("a report");
    assert_eq!(report.hosts[0].reads, 4);
}

#[test]
fn a_port_that_is_closed_late_changes_no_time() {
    let requests = CASE.requests();
    let mut session = CASE.session();
    for request in &requests {
        session.submit(0, *request).expect("room");
    }
    session.drain().expect("workloads that end");
    session.close(0).expect("a port");
    session.drain().expect("workloads that end");
    let completions: Vec<Completion> = std::iter::from_fn(|| session.take_completion()).collect();
    let expected = drive(&mut CASE.session(), &requests, Use::AllAtOnce);
    assert_eq!(completions, expected);
    session.report().expect("all laws hold");
}

#[test]
fn a_system_whose_program_waits_goes_on_without_it() {
    let mut session = CASE.session();
    session.advance(SimTime(1_000_000_000)).expect("a time");
    assert_eq!(session.next_event(), None);
    let report = session.report().expect("a report");
    let completed = [0, 1].map(|host| report.hosts[host].completed);
    assert_eq!(completed, [0, 1500]);
    assert_eq!(session.room(0), Ok(4096));
    let unknown = session.room(1);
    assert_eq!(unknown, Err(SessionError::Port { found: 1, known: 1 }));
}
