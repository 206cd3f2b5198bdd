//! What a message occupies on a link.

use crate::io::packet::{self, IoPacket};
use crate::message::{CacheMeta, Message};
use crate::opcode::{Channel, Opcode};

/// What a message occupies on a link besides its header and its line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireSpace {
    /// A message of CXL.mem or CXL.cache.
    Slots {
        /// Whether 64 byte enables follow the line.
        trailer: bool,
    },
    /// A whole packet of CXL.io.
    Packet(IoPacket),
}

impl Message {
    /// What the message occupies on a link in class `channel`, besides its header and its line. A
    /// response may still be stored as its request, so `channel` is the class of the response.
    #[inline]
    pub fn wire_space(&self, channel: Channel) -> WireSpace {
        let trailer = match channel {
            Channel::M2sRwd => self.opcode == Opcode::MemWrPtl,
            Channel::D2hData => self.cache.has(CacheMeta::BYTE_ENABLES),
            _ if channel.is_io() => return WireSpace::Packet(self.io_packet()),
            _ => false,
        };
        WireSpace::Slots { trailer }
    }

    /// Size of a CXL.io packet on a link.
    #[inline(never)]
    pub fn io_packet(&self) -> IoPacket {
        if self.lines == Message::REGISTER {
            return packet::size(self);
        }
        let payload = self.payload();
        IoPacket {
            bytes: [Message::TLP_OVERHEAD + payload; 2],
            payload,
        }
    }
}
