//! What the tests of media share: building, requests, an owner that drives a medium, and tables of cases.
#![allow(dead_code, clippy::unwrap_used)]

use cxlab_engine::catalog::{ParamError, find};
use cxlab_engine::units::{Bytes, Dpa, SimTime};
use cxlab_memory::{
    CATALOG, Completion, Medium, MediumSite, MemoryBackend, MemoryRequest, Statistic,
};
use serde_json::Value;

/// Builds a medium of the catalog.
pub fn medium(kind: &str, params: &Value) -> Result<Box<dyn Medium>, ParamError> {
    (find(CATALOG, kind).unwrap().build)(params)
}

/// A backend of a medium for a device of `capacity` bytes.
pub fn backend(kind: &str, params: &Value, capacity: u64) -> Box<dyn MemoryBackend> {
    let medium = medium(kind, params).unwrap_or_else(|error| panic!("{kind} {params}: {error}"));
    medium.check(Bytes(capacity)).unwrap();
    medium.backend(MediumSite::alone(Bytes(capacity), 1))
}

/// Why a medium, or its place in a device of `capacity` bytes, is refused.
pub fn refusal(kind: &str, params: &Value, capacity: u64) -> ParamError {
    let checked = medium(kind, params).and_then(|medium| medium.check(Bytes(capacity)));
    checked.expect_err(&params.to_string())
}

/// The table `base` with the values of `given` in place of its own.
pub fn with(mut base: Value, given: &Value) -> Value {
    for (key, value) in given.as_object().unwrap() {
        base[key] = value.clone();
    }
    base
}

/// The cases of a table: a line each, with `=>` between its two cells. A long case has its line break
/// before the `=>`.
pub fn rows(table: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
    std::iter::from_fn(move || {
        let line = lines.next()?;
        let (first, second) = line.split_once("=>").unwrap_or_else(|| {
            let second = lines.next().and_then(|next| next.strip_prefix("=>"));
            (line, second.expect("two cells"))
        });
        Some((first.trim_end(), second.trim_start()))
    })
}

/// The cases of a table whose second cell is JSON.
pub fn json_rows(table: &str) -> impl Iterator<Item = (&str, Value)> {
    rows(table).map(|(name, json)| (name, serde_json::from_str(json).expect(json)))
}

pub fn request(id: u32, dpa: u64, lines: u16, write: bool) -> MemoryRequest {
    let dpa = Dpa(dpa);
    MemoryRequest {
        id,
        dpa,
        lines,
        write,
    }
}

/// All statistics at `now`.
pub fn statistics(memory: &dyn MemoryBackend, now: u64) -> Vec<Statistic> {
    let mut list = Vec::new();
    memory.statistics(SimTime(now), &mut list);
    list
}

/// The statistic with this name.
pub fn statistic(memory: &dyn MemoryBackend, now: u64, name: &str) -> f64 {
    let list = statistics(memory, now);
    let found = list.iter().find(|one| one.name == name);
    found.unwrap_or_else(|| panic!("no {name}")).value
}

/// Advances a medium from event to event until it has none. Returns the completions, and the time of
/// the last event.
pub fn drain(memory: &mut dyn MemoryBackend) -> (Vec<Completion>, SimTime) {
    let (mut done, mut end) = (Vec::new(), SimTime::ZERO);
    while let Some(at) = memory.next_event() {
        memory.advance(at, &mut done);
        end = end.max(at);
    }
    (done, end)
}

/// A request for [`drive`]: time in picoseconds, address, lines, and whether it writes.
pub type TimedRequest = (u64, u64, u16, bool);

/// For each request, the times at which it was sent and done, in picoseconds; `u64::MAX` stands for
/// one that was not.
pub struct RequestTimes {
    pub sent: Vec<u64>,
    pub done: Vec<u64>,
    /// Number of requests whose time of completion the medium told when it accepted them.
    pub known: usize,
}

/// An owner: sends requests in order, each at its time or when there is room, and waits until nothing is
/// left to happen. It wakes up at every event, and until all are done every `step` if given.
pub fn drive(
    memory: &mut dyn MemoryBackend,
    requests: &[TimedRequest],
    step: Option<u64>,
) -> RequestTimes {
    let never = vec![u64::MAX; requests.len()];
    let (mut sent, mut ends, mut known) = (never.clone(), never, 0);
    let (mut now, mut next, mut told, mut open) = (0, 0, 0, 0);
    let mut done = Vec::new();
    loop {
        memory.advance(SimTime(now), &mut done);
        for Completion { id, at } in done.drain(..) {
            let id = id as usize;
            assert!(at.0 >= told, "told out of order");
            assert!(at.0 <= now, "told of at {now}, done at {at:?}");
            assert_eq!(ends[id], u64::MAX, "done twice");
            let soonest = memory.soonest(SimTime(sent[id]));
            assert!(at >= soonest, "{at:?} is sooner than ever: {soonest:?}");
            (ends[id], told) = (at.0, at.0);
            open -= 1;
        }
        while let Some((at, dpa, lines, write)) = requests.get(next).copied()
            && at <= now
            && memory.can_accept(SimTime(now), write)
        {
            match memory.enqueue(SimTime(now), request(next as u32, dpa, lines, write)) {
                Some(at) => {
                    assert!(at.0 >= now, "done before it came");
                    (ends[next], known) = (at.0, known + 1);
                }
                None => open += 1,
            }
            sent[next] = now;
            next += 1;
        }
        let wish = requests.get(next).map(|one| one.0).filter(|at| *at > now);
        let event = memory.next_event().map(|at| at.0.max(now));
        let Some(soonest) = wish.into_iter().chain(event).min() else {
            break;
        };
        let step = step.filter(|_| open > 0 || next < requests.len());
        now = step.map_or(soonest, |step| soonest.min(now + step));
    }
    let done = ends;
    RequestTimes { sent, done, known }
}

/// The times at which requests are done, each sent at its time or when there is room.
pub fn times(
    memory: &mut dyn MemoryBackend,
    requests: &[TimedRequest],
    step: Option<u64>,
) -> Vec<u64> {
    let done = drive(memory, requests, step).done;
    assert!(!done.contains(&u64::MAX), "a request was lost");
    done
}

/// The times at which requests are done, each of which must be accepted at its time.
pub fn prompt_times(memory: &mut dyn MemoryBackend, requests: &[TimedRequest]) -> Vec<u64> {
    let heard = drive(memory, requests, None);
    let refused = heard
        .sent
        .iter()
        .zip(requests)
        .position(|(sent, one)| *sent != one.0);
    assert_eq!(refused, None, "refused at its time");
    assert!(!heard.done.contains(&u64::MAX), "a request was lost");
    heard.done
}
