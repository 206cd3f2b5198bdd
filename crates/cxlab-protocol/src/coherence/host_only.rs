//! HDM-H: memory that the host alone keeps coherent. The device neither filters nor snoops.
//!
//! Reads get `MemData` alone and writes `Cmp` alone (CXL 3.1, tables 3-53 and C-8, and CXL 2.0,
//! table 313: the host expects a DRS only for HDM-H, and a DRS and an NDR for HDM-DB). MetaValue is
//! opaque to the device and not stored here; SnpType is always No-Op.

use super::message::S2m;
use crate::opcode::Opcode;

/// The device's access to the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The medium is not accessed.
    None,
    /// Read the line.
    Read,
    /// Write the data of the message.
    Write,
}

/// One row of the response table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Name of the row.
    pub name: &'static str,
    /// The requests that the row applies to.
    pub on: &'static [Opcode],
    /// The access to the medium.
    pub access: Access,
    /// The response after the access; `None` for requests without a response.
    pub reply: Option<S2m>,
}

/// All rows, in the order of `docs/reference/coherence-tables.md`.
pub const ROWS: &[Row] = &[
    Row {
        name: "read",
        on: &[Opcode::MemRd, Opcode::MemRdData, Opcode::MemRdFill],
        access: Access::Read,
        reply: Some(S2m::MemData),
    },
    Row {
        name: "speculative_read",
        on: &[Opcode::MemSpecRd],
        access: Access::Read,
        reply: None,
    },
    Row {
        name: "write",
        on: &[Opcode::MemWr, Opcode::MemWrPtl],
        access: Access::Write,
        reply: Some(S2m::Cmp),
    },
    Row {
        name: "invalidate",
        on: &[Opcode::MemInv, Opcode::MemInvNt],
        access: Access::None,
        reply: Some(S2m::Cmp),
    },
];

/// The row for a request; `None` for messages that HDM-H memory does not receive.
pub fn step(opcode: Opcode) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.on.contains(&opcode))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::opcode::Channel;

    #[test]
    fn a_request_gets_one_response_that_carries_data_exactly_for_reads() {
        for &opcode in Opcode::ALL {
            let Some(row) = step(opcode) else { continue };
            let Some(reply) = row.reply else {
                assert_eq!(opcode, Opcode::MemSpecRd);
                continue;
            };
            let reads = row.access == Access::Read;
            assert_eq!(reply.opcode().channel().carries_data(), reads, "{opcode:?}");
        }
    }

    #[test]
    fn back_invalidation_and_clean_evictions_have_no_place_in_it() {
        for &opcode in Opcode::ALL {
            let refused = matches!(
                opcode,
                Opcode::BiConflict | Opcode::MemClnEvct | Opcode::MemRdFwd | Opcode::MemWrFwd
            ) || !matches!(opcode.channel(), Channel::M2sReq | Channel::M2sRwd);
            assert_eq!(step(opcode).is_none(), refused, "{opcode:?}");
        }
    }
}
