//! Messages that a failure has destroyed.

use std::ops::AddAssign;

use cxlab_protocol::Message;
use serde::{Deserialize, Serialize};

/// Number of messages that a failure destroyed. Each was a request or the response to one, so each stands
/// for one transaction that never completes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct LostMessages {
    /// All lost messages.
    pub messages: u64,
    /// Those among them that were responses to requests which a device had denied.
    pub denied: u64,
}

impl LostMessages {
    /// A count of `messages` lost requests.
    pub fn requests(messages: u64) -> LostMessages {
        LostMessages {
            messages,
            denied: 0,
        }
    }

    /// Counts one more lost message.
    pub fn count(&mut self, message: &Message) {
        self.messages += 1;
        self.denied += u64::from(message.lines == Message::DENIED);
    }
}

impl AddAssign for LostMessages {
    fn add_assign(&mut self, other: LostMessages) {
        self.messages += other.messages;
        self.denied += other.denied;
    }
}
