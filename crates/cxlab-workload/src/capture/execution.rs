//! A program's execution, instruction by instruction, for the analysis of `cxlab attach --verify`.
//!
//! The program runs under QEMU as in [`super::capture`], but nothing is filtered or stored. Each
//! instruction is reported once with its bytes, and from then on by its number, each time before
//! its accesses. The reader can decode the bytes to find out which access needs the data of which.
//! Mapped and unmapped memory is reported too. Events of a thread are in order, and those of several come in turns
//! of some thousand. System calls say which thread waits for which: one that was made, or woken at a futex, goes on
//! behind a numbered point of another.
//! Left out: what `capture` leaves out, memory mapped before the program begins, and waits without a system call.

use std::ffi::OsString;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use cxlab_engine::units::SimTime;

use super::beside;
use super::error::CaptureError;
use super::pipe::NamedPipe;
use super::qemu::{PluginReport, Qemu};
use super::stream::{INSTRUCTIONS, Words};
use crate::error::TraceError;
use crate::import::{Access, Input};

/// Kinds of words in the plugin's output; their numbers are those of the plugin.
const EXECUTED: u64 = 65;
const CODE: u64 = 66;
const MAPPED: u64 = 67;
const UNMAPPED: u64 = 68;
const THREAD: u64 = 69;
const TURN: u64 = 70;
const POINT: u64 = 71;
const BEHIND: u64 = 72;
const IN_CALL: u64 = 73;
const ENDS: u64 = 74;
/// Bytes of the longest instruction of x86-64.
const LONGEST: usize = 15;

/// The address and the bytes of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    /// Address of the first byte.
    pub address: u64,
    bytes: [u8; LONGEST],
    length: u8,
}

impl Code {
    /// The instruction's 1 to 15 bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// One event of a program's execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A new instruction, which gets the next number; the first is 0.
    Code(Code),
    /// The instruction with this number is executed.
    Executed(u64),
    /// The instruction executed last accesses memory.
    Access(Access),
    /// Memory is mapped, from the first address to the address after its last byte.
    Mapped(u64, u64),
    /// Memory is unmapped, from the first address to the address after its last byte.
    Unmapped(u64, u64),
    /// The thread of the turn at hand begins; threads are numbered from 0.
    Thread(u64),
    /// What follows is of the thread with this number.
    Turn(u64),
    /// The thread comes to a point for which others may wait; points of all threads are numbered from 1.
    Point(u64),
    /// The thread goes on behind the point with this number, which was reported before.
    Behind(u64),
    /// The thread is in a system call until its next turn.
    InCall,
    /// The thread ends. The word at this address is cleared then; 0 for none.
    Ends(u64),
}

/// How the execution of a program ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExecutionEnd {
    /// Name and version of the recorder.
    pub recorder: String,
    /// The command's exit status; if the command was stopped, that of the signal that ended it.
    pub exit: ExitStatus,
    /// Whether the caller stopped the command before its end.
    pub stopped: bool,
}

/// Checks that a command can be followed on this machine.
///
/// # Errors
/// Says what keeps the command from being followed, such as a missing QEMU or program.
pub fn can_follow(command: &[OsString]) -> Result<(), CaptureError> {
    prepare(command).map(drop)
}

fn prepare(command: &[OsString]) -> Result<(NamedPipe, Qemu), CaptureError> {
    if command.is_empty() {
        return Err(CaptureError::NoCommand);
    }
    let pipe = NamedPipe::plan().map_err(CaptureError::Pipe)?;
    let qemu = Qemu::prepare(pipe.folder(), command)?;
    Ok((pipe, qemu))
}

/// Runs a command under QEMU's user mode and calls `each` for every event,
/// until `each` returns false. The command reads nothing, and what it prints is dropped: it runs for
/// its events alone.
///
/// # Errors
/// When QEMU cannot be used or fails, or when its output is damaged.
pub fn follow(
    command: &[OsString],
    each: &mut dyn FnMut(Event) -> bool,
) -> Result<ExecutionEnd, CaptureError> {
    let (pipe, qemu) = prepare(command)?;
    pipe.make().map_err(CaptureError::Pipe)?;
    let (reader, keeper) = pipe.open().map_err(CaptureError::Pipe)?;
    let child = qemu
        .command(pipe.path(), PluginReport::Instructions)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let child = child.map_err(CaptureError::Start)?;
    let mut events = Events::new(reader, pipe.path());
    let (stopped, exit) = beside(child, keeper, |finished| {
        let stopped = events.each(each);
        finished(matches!(stopped, Ok(false)));
        drop(events);
        stopped
    })?;
    Ok(ExecutionEnd {
        recorder: format!("{}, user mode", qemu.version),
        exit,
        stopped: stopped?,
    })
}

/// Reads events from the plugin's words.
struct Events {
    words: Words,
    codes: u64,
    threads: u64,
    points: u64,
}

impl Events {
    fn new(input: Input, path: &Path) -> Events {
        Events {
            words: Words::new(input, path),
            codes: 0,
            threads: 0,
            points: 0,
        }
    }

