//! A plug-in process with arbitrary behaviour towards the shared memory and
//! the socket, and an arbitrary exit.
//!
//! An input is a script for such a process. The process is this program again. It implements a
//! memory with 80 ns a request, whose responses the script alters. [`drive`] makes the checks.
#![no_main]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::process::exit;
use std::sync::LazyLock;
use std::thread::{sleep, spawn};
use std::time::Duration;

use cxlab_engine::catalog::find;
use cxlab_engine::units::{Bytes, Dpa, SimTime};
use cxlab_fuzz::Choices;
use cxlab_memory::{CATALOG, MediumSite, MemoryRequest};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

/// The argument that makes this program a plug-in process.
const PEER: &str = "--peer";
const REQUESTS: u32 = 100;
/// Most requests that the unaltered memory accepts.
const ROOM: usize = 70;
const LATENCY_PS: u64 = 80_000;
/// Text that cannot be a path, so that no library is opened.
const LIBRARY: &str = "no library";

// Offsets in the shared memory: of counts (calls written, calls answered), of sleep flags, of the
// answer and of the calls. An unaltered run at the start fails if they are wrong.
const WRITTEN: u64 = 0;
const RUN_SLEEPS: u64 = 4;
const ANSWERED: u64 = 128;
const INSIDE: u64 = 256;
const VALUE: u64 = 264;
const NEXT: u64 = 272;
const DONE: u64 = 280;
const NAME: u64 = DONE + 64 * 16;
const CALLS: u64 = NAME + 128;
const CALL_COUNT: u32 = 64;

fuzz_target!(init: LazyLock::force(&READY), |data: &[u8]| {
    drive(data, "20 ms");
});

static READY: LazyLock<()> = LazyLock::new(|| {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [peer, _, memory, ..] = arguments.as_slice()
        && peer == PEER
    {
        // An error means that the run has ended.
        let _ = Peer::begin(memory);
        exit(0);
    }
    let program = std::env::current_exe().expect("the path of this program");
    cxlab_plugin::host(cxlab_plugin::Host {
        program,
        arguments: vec![PEER.into()],
    });
    cxlab_plugin::trust::trust_all();
    let (completed, fault) = drive(&[], "60 s");
    assert_eq!((completed, fault), (REQUESTS, None), "the honest memory");
});

/// Sends requests to a memory backend whose process follows a script. Returns the
/// number of completions, and the fault.
///
/// A request completes at most once, and completions are in order of time and not in the
/// future. A backend that has not completed all requests has reported a fault, which names
/// the plug-in, and reports nothing further.
fn drive(script: &[u8], patience: &str) -> (u32, Option<String>) {
    let config: String = script.iter().map(|byte| format!("{byte:02x}")).collect();
    let params = json!({ "library": LIBRARY, "config": config, "patience": patience });
    let entry = find(CATALOG, "plugin").expect("a medium of the catalog");
    let medium = (entry.build)(&params).expect("these parameters are right");
    let site = MediumSite::alone(Bytes(1 << 20), 1);
    let faults = site.context.faults.clone();
    let mut backend = medium.backend(site);
    let (mut now, mut sent, mut completed) = (0, 0, 0);
    let mut outstanding = [false; REQUESTS as usize];
    let mut done = Vec::new();
    for _ in 0..4 * REQUESTS {
        while sent < REQUESTS && backend.can_accept(SimTime(now), sent % 3 == 0) {
            outstanding[sent as usize] = true;
            let request = MemoryRequest {
                id: sent,
                dpa: Dpa(u64::from(sent) * 64),
                lines: 1,
                write: sent % 3 == 0,
            };
            assert_eq!(backend.enqueue(SimTime(now), request), None);
            sent += 1;
        }
        let silent = faults.first().is_some();
        let Some(next) = backend.next_event() else {
            break;
        };
        assert!(next.0 >= now && !silent, "{next:?} at {now}");
        now = next.0;
        done.clear();
        backend.advance(next, &mut done);
        assert!(done.is_sorted_by_key(|one| one.at));
        for one in &done {
            let was = std::mem::take(&mut outstanding[one.id as usize]);
            assert!(was && one.at.0 <= now, "{one:?} at {now}");
            completed += 1;
        }
    }
    let mut statistics = Vec::new();
    backend.statistics(SimTime(now), &mut statistics);
    drop(backend);
    let fault = faults.first().map(|(_, what)| what);
    if let Some(what) = &fault {
        assert!(
            what.starts_with(&format!("the plug-in `{LIBRARY}`: ")),
            "{what}"
        );
    }
    (completed, fault)
}

/// The process of a memory backend.
struct Peer<'a> {
    memory: File,
    script: Choices<'a>,
    /// Completion times and numbers of requests, in the order of the requests.
    queue: Vec<(u64, u32)>,
}

