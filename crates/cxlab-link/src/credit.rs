//! Receive buffers and the credits for them, counted in messages by class and virtual channel.

use cxlab_protocol::Channel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parcel::Credits;

/// Virtual channels that a link can have.
pub const MAX_VCS: usize = 8;
/// Numbers of receive buffers of a link direction: one for each message class and virtual channel,
/// eight classes reserved for each channel.
pub const BUFFERS: usize = 8 * MAX_VCS;

/// The number of a receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Buffer(pub u8);

impl Buffer {
    /// The buffer of a message class on a virtual channel.
    #[inline]
    pub fn of(channel: Channel, vc: u8) -> Buffer {
        Buffer(vc << 3 | channel as u8)
    }

    /// Its place in a table of [`BUFFERS`]: the mask tells the compiler that it is one.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize % BUFFERS
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
}

impl Default for CreditTable {
    /// 128 messages of a class: the bandwidth-delay product of a x16 generation 6 link (one line
    /// in 0.6 ns) over a 75 ns round trip through two ports and a switch. *Assumed*: products do
    /// not publish their buffers.
    fn default() -> Self {
        CreditTable {
            m2s_req: 128,
            m2s_rwd: 128,
            s2m_ndr: 128,
            s2m_drs: 128,
            s2m_bisnp: 32,
            m2s_birsp: 32,
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
#[derive(Clone, Copy, Default, Debug)]
struct BufferState {
    /// Credits at hand, of how many in all.
    credits: u8,
    capacity: u8,
    /// Credits of freed places that have not gone back. A sixteenth of the buffer takes a ride,
    /// a quarter goes alone.
    waiting: u8,
    sixteenth: u8,
}

/// The flow control of a port, both directions. The buffers of a virtual channel lie together.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct FlowControl {
    /// Which buffers have enough credits waiting to take a ride.
    mask: u64,
    /// Messages sent whose credit has not come back.
    unreturned: u32,
    /// The buffers of virtual channel 0, and those of the others: few links have any, and what
    /// is touched for every message should lie close together.
    first: [BufferState; CLASSES],
    more: Vec<[BufferState; CLASSES]>,
}

/// Buffers that a virtual channel has room for.
const CLASSES: usize = BUFFERS / MAX_VCS;

impl FlowControl {
    /// Both ends of a link have buffers for as many messages.
    pub(crate) fn new(capacity: &[u8; BUFFERS]) -> Self {
        let mut channels = capacity.chunks_exact(CLASSES).map(|channel| {
            std::array::from_fn(|class| BufferState {
                credits: channel[class],
                capacity: channel[class],
                waiting: 0,
                sixteenth: (channel[class] / 16).max(1),
            })
        });
        let first = channels.next().unwrap_or_default();
        let mut more: Vec<[BufferState; CLASSES]> = channels.collect();
        while more
            .pop_if(|last| last.iter().all(|buffer| buffer.capacity == 0))
            .is_some()
        {}
        more.shrink_to_fit();
        FlowControl {
            mask: 0,
            unreturned: 0,
            first,
            more,
        }
    }

    /// What is known of a buffer that the link has.
    #[inline]
    fn state(&mut self, buffer: Buffer) -> &mut BufferState {
        let (vc, class) = (buffer.index() / CLASSES, buffer.index() % CLASSES);
        match vc {
            0 => &mut self.first[class],
            _ => &mut self.more[vc - 1][class],
        }
    }

    /// What is known of a buffer.
    #[inline]
    fn get(&self, buffer: Buffer) -> BufferState {
        let (vc, class) = (buffer.index() / CLASSES, buffer.index() % CLASSES);
        match vc {
            0 => self.first[class],
            _ => self
                .more
                .get(vc - 1)
                .map_or_else(BufferState::default, |of| of[class]),
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

    /// A message goes to a buffer for which a credit is at hand.
    #[inline]
    pub(crate) fn spend(&mut self, buffer: Buffer) {
        self.state(buffer).credits -= 1;
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
    #[inline]
    pub(crate) fn free(&mut self, buffer: Buffer) -> bool {
        let state = self.state(buffer);
        state.waiting += 1;
        if state.waiting < state.sixteenth {
            return false;
        }
        let alone = state.waiting >= (state.capacity / 4).max(1);
        self.mask |= 1 << buffer.0;
        alone
    }

    /// Takes the credits of `first` along, and those of up to three other buffers. A buffer that
    /// reached its threshold must go at once: its transmitter may have no credit left to send
    /// anything that would remind us.
    pub(crate) fn take_first(&mut self, first: Buffer) -> Credits {
        let mine = std::mem::take(&mut self.state(first).waiting);
        self.mask &= !(1 << first.0);
        let mut credits = self.take();
        let entries = &mut credits.entries;
        if entries[Credits::PLACES - 1].1 > 0 {
            // All places are taken: the last one waits again.
            let (at, count) = entries[Credits::PLACES - 1];
            self.state(Buffer(at)).waiting = count;
            self.mask |= 1 << at;
        }
        entries.rotate_right(1);
        entries[0] = (first.0, mine);
        credits
    }

    /// Takes up to four buffers' credits along.
    #[inline]
    pub(crate) fn take(&mut self) -> Credits {
        let mut credits = Credits::NONE;
        if self.mask == 0 {
            return credits;
        }
        for entry in &mut credits.entries {
            let buffer = Buffer(self.mask.trailing_zeros() as u8);
            self.mask &= self.mask - 1;
            *entry = (buffer.0, std::mem::take(&mut self.state(buffer).waiting));
            if self.mask == 0 {
                break;
            }
        }
        credits
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
        };
        let mut returns = FlowControl::new(&table.by_buffer(2));
        // Thresholds are one credit; let every buffer have one waiting, then ask for the last.
        for vc in 0..2 {
            for channel in Channel::ALL {
                assert!(returns.free(Buffer::of(channel, vc)));
            }
        }
        let last = Buffer::of(Channel::M2sBirsp, 1);
        let credits = returns.take_first(last);
        assert_eq!(credits.entries, [(last.0, 1), (0, 1), (1, 1), (2, 1)]);
        let mut seen = 4;
        while returns.mask != 0 {
            seen += returns
                .take()
                .entries
                .iter()
                .map(|(_, count)| u32::from(*count))
                .sum::<u32>();
        }
        assert_eq!(seen, 12);
        returns.free(Buffer(7));
        assert_eq!(returns.take_first(Buffer(7)).entries[..2], [(7, 1), (0, 0)]);
    }
}
