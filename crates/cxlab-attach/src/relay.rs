//! What the command and its guard tell each other while a program is followed.
//!
//! A user, a shell or a supervisor knows only the command. So the command passes each signal that a
//! process sent to it on to the program, and stops itself when the program stops. Signals of the
//! terminal's keys reach the program without that, because they go to a whole process group.
//!
//! A process may send a signal to the group too (`kill %1`). The program then has the signal
//! already, or has it pending, and the one of the command is not passed on.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::maps;
use crate::sys::{self, SentSignal, Tid};

/// Time that a signal of the command waits for the same signal of its group to reach the program,
/// and time for which a signal that the program had is remembered (*assumed*: the kernel gives a
/// signal to all processes of a group within microseconds).
const GRACE: Duration = Duration::from_millis(20);
const SIGNAL_MEMORY: Duration = Duration::from_secs(1);
/// Time between two checks whether the command is stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Content of a datagram, as JSON.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum Message {
    /// To the guard: the command received this signal from a process.
    Signal(SentSignal),
    /// To the guard: release the program.
    Leave,
    /// To the command: this signal stopped the program.
    Stopped(i32),
}

/// The command's or the guard's end of the connection between both.
pub(crate) struct Link(UnixDatagram);

impl Link {
    /// The command's end and the guard's end. Programs that are started do not inherit them.
    pub(crate) fn pair() -> io::Result<(Link, Link)> {
        let (one, other) = UnixDatagram::pair()?;
        one.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        Ok((Link(one), Link(other)))
    }

    /// Sends a message. It is lost if the other end is gone.
    pub(crate) fn send(&self, message: Message) {
        if let Ok(bytes) = serde_json::to_vec(&message) {
            let _ = self.0.send(&bytes);
        }
    }

    /// The next message, if there is one.
    pub(crate) fn receive(&self) -> Option<Message> {
        let mut bytes = [0; 128];
        let count = self.0.recv(&mut bytes).ok()?;
        serde_json::from_slice(&bytes[..count]).ok()
    }
}

/// The guard's side.
pub(crate) struct Relay {
    link: Link,
    command: Tid,
    /// The program that the command started. `None` for a process that ran already, which gets no
    /// signals of the command.
    program: Option<Tid>,
    /// Signals that the program received lately, and pending signals for it that may be duplicates.
    had: Vec<(SentSignal, Instant)>,
    waiting: Vec<(SentSignal, Instant)>,
    /// Whether one of its own stop signals holds the program.
    is_stopped: bool,
    /// Whether the command was stopped at the last check, and time of the next check.
    command_stopped: bool,
    next_poll: Instant,
    leave: bool,
}

impl Relay {
    pub(crate) fn new(link: Link, command: Tid, program: Option<Tid>) -> Relay {
        Relay {
            link,
            command,
            program,
            had: Vec::new(),
            waiting: Vec::new(),
            is_stopped: false,
            command_stopped: false,
            next_poll: Instant::now(),
            leave: false,
        }
    }

    /// Whether this process is the program that the command started, whose end is the end of the run.
    pub(crate) fn is_program(&self, pid: Tid) -> bool {
        self.program == Some(pid)
    }

    /// Whether the program must be released: the command said so, or is gone.
    pub(crate) fn must_leave(&self) -> bool {
        self.leave || sys::parent() != self.command
    }

    /// Records a signal that the program is about to receive.
    pub(crate) fn arrived(&mut self, given: SentSignal) {
        if !take(&mut self.waiting, given) {
            self.had.push((given, Instant::now()));
        }
    }

    /// Records that a signal stopped the program.
    pub(crate) fn stopped(&mut self, signal: i32) {
        // A command that is stopped itself stopped the program, and must not stop once more.
        if !std::mem::replace(&mut self.is_stopped, true) && !self.command_stopped {
            self.link.send(Message::Stopped(signal));
            let _ = sys::kill(self.command, libc::SIGCHLD);
        }
    }

    /// Records that the program continues.
    pub(crate) fn continued(&mut self) {
        self.is_stopped = false;
    }

    /// Receives the command's messages, and passes on due signals.
    pub(crate) fn pass_on(&mut self) {
        let now = Instant::now();
        self.had.retain(|(_, at)| now < *at + SIGNAL_MEMORY);
        while let Some(message) = self.link.receive() {
            match message {
                Message::Leave => self.leave = true,
                Message::Signal(given) if take(&mut self.had, given) => {}
                Message::Signal(given) => self.waiting.push((given, now + GRACE)),
                Message::Stopped(_) => {}
            }
        }
        let Some(program) = self.program else { return };
        let pending = || maps::pending_signals(program).unwrap_or(0);
        self.waiting.retain(|(given, due)| {
            let waits = now < *due;
            if !waits && pending() & 1 << (given.signal - 1) == 0 {
                let _ = sys::kill(program, given.signal);
            }
            waits
        });
        if now >= self.next_poll {
            self.next_poll = now + POLL_INTERVAL;
            self.stop_with_command(program);
        }
    }

    /// Stops the program if a signal that cannot be caught has stopped the command. Two checks in a row must find it
    /// stopped, because the command may just be continuing.
    fn stop_with_command(&mut self, program: Tid) {
        let stopped = maps::stat(self.command).is_ok_and(|stat| stat.state == 'T');
        let before = std::mem::replace(&mut self.command_stopped, stopped);
        if stopped && before && !self.is_stopped {
            let _ = sys::kill(program, libc::SIGSTOP);
        }
    }
}

/// Takes the first of equal signals out of a list. Returns whether there is one.
fn take(signals: &mut Vec<(SentSignal, Instant)>, given: SentSignal) -> bool {
    let found = signals.iter().position(|(other, _)| *other == given);
    found.map(|at| signals.remove(at)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(signal: i32) -> SentSignal {
        SentSignal {
            signal,
            sender: 4711,
        }
    }

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let (one, other) = Link::pair().unwrap();
        let stopped = Message::Stopped(libc::SIGTSTP);
        let sent = [Message::Signal(given(15)), Message::Leave, stopped];
        sent.into_iter().for_each(|message| one.send(message));
        let found: Vec<Message> = std::iter::from_fn(|| other.receive()).collect();
        assert_eq!(found, sent);
    }

    /// The program has what the whole group was sent, before or after the command.
    #[test]
    fn a_signal_of_the_group_is_not_passed_on() {
        let (command, guard) = Link::pair().unwrap();
        // No process has the number, so nothing is really sent.
        let mut relay = Relay::new(guard, sys::parent(), Some(i32::MAX));
        relay.arrived(given(10));
        command.send(Message::Signal(given(10)));
        relay.pass_on();
        assert!(relay.waiting.is_empty() && relay.had.is_empty());
        command.send(Message::Signal(given(12)));
        relay.pass_on();
        assert_eq!(relay.waiting.len(), 1);
        relay.arrived(given(12));
        assert!(relay.waiting.is_empty() && relay.had.is_empty());
        command.send(Message::Leave);
        relay.pass_on();
        assert!(relay.must_leave());
    }
}
