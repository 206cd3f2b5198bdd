//! Memory shared by a run and the process of a medium: a ring of calls, and the answer
//! to the last call.
//!
//! The run counts the calls that it has written to the ring, and the process counts the calls that
//! it has answered. Each side writes only its own count. Calls without an answer
//! (`enqueue`, `begin_measurement`) wait in the ring until the next call that has one. A waiting
//! side polls the counts for a while and then sleeps on a socket, on which the other side wakes it
//! with a byte. Every word is atomic: the process may write any value at any time, and a read then
//! returns a wrong value but is never undefined behaviour.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

use memmap2::{MmapOptions, MmapRaw};

use crate::{Completion, ROOM, Request};

/// Most calls in the ring.
pub(crate) const CALLS: u32 = 64;
/// Longest name of a statistic, in bytes.
pub(crate) const NAME: usize = 128;
/// Polls of a waiting side on a machine with several processors: 2 to 10 us, depending on
/// the processor's spin hint. More polls would keep the other side from running where
/// both share a processor.
const LOOKS: u32 = 200;
/// Number of times that a waiting side then yields its processor to other
/// processes, before it sleeps.
const YIELDS: u32 = 4;

/// A call of a library function, encoded in four words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    CanAccept { now: u64, write: bool },
    Enqueue { now: u64, request: Request },
    NextEvent,
    Advance { now: u64 },
    Statistic { number: u64 },
    Destroy,
    BeginMeasurement { now: u64 },
}

/// The names of the library's functions, by the number in [`Shared::inside`]; 0 is none.
pub(crate) const FUNCTIONS: [&str; 9] = [
    "",
    "can_accept",
    "enqueue",
    "next_event",
    "advance",
    "statistic",
    "destroy",
    "create",
    "begin_measurement",
];
/// The number of `create` in [`FUNCTIONS`].
pub(crate) const CREATE: u32 = 7;

impl Call {
    /// The number of the call's function in [`FUNCTIONS`].
    pub(crate) fn function(&self) -> u32 {
        match self {
            Call::CanAccept { .. } => 1,
            Call::Enqueue { .. } => 2,
            Call::NextEvent => 3,
            Call::Advance { .. } => 4,
            Call::Statistic { .. } => 5,
            Call::Destroy => 6,
            Call::BeginMeasurement { .. } => 8,
        }
    }

    fn words(self) -> [u64; 4] {
        let function = u64::from(self.function());
        match self {
            Call::CanAccept { now, write } => [function, now, write.into(), 0],
            Call::Enqueue { now, request } => {
                let shape = u64::from(request.lines) | u64::from(request.write) << 16;
                let id = u64::from(request.id);
                [function | shape << 8, now, request.address, id]
            }
            Call::NextEvent | Call::Destroy => [function, 0, 0, 0],
            Call::Advance { now } | Call::BeginMeasurement { now } => [function, now, 0, 0],
            Call::Statistic { number } => [function, number, 0, 0],
        }
    }

    fn of(words: [u64; 4]) -> Option<Call> {
        let [first, second, third, fourth] = words;
        let now = second;
        Some(match first & 0xff {
            1 => Call::CanAccept {
                now,
                write: third != 0,
            },
            2 => {
                let request = Request {
                    address: third,
                    id: fourth as u32,
                    lines: (first >> 8) as u16,
                    write: (first >> 24) as u16,
                };
                Call::Enqueue { now, request }
            }
            3 => Call::NextEvent,
            4 => Call::Advance { now },
            5 => Call::Statistic { number: second },
            6 => Call::Destroy,
            8 => Call::BeginMeasurement { now },
            _ => return None,
        })
    }
}

/// The words that one side writes, in cache lines of their own.
#[repr(C, align(128))]
struct Side {
    /// Number of calls that the run has written, or that the process has answered.
    count: AtomicU32,
    /// 1 while this side sleeps on its socket.
    sleeps: AtomicU32,
}

#[repr(C)]
struct Shared {
    run: Side,
    process: Side,
    /// The number of the function that the process is in; 0 between calls.
    inside: AtomicU32,
    /// First value of an answer: a count or a truth value.
    value: AtomicU64,
    /// Second value of an answer: the time of the next event, or a statistic's value.
    next: AtomicU64,
    done: [[AtomicU64; 2]; ROOM],
    name: [AtomicU64; NAME / 8],
    calls: [[AtomicU64; 4]; CALLS as usize],
}

/// Size of the shared memory in bytes.
pub(crate) const BYTES: u64 = size_of::<Shared>() as u64;

