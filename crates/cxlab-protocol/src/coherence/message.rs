//! The messages that the coherence agents exchange. Each is a legal combination of opcode,
//! MetaField, MetaValue and SnpType (CXL 3.1, tables C-3, C-5 and C-7).

use serde::{Deserialize, Serialize};

use super::fields::{MetaField, MetaValue, SnpType};
use crate::opcode::Opcode;

listed! {
    /// The kind of a back-invalidation snoop (table 3-47).
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
    #[repr(u8)]
    pub enum Snoop {
        /// The device wants the only copy: the holder must become invalid.
        Inv = 0,
        /// The device wants a shared copy: the holder may stay shared.
        Data = 1,
        /// The device wants the current value: the holder may keep its state, but clean.
        Cur = 2,
    }
}

impl Snoop {
    /// The opcode for one line.
    pub const fn opcode(self) -> Opcode {
        match self {
            Snoop::Inv => Opcode::BiSnpInv,
            Snoop::Data => Opcode::BiSnpData,
            Snoop::Cur => Opcode::BiSnpCur,
        }
    }

    /// The opcode for a block of lines.
    pub const fn block_opcode(self) -> Opcode {
        match self {
            Snoop::Inv => Opcode::BiSnpInvBlk,
            Snoop::Data => Opcode::BiSnpDataBlk,
            Snoop::Cur => Opcode::BiSnpCurBlk,
        }
    }

    /// The kind of snoop that an opcode requests, and whether the snoop is for a block of lines.
    pub const fn from_opcode(opcode: Opcode) -> Option<(Snoop, bool)> {
        match opcode {
            Opcode::BiSnpInv => Some((Snoop::Inv, false)),
            Opcode::BiSnpData => Some((Snoop::Data, false)),
            Opcode::BiSnpCur => Some((Snoop::Cur, false)),
            Opcode::BiSnpInvBlk => Some((Snoop::Inv, true)),
            Opcode::BiSnpDataBlk => Some((Snoop::Data, true)),
            Opcode::BiSnpCurBlk => Some((Snoop::Cur, true)),
            _ => None,
        }
    }
}

listed! {
    /// The copy that a holder keeps after a back-invalidation snoop (table 3-45).
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
    #[repr(u8)]
    pub enum KeptCopy {
        /// No copy is kept: `BIRspI`.
        Invalid = 0,
        /// A shared copy: `BIRspS`.
        Shared = 1,
        /// An exclusive, clean copy: `BIRspE`.
        Exclusive = 2,
    }
}

impl KeptCopy {
    /// The opcode for one line.
    pub const fn opcode(self) -> Opcode {
        match self {
            KeptCopy::Invalid => Opcode::BiRspI,
            KeptCopy::Shared => Opcode::BiRspS,
            KeptCopy::Exclusive => Opcode::BiRspE,
        }
    }

    /// The opcode for a block of lines.
    pub const fn block_opcode(self) -> Opcode {
        match self {
            KeptCopy::Invalid => Opcode::BiRspIBlk,
            KeptCopy::Shared => Opcode::BiRspSBlk,
            KeptCopy::Exclusive => Opcode::BiRspEBlk,
        }
    }

    /// The copy that a response reports, and whether the response is for a block of lines.
    pub const fn from_opcode(opcode: Opcode) -> Option<(KeptCopy, bool)> {
        match opcode {
            Opcode::BiRspI => Some((KeptCopy::Invalid, false)),
            Opcode::BiRspS => Some((KeptCopy::Shared, false)),
            Opcode::BiRspE => Some((KeptCopy::Exclusive, false)),
            Opcode::BiRspIBlk => Some((KeptCopy::Invalid, true)),
            Opcode::BiRspSBlk => Some((KeptCopy::Shared, true)),
            Opcode::BiRspEBlk => Some((KeptCopy::Exclusive, true)),
            _ => None,
        }
    }

