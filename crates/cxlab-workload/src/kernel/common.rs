//! What all kernels share: the placement of their data, the division of work among cores,
//! and checks of parameters.

use cxlab_engine::catalog::ParamError;
use cxlab_engine::units::{Bytes, LINE_BYTES};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::program::Phase;
use crate::thread::{Bases, ThreadContext};
use crate::workload::SourceContext;

/// A memory in which a kernel's data can be placed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// The CXL memory of the system.
    #[default]
    Cxl,
    /// The host's own memory.
    Local,
}

/// Bytes that a kernel needs in a memory, with the parameters that determine them.
pub(super) struct Need {
    /// The parameter that chooses the memory.
    pub memory_field: &'static str,
    /// The memory in which the bytes are placed.
    pub memory: Memory,
    /// The parameter that determines the size.
    pub size_field: &'static str,
    /// Offset of the data from the beginning of the memory, in bytes.
    pub base: u64,
    /// Number of bytes needed.
    pub bytes: u64,
}

impl Need {
    /// The address of the first byte, for a program on a core.
    pub fn place(&self, ctx: &SourceContext) -> Result<u64, ParamError> {
        self.place_in(ctx.span, ctx.local, Bases::PHYSICAL)
    }

    /// The address of the first byte, for a kernel made of threads.
    pub fn place_for(&self, ctx: &ThreadContext) -> Result<u64, ParamError> {
        self.place_in(ctx.span, ctx.local, ctx.bases)
    }

    fn place_in(&self, span: Bytes, local: Bytes, bases: Bases) -> Result<u64, ParamError> {
        let (first, room) = match self.memory {
            Memory::Cxl => (bases.cxl, span),
            Memory::Local => (bases.local, local),
        };
        if self.memory == Memory::Local && local == Bytes(0) {
            let message =
                "found `local`; allowed: `cxl`, because the host has no memory of its own";
            return Err(ParamError::new(self.memory_field, message));
        }
        let end = self.base.checked_add(self.bytes);
        if end.is_none_or(|end| end > room.0) {
            let message = format!(
                "found data of {} from offset {}; allowed: what ends within the {} of memory",
                Bytes(self.bytes),
                Bytes(self.base),
                room
            );
            return Err(ParamError::new(self.size_field, message));
        }
        Ok(first + self.base)
    }
}

/// Divides `total` items equally among the cores, and returns the first item and the number of
/// items of one core. If the division leaves a remainder, the first cores have one item more.
pub(super) fn share(
    field: &str,
    total: u64,
    ctx: &SourceContext,
) -> Result<(u64, u64), ParamError> {
    let requesters = ctx.requesters.max(1) as u64;
    let requester = (ctx.requester as u64).min(requesters - 1);
    let (each, more) = (total / requesters, total % requesters);
    if each == 0 {
        let message = format!("found too little; allowed: some for each of {requesters} cores");
        return Err(ParamError::new(field, message));
    }
    let first = requester * each + requester.min(more);
    Ok((first, each + u64::from(requester < more)))
}

/// The error of a kernel whose accelerator would load or store host memory and has no CXL.cache.
pub(super) fn without_cxl_cache(field: &str, found: &str, allowed: &str) -> ParamError {
    let message = format!(
        "found `{found}` on an accelerator with kind = \"pcie\", which has no CXL.cache; allowed: {allowed}"
    );
    ParamError::new(field, message)
}

/// One step of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a pseudorandom number.
pub(super) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Makes a phase from its name and the bytes of one of its operations.
pub(super) fn phase(name: &str, bytes: u64) -> Phase {
    Phase {
        name: name.to_owned(),
        bytes: Bytes(bytes),
    }
}

/// Returns an error for a number outside a range.
pub(super) fn within(field: &str, value: u64, low: u64, high: u64) -> Result<(), ParamError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let message = format!("found {value}; allowed: {low} to {high}");
    Err(ParamError::new(field, message))
}

/// Returns an error for an offset that is not a multiple of `unit` bytes.
pub(super) fn aligned(field: &str, value: Bytes, unit: u64) -> Result<(), ParamError> {
    if value.0.is_multiple_of(unit) {
        return Ok(());
    }
    let message = format!("found {value}; allowed: multiples of {}", Bytes(unit));
    Err(ParamError::new(field, message))
}

/// Returns an error for an offset that is not a multiple of the line size.
pub(super) fn whole_lines(field: &str, value: Bytes) -> Result<(), ParamError> {
    aligned(field, value, LINE_BYTES)
}
