//! Persistent memory on DIMMs: a simple mode, and a detailed mode of Intel's Optane.
//!
//! The simple mode is what CXL-SSD-Sim and SpecPMT simulate: 150 ns to read, 500 ns to write, and a
//! row buffer of 256 bytes for each bank. Its banks work in order of arrival, or behind gem5's
//! memory controller. The detailed mode has the buffers that measurements found in real DIMMs;
//! `docs/explain/pmem.md` compares the mode with those measurements.

mod controller;
mod detailed;
mod dimm;
mod pending;
mod simple;

#[cfg(test)]
mod tests;

use cxlab_cache::{MemoryBackend, MemoryRequest};
use cxlab_engine::catalog::{Entry, ParamError, in_range, read_params, refused};
use cxlab_engine::units::{Bytes, BytesPerSec, LINE_BYTES, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Medium, MediumSite};
use controller::ControlledMemory;
use detailed::{DetailedMemory, DetailedParams};
use simple::{SimpleMemory, SimpleParams};

/// Bytes that the medium reads and writes as a whole: a row of the simple mode, or an XPLine of the
/// detailed mode (Yang et al., FAST'20, section 2.1).
pub(crate) const GRANULE: u64 = 256;
/// Lines of 64 bytes in a granule.
pub(crate) const GRANULE_LINES: u64 = GRANULE / LINE_BYTES;

/// The rows of 256 bytes that a request touches.
fn rows(request: &MemoryRequest) -> impl Iterator<Item = u64> + use<> {
    let first = request.dpa.line().0;
    let last = first + u64::from(request.lines) - 1;
    first / GRANULE_LINES..=last / GRANULE_LINES
}

/// The level of detail of the model.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Banks with a read time, a write time and a row buffer.
    Simple,
    /// Write-pending queue, read-modify-write buffer, address indirection table, media.
    #[default]
    Detailed,
}

/// The point at which a write of the simple mode completes.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum WriteDone {
    /// A write completes when it is queued. It stays in the queue until writes are drained.
    Queued,
    /// A write completes when it is in the medium. Banks work in order of arrival.
    Written,
}

