//! Exact windows: a stopped thread is single-stepped over some hundred to a few thousand instructions, each of which is
//! decoded before it executes. [`crate::extrapolation`] extrapolates from there.
//!
//! A window ends before the program enters the kernel or uses the trap flag, when a signal arrives, after
//! [`INSTRUCTIONS`], or after [`TIME`], whichever is first.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::decode::{Analyst, LONGEST, SingleStep};
use crate::maps;
use crate::model::{LEAD_IN, Step};
use crate::placement::PAGE;
use crate::progress::ThreadPlace;
use crate::sys::{self, Registers, Resume, Status, Tid};

/// Most instructions of a window.
const INSTRUCTIONS: u64 = 4096;
/// Longest duration of a window, except in loops that have not completed a round.
const TIME: Duration = Duration::from_millis(4);
/// Longest duration of any window (*assumed*: some 500 instructions of 25 us each), and the reciprocal of the share of the
/// program's time so far that a window may take beyond [`TIME`].
const ROUND_TIME: Duration = Duration::from_millis(12);
const ROUND_PART: u32 = 16;
/// Longest duration of the lead-in of a window.
const LEAD_IN_TIME: Duration = Duration::from_millis(1);
/// The code segment of 64-bit programs.
const CS_64: u64 = 0x33;

/// State of the thread after a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterWindow {
    /// Stopped as before the window. It may be resumed.
    Stopped,
    /// Stopped with this event, which the tracer has yet to handle.
    News(Status),
    /// Ended in an unknown way.
    Gone,
}

/// Code of the program, cached by page. `None` marks a page that cannot be read.
#[derive(Default)]
struct Code {
    pages: HashMap<u64, Option<Box<[u8; PAGE as usize]>>>,
}

impl Code {
    /// Copies the bytes at an address into `bytes` and returns their number: [`LONGEST`], or fewer
    /// before a page that cannot be read.
    fn at(&mut self, tid: Tid, address: u64, bytes: &mut [u8; LONGEST]) -> usize {
        let mut count = 0;
        while count < LONGEST {
            let at = address.wrapping_add(count as u64);
            let Some(page) = self.page(tid, at / PAGE) else {
                break;
            };
            let from = (at % PAGE) as usize;
            let part = (LONGEST - count).min(PAGE as usize - from);
            bytes[count..count + part].copy_from_slice(&page[from..from + part]);
            count += part;
        }
        count
    }

    fn page(&mut self, tid: Tid, number: u64) -> Option<&[u8; PAGE as usize]> {
        let page = self.pages.entry(number).or_insert_with(|| {
            let mut page = Box::new([0; PAGE as usize]);
            let read = sys::read_memory(tid, number * PAGE, page.as_mut_slice());
            read.is_ok_and(|count| count == PAGE as usize)
                .then_some(page)
        });
        page.as_deref()
    }
}

/// Instructions that a window observed.
pub(crate) struct ObservedWindow {
    /// The executed instructions, in order.
    pub(crate) steps: Vec<Step>,
    /// The registers before each instruction.
    pub(crate) places: Vec<ThreadPlace>,
    /// Number of instructions of the lead-in, which only mark lines as touched.
    pub(crate) lead_in: usize,
    pub(crate) after: AfterWindow,
}

impl ObservedWindow {
    /// Whether the first instruction that counts was executed again.
    fn is_round(&self) -> bool {
        let counted = self.places.get(self.lead_in..).unwrap_or_default();
        let counted = &counted[..counted.len() - counted.len() / 8];
        let mut codes = counted.iter().map(|place| place.code);
        let first = codes.next();
        codes.any(|code| Some(code) == first)
    }
}

/// The place of a thread: its instruction pointer and the general registers but for the stack pointer.
pub(crate) fn place(registers: &Registers) -> ThreadPlace {
    let all = registers;
    let values = [
        all.rax, all.rbx, all.rcx, all.rdx, all.rsi, all.rdi, all.rbp, all.r8, all.r9, all.r10,
        all.r11, all.r12, all.r13, all.r14, all.r15,
    ];
    let code = all.rip;
    ThreadPlace { code, values }
}

