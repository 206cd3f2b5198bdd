//! The slot formats and the limits of each flit format, as tables.
//!
//! A slot format says how many messages of each class one slot can hold at most.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::opcode::Channel;

listed! {
    /// How a link cuts its bytes into flits.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
    pub enum FlitFormat {
        /// 68-byte flits: 4 slots of 16 bytes, 2 bytes of CRC and 2 bytes of protocol identifier
        /// (CXL 3.1, section 4.2.2). They carry no back-invalidation.
        #[serde(rename = "68B")]
        B68,
        /// Standard 256-byte flits: 15 slots (CXL 3.1, section 4.3.2, figure 4-41).
        #[serde(rename = "256B")]
        B256,
        /// Standard 256-byte flits of a PBR link: between switches with port-based routing, or between
        /// such a switch and a G-FAM device (CXL 3.1, section 7.7.6.9). Their messages carry 12-bit IDs
        /// of source and destination and are longer, so fewer of them fit into a slot (section 4.3.2).
        /// The components that a link joins determine this format; a scenario cannot request it.
        #[serde(rename = "256B-pbr")]
        #[schemars(skip)]
        B256Pbr,
        /// Latency-optimised 256-byte flits: 15 slots in two halves of 128 bytes, each with its own
        /// CRC, so that the first half can be used before the second has arrived (CXL 3.1, section
        /// 4.3.2, figure 4-42). Not defined for PBR links (note in the same section).
        #[serde(rename = "256B-latency-optimized")]
        B256LatencyOptimized,
    }
}

impl FlitFormat {
    /// Bytes of a flit on the wire, headers and check codes included.
    pub const fn bytes(self) -> u64 {
        match self {
            FlitFormat::B68 => 68,
            FlitFormat::B256 | FlitFormat::B256Pbr | FlitFormat::B256LatencyOptimized => 256,
        }
    }

    /// Slots of a flit that has a header.
    pub const fn slots(self) -> u32 {
        match self {
            FlitFormat::B68 => 4,
            FlitFormat::B256 | FlitFormat::B256Pbr | FlitFormat::B256LatencyOptimized => 15,
        }
    }

    /// Parts of a flit that the receiver can use separately: 2 for latency-optimised flits.
    pub const fn halves(self) -> u32 {
        match self {
            FlitFormat::B68 | FlitFormat::B256 | FlitFormat::B256Pbr => 1,
            FlitFormat::B256LatencyOptimized => 2,
        }
    }

    /// Whether the format has a slot for messages of this class. Back-invalidation (BISnp, BIRsp)
    /// has none in 68-byte flits (CXL 3.1, table 4-18: "N/A"), so such a link cannot carry it.
    pub const fn carries(self, channel: Channel) -> bool {
        self.rules().max_messages >> (4 * channel.index()) & 0xf != 0
    }

    pub(super) const fn rules(self) -> &'static Rules {
        match self {
            FlitFormat::B68 => &B68,
            FlitFormat::B256 => &B256,
            FlitFormat::B256Pbr => &B256_PBR,
            FlitFormat::B256LatencyOptimized => &B256_LATENCY_OPTIMIZED,
        }
    }
}

/// Counts of messages by class, a nibble each, at `4 * Channel::index()`.
pub(super) type Counts = u64;

/// The counts of a single message of the class.
pub(super) const fn one(channel: Channel) -> Counts {
    1 << (4 * channel.index())
}

/// How many messages of the class are in `counts`.
pub(super) const fn count_of(counts: Counts, channel: Channel) -> u32 {
    (counts >> (4 * channel.index()) & 0xf) as u32
}

/// A row of a table: counts of CXL.mem messages in the order of the columns `req rwd ndr drs bisnp birsp`.
const fn row(req: u64, rwd: u64, ndr: u64, drs: u64, bisnp: u64, birsp: u64) -> Counts {
    req | rwd << 4 | ndr << 8 | drs << 12 | bisnp << 16 | birsp << 20
}

/// Counts of CXL.cache messages from the device to the host, to be combined with a [`row`].
const fn d2h(req: u64, rsp: u64, data: u64) -> Counts {
    req << 24 | rsp << 28 | data << 32
}

