//! Message classes and opcodes of CXL.mem, CXL.cache and CXL.io, spelt as in the specifications.
//!
//! Codes are those of CXL 3.1. CXL.mem: tables 3-35, 3-38, 3-40, 3-46 and 3-50, as numbered by the
//! bits of the event groups of the CXL performance monitoring unit. CXL.cache: tables 3-22, 3-25,
//! 3-26 and 3-27. CXL.io: the Fmt and Type fields of PCIe 5.0, table 2-3.

use serde::{Deserialize, Serialize};

listed! {
    /// A message class. Each class has its own credits and may not be blocked by another class.
    ///
    /// Directions are seen from the host: `M2s` is master to subordinate (host to device), `H2d` is
    /// host to device.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
    #[repr(u8)]
    pub enum Channel {
        /// Requests without data.
        M2sReq = 0,
        /// Requests with data: a header and four 16-byte data slots.
        M2sRwd = 1,
        /// Responses without data.
        S2mNdr = 2,
        /// Responses with data: a header and four 16-byte data slots.
        S2mDrs = 3,
        /// Back-invalidation snoops of a device.
        S2mBisnp = 4,
        /// Responses to back-invalidation snoops.
        M2sBirsp = 5,
        /// Requests of a device's cache to the host.
        D2hReq = 6,
        /// A device's responses to snoops, without data.
        D2hRsp = 7,
        /// A device's data, written back or snooped: a header and four 16-byte data slots.
        D2hData = 8,
        /// The host's snoops of a device's cache.
        H2dReq = 9,
        /// The host's responses to a device's requests, without data.
        H2dRsp = 10,
        /// The host's data for a device: a header and four 16-byte data slots.
        H2dData = 11,
        /// Posted requests of CXL.io: writes to memory and registers, interrupts. Packets of the three
        /// CXL.io classes flow in both directions.
        IoPosted = 12,
        /// Non-posted requests of CXL.io: reads, and writes to configuration space.
        IoNonPosted = 13,
        /// Completions of CXL.io.
        IoCompletion = 14,
    }
}

impl Channel {
    /// Number of message classes.
    pub const COUNT: usize = Channel::ALL.len();

    /// Whether messages of this class carry a 64-byte line. `false` for CXL.io, whose packets carry
    /// any number of bytes.
    #[inline]
    pub const fn carries_data(self) -> bool {
        // One bit for each class: the function runs for every message, and a mask is
        // cheaper than comparisons.
        const DATA: u16 = 1 << Channel::M2sRwd as u16
            | 1 << Channel::S2mDrs as u16
            | 1 << Channel::D2hData as u16
            | 1 << Channel::H2dData as u16;
        DATA >> self as u16 & 1 != 0
    }

    /// Whether messages of this class from one component to another arrive in the order in which
    /// they were sent, so that a fabric gives them one path (CXL 3.1, section 7.7.6 and table 7-84).
    ///
    /// - S2M NDR: a BIConflictAck does not pass the Cmp that was sent before it.
    /// - H2D Req and Rsp: a snoop does not pass a GO.
    /// - CXL.io: the ordering rules of PCI Express apply.
    ///
    /// M2S Req is ordered only to HDM-D memory. That depends on the destination and is not covered here.
    #[inline]
    pub const fn is_ordered(self) -> bool {
        matches!(self, Channel::S2mNdr | Channel::H2dReq | Channel::H2dRsp) || self.is_io()
    }

    /// Whether the class belongs to CXL.mem.
    #[inline]
    pub const fn is_mem(self) -> bool {
        (self as u8) < Channel::D2hReq as u8
    }

    /// Whether the class belongs to CXL.cache.
    #[inline]
    pub const fn is_cache(self) -> bool {
        self as u8 >= Channel::D2hReq as u8 && !self.is_io()
    }

    /// Whether the class belongs to CXL.io, whose packets travel in flits of their own.
    #[inline]
    pub const fn is_io(self) -> bool {
        self as u8 >= Channel::IoPosted as u8
    }

    /// The class in whose queue messages of this class are queued.
    ///
    /// A snoop of CXL.cache may not pass an earlier response to the same line ("snoop pushes GO",
    /// CXL 3.1, section 3.2.5.2), so H2D Req and H2D Rsp share a queue. A device accepts both in
    /// the end. Reads and completions of CXL.io may not pass earlier writes (PCIe 5.0, table 2-40).
    /// CXL.io packets are always accepted, so all of them share one queue.
    #[inline]
    pub const fn queue(self) -> Channel {
        match self {
            Channel::H2dReq => Channel::H2dRsp,
            Channel::IoNonPosted | Channel::IoCompletion => Channel::IoPosted,
            other => other,
        }
    }

