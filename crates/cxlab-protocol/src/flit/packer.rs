//! The packer: which slot a message's header takes, and which flit has its last byte.

use serde::{Deserialize, Serialize};

use crate::opcode::Channel;

use super::format::{
    CLASSES, Counts, FlitFormat, MAX_REMAINING, Rules, SLOTS, WINDOWS, count_of, one,
};

/// Data slots of a 64-byte line.
const DATA_SLOTS_PER_LINE: u32 = 4;
/// The slot after a line that holds its 64 byte enables: a data chunk of its own in 68-byte flits
/// (CXL 3.1, section 3.2.3.3.1), the trailer in 256-byte flits (section 4.3.3.2).
const TRAILER_SLOTS: u32 = 1;
/// Data chunks of a flit without a header: four 16-byte chunks (CXL 3.1, section 4.2.2).
const ALL_DATA_CHUNKS: u32 = 4;

/// Position of the last byte of a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlitPosition {
    /// The flit, counted from the open flit (0), flits without a header included.
    pub last_flit: u32,
    /// The half of that flit: 0 or 1 in latency-optimised flits, else 0.
    pub last_half: u8,
}

/// Totals of a packer. Efficiency is `payload_bytes / (flits * FlitFormat::bytes)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, Debug)]
pub struct FlitCounters {
    /// Flits transmitted, those without a header included.
    pub flits: u64,
    /// Slots that hold message headers.
    pub header_slots: u64,
    /// Slots that hold data.
    pub data_slots: u64,
    /// Bytes of lines in the messages placed: 64 each.
    pub payload_bytes: u64,
    /// Number of messages placed.
    pub messages: u64,
}

/// What a link transmitter puts into flits, without time.
///
/// One flit is *open*: it has not begun transmission and takes messages. [`FlitPacker::place`]
/// offers it a message; [`FlitPacker::close`] sends it.
///
/// ```
/// use cxlab_protocol::Channel;
/// use cxlab_protocol::flit::{FlitFormat, FlitPacker};
///
/// let mut packer = FlitPacker::new(FlitFormat::B68);
/// // The header in slot 0, three quarters of the line beside it, the last in the next flit.
/// let placement = packer.place(Channel::S2mDrs).expect("an empty flit has room");
/// assert_eq!(placement.last_flit, 1);
/// assert_eq!(packer.close(), 1);
/// assert!(!packer.is_empty());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
pub struct FlitPacker {
    counters: FlitCounters,
    /// By window of [`Rules::windows`]: the messages of each class.
    windows: [Counts; WINDOWS],
    /// By class: the slots of windows that already hold the maximum number of messages of the class, as a mask.
    full: [u16; Channel::COUNT],
    /// Number of data slots that are reserved beyond the open flit, in the next flits.
    pending: u32,
    /// Number of slots of the open flit that hold headers.
    open_headers: u32,
    /// Number of slots of the open flit that hold data.
    open_data: u32,
    /// Empty slots of the open flit, as a mask.
    free: u16,
    /// Slots of the open flit that hold data, as a mask.
    data: u16,
    /// By class: slots of the open flit that hold headers and have room for one more, as a mask.
    room: [u16; CLASSES],
    /// State of each slot in the state machine of its kind.
    state: [u8; SLOTS],
    /// The first slot that a data header may take. Data follow their header directly, so neither a
    /// header in a data slot's place nor a later data header may be between them.
    order: u8,
    /// The slot that holds the flit's last data headers, once there is one.
    data_header_slot: Option<u8>,
    /// Number of data slots of the headers in that slot.
    of_headers: u32,
    format: FlitFormat,
}

impl FlitPacker {
    /// A packer whose open flit is empty.
    pub fn new(format: FlitFormat) -> Self {
        FlitPacker {
            counters: FlitCounters::default(),
            windows: [0; WINDOWS],
            full: format.rules().never,
            pending: 0,
            open_headers: 0,
            open_data: 0,
            free: format.rules().all,
            data: 0,
            room: [0; CLASSES],
            state: [0; SLOTS],
            order: 0,
            data_header_slot: None,
            of_headers: 0,
            format,
        }
    }

