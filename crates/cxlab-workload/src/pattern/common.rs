//! Parameters and helpers that all synthetic patterns share: the accessed region, and the mix
//! of reads and writes.

use cxlab_engine::catalog::ParamError;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Hpa, LINE_BYTES, SimTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::WorkloadError;
use crate::op::{MemOp, OpKind, OpSource};
use crate::params::require;
use crate::workload::SourceContext;

/// How reads and writes are mixed when both occur.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// Each operation is a read with probability `read_ratio`, independently.
    #[default]
    Random,
    /// Reads and writes are interleaved evenly: among the first n operations of a source, the
    /// number of reads is n times `read_ratio`, rounded up.
    Regular,
}

/// Declares the parameters of a pattern: first its own, then those that all patterns share.
/// (serde's `flatten` cannot be combined with `deny_unknown_fields`.)
macro_rules! pattern_params {
    ($(#[$meta:meta])* $name:ident {
        $($(#[$field_meta:meta])* $field:ident: $type:ty = $default:expr,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
            /// Bytes that the pattern accesses. A multiple of 64 B. Default: all
            /// memory from `offset` on.
            pub footprint: Option<cxlab_engine::units::Bytes>,
            /// Address at which the footprint begins. A multiple of 64 B.
            pub offset: cxlab_engine::units::Bytes,
            /// Bytes of an operation: 32 B, or a power of two from 64 B to 4 KiB. Default 64 B. An
            /// operation of more than a line becomes several requests and completes when all of
            /// them have; only hosts without a core and without a coherent cache allow it. An
            /// operation of 32 B still moves a whole line, because a CXL.mem read has no other
            /// size; a host without a cache writes it as its `issue.partial_write` says.
            pub request: cxlab_engine::units::Bytes,
            /// Fraction of operations that are reads, 0 to 1.
            #[schemars(range(min = 0, max = 1))]
            pub read_ratio: f64,
            /// How reads and writes are mixed.
            pub mix: crate::pattern::Mix,
            /// Whether each requester accesses its own equal slice of the footprint.
            pub private: bool,
        }

        impl Default for $name {
            fn default() -> Self {
                $name {
                    $($field: $default,)*
                    footprint: None,
                    offset: cxlab_engine::units::Bytes(0),
                    request: cxlab_engine::units::Bytes(64),
                    read_ratio: 1.0,
                    mix: crate::pattern::Mix::Random,
                    private: false,
                }
            }
        }

        impl $name {
            fn common(&self) -> crate::pattern::common::Common {
                crate::pattern::common::Common {
                    footprint: self.footprint,
                    offset: self.offset,
                    request: self.request,
                    read_ratio: self.read_ratio,
                    mix: self.mix,
                    private: self.private,
                }
            }
        }

        impl crate::workload::Workload for $name {
            fn check(&self) -> Result<(), cxlab_engine::catalog::ParamError> {
                self.common().check()?;
                self.check_own()
            }

            fn request(&self) -> cxlab_engine::units::Bytes {
                self.request
            }

            fn source(
                &self,
                ctx: &crate::workload::SourceContext,
            ) -> Result<Box<dyn crate::op::OpSource>, crate::error::WorkloadError> {
                self.check()?;
                let common = self.common();
                self.source_of(common.region(ctx)?, common.mixer())
            }
        }
    };
}
pub(super) use pattern_params;

/// What a pattern adds to the parameters that all patterns share.
pub(super) trait Pattern {
    /// Checks the pattern's own parameters as far as possible before the system is known.
    fn check_own(&self) -> Result<(), ParamError> {
        Ok(())
    }

    /// Makes the source of one requester, which accesses this region.
    fn source_of(&self, region: Region, mixer: Mixer) -> Result<Box<dyn OpSource>, WorkloadError>;
}

/// The parameters that all patterns share, for one pattern.
pub(super) struct Common {
    pub footprint: Option<Bytes>,
    pub offset: Bytes,
    pub request: Bytes,
    pub read_ratio: f64,
    pub mix: Mix,
    pub private: bool,
}

impl Common {
    /// Checks the parameters as far as possible before the system is known.
    pub fn check(&self) -> Result<(), ParamError> {
        unit_interval("read_ratio", self.read_ratio)?;
        let bytes = self.request.0;
        let known = bytes.is_power_of_two() && (32..=4096).contains(&bytes);
        let allowed = "powers of two from 32 B to 4 KiB";
        require(known, "request", self.request, allowed)?;
        self.whole_requests("offset", self.offset)?;
        let Some(footprint) = self.footprint else {
            return Ok(());
        };
        require(footprint.0 > 0, "footprint", "0 B", "64 B and more")?;
        self.whole_requests("footprint", footprint)
    }

    /// Returns an error for a size that is not a multiple of the line and of the request size.
    fn whole_requests(&self, field: &str, size: Bytes) -> Result<(), ParamError> {
        whole_lines(field, size)?;
        let found = format_args!("{} B", size.0);
        let allowed = format_args!("multiples of {}, the request", self.request);
        require(size.0.is_multiple_of(self.request.0), field, found, allowed)
    }

    /// The part of memory that one requester accesses in this system.
    pub fn region(&self, ctx: &SourceContext) -> Result<Region, WorkloadError> {
        self.check()?;
        let span = ctx.span.0;
        let room = span.saturating_sub(self.offset.0);
        let footprint = self
            .footprint
            .map_or(room / self.grain() * self.grain(), |bytes| bytes.0);
        let (memory, offset) = (ctx.span, self.offset);
        let most = span.saturating_sub(self.grain());
        let allowed =
            format_args!("at most {most} B, so that an operation fits in the {memory} of memory");
        require(room >= self.grain(), "offset", offset, allowed)?;
        let most = Bytes(room / LINE_BYTES * LINE_BYTES);
        let allowed = format_args!("64 B to {most} ({memory} of memory from offset {offset})");
        require(footprint <= room, "footprint", Bytes(footprint), allowed)?;
        let whole = Region {
            first: self.offset.0,
            lines: footprint / self.request.0,
            bytes: self.request.0,
        };
        if self.private {
            whole.slice(ctx)
        } else {
            Ok(whole)
        }
    }

    /// The size of which offset and footprint must be multiples, in bytes.
    fn grain(&self) -> u64 {
        self.request.0.max(LINE_BYTES)
    }

    /// Makes the generator of operation kinds for one source.
    pub fn mixer(&self) -> Mixer {
        // 2^64 as `f64`. The product is below 2^64 whenever the ratio is below 1.
        let threshold = (self.read_ratio * 18_446_744_073_709_551_616.0) as u64;
        match self.mix {
            _ if self.read_ratio >= 1.0 => Mixer::Always(OpKind::Read),
            _ if self.read_ratio <= 0.0 => Mixer::Always(OpKind::Write),
            Mix::Random => Mixer::Random { threshold },
            Mix::Regular => Mixer::Regular {
                step: threshold,
                phase: threshold.wrapping_neg(),
            },
        }
    }
}

/// A contiguous range of memory, divided into blocks that one operation accesses each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Region {
    /// Byte address of the first block.
    pub first: u64,
    /// The number of blocks; at least 1.
    pub lines: u64,
    /// Bytes of a block: the size of an operation.
    pub bytes: u64,
}

/// The lines that one operation accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Block {
    hpa: Hpa,
    lines: u8,
}

