//! The payload of a wire: a message, credits, or both.

use cxlab_engine::Payload;
use cxlab_protocol::Message;
use serde::{Deserialize, Serialize};

/// Credits on their way back to a transmitter: up to four buffers at once, as a flit header
/// returns several classes at once (CXL 3.1 section 4.2.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct Credits {
    /// Buffer number and number of credits. An entry with zero credits is unused.
    pub entries: [(u8, u8); Credits::PLACES],
}

impl Credits {
    /// Most buffers that one return can name.
    pub const PLACES: usize = 4;
    /// A return without any credits.
    pub const NONE: Credits = Credits {
        entries: [(0, 0); Credits::PLACES],
    };

    /// Stands in place of a buffer's number: flow control begins anew.
    const BEGIN: u8 = u8::MAX;

    /// The first parcel of a port whose link has been trained for the `time`-th time, from 1 on:
    /// flow control begins anew (InitFC of PCIe). An entry with zero credits is unused, so the first
    /// byte runs from 1 to 255.
    pub(crate) fn begin(time: u32) -> Credits {
        let mut credits = Credits::NONE;
        let before = time - 1;
        let [low, middle, high, _] = (before / 255).to_le_bytes();
        credits.entries[0] = (Credits::BEGIN, (before % 255) as u8 + 1);
        credits.entries[1] = (low, middle);
        credits.entries[2] = (high, 0);
        credits
    }

    /// The number of the training if flow control begins anew with this return, or else `None`.
    pub fn begins(&self) -> Option<u32> {
        let [(buffer, first), (low, middle), (high, _), _] = self.entries;
        let rounds = u32::from_le_bytes([low, middle, high, 0]);
        (buffer == Credits::BEGIN && first > 0).then(|| rounds * 255 + u32::from(first))
    }

    /// Whether the return has no credits. Entries are used from the first on.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries[0].1 == 0
    }
}

/// The payload of every event between components of a CXL system.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[repr(C)]
pub struct Parcel {
    /// Credits that travel back with the message, or alone.
    pub credits: Credits,
    /// The message; `None` in a return of credits alone.
    pub message: Option<Message>,
}

impl Payload for Parcel {
    #[inline]
    fn fingerprint(&self) -> u64 {
        let credits = u64::from(u32::from_le_bytes([
            self.credits.entries[0].0,
            self.credits.entries[0].1,
            self.credits.entries[1].0,
            self.credits.entries[1].1,
        ]));
        match &self.message {
            Some(message) => {
                message.hpa.0
                    ^ u64::from(message.tag) << 40
                    ^ (message.opcode as u64) << 32
                    ^ message.stages.queue_digest().rotate_left(20)
                    ^ credits
            }
            None => credits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_tells_its_time_however_often_a_link_was_trained() {
        for time in (1..2000).chain([65_535, 65_536, 1_000_000, 255 << 16]) {
            let credits = Credits::begin(time);
            assert_eq!(credits.begins(), Some(time));
            assert!(!credits.is_empty());
        }
        assert_eq!(Credits::NONE.begins(), None);
    }
}