    /// Whether a holder may give this response to `snoop` (table C-5).
    pub const fn is_valid_for(self, snoop: Snoop) -> bool {
        match snoop {
            Snoop::Inv => matches!(self, KeptCopy::Invalid),
            Snoop::Data => !matches!(self, KeptCopy::Exclusive),
            Snoop::Cur => true,
        }
    }
}

/// A message from a caching requester to the DCOH of HDM-DB memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub enum M2s {
    /// `MemRdData`: a shared or exclusive copy, as the device chooses.
    MemRdData,
    /// `MemRd`, Shared, SnpData: a shared copy.
    MemRdShared,
    /// `MemRd`, Any, SnpInv: the only copy, with data.
    MemRdOwn,
    /// `MemRd`, Invalid, SnpCur: the value, to be used once.
    MemRdCur,
    /// `MemInv`, Any, SnpInv: the only copy; the requester has the data.
    MemInvOwn,
    /// `MemInv`, Invalid, SnpInv: no cache may keep a copy.
    MemInvFlush,
    /// `MemClnEvct`: the requester dropped a clean copy.
    MemClnEvct,
    /// `MemWr`: dirty data; the value is the copy that the requester keeps.
    MemWr(MetaValue),
    /// `BIConflict`: a snoop met an outstanding request.
    BiConflict,
    /// `BIRsp*`: the response to a snoop.
    BiRsp(KeptCopy),
}

impl M2s {
    /// All messages, with every value that they can carry.
    pub const ALL: [M2s; 14] = [
        M2s::MemRdData,
        M2s::MemRdShared,
        M2s::MemRdOwn,
        M2s::MemRdCur,
        M2s::MemInvOwn,
        M2s::MemInvFlush,
        M2s::MemClnEvct,
        M2s::MemWr(MetaValue::Invalid),
        M2s::MemWr(MetaValue::Shared),
        M2s::MemWr(MetaValue::Any),
        M2s::BiConflict,
        M2s::BiRsp(KeptCopy::Invalid),
        M2s::BiRsp(KeptCopy::Shared),
        M2s::BiRsp(KeptCopy::Exclusive),
    ];

    /// Opcode of the message.
    pub const fn opcode(self) -> Opcode {
        match self {
            M2s::MemRdData => Opcode::MemRdData,
            M2s::MemRdShared | M2s::MemRdOwn | M2s::MemRdCur => Opcode::MemRd,
            M2s::MemInvOwn | M2s::MemInvFlush => Opcode::MemInv,
            M2s::MemClnEvct => Opcode::MemClnEvct,
            M2s::MemWr(_) => Opcode::MemWr,
            M2s::BiConflict => Opcode::BiConflict,
            M2s::BiRsp(kept) => kept.opcode(),
        }
    }

    /// MetaField, MetaValue and SnpType of the message. Where the field is `NoOp`, the value is
    /// reserved and returned as `Invalid`; `BIRsp*` has none of the three.
    pub const fn fields(self) -> (MetaField, MetaValue, SnpType) {
        use MetaField::Meta0State;
        match self {
            M2s::MemRdData => (MetaField::NoOp, MetaValue::Invalid, SnpType::SnpData),
            M2s::MemRdShared => (Meta0State, MetaValue::Shared, SnpType::SnpData),
            M2s::MemRdOwn | M2s::MemInvOwn => (Meta0State, MetaValue::Any, SnpType::SnpInv),
            M2s::MemRdCur => (Meta0State, MetaValue::Invalid, SnpType::SnpCur),
            M2s::MemInvFlush => (Meta0State, MetaValue::Invalid, SnpType::SnpInv),
            M2s::MemClnEvct => (Meta0State, MetaValue::Invalid, SnpType::NoOp),
            M2s::MemWr(value) => (Meta0State, value, SnpType::NoOp),
            M2s::BiConflict | M2s::BiRsp(_) => (MetaField::NoOp, MetaValue::Invalid, SnpType::NoOp),
        }
    }

