//! A command that is followed under QEMU's user mode.

use std::ffi::OsString;

use cxlab_attach::decode::{Uses, uses};
use cxlab_attach::model::{Step, Touch};
use cxlab_workload::OpKind;
use cxlab_workload::capture::{Event, follow};

use super::{Execution, Listener, VerifyError};

/// A command, under QEMU's user mode.
pub struct UnderQemu<'a>(pub &'a [OsString]);

impl Execution for UnderQemu<'_> {
    fn run(self, listener: &mut dyn Listener) -> Result<String, VerifyError> {
        let mut codes: Vec<(u64, Uses)> = Vec::new();
        let mut step = Step::default();
        let mut executes = false;
        let mut refused = None;
        let followed = follow(self.0, &mut |event| {
            match event {
                Event::Code(code) => {
                    codes.push((code.address, uses(code.address, code.bytes())));
                }
                Event::Executed(number) => {
                    if executes && !listener.instruction(&step) {
                        refused = Some(
                            "--verify: found a program that misses its first cache too often to be \
                             kept; allowed: 67 million times"
                                .to_owned(),
                        );
                        return false;
                    }
                    executes = true;
                    let (address, own) = &codes[number as usize];
                    step.code = *address;
                    step.touches.clear();
                    step.addresses.clone_from(&own.addresses);
                    step.reads.clone_from(&own.reads);
                    step.writes.clone_from(&own.writes);
                }
                Event::Access(access) => {
                    let write = access.kind == OpKind::Write;
                    let last = (access.address + (access.size - 1)) / 64;
                    for line in access.address / 64..=last {
                        let address = (line * 64).max(access.address);
                        step.touches.push(Touch { address, write });
                    }
                }
                Event::Mapped(start, end) => listener.map(start, end),
                Event::Unmapped(start, end) => listener.unmap(start, end),
                Event::Thread(0) => {}
                Event::Thread(_) => {
                    refused = Some(
                        "--verify: found a program with threads; allowed: programs of one thread"
                            .to_owned(),
                    );
                    return false;
                }
            }
            true
        });
        let followed =
            followed.map_err(|error| VerifyError::Mistake(format!("--verify: {error}")))?;
        match refused {
            Some(why) => Err(VerifyError::Mistake(why)),
            None => {
                listener.instruction(&step);
                Ok(followed.recorder)
            }
        }
    }
}