/// Counts of CXL.cache messages from the host to the device, to be combined with a [`row`].
const fn h2d(req: u64, rsp: u64, data: u64) -> Counts {
    req << 36 | rsp << 40 | data << 44
}

/// Slot formats of 68-byte flits, slot 0: CXL 3.1, tables 4-7 and 4-8. H6 (integrity) is left out.
#[rustfmt::skip]
const H_68: &[Counts] = &[
    //  req rwd ndr drs bisnp birsp
    h2d(1, 1, 0),                                   // H0 H2D: Req + Rsp
    h2d(0, 2, 1),                                   // H1 H2D: data header + 2 Rsp
    h2d(1, 0, 1),                                   // H2 H2D: Req + data header
    h2d(0, 0, 4),                                   // H3 H2D: 4 data headers
    row(0,  1,  0,  0,  0,    0),                   // H4 M2S: RwD
    row(1,  0,  0,  0,  0,    0),                   // H5 M2S: Req
    row(0,  0,  1,  0,  0,    0) | d2h(0, 2, 1),    // H0 D2H: data header + 2 Rsp + NDR
    d2h(1, 0, 1),                                   // H1 D2H: Req + data header
    d2h(0, 1, 4),                                   // H2 D2H: 4 data headers + Rsp
    row(0,  0,  1,  1,  0,    0),                   // H3 S2M: DRS + NDR
    row(0,  0,  2,  0,  0,    0),                   // H4 S2M: 2 NDR
    row(0,  0,  0,  2,  0,    0),                   // H5 S2M: 2 DRS
];

/// Slot formats of 68-byte flits, slots 1 to 3: CXL 3.1, tables 4-7 and 4-8.
#[rustfmt::skip]
const G_68: &[Counts] = &[
    //  req rwd ndr drs bisnp birsp
    h2d(0, 4, 0),                                   // G1 H2D: 4 Rsp
    h2d(1, 1, 1),                                   // G2 H2D: Req + data header + Rsp
    h2d(0, 1, 4),                                   // G3 H2D: 4 data headers + Rsp
    row(1,  0,  0,  0,  0,    0) | h2d(0, 0, 1),    // G4 M2S: Req + H2D data header
    row(0,  1,  0,  0,  0,    0) | h2d(0, 1, 0),    // G5 M2S: RwD + H2D Rsp
    d2h(1, 2, 0),                                   // G1 D2H: Req + 2 Rsp
    d2h(1, 1, 1),                                   // G2 D2H: Req + data header + Rsp
    d2h(0, 0, 4),                                   // G3 D2H: 4 data headers
    row(0,  0,  2,  1,  0,    0),                   // G4 S2M: DRS + 2 NDR; G5 S2M: 2 NDR is a part of it
    row(0,  0,  0,  3,  0,    0),                   // G6 S2M: 3 DRS
];

/// Slot formats of 256-byte flits, slot 0 (14 bytes): CXL 3.1, table 4-15, HBR columns.
#[rustfmt::skip]
const H_256: &[Counts] = &[
    //  req rwd ndr drs bisnp birsp
    h2d(1, 0, 0),                    // H0
    h2d(0, 2, 0),                    // H1
    d2h(1, 1, 0),                    // H2
    d2h(0, 4, 0),                    // H3
    row(1,  0,  0,  0,  0,    0),    // H4
    row(0,  0,  0,  0,  0,    2),    // H5
    row(0,  0,  0,  0,  1,    0),    // H6
    row(0,  0,  2,  0,  0,    0),    // H7
    h2d(0, 0, 3),                    // H12
    d2h(0, 0, 4),                    // H13
    row(0,  1,  0,  0,  0,    0),    // H14
    row(0,  0,  0,  2,  0,    0),    // H15
];

