//! Receive buffers and the credits for them, counted in messages by class and virtual channel.

use cxlab_engine::save_state;
use cxlab_protocol::Channel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parcel::Credits;

/// Most virtual channels of a link.
pub const MAX_VCS: usize = 8;
/// Number of receive buffers of a link direction: one for each message class and virtual channel, with
/// sixteen classes reserved for each channel.
pub const BUFFERS: usize = CLASSES * MAX_VCS;
/// Number of buffers that have a bit in one mask.
const MASKED: usize = BUFFERS / 2;
/// Number of classes reserved for each virtual channel.
const CLASSES: usize = 2 * ROW;
/// Number of classes whose buffers are adjacent. The first row has all classes of CXL.mem, and the second
/// most of CXL.cache, so a link without CXL.cache touches one row per virtual channel.
const ROW: usize = 8;
/// Number of buffers stored in the port itself: two rows. Most fabrics that need several
/// virtual channels need two.
const NEAR: usize = NEAR_VCS * ROW;
const NEAR_VCS: usize = 2;

/// The number of a receive buffer. The classes 0 to 7 of all virtual channels come first,
/// then the other classes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub struct BufferId(pub u8);

/// By class: number of its buffer on virtual channel 0.
const FIRST: [u8; Channel::COUNT] = {
    let mut first = [0; Channel::COUNT];
    let mut class = 0;
    while class < Channel::COUNT {
        first[class] = (class / ROW * ROW * MAX_VCS + class % ROW) as u8;
        class += 1;
    }
    first
};

impl BufferId {
    /// The buffer of a message class on a virtual channel.
    #[inline]
    pub fn of(channel: Channel, vc: u8) -> BufferId {
        BufferId(FIRST[channel as usize] + vc * ROW as u8)
    }

    /// Number of the buffer's message class.
    #[inline]
    fn class(self) -> usize {
        let second = self.index() / (ROW * MAX_VCS);
        second * ROW + self.index() % ROW
    }

    /// Index in a table of [`BUFFERS`] entries. The remainder tells the compiler that
    /// the index is in range.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize % BUFFERS
    }

    /// Index in a table for a link of `vcs` virtual channels, with [`BufferId::table_len`] entries.
    #[inline]
    pub fn table_index(self, vcs: u8) -> usize {
        match self.index() {
            first if first < ROW * MAX_VCS => first,
            second => second - ROW * (MAX_VCS - usize::from(vcs)),
        }
    }

    /// Number of entries of a table indexed by [`BufferId::table_index`].
    #[inline]
    pub fn table_len(vcs: u8) -> usize {
        CLASSES * usize::from(vcs)
    }
}

/// Most credits of a class. The registers that hold the credits a port advertises have ten bits per
/// class (CXL 3.2, section 8.2.4.19.3; likewise in the headers of EDK II for CXL 1.1). The encodings
/// of returns set no lower limit: a link begins by returning all credits, in as many flits as that
/// takes (section 4.3.6.1). A 256 B flit returns up to 16 credits of a class (table 4-19), and a 68 B
/// flit up to 64 (table 4-4).
pub const MOST_CREDITS: u16 = 1023;
/// Fewest credits of a class for which the scenario gives no number (*assumed*): a controller is not built
/// smaller for a link that is narrow, slow or short.
pub(crate) const LEAST_DEFAULT: u16 = 128;
/// Most messages in a window: the largest count of a [`BufferState`].
pub(crate) const MOST_IN_WINDOW: u16 = (1 << WIDTH) - 1;

