//! Message classes and opcodes of CXL.mem, spelt as the specification spells them.
//!
//! Codes are those of CXL 3.1, tables 3-35, 3-38, 3-40, 3-46 and 3-50 (as numbered by the bits of
//! the CXL performance monitoring unit's event groups). Back-invalidation opcodes are named here
//! so that credits, packing and routing already have their place; the agents that send them come
//! with device-managed coherence.

/// A message class: what has its own credits and may not be blocked by another class.
///
/// Directions are seen from the host: `M2s` is master to subordinate (host to device).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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
    /// Back-invalidation snoops.
    S2mBisnp = 4,
    /// Responses to back-invalidation snoops.
    M2sBirsp = 5,
}

impl Channel {
    /// How many message classes there are.
    pub const COUNT: usize = 6;
    /// Every class, in the order of their numbers.
    pub const ALL: [Channel; Channel::COUNT] = [
        Channel::M2sReq,
        Channel::M2sRwd,
        Channel::S2mNdr,
        Channel::S2mDrs,
        Channel::S2mBisnp,
        Channel::M2sBirsp,
    ];

    /// Whether its messages carry a 64-byte line.
    #[inline]
    pub const fn carries_data(self) -> bool {
        matches!(self, Channel::M2sRwd | Channel::S2mDrs)
    }

    /// Whether it flows from the master (host) to the subordinate (device).
    #[inline]
    pub const fn is_m2s(self) -> bool {
        matches!(self, Channel::M2sReq | Channel::M2sRwd | Channel::M2sBirsp)
    }

    /// Its number, for tables by class.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name in reports and scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Channel::M2sReq => "m2s_req",
            Channel::M2sRwd => "m2s_rwd",
            Channel::S2mNdr => "s2m_ndr",
            Channel::S2mDrs => "s2m_drs",
            Channel::S2mBisnp => "s2m_bisnp",
            Channel::M2sBirsp => "m2s_birsp",
        }
    }
}

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $channel:ident $code:literal,)*) => {
        /// An opcode of CXL.mem.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Opcode { $($(#[$doc])* $name,)* }

        impl Opcode {
            /// Every opcode.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name,)*];

            /// The class it travels in.
            #[inline]
            pub const fn channel(self) -> Channel {
                match self { $(Opcode::$name => Channel::$channel,)* }
            }

            /// Its code in the message's opcode field.
            pub const fn code(self) -> u8 {
                match self { $(Opcode::$name => $code,)* }
            }

            /// Its name as the specification spells it in Rust case.
            pub const fn name(self) -> &'static str {
                match self { $(Opcode::$name => stringify!($name),)* }
            }
        }
    };
}

opcodes! {
    /// Invalidate or change ownership; no data wanted.
    MemInv = M2sReq 0,
    /// Read, with a coherence action by MetaField, MetaValue and SnpType.
    MemRd = M2sReq 1,
    /// Read without change of metadata; the device decides.
    MemRdData = M2sReq 2,
    /// Forward of a read to the device (HDM-D).
    MemRdFwd = M2sReq 3,
    /// Forward of a write to the device (HDM-D).
    MemWrFwd = M2sReq 4,
    /// Speculative read: starts the medium, has no response.
    MemSpecRd = M2sReq 8,
    /// Invalidate, non-temporal hint.
    MemInvNt = M2sReq 9,
    /// The host drops a clean line.
    MemClnEvct = M2sReq 10,
    /// Write of a whole line.
    MemWr = M2sRwd 1,
    /// Write of the bytes that are enabled.
    MemWrPtl = M2sRwd 2,
    /// The host's report of a conflict with a back-invalidation snoop.
    BiConflict = M2sRwd 4,
    /// Fill of a line in memory from a read that hit the host's cache (CXL 3.1).
    MemRdFill = M2sRwd 5,
    /// Completion.
    Cmp = S2mNdr 0,
    /// Completion; the host may hold the line shared.
    CmpS = S2mNdr 1,
    /// Completion; the host may hold the line exclusive.
    CmpE = S2mNdr 2,
    /// Completion; the host may hold the line modified (CXL 3.1).
    CmpM = S2mNdr 3,
    /// Acknowledgement of a conflict.
    BiConflictAck = S2mNdr 4,
    /// Read data.
    MemData = S2mDrs 0,
    /// Read data of a non-existent address.
    MemDataNxm = S2mDrs 1,
    /// Back-invalidation snoop for the current value.
    BiSnpCur = S2mBisnp 0,
    /// Back-invalidation snoop for data, sharers may stay.
    BiSnpData = S2mBisnp 1,
    /// Back-invalidation snoop that invalidates.
    BiSnpInv = S2mBisnp 2,
    /// As `BiSnpCur`, for a block of lines.
    BiSnpCurBlk = S2mBisnp 4,
    /// As `BiSnpData`, for a block of lines.
    BiSnpDataBlk = S2mBisnp 5,
    /// As `BiSnpInv`, for a block of lines.
    BiSnpInvBlk = S2mBisnp 6,
    /// The host holds nothing any more.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_opcodes_of_a_channel_share_a_code() {
        for (i, a) in Opcode::ALL.iter().enumerate() {
            for b in &Opcode::ALL[i + 1..] {
                assert!(
                    (a.channel(), a.code()) != (b.channel(), b.code()),
                    "{a:?} {b:?}"
                );
            }
        }
    }

    #[test]
    fn channels_are_numbered_by_their_place() {
        for (i, channel) in Channel::ALL.iter().enumerate() {
            assert_eq!(channel.index(), i);
        }
    }
}
