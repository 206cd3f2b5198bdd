//! A function with its registers.

use std::fmt;

use cxlab_engine::units::Hpa;

use super::request::{RegisterPlace, Request, Step};
use crate::io::component::{ComponentRegisters, Decodes};
use crate::io::space::{BARS, COMPONENT_BYTES, FunctionSpec, Registers, Role, command, offset};

/// A function: its configuration space and the registers in its first BAR.
#[derive(Clone)]
pub struct Function {
    /// The specification that the function was built from.
    pub spec: FunctionSpec,
    /// The configuration space.
    pub config: Registers,
    /// The component registers. For root ports, the registers of the host bridge decode instead.
    pub component: ComponentRegisters,
    /// The registers after them in the first BAR: the MSI-X table.
    table: Registers,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Function");
        text.field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl Function {
    /// A function after reset.
    pub fn new(spec: FunctionSpec) -> Function {
        let decodes = match spec.role {
            Role::Endpoint(device) if device.has_mem() => Decodes::Memory(spec.memory_bytes),
            Role::Endpoint(_) => Decodes::Memory(0),
            _ => Decodes::Ports,
        };
        let table_bytes = spec.bars[0].saturating_sub(COMPONENT_BYTES) as usize;
        let mut table = Registers::new(table_bytes);
        for vector in 0..usize::from(spec.vectors) {
            let at = 16 * vector;
            if at + 16 <= table_bytes {
                // Address and data, then masked after reset.
                table.set(at, 8, 0, !0b11);
                table.set(at + 8, 8, 1 << 32, u64::from(u32::MAX) | 1 << 32);
            }
        }
        Function {
            spec,
            config: spec.space(),
            component: ComponentRegisters::new(decodes, spec.decoders),
            table,
        }
    }

    fn command(&self) -> u16 {
        self.config.word(offset::COMMAND.into()) as u16
    }

    fn answers(&self) -> bool {
        self.command() & command::MEMORY != 0
    }

    /// The BAR that contains an address, and the offset of the address in it.
    fn bar_of(&self, hpa: Hpa) -> Option<(usize, u64)> {
        (0..BARS).find_map(|bar| {
            let size = self.spec.bars[bar];
            let at = usize::from(offset::BAR0) + 8 * bar;
            let base = self.config.word(at) & !0xf;
            let base = u64::from(self.config.word(at + 4)) << 32 | u64::from(base);
            let within = hpa.0.checked_sub(base)?;
            (within < size).then_some((bar, within))
        })
    }

    /// Serves a request to the function's configuration space.
    pub(super) fn serve_config(&mut self, request: Request, at: u16) -> Step {
        request.serve(&mut self.config, at.into())
    }

    /// Serves a request to the function's memory; `None` if the function does not respond to the address.
    pub(super) fn serve_memory(&mut self, request: Request, hpa: Hpa) -> Option<Step> {
        let (bar, at) = self.bar_of(hpa).filter(|_| self.answers())?;
        Some(match (bar, at.checked_sub(COMPONENT_BYTES)) {
            (0, None) => request.serve_component(&mut self.component, at),
            (0, Some(at)) => request.serve(&mut self.table, at),
            _ => Step::Done(Ok(request.write.unwrap_or(0))),
        })
    }

    /// Serves a request that arrives at a device over its link.
    pub fn serve(&mut self, request: Request) -> Step {
        let step = match request.place {
            RegisterPlace::Device(to, at) if to.device == 0 && to.function == 0 => {
                Some(self.serve_config(request, at))
            }
            RegisterPlace::Device(..) | RegisterPlace::Bus(..) => None,
            RegisterPlace::Memory(hpa) => self.serve_memory(request, hpa),
        };
        step.unwrap_or(Step::Nobody)
    }

    /// Secondary and subordinate bus number of a bridge.
    pub(super) fn buses(&self) -> (u8, u8) {
        let [_, secondary, subordinate, _] = self.config.word(offset::BUSES.into()).to_le_bytes();
        (secondary, subordinate)
    }

    /// Whether a bus is in a bridge's range of bus numbers.
    pub(super) fn has_below(&self, bus: u8) -> bool {
        let (secondary, subordinate) = self.buses();
        (secondary..=subordinate).contains(&bus)
    }

    /// Whether an address is in a bridge's prefetchable window, and the bridge forwards it.
    pub(super) fn passes(&self, hpa: Hpa) -> bool {
        let window = self.config.word(offset::PREFETCH_WINDOW.into());
        let high = |at: u16| u64::from(self.config.word(at.into())) << 32;
        let base = u64::from(window & 0xfff0) << 16 | high(offset::PREFETCH_BASE_HIGH);
        let limit = u64::from(window & 0xfff0_0000) | 0xf_ffff | high(offset::PREFETCH_LIMIT_HIGH);
        self.answers() && (base..=limit).contains(&hpa.0)
    }
}