/// Parameters of persistent memory. Parameters of the other mode are refused.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct PmemParams {
    /// `simple` or `detailed`. Default `detailed`.
    pub mode: Mode,
    /// Most requests in the medium. 1 to 65536. Default 256 (*assumed*). In the simple mode with
    /// `write_done = "queued"`: most lines of queued writes; default 128 (gem5's NVM_2400_1x64).
    #[schemars(range(min = 1, max = 65536))]
    pub queue: Option<u32>,
    /// Rate of the memory bus; in the detailed mode, of each DIMM. Default 19.2 GB/s (DDR4-2400,
    /// gem5's NVM interface) in the simple mode, 21.328 GB/s (DDR4-2666, the DIMMs of FAST'20) in
    /// the detailed mode.
    pub bus: Option<BytesPerSec>,
    /// Simple mode: time of a read that misses the row buffer. With `write_done = "queued"` this
    /// is the bank's time alone, and `row_hit` is added. Default 150 ns (CXL-SSD-Sim, Table I,
    /// after SpecPMT, ASPLOS'23).
    pub read: Option<Picos>,
    /// Simple mode: time of a write of a row. Default 500 ns (source as for `read`).
    pub write: Option<Picos>,
    /// Simple mode: when a write completes, and whether reads have priority over waiting writes.
    /// Default `written`; `queued` is gem5's memory controller, which drains writes in batches.
    pub write_done: Option<WriteDone>,
    /// With `write_done = "queued"`: most lines of queued reads. 1 to 65536. Default
    /// 64 (gem5's NVM_2400_1x64).
    #[schemars(range(min = 1, max = 65536))]
    pub read_queue: Option<u32>,
    /// With `write_done = "queued"`: writes have priority over reads while more than this part of
    /// `queue` is in use, in percent. 0 to 99. Default 85 (gem5's `write_high_thresh_perc`).
    #[schemars(range(min = 0, max = 99))]
    pub drain_above: Option<u32>,
    /// With `write_done = "queued"`: while no read waits, writes are drained if more
    /// than this part of `queue` is in use, in percent. 0 to `drain_above`. Default
    /// 50 (gem5's `write_low_thresh_perc`).
    #[schemars(range(min = 0, max = 99))]
    pub drain_below: Option<u32>,
    /// With `write_done = "queued"`: most rows that the banks hold to be written. 1 to 65536.
    /// Default 128 (gem5's `max_pending_writes`).
    #[schemars(range(min = 1, max = 65536))]
    pub pending_writes: Option<u32>,
    /// With `write_done = "queued"`: whether lines of a row that wait for its bank together are
    /// written together, as by the buffer of Optane (FAST'20, section 5.1). Default true. With
    /// false each line takes 500 ns, as in gem5.
    pub combine: Option<bool>,
    /// Simple mode: time of a read that hits the row buffer. Default 17.5 ns (send and burst,
    /// tSEND 14.16 ns + tBURST 3.33 ns, of gem5's NVM_2400_1x64).
    pub row_hit: Option<Picos>,
    /// Simple mode: number of banks, each with a row buffer of 256 bytes. Adjacent rows are in
    /// different banks. 1 to 65536. Default 16 (gem5's NVM_2400_1x64).
    #[schemars(range(min = 1, max = 65536))]
    pub banks: Option<u32>,
    /// Detailed mode: number of DIMMs. 1 to 64. Default 6 (one socket of FAST'20).
    #[schemars(range(min = 1, max = 64))]
    pub dimms: Option<u32>,
    /// Detailed mode: consecutive bytes on one DIMM. A power of two from 256 B to 1 GiB. Default 4
    /// KiB (FAST'20, section 2.1).
    pub interleave: Option<Bytes>,
    /// Detailed mode: latency from the requester to the DIMM's buffers and back, without the
    /// transfer of the line. Default 127 ns: with the transfer 130 ns, the time of a load that hits
    /// the buffer (169 ns a sequential load on average and a deviation of 67.6 ns, FAST'20 Fig. 2,
    /// make it 130 ns; 120 ns in the measurements of LENS, MICRO'20). The path from the core to its
    /// memory controller is included, as in published latencies.
    pub interface: Option<Picos>,
    /// Detailed mode: time from a write's place in the write-pending queue to its completion.
    /// Default 90 ns (non-temporal store, FAST'20 Fig. 2). The content of the queue survives a
    /// power failure (ADR).
    pub write_accept: Option<Picos>,
    /// Detailed mode: lines of 64 bytes in a DIMM's write-pending queue. 1 to 4096. Default 8
    /// (512 B, LENS).
    #[schemars(range(min = 1, max = 4096))]
    pub wpq_lines: Option<u32>,
    /// Detailed mode: lines of 256 bytes in a DIMM's read-modify-write buffer. 2 to 65536. Default
    /// 64 (16 KiB: FAST'20 section 5.1, LENS).
    #[schemars(range(min = 2, max = 65536))]
    pub buffer_lines: Option<u32>,
    /// Detailed mode: blocks of 4 KiB whose media address a DIMM's controller caches. A multiple of
    /// 16 from 16 to 1048576. Default 4096 (16 MiB, LENS); 16 ways, LRU (*assumed*).
    #[schemars(range(min = 16, max = 1_048_576))]
    pub ait_blocks: Option<u32>,
    /// Detailed mode: time to read another block's address from the table in the DIMM's own DRAM.
    /// Default 31.5 ns (one access of closed DDR4-2666: 19 + 19 + 4 clocks of 0.75 ns, timings as
    /// in VANS's configuration).
    pub ait_miss: Option<Picos>,
    /// Detailed mode: time in which the media read 256 bytes. Default 155 ns: `media_accesses` of
    /// them in parallel make the 6.6 GB/s of one DIMM (Izraelevitz et al. 2019, abstract).
    pub media_read: Option<Picos>,
    /// Detailed mode: time in which the media write 256 bytes. It includes the comparison with the
    /// old data, so a partial write takes no longer. Default 455 ns: `media_accesses` of them in
    /// parallel make the 2.25 GB/s of one DIMM, and 0.56 GB/s for random writes of 64 bytes
    /// (FAST'20, published data of Figs. 4 and 5).
    pub media_write: Option<Picos>,
    /// Detailed mode: accesses that a DIMM's media serve in parallel, reads and writes
    /// together. 1 to 256. Default 4 (*assumed*; bandwidth shows only the quotient of this
    /// number and the times).
    #[schemars(range(min = 1, max = 256))]
    pub media_accesses: Option<u32>,
}

