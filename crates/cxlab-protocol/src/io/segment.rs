//! Division of a transfer into packets.
//!
//! Writes carry at most Max_Payload_Size, reads request at most Max_Read_Request_Size, and no
//! request crosses a boundary of 4 KiB (PCIe 5.0, section 2.2.7). Completions of a read end at
//! multiples of the completer's chunk, which is a multiple of the Read Completion Boundary and at
//! most Max_Payload_Size (section 2.3.1.1); the last one ends where the read ends.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::tlp::{Kind, Tlp, WORD};

/// No request crosses a multiple of this number of bytes.
pub const BOUNDARY: u64 = 4096;

/// The size limits that divide transfers, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Max_Payload_Size: 128, 256, 512, 1024, 2048 or 4096. Default 256, which root ports of
    /// servers allow (*assumed*).
    pub max_payload: u32,
    /// Max_Read_Request_Size: the same values. Default 512, the value after reset (PCIe
    /// 5.0, section 7.5.3.4).
    pub max_read_request: u32,
    /// Completions end at multiples of this size: a power of two from the Read Completion Boundary (64) to
    /// Max_Payload_Size. Default 256: whole payloads. 64 is for root complexes that respond by cache line.
    pub completion_chunk: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_payload: 256,
            max_read_request: 512,
            completion_chunk: 256,
        }
    }
}

/// A size limit that PCIe does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitsError {
    /// Name of the field.
    pub field: &'static str,
    /// The value found.
    pub found: u32,
    /// The least value allowed.
    pub least: u32,
    /// The greatest value allowed.
    pub most: u32,
}

impl fmt::Display for LimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (field, found) = (self.field, self.found);
        let (least, most) = (self.least, self.most);
        write!(
            f,
            "`{field}` is {found}; allowed: powers of two from {least} to {most}"
        )
    }
}

impl std::error::Error for LimitsError {}

/// A part of a transfer: the data of one packet, or the range of one read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Piece {
    /// First address of the piece.
    pub address: u64,
    /// Number of bytes, at least 1.
    pub bytes: u32,
}

impl Piece {
    /// The packet of this kind for the piece.
    pub const fn tlp(self, kind: Kind) -> Tlp {
        let mut tlp = Tlp::new(kind, self.words() * WORD);
        tlp.long_address = self.address + self.bytes as u64 > 1 << 32;
        let end = self.address + self.bytes as u64;
        let word = WORD as u64;
        tlp.partial = !self.address.is_multiple_of(word) || !end.is_multiple_of(word);
        tlp
    }

    /// Number of words that contain the piece.
    const fn words(self) -> u32 {
        let word = WORD as u64;
        let end = (self.address + self.bytes as u64).div_ceil(word);
        (end - self.address / word) as u32
    }
}

/// Iterator over the pieces of a transfer.
#[derive(Clone, Debug)]
pub struct Pieces {
    address: u64,
    left: u64,
    rule: Rule,
}

#[derive(Clone, Copy, Debug)]
enum Rule {
    /// As many bytes as this, but not across [`BOUNDARY`].
    Most(u64),
    /// Up to the next multiple of this number.
    UpTo(u64),
}

impl Pieces {
    fn new(address: u64, left: u64, rule: Rule) -> Pieces {
        Pieces {
            address,
            left,
            rule,
        }
    }
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let room = |multiple: u64| multiple - self.address % multiple;
        let bytes = match self.rule {
            Rule::Most(most) => most.min(room(BOUNDARY)),
            Rule::UpTo(chunk) => room(chunk),
        };
        let bytes = bytes.min(self.left);
        if bytes == 0 {
            return None;
        }
        let piece = Piece {
            address: self.address,
            bytes: bytes as u32,
        };
        self.address += bytes;
        self.left -= bytes;
        Some(piece)
    }
}

impl Limits {
    /// Checks that PCIe has these sizes.
    ///
    /// # Errors
    /// The first field whose value is not allowed.
    pub fn check(&self) -> Result<(), LimitsError> {
        let fields = [
            ("max_payload", self.max_payload, 128, 4096),
            ("max_read_request", self.max_read_request, 128, 4096),
            (
                "completion_chunk",
                self.completion_chunk,
                64,
                self.max_payload,
            ),
        ];
        for (field, found, least, most) in fields {
            if !found.is_power_of_two() || !(least..=most).contains(&found) {
                return Err(LimitsError {
                    field,
                    found,
                    least,
                    most,
                });
            }
        }
        Ok(())
    }

