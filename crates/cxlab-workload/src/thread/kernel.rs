//! The seam between kernels written as threads and the coherent systems that run them.

use cxlab_engine::units::{Bytes, Hpa};

use super::runtime::Thread;
use crate::image::Image;
use crate::program::{LOCAL_BASE, Phase};

/// Where the memories begin that a kernel may put its data into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bases {
    /// The first address of CXL memory.
    pub cxl: u64,
    /// The first address of the host's own memory.
    pub local: u64,
}

impl Bases {
    /// Physical memory, where no operating system translates.
    pub const PHYSICAL: Bases = Bases {
        cxl: 0,
        local: LOCAL_BASE.0,
    };
}

/// What a workload is told when it makes the kernel of a coherent system.
#[derive(Clone, Copy, Debug)]
pub struct ThreadContext {
    /// Seed of the run, from which kernels make random contents. All hosts have the same one, so that
    /// kernels that share memory agree on what is in it.
    pub seed: u64,
    /// Seed of this host's own draws, such as the order of its threads' accesses.
    pub draws: u64,
    /// Bytes of CXL memory.
    pub span: Bytes,
    /// Bytes of the host's own memory.
    pub local: Bytes,
    /// Where both begin.
    pub bases: Bases,
    /// How many cores run threads.
    pub cores: usize,
    /// How many accelerators there are.
    pub accelerators: usize,
    /// How many processing elements each accelerator has.
    pub elements: usize,
}

/// What a thread can run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A core of the host.
    Core {
        /// Which, from 0.
        core: usize,
    },
    /// A processing element of an accelerator.
    Element {
        /// Which accelerator, from 0.
        accelerator: usize,
        /// Which of its elements, from 0.
        element: usize,
    },
}

impl ThreadContext {
    /// Every place of the system: the cores, then the elements of each accelerator.
    pub fn places(&self) -> impl Iterator<Item = Place> + use<> {
        let (accelerators, elements) = (self.accelerators, self.elements);
        let element = move |accelerator| {
            (0..elements).map(move |element| Place::Element {
                accelerator,
                element,
            })
        };
        let cores = (0..self.cores).map(|core| Place::Core { core });
        cores.chain((0..accelerators).flat_map(element))
    }
}

/// The kernel of a system whose cores run nothing but programs.
pub struct NoThreads;

impl ThreadedKernel for NoThreads {
    fn phases(&self) -> &[Phase] {
        &[]
    }

    fn threads(&self, _: Place) -> Vec<Thread> {
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
    /// Its phases, in order; at most 256.
    fn phases(&self) -> &[Phase];

    /// Writes what is in memory before anything runs; called once, before the threads run.
    fn prepare(&self, image: &Image) {
        let _ = image;
    }

    /// Addresses of what it has prepared, in the order in which the program touched their pages first;
    /// pages that are not named follow by address. An operating system hands out frames so.
    fn first_touches(&self) -> Vec<Hpa> {
        Vec::new()
    }

    /// The threads of one place; none where the kernel has no work for it.
    fn threads(&self, place: Place) -> Vec<Thread>;

    /// Whether each thread's code depends on nothing but what its own operations return, so that it
    /// comes to the same place when it is run again with the same values. A state can be saved only
    /// then.
    fn can_run_again(&self) -> bool {
        false
    }

    /// Checks the result against a computation made another way, when all threads have finished.
    ///
    /// # Errors
    /// What is wrong.
    fn check(&self, image: &Image) -> Result<(), String>;
}
