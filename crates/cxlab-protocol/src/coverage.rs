//! How much of CXL.mem and CXL.cache is modelled, opcode by opcode: the
//! source of `docs/reference/coverage.md`.
//!
//! The rows are all opcodes of CXL 3.1 (tables 3-22, 3-25 to 3-27 and, for CXL.mem, section 3.3),
//! including those without a variant of [`Opcode`]. `Fast_GO` of CXL 2.0 has no row: its code is reserved.

use crate::opcode::{Channel, Opcode};

/// How much of an opcode is modelled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Modelled {
    /// All that the simulator's purpose requires: components send the message and act on it.
    Yes,
    /// Some of it; the remark says what is modelled, or what is missing.
    Partly,
    /// Nothing, or only the name.
    No,
}

impl Modelled {
    /// Wording in `docs/reference/coverage.md`.
    pub const fn name(self) -> &'static str {
        match self {
            Modelled::Yes => "modelled",
            Modelled::Partly => "partly",
            Modelled::No => "not",
        }
    }
}

/// One opcode of the specification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coverage {
    /// Message class of the opcode.
    pub channel: Channel,
    /// Code of the opcode within its class.
    pub code: u8,
    /// Name of the opcode, spelt as in the specification.
    pub name: &'static str,
    /// The corresponding [`Opcode`], or `None` if the simulator has none.
    pub opcode: Option<Opcode>,
    /// How much of the opcode is modelled.
    pub modelled: Modelled,
    /// What is missing, or where the opcode is used. May be empty.
    pub remark: &'static str,
}

const fn row(
    opcode: Opcode,
    name: &'static str,
    modelled: Modelled,
    remark: &'static str,
) -> Coverage {
    Coverage {
        channel: opcode.channel(),
        code: opcode.code(),
        name,
        opcode: Some(opcode),
        modelled,
        remark,
    }
}

/// A row for an opcode of the trusted execution environment (TEE), which is not modelled.
const fn tee(channel: Channel, code: u8, name: &'static str) -> Coverage {
    Coverage {
        channel,
        code,
        name,
        opcode: None,
        modelled: Modelled::No,
        remark: "TEE is not modelled.",
    }
}

use Modelled::{Partly, Yes};

