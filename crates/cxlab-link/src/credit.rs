//! Receive buffers and the credits for them, counted in messages by class and virtual channel.

use cxlab_engine::save_state;
use cxlab_protocol::Channel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parcel::Credits;

/// Virtual channels that a link can have.
pub const MAX_VCS: usize = 8;
/// Numbers of receive buffers of a link direction: one for each message class and virtual channel,
/// sixteen classes reserved for each channel.
pub const BUFFERS: usize = CLASSES * MAX_VCS;
/// So many of them have a bit in a mask.
const MASKED: usize = BUFFERS / 2;
/// Classes that a virtual channel has room for.
const CLASSES: usize = 2 * ROW;
/// Classes whose buffers lie together. The first row has all of CXL.mem, the second most of
/// CXL.cache, so that a link without CXL.cache touches one row a virtual channel.
const ROW: usize = 8;
/// Buffers that lie in the port itself: two rows. Most fabrics that need several virtual channels need two.
const NEAR: usize = NEAR_VCS * ROW;
const NEAR_VCS: usize = 2;

/// The number of a receive buffer: the classes 0 to 7 of all virtual channels come first, then the
/// others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub struct Buffer(pub u8);

/// By class: its buffer on virtual channel 0.
const FIRST: [u8; Channel::COUNT] = {
    let mut first = [0; Channel::COUNT];
    let mut class = 0;
    while class < Channel::COUNT {
        first[class] = (class / ROW * ROW * MAX_VCS + class % ROW) as u8;
        class += 1;
    }
    first
};

impl Buffer {
    /// The buffer of a message class on a virtual channel.
    #[inline]
    pub fn of(channel: Channel, vc: u8) -> Buffer {
        Buffer(FIRST[channel as usize] | vc << 3)
    }

    /// Its place in a table of [`BUFFERS`]: the mask tells the compiler that it is one.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize % BUFFERS
    }

    /// Its place in a table for a link that has only `vcs` virtual channels, of [`Buffer::places`].
    #[inline]
    pub fn place(self, vcs: u8) -> usize {
        let number = self.index();
        if number < ROW * MAX_VCS {
            number
        } else {
            number - ROW * (MAX_VCS - usize::from(vcs))
        }
    }

    /// The size of a table by [`Buffer::place`].
    #[inline]
    pub fn places(vcs: u8) -> usize {
        CLASSES * usize::from(vcs)
    }
}

/// How many messages of each class a receiver buffers, on each virtual channel.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct CreditTable {
    /// Requests (M2S Req). 1 to 255.
    #[schemars(range(min = 1, max = 255))]
    pub m2s_req: u8,
    /// Requests with data (M2S RwD). 1 to 255.
    #[schemars(range(min = 1, max = 255))]
    pub m2s_rwd: u8,
    /// Responses without data (S2M NDR). 1 to 255.
    #[schemars(range(min = 1, max = 255))]
    pub s2m_ndr: u8,
    /// Responses with data (S2M DRS). 1 to 255.
    #[schemars(range(min = 1, max = 255))]
    pub s2m_drs: u8,
    /// Back-invalidation snoops (S2M BISnp). 1 to 255.
    #[schemars(range(min = 1, max = 255))]
    pub s2m_bisnp: u8,
    /// Back-invalidation responses (M2S BIRsp). 1 to 255.
    #[schemars(range(min = 1, max = 255))]
    pub m2s_birsp: u8,
    /// Requests of a device's cache (D2H Req). 1 to 255.
    #[schemars(range(min = 1, max = 255))]
    pub d2h_req: u8,
    /// A device's answers to snoops (D2H Rsp). 1 to 255.
    #[schemars(range(min = 1, max = 255))]
    pub d2h_rsp: u8,
    /// A device's data (D2H Data). 1 to 255.
    #[schemars(range(min = 1, max = 255))]
    pub d2h_data: u8,
    /// Snoops of a device's cache (H2D Req). 1 to 255.
    #[schemars(range(min = 1, max = 255))]
    pub h2d_req: u8,
    /// Responses to a device's requests (H2D Rsp). 1 to 255.
    #[schemars(range(min = 1, max = 255))]
    pub h2d_rsp: u8,
    /// Data for a device's requests (H2D Data). 1 to 255.
    #[schemars(range(min = 1, max = 255))]
    pub h2d_data: u8,
    /// Posted requests of CXL.io. 1 to 255.
    #[schemars(range(min = 1, max = 255))]
    pub io_posted: u8,
    /// Non-posted requests of CXL.io. 1 to 255.
    #[schemars(range(min = 1, max = 255))]
    pub io_non_posted: u8,
    /// Completions of CXL.io. 1 to 255.
    #[schemars(range(min = 1, max = 255))]
    pub io_completion: u8,
}

