//! Transaction layer packets: their contents, and their size on the link.
//!
//! Without flits (PCIe 5.0, section 2.2, 4.2.2) a packet has a framing token of 4 bytes with its
//! sequence number, a header of 3 or 4 words, a prefix word for a process, and 4 bytes of link CRC.
//! In flit mode (PCIe 6.0, section 2.2.1) framing, sequence number and CRC belong to the flit; a
//! packet has a header base of 3 or 4 words and a word of orthogonal header content (OHC) if it
//! needs byte enables or a process. CXL.io uses the first form in 68 B flits, and the second in 256
//! B flits (CXL 3.1, section 3.1). Left out: end-to-end CRC, TPH, IDE.

use serde::{Deserialize, Serialize};

/// Number of bytes of a word (DW).
pub const WORD: u32 = 4;

/// The framing of packets on a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Framing {
    /// As in PCIe 5.0, and in CXL's 68 B flits.
    NonFlit,
    /// As in PCIe 6.0, and in CXL's 256 B flits.
    Flit,
}

listed! {
    /// Kind of a packet.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    pub enum Kind {
        /// Memory read request (MRd).
        MemRd,
        /// Memory write request (MWr).
        MemWr,
        /// Completion without data (Cpl).
        Cpl,
        /// Completion with data (CplD).
        CplD,
        /// Configuration read (CfgRd0, CfgRd1).
        CfgRd,
        /// Configuration write (CfgWr0, CfgWr1).
        CfgWr,
        /// ATS Translation Request: a memory read with address type 01b.
        TranslationRequest,
        /// ATS Translation Completion: 8 bytes for each translation.
        TranslationCompletion,
        /// ATS Invalidate Request: a message with 8 bytes.
        InvalidateRequest,
        /// ATS Invalidate Completion: a message.
        InvalidateCompletion,
        /// Page Request: a message.
        PageRequest,
        /// PRG Response: a message.
        PrgResponse,
        /// MSI-X: a memory write of 4 bytes.
        Interrupt,
    }
}

impl Kind {
    /// The flow-control class that the packet belongs to.
    pub const fn class(self) -> Class {
        match self {
            Kind::MemWr
            | Kind::InvalidateRequest
            | Kind::InvalidateCompletion
            | Kind::PageRequest
            | Kind::PrgResponse
            | Kind::Interrupt => Class::Posted,
            Kind::MemRd | Kind::CfgRd | Kind::CfgWr | Kind::TranslationRequest => Class::NonPosted,
            Kind::Cpl | Kind::CplD | Kind::TranslationCompletion => Class::Completion,
        }
    }

    /// The payload in bytes, if all packets of the kind have the same; `None` if each packet has its own.
    pub const fn fixed_payload(self) -> Option<u32> {
        match self {
            Kind::MemWr | Kind::CplD => None,
            Kind::CfgWr | Kind::Interrupt => Some(4),
            Kind::TranslationCompletion | Kind::InvalidateRequest => Some(8),
            Kind::MemRd
            | Kind::Cpl
            | Kind::CfgRd
            | Kind::TranslationRequest
            | Kind::InvalidateCompletion
            | Kind::PageRequest
            | Kind::PrgResponse => Some(0),
        }
    }

    /// Whether the header has an address. With an address above 4 GiB, the header takes 4 words.
    const fn has_address(self) -> bool {
        matches!(
            self,
            Kind::MemRd | Kind::MemWr | Kind::TranslationRequest | Kind::Interrupt
        )
    }

    const fn is_message(self) -> bool {
        matches!(
            self,
            Kind::InvalidateRequest
                | Kind::InvalidateCompletion
                | Kind::PageRequest
                | Kind::PrgResponse
        )
    }
}

/// Flow-control class of a packet. No later packet passes a posted one, unless an attribute relaxes
/// their order (PCIe 5.0, table 2-39).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Writes and messages.
    Posted,
    /// Requests that get a completion.
    NonPosted,
    /// Completions of non-posted requests.
    Completion,
}

/// A transaction layer packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tlp {
    /// Kind of the packet.
    pub kind: Kind,
    /// Payload in bytes: 0 to 4096. For a memory read: the number of bytes requested.
    pub bytes: u32,
    /// Whether the address is above 4 GiB. Without meaning for packets without an address.
    pub long_address: bool,
    /// Whether the packet names a process (PASID).
    pub pasid: bool,
    /// Whether the first or last word is incomplete, so that byte enables are needed.
    pub partial: bool,
}

