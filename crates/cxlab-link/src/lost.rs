//! Messages that a failure has destroyed.

use std::ops::AddAssign;

use cxlab_protocol::Message;
use serde::{Deserialize, Serialize};

/// How many messages were lost: each was a request or the answer to one, and the other will never
/// be.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct Lost {
    /// All.
    pub messages: u64,
    /// Answers to requests that a device has denied among them.
    pub denied: u64,
}

impl Lost {
    /// So many requests.
    pub fn requests(messages: u64) -> Lost {
        Lost {
            messages,
            denied: 0,
        }
    }

    /// One more.
    pub fn count(&mut self, message: &Message) {
        self.messages += 1;
        self.denied += u64::from(message.lines == Message::DENIED);
    }
}

impl AddAssign for Lost {
    fn add_assign(&mut self, other: Lost) {
        self.messages += other.messages;
        self.denied += other.denied;
    }
}
