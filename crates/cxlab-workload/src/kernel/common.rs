//! What all kernels share: the placement of their data, the division of work among cores,
//! and checks of parameters.

use cxlab_engine::catalog::ParamError;
use cxlab_engine::units::{Bytes, LINE_BYTES};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::require;
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
pub(super) struct MemoryNeed {
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

impl MemoryNeed {
    /// Bytes in the memory that parameter `data` chooses.
    pub fn of_data(
        memory: Memory,
        base: Bytes,
        size_field: &'static str,
        bytes: u64,
    ) -> MemoryNeed {
        MemoryNeed {
            memory_field: "data",
            memory,
            size_field,
            base: base.0,
            bytes,
        }
    }

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
        let exists = self.memory == Memory::Cxl || local > Bytes(0);
        let allowed = "`cxl`, because the host has no memory of its own";
        require(exists, self.memory_field, "`local`", allowed)?;
        let end = self.base.checked_add(self.bytes);
        let (bytes, base) = (Bytes(self.bytes), Bytes(self.base));
        let found = format_args!("data of {bytes} from offset {base}");
        let allowed = format_args!("what ends within the {room} of memory");
        let fits = end.is_some_and(|end| end <= room.0);
        require(fits, self.size_field, found, allowed)?;
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
    let allowed = format_args!("some for each of {requesters} cores");
    require(each > 0, field, "too little", allowed)?;
    let first = requester * each + requester.min(more);
    Ok((first, each + u64::from(requester < more)))
}

/// Returns an error for a system without cores.
pub(super) fn needs_cores(ctx: &ThreadContext) -> Result<(), ParamError> {
    let allowed = "with processor = {}";
    require(ctx.cores > 0, "kind", "a system without cores", allowed)
}

/// Returns an error for a system without accelerators.
pub(super) fn needs_accelerators(ctx: &ThreadContext) -> Result<(), ParamError> {
    let some = ctx.accelerators > 0 && ctx.elements > 0;
    require(
        some,
        "kind",
        "a system without accelerators",
        "at least one",
    )
}

/// Returns an error for a system without a core or without an accelerator.
pub(super) fn needs_both(ctx: &ThreadContext) -> Result<(), ParamError> {
    let both = ctx.cores > 0 && ctx.accelerators > 0 && ctx.elements > 0;
    let allowed = "at least one core and one accelerator";
    require(both, "kind", "a system without both", allowed)
}

/// The error of a kernel whose accelerator would load or store host memory and has no CXL.cache.
pub(super) fn without_cxl_cache(field: &str, found: &str, allowed: &str) -> ParamError {
    let message = format!(
        "found `{found}` on an accelerator with kind = \"pcie\", which has no CXL.cache; allowed: {allowed}"
    );
    ParamError::new(field, message)
}

/// The doubles in a sequence of bytes.
pub(super) fn doubles(bytes: &[u8]) -> impl Iterator<Item = f64> + '_ {
    let (whole, _) = bytes.as_chunks::<8>();
    whole.iter().map(|bytes| f64::from_le_bytes(*bytes))
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
    let allowed = format_args!("{low} to {high}");
    require((low..=high).contains(&value), field, value, allowed)
}

/// Returns an error for an offset that is not a multiple of `unit` bytes.
pub(super) fn aligned(field: &str, value: Bytes, unit: u64) -> Result<(), ParamError> {
    let allowed = format_args!("multiples of {}", Bytes(unit));
    require(value.0.is_multiple_of(unit), field, value, allowed)
}

/// Returns an error for an offset that is not a multiple of the line size.
pub(super) fn whole_lines(field: &str, value: Bytes) -> Result<(), ParamError> {
    aligned(field, value, LINE_BYTES)
}