impl Default for CreditTable {
    /// 128 messages of a class: the bandwidth-delay product of a x16 generation 6 link (one line
    /// in 0.6 ns) over a 75 ns round trip through two ports and a switch. *Assumed*: products do
    /// not publish their buffers. 32 of the classes that only snoops use.
    fn default() -> Self {
        CreditTable {
            m2s_req: 128,
            m2s_rwd: 128,
            s2m_ndr: 128,
            s2m_drs: 128,
            s2m_bisnp: 32,
            m2s_birsp: 32,
            d2h_req: 128,
            d2h_rsp: 32,
            d2h_data: 128,
            h2d_req: 32,
            h2d_rsp: 128,
            h2d_data: 128,
            io_posted: 128,
            io_non_posted: 128,
            io_completion: 128,
        }
    }
}

impl CreditTable {
    /// The capacity for a message class.
    pub fn of(&self, channel: Channel) -> u8 {
        match channel {
            Channel::M2sReq => self.m2s_req,
            Channel::M2sRwd => self.m2s_rwd,
            Channel::S2mNdr => self.s2m_ndr,
            Channel::S2mDrs => self.s2m_drs,
            Channel::S2mBisnp => self.s2m_bisnp,
            Channel::M2sBirsp => self.m2s_birsp,
            Channel::D2hReq => self.d2h_req,
            Channel::D2hRsp => self.d2h_rsp,
            Channel::D2hData => self.d2h_data,
            Channel::H2dReq => self.h2d_req,
            Channel::H2dRsp => self.h2d_rsp,
            Channel::H2dData => self.h2d_data,
            Channel::IoPosted => self.io_posted,
            Channel::IoNonPosted => self.io_non_posted,
            Channel::IoCompletion => self.io_completion,
        }
    }

    /// Capacities by buffer number, for `vcs` virtual channels.
    pub(crate) fn by_buffer(&self, vcs: u8) -> [u8; BUFFERS] {
        let mut table = [0; BUFFERS];
        for vc in 0..vcs.min(MAX_VCS as u8) {
            for channel in Channel::ALL {
                table[Buffer::of(channel, vc).index()] = self.of(channel);
            }
        }
        table
    }
}

/// What a port knows of one buffer: that at the far end, which it sends to, and its own, which it
/// receives in.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub(crate) struct BufferState {
    /// Credits at hand, of how many in all.
    credits: u8,
    capacity: u8,
    /// Credits of freed places that have not gone back. A sixteenth of the buffer takes a ride,
    /// a quarter goes alone.
    waiting: u8,
    sixteenth: u8,
}

impl BufferState {
    /// A message goes to this buffer, for which a credit is at hand.
    #[inline(always)]
    pub(crate) fn spend(&mut self) {
        self.credits -= 1;
    }
}

/// The flow control of a port, both directions. The buffers of a virtual channel lie together.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct FlowControl {
    /// Which buffers have enough credits waiting to take a ride: those below [`MASKED`], and the others.
    mask: u64,
    rest_mask: u64,
    /// Messages sent whose credit has not come back.
    unreturned: u32,
    /// The buffers of virtual channels 0 and 1, and those of the others: few links have any, and what
    /// is touched for every message should lie close together.
    near: [BufferState; NEAR],
    more: Vec<[BufferState; ROW]>,
    /// The rest of each virtual channel, which only CXL.cache uses.
    rest: Vec<[BufferState; ROW]>,
}

save_state!(FlowControl {
    values: mask, unreturned, near, rest_mask;
    sized: more, rest;
});

impl FlowControl {
    /// Both ends of a link have buffers for as many messages.
    pub(crate) fn new(capacity: &[u8; BUFFERS]) -> Self {
        let state = |capacity: u8| BufferState {
            credits: capacity,
            capacity,
            waiting: 0,
            sixteenth: (capacity / 16).max(1),
        };
        let row = |capacity: &[u8]| std::array::from_fn(|class| state(capacity[class]));
        let rows = |capacity: &[u8]| {
            let used = capacity.iter().rposition(|capacity| *capacity > 0);
            let used = used.map_or(0, |last| last / ROW + 1);
            let mut rows: Vec<_> = capacity.chunks_exact(ROW).take(used).map(row).collect();
            rows.shrink_to_fit();
            rows
        };
        let (near, rest) = capacity.split_at(MASKED);
        FlowControl {
            mask: 0,
            unreturned: 0,
            near: std::array::from_fn(|buffer| state(near[buffer])),
            more: rows(&near[NEAR..]),
            rest_mask: 0,
            rest: rows(rest),
        }
    }

