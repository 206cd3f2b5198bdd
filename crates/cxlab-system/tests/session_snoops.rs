//! Snoops of the caches that the programs of a session have above its ports.

use cxlab_engine::units::SimTime;
use cxlab_plan::{Externals, Files, load};
use cxlab_system::session::{Outcome, RequestKind, Session, SessionError, Snoop, Submission};
use tempfile::TempDir;

const SCENARIO: &str = r#"
name = "snoops"

[fabric]
topology = { kind = "chain", switches = 1 }

[[hosts]]
name = "program"
count = 2
kind = "external"
snooped = true
issue = { cache = { size = "512 B", ways = 2 } }

[[hosts]]
name = "plain"
kind = "external"
issue = { cache = { size = "512 B", ways = 2 } }

[[devices]]
name = "mem"
coherence = { class = "hdm-db" }
"#;

fn session() -> Session {
    let loaded = load::read("snoops.toml", SCENARIO, &[])
        .and_then(|document| load::resolve(document, Files::of(""), &Externals::new()))
        .unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)));
    Session::new(loaded, 1, true).expect("a session")
}

fn submit(
    session: &mut Session,
    port: usize,
    id: u64,
    kind: RequestKind,
) -> Result<(), SessionError> {
    let request = Submission {
        id,
        address: 64,
        size: 64,
        kind,
        time: session.now(),
    };
    session.submit(port, request)
}

/// Advances for 100 us, and returns ids and outcomes of what completed.
fn advance(session: &mut Session) -> Vec<(u64, Outcome)> {
    let until = SimTime(session.now().0 + 100_000_000);
    session.advance(until).expect("a time");
    let taken = std::iter::from_fn(|| session.take_completion());
    taken.map(|done| (done.id, done.outcome)).collect()
}

/// A program has a line alone, and another one wants to change it.
fn contended() -> Session {
    let mut session = session();
    submit(&mut session, 0, 1, RequestKind::Write).expect("room");
    assert_eq!(advance(&mut session), [(1, Outcome::Served)]);
    submit(&mut session, 1, 2, RequestKind::Write).expect("room");
    assert_eq!(advance(&mut session), [], "the first has not given it up");
    session
}
fn answer(session: &mut Session, port: usize, changed: bool) -> Snoop {
    let snoop = session.take_snoop().expect("a snoop");
    let now = session.now();
    session
        .answer(port, snoop.id, changed, now)
        .expect("its answer");
    snoop
}

#[test]
fn a_line_moves_when_the_snoop_is_answered() {
    let mut session = contended();
    let snoop = session.take_snoop().expect("a snoop");
    assert_eq!((snoop.port, snoop.address, snoop.invalidate), (0, 64, true));
    assert_eq!(session.take_snoop(), None);
    assert_eq!(session.next_event(), None, "an answer is missing");
    let now = session.now();
    let early = session.answer(0, snoop.id, true, SimTime(now.0 - 1));
    assert!(matches!(early, Err(SessionError::Time { .. })));
    let unknown = session.answer(1, snoop.id, true, now);
    assert!(matches!(unknown, Err(SessionError::Snoop { .. })));
    let answer = session.answer(0, snoop.id, true, now);
    answer.expect("its only answer");
    let again = session.answer(0, snoop.id, true, now);
    assert!(matches!(again, Err(SessionError::Snoop { .. })));
    assert_eq!(advance(&mut session), [(2, Outcome::Served)]);
}

#[test]
fn a_reader_leaves_the_line_shared_with_the_program_that_changed_it() {
    let mut session = session();
    submit(&mut session, 0, 1, RequestKind::Write).expect("room");
    advance(&mut session);
    submit(&mut session, 1, 2, RequestKind::Read).expect("room");
    advance(&mut session);
    let snoop = answer(&mut session, 0, true);
    assert!(!snoop.invalidate, "the first may keep the line");
    assert_eq!(advance(&mut session), [(2, Outcome::Shared)]);
    // Both have the line. The first wants to change it again.
    submit(&mut session, 0, 3, RequestKind::Write).expect("room");
    assert_eq!(advance(&mut session), []);
    let snoop = answer(&mut session, 1, false);
    assert_eq!((snoop.port, snoop.invalidate), (1, true));
    assert_eq!(advance(&mut session), [(3, Outcome::Served)]);
}

#[test]
fn a_line_given_up_is_not_asked_for() {
    let mut session = session();
    submit(&mut session, 0, 1, RequestKind::Write).expect("room");
    advance(&mut session);
    submit(&mut session, 0, 2, RequestKind::WriteBack).expect("room");
    assert_eq!(advance(&mut session), [(2, Outcome::Served)]);
    submit(&mut session, 1, 3, RequestKind::Read).expect("room");
    assert_eq!(advance(&mut session), [(3, Outcome::Shared)]);
    assert_eq!(session.take_snoop(), None);
}

#[test]
fn a_port_that_is_not_snooped_takes_no_write_backs() {
    let mut session = session();
    let refused = submit(&mut session, 2, 1, RequestKind::WriteBack);
    assert_eq!(refused, Err(SessionError::WriteBack));
    submit(&mut session, 2, 1, RequestKind::Write).expect("room");
    assert_eq!(advance(&mut session), [(1, Outcome::Served)]);
    submit(&mut session, 1, 2, RequestKind::Write).expect("room");
    assert_eq!(advance(&mut session), [(2, Outcome::Served)]);
    assert_eq!(session.take_snoop(), None, "its own cache gives up lines");
}

#[test]
fn a_saved_session_waits_for_the_same_answer() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("state");
    let finish = |mut session: Session| {
        answer(&mut session, 0, true);
        let completed = advance(&mut session);
        (0..3).for_each(|port| session.close(port).expect("a port"));
        session.advance(SimTime(1 << 40)).expect("a time");
        session.report().expect("a report that balances");
        (completed, session.digest())
    };
    let mut before = contended();
    before.save(&path).expect("a state");
    let mut after = session();
    after.restore(&path).expect("the state");
    assert_eq!(finish(before), finish(after));
}
