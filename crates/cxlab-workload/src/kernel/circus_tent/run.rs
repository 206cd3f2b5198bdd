//! The threads of CircusTent: the eight patterns on one processing element or core.

use std::sync::{Arc, Mutex, PoisonError};

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Hpa;

use super::atomics::{Change, Element};
use super::oracle::{self, ThreadResults};
use super::{CircusTent, Index, Operation, Pattern, RunOn};
use crate::image::Image;
use crate::kernel::common::{mix, phase};
use crate::program::Phase;
use crate::thread::{ExecutionPlace, Handle, Thread, ThreadedKernel};

/// The state that the threads and the check share.
pub(super) struct Data {
    pub params: CircusTent,
    /// Number of the benchmark's threads.
    pub pes: u64,
    /// Number of processing elements or cores that serve the threads.
    places: usize,
    /// Number of processing elements of an accelerator.
    pub elements: usize,
    /// The first address of the array.
    pub array: u64,
    /// The first address of the indices.
    pub index: u64,
    seed: u64,
    /// The value of each index.
    pub indices: Vec<u64>,
    /// The results of the operations of each of the benchmark's threads.
    pub seen: Mutex<Vec<ThreadResults>>,
    phases: [Phase; 1],
}

impl Data {
    pub fn new(params: CircusTent, pes: u64, places: usize, array: u64, seed: u64) -> Data {
        let mut rng = StreamRng::new(seed, "circus-tent");
        let count = (pes + 1) * params.iterations;
        let below = match params.pattern {
            Pattern::PtrChase => count,
            _ => (params.words() - 1).max(1),
        };
        Data {
            indices: (0..count).map(|_| rng.below(below)).collect(),
            seen: Mutex::new(vec![ThreadResults::default(); pes as usize]),
            index: array + params.memory.0,
            seed: rng.next_u64(),
            params,
            pes,
            places,
            elements: 0,
            array,
            phases: [phase("atomics", 8)],
        }
    }

    /// The initial value of a word of the array.
    pub fn initial(&self, word: u64) -> u64 {
        mix(self.seed ^ word)
    }

    /// The number of a thread's first iteration.
    pub fn first(&self, pe: u64) -> u64 {
        pe * self.params.iterations
    }

    /// The number of every word of the array that is accessed, some more than once.
    pub fn reached(&self) -> impl Iterator<Item = u64> {
        let total = self.pes * self.params.iterations;
        (0..total).flat_map(move |i| {
            let at = |i: u64| self.indices[i as usize];
            let words = match self.params.pattern {
                Pattern::Rand => [Some(at(i)), None],
                Pattern::Stride1 => [Some(i), None],
                Pattern::StrideN => [Some(i * self.params.stride), None],
                Pattern::PtrChase => [None, None],
                Pattern::Central => [Some(0), None],
                Pattern::Scatter | Pattern::Gather => [Some(i), Some(at(i + 1))],
                Pattern::Sg => [Some(at(i)), Some(at(i + 1))],
            };
            words.into_iter().flatten()
        })
    }

    /// Whether the results of the operations depend on the order among threads.
    pub fn depends_on_order(&self) -> bool {
        let crossing = [Pattern::Scatter, Pattern::Gather, Pattern::Sg];
        self.pes > 1 && crossing.contains(&self.params.pattern)
    }
}

/// One of the benchmark's threads, with its variables.
struct Pe {
    first: u64,
    from: u64,
    to: u64,
    value: u64,
    seen: ThreadResults,
}

/// The expected and the new word of a compare-and-swap on the array. For one of them or both, the
/// benchmark first loads the word itself.
#[derive(Clone, Copy)]
enum Cas {
    /// Both are the loaded word: the operation changes nothing, and succeeds if no
    /// other came in between.
    Same,
    /// The expected word is the last word fetched, and the new word is the loaded word: the
    /// operation fetches the word, whether it succeeds or not, and changes nothing.
    Fetch(u64),
    /// The expected word is the loaded word, and the new word is this value.
    Write(u64),
}

/// A processing element or core with the kernel's data.
struct Server<'t> {
    data: &'t Data,
    element: Element<'t>,
}