/// All opcodes, ordered by class and code.
#[rustfmt::skip]
pub const COVERAGE: &[Coverage] = &[
    row(Opcode::MemInv, "MemInv", Yes, "HDM-D and HDM-DB: lines taken without data; HDM-DB: upgrades, and flushes of processors (MetaValue Invalid)."),
    row(Opcode::MemRd, "MemRd", Yes, "HDM-H; HDM-DB to own (SnpInv), to share (SnpData) and for the current value (SnpCur). None caches nothing and invalidates (No-Op with SnpInv)."),
    row(Opcode::MemRdData, "MemRdData", Yes, "HDM-DB."),
    row(Opcode::MemRdFwd, "MemRdFwd", Partly, "HDM-D: answers a Type 2 device that wants its own line in device bias."),
    row(Opcode::MemWrFwd, "MemWrFwd", Yes, "HDM-D: answers weakly ordered stores of a Type 2 device with `store_request` to its own memory in host bias."),
    tee(Channel::M2sReq, 5, "MemRdTEE"),
    tee(Channel::M2sReq, 6, "MemRdDataTEE"),
    row(Opcode::MemSpecRd, "MemSpecRd", Yes, "Of processors with `llc.speculative_reads` (HDM-H)."),
    row(Opcode::MemInvNt, "MemInvNT", Partly, "Taken for MemInv by the tables; no component sends it."),
    row(Opcode::MemClnEvct, "MemClnEvct", Yes, "HDM-DB."),
    tee(Channel::M2sReq, 12, "MemSpecRdTEE"),
    tee(Channel::M2sReq, 13, "TEUpdate"),
    row(Opcode::MemWr, "MemWr", Partly, "HDM-H, with poison, and HDM-DB; with SnpInv it is refused, because it would wait for BISnp."),
    row(Opcode::MemWrPtl, "MemWrPtl", Yes, "Of hosts without a cache (HDM-H), with byte enables. The medium takes it as a write of a line."),
    row(Opcode::BiConflict, "BIConflict", Yes, "HDM-DB."),
    row(Opcode::MemRdFill, "MemRdFill", Yes, "Of hosts without a cache that merge themselves (HDM-H)."),
    tee(Channel::M2sRwd, 9, "MemWrTEE"),
    tee(Channel::M2sRwd, 10, "MemWrPtlTEE"),
    tee(Channel::M2sRwd, 13, "MemRdFillTEE"),
    row(Opcode::BiRspI, "BIRspI", Yes, ""),
    row(Opcode::BiRspS, "BIRspS", Yes, ""),
    row(Opcode::BiRspE, "BIRspE", Yes, "Answers BISnpCur."),
    row(Opcode::BiRspIBlk, "BIRspIBlk", Yes, "Blocks of 2 and 4 lines, and of 1 and 3 for studies."),
    row(Opcode::BiRspSBlk, "BIRspSBlk", Yes, "Answers BISnpDataBlk."),
    row(Opcode::BiRspEBlk, "BIRspEBlk", Yes, "Answers BISnpCurBlk."),
    row(Opcode::Cmp, "Cmp", Yes, "With DevLoad of Type 3 devices. Devices store no metadata, so MetaField is No-Op (table 3-49)."),
    row(Opcode::CmpS, "Cmp-S", Yes, "As Cmp."),
    row(Opcode::CmpE, "Cmp-E", Yes, "As Cmp."),
    row(Opcode::CmpM, "Cmp-M", Yes, "Of Type 2 devices with HDM-DB memory, whose cache in front of the medium gives up a dirty line."),
    row(Opcode::BiConflictAck, "BI-ConflictAck", Yes, "Completes no request, so its DevLoad is light load."),
    tee(Channel::S2mNdr, 5, "CmpTEE"),
    row(Opcode::MemData, "MemData", Partly, "With DevLoad of Type 3 devices. Devices store no metadata, so MetaField is No-Op (table 3-52). Poison of HDM-H memory; that of HDM-DB memory is left out."),
    row(Opcode::MemDataNxm, "MemData-NXM", Yes, "Capacity that an event has taken away, or not yet added; elsewhere the plan gives nobody an address without a decoder."),
    tee(Channel::S2mDrs, 2, "MemDataTEE"),
    row(Opcode::BiSnpCur, "BISnpCur", Yes, "For loads of hosts with `load_request`."),
    row(Opcode::BiSnpData, "BISnpData", Yes, ""),
    row(Opcode::BiSnpInv, "BISnpInv", Yes, ""),
    row(Opcode::BiSnpCurBlk, "BISnpCurBlk", Yes, "Of devices with `filter.join`: snoops for requests to neighbours. Blocks of 2 and 4 lines."),
    row(Opcode::BiSnpDataBlk, "BISnpDataBlk", Yes, "As BISnpCurBlk."),
    row(Opcode::BiSnpInvBlk, "BISnpInvBlk", Yes, "As BISnpCurBlk, and for evictions of the filter. These have blocks of 2 and 4 lines, and of 1 and 3 for studies."),
    row(Opcode::RdCurr, "RdCurr", Yes, "Of a device with `load_request`; the root complex asks so for DMA."),
    row(Opcode::RdOwn, "RdOwn", Yes, ""),
    row(Opcode::RdShared, "RdShared", Yes, "Of a device with `load_request`."),
    row(Opcode::RdAny, "RdAny", Yes, ""),
    row(Opcode::RdOwnNoData, "RdOwnNoData", Yes, "Stores of whole lines, upgrades, and bias flips of HDM-D."),
    row(Opcode::ItoMWr, "ItoMWr", Yes, "As a push (NC-P), and of a device with `store_request`."),
    row(Opcode::WrCur, "WrCur", Yes, "Of a device with `store_request`, to host memory and that of expanders."),
    row(Opcode::ClFlush, "CLFlush", Yes, ""),
    row(Opcode::CleanEvict, "CleanEvict", Yes, "Of a device with `clean_evict_data`."),
    row(Opcode::DirtyEvict, "DirtyEvict", Yes, ""),
    row(Opcode::CleanEvictNoData, "CleanEvictNoData", Yes, ""),
    row(Opcode::WoWrInv, "WOWrInv", Yes, "Of a device with `store_request`; done at ExtCmp, as of a device without Fast_GO."),
    row(Opcode::WoWrInvF, "WOWrInvF", Yes, "As WOWrInv."),
    row(Opcode::WrInv, "WrInv", Yes, "Of a device with `store_request`."),
    row(Opcode::CacheFlushed, "CacheFlushed", Yes, "When the threads of a device with `flush_at_end` have ended."),
    row(Opcode::RspSHitSE, "RspSHitSE", Yes, ""),
    row(Opcode::RspIHitI, "RspIHitI", Yes, ""),
    row(Opcode::RspIHitSE, "RspIHitSE", Yes, ""),
    row(Opcode::RspVHitV, "RspVHitV", Yes, ""),
    row(Opcode::RspSFwdM, "RspSFwdM", Yes, ""),
    row(Opcode::RspIFwdM, "RspIFwdM", Yes, ""),
    row(Opcode::RspVFwdV, "RspVFwdV", Yes, "Of modified lines; a clean one is left with RspVHitV, as the specification allows."),
    row(Opcode::D2hData, "data", Yes, "64 bytes; Bogus, byte enables and poison."),
    row(Opcode::SnpData, "SnpData", Yes, ""),
    row(Opcode::SnpInv, "SnpInv", Yes, ""),
    row(Opcode::SnpCur, "SnpCur", Yes, ""),
    row(Opcode::WritePull, "WritePull", Yes, ""),
    row(Opcode::Go, "GO", Yes, "With GO-Err where there is no memory. A home may answer reads by GO-I; this one lets devices cache what they read."),
    row(Opcode::GoWritePull, "GO_WritePull", Yes, ""),
    row(Opcode::ExtCmp, "ExtCmp", Yes, ""),
    row(Opcode::GoWritePullDrop, "GO_WritePull_Drop", Yes, ""),
    row(Opcode::FastGoWritePull, "Fast_GO_WritePull", Yes, "The device takes the write for done at ExtCmp (3.2.4.5.6)."),
    row(Opcode::GoErrWritePull, "GO_ERR_WritePull", Yes, "Where there is no memory."),
    row(Opcode::H2dData, "data", Yes, "64 bytes; poison and GO-Err."),
];
