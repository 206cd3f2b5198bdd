//! The catalog of workloads that a scenario can name, one file each.
//!
//! Synthetic patterns never finish: the run decides how long they last. All of them share a few
//! parameters: address and size of the footprint, the mix of reads and writes, and whether each
//! requester has its own slice of the footprint.

pub(crate) mod common;
mod external;
mod hot_cold;
mod permutation;
mod pointer_chase;
mod stream;
mod stride;
mod trace;
mod uniform;
mod zipf;

use cxlab_engine::catalog::Entry;

use crate::kernel;
use crate::workload::Workload;

pub use common::Mix;
pub use external::External;
pub use hot_cold::HotCold;
pub use pointer_chase::PointerChase;
pub use stream::Stream;
pub use stride::Stride;
pub use trace::{Addresses, Share, Timing, Trace};
pub use uniform::Uniform;
pub use zipf::Zipf;

/// Every workload, in the order in which `cxlab list` shows them.
pub static CATALOG: &[Entry<Box<dyn Workload>>] = &[
    stream::ENTRY,
    stride::ENTRY,
    uniform::ENTRY,
    hot_cold::ENTRY,
    zipf::ENTRY,
    pointer_chase::ENTRY,
    trace::ENTRY,
    external::ENTRY,
    kernel::stream::ENTRY,
    kernel::stream_threads::ENTRY,
    kernel::gapbs::ENTRY,
    kernel::nas::ENTRY,
    kernel::random_read::ENTRY,
    kernel::key_value::ENTRY,
    kernel::dma_transfers::ENTRY,
    kernel::load_store_unit::ENTRY,
    kernel::hot_pages::ENTRY,
    kernel::circus_tent::ENTRY,
    kernel::axpy::ENTRY,
    kernel::rpc::ENTRY,
];