/// One side's view of the shared memory.
pub(crate) struct Ring {
    memory: MmapRaw,
    looks: u32,
}

impl Ring {
    /// Maps a file of [`BYTES`] bytes, which must be all zeros before the first use.
    ///
    /// # Errors
    /// When the file has another size, or when the system cannot map it.
    pub(crate) fn new(file: &File) -> io::Result<Ring> {
        if file.metadata()?.len() != BYTES {
            return Err(io::Error::other("found a file of another size"));
        }
        let several = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
        Ok(Ring {
            memory: MmapOptions::new().len(BYTES as usize).map_raw(file)?,
            looks: if several { LOOKS } else { 0 },
        })
    }

    #[expect(unsafe_code, reason = "memory that another process writes to")]
    fn shared(&self) -> &Shared {
        // SAFETY: the mapping lives as long as `self`, begins on a page and is long enough; every word of
        // `Shared` is atomic, of which any value is one, so that it may be written to meanwhile.
        unsafe { &*self.memory.as_mut_ptr().cast::<Shared>() }
    }

    fn side(&self, run: bool) -> &Side {
        let shared = self.shared();
        if run { &shared.run } else { &shared.process }
    }

    /// Writes a call to the ring, for the run; returns false when the ring is full.
    pub(crate) fn write(&self, call: Call) -> bool {
        let shared = self.shared();
        let head = shared.run.count.load(Relaxed);
        if head.wrapping_sub(shared.process.count.load(Acquire)) >= CALLS {
            return false;
        }
        let place = &shared.calls[(head % CALLS) as usize];
        for (word, value) in place.iter().zip(call.words()) {
            word.store(value, Relaxed);
        }
        shared.run.count.store(head.wrapping_add(1), SeqCst);
        true
    }

    /// Whether the process has answered every call that the run has written.
    pub(crate) fn is_answered(&self) -> bool {
        let shared = self.shared();
        shared.process.count.load(SeqCst) == shared.run.count.load(SeqCst)
    }

    /// The next call, for the process: `None` while there is none, `Some(None)` if its words
    /// are not a call.
    pub(crate) fn call(&self) -> Option<Option<Call>> {
        let shared = self.shared();
        let tail = shared.process.count.load(Relaxed);
        if self.is_answered() {
            return None;
        }
        let place = &shared.calls[(tail % CALLS) as usize];
        Some(Call::of(place.each_ref().map(|word| word.load(Relaxed))))
    }

    /// Counts the current call as answered.
    pub(crate) fn answered(&self) {
        let count = &self.shared().process.count;
        count.store(count.load(Relaxed).wrapping_add(1), SeqCst);
    }

    /// Whether the other side sleeps and this side must wake it. Clears the mark, so that the other
    /// side is woken only once.
    pub(crate) fn must_wake(&self, run: bool) -> bool {
        let sleeps = &self.side(run).sleeps;
        sleeps.load(SeqCst) != 0 && sleeps.swap(0, SeqCst) != 0
    }

    /// Waits until `there` returns true: polls first, then calls `sleep` between checks.
    ///
    /// # Errors
    /// The error that `sleep` returned.
    pub(crate) fn wait<E>(
        &self,
        run: bool,
        there: impl Fn() -> bool,
        mut sleep: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut looks = 0;
        while !there() {
            if looks < self.looks + YIELDS {
                looks += 1;
                match looks <= self.looks {
                    true => std::hint::spin_loop(),
                    false => std::thread::yield_now(),
                }
                continue;
            }
            let sleeps = &self.side(run).sleeps;
            sleeps.store(1, SeqCst);
            if there() {
                sleeps.store(0, SeqCst);
                break;
            }
            sleep()?;
        }
        Ok(())
    }

    pub(crate) fn enter(&self, function: u32) {
        self.shared().inside.store(function, Relaxed);
    }