impl Peer<'_> {
    fn begin(memory: &str) -> io::Result<()> {
        // The run closes its end when it is done with this process, or when it has ended.
        spawn(|| {
            let _ = io::stdin().read(&mut [0]);
            exit(0)
        });
        let memory = File::options().read(true).write(true).open(memory)?;
        let mut socket = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let mut length = [0; 4];
        socket.read_exact(&mut length)?;
        let mut script = vec![0; u32::from_le_bytes(length) as usize];
        socket.read_exact(&mut script)?;
        let digits = |pair: &[u8]| {
            let text = std::str::from_utf8(pair).unwrap_or_default();
            u8::from_str_radix(text, 16).unwrap_or_default()
        };
        let script: Vec<u8> = script.chunks(2).map(digits).collect();
        let mut peer = Peer {
            memory,
            script: Choices(&script),
            queue: Vec::new(),
        };
        peer.greet(&mut socket)?;
        peer.serve(&mut socket)
    }

    /// Reports that the memory was made, or in one case of four sends the script's bytes instead.
    fn greet(&mut self, socket: &mut File) -> io::Result<()> {
        if self.script.byte() % 4 != 3 {
            return socket.write_all(b"\0\x02\0\0\x0064");
        }
        let count = usize::from(self.script.byte());
        socket.write_all(self.script.bytes(count))
    }

    fn serve(&mut self, socket: &mut File) -> io::Result<()> {
        loop {
            let answered = self.half(ANSWERED)?;
            if answered == self.half(WRITTEN)? {
                sleep(Duration::from_micros(20));
                continue;
            }
            let at = CALLS + u64::from(answered % CALL_COUNT) * 32;
            self.answer(at)?;
            self.interfere(socket)?;
            self.set_half(ANSWERED, answered.wrapping_add(1))?;
            if self.half(RUN_SLEEPS)? != 0 {
                self.set_half(RUN_SLEEPS, 0)?;
                socket.write_all(&[0])?;
            }
        }
    }

    /// Gives the correct response to the call at that offset.
    fn answer(&mut self, at: u64) -> io::Result<()> {
        let (call, now) = (self.word(at)?, self.word(at + 8)?);
        match call & 0xff {
            1 => self.set_word(VALUE, (self.queue.len() < ROOM).into())?,
            2 => {
                let last = self.queue.last().map_or(now, |(at, _)| *at);
                let id = self.word(at + 24)? as u32;
                self.queue.push((last.max(now) + LATENCY_PS, id));
            }
            3 => self.set_word(VALUE, self.next())?,
            4 => {
                let count = self.queue.iter().take_while(|(at, _)| *at <= now).count();
                let count = count.min(64);
                for (number, (at, id)) in self.queue[..count].iter().enumerate() {
                    let place = DONE + 16 * number as u64;
                    self.set_word(place, *at)?;
                    self.set_word(place + 8, (*id).into())?;
                }
                self.queue.drain(..count);
                self.set_word(VALUE, count as u64)?;
                self.set_word(NEXT, self.next())?;
            }
            5 => {
                self.set_word(VALUE, u64::from(now == 0))?;
                self.set_word(NAME, u64::from_le_bytes(*b"requests"))?;
                self.set_word(NEXT, 1.5f64.to_bits())?;
            }
            _ => {}
        }
        Ok(())
    }

    fn next(&self) -> u64 {
        self.queue.first().map_or(u64::MAX, |(at, _)| *at)
    }

    /// Executes the script's action before the call counts as answered.
    /// Half of the bytes do nothing.
    fn interfere(&mut self, socket: &mut File) -> io::Result<()> {
        let choice = self.script.byte();
        match choice >> 1 {
            _ if choice & 1 == 0 => {}
            0..=15 => {
                let value = self.number();
                self.set_word(VALUE, value)?;
            }
            16..=31 => {
                let value = self.number();
                self.set_word(NEXT, value)?;
            }
            32..=55 => {
                let place = u64::from(self.script.byte() % 64) * 16;
                let value = self.number();
                self.set_word(DONE + place + 8 * u64::from(choice >> 1 & 1), value)?;
            }
            56..=71 => {
                let bytes = self.script.bytes(usize::from(choice >> 1) - 55);
                self.memory.write_all_at(bytes, NAME)?;
            }
            72..=95 => {
                let at = u64::from(self.script.word()) % (CALLS + 32 * u64::from(CALL_COUNT));
                let value = self.number();
                self.set_word(at & !7, value)?;
            }
            96..=103 => {
                let value = self.number() as u32;
                self.set_half(WRITTEN, value)?;
            }
            104..=111 => {
                let value = self.number() as u32;
                self.set_half(ANSWERED, value)?;
            }
            112..=115 => self.set_half(INSIDE, u32::from(choice))?,
            116..=119 => self.set_half(RUN_SLEEPS, 0)?,
            120..=123 => {
                let count = usize::from(self.script.byte());
                socket.write_all(self.script.bytes(count))?;
            }
            124 => exit(self.script.byte().into()),
            125 => std::process::abort(),
            _ => sleep(Duration::from_secs(60)),
        }
        Ok(())
    }

    /// A number that is small, near the largest, a power of two, or arbitrary.
    fn number(&mut self) -> u64 {
        match self.script.byte() % 4 {
            0 => u64::from(self.script.byte()),
            1 => u64::MAX - u64::from(self.script.byte()),
            2 => 1 << (self.script.byte() % 64),
            _ => self.script.long(),
        }
    }

    fn word(&self, at: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, at)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn set_word(&self, at: u64, value: u64) -> io::Result<()> {
        self.memory.write_all_at(&value.to_le_bytes(), at)
    }

    fn half(&self, at: u64) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.memory.read_exact_at(&mut bytes, at)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn set_half(&self, at: u64, value: u32) -> io::Result<()> {
        self.memory.write_all_at(&value.to_le_bytes(), at)
    }
}