    /// What is known of a buffer, if the link has it.
    #[inline(always)]
    fn find(&mut self, buffer: Buffer) -> Option<&mut BufferState> {
        match buffer.index() {
            near @ 0..NEAR => Some(&mut self.near[near]),
            number => self.find_far(number),
        }
    }

    /// The same of a buffer beyond those.
    #[inline(never)]
    fn find_far(&mut self, number: usize) -> Option<&mut BufferState> {
        let (row, class) = (number / ROW, number % ROW);
        let row = match row {
            0..MAX_VCS => self.more.get_mut(row - NEAR_VCS),
            _ => self.rest.get_mut(row - MAX_VCS),
        };
        row.map(|row| &mut row[class])
    }

    /// What is known of a buffer that the link has.
    #[inline(always)]
    fn state(&mut self, buffer: Buffer) -> &mut BufferState {
        match self.find(buffer) {
            Some(state) => state,
            None => unreachable!("the link has no such buffer"),
        }
    }

    /// What is known of a buffer.
    #[inline]
    fn get(&self, buffer: Buffer) -> BufferState {
        let (row, class) = (buffer.index() / ROW, buffer.index() % ROW);
        let row = match row {
            0..NEAR_VCS => return self.near[buffer.index()],
            NEAR_VCS..MAX_VCS => self.more.get(row - NEAR_VCS),
            _ => self.rest.get(row - MAX_VCS),
        };
        row.map_or_else(BufferState::default, |row| row[class])
    }

    /// Says that credits of this buffer may take a ride.
    #[inline]
    fn mark(&mut self, buffer: u8) {
        if usize::from(buffer) < MASKED {
            self.mask |= 1 << buffer;
        } else {
            self.rest_mask |= 1 << (usize::from(buffer) - MASKED);
        }
    }

    /// Credits at hand for a buffer.
    #[inline]
    pub(crate) fn credits(&self, buffer: Buffer) -> u8 {
        self.get(buffer).credits
    }

    /// Messages sent whose credits have not come back.
    #[inline]
    pub(crate) fn unreturned(&self) -> u32 {
        self.unreturned
    }

    /// A buffer of the link, if a credit for it is at hand.
    #[inline(always)]
    pub(crate) fn with_credit(&mut self, buffer: Buffer) -> Option<&mut BufferState> {
        self.find(buffer).filter(|state| state.credits > 0)
    }

    /// A message was sent.
    #[inline(always)]
    pub(crate) fn count_sent(&mut self) {
        self.unreturned += 1;
    }

    /// Takes credits that came back.
    ///
    /// # Panics
    /// If more come back than were used: credits are conserved.
    #[inline]
    pub(crate) fn credit(&mut self, buffer: Buffer, count: u8) {
        let state = self.state(buffer);
        assert!(
            count <= state.capacity - state.credits,
            "more credits than buffers"
        );
        state.credits += count;
        self.unreturned -= u32::from(count);
    }

    /// A place in `buffer` became free. True when so many credits wait that they should not wait
    /// for a ride any longer.
    #[inline(always)]
    pub(crate) fn free(&mut self, buffer: Buffer) -> bool {
        let state = self.state(buffer);
        state.waiting += 1;
        // Nobody can predict how many wait, so that they may take a ride is noted without a branch.
        let ride = u64::from(state.waiting >= state.sixteenth);
        let alone = state.waiting >= (state.capacity / 4).max(1);
        match usize::from(buffer.0) {
            near @ 0..MASKED => self.mask |= ride << near,
            far => self.rest_mask |= ride << (far - MASKED),
        }
        alone
    }

    /// Takes the credits of `first` along, and those of up to three other buffers. A buffer that
    /// reached its threshold must go at once: its transmitter may have no credit left to send
    /// anything that would remind us.
    pub(crate) fn take_first(&mut self, first: Buffer) -> Credits {
        let mine = std::mem::take(&mut self.state(first).waiting);
        if usize::from(first.0) < MASKED {
            self.mask &= !(1 << first.0);
        } else {
            self.rest_mask &= !(1 << (usize::from(first.0) - MASKED));
        }
        let mut credits = self.take();
        let entries = &mut credits.entries;
        if entries[Credits::PLACES - 1].1 > 0 {
            // All places are taken: the last one waits again.
            let (at, count) = entries[Credits::PLACES - 1];
            self.state(Buffer(at)).waiting = count;
            self.mark(at);
        }
        entries.rotate_right(1);
        entries[0] = (first.0, mine);
        credits
    }