    /// The name of the function that the process is in; empty between calls.
    pub(crate) fn inside(&self) -> &'static str {
        let inside = self.shared().inside.load(Relaxed) as usize;
        FUNCTIONS.get(inside).copied().unwrap_or_default()
    }

    pub(crate) fn set_value(&self, value: u64) {
        self.shared().value.store(value, Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.shared().value.load(Relaxed)
    }

    pub(crate) fn set_next(&self, at: u64) {
        self.shared().next.store(at, Relaxed);
    }

    pub(crate) fn next(&self) -> u64 {
        self.shared().next.load(Relaxed)
    }

    pub(crate) fn set_done(&self, done: &[Completion]) {
        for (place, one) in self.shared().done.iter().zip(done) {
            place[0].store(one.at, Relaxed);
            place[1].store(one.id.into(), Relaxed);
        }
    }

    pub(crate) fn done(&self, done: &mut [Completion]) {
        for (one, place) in done.iter_mut().zip(&self.shared().done) {
            one.at = place[0].load(Relaxed);
            one.id = place[1].load(Relaxed) as u32;
        }
    }

    /// Stores a name, which is cut if it is too long, and otherwise ended by a zero.
    pub(crate) fn set_name(&self, name: &str) {
        let mut bytes = [0; NAME];
        let mut end = name.len().min(NAME);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        bytes[..end].copy_from_slice(&name.as_bytes()[..end]);
        for (word, bytes) in self.shared().name.iter().zip(bytes.as_chunks().0) {
            word.store(u64::from_le_bytes(*bytes), Relaxed);
        }
    }

    pub(crate) fn name(&self) -> String {
        let words = self.shared().name.iter();
        let bytes = words.flat_map(|word| word.load(Relaxed).to_le_bytes());
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Both sides of a ring, with `looks` polls before they sleep.
    fn pair(looks: u32) -> [Ring; 2] {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(BYTES).expect("its length");
        [(); 2].map(|()| Ring {
            looks,
            ..Ring::new(&file).expect("a mapping")
        })
    }

    #[test]
    fn calls_come_back_from_their_words_and_other_words_are_none() {
        let request = Request {
            address: u64::MAX - 63,
            id: u32::MAX,
            lines: 1024,
            write: 1,
        };
        for call in [
            Call::CanAccept {
                now: 7,
                write: true,
            },
            Call::Enqueue { now: 9, request },
            Call::NextEvent,
            Call::Advance { now: u64::MAX },
            Call::Statistic { number: 3 },
            Call::Destroy,
            Call::BeginMeasurement { now: 11 },
        ] {
            assert_eq!(Call::of(call.words()), Some(call));
        }
        for function in [0, 7, 9, 255] {
            assert_eq!(Call::of([function, 1, 2, 3]), None, "{function}");
        }
    }

    #[test]
    fn a_full_ring_takes_no_call_until_one_is_answered() {
        let [run, process] = pair(1);
        for number in 0..CALLS {
            let number = number.into();
            assert!(run.write(Call::Statistic { number }));
        }
        assert!(!run.write(Call::NextEvent));
        assert_eq!(process.call(), Some(Some(Call::Statistic { number: 0 })));
        process.answered();
        assert!(run.write(Call::NextEvent));
        assert!(!run.is_answered());
    }

    /// Any words that a faulty process writes are read as some value.
    #[test]
    fn whatever_stands_in_the_memory_can_be_read() {
        let [run, process] = pair(1);
        process.enter(99);
        assert_eq!(run.inside(), "");
        for word in &process.shared().name {
            word.store(u64::MAX, Relaxed);
        }
        assert_eq!(run.name().chars().count(), NAME);
        process.shared().process.count.store(77, SeqCst);
        assert!(!run.is_answered());
        run.set_name(&"ä".repeat(NAME));
        assert_eq!(process.name(), "ä".repeat(NAME / 2));
    }

    /// Waits for a byte.
    fn sleep(socket: &mut UnixStream) -> std::io::Result<()> {
        socket.read_exact(&mut [0])
    }

    #[test]
    fn no_side_sleeps_through_what_the_other_does() {
        const ROUNDS: u64 = 20_000;
        for looks in [0, 3, LOOKS] {
            let [run, process] = pair(looks);
            let (mut here, mut there) = UnixStream::pair().expect("sockets");
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    for _ in 0..2 * ROUNDS {
                        let waited =
                            process.wait(false, || process.call().is_some(), || sleep(&mut there));
                        waited.expect("the run is there");
                        if let Some(Some(Call::Statistic { number })) = process.call() {
                            process.set_value(number + 1);
                        }
                        process.answered();
                        if process.must_wake(true) {
                            there.write_all(&[0]).expect("the run is there");
                        }
                    }
                });
                for number in 0..ROUNDS {
                    assert!(run.write(Call::NextEvent) && run.write(Call::Statistic { number }));
                    if run.must_wake(false) {
                        here.write_all(&[0]).expect("the process is there");
                    }
                    let waited = run.wait(true, || run.is_answered(), || sleep(&mut here));
                    waited.expect("the process is there");
                    assert_eq!(run.value(), number + 1);
                }
            });
        }
    }
}
