//! The interface between kernels written as threads and the coherent systems that run them.

use cxlab_engine::units::{Bytes, Hpa};

use super::runtime::Thread;
use crate::image::Image;
use crate::program::{LOCAL_BASE, Phase};

/// First addresses of the memories in which a kernel can place its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bases {
    /// The first address of CXL memory.
    pub cxl: u64,
    /// The first address of the host's own memory.
    pub local: u64,
}

impl Bases {
    /// Physical addresses, for systems without an operating system that translates.
    pub const PHYSICAL: Bases = Bases {
        cxl: 0,
        local: LOCAL_BASE.0,
    };
}

/// The system's properties that a workload needs to make the kernel of a coherent system.
#[derive(Clone, Copy, Debug)]
pub struct ThreadContext {
    /// Seed of the run, for random contents of memory. All hosts have the same seed, so that
    /// kernels that share memory agree on its contents.
    pub seed: u64,
    /// Seed of this host's own random choices, such as the order of its threads' accesses.
    pub draws: u64,
    /// Bytes of CXL memory.
    pub span: Bytes,
    /// Bytes of the host's own memory; 0 when the host has none.
    pub local: Bytes,
    /// First addresses of both memories.
    pub bases: Bases,
    /// The number of cores that run threads.
    pub cores: usize,
    /// The number of the host's accelerators.
    pub accelerators: usize,
    /// The number of processing elements of each accelerator.
    pub elements: usize,
}

/// A core or processing element that threads can run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExecutionPlace {
    /// A core of the host.
    Core {
        /// The core's number, from 0.
        core: usize,
    },
    /// A processing element of an accelerator.
    Element {
        /// The accelerator's number, from 0.
        accelerator: usize,
        /// The processing element's number in the accelerator, from 0.
        element: usize,
    },
}

impl ExecutionPlace {
    /// The first processing element of the first accelerator.
    pub const FIRST_ELEMENT: ExecutionPlace = ExecutionPlace::Element {
        accelerator: 0,
        element: 0,
    };
}

impl ThreadContext {
    /// Every place of the system: the cores, then the processing elements of each accelerator.
    pub fn places(&self) -> impl Iterator<Item = ExecutionPlace> + use<> {
        let (accelerators, elements) = (self.accelerators, self.elements);
        let element = move |accelerator| {
            (0..elements).map(move |element| ExecutionPlace::Element {
                accelerator,
                element,
            })
        };
        let cores = (0..self.cores).map(|core| ExecutionPlace::Core { core });
        cores.chain((0..accelerators).flat_map(element))
    }
}

/// The kernel of a system without threads, whose cores run only programs.
pub struct NoThreads;

impl ThreadedKernel for NoThreads {
    fn phases(&self) -> &[Phase] {
        &[]
    }

    fn threads(&self, _: ExecutionPlace) -> Vec<Thread> {
        Vec::new()
    }

    fn can_run_again(&self) -> bool {
        true
    }

    fn check(&self, _: &Image) -> Result<(), String> {
        Ok(())
    }
}

/// A kernel written as threads that share memory, bound to a system.
pub trait ThreadedKernel: Send + Sync {
    /// The kernel's phases, in order; at most 256.
    fn phases(&self) -> &[Phase];

    /// Writes the initial contents of memory. Called once, before any thread runs.
    fn prepare(&self, image: &Image) {
        let _ = image;
    }

    /// Addresses in the memory that [`ThreadedKernel::prepare`] writes, in the order in which the
    /// program would access their pages first; pages that are not listed follow by address. An
    /// operating system assigns frames in this order.
    fn first_touches(&self) -> Vec<Hpa> {
        Vec::new()
    }

    /// The threads of one core or processing element; empty where the kernel has no work for it.
    fn threads(&self, place: ExecutionPlace) -> Vec<Thread>;

    /// Whether each thread's code depends on nothing but the values of its own operations, so
    /// that the code reaches the same point when it is run again with the same values. Only then
    /// can a checkpoint be saved.
    fn can_run_again(&self) -> bool {
        false
    }

    /// Checks the result against a computation made in another way, after
    /// all threads have finished.
    ///
    /// # Errors
    /// Describes the difference.
    fn check(&self, image: &Image) -> Result<(), String>;
}
