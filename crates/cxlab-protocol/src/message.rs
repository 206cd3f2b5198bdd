//! A CXL message: a value of fixed size without pointers. Requester and tag identify its request,
//! and it carries the latency breakdown of its transaction.

use std::fmt;

use cxlab_engine::units::{Hpa, SimTime};
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
    /// Number of edge ports that a PBR fabric can have: 12 bits.
    pub const MAX_COUNT: usize = 4096;
}

/// MetaField, MetaValue and SnpType of a message, encoded in one byte (CXL 3.1, tables 3-36 to 3-38).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemMeta(u8);

impl MemMeta {
    /// No metadata and no snoop, as in every message to HDM-H memory.
    pub const NONE: MemMeta = MemMeta::new(MetaField::NoOp, MetaValue::Invalid, SnpType::NoOp);

    /// Encodes which metadata the message carries, the state in which the requester will hold the
    /// line, and what other copies must become.
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

/// The fields of a CXL.cache message besides its opcode (CXL 3.1, section 3.2.3). A message of
/// CXL.mem has [`CacheMeta::NONE`], apart from poison and [`Message::routing_state`].
///
/// The CQID of a request, and of its responses and data, is the message's `tag`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CacheMeta {
    /// UQID: the host's number for an expected response or data, 0 to 4095. Snoops and pulls name
    /// it; snoop responses and data return it.
    pub uqid: u16,
    /// Bits 0 to 3: the code of a [`GoState`]. Bits 4 to 7: flags.
    bits: u8,
}

impl CacheMeta {
    /// Number of distinct UQIDs: 12 bits. CQIDs have the same width.
    pub const IDS: u16 = 1 << 12;

    /// No UQID, no granted state, no flags.
    pub const NONE: CacheMeta = CacheMeta {
        uqid: 0,
        bits: GoState::Invalid.code(),
    };

    /// D2H Data: the line was snooped after its eviction was requested, so the data may be stale.
    pub const BOGUS: u8 = 1 << 4;
    /// D2H Data: byte enables follow (BEP, section 3.2.3.3.2), because only some of the
    /// line's bytes are written.
    pub const BYTE_ENABLES: u8 = 1 << 6;
    /// Any message with data: the data are corrupted and must not be used (Poison; CXL 3.1, tables
    /// 3-16, 3-21, 3-40 and 3-51).
    pub const POISON: u8 = 1 << 7;
    /// D2H Req: the host keeps the line in its last-level cache, regardless of its own policy. The
    /// specification has no such field: the flag marks a non-cacheable push (NC-P), which travels
    /// as `ItoMWr` or `DirtyEvict`.
    pub const PUSH: u8 = 1 << 5;

    /// A value with this UQID, no granted state and no flags.
    pub const fn of(uqid: u16) -> CacheMeta {
        let bits = CacheMeta::NONE.bits;
        CacheMeta { uqid, bits }
    }

    /// Returns a copy that grants `state`.
    pub const fn granting(self, state: GoState) -> CacheMeta {
        let bits = self.bits & !0xf | state.code();
        CacheMeta { bits, ..self }
    }

    /// Returns a copy with `flag` added if `set`.
    pub const fn with(self, flag: u8, set: bool) -> CacheMeta {
        let bits = self.bits | if set { flag } else { 0 };
        CacheMeta { bits, ..self }
    }

    /// The state that a `GO` grants. `Invalid` in every other message.
    pub fn granted(self) -> GoState {
        match GoState::from_code(self.bits & 0xf) {
            Some(state) => state,
            None => unreachable!("it was made from a state"),
        }
    }