    /// Index of the class in tables by class: 0 to 14.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Name of the class in reports and scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Channel::M2sReq => "m2s_req",
            Channel::M2sRwd => "m2s_rwd",
            Channel::S2mNdr => "s2m_ndr",
            Channel::S2mDrs => "s2m_drs",
            Channel::S2mBisnp => "s2m_bisnp",
            Channel::M2sBirsp => "m2s_birsp",
            Channel::D2hReq => "d2h_req",
            Channel::D2hRsp => "d2h_rsp",
            Channel::D2hData => "d2h_data",
            Channel::H2dReq => "h2d_req",
            Channel::H2dRsp => "h2d_rsp",
            Channel::H2dData => "h2d_data",
            Channel::IoPosted => "io_posted",
            Channel::IoNonPosted => "io_non_posted",
            Channel::IoCompletion => "io_completion",
        }
    }
}

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $channel:ident $code:literal,)*) => {
        /// An opcode of CXL.mem or CXL.cache, or a kind of packet of CXL.io.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
        #[repr(u8)]
        pub enum Opcode { $($(#[$doc])* $name,)* }

        impl Opcode {
            /// All opcodes, in the order of the enum.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name,)*];

            /// Message class of each opcode, in the order of the enum.
            const CHANNELS: [Channel; Opcode::ALL.len()] = [$(Channel::$channel,)*];

            /// Message class of the opcode.
            #[inline(always)]
            pub const fn channel(self) -> Channel {
                Opcode::CHANNELS[self as usize]
            }

            /// Code of the opcode in the opcode field of a message.
            pub const fn code(self) -> u8 {
                match self { $(Opcode::$name => $code,)* }
            }

            /// Name of the opcode: the specification's spelling in Rust case.
            pub const fn name(self) -> &'static str {
                match self { $(Opcode::$name => stringify!($name),)* }
            }
        }
    };
}

opcodes! {
    /// Invalidate or change ownership; no data are wanted.
    MemInv = M2sReq 0,
    /// Read, with a coherence action by MetaField, MetaValue and SnpType.
    MemRd = M2sReq 1,
    /// Read without change of metadata; the device chooses the state.
    MemRdData = M2sReq 2,
    /// Forward of a read to the device (HDM-D).
    MemRdFwd = M2sReq 3,
    /// Forward of a write to the device (HDM-D).
    MemWrFwd = M2sReq 4,
    /// Speculative read: starts the access to the medium and has no response.
    MemSpecRd = M2sReq 8,
    /// Invalidate, non-temporal hint.
    MemInvNt = M2sReq 9,
    /// The host drops a clean line.
    MemClnEvct = M2sReq 10,
    /// Write of a whole line.
    MemWr = M2sRwd 1,
    /// Write of the enabled bytes of a line.
    MemWrPtl = M2sRwd 2,
    /// The host's report of a conflict with a back-invalidation snoop.
    BiConflict = M2sRwd 4,
    /// Fill of a line in memory from a read that hit the host's cache (CXL 3.1).
    MemRdFill = M2sRwd 5,
    /// Completion that grants no cache state.
    Cmp = S2mNdr 0,
    /// Completion; the host may hold the line shared.
    CmpS = S2mNdr 1,
    /// Completion; the host may hold the line exclusive.
    CmpE = S2mNdr 2,
    /// Completion; the host may hold the line modified (CXL 3.1).
    CmpM = S2mNdr 3,
    /// Acknowledgement of a `BiConflict`.
    BiConflictAck = S2mNdr 4,
    /// Data returned for a read.
    MemData = S2mDrs 0,
    /// Data returned for a read of a non-existent address.
    MemDataNxm = S2mDrs 1,
    /// Back-invalidation snoop for the current value.
    BiSnpCur = S2mBisnp 0,
    /// Back-invalidation snoop for data; sharers may stay.
    BiSnpData = S2mBisnp 1,
    /// Back-invalidation snoop that invalidates.
    BiSnpInv = S2mBisnp 2,
    /// As `BiSnpCur`, for a block of lines.
    BiSnpCurBlk = S2mBisnp 4,
    /// As `BiSnpData`, for a block of lines.
    BiSnpDataBlk = S2mBisnp 5,
    /// As `BiSnpInv`, for a block of lines.
    BiSnpInvBlk = S2mBisnp 6,
    /// The host holds no copy of the line any more.
    BiRspI = M2sBirsp 0,
    /// The host holds the line shared.
    BiRspS = M2sBirsp 1,
    /// The host holds the line exclusive.
    BiRspE = M2sBirsp 2,
    /// As `BiRspI`, for a block of lines.
    BiRspIBlk = M2sBirsp 4,
    /// As `BiRspS`, for a block of lines.
    BiRspSBlk = M2sBirsp 5,
    /// As `BiRspE`, for a block of lines.
    BiRspEBlk = M2sBirsp 6,
    /// Read the current value once; nothing is cached. The response is data alone.
    RdCurr = D2hReq 1,
    /// Read to hold the line exclusive or modified.
    RdOwn = D2hReq 2,
    /// Read to hold the line shared.
    RdShared = D2hReq 3,
    /// Read to hold the line in any state.
    RdAny = D2hReq 4,
    /// Own the line without its data, to write all of it or to upgrade a shared copy.
    RdOwnNoData = D2hReq 5,
    /// Own the line and write all of it, into a cache of the host if there is one.
    ItoMWr = D2hReq 6,
    /// Own the line and write all of it where it is: in a cache of the host on a hit, else in
    /// memory. `MemWr` in CXL 2.0 and before.
    WrCur = D2hReq 7,
    /// Invalidate the line in every cache (`CLFlush`).
    ClFlush = D2hReq 8,
    /// The device evicts a clean, exclusive line and offers its data.
    CleanEvict = D2hReq 9,
    /// The device evicts a modified line.
    DirtyEvict = D2hReq 10,
    /// The device has dropped a clean line.
    CleanEvictNoData = D2hReq 11,
    /// Weakly ordered write of 0 to 63 bytes (`WOWrInv`).
    WoWrInv = D2hReq 12,
    /// Weakly ordered write of 64 bytes (`WOWrInvF`).
    WoWrInvF = D2hReq 13,
    /// Strongly ordered write of 0 to 64 bytes.
    WrInv = D2hReq 14,
    /// The device's cache holds no line of host memory any more.
    CacheFlushed = D2hReq 16,
    /// Snoop response: the line was shared or exclusive and is now shared.
    RspSHitSE = D2hRsp 1,
    /// Snoop response: the line was invalid.
    RspIHitI = D2hRsp 4,
    /// Snoop response: the line was shared or exclusive and is now invalid.
    RspIHitSE = D2hRsp 5,
    /// Snoop response: the line was held and its state is unchanged.
    RspVHitV = D2hRsp 6,
    /// Snoop response: the line was modified and is now shared; data follow.
    RspSFwdM = D2hRsp 7,
    /// Snoop response: the line was modified and is now invalid; data follow.
    RspIFwdM = D2hRsp 15,
    /// Snoop response: the line is modified or exclusive, and unchanged; data follow.
    RspVFwdV = D2hRsp 22,
    /// Data of a device, for the host's buffer that `UQID` names. The message has no opcode field.
    D2hData = D2hData 0,
    /// Snoop for a shared copy.
    SnpData = H2dReq 1,
    /// Snoop that invalidates.
    SnpInv = H2dReq 2,
    /// Snoop for the current value; no state need change.
    SnpCur = H2dReq 3,
    /// Request for the data of a write, which is not complete yet.
    WritePull = H2dRsp 1,
    /// Global observation: the request is ordered, and the message grants the state of the line.
    Go = H2dRsp 4,
    /// Global observation of a write or eviction, and request for its data.
    GoWritePull = H2dRsp 5,
    /// Completion of a weakly ordered write.
    ExtCmp = H2dRsp 6,
    /// Global observation of an eviction whose data are not wanted.
    GoWritePullDrop = H2dRsp 8,
    /// Observation of a write within a part of the system, and request for its data; `ExtCmp` follows.
    FastGoWritePull = H2dRsp 13,
    /// A write failed; its data are requested and dropped.
    GoErrWritePull = H2dRsp 15,
    /// Data for the device's request that `CQID` names. The message has no opcode field.
    H2dData = H2dData 0,
    /// Memory write of CXL.io, 64-bit address: DMA, registers, interrupts.
    MWr = IoPosted 0x60,
    /// Memory read of CXL.io, 64-bit address.
    MRd = IoNonPosted 0x20,
    /// Completion of CXL.io with data.
    CplD = IoCompletion 0x4a,
    /// Configuration read of the device at the end of the link (type 0).
    CfgRd0 = IoNonPosted 0x04,
    /// Configuration read of a bus further downstream (type 1).
    CfgRd1 = IoNonPosted 0x05,
    /// Configuration write, type 0. Configuration writes are non-posted: each gets a completion.
    CfgWr0 = IoNonPosted 0x44,
    /// Configuration write, type 1.
    CfgWr1 = IoNonPosted 0x45,
    /// Completion of CXL.io without data.
    Cpl = IoCompletion 0x0a,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_opcodes_of_a_channel_share_a_code() {
        for (i, a) in Opcode::ALL.iter().enumerate() {
            for b in &Opcode::ALL[i + 1..] {
                let code = |opcode: &Opcode| (opcode.channel(), opcode.code());
                assert!(code(a) != code(b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn channels_are_numbered_by_their_place() {
        for (i, channel) in Channel::ALL.iter().enumerate() {
            assert_eq!(channel.index(), i);
        }
    }

    /// The name of a class begins with the two ends of its direction.
    #[test]
    fn each_protocol_and_direction_has_three_classes_and_each_carries_data_in_one() {
        for (ends, cache) in [("m2s", false), ("s2m", false), ("h2d", true), ("d2h", true)] {
            let classes = Channel::ALL.into_iter();
            let classes = classes.filter(|class| class.name().starts_with(ends));
            let is_cache: Vec<bool> = classes.clone().map(Channel::is_cache).collect();
            assert_eq!(is_cache, [cache; 3], "{ends}");
            let with_data = classes.filter(|class| class.carries_data());
            assert_eq!(with_data.count(), 1, "{ends}");
        }
    }
}