/// Slot formats of latency-optimised flits, slot 8 (12 bytes): CXL 3.1, table 4-16. M2S Req and RwD
/// fit "zero extended"; the bits cut off are taken to be always zero (*assumed*).
#[rustfmt::skip]
const HS_256: &[Counts] = &[
    //  req rwd ndr drs bisnp birsp
    h2d(1, 0, 0),                    // HS0
    h2d(0, 2, 0),                    // HS1
    d2h(1, 0, 0),                    // HS2
    d2h(0, 3, 0),                    // HS3
    row(1,  0,  0,  0,  0,    0),    // HS4
    row(0,  0,  0,  0,  0,    2),    // HS5
    row(0,  0,  0,  0,  1,    0),    // HS6
    row(0,  0,  2,  0,  0,    0),    // HS7
    h2d(0, 0, 3),                    // HS12
    d2h(0, 0, 3),                    // HS13
    row(0,  1,  0,  0,  0,    0),    // HS14
    row(0,  0,  0,  2,  0,    0),    // HS15
];

/// Slot formats of 256-byte flits, 16-byte slots: CXL 3.1, table 4-14, HBR columns.
#[rustfmt::skip]
const G_256: &[Counts] = &[
    //  req rwd ndr drs bisnp birsp
    h2d(1, 1, 0),                    // G0
    h2d(0, 3, 0),                    // G1
    d2h(1, 2, 0),                    // G2
    d2h(0, 4, 0),                    // G3
    row(1,  0,  0,  0,  0,    0),    // G4
    row(0,  0,  0,  0,  0,    3),    // G5
    row(0,  0,  1,  0,  1,    0),    // G6
    row(0,  0,  3,  0,  0,    0),    // G7
    h2d(0, 0, 4),                    // G12
    d2h(0, 0, 4),                    // G13
    row(0,  1,  0,  0,  0,    0),    // G14
    row(0,  0,  0,  3,  0,    0),    // G15
];

/// Slot formats of PBR flits, 14-byte and 16-byte slots alike: CXL 3.1, tables 4-15 and 4-14, PBR columns.
/// M2S Req and RwD fit slot 0 "zero extended", if CKID[12:8] and TC are zero, as they are without TEE.
#[rustfmt::skip]
const PBR_256: &[Counts] = &[
    //  req rwd ndr drs bisnp birsp
    h2d(1, 0, 0),                    // G0, H0
    h2d(0, 2, 0),                    // G1, H1
    d2h(1, 0, 0),                    // G2, H2
    d2h(0, 3, 0),                    // G3, H3
    row(1,  0,  0,  0,  0,    0),    // G4, H4
    row(0,  0,  0,  0,  0,    2),    // G5, H5
    row(0,  0,  0,  0,  1,    0),    // G6, H6
    row(0,  0,  2,  0,  0,    0),    // G7, H7
    h2d(0, 0, 3),                    // G12, H12
    d2h(0, 0, 3),                    // G13, H13
    row(0,  1,  0,  0,  0,    0),    // G14, H14
    row(0,  0,  0,  2,  0,    0),    // G15, H15
];

/// Maximum number of messages in a 68-byte flit: CXL 3.1, section 4.2.5, last rule but three.
#[rustfmt::skip]
const MAX_68: Counts =
    //  req rwd ndr drs bisnp birsp
    row(2,  1,  2,  3,  0,    0) | d2h(4, 2, 4) | h2d(2, 4, 4);

/// Maximum number of messages in two neighbouring groups of slots ("rolling 128 B group"): CXL 3.1,
/// section 4.3.4, table 4-18.
#[rustfmt::skip]
const MAX_256: Counts =
    //  req rwd ndr drs bisnp birsp
    row(4,  2,  6,  3,  2,    3) | d2h(4, 4, 4) | h2d(2, 6, 4);

/// Number of entries in a table by class, rounded up to a power of two.
pub(super) const CLASSES: usize = 16;

/// Largest number of slots of any format.
pub(super) const SLOTS: usize = 15;
/// Number of windows in which messages are counted, see [`Rules::windows`].
pub(super) const WINDOWS: usize = 5;

