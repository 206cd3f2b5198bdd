//! A message: a fixed-size value without pointers that finds its request again by requester and
//! tag, and carries where its time went.

use std::fmt;

use cxlab_engine::units::Hpa;
use serde::{Deserialize, Serialize};

use crate::coherence::fields::{GoState, MetaField, MetaValue, SnpType};
use crate::opcode::{Channel, Opcode};
use crate::stages::LatencyStages;

/// The 12-bit identifier of an edge port of a PBR fabric (SPID and DPID of CXL 3.x, section
/// 7.7.6): 0 to 4095.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct PortId(pub u16);

impl PortId {
    /// How many edge ports a PBR fabric can have: 12 bits.
    pub const MAX_COUNT: usize = 4096;
}

/// MetaField, MetaValue and SnpType of a message, as coded in it (CXL 3.1, tables 3-36 to 3-38), in one byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemMeta(u8);

impl MemMeta {
    /// No metadata and no snoop: all there is in HDM-H memory.
    pub const NONE: MemMeta = MemMeta::new(MetaField::NoOp, MetaValue::Invalid, SnpType::NoOp);

    /// Which metadata the message carries, the state in which the requester will hold the line, and what
    /// other copies must become.
    pub const fn new(field: MetaField, value: MetaValue, snoop: SnpType) -> MemMeta {
        MemMeta(field.code() | value.code() << 2 | snoop.code() << 4)
    }

    /// Which metadata the message carries.
    pub fn field(self) -> MetaField {
        match MetaField::from_code(self.0 & 3) {
            Some(field) => field,
            None => unreachable!("it was made from a field"),
        }
    }

    /// The state in which the requester will hold the line.
    pub fn value(self) -> MetaValue {
        match MetaValue::from_code(self.0 >> 2 & 3) {
            Some(value) => value,
            None => unreachable!("it was made from a value"),
        }
    }

    /// What other copies must become.
    pub fn snoop(self) -> SnpType {
        match SnpType::from_code(self.0 >> 4) {
            Some(snoop) => snoop,
            None => unreachable!("it was made from a snoop"),
        }
    }
}

impl fmt::Debug for MemMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (field, value, snoop) = (self.field(), self.value(), self.snoop());
        write!(f, "{field:?}, {value:?}, {snoop:?}")
    }
}

/// What a CXL.cache message says besides its opcode (CXL 3.1, section 3.2.3). A message of CXL.mem
/// has [`CacheMeta::NONE`], and poison where it carries such data.
///
/// The CQID of a request, and of the responses and data it gets, is the message's `tag`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CacheMeta {
    /// UQID, the host's number for what comes back: a snoop and a pull name it, the snoop response
    /// and the data carry it back. 0 to 4095.
    pub uqid: u16,
    /// The code of a [`GoState`], and the flags above it.
    bits: u8,
}

impl CacheMeta {
    /// UQIDs that a host can tell apart: 12 bits. CQIDs likewise.
    pub const IDS: u16 = 1 << 12;

    /// Nothing.
    pub const NONE: CacheMeta = CacheMeta {
        uqid: 0,
        bits: GoState::Invalid.code(),
    };

    /// D2H Data: the line was snooped after its eviction was asked for, so these data may be stale.
    pub const BOGUS: u8 = 1 << 4;
    /// D2H Data: byte enables follow (BEP, section 3.2.3.3.2), because only some of the line's bytes are written.
    pub const BYTE_ENABLES: u8 = 1 << 6;
    /// Of all data: they are corrupted, and are not to be used (Poison; CXL 3.1, tables 3-16, 3-21, 3-40 and 3-51).
    pub const POISON: u8 = 1 << 7;
    /// D2H Req: the host is to keep the line in its last-level cache, whatever it would have done.
    /// No field of the specification: it marks a non-cacheable push (NC-P), which travels as
    /// `ItoMWr` or `DirtyEvict`.
    pub const PUSH: u8 = 1 << 5;

    /// With a UQID, and nothing else.
    pub const fn of(uqid: u16) -> CacheMeta {
        let bits = CacheMeta::NONE.bits;
        CacheMeta { uqid, bits }
    }

    /// The same with a state that the host grants.
    pub const fn granting(self, state: GoState) -> CacheMeta {
        let bits = self.bits & !0xf | state.code();
        CacheMeta { bits, ..self }
    }

    /// The same with one of the flags, if `set`.
    pub const fn with(self, flag: u8, set: bool) -> CacheMeta {
        let bits = self.bits | if set { flag } else { 0 };
        CacheMeta { bits, ..self }
    }

    /// `GO`: the state of the line. `Invalid` in every other message.
    pub fn granted(self) -> GoState {
        match GoState::from_code(self.bits & 0xf) {
            Some(state) => state,
            None => unreachable!("it was made from a state"),
        }
    }

    /// Whether it has one of the flags.
    pub const fn has(self, flag: u8) -> bool {
        self.bits & flag != 0
    }
}

impl fmt::Debug for CacheMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UQID {}, {:?}", self.uqid, self.granted())?;
        let flags = [
            (CacheMeta::BOGUS, "bogus"),
            (CacheMeta::PUSH, "push"),
            (CacheMeta::BYTE_ENABLES, "byte enables"),
            (CacheMeta::POISON, "poison"),
        ];
        (flags.iter().filter(|(flag, _)| self.has(*flag)))
            .try_for_each(|(_, name)| write!(f, ", {name}"))
    }
}

