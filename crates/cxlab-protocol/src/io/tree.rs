//! A hierarchy of functions below one host bridge, and how configuration and memory accesses find
//! their function in it.
//!
//! Routing is by the registers alone: bus numbers, windows and BARs as they were written. What
//! nobody answers reads as all ones, as a root complex makes of an unsupported request (PCIe 5.0,
//! section 2.3.2). Left out: several host bridges, functions and segments, and peer-to-peer.

use std::fmt;

use cxlab_engine::units::{Dpa, Hpa};

use super::component::{ComponentRegisters, Decodes};
use super::space::{
    AccessError, BARS, COMPONENT_BYTES, FunctionSpec, Registers, Role, command, offset,
};

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

/// A function: its configuration space and what lies behind its first BAR.
#[derive(Clone)]
pub struct Function {
    /// What it was made of.
    pub spec: FunctionSpec,
    /// Its configuration space.
    pub config: Registers,
    /// Its component registers. Of a root port they are the host bridge's business.
    pub component: ComponentRegisters,
    /// What lies behind them in the first BAR: the MSI-X table.
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

    /// The BAR that an address lies in, and where in it.
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

    fn read(&self, bar: usize, at: u64, width: u32) -> Result<u64, AccessError> {
        match (bar, at.checked_sub(COMPONENT_BYTES)) {
            (0, None) => self.component.read(at, width),
            (0, Some(at)) => self.table.read(at, width),
            _ => Ok(0),
        }
    }

    fn write(&mut self, bar: usize, at: u64, width: u32, value: u64) -> Result<(), AccessError> {
        match (bar, at.checked_sub(COMPONENT_BYTES)) {
            (0, None) => self.component.write(at, width, value),
            (0, Some(at)) => self.table.write(at, width, value),
            _ => Ok(()),
        }
    }

    /// Secondary and subordinate bus number of a bridge.
    fn buses(&self) -> (u8, u8) {
        let [_, secondary, subordinate, _] = self.config.word(offset::BUSES.into()).to_le_bytes();
        (secondary, subordinate)
    }

    /// Whether a bridge's prefetchable window is open for an address.
    fn passes(&self, hpa: Hpa) -> bool {
        let window = self.config.word(offset::PREFETCH_WINDOW.into());
        let high = |at: u16| u64::from(self.config.word(at.into())) << 32;
        let base = u64::from(window & 0xfff0) << 16 | high(offset::PREFETCH_BASE_HIGH);
        let limit = u64::from(window & 0xfff0_0000) | 0xf_ffff | high(offset::PREFETCH_LIMIT_HIGH);
        self.answers() && (base..=limit).contains(&hpa.0)
    }
}

/// What hangs below a port.
#[derive(Clone, Debug)]
pub enum Below {
    /// Nothing.
    Nothing,
    /// A device.
    Endpoint(Box<Function>),
    /// A switch.
    Switch(Box<Switch>),
}

/// A switch.
#[derive(Clone, Debug)]
pub struct Switch {
    /// Its upstream port, which has its HDM decoders.
    pub up: Function,
    /// Its downstream ports.
    pub down: Vec<Port>,
}

/// A port with what hangs below it.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its function.
    pub function: Function,
    /// What hangs below.
    pub below: Below,
}

impl Port {
    /// A port with something below it.
    pub fn new(role: Role, number: u8, below: Below) -> Port {
        Port {
            function: Function::new(FunctionSpec::port(role, number)),
            below,
        }
    }
}

impl Below {
    /// A device.
    pub fn endpoint(spec: FunctionSpec) -> Below {
        Below::Endpoint(Box::new(Function::new(spec)))
    }

    /// A switch with these things below its downstream ports, which are numbered from 1 on.
    pub fn switch(below: impl IntoIterator<Item = Below>) -> Below {
        let port = |(number, below)| Port::new(Role::DownstreamPort, 1 + number as u8, below);
        Below::Switch(Box::new(Switch {
            up: Function::new(FunctionSpec::port(Role::UpstreamPort, 0)),
            down: below.into_iter().enumerate().map(port).collect(),
        }))
    }

    /// The function at the upper end.
    fn head(&mut self) -> Option<&mut Function> {
        match self {
            Below::Nothing => None,
            Below::Endpoint(function) => Some(function),
            Below::Switch(switch) => Some(&mut switch.up),
        }
    }
}

/// A host bridge with its root ports on bus 0.
#[derive(Clone)]
pub struct HostBridge {
    /// Its registers, at an address that firmware knows (ACPI CEDT, CHBS).
    pub component: ComponentRegisters,
    /// Where they are.
    pub component_base: Hpa,
    /// Its root ports: device numbers 0, 1, and so on.
    pub ports: Vec<Port>,
}

impl HostBridge {
    /// A host bridge with these things below its root ports, which are numbered from 0 on.
    pub fn new(component_base: Hpa, below: impl IntoIterator<Item = Below>) -> HostBridge {
        let port = |(number, below)| Port::new(Role::RootPort, number as u8, below);
        HostBridge {
            component: ComponentRegisters::new(Decodes::Ports, 4),
            component_base,
            ports: below.into_iter().enumerate().map(port).collect(),
        }
    }

    /// The function of that number, by the bus numbers that were written.
    fn function(&mut self, to: Bdf) -> Option<&mut Function> {
        if to.function != 0 {
            return None;
        }
        find(&mut self.ports, 0, to)
    }

