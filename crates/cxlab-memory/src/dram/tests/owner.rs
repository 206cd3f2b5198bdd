//! Memories that record their commands, and requests for them.

use crate::MemoryBackend;
use crate::dram::{Command, CommandObserver, Dram, DramParams};
use crate::testing::{self, RequestTimes, TimedRequest};

/// An observer that records every command.
#[derive(Default)]
pub struct Recorder(pub Vec<Command>);

impl CommandObserver for Recorder {
    const ON: bool = true;
    fn command(&mut self, command: &Command) {
        self.0.push(*command);
    }
}

/// A read of a line.
pub fn read(at: u64, dpa: u64) -> TimedRequest {
    (at, dpa, 1, false)
}

/// A write of a line.
pub fn write(at: u64, dpa: u64) -> TimedRequest {
    (at, dpa, 1, true)
}

pub fn params(text: &str) -> DramParams {
    DramParams::read(&serde_json::from_str(text).unwrap()).unwrap()
}

pub fn memory(params: &DramParams) -> Dram<Recorder> {
    let capacity = params.resolve().unwrap().capacity;
    Dram::new(params, capacity, |_| Recorder::default()).unwrap()
}

/// Drives a memory, which tells all completions by `advance`.
pub fn drive(memory: &mut dyn MemoryBackend, wishes: &[TimedRequest]) -> RequestTimes {
    let heard = testing::drive(memory, wishes, None);
    assert_eq!(heard.known, 0, "told at once");
    assert!(
        !heard.sent.contains(&u64::MAX),
        "a request was never accepted"
    );
    heard
}
