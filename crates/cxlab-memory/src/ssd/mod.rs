//! A flash drive: host queue, write buffer, flash translation layer, and flash with its channels.
//!
//! A request of 64 B reads or writes a whole sub-page (4 KiB); a flash page holds several.
//! Writes go to the buffer, short writes after the rest of the sub-page has been read, and
//! leave the buffer in whole pages. A page-level mapping has the place of each sub-page. Its
//! own pages are stored in flash too, and a part of them in DRAM. Planes collect garbage
//! independently. See `docs/explain/ssd.md`.
//!
//! Invariants of the drive:
//!
//! - The mapping refers to the data programmed last. It changes at the end of a program, not at the
//!   start of one.
//! - A block is erased only if nothing in it is mapped, being read or being written.
//! - Collection always has a block to move data to.
//! - Memory grows with the written blocks and the written parts of the mapping.
//!
//! Left out: trim, bad blocks, read errors and retries, refresh of old data, copy-back, cache reads
//! and programs, power, and the firmware's own processors.

mod audit;
mod blocks;
mod buffer;
mod collect;
mod contents;
mod drive;
mod events;
mod geometry;
mod instant;
mod map;
mod mapping_cache;
mod nand;
mod params;
mod presets;
mod read;
mod report;
mod victims;
mod warm;
mod write;

use cxlab_cache::MemoryBackend;
use cxlab_engine::catalog::{Entry, ParamError, read_params};
use cxlab_engine::units::{Bytes, Picos};
use schemars::JsonSchema;

use crate::{Medium, MediumSite};

pub use contents::ObservedLine;
pub use drive::Drive;
pub use instant::PowerFailure;
pub use params::{
    Acknowledge, CollectionParams, CommandParams, FillOrder, MultiPlane, PowerLoss, SsdParams,
    Suspend, Unwritten, WriteBufferParams,
};
pub use presets::{FlashDie, FlashPreset};
pub use victims::{GcPolicy, GcPolicyName, POLICIES};

pub(crate) const ENTRY: Entry<Box<dyn Medium>> = Entry {
    name: "ssd",
    summary: "flash drive: write buffer, page mapping, garbage collection, channels and dies",
    schema: <SsdParams as JsonSchema>::json_schema,
    build: |params| {
        let params: SsdParams = read_params(params)?;
        params.check_alone()?;
        Ok(Box::new(params))
    },
};

impl Medium for SsdParams {
    fn is_persistent(&self) -> Option<bool> {
        Some(true)
    }

    fn check(&self, capacity: Bytes) -> Result<(), ParamError> {
        drive::check(self, capacity)
    }

    fn backend(&self, site: MediumSite) -> Box<dyn MemoryBackend> {
        let drive = Drive::new(self, site);
        Box::new(drive.expect("the parameters and the capacity were checked"))
    }

    fn slowest(&self) -> Picos {
        let programs = self.cells().program;
        programs.into_iter().max().unwrap_or_default()
    }

    fn idle_read_ps(&self) -> Option<u64> {
        let cells = self.cells();
        let first = cells.read[0];
        let same = cells.read.iter().all(|time| *time == first);
        let transfer = cells.rate.time_for(self.sub_page_bytes());
        let constant = self.controller_time + self.mapping_time;
        let time = self.commands.command_time + first + transfer + constant;
        let always = self.mapping_cache.is_none() && self.unwritten == Unwritten::Array;
        (same && always).then_some(time.0)
    }
}