    /// The message with this opcode and these fields. `None` for combinations that are illegal for
    /// HDM-DB, and for legal ones that no agent of the model sends (`docs/explain/coherence.md`
    /// lists them). `MemInvNT` is treated as `MemInv`, from which it differs by a hint.
    pub fn from_fields(
        opcode: Opcode,
        field: MetaField,
        value: MetaValue,
        snp: SnpType,
    ) -> Option<M2s> {
        if let Some((kept, false)) = KeptCopy::from_opcode(opcode) {
            return Some(M2s::BiRsp(kept));
        }
        let opcode = match opcode {
            Opcode::MemInvNt => Opcode::MemInv,
            other => other,
        };
        let value = match field {
            MetaField::NoOp => MetaValue::Invalid,
            MetaField::Meta0State => value,
        };
        M2s::ALL
            .into_iter()
            .find(|m| m.opcode() == opcode && m.fields() == (field, value, snp))
    }
}

/// A response from the DCOH to a requester.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum S2m {
    /// Completion; the requester holds the state that it announced.
    Cmp,
    /// Completion; the requester may hold the line shared.
    CmpS,
    /// Completion; the requester may hold the line exclusive.
    CmpE,
    /// Completion; the requester holds the line modified: memory does not have the current value.
    CmpM,
    /// Acknowledgement of a `BIConflict`.
    BiConflictAck,
    /// Data of the line.
    MemData,
}

impl S2m {
    /// Opcode of the response.
    pub const fn opcode(self) -> Opcode {
        match self {
            S2m::Cmp => Opcode::Cmp,
            S2m::CmpS => Opcode::CmpS,
            S2m::CmpE => Opcode::CmpE,
            S2m::CmpM => Opcode::CmpM,
            S2m::BiConflictAck => Opcode::BiConflictAck,
            S2m::MemData => Opcode::MemData,
        }
    }

    /// The response with this opcode; `None` for snoops, requests and `MemData-NXM`.
    pub const fn from_opcode(opcode: Opcode) -> Option<S2m> {
        match opcode {
            Opcode::Cmp => Some(S2m::Cmp),
            Opcode::CmpS => Some(S2m::CmpS),
            Opcode::CmpE => Some(S2m::CmpE),
            Opcode::CmpM => Some(S2m::CmpM),
            Opcode::BiConflictAck => Some(S2m::BiConflictAck),
            Opcode::MemData => Some(S2m::MemData),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcode_and_fields_lead_back_to_the_message() {
        for message in M2s::ALL {
            let (field, value, snp) = message.fields();
            assert_eq!(
                M2s::from_fields(message.opcode(), field, value, snp),
                Some(message)
            );
        }
    }

    #[test]
    fn response_opcodes_lead_back_to_their_responses() {
        let named = Opcode::ALL.iter().filter_map(|&opcode| {
            let response = S2m::from_opcode(opcode)?;
            assert_eq!(response.opcode(), opcode);
            Some(response)
        });
        assert_eq!(named.count(), 6);
    }

    #[test]
    fn a_write_that_snoops_is_refused_because_data_may_not_wait_for_back_invalidation() {
        let write = M2s::from_fields(
            Opcode::MemWr,
            MetaField::Meta0State,
            MetaValue::Invalid,
            SnpType::SnpInv,
        );
        assert_eq!(write, None);
    }

    #[test]
    fn block_and_single_opcodes_name_the_same_snoop_and_the_same_answer() {
        for snoop in Snoop::ALL {
            assert_eq!(Snoop::from_opcode(snoop.opcode()), Some((snoop, false)));
            assert_eq!(
                Snoop::from_opcode(snoop.block_opcode()),
                Some((snoop, true))
            );
        }
        for kept in KeptCopy::ALL {
            assert_eq!(KeptCopy::from_opcode(kept.opcode()), Some((kept, false)));
            assert_eq!(
                KeptCopy::from_opcode(kept.block_opcode()),
                Some((kept, true))
            );
        }
    }
}