/// What a message takes on a link besides its header and its line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// A message of CXL.mem or CXL.cache; whether 64 byte enables follow its line.
    Slots {
        /// They follow.
        trailer: bool,
    },
    /// All of a packet of CXL.io.
    Packet(IoPacket),
}

/// What a packet of CXL.io takes on a link.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IoPacket {
    /// All its bytes, without flits (and in those of 68 bytes) and in flits of 256 bytes.
    pub bytes: [u64; 2],
    /// Bytes of payload among them.
    pub payload: u64,
}

/// A CXL.mem or CXL.cache message. 88 bytes, which stay where they lie from hop to hop; with the credits that
/// ride along they are 96. What a switch looks at lies in the first 56, before what only the ends of its way
/// look at.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[repr(C)]
pub struct Message {
    /// The host physical address of the line.
    pub hpa: Hpa,
    /// The requester's own number of this transaction; the response carries it back.
    pub tag: u32,
    /// Edge port the message left from.
    pub source: PortId,
    /// Edge port it goes to.
    pub destination: PortId,
    /// Links crossed so far in this direction of the transaction.
    pub hops: u16,
    /// A stand-in for the line's 64 bytes where a message carries them: whoever stores draws a new
    /// one, so that a test can see which store a load returns. Without a checker it stays 0. In
    /// CXL.io: the bytes that it carries or asks for, 0 to 4096.
    pub data: u16,
    /// What it says.
    pub opcode: Opcode,
    /// The virtual channel of its next or current link.
    pub vc: u8,
    /// Lines that a back-invalidation snoop or its answer is about, from `hpa` on: 1, and 2 to 4 in
    /// a block; [`Message::DENIED`] in the answer to a request that a device has denied, and
    /// [`crate::DevLoad::lines`] in one by a device with QoS telemetry. In CXL.io 0 for a write that may pass earlier ones (relaxed ordering), and
    /// [`Message::REGISTER`] for what has to do with registers of enumeration. 1 in every
    /// other message.
    pub lines: u8,
    /// What it says about cached copies.
    pub meta: MemMeta,
    /// Where the time of the transaction went so far.
    pub stages: LatencyStages,
    /// What it says besides, in CXL.cache.
    pub cache: CacheMeta,
    /// When the requester issued the transaction, in picoseconds: its age, for age arbitration.
    pub issued_ps: u64,
}

impl Message {
    /// In `lines`: a request to a register that enumeration knows, or its completion
    /// ([`crate::io::packet`]).
    pub const REGISTER: u8 = 2;

    /// In `lines` of a response: the device had no decoder for the request's address. A read knows by
    /// its `MemDataNxm`; a write gets a plain `Cmp`, and this is for the books of the simulation
    /// alone.
    pub const DENIED: u8 = 0;

    /// Bytes of a packet of CXL.io besides its payload: a header of four double words, the framing
    /// token with the sequence number (4 B) and the link CRC (4 B) of PCIe 5.0, section 4.2.2.
    pub const TLP_OVERHEAD: u64 = 24;

    /// The number of the routing state by whose tables the message crosses the fabric, where routing changes during
    /// a run; 0 elsewhere. No field of the specification: it is stored in the UQID, which no message of CXL.mem has.
    #[inline]
    pub fn routing_state(&self) -> u16 {
        self.cache.uqid
    }

    /// Sets [`Message::routing_state`].
    #[inline]
    pub fn set_routing_state(&mut self, state: u16) {
        self.cache.uqid = state;
    }

    /// The class it travels in.
    #[inline]
    pub fn channel(&self) -> Channel {
        self.opcode.channel()
    }

    /// Bytes that a packet of CXL.io carries.
    #[inline]
    pub fn payload(&self) -> u64 {
        match self.opcode {
            Opcode::MRd => 0,
            _ => u64::from(self.data),
        }
    }

    /// Of CXL.mem, M2S: whether it writes. `MemRdFill` goes in the class of writes, and reads.
    #[inline]
    pub fn writes(&self) -> bool {
        self.channel() == Channel::M2sRwd && self.opcode != Opcode::MemRdFill
    }

    /// What it takes on a link in this class besides its header and its line. An answer that is still the request
    /// that it will be made of is asked by its own class.
    #[inline]
    pub fn extent(&self, channel: Channel) -> Extent {
        let trailer = match channel {
            Channel::M2sRwd => self.opcode == Opcode::MemWrPtl,
            Channel::D2hData => self.cache.has(CacheMeta::BYTE_ENABLES),
            _ if channel.is_io() => return Extent::Packet(self.io_packet()),
            _ => false,
        };
        Extent::Slots { trailer }
    }

    /// What a packet of CXL.io takes on a link.
    #[inline(never)]
    pub fn io_packet(&self) -> IoPacket {
        if self.lines == Message::REGISTER {
            return crate::io::packet::size(self);
        }
        let payload = self.payload();
        IoPacket {
            bytes: [Message::TLP_OVERHEAD + payload; 2],
            payload,
        }
    }

    /// Whether a write of CXL.io may pass earlier ones (relaxed ordering).
    #[inline]
    pub fn is_relaxed(&self) -> bool {
        self.lines == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_no_larger_than_it_says() {
        assert_eq!(size_of::<Message>(), 88);
    }
}
