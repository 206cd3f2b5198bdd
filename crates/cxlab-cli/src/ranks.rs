//! Ranks: the processes that `mpirun` starts, where this build knows MPI.

#[cfg(feature = "mpi")]
pub(super) use with_mpi::start;

use super::failure::Failure;

/// The ranks that this process is one of.
pub(super) trait LaunchedRanks: cxlab_engine::Ranks {
    /// Ends all ranks with this exit code.
    fn abort(&self, code: u8) -> !;
}

/// Number of processes that a launcher has started together, by environment variables of Open MPI and of launchers with
/// PMI (MPICH, Slurm).
fn launched() -> usize {
    let variables = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];
    let counts = variables.iter().filter_map(|name| std::env::var(name).ok());
    let counts = counts.filter_map(|text| text.parse().ok());
    counts.max().unwrap_or(1)
}

/// The ranks, if several processes were started together.
#[cfg(not(feature = "mpi"))]
pub(super) fn start() -> Result<Option<Box<dyn LaunchedRanks>>, Failure> {
    match launched() {
        0 | 1 => Ok(None),
        ranks => Err(Failure::mistake(format!(
            "mpirun: found {ranks} ranks with a build that has no MPI; allowed: one process, or a build \
             with `--features mpi` (docs/guide/checkpoints.md)"
        ))),
    }
}

#[cfg(feature = "mpi")]
mod with_mpi {
    use cxlab_engine::Ranks;
    use mpi::environment::Universe;
    use mpi::topology::SimpleCommunicator;
    use mpi::traits::{Communicator, Destination, Equivalence, Source};

    use super::{Failure, Launched, launched};

    /// Ranks that communicate by MPI.
    struct MpiRanks {
        world: SimpleCommunicator,
        /// MPI is finalized when this is dropped.
        _universe: Universe,
    }

    pub(in super::super) fn start() -> Result<Option<Box<dyn Launched>>, Failure> {
        if launched() <= 1 {
            return Ok(None);
        }
        match mpi::initialize() {
            Some(universe) => Ok(Some(Box::new(MpiRanks {
                world: universe.world(),
                _universe: universe,
            }))),
            None => Err(Failure::Internal("MPI has been started before".to_owned())),
        }
    }

    impl LaunchedRanks for MpiRanks {
        fn abort(&self, code: u8) -> ! {
            self.world.abort(code.into())
        }
    }

    impl Ranks for MpiRanks {
        fn rank(&self) -> usize {
            self.world.rank() as usize
        }

        fn size(&self) -> usize {
            self.world.size() as usize
        }

        fn exchange(&mut self, out: &[Vec<u8>], into: &mut [Vec<u8>]) {
            let own = self.rank();
            let world = &self.world;
            mpi::request::multiple_scope(out.len(), |scope, sends| {
                for (to, bytes) in out.iter().enumerate() {
                    if to != own {
                        let to = world.process_at_rank(to as i32);
                        sends.add(to.immediate_send(scope, &bytes[..]));
                    }
                }
                for (from, bytes) in into.iter_mut().enumerate() {
                    if from != own {
                        let from = world.process_at_rank(from as i32);
                        let (message, status) = from.matched_probe();
                        bytes.resize(status.count(u8::equivalent_datatype()) as usize, 0);
                        message.matched_receive_into(&mut bytes[..]);
                    }
                }
                sends.wait_all(&mut Vec::new());
            });
        }
    }
}