    /// Reads a configuration register; all ones where no function answers.
    ///
    /// # Errors
    /// A width or an offset that is not allowed.
    pub fn config_read(&mut self, to: Bdf, at: u16, width: u32) -> Result<u64, AccessError> {
        match self.function(to) {
            Some(function) => function.config.read(at.into(), width),
            None => Ok(all_ones(width)),
        }
    }

    /// Writes a configuration register; nothing happens where no function answers.
    ///
    /// # Errors
    /// A width or an offset that is not allowed.
    pub fn config_write(
        &mut self,
        to: Bdf,
        at: u16,
        width: u32,
        value: u64,
    ) -> Result<(), AccessError> {
        match self.function(to) {
            Some(function) => function.config.write(at.into(), width, value),
            None => Ok(()),
        }
    }

    fn own(&self, hpa: Hpa) -> Option<u64> {
        let at = hpa.0.checked_sub(self.component_base.0)?;
        (at < COMPONENT_BYTES).then_some(at)
    }

    /// Reads a register in memory; all ones where nobody answers.
    ///
    /// # Errors
    /// A width or an offset that is not allowed.
    pub fn mmio_read(&mut self, hpa: Hpa, width: u32) -> Result<u64, AccessError> {
        if let Some(at) = self.own(hpa) {
            return self.component.read(at, width);
        }
        match behind(&mut self.ports, hpa) {
            Some((function, bar, at)) => function.read(bar, at, width),
            None => Ok(all_ones(width)),
        }
    }

    /// Writes a register in memory; nothing happens where nobody answers.
    ///
    /// # Errors
    /// A width or an offset that is not allowed.
    pub fn mmio_write(&mut self, hpa: Hpa, width: u32, value: u64) -> Result<(), AccessError> {
        if let Some(at) = self.own(hpa) {
            return self.component.write(at, width, value);
        }
        match behind(&mut self.ports, hpa) {
            Some((function, bar, at)) => function.write(bar, at, width, value),
            None => Ok(()),
        }
    }

    /// Every device, depth first: the numbers by which regions name them.
    pub fn endpoints(&self) -> Vec<&Function> {
        fn collect<'a>(ports: &'a [Port], found: &mut Vec<&'a Function>) {
            for port in ports {
                match &port.below {
                    Below::Nothing => {}
                    Below::Endpoint(function) => found.push(function),
                    Below::Switch(switch) => collect(&switch.down, found),
                }
            }
        }
        let mut found = Vec::new();
        collect(&self.ports, &mut found);
        found
    }

    /// The device and the address in it that an address leads to, by the HDM decoders that are
    /// committed. `None`: some decoder on the way does not know it.
    pub fn decode(&self, hpa: Hpa) -> Option<(usize, Dpa)> {
        fn walk(ports: &[Port], number: u8, hpa: Hpa, mut first: usize) -> Option<(usize, Dpa)> {
            for port in ports {
                if port.function.spec.port_number == number {
                    return match &port.below {
                        Below::Nothing => None,
                        Below::Endpoint(device) => Some((first, device.component.dpa_of(hpa)?)),
                        Below::Switch(switch) => {
                            let number = switch.up.component.port_of(hpa)?;
                            walk(&switch.down, number, hpa, first)
                        }
                    };
                }
                first += count(&port.below);
            }
            None
        }
        fn count(below: &Below) -> usize {
            match below {
                Below::Nothing => 0,
                Below::Endpoint(_) => 1,
                Below::Switch(switch) => switch.down.iter().map(|port| count(&port.below)).sum(),
            }
        }
        walk(&self.ports, self.component.port_of(hpa)?, hpa, 0)
    }
}

fn all_ones(width: u32) -> u64 {
    u64::MAX >> (64 - 8 * width.clamp(1, 8))
}

/// The function of that number among ports on a bus and what is below them.
fn find(ports: &mut [Port], bus: u8, to: Bdf) -> Option<&mut Function> {
    if to.bus == bus {
        return Some(&mut ports.get_mut(usize::from(to.device))?.function);
    }
    for port in ports {
        let (secondary, subordinate) = port.function.buses();
        if secondary <= bus || !(secondary..=subordinate).contains(&to.bus) {
            continue;
        }
        if to.bus == secondary {
            // A link has one device.
            return port.below.head().filter(|_| to.device == 0);
        }
        let Below::Switch(switch) = &mut port.below else {
            return None;
        };
        let (secondary, subordinate) = switch.up.buses();
        if !(secondary..=subordinate).contains(&to.bus) {
            return None;
        }
        return find(&mut switch.down, secondary, to);
    }
    None
}

/// The function whose BAR holds an address, by windows and BARs, and where in it.
fn behind(ports: &mut [Port], hpa: Hpa) -> Option<(&mut Function, usize, u64)> {
    for port in ports {
        if port.function.answers()
            && let Some((bar, at)) = port.function.bar_of(hpa)
        {
            return Some((&mut port.function, bar, at));
        }
        if !port.function.passes(hpa) {
            continue;
        }
        return match &mut port.below {
            Below::Nothing => None,
            Below::Endpoint(device) => {
                let (bar, at) = device.bar_of(hpa).filter(|_| device.answers())?;
                Some((device, bar, at))
            }
            Below::Switch(switch) => {
                if let Some((bar, at)) = switch.up.bar_of(hpa).filter(|_| switch.up.answers()) {
                    return Some((&mut switch.up, bar, at));
                }
                if !switch.up.passes(hpa) {
                    return None;
                }
                behind(&mut switch.down, hpa)
            }
        };
    }
    None
}