    /// Whether the message has this flag.
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

/// A message of CXL.mem, CXL.cache or CXL.io: 88 bytes, which keep their place in memory from hop
/// to hop. With the credits that travel along they are 96. The first 56 bytes are all that a switch
/// reads. Fields that only the endpoints read follow.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[repr(C)]
pub struct Message {
    /// Host physical address of the line.
    pub hpa: Hpa,
    /// The requester's number of this transaction; the response returns it.
    pub tag: u32,
    /// Edge port that sends the message.
    pub source: PortId,
    /// Edge port that receives the message.
    pub destination: PortId,
    /// Links crossed so far in this direction of the transaction.
    pub hops: u16,
    /// Stand-in for the line's 64 bytes in a message that carries them: each store draws a new
    /// value, so that a test can see which store a load returns. Without a checker it stays 0. In
    /// CXL.io: the bytes that the packet carries or requests, 0 to 4096.
    pub data: u16,
    /// Opcode, which also determines the message class.
    pub opcode: Opcode,
    /// Virtual channel of the message on its current or next link.
    pub vc: u8,
    /// Depends on the message:
    ///
    /// - Back-invalidation snoop or its response: the number of lines from `hpa` on, 1, or 2 to 4 in a block.
    /// - Response to a request that a device has denied: [`Message::DENIED`].
    /// - Response of a device with QoS telemetry: [`crate::DevLoad::lines`].
    /// - CXL.io: 0 for a write that may pass earlier writes (relaxed ordering),
    ///   [`Message::REGISTER`] for accesses to registers of enumeration.
    /// - Every other message: 1.
    pub lines: u8,
    /// Metadata and snoop type of a CXL.mem message.
    pub meta: MemMeta,
    /// Latency breakdown of the transaction so far.
    pub stages: LatencyStages,
    /// Further fields of a CXL.cache message.
    pub cache: CacheMeta,
    /// Time at which the requester issued the transaction, in picoseconds. Age arbitration
    /// orders messages by it.
    pub issued_ps: u64,
}

impl Message {
    /// A message about one line, or about a register, that is issued at `issued`. It carries no data and
    /// has crossed no link.
    #[inline(always)]
    pub fn new(
        opcode: Opcode,
        hpa: Hpa,
        tag: u32,
        source: PortId,
        destination: PortId,
        issued: SimTime,
    ) -> Message {
        Message {
            hpa,
            tag,
            source,
            destination,
            hops: 0,
            data: 0,
            opcode,
            vc: 0,
            lines: 1,
            meta: MemMeta::NONE,
            stages: LatencyStages::default(),
            cache: CacheMeta::NONE,
            issued_ps: issued.0,
        }
    }

    /// Value of `lines` in a request to a register that enumeration knows, and in
    /// its completion ([`crate::io::packet`]).
    pub const REGISTER: u8 = 2;

    /// Value of `lines` in a response: the device had no decoder for the request's address. A read
    /// also returns `MemDataNxm`. A write returns a plain `Cmp`, so the value serves the statistics
    /// of the simulation alone.
    pub const DENIED: u8 = 0;

    /// Bytes of a CXL.io packet besides its payload: a header of four double words, the framing
    /// token with the sequence number (4 B) and the link CRC (4 B) of PCIe 5.0, section 4.2.2.
    pub const TLP_OVERHEAD: u64 = 24;

    /// Number of the routing state whose tables route the message, where routing changes during a
    /// run; 0 elsewhere. The specification has no such field: it is stored in the UQID, which no
    /// message of CXL.mem has.
    #[inline]
    pub fn routing_state(&self) -> u16 {
        self.cache.uqid
    }

    /// Sets the number that [`Message::routing_state`] returns.
    #[inline]
    pub fn set_routing_state(&mut self, state: u16) {
        self.cache.uqid = state;
    }

    /// Message class of the opcode.
    #[inline]
    pub fn channel(&self) -> Channel {
        self.opcode.channel()
    }

    /// Payload bytes of a CXL.io packet: 0 for a read.
    #[inline]
    pub fn payload(&self) -> u64 {
        match self.opcode {
            Opcode::MRd => 0,
            _ => u64::from(self.data),
        }
    }

    /// Whether the message is a write of CXL.mem. `MemRdFill` is not: it belongs to class M2S RwD, but reads.
    #[inline]
    pub fn writes(&self) -> bool {
        self.channel() == Channel::M2sRwd && self.opcode != Opcode::MemRdFill
    }

    /// Whether a write of CXL.io may pass earlier writes (relaxed ordering).
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