impl Tlp {
    /// A packet of a kind, with an address above 4 GiB, without a process and with whole words. If
    /// the kind has a fixed payload other than 0, that replaces `bytes`.
    pub const fn new(kind: Kind, bytes: u32) -> Tlp {
        let bytes = match kind.fixed_payload() {
            Some(fixed) if fixed > 0 => fixed,
            _ => bytes,
        };
        Tlp {
            kind,
            bytes,
            long_address: true,
            pasid: false,
            partial: false,
        }
    }

    /// Payload bytes on the link: whole words.
    pub const fn payload_bytes(&self) -> u32 {
        match self.kind.fixed_payload() {
            Some(fixed) => fixed,
            None => self.bytes.next_multiple_of(WORD),
        }
    }

    /// Header bytes, with the prefix or the orthogonal header content.
    pub const fn header_bytes(&self, framing: Framing) -> u32 {
        let long = self.kind.has_address() && self.long_address;
        let base = if long || self.kind.is_message() {
            4 * WORD
        } else {
            3 * WORD
        };
        let extra = match framing {
            Framing::NonFlit => self.pasid,
            Framing::Flit => {
                self.pasid
                    || self.partial && self.kind.has_address()
                    || matches!(
                        self.kind,
                        Kind::CfgRd | Kind::CfgWr | Kind::TranslationRequest
                    )
            }
        };
        if extra { base + WORD } else { base }
    }

    /// Number of bytes that frame a packet.
    pub const fn framing_bytes(framing: Framing) -> u32 {
        match framing {
            Framing::NonFlit => 2 * WORD,
            Framing::Flit => 0,
        }
    }

    /// Total bytes of the packet on the link.
    pub const fn wire_bytes(&self, framing: Framing) -> u32 {
        self.header_bytes(framing) + self.payload_bytes() + Tlp::framing_bytes(framing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMINGS: [Framing; 2] = [Framing::NonFlit, Framing::Flit];

    #[test]
    fn packets_have_the_sizes_of_the_tables() {
        for (kind, bytes, expected) in [
            (Kind::MemRd, 512, [24, 16]),
            (Kind::MemWr, 256, [280, 272]),
            (Kind::CplD, 64, [84, 76]),
            (Kind::Cpl, 0, [20, 12]),
            (Kind::CfgRd, 0, [20, 16]),
            (Kind::CfgWr, 0, [24, 20]),
            (Kind::TranslationRequest, 0, [24, 20]),
            (Kind::TranslationCompletion, 0, [28, 20]),
            (Kind::InvalidateRequest, 0, [32, 24]),
            (Kind::InvalidateCompletion, 0, [24, 16]),
            (Kind::PageRequest, 0, [24, 16]),
            (Kind::Interrupt, 0, [28, 20]),
        ] {
            let tlp = Tlp::new(kind, bytes);
            let wire = FRAMINGS.map(|framing| tlp.wire_bytes(framing));
            assert_eq!(wire, expected, "{kind:?}");
        }
    }

    #[test]
    fn a_short_address_saves_a_word_and_a_process_costs_one() {
        let read = Tlp::new(Kind::MemRd, 64);
        let mut altered = [read; 3];
        altered[0].long_address = false;
        altered[1].pasid = true;
        altered[2].partial = true;
        // Words beyond those of a plain read: byte enables cost one in flits alone.
        for (framing, words) in [(Framing::NonFlit, [-1, 1, 0]), (Framing::Flit, [-1, 1, 1])] {
            let bytes = |tlp: Tlp| tlp.wire_bytes(framing) as i32;
            let more = altered.map(|tlp| (bytes(tlp) - bytes(read)) / WORD as i32);
            assert_eq!(more, words, "{framing:?}");
        }
    }

    #[test]
    fn payloads_are_whole_words_and_reads_carry_none() {
        assert_eq!(Tlp::new(Kind::MemWr, 5).payload_bytes(), 8);
        assert_eq!(Tlp::new(Kind::MemRd, 4096).payload_bytes(), 0);
        for kind in Kind::ALL {
            let header = Tlp::new(kind, 4).header_bytes(Framing::NonFlit);
            assert!(header == 12 || header == 16, "{kind:?}");
        }
    }

    #[test]
    fn messages_and_interrupts_push_what_was_written_before_them() {
        let ordered = [
            Kind::MemWr,
            Kind::Interrupt,
            Kind::InvalidateCompletion,
            Kind::PageRequest,
        ];
        for kind in ordered {
            assert_eq!(kind.class(), Class::Posted, "{kind:?}");
        }
        assert_eq!(Kind::TranslationCompletion.class(), Class::Completion);
    }
}