/// Whether a thread was stopped on its way out of a system call.
pub(crate) fn is_inside(registers: &Registers) -> bool {
    registers.orig_rax as i64 >= 0
}

/// Longest duration of a window of a program that was followed for `followed`. Short programs have short windows.
fn longest(followed: Duration) -> Duration {
    (followed / ROUND_PART).clamp(TIME, ROUND_TIME)
}

/// Single-steps a stopped thread through a window, in a program that was followed for `followed`.
pub(crate) fn run(tid: Tid, followed: Duration) -> ObservedWindow {
    let mut seen = ObservedWindow {
        steps: Vec::new(),
        places: Vec::new(),
        lead_in: LEAD_IN as usize,
        after: AfterWindow::Stopped,
    };
    let mut analyst = Analyst::new();
    let (mut code, mut step) = (Code::default(), Step::default());
    let began = Instant::now();
    let longest = longest(followed);
    // The first step would continue the system call, for as long as that call takes.
    if sys::registers(tid).is_ok_and(|registers| is_inside(&registers)) {
        return seen;
    }
    // Tracer and thread alternate at each step. On one processor, neither must wake another.
    let processor = maps::stat(tid).ok().map(|stat| stat.processor);
    let together = processor.map(|processor| sys::SharedProcessor::on(processor, tid));
    for number in 0..INSTRUCTIONS {
        if number % 16 == 0 {
            let passed = began.elapsed();
            if passed > LEAD_IN_TIME {
                seen.lead_in = seen.lead_in.min(seen.steps.len());
            }
            if passed > longest || passed > TIME && seen.is_round() {
                break;
            }
        }
        let Ok(registers) = sys::registers(tid) else {
            seen.after = AfterWindow::Gone;
            break;
        };
        if !decode(tid, &registers, &mut code, &mut analyst, &mut step) {
            break;
        }
        seen.after = advance(tid);
        if seen.after != AfterWindow::Stopped {
            break;
        }
        seen.steps.push(step.clone());
        seen.places.push(place(&registers));
    }
    drop(together);
    seen
}

/// Decodes the next instruction of a stopped thread into `step`. Returns whether it may be single-stepped.
fn decode(
    tid: Tid,
    registers: &Registers,
    code: &mut Code,
    analyst: &mut Analyst,
    step: &mut Step,
) -> bool {
    let mut bytes = [0; LONGEST];
    let count = code.at(tid, registers.rip, &mut bytes);
    registers.cs == CS_64 && analyst.decode(registers, &bytes[..count], step) == SingleStep::Plain
}

/// Executes one instruction.
fn advance(tid: Tid) -> AfterWindow {
    if sys::resume(tid, Resume::Step).is_err() {
        return AfterWindow::Gone;
    }
    match sys::wait(tid, true) {
        Ok(Some((_, Status::Signal(libc::SIGTRAP)))) => AfterWindow::Stopped,
        Ok(Some((_, status))) => AfterWindow::News(status),
        Ok(None) | Err(_) => AfterWindow::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of a loop of that many instructions, the first `before` of which do not count.
    fn seen(instructions: u64, loop_length: u64, lead_in: usize) -> ObservedWindow {
        let place = |number| ThreadPlace {
            code: 0x1000 + number % loop_length,
            values: [0; 15],
        };
        ObservedWindow {
            steps: vec![Step::default(); instructions as usize],
            places: (0..instructions).map(place).collect(),
            lead_in,
            after: AfterWindow::Stopped,
        }
    }

    #[test]
    fn short_programs_have_short_windows() {
        let longest = |followed| longest(Duration::from_millis(followed)).as_millis();
        assert_eq!([0, 50, 96, 400].map(longest), [4, 4, 6, 12]);
    }

    #[test]
    fn a_loop_has_come_round_before_the_last_eighth() {
        assert!(!seen(48, 300, 48).is_round() && !seen(20, 1, 48).is_round());
        assert!(!seen(348, 300, 48).is_round());
        // An eighth of 343 is 42: the last eighth begins at instruction 301 that counts, and 302 are too few.
        assert!(!seen(48 + 342, 300, 48).is_round());
        assert!(seen(48 + 344, 300, 48).is_round());
        assert!(seen(48 + 128, 3, 48).is_round());
    }
}
