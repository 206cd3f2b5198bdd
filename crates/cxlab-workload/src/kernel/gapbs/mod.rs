//! The graph kernels of the GAP Benchmark Suite (Beamer, Asanović and Patterson, arXiv:1508.03619; its
//! reference code) on a Kronecker graph in simulated memory.
//!
//! Every load, store and atomic operation of the algorithm on the graph and on its own arrays is
//! one in simulated memory, and the algorithm continues with the values that it gets. The graph
//! consists of two arrays: the index of each vertex's first neighbour (8 B each), and the
//! neighbours (4 B each). The graph is in one memory, and everything else in another. Hosts can
//! share the graph: one host writes and flushes it, and the others wait for a flag (see `sharing`).
//!
//! # Left out
//! The stack, variables in registers, the initial construction of the graph from edges, and a
//! thread's buffer of the next frontier (64 vertices) before it is appended to the queue.

mod bc;
mod bfs;
mod cc;
mod cc_sv;
mod edges;
mod graph;
mod pr;
mod sharing;
mod tc;
mod worker;

use std::sync::{Arc, OnceLock};

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::units::{Bytes, Hpa, LINE_BYTES};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{Memory, MemoryNeed, needs_cores, phase, whole_lines, within};
use crate::error::WorkloadError;
use crate::image::Image;
use crate::params::{entry, require};
use crate::program::Phase;
use crate::thread::{ExecutionPlace, Handle, Thread, ThreadContext, ThreadedKernel};
use crate::workload::{Workload, WorkloadForm};
use graph::Graph;
use worker::Worker;

pub(crate) const ENTRY: Entry<Box<dyn Workload>> = entry::<Gapbs>(
    "gapbs",
    "threads: graph kernels of the GAP Benchmark Suite on a Kronecker graph, alone or shared by hosts",
);

/// The phase in which the graph is written to memory.
const LOAD: u8 = 0;
/// The phase in which the kernel runs.
const RUN: u8 = 1;

/// A kernel of the suite.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Breadth-first search, top-down or bottom-up (`bfs.cc`).
    #[default]
    Bfs,
    /// Betweenness centrality from one source (Brandes; `bc.cc`).
    Bc,
    /// Connected components (Afforest; `cc.cc`).
    Cc,
    /// Connected components (Shiloach and Vishkin; `cc_sv.cc`).
    CcSv,
    /// PageRank, pulled in place until scores change by less than 0.0001 in all (`pr.cc`).
    Pr,
    /// Number of triangles, by intersection of sorted neighbours (`tc.cc`, without relabelling).
    Tc,
}

/// How the graph gets into memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Loading {
    /// The graph is in memory when the run begins.
    #[default]
    Prepared,
    /// This host writes the graph, flushes every line of it from its caches, and then sets
    /// and flushes a flag.
    Allocator,
    /// Another host writes the graph: this host polls the flag, and then only reads.
    Reader,
}

/// A graph kernel on the cores of a processor. Phases: `load` and `run`. An operation of `run` is
/// the processing of one edge in one direction.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gapbs {
    /// The kernel. Default `bfs`.
    pub algorithm: Algorithm,
    /// The graph has 2 to the power of this number of vertices. 1 to 24. Default 10.
    pub scale: u32,
    /// Edges drawn for each vertex, 1 to 1024. Default 16 (GAPBS, Graph500).
    pub degree: u32,
    /// The memory of the graph. Default `cxl`.
    pub graph: Memory,
    /// Offset of the graph in that memory. A multiple of 64 B.
    pub graph_base: Bytes,
    /// How the graph gets into memory. Default `prepared`.
    pub loading: Loading,
    /// The memory of everything else. Default `local`.
    pub data: Memory,
    /// Offset of everything else in that memory. A multiple of 64 B.
    pub base: Bytes,
    /// Edges of a thread in flight, as far as the core allows, 1 to 1024. Default 16 (*assumed*: an
    /// edge has two loads, of the neighbour and of its data, so that 16 edges fill the 32 entries
    /// of gem5's load queue).
    pub outstanding: u32,
    /// Cycles between two polls of the flag, 0 to 1000000000. Default 4000 (*assumed*).
    pub poll_cycles: u32,
}

impl Default for Gapbs {
    fn default() -> Self {
        Gapbs {
            algorithm: Algorithm::Bfs,
            scale: 10,
            degree: 16,
            graph: Memory::Cxl,
            graph_base: Bytes(0),
            loading: Loading::Prepared,
            data: Memory::Local,
            base: Bytes(0),
            outstanding: 16,
            poll_cycles: 4000,
        }
    }
}

impl Gapbs {
    fn vertices(&self) -> u64 {
        1 << self.scale
    }

    /// Most neighbours of all vertices together.
    fn most_neighbours(&self) -> u64 {
        2 * self.vertices() * u64::from(self.degree)
    }

    /// Bytes of each of the kernel's own arrays, in order.
    fn arrays(&self) -> Vec<u64> {
        let n = self.vertices();
        match self.algorithm {
            Algorithm::Bfs => bfs::arrays(n),
            Algorithm::Bc => bc::arrays(n, self.most_neighbours()),
            Algorithm::Cc | Algorithm::CcSv => vec![4 * n],
            Algorithm::Pr => pr::arrays(n),
            Algorithm::Tc => tc::arrays(),
        }
    }
}