    /// Calls `each` for every event and returns whether `each` stopped it.
    fn each(&mut self, each: &mut dyn FnMut(Event) -> bool) -> Result<bool, TraceError> {
        while let Some(event) = self.next()? {
            if !each(event) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn next(&mut self) -> Result<Option<Event>, TraceError> {
        let Some(word) = self.words.next()? else {
            return Ok(None);
        };
        let (value, kind) = (word >> 8, word & 0xff);
        let event = match kind {
            _ if kind < INSTRUCTIONS => Event::Access(self.words.access(word, SimTime::ZERO)?),
            EXECUTED if value < self.codes => Event::Executed(value),
            CODE if value == self.codes => {
                self.codes += 1;
                Event::Code(self.code()?)
            }
            MAPPED => Event::Mapped(value, value.saturating_add(self.rest()?)),
            UNMAPPED => Event::Unmapped(value, value.saturating_add(self.rest()?)),
            THREAD if value == self.threads => {
                self.threads += 1;
                Event::Thread(value)
            }
            TURN if value <= self.threads => Event::Turn(value),
            POINT if value == self.points + 1 => {
                self.points += 1;
                Event::Point(value)
            }
            BEHIND if (1..=self.points).contains(&value) => Event::Behind(value),
            IN_CALL => Event::InCall,
            ENDS => Event::Ends(value),
            THREAD | TURN => {
                let message = format!("found {value}; allowed: 0 to {}, in order", self.threads);
                return Err(self.words.wrong("thread", message));
            }
            POINT | BEHIND => {
                let message = format!("found {value}; allowed: 1 to {}, in order", self.points + 1);
                return Err(self.words.wrong("point", message));
            }
            EXECUTED | CODE => {
                let message = format!("found {value}; allowed: 0 to {}, in order", self.codes);
                return Err(self.words.wrong("instruction", message));
            }
            _ => {
                let message = format!("found {kind}; allowed: 0 to 63 and 65 to {ENDS}");
                return Err(self.words.wrong("kind", message));
            }
        };
        Ok(Some(event))
    }

    /// Reads a further word of the same event.
    fn rest(&mut self) -> Result<u64, TraceError> {
        let word = self.words.next()?;
        word.ok_or_else(|| self.words.wrong("word", "found the end: it is truncated"))
    }

    fn code(&mut self) -> Result<Code, TraceError> {
        let address = self.rest()?;
        let mut bytes = [0; LONGEST];
        let (low, high) = (self.rest()?.to_le_bytes(), self.rest()?.to_le_bytes());
        bytes[..8].copy_from_slice(&low);
        bytes[8..].copy_from_slice(&high[..LONGEST - 8]);
        let length = high[LONGEST - 8];
        if !(1..=LONGEST as u8).contains(&length) {
            let message = format!("found {length}; allowed: 1 to {LONGEST}");
            return Err(self.words.wrong("length", message));
        }
        Ok(Code {
            address,
            bytes,
            length,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;
    use crate::op::OpKind;

    fn events(words: &[u64]) -> Result<Vec<Event>, String> {
        let mut bytes = b"CXLBREC2".to_vec();
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let input: Input = BufReader::new(Box::new(Cursor::new(bytes)));
        let mut found = Vec::new();
        let mut all = Events::new(input, Path::new("pipe"));
        let ended = all.each(&mut |event| {
            found.push(event);
            true
        });
        ended.map(|_| found).map_err(|error| error.to_string())
    }

    #[test]
    fn instructions_are_told_once_and_then_by_number() {
        let words = [
            69,
            66,
            0x40_0000,
            0x8b48,
            3 << 56,
            65,
            0x1000 << 8 | 6,
            65,
            0x7000 << 8 | 67,
            4096,
            0x7000 << 8 | 68,
            4096,
        ];
        let found = events(&words).unwrap();
        let Event::Code(code) = found[1] else {
            panic!("{found:?}");
        };
        assert_eq!(code.address, 0x40_0000);
        assert_eq!(code.bytes(), [0x48, 0x8b, 0x00]);
        let access = Access {
            address: 0x1000,
            size: 8,
            kind: OpKind::Read,
            time: SimTime::ZERO,
        };
        assert_eq!(
            found[2..],
            [
                Event::Executed(0),
                Event::Access(access),
                Event::Executed(0),
                Event::Mapped(0x7000, 0x8000),
                Event::Unmapped(0x7000, 0x8000),
            ]
        );
    }

    #[test]
    fn threads_go_on_behind_points_of_others() {
        let words = [
            70,
            69,
            1 << 8 | 71,
            73,
            1 << 8 | 70,
            1 << 8 | 69,
            1 << 8 | 72,
            2 << 8 | 71,
            0x7fc0 << 8 | 74,
            70,
            2 << 8 | 72,
        ];
        let expected = [
            Event::Turn(0),
            Event::Thread(0),
            Event::Point(1),
            Event::InCall,
            Event::Turn(1),
            Event::Thread(1),
            Event::Behind(1),
            Event::Point(2),
            Event::Ends(0x7fc0),
            Event::Turn(0),
            Event::Behind(2),
        ];
        assert_eq!(events(&words).unwrap(), expected);
        let message = |words: &[u64]| events(words).unwrap_err();
        assert!(message(&[1 << 8 | 70]).contains("`thread`: found 1"));
        assert!(message(&[1 << 8 | 69]).contains("`thread`: found 1"));
        assert!(message(&[2 << 8 | 71]).contains("`point`: found 2"));
        assert!(message(&[1 << 8 | 72]).contains("`point`: found 1"));
    }

    #[test]
    fn what_is_damaged_is_told_and_nothing_panics() {
        let message = |words: &[u64]| events(words).unwrap_err();
        assert!(message(&[65]).contains("`instruction`: found 0"));
        assert!(message(&[5 << 8 | 66]).contains("`instruction`: found 5"));
        assert!(message(&[66, 0, 0, 16 << 56]).contains("`length`: found 16"));
        assert!(message(&[66, 0]).contains("truncated"));
        assert!(message(&[0x40 << 8 | 67]).contains("truncated"));
        assert!(message(&[64]).contains("`kind`: found 64"));
        assert!(message(&[u64::MAX]).contains("found 255"));
    }
}
