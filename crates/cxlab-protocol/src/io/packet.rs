//! Requests to registers, and their completions, encoded as messages.
//!
//! A message has no room for data, but a register has at most four bytes. They are stored in `tag`, which is free
//! because software waits for each completion. `data` has the width, and `hpa` the address. The address of a register
//! in configuration space is that of PCIe's enhanced configuration access mechanism (PCIe 5.0, section 7.2.2). A
//! completion without data has its status in `tag` (PCIe 5.0, section 2.2.9).

use cxlab_engine::units::{Hpa, SimTime};

use super::tlp::{Framing, Kind, Tlp};
use super::tree::{Bdf, RegisterPlace, Request, Step};
use crate::message::{Message, PortId};
use crate::opcode::Opcode;

/// Completion status: successful.
const SUCCESS: u32 = 0b000;
/// Unsupported request: no component has the register.
const UNSUPPORTED: u32 = 0b001;
/// Completer abort: the register does not accept such an access.
const ABORT: u32 = 0b100;

/// The result that a completion reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompletionResult {
    /// Success: the value read, or 0 for a write.
    Done(u64),
    /// No component has the register.
    Unsupported,
    /// The register does not accept such an access.
    Aborted,
}

/// Size of a CXL.io packet on a link.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IoPacket {
    /// All bytes of the packet: first on a link without flits or with 68-byte flits, then on a link
    /// with 256-byte flits.
    pub bytes: [u64; 2],
    /// Payload bytes among them.
    pub payload: u64,
}

/// Address of a register in configuration space (ECAM).
fn ecam(to: Bdf, at: u16) -> Hpa {
    let number = u64::from(to.bus) << 8 | u64::from(to.device) << 3 | u64::from(to.function);
    Hpa(number << 12 | u64::from(at))
}

fn from_ecam(hpa: Hpa) -> (Bdf, u16) {
    let number = hpa.0 >> 12;
    let to = Bdf {
        bus: (number >> 8) as u8,
        device: (number >> 3 & 0b1_1111) as u8,
        function: (number & 0b111) as u8,
    };
    (to, (hpa.0 & 0xfff) as u16)
}

/// Encodes a request in a message. The message's former request is overwritten.
pub fn put(message: &mut Message, request: Request) {
    let write = request.write.is_some();
    (message.opcode, message.hpa) = match (request.place, write) {
        (RegisterPlace::Device(to, at), false) => (Opcode::CfgRd0, ecam(to, at)),
        (RegisterPlace::Device(to, at), true) => (Opcode::CfgWr0, ecam(to, at)),
        (RegisterPlace::Bus(to, at), false) => (Opcode::CfgRd1, ecam(to, at)),
        (RegisterPlace::Bus(to, at), true) => (Opcode::CfgWr1, ecam(to, at)),
        (RegisterPlace::Memory(hpa), false) => (Opcode::MRd, hpa),
        (RegisterPlace::Memory(hpa), true) => (Opcode::MWr, hpa),
    };
    message.tag = request.write.unwrap_or(0) as u32;
    message.data = request.width as u16;
}

/// A message with this request, issued at `now_ps` (picoseconds).
pub fn message(request: Request, now_ps: u64, source: PortId, destination: PortId) -> Message {
    let issued = SimTime(now_ps);
    let mut message = Message::new(Opcode::MRd, Hpa(0), 0, source, destination, issued);
    message.lines = Message::REGISTER;
    put(&mut message, request);
    message
}

/// The register request that a message encodes; `None` for other messages.
pub fn request(message: &Message) -> Option<Request> {
    if message.lines != Message::REGISTER {
        return None;
    }
    let (to, at) = from_ecam(message.hpa);
    let (place, write) = match message.opcode {
        Opcode::CfgRd0 => (RegisterPlace::Device(to, at), false),
        Opcode::CfgWr0 => (RegisterPlace::Device(to, at), true),
        Opcode::CfgRd1 => (RegisterPlace::Bus(to, at), false),
        Opcode::CfgWr1 => (RegisterPlace::Bus(to, at), true),
        Opcode::MRd => (RegisterPlace::Memory(message.hpa), false),
        Opcode::MWr => (RegisterPlace::Memory(message.hpa), true),
        _ => return None,
    };
    Some(Request {
        place,
        width: message.data.into(),
        write: write.then_some(message.tag.into()),
    })
}

/// Whether a request gets no completion: memory writes are posted.
pub fn is_posted(request: &Request) -> bool {
    matches!(request.place, RegisterPlace::Memory(_)) && request.write.is_some()
}