impl Workload for Gapbs {
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Threads("gapbs")
    }

    fn check(&self) -> Result<(), ParamError> {
        within("scale", self.scale.into(), 1, 24)?;
        within("degree", self.degree.into(), 1, 1024)?;
        within("outstanding", self.outstanding.into(), 1, 1024)?;
        within("poll_cycles", self.poll_cycles.into(), 0, 1_000_000_000)?;
        whole_lines("graph_base", self.graph_base)?;
        whole_lines("base", self.base)
    }

    fn threads(&self, ctx: &ThreadContext) -> Result<Box<dyn ThreadedKernel>, WorkloadError> {
        self.check()?;
        needs_cores(ctx)?;
        let may_write = self.graph != self.data || self.loading != Loading::Reader;
        let found = "the memory of the graph, which this host only reads";
        require(may_write, "data", found, "the other")?;
        let lines = |bytes: u64| bytes.next_multiple_of(LINE_BYTES);
        let n = self.vertices();
        let offsets = LINE_BYTES + lines(8 * (n + 1));
        let graph_bytes = offsets + lines(4 * self.most_neighbours());
        let graph = MemoryNeed {
            memory_field: "graph",
            memory: self.graph,
            size_field: "scale",
            base: self.graph_base.0,
            bytes: graph_bytes,
        };
        let first = graph.place_for(ctx)?;
        let control = worker::control(ctx.cores as u64);
        let arrays = self.arrays();
        // If both share one memory, the kernel's own data follow the graph.
        let behind = match self.graph == self.data {
            true => self.graph_base.0 + graph_bytes,
            false => 0,
        };
        let bytes = control + arrays.iter().map(|bytes| lines(*bytes)).sum::<u64>();
        let base = Bytes(behind + self.base.0);
        let own = MemoryNeed::of_data(self.data, base, "scale", bytes).place_for(ctx)?;
        let mut next = own + control;
        let arrays = arrays.iter().map(|bytes| {
            let at = next;
            next += lines(*bytes);
            at
        });
        Ok(Box::new(Arc::new(Run {
            params: self.clone(),
            n,
            flag: first,
            offsets: first + LINE_BYTES,
            neighbours: first + offsets,
            control: own,
            arrays: arrays.collect(),
            cores: ctx.cores as u64,
            seed: ctx.seed,
            graph: OnceLock::new(),
            phases: [phase("load", 0), phase("run", 0)],
        })))
    }
}

/// The addresses of all data, and the parameters of the run.
struct Run {
    params: Gapbs,
    /// The number of vertices.
    n: u64,
    /// Address of the line with the flag that the graph is complete.
    flag: u64,
    /// Address of the offsets: 8 B for each vertex, and 8 B more.
    offsets: u64,
    /// Address of the neighbours: 4 B each.
    neighbours: u64,
    /// Address of the team's variables (see `team`) and of the queue's end.
    control: u64,
    /// Addresses of the kernel's own arrays.
    arrays: Vec<u64>,
    cores: u64,
    seed: u64,
    /// The graph, built when it is first needed.
    graph: OnceLock<Graph>,
    phases: [Phase; 2],
}

impl Run {
    fn graph(&self) -> &Graph {
        let Gapbs { scale, degree, .. } = self.params;
        self.graph
            .get_or_init(|| Graph::kronecker(scale, degree, self.seed))
    }

    /// The source vertex of a search.
    fn source(&self) -> u64 {
        self.graph().source(self.seed)
    }

    /// The number of 4 B at an index of one of the arrays.
    fn word(&self, image: &Image, array: usize, at: u64) -> u32 {
        image.read(Hpa(self.arrays[array] + 4 * at), 4) as u32
    }

    async fn work(&self, t: &Handle, core: u64) {
        let mut worker = Worker::new(t, self, core);
        t.mark(LOAD);
        sharing::load(&mut worker).await;
        t.mark(RUN);
        match self.params.algorithm {
            Algorithm::Bfs => bfs::run(&mut worker).await,
            Algorithm::Bc => bc::run(&mut worker).await,
            Algorithm::Cc => cc::run(&mut worker).await,
            Algorithm::CcSv => cc_sv::run(&mut worker).await,
            Algorithm::Pr => pr::run(&mut worker).await,
            Algorithm::Tc => tc::run(&mut worker).await,
        }
    }
}

impl ThreadedKernel for Arc<Run> {
    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn prepare(&self, image: &Image) {
        if self.params.loading == Loading::Prepared {
            sharing::prepare(self, image);
        }
    }

    fn threads(&self, place: ExecutionPlace) -> Vec<Thread> {
        let ExecutionPlace::Core { core } = place else {
            return Vec::new();
        };
        let run = Arc::clone(self);
        vec![Thread::new(move |t| async move {
            run.work(&t, core as u64).await;
        })]
    }

    fn can_run_again(&self) -> bool {
        true
    }

    fn check(&self, image: &Image) -> Result<(), String> {
        match self.params.algorithm {
            Algorithm::Bfs => bfs::check(self, image),
            Algorithm::Bc => bc::check(self, image),
            Algorithm::Cc | Algorithm::CcSv => cc::check(self, image),
            Algorithm::Pr => pr::check(self, image),
            Algorithm::Tc => tc::check(self, image),
        }
    }
}
