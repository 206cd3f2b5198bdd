//! Receive buffers and the credits for them, counted in messages by class and virtual channel.

use cxlab_protocol::Channel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parcel::Credits;

/// Virtual channels that a link can have.
pub const MAX_VCS: usize = 8;
/// Receive buffers of a link direction: one for each message class and virtual channel.
pub const BUFFERS: usize = Channel::COUNT * MAX_VCS;

/// The number of a receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Buffer(pub u8);

impl Buffer {
    /// The buffer of a message class on a virtual channel.
    #[inline]
    pub fn of(channel: Channel, vc: u8) -> Buffer {
        Buffer(vc * Channel::COUNT as u8 + channel as u8)
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
                table[Buffer::of(channel, vc).0 as usize] = self.of(channel);
            }
        }
        table
    }
}

/// The receiver's side: credits of freed buffers that wait for a ride back.
#[derive(Clone, Debug)]
pub(crate) struct Returns {
    /// By buffer: credits that wait, and how many may wait.
    waiting: [(u8, u8); BUFFERS],
    /// Which buffers have credits waiting.
    mask: u64,
}

impl Returns {
    pub(crate) fn new(capacity: &[u8; BUFFERS]) -> Self {
        Returns {
            waiting: capacity.map(|credits| (0, (credits / 4).max(1))),
            mask: 0,
        }
    }

    /// A place in `buffer` became free. True when so many credits wait that they should not wait
    /// for a ride any longer.
    #[inline]
    pub(crate) fn free(&mut self, buffer: Buffer) -> bool {
        let (waiting, threshold) = &mut self.waiting[buffer.0 as usize];
        *waiting += 1;
        self.mask |= 1 << buffer.0;
        *waiting >= *threshold
    }

    /// Takes the credits of `first` along, and those of up to three other buffers. A buffer that
    /// reached its threshold must go at once: its transmitter may have no credit left to send
    /// anything that would remind us.
    #[inline]
    pub(crate) fn take_first(&mut self, first: Buffer) -> Credits {
        let mine = std::mem::take(&mut self.waiting[first.0 as usize].0);
        self.mask &= !(1 << first.0);
        let mut credits = self.take();
        let entries = &mut credits.entries;
        if entries[Credits::PLACES - 1].1 > 0 {
            // All places are taken: the last one waits again.
            let (at, count) = entries[Credits::PLACES - 1];
            self.waiting[at as usize].0 = count;
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
            if self.mask == 0 {
                break;
            }
            let at = self.mask.trailing_zeros() as usize;
            self.mask &= self.mask - 1;
            *entry = (at as u8, std::mem::take(&mut self.waiting[at].0));
        }
        credits
    }

    /// Credits waiting for a ride, by buffer, for conservation checks.
    pub(crate) fn waiting(&self, buffer: Buffer) -> u8 {
        self.waiting[buffer.0 as usize].0
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
        let mut returns = Returns::new(&table.by_buffer(2));
        // Thresholds are one credit; let every buffer have one waiting, then ask for the last.
        for buffer in 0..12 {
            assert!(returns.free(Buffer(buffer)));
        }
        let credits = returns.take_first(Buffer(11));
        assert_eq!(credits.entries, [(11, 1), (0, 1), (1, 1), (2, 1)]);
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
