//! QoS telemetry for memory (CXL 3.1, section 3.3.4 and table 3-51): how loaded a device says it is.

use crate::message::Message;
use serde::{Deserialize, Serialize};

/// DevLoad of an answer (S2M NDR and DRS).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, Debug)]
pub enum DevLoad {
    /// Light load (00b): there is room for more.
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
    /// All, as they are coded.
    pub const ALL: [DevLoad; 4] = [
        DevLoad::Light,
        DevLoad::Optimal,
        DevLoad::Moderate,
        DevLoad::Severe,
    ];

    /// What stands in [`Message::lines`] of an answer with it.
    #[inline]
    pub fn lines(self) -> u8 {
        1 + self as u8
    }

    /// What an answer says; light where the device has no telemetry, and where it denied the request.
    #[inline]
    pub fn of(answer: &Message) -> DevLoad {
        let code = answer.lines.saturating_sub(1) as usize;
        DevLoad::ALL[code % DevLoad::ALL.len()]
    }
}
