//! Threads that apply all operations to a few lines at once, and check the values that they read.
//!
//! One word of each shared line is a counter to which all threads add. Each thread owns another
//! word in every line. So lines move between caches while words are private: a thread must load
//! from its word the value that it stored last. Each thread also has lines of its own, for
//! operations on whole lines: pushes and DMA.

use std::sync::{Arc, Mutex};

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Hpa;
use cxlab_workload::thread::{
    Direction, ExecutionPlace, Handle, Thread, ThreadContext, ThreadOp, ThreadedKernel, scratch,
};
use cxlab_workload::{Image, Phase, Workload, WorkloadError, WorkloadForm};

/// Number of shared lines: few, so that all caches compete for them.
const SHARED: u64 = 6;
/// Number of words of a line that threads own. The first word is the counter.
const OWNERS: u64 = 7;
/// Number of lines that each thread has for itself.
const OWN: u64 = 4;

/// Parameters of the kernel.
#[derive(Clone)]
pub struct Stress {
    /// First addresses of blocks of memory. Each block has shared lines,
    /// and then the threads' own lines.
    pub bases: Vec<u64>,
    /// Number of operations of each thread.
    pub operations: u64,
    /// By accelerator: whether it accesses memory by loads and stores.
    pub coherent: Vec<bool>,
    /// Bytes from one shared line to the next.
    pub stride: u64,
    /// Whether an operating system maps and unmaps memory.
    pub maps: bool,
    /// Whether all threads add to the first counter frequently, with many additions in flight.
    pub hot: bool,
    /// Whether a second thread on each core and processing element loads shared
    /// lines, with many loads in flight.
    pub readers: bool,
}

/// Results of a run.
#[derive(Default)]
struct Tally {
    /// Number of additions to each counter.
    added: Vec<u64>,
    /// First error that a thread found.
    wrong: Option<String>,
}

impl Workload for Stress {
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Threads("external")
    }

    fn threads(&self, ctx: &ThreadContext) -> Result<Box<dyn ThreadedKernel>, WorkloadError> {
        let tally = Tally {
            added: vec![0; self.bases.len() * SHARED as usize],
            wrong: None,
        };
        Ok(Box::new(Kernel {
            stress: self.clone(),
            context: *ctx,
            phases: [Phase {
                name: "stress".to_owned(),
                bytes: cxlab_engine::units::Bytes(8),
            }],
            tally: Arc::new(Mutex::new(tally)),
        }))
    }
}

struct Kernel {
    stress: Stress,
    context: ThreadContext,
    phases: [Phase; 1],
    tally: Arc<Mutex<Tally>>,
}

impl ThreadedKernel for Kernel {
    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn threads(&self, place: ExecutionPlace) -> Vec<Thread> {
        let number = match place {
            ExecutionPlace::Core { core } => core as u64,
            ExecutionPlace::Element {
                accelerator,
                element,
            } => (self.context.cores + accelerator * self.context.elements + element) as u64,
        };
        let device = match place {
            ExecutionPlace::Core { .. } => None,
            ExecutionPlace::Element { accelerator, .. } => Some(accelerator as u16),
        };
        let one = One {
            stress: self.stress.clone(),
            tally: Arc::clone(&self.tally),
            rng: StreamRng::new(self.context.seed, &format!("stress{number}")),
            number,
            device,
        };
        let mut threads = vec![Thread::new(|t| one.run(t))];
        let loads = device.is_none_or(|device| self.stress.coherent[usize::from(device)]);
        if self.stress.readers && loads {
            let stress = self.stress.clone();
            let rng = StreamRng::new(self.context.seed, &format!("reader{number}"));
            threads.push(Thread::new(|t| read(t, stress, rng)));
        }
        threads
    }

    fn can_run_again(&self) -> bool {
        true
    }

    fn check(&self, image: &Image) -> Result<(), String> {
        let tally = self.tally.lock().map_err(|_| "a thread panicked")?;
        if let Some(wrong) = &tally.wrong {
            return Err(wrong.clone());
        }
        for (at, added) in tally.added.iter().enumerate() {
            let counter = self.stress.counter(at as u64);
            let found = image.read(Hpa(counter), 8);
            if found != *added {
                return Err(format!("counter {at} holds {found}, not {added}"));
            }
        }
        Ok(())
    }
}

impl Stress {
    /// Address of the counter with that number. Each base has `SHARED` of them.
    fn counter(&self, number: u64) -> u64 {
        self.bases[(number / SHARED) as usize] + number % SHARED * self.stride
    }

    fn counters(&self) -> u64 {
        self.bases.len() as u64 * SHARED
    }

    /// Address of a line of a thread's own.
    fn own(&self, base: u64, thread: u64, line: u64) -> u64 {
        self.bases[base as usize] + SHARED * self.stride + (thread * OWN + line) * 64
    }
}

/// Loads shared lines with many loads in flight, and ignores their values.
async fn read(t: Handle, stress: Stress, mut rng: StreamRng) {
    for _ in 0..stress.operations {
        let loads = (0..8).map(|_| {
            let at = rng.below(stress.counters());
            t.load(stress.counter(at))
        });
        for load in loads.collect::<Vec<_>>() {
            load.await;
        }
    }
}

struct One {
    stress: Stress,
    tally: Arc<Mutex<Tally>>,
    rng: StreamRng,
    number: u64,
    device: Option<u16>,
}