macro_rules! credit_table {
    ($($(#[doc = $doc:literal])* $name:ident: $class:ident,)*) => {
        /// How many messages of each class the link layer of a receiver buffers, on each virtual channel.
        /// One credit is one message, whatever data it carries (CXL 3.1, section 4.2.2).
        ///
        /// Default of each class: a third more than the link sends in the round trip of a credit, at least 128
        /// and at most 1023. The third covers credits that wait at the receiver for their return.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
        #[serde(deny_unknown_fields, default)]
        pub struct CreditTable {
            $($(#[doc = $doc])* #[schemars(range(min = 1, max = 1023))] pub $name: Option<u16>,)*
        }

        impl CreditTable {
            /// The scenario's number of credits for a message class, if any.
            pub fn of(&self, channel: Channel) -> Option<u16> {
                match channel {
                    $(Channel::$class => self.$name,)*
                }
            }
        }
    };
}

credit_table! {
    /// Requests (M2S Req). 1 to 1023.
    m2s_req: M2sReq,
    /// Requests with data (M2S RwD). 1 to 1023.
    m2s_rwd: M2sRwd,
    /// Responses without data (S2M NDR). 1 to 1023.
    s2m_ndr: S2mNdr,
    /// Responses with data (S2M DRS). 1 to 1023.
    s2m_drs: S2mDrs,
    /// Back-invalidation snoops (S2M BISnp). 1 to 1023.
    s2m_bisnp: S2mBisnp,
    /// Back-invalidation responses (M2S BIRsp). 1 to 1023.
    m2s_birsp: M2sBirsp,
    /// Requests of a device's cache (D2H Req). 1 to 1023.
    d2h_req: D2hReq,
    /// A device's responses to snoops (D2H Rsp). 1 to 1023.
    d2h_rsp: D2hRsp,
    /// A device's data (D2H Data). 1 to 1023.
    d2h_data: D2hData,
    /// Snoops of a device's cache (H2D Req). 1 to 1023.
    h2d_req: H2dReq,
    /// Responses to a device's requests (H2D Rsp). 1 to 1023.
    h2d_rsp: H2dRsp,
    /// Data for a device's requests (H2D Data). 1 to 1023.
    h2d_data: H2dData,
    /// Posted requests of CXL.io. 1 to 1023.
    io_posted: IoPosted,
    /// Non-posted requests of CXL.io. 1 to 1023.
    io_non_posted: IoNonPosted,
    /// Completions of CXL.io. 1 to 1023.
    io_completion: IoCompletion,
}

/// By message class: most messages between a transmitter and the component at the far end, with those whose
/// credit is on its way back ([`LinkParams::windows`](crate::LinkParams::windows)).
pub type CreditWindows = [u16; Channel::COUNT];

/// How a link encodes credit returns: the numbers of credits of a class that one field can express.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CreditReturns {
    /// Packets, and CXL.io classes: any number, for each class separately.
    Any,
    /// 68 B flits: 1, 2, 4, 8, 16, 32 or 64 in each of three fields (CXL 3.1, table 4-4).
    Flit68,
    /// 256 B flits: 1, 4, 8, 12 or 16 in each of three fields (CXL 3.1, table 4-19).
    Flit256,
}

impl CreditReturns {
    /// Most credits out of `waiting` that one field can return.
    #[inline]
    fn of(self, waiting: u16) -> u8 {
        match self {
            CreditReturns::Any => waiting.min(u16::from(u8::MAX)) as u8,
            CreditReturns::Flit68 => match waiting {
                0 => 0,
                some => 1 << some.min(64).ilog2(),
            },
            CreditReturns::Flit256 => match waiting {
                0 => 0,
                1..4 => 1,
                some => 4 * (some.min(16) / 4) as u8,
            },
        }
    }

    /// Number of freed buffers of a window from which their credits ride on the next message: a sixteenth
    /// of the window (*assumed*), at least one.
    pub(crate) fn piggyback_threshold(self, window: u16) -> u16 {
        self.gathered(window / 16)
    }

    /// Number of freed buffers of a window from which their credits go back without a message: a quarter of
    /// the window (*assumed*), at least one.
    pub(crate) fn standalone_threshold(self, window: u16) -> u16 {
        self.gathered(window / 4)
    }

    /// Rounds down to a power of two that a field can express: at most 16 in flits of any format, and
    /// at most 128 in packets.
    fn gathered(self, places: u16) -> u16 {
        match self {
            CreditReturns::Any => 1 << places.clamp(1, 255).ilog2(),
            CreditReturns::Flit68 | CreditReturns::Flit256 => match places {
                0..4 => 1,
                4..8 => 4,
                8..16 => 8,
                16.. => 16,
            },
        }
    }
}

/// By class: the field of a flit that returns its credits. Requests and snoops share one field, data
/// another, responses the third. A flit returns credits of one class among those that share a field. CXL.io
/// has its own flow control.
const FIELDS: [u8; Channel::COUNT] = {
    let mut fields = [0; Channel::COUNT];
    let mut class = 0;
    while class < Channel::COUNT {
        fields[class] = match Channel::ALL[class] {
            Channel::M2sReq | Channel::S2mBisnp | Channel::D2hReq | Channel::H2dReq => REQUESTS,
            Channel::M2sRwd | Channel::S2mDrs | Channel::D2hData | Channel::H2dData => DATA,
            Channel::S2mNdr | Channel::M2sBirsp | Channel::D2hRsp | Channel::H2dRsp => RESPONSES,
            Channel::IoPosted | Channel::IoNonPosted | Channel::IoCompletion => 0,
        };
        class += 1;
    }
    fields
};
const REQUESTS: u8 = 1;
const DATA: u8 = 2;
const RESPONSES: u8 = 4;

/// Bits of a count in a [`BufferState`].
const WIDTH: u32 = 12;

/// Flow control of one buffer number: the credits for the buffer at the far end, to which the port sends,
/// and the freed places of the port's own buffer, in which it receives. The state has four bytes, because
/// every message touches one. From the lowest bit on: twelve bits for the credits at hand, twelve for
/// credits of freed places that have not gone back, and four each for the logarithms of
/// [`CreditReturns::piggyback_threshold`] and [`CreditReturns::standalone_threshold`].
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub(crate) struct BufferState(u32);

impl BufferState {
    const MASK: u32 = (1 << WIDTH) - 1;
    const ONE_WAITING: u32 = 1 << WIDTH;
    const RIDES: u32 = 2 * WIDTH;
    const ALONE: u32 = 2 * WIDTH + 4;

    fn new(window: u16, returns: CreditReturns) -> BufferState {
        assert!(window <= MOST_IN_WINDOW, "a window of {window}");
        let (rides, alone) = (
            returns.piggyback_threshold(window),
            returns.standalone_threshold(window),
        );
        BufferState(u32::from(window) | rides.ilog2() << Self::RIDES | alone.ilog2() << Self::ALONE)
    }

    /// Credits at hand for the buffer at the far end.
    #[inline(always)]
    fn credits(self) -> u16 {
        (self.0 & Self::MASK) as u16
    }

    /// Credits of freed places that have not gone back to the far end.
    #[inline(always)]
    fn waiting(self) -> u16 {
        (self.0 >> WIDTH & Self::MASK) as u16
    }

    /// Sets the credits at hand and those not yet returned; the thresholds stay.
    fn set(&mut self, credits: u16, waiting: u16) {
        let thresholds = self.0 >> Self::RIDES << Self::RIDES;
        self.0 = thresholds | u32::from(waiting) << WIDTH | u32::from(credits);
    }

    /// Spends a credit on a message to this buffer. One must be at hand.
    #[inline(always)]
    pub(crate) fn spend(&mut self) {
        self.0 -= 1;
    }

    /// Frees a place. Returns whether enough credits wait to ride on a message, and
    /// enough to go back alone.
    #[inline(always)]
    fn free(&mut self) -> (bool, bool) {
        self.0 += Self::ONE_WAITING;
        let waiting = u32::from(self.waiting());
        (
            self.may_piggyback(),
            waiting >> (self.0 >> Self::ALONE) != 0,
        )
    }

    /// Takes as many waiting credits as one field of a return can express.
    #[inline(always)]
    fn take(&mut self, returns: CreditReturns) -> u8 {
        let taken = returns.of(self.waiting());
        self.0 -= u32::from(taken) << WIDTH;
        taken
    }

    /// Whether enough credits wait to ride on a message.
    #[inline]
    fn may_piggyback(self) -> bool {
        u32::from(self.waiting()) >> (self.0 >> Self::RIDES & 15) != 0
    }
}

/// The flow control of a port, in both directions. The buffers of a virtual channel are adjacent.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct FlowControl {
    /// Buffers with enough credits waiting to ride on a message: `mask` for those below [`MASKED`],
    /// `rest_mask` for the others.
    mask: u64,
    rest_mask: u64,
    /// Number of messages sent whose credit has not come back.
    unreturned: u32,
    /// Buffers of virtual channels 0 and 1 (`near`), and of the others (`more`), first row. Few links have
    /// others, and the state that every message touches should be adjacent.
    near: [BufferState; NEAR],
    more: Vec<[BufferState; ROW]>,
    /// The second row of each virtual channel, which only CXL.cache and CXL.io use.
    rest: Vec<[BufferState; ROW]>,
    /// By message class: the window of each virtual channel. Boxed apart, because no message reads it.
    windows: Box<CreditWindows>,
    /// By message class, from the lowest bit on: whether a message has waited for a credit
    /// since measurement began.
    stalled: u16,
    returns: CreditReturns,
    /// Number of the last flit that returned credits, and its fields that did.
    returning: (u64, u8),
}

save_state!(FlowControl {
    values: mask, unreturned, returning, near, rest_mask, stalled;
    sized: more, rest;
    built: returns, windows;
});

impl FlowControl {
    /// Creates the flow control of a port. Both ends of a link have the same windows,
    /// on each virtual channel.
    pub(crate) fn new(windows: &CreditWindows, vcs: u8, returns: CreditReturns) -> Self {
        let vcs = usize::from(vcs).min(MAX_VCS);
        let row = |first: usize| {
            std::array::from_fn(|class| match windows.get(first + class) {
                Some(window) => BufferState::new(*window, returns),
                None => BufferState::default(),
            })
        };
        let (first, second): ([_; ROW], _) = (row(0), row(ROW));
        FlowControl {
            mask: 0,
            unreturned: 0,
            returning: (0, 0),
            returns,
            near: std::array::from_fn(|buffer| match buffer / ROW < vcs {
                true => first[buffer % ROW],
                false => BufferState::default(),
            }),
            more: vec![first; vcs.saturating_sub(NEAR_VCS)],
            rest_mask: 0,
            rest: vec![second; vcs],
            windows: Box::new(*windows),
            stalled: 0,
        }
    }

    /// The state of a buffer; `None` if the link does not have the buffer.
    #[inline(always)]
    fn find(&mut self, buffer: BufferId) -> Option<&mut BufferState> {
        match buffer.index() {
            near @ 0..NEAR => Some(&mut self.near[near]),
            number => self.find_far(number),
        }
    }

    /// The state of a buffer that is not among the `near` ones.
    #[inline(never)]
    fn find_far(&mut self, number: usize) -> Option<&mut BufferState> {
        let (row, class) = (number / ROW, number % ROW);
        let row = match row {
            0..MAX_VCS => self.more.get_mut(row - NEAR_VCS),
            _ => self.rest.get_mut(row - MAX_VCS),
        };
        row.map(|row| &mut row[class])
    }

    /// The state of a buffer that the link must have.
    #[inline(always)]
    fn state(&mut self, buffer: BufferId) -> &mut BufferState {
        match self.find(buffer) {
            Some(state) => state,
            None => unreachable!("the link has no such buffer"),
        }
    }

    /// A copy of the state of a buffer, without credits if the link does not have the buffer.
    #[inline]
    fn get(&self, buffer: BufferId) -> BufferState {
        let (row, class) = (buffer.index() / ROW, buffer.index() % ROW);
        let row = match row {
            0..NEAR_VCS => return self.near[buffer.index()],
            NEAR_VCS..MAX_VCS => self.more.get(row - NEAR_VCS),
            _ => self.rest.get(row - MAX_VCS),
        };
        row.map_or_else(BufferState::default, |row| row[class])
    }

    /// Marks that credits of this buffer may ride on a message.
    #[inline]
    fn mark(&mut self, buffer: u8) {
        if usize::from(buffer) < MASKED {
            self.mask |= 1 << buffer;
        } else {
            self.rest_mask |= 1 << (usize::from(buffer) - MASKED);
        }
    }

    /// Clears the mark that credits of this buffer may ride on a message.
    #[inline]
    fn unmark(&mut self, buffer: u8) {
        if usize::from(buffer) < MASKED {
            self.mask &= !(1 << buffer);
        } else {
            self.rest_mask &= !(1 << (usize::from(buffer) - MASKED));
        }
    }

    /// Credits at hand for a buffer at the far end.
    #[inline]
    pub(crate) fn credits(&self, buffer: BufferId) -> u16 {
        self.get(buffer).credits()
    }

    /// Number of sent messages whose credits have not come back.
    #[inline]
    pub(crate) fn unreturned(&self) -> u32 {
        self.unreturned
    }

    /// The state of a buffer of the link, if a credit for it is at hand.
    #[inline(always)]
    pub(crate) fn with_credit(&mut self, buffer: BufferId) -> Option<&mut BufferState> {
        self.find(buffer).filter(|state| state.credits() > 0)
    }

    /// Counts a sent message.
    #[inline(always)]
    pub(crate) fn count_sent(&mut self) {
        self.unreturned += 1;
    }

    /// Adds returned credits to those at hand.
    ///
    /// # Panics
    /// If more credits come back than were spent: credits are conserved. Release builds check the sum of
    /// all buffers of the port, and debug builds each buffer as well.
    #[inline]
    pub(crate) fn credit(&mut self, buffer: BufferId, count: u8) {
        let returned = u32::from(count);
        assert!(returned <= self.unreturned, "more credits than were used");
        debug_assert!(
            u16::from(count) <= self.windows[buffer.class()] - self.get(buffer).credits(),
            "more credits than buffers"
        );
        self.state(buffer).0 += returned;
        self.unreturned -= returned;
    }

    /// Frees a place in `buffer`. Returns true if so many credits wait that they should go back without
    /// waiting for a message.
    #[inline(always)]
    pub(crate) fn free(&mut self, buffer: BufferId) -> bool {
        let (rides, alone) = self.state(buffer).free();
        // Branch prediction cannot tell how many credits wait, so the mark is set without a branch.
        let ride = u64::from(rides);
        match usize::from(buffer.0) {
            near @ 0..MASKED => self.mask |= ride << near,
            far => self.rest_mask |= ride << (far - MASKED),
        }
        alone
    }

    /// Takes the credits of `first` for a flit of their own, and those of other buffers whose fields are
    /// free. The credits of a buffer that reached its threshold must not wait for a message. The far end
    /// may have no credit left to send one, so no later event would return them.
    pub(crate) fn take_first(&mut self, first: BufferId) -> Credits {
        let mut credits = Credits::NONE;
        self.returning = (u64::MAX, 0);
        self.take_of(first, &mut credits.entries[0]);
        self.take_marked(&mut credits.entries[1..]);
        credits
    }

    /// Takes credits that ride in the flit of number `flit`, in the fields that have not returned any yet.
    /// In packet transmission a message carries the credits of up to four buffers.
    #[inline(always)]
    pub(crate) fn take(&mut self, flit: u64) -> Credits {
        let mut credits = Credits::NONE;
        if self.mask | self.rest_mask != 0 {
            if self.returning.0 != flit || self.returns == CreditReturns::Any {
                self.returning = (flit, 0);
            }
            self.take_marked(&mut credits.entries);
        }
        credits
    }

    /// Takes waiting credits, many or few, for a flit of their own.
    pub(crate) fn take_all(&mut self) -> Credits {
        let waiting = self.buffers().filter(|(_, state, _)| state.waiting() > 0);
        let waiting: Vec<u8> = waiting.map(|(buffer, ..)| buffer.0).collect();
        waiting.into_iter().for_each(|buffer| self.mark(buffer));
        self.returning = (u64::MAX, 0);
        self.take(u64::MAX)
    }

    /// Takes credits of the marked buffers whose fields are free, into `entries`, until those are full.
    #[inline(never)]
    fn take_marked(&mut self, entries: &mut [(u8, u8)]) {
        let mut entries = entries.iter_mut();
        let mut free_entry = entries.next();
        let (mut mask, mut rest) = (self.mask, self.rest_mask);
        while let Some(entry) = free_entry.take() {
            let (marked, first) = match (mask, rest) {
                (0, 0) => break,
                (0, _) => (&mut rest, MASKED as u8),
                _ => (&mut mask, 0),
            };
            let buffer = BufferId(first + marked.trailing_zeros() as u8);
            *marked &= *marked - 1;
            free_entry = match self.take_of(buffer, entry) {
                true => entries.next(),
                false => Some(entry),
            };
        }
    }

    /// Takes credits of a buffer if the field of its class is still free in the current flit. Returns true
    /// if the field was free.
    #[inline]
    fn take_of(&mut self, buffer: BufferId, entry: &mut (u8, u8)) -> bool {
        let (field, returns) = match FIELDS[buffer.class() % Channel::COUNT] {
            0 => (0, CreditReturns::Any),
            _ if self.returns == CreditReturns::Any => (0, CreditReturns::Any),
            field => (field, self.returns),
        };
        if self.returning.1 & field != 0 {
            return false;
        }
        self.returning.1 |= field;
        let state = self.state(buffer);
        *entry = (buffer.0, state.take(returns));
        match state.may_piggyback() {
            true => self.mark(buffer.0),
            false => self.unmark(buffer.0),
        }
        true
    }

    /// The buffers of the link, with number, state and window.
    fn buffers(&mut self) -> impl Iterator<Item = (BufferId, &mut BufferState, u16)> {
        let more = self.more.iter_mut().flatten();
        let vcs = self.rest.len();
        let near = self.near.iter_mut().take(vcs * ROW).chain(more).zip(0..);
        let rest = self.rest.iter_mut().flatten().zip(BUFFERS as u8 / 2..);
        let windows = *self.windows;
        near.chain(rest).filter_map(move |(state, number)| {
            let buffer = BufferId(number);
            let window = windows.get(buffer.class()).copied()?;
            (window > 0).then_some((buffer, state, window))
        })
    }

    /// Fails the link: all credits are lost.
    pub(crate) fn fail(&mut self) {
        let mut unreturned = 0;
        for (_, state, window) in self.buffers() {
            state.set(0, 0);
            unreturned += u32::from(window);
        }
        self.unreturned = unreturned;
        (self.mask, self.rest_mask) = (0, 0);
    }

    /// Restores the link after training: all places go back as credits, except the `occupied` ones that
    /// earlier messages still take.
    pub(crate) fn restore(&mut self, occupied: impl Fn(BufferId) -> u16) {
        for (buffer, state, window) in self.buffers() {
            state.set(state.credits(), window - occupied(buffer));
        }
        (self.mask, self.rest_mask) = (0, 0);
    }

    /// Credits that wait for a message to ride on; for conservation checks.
    pub(crate) fn waiting(&self, buffer: BufferId) -> u16 {
        self.get(buffer).waiting()
    }

    /// Records that a message of a class waits for a credit.
    #[cold]
    pub(crate) fn stall(&mut self, channel: Channel) {
        self.stalled |= 1 << channel as u16;
    }

    /// Whether a message of a class has waited for a credit since measurement began.
    pub(crate) fn has_stalled(&self, channel: Channel) -> bool {
        self.stalled >> channel as u16 & 1 != 0
    }

    /// Resets the statistics at the start of measurement.
    pub(crate) fn reset(&mut self) {
        self.stalled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_at_its_threshold_goes_first_and_no_credit_is_lost() {
        let mut returns = FlowControl::new(&[4; Channel::COUNT], 3, CreditReturns::Any);
        // The threshold is one credit: every buffer has one waiting, and the last buffer returns first.
        for vc in 0..3 {
            for channel in Channel::ALL {
                assert!(returns.free(BufferId::of(channel, vc)));
            }
        }
        let last = BufferId::of(Channel::H2dData, 2);
        let credits = returns.take_first(last);
        assert_eq!(credits.entries, [(last.0, 1), (0, 1), (1, 1), (2, 1)]);
        let mut seen = 4;
        while returns.mask | returns.rest_mask != 0 {
            let entries = returns.take(0).entries.into_iter();
            seen += entries.map(|(_, count)| u32::from(count)).sum::<u32>();
        }
        assert_eq!(seen, 3 * Channel::COUNT as u32);
        returns.free(BufferId(7));
        let entries = returns.take_first(BufferId(7)).entries;
        assert_eq!(entries[..2], [(7, 1), (0, 0)]);
    }

    #[test]
    fn buffers_of_a_link_have_indices_of_their_own_and_all_indices_are_small() {
        for vcs in 1..=MAX_VCS as u8 {
            let all = (0..vcs).flat_map(|vc| Channel::ALL.map(|class| BufferId::of(class, vc)));
            let mut indices: Vec<usize> = all.map(|buffer| buffer.table_index(vcs)).collect();
            let entries = BufferId::table_len(vcs);
            assert!(indices.iter().all(|index| *index < entries));
            indices.sort_unstable();
            indices.dedup();
            assert_eq!(indices.len(), Channel::COUNT * usize::from(vcs));
        }
    }
}