    /// Format of the packer's flits.
    pub fn format(&self) -> FlitFormat {
        self.format
    }

    /// Totals since the packer was created.
    pub fn counters(&self) -> &FlitCounters {
        &self.counters
    }

    /// Whether the open flit is empty: it has neither a header nor data rolled over from earlier flits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.free == self.format.rules().all
    }

    /// Whether the packer is as it was created, except for its counters: the open flit is empty and
    /// the last flit does not limit it.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.is_empty() && self.pending == 0 && self.windows[0] == 0
    }

    /// A packer with the same open flit and all counters at zero.
    pub(super) fn without_counters(&self) -> FlitPacker {
        FlitPacker {
            counters: FlitCounters::default(),
            open_headers: 0,
            open_data: 0,
            ..*self
        }
    }

    /// Tries to place a message's header in the open flit and reserves its data slots, after those
    /// of earlier messages. Returns `None` if the open flit has no slot for the header. A class
    /// that the format does not carry ([`FlitFormat::carries`]) never gets a slot.
    ///
    /// Slots that already hold headers are filled first, then the lowest free slot is taken ("tightly
    /// packed", CXL 3.1, section 4.2.5). The placement is final: no later message changes it.
    #[inline]
    pub fn place(&mut self, channel: Channel) -> Option<FlitPosition> {
        match channel.carries_data() {
            true => self.place_slots(channel, DATA_SLOTS_PER_LINE),
            false => self.place_slots(channel, 0),
        }
    }

    /// As [`FlitPacker::place`], for a message with byte enables after its line. In 68-byte flits
    /// the message shares its flit with no other data header: such slots are for whole lines (CXL
    /// 3.1, section 4.2.5).
    ///
    /// # Panics
    /// If the class has no byte enables. Only M2S RwD and D2H Data have them.
    pub fn place_with_trailer(&mut self, channel: Channel) -> Option<FlitPosition> {
        assert!(
            matches!(channel, Channel::M2sRwd | Channel::D2hData),
            "{channel:?} has no byte enables"
        );
        self.place_slots(channel, DATA_SLOTS_PER_LINE + TRAILER_SLOTS)
    }

    /// Places a message with `slots` data slots.
    #[inline]
    fn place_slots(&mut self, channel: Channel, slots: u32) -> Option<FlitPosition> {
        let rules = self.format.rules();
        let slot = self
            .first_legal(rules, self.room[channel.index()], channel, slots)
            .or_else(|| self.first_legal(rules, self.free, channel, slots))?;
        self.put_header(rules, slot, channel, slots);
        self.counters.messages += 1;
        if slots > 0 {
            Some(self.put_data(rules, slot, slots))
        } else {
            Some(in_flit(rules, 0, slot))
        }
    }

    /// Begins transmission of the open flit. Returns the number of flits sent before the next flit
    /// that can take a header, which becomes the open flit. The number is 1, and in 68-byte flits one
    /// more for every four data slots that remain, because these must follow in flits without headers.
    #[inline]
    pub fn close(&mut self) -> u32 {
        let rules = self.format.rules();
        let all_data = if rules.all_data_flits {
            self.pending / ALL_DATA_CHUNKS
        } else {
            0
        };
        self.pending -= all_data * ALL_DATA_CHUNKS;
        self.counters.flits += u64::from(1 + all_data);
        self.counters.header_slots += u64::from(std::mem::take(&mut self.open_headers));
        self.counters.data_slots +=
            u64::from(std::mem::take(&mut self.open_data) + all_data * ALL_DATA_CHUNKS);
        let carried = self.windows[WINDOWS - 1];
        self.windows = [carried, 0, 0, 0, 0];
        self.full = rules.never;
        let mut counts = carried;
        while counts != 0 {
            let class = counts.trailing_zeros() / 4;
            let count = |counts: Counts| counts >> (4 * class) & 0xf;
            if count(counts) >= count(rules.max_messages) {
                self.full[class as usize] |= rules.window_slots[0];
            }
            counts &= !(0xf << (4 * class));
        }
        self.free = rules.all;
        self.data = 0;
        self.room = [0; CLASSES];
        self.state = [0; SLOTS];
        self.order = 0;
        self.data_header_slot = None;
        self.of_headers = 0;
        if self.pending > 0 {
            self.pending -= self.fill(rules.data, self.pending);
        }
        1 + all_data
    }

    /// The lowest of `slots` that can take one more message of the class, with `data` data slots.
    #[inline]
    fn first_legal(&self, rules: &Rules, slots: u16, channel: Channel, data: u32) -> Option<u8> {
        let mut slots = slots & !self.full[channel.index()];
        if data > 0 {
            slots &= u16::MAX << self.order;
            if rules.one_data_header_slot
                && let Some(taken) = self.data_header_slot
            {
                let whole = (data | self.of_headers).is_multiple_of(DATA_SLOTS_PER_LINE);
                slots &= if whole { 1 << taken } else { 0 };
            }
            // A limited slot is the first of its half, so few slots are examined.
            while slots & slots.wrapping_neg() & rules.limited != 0 {
                let slot = slots.trailing_zeros() as u8;
                if self.remaining_at(slot) <= MAX_REMAINING {
                    break;
                }
                slots &= slots - 1;
            }
        }
        (slots != 0).then(|| slots.trailing_zeros() as u8)
    }

    /// Number of data slots still to be sent when `slot` is sent, except for those of its own headers.
    fn remaining_at(&self, slot: u8) -> u32 {
        let own = match self.data_header_slot == Some(slot) {
            true => self.of_headers,
            false => 0,
        };
        let later = (self.data & u16::MAX << slot).count_ones();
        later + self.pending - own
    }

    #[inline]
    fn put_header(&mut self, rules: &Rules, slot: u8, channel: Channel, data: u32) {
        let bit = 1u16 << slot;
        let machine = &rules.states[rules.kind[slot as usize] as usize];
        let state = machine.next[self.state[slot as usize] as usize][channel.index()];
        assert!(state != 0, "no slot format for {channel:?} in slot {slot}");
        if self.free & bit != 0 {
            self.open_headers += 1;
        }
        self.state[slot as usize] = state;
        self.free &= !bit;
        let more = &machine.room[state as usize];
        for (room, more) in self.room.iter_mut().zip(more) {
            *room = *room & !bit | more & bit;
        }
        let max = count_of(rules.max_messages, channel);
        let mut windows = rules.windows[slot as usize];
        while windows != 0 {
            let window = windows.trailing_zeros() as usize;
            self.windows[window] += one(channel);
            if count_of(self.windows[window], channel) >= max {
                self.full[channel.index()] |= rules.window_slots[window];
            }
            windows &= windows - 1;
        }
        if data > 0 {
            if self.data_header_slot.replace(slot) != Some(slot) {
                self.of_headers = 0;
            }
            self.of_headers += data;
        }
        if data > 0 || rules.data & bit != 0 {
            self.order = self.order.max(slot);
        }
    }

    /// Reserves `slots` data slots for a line whose header is in `slot`.
    #[inline]
    fn put_data(&mut self, rules: &Rules, slot: u8, slots: u32) -> FlitPosition {
        self.counters.payload_bytes += cxlab_engine::units::LINE_BYTES;
        let candidates = rules.data & self.free & u16::MAX << slot;
        assert!(
            self.pending == 0 || candidates == 0,
            "data would overtake earlier data"
        );
        let here = self.fill(candidates, slots);
        self.pending += slots - here;
        if self.pending == 0 {
            let last = self.data.ilog2() as u8;
            return in_flit(rules, 0, last);
        }
        if rules.all_data_flits {
            // Four chunks per flit. The last one to three chunks share a flit with the next header.
            return FlitPosition {
                last_flit: self.pending.div_ceil(ALL_DATA_CHUNKS),
                last_half: 0,
            };
        }
        let (mut last_flit, mut rest) = (1, self.pending);
        while rest > rules.data_per_flit {
            rest -= rules.data_per_flit;
            last_flit += 1;
        }
        let mut slots = rules.data;
        for _ in 1..rest {
            slots &= slots - 1;
        }
        in_flit(rules, last_flit, slots.trailing_zeros() as u8)
    }

    /// Marks the lowest `wanted` of `slots` as data and returns how many it marked.
    #[inline]
    fn fill(&mut self, mut slots: u16, wanted: u32) -> u32 {
        let mut filled = 0;
        while filled < wanted && slots != 0 {
            let bit = slots & slots.wrapping_neg();
            self.data |= bit;
            self.free &= !bit;
            slots &= !bit;
            filled += 1;
        }
        self.open_data += filled;
        filled
    }
}