impl One {
    async fn run(mut self, t: Handle) {
        // Values of the thread's own words, by counter line.
        let mut words = vec![0; self.stress.counters() as usize];
        for step in 0..self.stress.operations {
            let at = self.rng.below(self.stress.counters());
            let line = self.stress.counter(at);
            let word = line + 8 * (1 + self.number % OWNERS);
            let mine = self.number < OWNERS;
            let coherent = |device: u16| self.stress.coherent[usize::from(device)];
            let loads = self.device.is_none_or(coherent);
            match self.rng.below(12) {
                0..4 if loads && self.stress.hot => {
                    let values: Vec<_> = (0..8)
                        .map(|_| t.fetch_add(self.stress.counter(0), 1))
                        .collect();
                    for value in values {
                        value.await;
                        self.added(0, 1);
                    }
                }
                0..3 if loads => {
                    t.fetch_add(line, 1).await;
                    self.added(at, 1);
                }
                3 if loads => {
                    // Several additions in flight.
                    let values = (0..4).map(|more| {
                        let at = (at + more) % self.stress.counters();
                        (at, t.fetch_add(self.stress.counter(at), 1))
                    });
                    for (at, value) in values.collect::<Vec<_>>() {
                        value.await;
                        self.added(at, 1);
                    }
                }
                4..6 if loads && mine => {
                    let value = self.rng.next_u64();
                    t.store(word, value).await;
                    words[at as usize] = value;
                }
                6..8 if loads && mine => {
                    // Decided without a random draw, so that the rest
                    // of a seed's operations stays unchanged.
                    let found = match words[at as usize] % 2 {
                        0 => t.load(word).await,
                        _ => {
                            let bytes = t.read_range_to_store(word, 8).await;
                            bytes.try_into().map_or(0, u64::from_le_bytes)
                        }
                    };
                    self.expect(step, word, found, words[at as usize]);
                }
                8 if loads => {
                    let what = match self.rng.below(4) {
                        0 => ThreadOp::Flush { addr: line },
                        1 => ThreadOp::Demote { addr: line },
                        2 => ThreadOp::WriteBack { addr: line },
                        _ => ThreadOp::Prefetch { addr: line },
                    };
                    t.issue(what).await;
                }
                9 | 10 if loads => self.whole_lines(&t, step).await,
                _ if self.device.is_some() => self.dma(&t, step, loads).await,
                _ if self.stress.maps => self.fresh(&t, step).await,
                _ => {}
            }
        }
    }

    /// Stores or pushes lines of its own, and loads them again.
    async fn whole_lines(&mut self, t: &Handle, step: u64) {
        let base = self.rng.below(self.stress.bases.len() as u64);
        let first = self.stress.own(base, self.number, 0);
        let lines = 1 + self.rng.below(OWN);
        let bytes: Vec<u8> = (0..lines * 64).map(|_| self.rng.next_u64() as u8).collect();
        if self.rng.chance(0.5) {
            t.push(first, &bytes).await;
        } else {
            t.write_range(first, &bytes).await;
        }
        // Decided without a random draw, as above.
        let found = match bytes[0] % 2 {
            0 => t.read_range(first, lines * 64).await,
            _ => t.read_range_to_store(first, lines * 64).await,
        };
        if found != bytes {
            self.wrong(format!(
                "step {step}: lines at {first:#x} do not hold what was stored"
            ));
        }
    }

    /// Maps memory, checks that it is zero, writes it, and unmaps it.
    async fn fresh(&mut self, t: &Handle, step: u64) {
        let bytes = 4096 * (1 + self.rng.below(3));
        let start = t.map(bytes, self.rng.below(2) as u16).await;
        let at = start + 64 * self.rng.below(bytes / 64 - 4);
        if t.read_range(at, 200).await != [0; 200] {
            self.wrong(format!("step {step}: memory mapped at {at:#x} is not zero"));
        }
        let data: Vec<u8> = (0..200).map(|_| self.rng.next_u64() as u8).collect();
        t.write_range(at, &data).await;
        if t.read_range(at, 200).await != data {
            self.wrong(format!(
                "step {step}: {at:#x} does not hold what was stored"
            ));
        }
        let addr = start;
        t.issue(ThreadOp::Unmap { addr, bytes }).await;
    }

    /// Copies lines of its own by DMA to the host and back.
    async fn dma(&mut self, t: &Handle, step: u64, loads: bool) {
        let Some(device) = self.device else { return };
        let base = self.rng.below(self.stress.bases.len() as u64);
        let host = self.stress.own(base, self.number, 0);
        let own = scratch(device) + self.number * 4096;
        let offset = 8 * self.rng.below(8);
        let bytes = (8 * (1 + self.rng.below(20))).min(OWN * 64 - offset);
        let data: Vec<u8> = (0..bytes).map(|_| self.rng.next_u64() as u8).collect();
        t.write_range(own, &data).await;
        t.dma(Direction::ToHost, host + offset, own, bytes).await;
        if loads {
            let found = t.read_range(host + offset, bytes).await;
            if found != data {
                self.wrong(format!("step {step}: DMA to {host:#x} was not seen"));
            }
        }
        t.dma(Direction::ToDevice, host + offset, own + 2048, bytes)
            .await;
        let found = t.read_range(own + 2048, bytes).await;
        if found != data {
            self.wrong(format!(
                "step {step}: DMA from {host:#x} brought something else"
            ));
        }
    }

    fn added(&self, at: u64, count: u64) {
        if let Ok(mut tally) = self.tally.lock() {
            tally.added[at as usize] += count;
        }
    }

    fn expect(&self, step: u64, addr: u64, found: u64, expected: u64) {
        if found != expected {
            self.wrong(format!(
                "thread {}, step {step}: {addr:#x} holds {found:#x}, not {expected:#x}",
                self.number
            ));
        }
    }

    fn wrong(&self, what: String) {
        if let Ok(mut tally) = self.tally.lock() {
            tally.wrong.get_or_insert(what);
        }
    }
}
