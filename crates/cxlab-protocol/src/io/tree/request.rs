//! Requests to registers, and the results of serving them in a component.

use cxlab_engine::units::Hpa;

use crate::io::component::ComponentRegisters;
use crate::io::space::{AccessError, Registers};

/// Bus, device and function number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Bdf {
    /// Bus number: 0 to 255.
    pub bus: u8,
    /// Device number: 0 to 31.
    pub device: u8,
    /// Function number: 0 to 7; only 0 exists in the model.
    pub function: u8,
}

/// The register that a request goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterPlace {
    /// A register in the configuration space of the device at the end of the link (type 0).
    Device(Bdf, u16),
    /// A register in a configuration space further downstream (type 1).
    Bus(Bdf, u16),
    /// A register in memory.
    Memory(Hpa),
}

/// A read or a write of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The register that is accessed.
    pub place: RegisterPlace,
    /// Width in bytes: 1, 2 or 4.
    pub width: u32,
    /// The value to write; `None` for a read.
    pub write: Option<u64>,
}

/// What a component does with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The component serves the request: the value read or written.
    Done(Result<u64, AccessError>),
    /// The request leaves through the port with this index, in this form.
    Below(usize, Request),
    /// No component has the register: an unsupported request.
    Nobody,
}

impl Request {
    pub(super) fn at(self, place: RegisterPlace) -> Request {
        Request { place, ..self }
    }

    /// Performs the request on these registers.
    pub(super) fn serve(self, registers: &mut Registers, at: u64) -> Step {
        Step::Done(match self.write {
            Some(value) => registers.write(at, self.width, value).map(|()| value),
            None => registers.read(at, self.width),
        })
    }

    pub(super) fn serve_component(self, registers: &mut ComponentRegisters, at: u64) -> Step {
        Step::Done(match self.write {
            Some(value) => registers.write(at, self.width, value).map(|()| value),
            None => registers.read(at, self.width),
        })
    }
}

/// The value of a read that no component answers.
pub fn all_ones(width: u32) -> u64 {
    u64::MAX >> (64 - 8 * width.clamp(1, 8))
}
