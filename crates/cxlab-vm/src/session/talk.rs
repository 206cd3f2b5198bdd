//! Collects a guest's messages into an [`Outcome`].

use std::time::Instant;

use super::{GuestRun, MOST_RUNS, Outcome, Region};
use crate::console::{Console, GuestMessage};

/// Bytes of a program's output that a report keeps.
pub(super) const MOST_OUTPUT: usize = 64 << 10;
/// Bytes of the guest's console that are kept in all.
pub(super) const MOST_CONSOLE: usize = 4 << 20;
/// Lines of the guest's console that are shown when QEMU has ended early.
const MOST_LAST: usize = 20;

/// State of the conversation so far.
pub(super) struct Conversation {
    began: Instant,
    pub(super) outcome: Outcome,
    current: Option<GuestRun>,
    kept: usize,
    pub(super) failed: Option<String>,
    /// Whether the guest waits to be released.
    pub(super) held: bool,
    pub(super) done: bool,
}

impl Conversation {
    pub(super) fn new(began: Instant) -> Conversation {
        Conversation {
            began,
            outcome: Outcome::default(),
            current: None,
            kept: 0,
            failed: None,
            held: false,
            done: false,
        }
    }

    /// Processes a message of the guest. `show` is called with each line that a program writes.
    pub(super) fn receive(&mut self, said: GuestMessage, show: &mut dyn FnMut(&str)) {
        let elapsed = self.began.elapsed().as_secs_f64();
        match said {
            GuestMessage::Up(_) => self.outcome.boot_s = Some(elapsed),
            GuestMessage::Ready(_) => self.outcome.ready_s = Some(elapsed),
            GuestMessage::Hold => self.held = true,
            GuestMessage::Clock(name) => self.outcome.clocksource = name,
            GuestMessage::Window {
                number,
                address,
                node,
            } if self.outcome.regions.len() < crate::machine::MOST_WINDOWS => {
                self.outcome.regions.push(Region {
                    window: number,
                    address,
                    node,
                });
            }
            GuestMessage::Window { .. } => {}
            GuestMessage::Begin(memory) => {
                self.kept = 0;
                self.current = Some(GuestRun {
                    memory,
                    ..GuestRun::default()
                });
            }
            GuestMessage::Took(nanos) => {
                if let Some(run) = &mut self.current {
                    run.guest_s = Some(nanos as f64 / 1e9);
                }
            }
            GuestMessage::End(code) => {
                if let Some(mut run) = self.current.take()
                    && self.outcome.runs.len() < MOST_RUNS
                {
                    run.exit_code = code;
                    self.outcome.runs.push(run);
                }
            }
            GuestMessage::Failed(text) => self.failed = Some(text),
            GuestMessage::Done => self.done = true,
            GuestMessage::Line(line) => self.line(line, show),
        }
    }

    /// Processes the console output from before a restored guest was saved.
    pub(super) fn recall(&mut self, said: &[u8]) {
        let mut console = Console::default();
        console.feed(said, |said| self.receive(said, &mut |_| {}));
        self.outcome.boot_s = None;
        self.outcome.ready_s = None;
        self.outcome.restored_s = Some(self.began.elapsed().as_secs_f64());
    }

    /// Reason why QEMU ended before the guest had finished: QEMU's messages, or the guest's last lines.
    pub(super) fn end_reason(&self, said: &[u8]) -> String {
        let mut lines = Vec::new();
        let mut console = Console::default();
        let mut take = |said| {
            if let GuestMessage::Line(line) = said {
                lines.push(line);
            }
        };
        console.feed(said, &mut take);
        console.finish(&mut take);
        if lines.is_empty() {
            let guest = &self.outcome.console;
            let last = &guest[guest.len().saturating_sub(MOST_LAST)..];
            lines.push("the guest went before its programs had ended".to_owned());
            lines.extend_from_slice(last);
        }
        lines.join("\n")
    }

    fn line(&mut self, line: String, show: &mut dyn FnMut(&str)) {
        self.kept += line.len() + 1;
        if let Some(run) = &mut self.current {
            show(&line);
            if self.kept <= MOST_OUTPUT {
                run.output.push(line);
            }
        } else if self.kept <= MOST_CONSOLE {
            self.outcome.console.push(line);
        }
    }
}