#[inline]
fn in_flit(rules: &Rules, last_flit: u32, slot: u8) -> FlitPosition {
    FlitPosition {
        last_flit,
        last_half: (rules.second_half >> slot & 1) as u8,
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn placed(packer: &mut FlitPacker, channel: Channel) -> (u32, u8) {
        let placement = packer.place(channel).expect("there is room");
        (placement.last_flit, placement.last_half)
    }

    #[test]
    fn four_data_slots_that_remain_travel_in_a_flit_without_header() {
        let mut packer = FlitPacker::new(FlitFormat::B68);
        assert_eq!(placed(&mut packer, Channel::S2mDrs), (1, 0));
        assert_eq!(placed(&mut packer, Channel::S2mDrs), (2, 0));
        assert_eq!(
            packer.place(Channel::S2mDrs),
            None,
            "H5 has two DRS and MDH are alone"
        );
        assert_eq!(
            packer.close(),
            2,
            "8 chunks: 3 beside the headers, 4 alone, 1 rolls over"
        );
        assert!(!packer.is_empty());
        assert_eq!(packer.close(), 1);
        assert!(packer.is_empty());
        assert_eq!(packer.counters().data_slots, 8);
    }

    #[test]
    fn a_response_shares_the_header_slot_of_data() {
        let mut packer = FlitPacker::new(FlitFormat::B68);
        assert_eq!(placed(&mut packer, Channel::S2mDrs), (1, 0));
        assert_eq!(placed(&mut packer, Channel::S2mNdr), (0, 0));
        assert_eq!(
            packer.place(Channel::S2mNdr),
            None,
            "H3 is full and data fill the others"
        );
    }

    #[test]
    fn a_68_byte_flit_takes_two_requests_and_one_write() {
        let mut packer = FlitPacker::new(FlitFormat::B68);
        assert_eq!(placed(&mut packer, Channel::M2sReq), (0, 0));
        assert_eq!(placed(&mut packer, Channel::M2sReq), (0, 0));
        assert_eq!(packer.place(Channel::M2sReq), None);
        assert_eq!(placed(&mut packer, Channel::M2sRwd), (1, 0));
        assert_eq!(packer.place(Channel::M2sRwd), None);
        for class in [Channel::S2mBisnp, Channel::M2sBirsp] {
            assert_eq!(FlitPacker::new(FlitFormat::B68).place(class), None);
        }
    }

    #[test]
    fn requests_are_limited_to_four_in_neighbouring_groups_of_a_256_byte_flit() {
        let mut packer = FlitPacker::new(FlitFormat::B256);
        let count = (0..20)
            .filter(|_| packer.place(Channel::M2sReq).is_some())
            .count();
        assert_eq!(count, 8, "four in slots 0 to 3 and four in slots 8 to 11");
    }

    #[test]
    fn the_last_group_limits_the_first_group_of_the_next_flit() {
        let mut packer = FlitPacker::new(FlitFormat::B256);
        // Two lines in slots 0 to 8 and requests in 9 to 11: three more DRS share slot 12.
        let classes = [
            Channel::S2mDrs,
            Channel::S2mDrs,
            Channel::M2sReq,
            Channel::M2sReq,
        ];
        for class in classes
            .into_iter()
            .chain([Channel::M2sReq])
            .chain([Channel::S2mDrs; 3])
        {
            assert!(packer.place(class).is_some());
        }
        packer.close();
        // Ten rolled-over data slots. In slot 0 a DRS would end in slot 14; but the three DRS in
        // slot 12 leave none for slots 0 to 3, so it starts in slot 11 and ends a flit later.
        assert_eq!(placed(&mut packer, Channel::S2mDrs), (1, 0));
    }

    #[test]
    fn the_first_half_of_a_latency_optimized_flit_ends_before_slot_seven() {
        let mut packer = FlitPacker::new(FlitFormat::B256LatencyOptimized);
        assert_eq!(
            placed(&mut packer, Channel::S2mDrs),
            (0, 0),
            "data in slots 1 to 4"
        );
        assert_eq!(
            placed(&mut packer, Channel::S2mDrs),
            (0, 1),
            "data in slots 5, 6, 7 and 9"
        );
        assert_eq!(placed(&mut packer, Channel::S2mNdr), (0, 1), "slot 8");
    }

    #[test]
    fn back_invalidation_shares_a_slot_with_a_response() {
        let mut packer = FlitPacker::new(FlitFormat::B256);
        assert!(packer.place(Channel::S2mBisnp).is_some());
        assert!(packer.place(Channel::S2mBisnp).is_some());
        assert!(packer.place(Channel::S2mNdr).is_some());
        packer.close();
        assert_eq!(packer.counters().header_slots, 2, "H6 and G6");
    }

    /// Maximum number of messages of a class in a 68-byte flit, stated independently of the packer's tables.
    fn limit_68(channel: Channel) -> usize {
        match channel {
            Channel::M2sReq | Channel::S2mNdr => 2,
            Channel::M2sRwd => 1,
            Channel::S2mDrs => 3,
            Channel::S2mBisnp | Channel::M2sBirsp => 0,
            Channel::D2hRsp | Channel::H2dReq => 2,
            Channel::D2hReq | Channel::D2hData | Channel::H2dRsp | Channel::H2dData => 4,
            Channel::IoPosted | Channel::IoNonPosted | Channel::IoCompletion => 0,
        }
    }

    /// Maximum number in a 256-byte flit: twice the limit of a 128 B group, because a flit is two such groups.
    fn limit_256(channel: Channel) -> usize {
        match channel {
            Channel::M2sReq => 8,
            Channel::M2sRwd => 4,
            Channel::S2mNdr => 12,
            Channel::S2mDrs | Channel::M2sBirsp => 6,
            Channel::S2mBisnp | Channel::H2dReq => 4,
            Channel::D2hReq | Channel::D2hRsp | Channel::D2hData | Channel::H2dData => 8,
            Channel::H2dRsp => 12,
            Channel::IoPosted | Channel::IoNonPosted | Channel::IoCompletion => 0,
        }
    }

    /// The classes that are packed: CXL.io has flits of its own.
    fn packed() -> Vec<Channel> {
        Channel::ALL
            .into_iter()
            .filter(|class| !class.is_io())
            .collect()
    }

    /// Steps of a random run: each offers a message, or closes the flit (`None`).
    fn steps() -> impl Strategy<Value = Vec<Option<Channel>>> {
        let step = prop_oneof![
            8 => proptest::sample::select(packed()).prop_map(Some),
            1 => Just(None),
        ];
        proptest::collection::vec(step, 0..300)
    }

    fn formats() -> impl Strategy<Value = FlitFormat> {
        proptest::sample::select(FlitFormat::ALL.to_vec())
    }

    proptest! {
        #[test]
        fn a_flit_never_holds_more_messages_or_slots_than_it_may(
            format in formats(), steps in steps(),
        ) {
            let mut packer = FlitPacker::new(format);
            let mut here = [0usize; Channel::COUNT];
            for step in steps {
                match step {
                    Some(channel) => {
                        if packer.place(channel).is_some() {
                            here[channel.index()] += 1;
                            let limit = match format {
                                FlitFormat::B68 => limit_68(channel),
                                _ => limit_256(channel),
                            };
                            prop_assert!(here[channel.index()] <= limit);
                        }
                    }
                    None => {
                        let sent = packer.close();
                        prop_assert!(sent >= 1);
                        prop_assert!(sent == 1 || format == FlitFormat::B68);
                        here = [0; Channel::COUNT];
                    }
                }
                prop_assert_eq!(packer.free & packer.data, 0);
                prop_assert_eq!(packer.data & !format.rules().data, 0);
                prop_assert!(packer.pending <= 36, "CXL 3.1, section 4.3.4: at most 36 remain");
            }
        }

        #[test]
        fn every_byte_placed_is_sent_exactly_once(format in formats(), steps in steps()) {
            let mut packer = FlitPacker::new(format);
            for step in steps {
                match step {
                    Some(channel) => drop(packer.place(channel)),
                    None => drop(packer.close()),
                }
            }
            let mut drained = 0;
            while !packer.is_empty() {
                packer.close();
                drained += 1;
                prop_assert!(drained <= 5);
            }
            let counters = packer.counters();
            prop_assert_eq!(counters.data_slots * 16, counters.payload_bytes);
            prop_assert!(counters.header_slots <= counters.messages);
            let slots = counters.flits * u64::from(format.slots());
            prop_assert!(counters.header_slots + counters.data_slots <= slots);
        }

        /// A line ends where `place` said. On the wire, that is when its last data slot is sent, if
        /// nothing else follows the line.
        #[test]
        fn what_is_placed_later_never_moves_an_earlier_end(
            format in formats(), steps in steps(), cut in 0usize..300,
        ) {
            let cut = cut.min(steps.len());
            let mut packer = FlitPacker::new(format);
            let mut lines = 0u64;
            let mut last_end = None;
            let mut flit = 0u64;
            for step in &steps[..cut] {
                match step {
                    Some(channel) => {
                        let placement = packer.place(*channel);
                        if let (Some(placement), true) = (placement, channel.carries_data()) {
                            lines += 1;
                            let end = flit + u64::from(placement.last_flit);
                            prop_assert!(last_end <= Some(end), "data keep the order of headers");
                            last_end = Some(end);
                        }
                    }
                    None => flit += u64::from(packer.close()),
                }
            }
            // The flit after which all chunks of these lines have left.
            let ends = |mut packer: FlitPacker, more: &[Option<Channel>]| {
                let mut flit = flit;
                let mut steps = more.iter();
                loop {
                    let before = packer.counters().data_slots;
                    while let Some(Some(channel)) = steps.next() {
                        packer.place(*channel);
                    }
                    let sent = packer.close();
                    let after = packer.counters().data_slots;
                    if after >= 4 * lines {
                        // Flits without a header carry four chunks each and come last.
                        let alone = u64::from(sent - 1);
                        let beside = after - before - 4 * alone;
                        let missing = (4 * lines).saturating_sub(before + beside);
                        return flit + missing.div_ceil(4);
                    }
                    flit += u64::from(sent);
                }
            };
            if let Some(end) = last_end.filter(|end| *end >= flit) {
                prop_assert_eq!(ends(packer, &[]), end);
                prop_assert_eq!(ends(packer, &steps[cut..]), end);
            }
        }
    }
}
