//! QoS telemetry for memory (CXL 3.1, section 3.3.4 and table 3-51): the load that a device reports.

use crate::message::Message;
use serde::{Deserialize, Serialize};

/// DevLoad of a response (S2M NDR and DRS).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, Debug)]
pub enum DevLoad {
    /// Light load (00b): the device has room for more requests.
    #[default]
    Light,
    /// Optimal load (01b).
    Optimal,
    /// Moderate overload (10b): latency grows for no more throughput.
    Moderate,
    /// Severe overload (11b).
    Severe,
}

impl DevLoad {
    /// All values, in the order of their codes.
    pub const ALL: [DevLoad; 4] = [
        DevLoad::Light,
        DevLoad::Optimal,
        DevLoad::Moderate,
        DevLoad::Severe,
    ];

    /// Value of [`Message::lines`] in a response that reports this load.
    #[inline]
    pub fn lines(self) -> u8 {
        1 + self as u8
    }

    /// Load that a response reports: `Light` from a device without telemetry, and for a denied request.
    #[inline]
    pub fn of(answer: &Message) -> DevLoad {
        let code = answer.lines.saturating_sub(1) as usize;
        DevLoad::ALL[code % DevLoad::ALL.len()]
    }
}