    /// Takes up to four buffers' credits along.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Credits {
        if self.mask | self.rest_mask == 0 {
            return Credits::NONE;
        }
        self.take_marked()
    }

    #[inline(never)]
    fn take_marked(&mut self) -> Credits {
        let mut credits = Credits::NONE;
        for entry in &mut credits.entries {
            let (marked, first) = match (self.mask, self.rest_mask) {
                (0, 0) => break,
                (0, _) => (&mut self.rest_mask, MASKED as u8),
                _ => (&mut self.mask, 0),
            };
            let buffer = first + marked.trailing_zeros() as u8;
            *marked &= *marked - 1;
            *entry = (
                buffer,
                std::mem::take(&mut self.state(Buffer(buffer)).waiting),
            );
        }
        credits
    }

    /// The buffers of the link: by number, what is known of them.
    fn buffers(&mut self) -> impl Iterator<Item = (Buffer, &mut BufferState)> {
        let more = self.more.iter_mut().flatten();
        let near = self.near.iter_mut().chain(more).zip(0..);
        let rest = self.rest.iter_mut().flatten().zip(BUFFERS as u8 / 2..);
        let all = near.chain(rest).map(|(state, at)| (Buffer(at), state));
        all.filter(|(_, state)| state.capacity > 0)
    }

    /// The link is lost, and all credits with it.
    pub(crate) fn fail(&mut self) {
        let mut unreturned = 0;
        for (_, state) in self.buffers() {
            (state.credits, state.waiting) = (0, 0);
            unreturned += u32::from(state.capacity);
        }
        self.unreturned = unreturned;
        (self.mask, self.rest_mask) = (0, 0);
    }

    /// The link is trained again: all places go back as credits but those that messages still take
    /// which came before, whose numbers `occupied` tells.
    pub(crate) fn restore(&mut self, occupied: impl Fn(Buffer) -> u8) {
        let mut marked = Vec::new();
        for (buffer, state) in self.buffers() {
            state.waiting = state.capacity - occupied(buffer);
            if state.waiting > 0 {
                marked.push(buffer.0);
            }
        }
        (self.mask, self.rest_mask) = (0, 0);
        marked.into_iter().for_each(|buffer| self.mark(buffer));
    }

    /// Credits waiting for a ride, for conservation checks.
    pub(crate) fn waiting(&self, buffer: Buffer) -> u8 {
        self.get(buffer).waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_at_its_threshold_goes_first_and_no_credit_is_lost() {
        let table = CreditTable {
            m2s_req: 4,
            m2s_rwd: 4,
            s2m_ndr: 4,
            s2m_drs: 4,
            s2m_bisnp: 4,
            m2s_birsp: 4,
            d2h_req: 4,
            d2h_rsp: 4,
            d2h_data: 4,
            h2d_req: 4,
            h2d_rsp: 4,
            h2d_data: 4,
            io_posted: 4,
            io_non_posted: 4,
            io_completion: 4,
        };
        let mut returns = FlowControl::new(&table.by_buffer(3));
        // Thresholds are one credit; let every buffer have one waiting, then ask for the last.
        for vc in 0..3 {
            for channel in Channel::ALL {
                assert!(returns.free(Buffer::of(channel, vc)));
            }
        }
        let last = Buffer::of(Channel::H2dData, 2);
        let credits = returns.take_first(last);
        assert_eq!(credits.entries, [(last.0, 1), (0, 1), (1, 1), (2, 1)]);
        let mut seen = 4;
        while returns.mask | returns.rest_mask != 0 {
            seen += returns
                .take()
                .entries
                .iter()
                .map(|(_, count)| u32::from(*count))
                .sum::<u32>();
        }
        assert_eq!(seen, 3 * Channel::COUNT as u32);
        returns.free(Buffer(7));
        assert_eq!(returns.take_first(Buffer(7)).entries[..2], [(7, 1), (0, 0)]);
    }

    #[test]
    fn buffers_of_a_link_have_places_of_their_own_and_all_places_are_small() {
        for vcs in 1..=MAX_VCS as u8 {
            let all = (0..vcs).flat_map(|vc| Channel::ALL.map(|class| Buffer::of(class, vc)));
            let mut places: Vec<usize> = all.map(|buffer| buffer.place(vcs)).collect();
            assert!(places.iter().all(|place| *place < Buffer::places(vcs)));
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), Channel::COUNT * usize::from(vcs));
        }
    }
}