impl Server<'_> {
    /// Executes an atomic operation on a word of the array and returns the old word.
    async fn array(&mut self, pe: &mut Pe, word: u64, add: u64, cas: Cas) -> u64 {
        let addr = self.data.array + word * 8;
        let change = match self.data.params.operation {
            Operation::Add => Change::Add(add),
            Operation::Cas => {
                let loaded = self.element.load(addr).await;
                let (compare, new) = match cas {
                    Cas::Same => (loaded, loaded),
                    Cas::Fetch(last) => (last, loaded),
                    Cas::Write(value) => (loaded, value),
                };
                Change::CompareExchange { compare, new }
            }
        };
        let old = self.element.atomic(addr, change).await;
        if self.data.depends_on_order() {
            pe.seen
                .words
                .push((word, old, change.of(old).unwrap_or(old)));
        }
        old
    }

    /// Returns the index at a place. If indices are remote, it is read by an atomic operation that
    /// changes nothing. A compare-and-swap expects the preceding index: it fails unless both are
    /// equal, and returns the index in both cases.
    async fn index(&mut self, place: u64, last: u64) -> u64 {
        if self.data.params.index == Index::Local {
            return self.data.indices[place as usize];
        }
        let addr = self.data.index + place * 8;
        let change = match self.data.params.operation {
            Operation::Add => Change::Add(0),
            Operation::Cas => {
                let new = self.element.load(addr).await;
                Change::CompareExchange { compare: last, new }
            }
        };
        self.element.atomic(addr, change).await
    }

    /// Executes one iteration of one of the benchmark's threads.
    async fn iterate(&mut self, pe: &mut Pe, iteration: u64) {
        let i = pe.first + iteration;
        let data = self.data;
        match data.params.pattern {
            Pattern::Rand => {
                self.array(pe, data.indices[i as usize], 1, Cas::Same).await;
            }
            Pattern::Stride1 => {
                self.array(pe, i, 0xf, Cas::Same).await;
            }
            Pattern::StrideN => {
                self.array(pe, i * data.params.stride, 0xf, Cas::Same).await;
            }
            Pattern::PtrChase => {
                pe.seen.end = self.index(pe.seen.end, pe.seen.end).await;
            }
            Pattern::Central => {
                self.array(pe, 0, 1, Cas::Same).await;
            }
            Pattern::Scatter => {
                pe.to = self.index(i + 1, pe.to).await;
                self.transfer(pe, i, pe.to).await;
            }
            Pattern::Gather => {
                pe.to = self.index(i + 1, pe.to).await;
                self.transfer(pe, pe.to, i).await;
            }
            Pattern::Sg => {
                pe.from = self.index(i, pe.from).await;
                pe.to = self.index(i + 1, pe.to).await;
                self.transfer(pe, pe.from, pe.to).await;
            }
        }
    }

    /// Fetches a word, adding 1, and adds the fetched word to another word. With
    /// compare-and-swap, writes it there.
    async fn transfer(&mut self, pe: &mut Pe, from: u64, to: u64) {
        pe.value = self.array(pe, from, 1, Cas::Fetch(pe.value)).await;
        self.array(pe, to, pe.value, Cas::Write(pe.value)).await;
    }
}

/// Serves every `places`-th of the benchmark's threads, beginning with thread number `place`.
async fn serve(data: Arc<Data>, place: usize, element: usize, elements: usize, t: Handle) {
    let device = (place / elements.max(1)) as u16;
    let element = Element::new(&t, &data.params, device, element, elements);
    let mut server = Server {
        data: &data,
        element,
    };
    let served = (place as u64..data.pes).step_by(data.places);
    let start = |number| {
        let (first, words) = (data.first(number), Vec::new());
        let pe = Pe {
            first,
            from: 0,
            to: 0,
            value: 0,
            seen: ThreadResults { end: first, words },
        };
        (number, pe)
    };
    let mut pes: Vec<(u64, Pe)> = served.map(start).collect();
    for iteration in 0..data.params.iterations {
        for (_, pe) in &mut pes {
            server.iterate(pe, iteration).await;
            t.count(data.params.operations());
        }
    }
    server.element.finish().await;
    let mut seen = data.seen.lock().unwrap_or_else(PoisonError::into_inner);
    for (number, pe) in pes {
        seen[number as usize] = pe.seen;
    }
}

impl ThreadedKernel for Arc<Data> {
    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn prepare(&self, image: &Image) {
        for word in self.reached() {
            image.write(Hpa(self.array + word * 8), 8, self.initial(word));
        }
        for (place, index) in (0..).zip(&self.indices) {
            image.write(Hpa(self.index + place * 8), 8, *index);
        }
    }

    fn threads(&self, place: ExecutionPlace) -> Vec<Thread> {
        let (number, element, elements) = match (place, self.params.run_on) {
            (ExecutionPlace::Core { core }, RunOn::Cores) => (core, 0, 1),
            (
                ExecutionPlace::Element {
                    accelerator,
                    element,
                },
                RunOn::Accelerators,
            ) => (
                accelerator * self.elements + element,
                element,
                self.elements,
            ),
            _ => return Vec::new(),
        };
        if number as u64 >= self.pes {
            return Vec::new();
        }
        let data = Arc::clone(self);
        vec![Thread::new(move |t| {
            serve(data, number, element, elements, t)
        })]
    }

    fn can_run_again(&self) -> bool {
        true
    }

    fn check(&self, image: &Image) -> Result<(), String> {
        oracle::check(self, image)
    }
}
