//! Counters in many pages, of which a few are used most: a test for tiering, address
//! translation and page placement.
//!
//! Every thread adds to random counters, one in each line. Most of its additions go to a few
//! hot pages, which are spread over all pages. After each page has been accessed once, the
//! work is divided into two equal halves, so that pages migrated in the first half have their
//! effect in the second.

use std::sync::Arc;

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Hpa, LINE_BYTES};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{Memory, MemoryNeed, aligned, phase, within, without_cxl_cache};
use crate::error::WorkloadError;
use crate::image::Image;
use crate::params::{entry, require};
use crate::program::Phase;
use crate::thread::{ExecutionPlace, Handle, Thread, ThreadContext, ThreadedKernel, Window};
use crate::workload::{Workload, WorkloadForm};

pub(crate) const ENTRY: Entry<Box<dyn Workload>> = entry::<HotPages>(
    "hot-pages",
    "threads: additions to counters in many pages, most of them to a few hot ones",
);

const PAGE: u64 = 4096;
/// The number of lines of a page.
const LINES: u64 = PAGE / LINE_BYTES;

const TOUCH: u8 = 0;
const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// The cores and processing elements that execute the additions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Workers {
    /// The cores of the host.
    #[default]
    Cores,
    /// The processing elements of the accelerators.
    Elements,
    /// The cores and the processing elements.
    All,
}

/// Additions to random counters, most of them in a few hot pages. Phases: `touch` (each page once;
/// the pages are dealt out to the threads in turn), `first` and `second` half. An operation is one
/// addition of 8 B.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HotPages {
    /// Bytes of all pages: a multiple of 4 KiB. Default 4 MiB.
    pub memory: Bytes,
    /// Hot pages per thousand pages, 1 to 1000. Default 100.
    pub hot: u64,
    /// Additions to hot pages per thousand additions, 0 to 1000. Default 900.
    pub hot_share: u64,
    /// Additions of each thread in both halves together, 2 to 1000000000. Default 20000.
    pub operations: u64,
    /// Additions of a thread in flight, 1 to 4096. Default 4.
    pub outstanding: u64,
    /// The cores and processing elements that execute the additions. Default `cores`.
    pub workers: Workers,
    /// The memory of the pages. Default `local`.
    pub data: Memory,
    /// Offset of the pages in that memory. A multiple of 4 KiB.
    pub base: Bytes,
}

impl Default for HotPages {
    fn default() -> Self {
        HotPages {
            memory: Bytes(4 << 20),
            hot: 100,
            hot_share: 900,
            operations: 20_000,
            outstanding: 4,
            workers: Workers::Cores,
            data: Memory::Local,
            base: Bytes(0),
        }
    }
}

impl HotPages {
    fn pages(&self) -> u64 {
        self.memory.0 / PAGE
    }

    fn works(&self, place: ExecutionPlace) -> bool {
        match place {
            ExecutionPlace::Core { .. } => self.workers != Workers::Elements,
            ExecutionPlace::Element { .. } => self.workers != Workers::Cores,
        }
    }
}

impl Workload for HotPages {
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Threads("hot-pages")
    }

    fn check(&self) -> Result<(), ParamError> {
        aligned("memory", self.memory, PAGE)?;
        within("memory", self.memory.0, PAGE, 1 << 40)?;
        within("hot", self.hot, 1, 1000)?;
        within("hot_share", self.hot_share, 0, 1000)?;
        within("operations", self.operations, 2, 1_000_000_000)?;
        within("outstanding", self.outstanding, 1, 4096)?;
        aligned("base", self.base, PAGE)
    }

    fn threads(&self, ctx: &ThreadContext) -> Result<Box<dyn ThreadedKernel>, WorkloadError> {
        self.check()?;
        let need = MemoryNeed::of_data(self.data, self.base, "memory", self.memory.0);
        let first = need.place_for(ctx)?;
        let workers: Vec<ExecutionPlace> =
            ctx.places().filter(|place| self.works(*place)).collect();
        let allowed = "`cores`, `elements` or `all` where there are any";
        let found = "workers that the system has not";
        require(!workers.is_empty(), "workers", found, allowed)?;
        Ok(Box::new(Arc::new(Run {
            params: self.clone(),
            first,
            seed: ctx.draws,
            workers,
            phases: [phase("touch", 8), phase("first", 8), phase("second", 8)],
        })))
    }

    fn needs_cxl_cache(&self, _: usize) -> Option<ParamError> {
        let allowed = "`cores`";
        (self.workers != Workers::Cores).then(|| without_cxl_cache("workers", "elements", allowed))
    }
}

struct Run {
    params: HotPages,
    first: u64,
    /// Seed of the workers' choices of counters.
    seed: u64,
    workers: Vec<ExecutionPlace>,
    phases: [Phase; 3],
}

impl Run {
    fn counter(&self, page: u64, line: u64) -> u64 {
        self.first + page * PAGE + line * LINE_BYTES
    }

    /// The pages that a worker accesses in phase `touch`.
    fn touched(&self, worker: usize) -> impl Iterator<Item = u64> + use<> {
        (worker as u64..self.params.pages()).step_by(self.workers.len())
    }

    /// The counters that a worker adds to, in order, as page and line.
    fn choices(&self, worker: usize) -> impl Iterator<Item = (u64, u64)> + use<> {
        let mut rng = StreamRng::new(self.seed, &format!("hot-pages{worker}"));
        let pages = self.params.pages();
        let hot = (pages * self.params.hot / 1000).max(1);
        let (share, spread) = (self.params.hot_share, pages / hot);
        (0..self.params.operations).map(move |_| {
            let page = match rng.below(1000) < share {
                true => rng.below(hot) * spread,
                false => rng.below(pages),
            };
            (page, rng.below(LINES))
        })
    }

    async fn work(&self, t: &Handle, worker: usize) {
        t.mark(TOUCH);
        for page in self.touched(worker) {
            t.fetch_add(self.counter(page, 0), 1).await;
            t.count(1);
        }
        let mut window = Window::new(self.params.outstanding as usize);
        t.mark(FIRST);
        for (number, (page, line)) in (0..).zip(self.choices(worker)) {
            if number == self.params.operations / 2 {
                window.drain().await;
                t.mark(SECOND);
            }
            window.room().await;
            window.add(t.fetch_add(self.counter(page, line), 1));
            t.count(1);
        }
        window.drain().await;
    }
}

impl ThreadedKernel for Arc<Run> {
    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn threads(&self, place: ExecutionPlace) -> Vec<Thread> {
        let worker = self.workers.iter().position(|one| *one == place);
        let thread = |worker| {
            let run = Arc::clone(self);
            Thread::new(move |t| async move { run.work(&t, worker).await })
        };
        worker.map(thread).into_iter().collect()
    }

    fn can_run_again(&self) -> bool {
        true
    }

    fn check(&self, image: &Image) -> Result<(), String> {
        let mut expected = vec![0u64; (self.params.pages() * LINES) as usize];
        for worker in 0..self.workers.len() {
            let touched = self.touched(worker).map(|page| (page, 0));
            for (page, line) in touched.chain(self.choices(worker)) {
                expected[(page * LINES + line) as usize] += 1;
            }
        }
        for (at, expected) in (0..).zip(expected) {
            let (page, line) = (at / LINES, at % LINES);
            let found = image.read(Hpa(self.counter(page, line)), 8);
            if found != expected {
                return Err(format!(
                    "line {line} of page {page} counts {found}; {expected} were added"
                ));
            }
        }
        Ok(())
    }
}