pub(crate) const ENTRY: Entry<Box<dyn Medium>> = Entry {
    name: "pmem",
    summary: "persistent memory: Optane DIMMs in detail, or banks with a read and a write time",
    schema: <PmemParams as JsonSchema>::json_schema,
    build: |params| {
        let params: PmemParams = read_params(params)?;
        Ok(Box::new(params.resolve()?))
    },
};

impl PmemParams {
    /// Refuses parameters of the other mode, and fills in the defaults.
    fn resolve(&self) -> Result<Pmem, ParamError> {
        macro_rules! given {
            ($params:ident: $($field:ident)*) => {
                [$((stringify!($field), $params.$field.is_some())),*]
            };
        }
        let queued = given!(self: read_queue drain_above drain_below pending_writes combine);
        let simple = given!(self: read write write_done row_hit banks);
        let detailed = given!(self: dimms interleave interface write_accept wpq_lines buffer_lines
            ait_blocks ait_miss media_read media_write media_accesses);
        let (others, needed): (&[(&str, bool)], _) = match self.mode {
            Mode::Simple => (&detailed, "detailed"),
            Mode::Detailed => (&simple, "simple"),
        };
        if let Some((field, _)) = others.iter().find(|(_, given)| *given) {
            let message = format!("found a value; allowed only with mode = \"{needed}\"");
            return Err(ParamError::new(*field, message));
        }
        let is_queued = self.mode == Mode::Simple && self.write_done == Some(WriteDone::Queued);
        if let Some((field, _)) = queued.iter().find(|(_, given)| *given && !is_queued) {
            let message = "found a value; allowed only with mode = \"simple\" and write_done = \
                           \"queued\"";
            return Err(ParamError::new(*field, message));
        }
        in_range("queue", self.queue.unwrap_or(1), 1..=65536)?;
        if self.bus == Some(BytesPerSec(0)) {
            return Err(refused("bus", "0 B/s", "more than 0 B/s"));
        }
        match self.mode {
            Mode::Simple => SimpleParams::new(self).map(Pmem::Simple),
            Mode::Detailed => DetailedParams::new(self).map(Pmem::Detailed),
        }
    }
}

/// The resolved parameters of persistent memory.
enum Pmem {
    Simple(SimpleParams),
    Detailed(DetailedParams),
}

impl Medium for Pmem {
    fn is_persistent(&self) -> Option<bool> {
        Some(true)
    }

    fn check(&self, capacity: Bytes) -> Result<(), ParamError> {
        let Pmem::Detailed(params) = self else {
            return Ok(());
        };
        let stripe = params.dimms * params.interleave;
        if capacity.0 < stripe {
            let (dimms, each) = (params.dimms, Bytes(params.interleave));
            let found = format!("{dimms} DIMMs interleaved at {each} in a device of {capacity}");
            let allowed = format!("at most as many as {capacity} divided by {each}");
            return Err(refused("dimms", found, allowed));
        }
        Ok(())
    }

    fn backend(&self, site: MediumSite) -> Box<dyn MemoryBackend> {
        match self {
            Pmem::Simple(params) => match params.controller {
                Some(queues) => Box::new(ControlledMemory::new(queues, params.times, params.banks)),
                None => Box::new(SimpleMemory::new(params)),
            },
            Pmem::Detailed(params) => Box::new(DetailedMemory::new(params, site)),
        }
    }

    fn idle_read_ps(&self) -> Option<u64> {
        let Pmem::Simple(params) = self else {
            return None;
        };
        let times = params.times;
        let constant = times.row_hit == times.read && params.controller.is_none();
        constant.then_some(times.read)
    }
}