    /// The writes of a transfer.
    pub fn writes(&self, address: u64, bytes: u64) -> Pieces {
        Pieces::new(address, bytes, Rule::Most(self.max_payload.into()))
    }

    /// The reads of a transfer.
    pub fn reads(&self, address: u64, bytes: u64) -> Pieces {
        Pieces::new(address, bytes, Rule::Most(self.max_read_request.into()))
    }

    /// The completions of one read.
    pub fn completions(&self, read: Piece) -> Pieces {
        let rule = Rule::UpTo(self.completion_chunk.into());
        Pieces::new(read.address, read.bytes.into(), rule)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_is_16_writes_of_256_and_8_reads_of_512() {
        let limits = Limits::default();
        assert_eq!(limits.writes(0, 4096).count(), 16);
        assert_eq!(limits.reads(0, 4096).count(), 8);
        // One byte further, each side of the boundary has its own requests.
        assert_eq!(limits.writes(1, 4096).count(), 17);
        let pieces: Vec<Piece> = limits.reads(4096 - 8, 16).collect();
        assert_eq!(pieces.len(), 2);
        assert_eq!((pieces[0].bytes, pieces[1].address), (8, 4096));
    }

    #[test]
    fn completions_end_at_the_boundary() {
        let limits = Limits {
            completion_chunk: 64,
            ..Limits::default()
        };
        let read = Piece {
            address: 0x1020,
            bytes: 512,
        };
        let ends: Vec<u64> = limits
            .completions(read)
            .map(|piece| piece.address + u64::from(piece.bytes))
            .collect();
        assert_eq!(ends.len(), 9);
        assert_eq!((ends[0], ends[7], ends[8]), (0x1040, 0x1200, 0x1220));
    }

    #[test]
    fn a_piece_that_is_not_of_whole_words_needs_byte_enables() {
        let write = |address, bytes| Piece { address, bytes }.tlp(Kind::MemWr);
        let tlp = write(3, 2);
        assert!(tlp.partial && !tlp.long_address);
        assert_eq!(tlp.payload_bytes(), 8);
        let far = write(1 << 33, 8);
        assert!(!far.partial && far.long_address);
    }

    #[test]
    fn sizes_that_pcie_does_not_have_are_refused() {
        let limits = |max_payload, max_read_request, completion_chunk| Limits {
            max_payload,
            max_read_request,
            completion_chunk,
        };
        for (wrong, field) in [
            (limits(64, 512, 256), "max_payload"),
            (limits(256, 600, 256), "max_read_request"),
            (limits(256, 512, 512), "completion_chunk"),
        ] {
            assert_eq!(wrong.check().unwrap_err().field, field);
        }
        assert_eq!(Limits::default().check(), Ok(()));
    }

    fn limits() -> impl Strategy<Value = Limits> {
        (7u32..13, 7u32..13).prop_flat_map(|(payload, read)| {
            (6..=payload).prop_map(move |chunk| Limits {
                max_payload: 1 << payload,
                max_read_request: 1 << read,
                completion_chunk: 1 << chunk,
            })
        })
    }

    proptest! {
        #[test]
        fn pieces_cover_the_transfer_once_and_obey_every_limit(
            limits in limits(),
            address in 0u64..1 << 40,
            bytes in 0u64..40_000,
        ) {
            let crosses = |piece: &Piece, multiple: u64| {
                piece.address / multiple != (piece.address + u64::from(piece.bytes) - 1) / multiple
            };
            let mut at = address;
            for piece in limits.writes(address, bytes) {
                prop_assert_eq!(piece.address, at);
                prop_assert!(piece.bytes >= 1 && piece.bytes <= limits.max_payload);
                prop_assert!(!crosses(&piece, BOUNDARY));
                at += u64::from(piece.bytes);
            }
            prop_assert_eq!(at, address + bytes);
            for read in limits.reads(address, bytes) {
                prop_assert!(read.bytes <= limits.max_read_request && !crosses(&read, BOUNDARY));
                let parts: Vec<Piece> = limits.completions(read).collect();
                prop_assert_eq!(parts.iter().map(|part| part.bytes).sum::<u32>(), read.bytes);
                for part in &parts {
                    prop_assert!(part.bytes <= limits.max_payload);
                    prop_assert!(!crosses(part, limits.completion_chunk.into()));
                }
            }
        }
    }
}