/// The completion of a request to which a component responded with `step`; `None` for a posted request.
pub fn completion(of: &Message, step: Step) -> Option<Message> {
    let request = request(of).filter(|request| !is_posted(request))?;
    let (opcode, tag) = match (step, request.write) {
        (Step::Done(Ok(value)), None) => (Opcode::CplD, value as u32),
        (Step::Done(Ok(_)), Some(_)) => (Opcode::Cpl, SUCCESS),
        (Step::Done(Err(_)), _) => (Opcode::Cpl, ABORT),
        (Step::Below(..) | Step::Nobody, _) => (Opcode::Cpl, UNSUPPORTED),
    };
    Some(Message {
        opcode,
        tag,
        source: of.destination,
        destination: of.source,
        vc: 0,
        hops: 0,
        ..*of
    })
}

/// The result that a completion of a register request reports; `None` for other messages.
pub fn answer(message: &Message) -> Option<CompletionResult> {
    match (message.lines, message.opcode, message.tag) {
        (Message::REGISTER, Opcode::CplD, value) => Some(CompletionResult::Done(value.into())),
        (Message::REGISTER, Opcode::Cpl, SUCCESS) => Some(CompletionResult::Done(0)),
        (Message::REGISTER, Opcode::Cpl, UNSUPPORTED) => Some(CompletionResult::Unsupported),
        (Message::REGISTER, Opcode::Cpl, _) => Some(CompletionResult::Aborted),
        _ => None,
    }
}

/// Size of a register request or its completion on a link.
pub(crate) fn size(message: &Message) -> IoPacket {
    let kind = match message.opcode {
        Opcode::CfgRd0 | Opcode::CfgRd1 => Kind::CfgRd,
        Opcode::CfgWr0 | Opcode::CfgWr1 => Kind::CfgWr,
        Opcode::MRd => Kind::MemRd,
        Opcode::MWr => Kind::MemWr,
        Opcode::CplD => Kind::CplD,
        _ => Kind::Cpl,
    };
    let tlp = Tlp::new(kind, message.data.into());
    let bytes = [Framing::NonFlit, Framing::Flit].map(|framing| tlp.wire_bytes(framing).into());
    IoPacket {
        bytes,
        payload: tlp.payload_bytes().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::space::AccessError;

    fn sample() -> Vec<Request> {
        let to = Bdf {
            bus: 255,
            device: 31,
            function: 7,
        };
        let places = [
            RegisterPlace::Device(to, 0xffc),
            RegisterPlace::Bus(to, 0x102),
            RegisterPlace::Memory(Hpa(1 << 52)),
        ];
        let both = |place| {
            [None, Some(0xdead_beef)].map(|write| Request {
                place,
                width: 4,
                write,
            })
        };
        places.into_iter().flat_map(both).collect()
    }

    #[test]
    fn a_request_is_the_same_after_its_way_in_a_message() {
        for sent in sample() {
            let message = message(sent, 7, PortId(0), PortId(4));
            assert_eq!(request(&message), Some(sent));
            assert_eq!(answer(&message), None);
        }
    }

    #[test]
    fn completions_say_what_came_of_a_request_and_posted_writes_have_none() {
        let error = AccessError::Range(4);
        let cases = [
            (Step::Done(Ok(0x1234)), CompletionResult::Done(0x1234)),
            (Step::Nobody, CompletionResult::Unsupported),
            (Step::Done(Err(error)), CompletionResult::Aborted),
        ];
        for sent in sample() {
            let message = message(sent, 7, PortId(0), PortId(4));
            for (step, expected) in cases {
                let Some(back) = completion(&message, step) else {
                    assert!(matches!(sent.place, RegisterPlace::Memory(_)) && sent.write.is_some());
                    continue;
                };
                let written = matches!(expected, CompletionResult::Done(_)) && sent.write.is_some();
                let expected = if written {
                    CompletionResult::Done(0)
                } else {
                    expected
                };
                assert_eq!(answer(&back), Some(expected));
                assert_eq!(request(&back), None);
                assert_eq!((back.source, back.destination), (PortId(4), PortId(0)));
            }
        }
    }

    #[test]
    fn packets_have_the_sizes_of_tlps() {
        let packet = |request: Request| message(request, 0, PortId(0), PortId(1)).io_packet();
        let all: Vec<[u64; 2]> = sample().into_iter().map(|one| packet(one).bytes).collect();
        let (read, write) = ([20, 16], [24, 20]);
        assert_eq!(all, [read, write, read, write, [24, 16], [28, 20]]);
        let read = message(sample()[0], 0, PortId(0), PortId(1));
        let with = completion(&read, Step::Done(Ok(0))).unwrap().io_packet();
        assert_eq!((with.bytes, with.payload), ([24, 16], 4));
        let without = completion(&read, Step::Nobody).unwrap().io_packet();
        assert_eq!((without.bytes, without.payload), ([20, 12], 0));
    }
}