/// The rules of a format that the packer applies.
pub(super) struct Rules {
    /// Slots of a flit, as a mask.
    pub all: u16,
    /// Slots that can hold data, as a mask.
    pub data: u16,
    /// Slots whose last byte is in the second half, as a mask. Slot 7 of a latency-optimised
    /// flit crosses the middle: its messages wait for the second CRC (CXL 3.1, section 4.3.2).
    pub second_half: u16,
    /// The state machine in [`Rules::states`] that each slot follows.
    pub kind: [u8; SLOTS],
    /// The state machines of the kinds of slots.
    pub states: [SlotStates; 3],
    /// Bit w of `windows[s]`: messages in slot s count in window w. Windows of 256-byte flits
    /// are DA (with the last flit's slots 12 to 14), AB, BC, CD and DA (with the next flit's
    /// slots 0 to 3); 68-byte flits have one window, the flit.
    pub windows: [u8; SLOTS],
    /// The slots of each window, as a mask.
    pub window_slots: [u16; WINDOWS],
    /// By class: all slots (as a mask) if the format does not carry the class, otherwise none.
    pub never: [u16; Channel::COUNT],
    /// Number of slots that can hold data.
    pub data_per_flit: u32,
    /// Maximum number of messages of each class in one window.
    pub max_messages: Counts,
    /// 68-byte flits: all data headers of a flit share one slot (CXL 3.1, section 4.2.5).
    pub one_data_header_slot: bool,
    /// 68-byte flits: more data chunks than fit beside a header travel in flits of four chunks
    /// without a header (CXL 3.1, section 4.2.5).
    pub all_data_flits: bool,
    /// 256-byte flits: slots (mask) that take a data header only while at most
    /// [`MAX_REMAINING`] data slots remain to be sent (CXL 3.1, section 4.3.4).
    pub limited: u16,
}

/// Number of data slots that may remain when a data header goes into an H or HS slot: CXL 3.1, 4.3.4.
pub(super) const MAX_REMAINING: u32 = 16;

const fn kinds(hs: bool) -> [u8; SLOTS] {
    let mut kind = [1; SLOTS];
    kind[0] = 0;
    if hs {
        kind[8] = 2;
    }
    kind
}

/// The windows of each slot. Groups A = slots 0 to 3, B = 4 to 7, C = 8 to 11, D = 12 to 14; slot 7
/// of a latency-optimised flit counts in B and in C (CXL 3.1, section 4.3.4).
const fn windows_256(latency_optimized: bool) -> [u8; SLOTS] {
    let mut windows = [0; SLOTS];
    let mut slot = 0;
    while slot < SLOTS {
        let group = slot / 4;
        windows[slot] = 0b11 << group;
        slot += 1;
    }
    if latency_optimized {
        windows[7] |= 0b11 << 2;
    }
    windows
}

const fn slots_of(windows: &[u8; SLOTS]) -> [u16; WINDOWS] {
    let mut slots = [0; WINDOWS];
    let mut slot = 0;
    while slot < SLOTS {
        let mut window = 0;
        while window < WINDOWS {
            if windows[slot] >> window & 1 != 0 {
                slots[window] |= 1 << slot;
            }
            window += 1;
        }
        slot += 1;
    }
    slots
}

/// By class: all slots (as a mask) if the format does not carry the class, otherwise none.
const fn never(max: Counts) -> [u16; Channel::COUNT] {
    let mut never = [0; Channel::COUNT];
    let mut c = 0;
    while c < Channel::COUNT {
        if max >> (4 * c) & 0xf == 0 {
            never[c] = u16::MAX;
        }
        c += 1;
    }
    never
}

static B68: Rules = Rules {
    all: 0b1111,
    data: 0b1110,
    second_half: 0,
    kind: kinds(false),
    states: [
        SlotStates::of(H_68),
        SlotStates::of(G_68),
        SlotStates::of(&[]),
    ],
    windows: [0b00010; SLOTS],
    window_slots: slots_of(&[0b00010; SLOTS]),
    never: never(MAX_68),
    data_per_flit: 3,
    max_messages: MAX_68,
    one_data_header_slot: true,
    all_data_flits: true,
    limited: 0,
};

