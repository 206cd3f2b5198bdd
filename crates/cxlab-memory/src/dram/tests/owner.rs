//! An owner for tests. It sends requests at their times, waits for room if it is refused, wakes at
//! `next_event`, and records the completions.

use cxlab_engine::units::{Dpa, SimTime};

use crate::dram::{Command, CommandObserver, Dram, DramParams};
use crate::{Completion, MemoryBackend, MemoryRequest};

/// An observer that records every command.
#[derive(Default)]
pub struct Recorder(pub Vec<Command>);

impl CommandObserver for Recorder {
    const ON: bool = true;
    fn command(&mut self, command: &Command) {
        self.0.push(*command);
    }
}

/// A request and the time at which it should be sent.
#[derive(Clone, Copy, Debug)]
pub struct TimedRequest {
    pub at: u64,
    pub dpa: u64,
    pub lines: u16,
    pub write: bool,
}

pub fn read(at: u64, dpa: u64) -> TimedRequest {
    let (lines, write) = (1, false);
    TimedRequest {
        at,
        dpa,
        lines,
        write,
    }
}

pub fn write(at: u64, dpa: u64) -> TimedRequest {
    let write = true;
    TimedRequest {
        write,
        ..read(at, dpa)
    }
}

pub fn params(text: &str) -> DramParams {
    DramParams::read(&serde_json::from_str(text).unwrap()).unwrap()
}

pub fn memory(params: &DramParams) -> Dram<Recorder> {
    let capacity = params.resolve().unwrap().capacity;
    Dram::new(params, capacity, |_| Recorder::default()).unwrap()
}

/// For each request, the times at which it was sent and done, in picoseconds.
pub struct RequestTimes {
    pub sent: Vec<u64>,
    pub done: Vec<u64>,
}

/// Sends all requests in order, each at its time or when there is room, and waits for their ends.
pub fn drive(memory: &mut impl MemoryBackend, wishes: &[TimedRequest]) -> RequestTimes {
    let mut heard = RequestTimes {
        sent: vec![u64::MAX; wishes.len()],
        done: vec![u64::MAX; wishes.len()],
    };
    let mut now = 0;
    let mut next = 0;
    let mut list: Vec<Completion> = Vec::new();
    loop {
        memory.advance(SimTime(now), &mut list);
        for one in list.drain(..) {
            assert!(one.at.0 <= now, "told of at {now}, done at {}", one.at.0);
            assert_eq!(heard.done[one.id as usize], u64::MAX, "done twice");
            let sent = SimTime(heard.sent[one.id as usize]);
            assert!(one.at >= memory.soonest(sent), "sooner than ever: {one:?}");
            heard.done[one.id as usize] = one.at.0;
        }
        while let Some(wish) = wishes.get(next).filter(|wish| wish.at <= now)
            && memory.can_accept(SimTime(now), wish.write)
        {
            let request = MemoryRequest {
                id: next as u32,
                dpa: Dpa(wish.dpa),
                lines: wish.lines,
                write: wish.write,
            };
            assert_eq!(memory.enqueue(SimTime(now), request), None);
            heard.sent[next] = now;
            next += 1;
        }
        let wish = wishes.get(next).map(|wish| wish.at).filter(|at| *at > now);
        let event = memory.next_event().map(|at| at.0);
        now = match (wish, event) {
            (Some(wish), Some(event)) => wish.min(event.max(now)),
            (Some(wish), None) => wish,
            (None, Some(event)) => event.max(now),
            (None, None) => break,
        };
    }
    assert_eq!(next, wishes.len(), "a request was never accepted");
    heard
}