impl Region {
    /// The equal slice of the region for one requester.
    fn slice(self, ctx: &SourceContext) -> Result<Region, WorkloadError> {
        let requesters = ctx.requesters.max(1) as u64;
        let lines = self.lines / requesters;
        let (all, least) = (Bytes(self.lines * self.bytes), Bytes(self.bytes));
        let found = format_args!("a footprint of {all}");
        let allowed = format_args!("at least {least} for each of {requesters} requesters");
        require(lines > 0, "private", found, allowed)?;
        let requester = (ctx.requester as u64).min(requesters - 1);
        Ok(Region {
            first: self.first + requester * lines * self.bytes,
            lines,
            bytes: self.bytes,
        })
    }

    /// The lines of the block with this index.
    #[inline]
    pub fn line(self, index: u64) -> Block {
        Block {
            hpa: Hpa((self.first + index * self.bytes) & !(LINE_BYTES - 1)),
            lines: (self.bytes / LINE_BYTES).max(1) as u8,
        }
    }
}

/// Decides for each operation whether it reads or writes.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(super) enum Mixer {
    Always(OpKind),
    /// A read when 64 random bits are below the threshold, which meets the ratio to within 2^-53.
    Random {
        threshold: u64,
    },
    /// A read whenever adding the ratio (times 2^64) to the phase carries, as
    /// in Bresenham's line algorithm.
    Regular {
        step: u64,
        phase: u64,
    },
}

impl Mixer {
    /// The kind of the next operation.
    #[inline]
    pub fn kind(&mut self, rng: &mut StreamRng) -> OpKind {
        let read = match self {
            Mixer::Always(kind) => return *kind,
            Mixer::Random { threshold } => rng.next_u64() < *threshold,
            Mixer::Regular { step, phase } => {
                let (next, carry) = phase.overflowing_add(*step);
                *phase = next;
                carry
            }
        };
        if read { OpKind::Read } else { OpKind::Write }
    }
}

/// Makes an operation that depends on no other and has no earliest time.
#[inline]
pub(super) fn untimed(block: Block, kind: OpKind) -> MemOp {
    MemOp {
        hpa: block.hpa,
        kind,
        lines: block.lines,
        not_before: SimTime::ZERO,
        dependent: false,
        write_back: false,
    }
}

/// Returns an error for a fraction outside 0..=1.
pub(super) fn unit_interval(field: &str, value: f64) -> Result<(), ParamError> {
    require((0.0..=1.0).contains(&value), field, value, "0 to 1")
}

/// Returns an error for a size that is not a multiple of the line size.
pub(super) fn whole_lines(field: &str, size: Bytes) -> Result<(), ParamError> {
    let found = format_args!("{} B", size.0);
    let whole = size.0.is_multiple_of(LINE_BYTES);
    require(whole, field, found, "multiples of 64 B")
}
