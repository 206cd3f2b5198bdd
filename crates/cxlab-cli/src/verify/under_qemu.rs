//! A command that is followed under QEMU's user mode.

use std::ffi::OsString;

use cxlab_attach::decode::{RegisterUses, uses};
use cxlab_attach::model::{Step, Touch};
use cxlab_workload::OpKind;
use cxlab_workload::capture::{Event, follow};

use super::{Execution, Listener, VerifyError};

/// Execution of a command under QEMU's user mode.
pub struct UnderQemu<'a>(pub &'a [OsString]);

/// The instruction that a thread executes.
#[derive(Default)]
struct Executing {
    step: Step,
    has_begun: bool,
}

impl Executing {
    /// Reports the instruction with its accesses. Returns false after the program has exceeded a limit.
    fn report(&mut self, thread: usize, listener: &mut dyn Listener) -> bool {
        !std::mem::take(&mut self.has_begun) || listener.instruction(thread, &self.step)
    }
}

impl Execution for UnderQemu<'_> {
    fn run(self, listener: &mut dyn Listener) -> Result<String, VerifyError> {
        let mut codes: Vec<(u64, RegisterUses)> = Vec::new();
        let mut threads = vec![Executing::default()];
        let mut at = 0;
        let followed = follow(self.0, &mut |event| {
            match event {
                Event::Code(code) => {
                    codes.push((code.address, uses(code.address, code.bytes())));
                }
                Event::Executed(number) => {
                    let own = &mut threads[at];
                    if !own.report(at, listener) {
                        return false;
                    }
                    own.has_begun = true;
                    let (address, code) = &codes[number as usize];
                    own.step.code = *address;
                    own.step.touches.clear();
                    own.step.addresses.clone_from(&code.addresses);
                    own.step.reads.clone_from(&code.reads);
                    own.step.writes.clone_from(&code.writes);
                }
                Event::Access(access) => {
                    let write = access.kind == OpKind::Write;
                    let last = (access.address + (access.size - 1)) / 64;
                    for line in access.address / 64..=last {
                        let address = (line * 64).max(access.address);
                        threads[at].step.touches.push(Touch { address, write });
                    }
                }
                Event::Mapped(start, end) => listener.map(start, end),
                Event::Unmapped(start, end) => listener.unmap(start, end),
                Event::Turn(thread) => {
                    at = thread as usize;
                    if threads.len() > 1 && at < threads.len() {
                        listener.away(at, false);
                    }
                }
                Event::Thread(0) => {}
                Event::Thread(_) => {
                    threads.push(Executing::default());
                    return listener.thread();
                }
                Event::Point(point) => {
                    let continues = threads[at].report(at, listener);
                    listener.point(at, point);
                    return continues;
                }
                Event::Behind(point) => listener.behind(at, point),
                Event::InCall => {
                    let continues = threads[at].report(at, listener);
                    listener.away(at, true);
                    return continues;
                }
                Event::Ends(address) => listener.end(at, address),
            }
            true
        });
        let followed =
            followed.map_err(|error| VerifyError::Mistake(format!("--verify: {error}")))?;
        for (at, own) in threads.iter_mut().enumerate() {
            own.report(at, listener);
        }
        Ok(followed.recorder)
    }
}