/// Rules of 256-byte flits with the given slot formats for slot 0 and for the other slots. Slot 8 has
/// formats of its own in latency-optimised flits only.
const fn rules_256(slot_0: &[Counts], others: &[Counts], slot_8: &[Counts]) -> Rules {
    let latency_optimized = !slot_8.is_empty();
    let headers_only: u16 = if latency_optimized { 1 | 1 << 8 } else { 1 };
    let windows = windows_256(latency_optimized);
    Rules {
        all: 0x7fff,
        data: 0x7fff & !headers_only,
        second_half: if latency_optimized { 0x7f80 } else { 0 },
        kind: kinds(latency_optimized),
        states: [
            SlotStates::of(slot_0),
            SlotStates::of(others),
            SlotStates::of(slot_8),
        ],
        windows,
        window_slots: slots_of(&windows),
        never: never(MAX_256),
        data_per_flit: SLOTS as u32 - headers_only.count_ones(),
        max_messages: MAX_256,
        one_data_header_slot: false,
        all_data_flits: false,
        limited: headers_only,
    }
}

static B256: Rules = rules_256(H_256, G_256, &[]);
static B256_PBR: Rules = rules_256(PBR_256, PBR_256, &[]);
static B256_LATENCY_OPTIMIZED: Rules = rules_256(H_256, G_256, HS_256);

/// Number of distinct contents that a slot can have, with room to spare.
const STATES: usize = 64;

/// The contents that a slot can have, and how one more message changes them. Both are computed from
/// the slot formats: contents are legal if some format has room for them.
pub(super) struct SlotStates {
    /// The contents of each state; state 0 is the empty slot.
    pub counts: [Counts; STATES],
    /// The state after one more message of a class, or 0 if no format has room for it.
    pub next: [[u8; Channel::COUNT]; STATES],
    /// By class: all ones if `next` has room for one more message. Padded to the size of a vector register.
    pub room: [[u16; CLASSES]; STATES],
}

impl SlotStates {
    const fn of(formats: &[Counts]) -> SlotStates {
        let mut machine = SlotStates {
            counts: [0; STATES],
            next: [[0; Channel::COUNT]; STATES],
            room: [[0; CLASSES]; STATES],
        };
        let mut known = 1;
        let mut state = 0;
        while state < known {
            let mut c = 0;
            while c < Channel::COUNT {
                let wanted = machine.counts[state] + (1 << (4 * c));
                if Self::fits(formats, wanted) {
                    let mut found = 1;
                    while found < known && machine.counts[found] != wanted {
                        found += 1;
                    }
                    if found == known {
                        machine.counts[found] = wanted;
                        known += 1;
                    }
                    machine.next[state][c] = found as u8;
                    machine.room[state][c] = u16::MAX;
                }
                c += 1;
            }
            state += 1;
        }
        machine
    }

    const fn fits(formats: &[Counts], counts: Counts) -> bool {
        let mut f = 0;
        while f < formats.len() {
            let mut c = 0;
            while c < Channel::COUNT && counts >> (4 * c) & 0xf <= formats[f] >> (4 * c) & 0xf {
                c += 1;
            }
            if c == Channel::COUNT {
                return true;
            }
            f += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_fits_every_kind_of_slot_that_the_format_has() {
        for format in FlitFormat::ALL {
            let rules = format.rules();
            for slot in 0..format.slots() as usize {
                let machine = &rules.states[rules.kind[slot] as usize];
                for channel in Channel::ALL {
                    let fits = machine.next[0][channel.index()] != 0;
                    assert_eq!(
                        fits,
                        format.carries(channel),
                        "{format:?} {slot} {channel:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn formats_are_named_as_in_scenarios() {
        let names = ["68B", "256B", "256B-pbr", "256B-latency-optimized"];
        for (format, name) in FlitFormat::ALL.into_iter().zip(names) {
            let value = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(name);
            assert_eq!(FlitFormat::deserialize(value), Ok(format));
        }
    }

    #[test]
    fn a_slot_of_a_68_byte_flit_mixes_only_what_a_format_mixes() {
        let g = &B68.states[1];
        let step = |state: u8, channel: Channel| g.next[state as usize][channel.index()];
        let drs = step(0, Channel::S2mDrs);
        let drs_ndr = step(drs, Channel::S2mNdr);
        let drs_2ndr = step(drs_ndr, Channel::S2mNdr);
        assert!(drs_2ndr != 0 && step(drs_2ndr, Channel::S2mDrs) == 0);
        assert!(
            step(drs_ndr, Channel::S2mDrs) == 0,
            "G6 has no room for an NDR"
        );
        assert!(step(drs, Channel::M2sReq) == 0);
    }
}
