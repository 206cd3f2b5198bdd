//! Requests to registers, and what a component does with one.

use cxlab_engine::units::Hpa;

use crate::io::component::ComponentRegisters;
use crate::io::space::{AccessError, Registers};

/// Bus, device and function number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Bdf {
    /// 0 to 255.
    pub bus: u8,
    /// 0 to 31.
    pub device: u8,
    /// 0 to 7; only 0 exists here.
    pub function: u8,
}

/// Where a request goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A register in the configuration space of the device at the end of the link (type 0).
    Device(Bdf, u16),
    /// A register in a configuration space further below (type 1).
    Bus(Bdf, u16),
    /// A register in memory.
    Memory(Hpa),
}

/// A read or a write of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Where it goes.
    pub place: Place,
    /// Bytes: 1, 2 or 4.
    pub width: u32,
    /// What it writes; `None`: it reads.
    pub write: Option<u64>,
}

/// What a component does with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It serves it: what was read, or written.
    Done(Result<u64, AccessError>),
    /// It leaves by the port of that place, in this form.
    Below(usize, Request),
    /// Nobody has the register: an unsupported request.
    Nobody,
}

impl Request {
    pub(super) fn at(self, place: Place) -> Request {
        Request { place, ..self }
    }

    /// Does it to some registers.
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

/// What a read gives that nobody answers.
pub fn all_ones(width: u32) -> u64 {
    u64::MAX >> (64 - 8 * width.clamp(1, 8))
}
