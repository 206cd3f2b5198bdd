//! Hierarchies of functions below the host bridges of a root complex, and how configuration and memory
//! accesses find their function in them.
//!
//! Routing is by the registers alone: bus numbers, windows and BARs as they were written. Each
//! component says of a [`Request`] whether it serves it or which port it leaves by ([`Step`]), so
//! that the components of a simulation, which share nothing, do the same one by one as a whole
//! hierarchy does here. What nobody answers reads as all ones, as a root complex makes of an
//! unsupported request (PCIe 5.0, section 2.3.2). Left out: several functions and segments, and
//! peer-to-peer.

mod complex;
mod function;
mod request;

use cxlab_engine::units::{Dpa, Hpa};

use super::component::{ComponentRegisters, Decodes};
use super::space::{COMPONENT_BYTES, FunctionSpec, PORT_DECODERS, Role};

pub use complex::{FixedWindow, HostBridgeTable, PlatformTables, RootComplex};
pub use function::Function;
pub use request::{Bdf, Place, Request, Step, all_ones};

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

    /// Does what a request asks for.
    fn serve(&mut self, request: Request) -> Step {
        let (step, ports) = match self {
            Below::Nothing => return Step::Nobody,
            Below::Endpoint(function) => return function.serve(request),
            Below::Switch(switch) => (switch.serve(request), &mut switch.down),
        };
        descend(step, ports)
    }
}

impl Switch {
    /// What the switch does with a request from above.
    pub fn serve(&mut self, request: Request) -> Step {
        let secondary = self.up.buses().0;
        match request.place {
            Place::Device(to, at) if to.device == 0 && to.function == 0 => {
                self.up.serve_config(request, at)
            }
            Place::Device(..) => Step::Nobody,
            Place::Bus(to, at) if self.up.has_below(to.bus) => {
                serve_config(&mut self.down, secondary, request, (to, at))
            }
            Place::Bus(..) => Step::Nobody,
            Place::Memory(hpa) => match self.up.serve_memory(request, hpa) {
                Some(step) => step,
                None if self.up.passes(hpa) => serve_memory(&mut self.down, request, hpa),
                None => Step::Nobody,
            },
        }
    }
}

/// A host bridge with its root ports on the first of its buses.
#[derive(Clone)]
pub struct HostBridge {
    /// Its registers, at an address that firmware knows (ACPI CEDT, CHBS).
    pub component: ComponentRegisters,
    /// Where they are.
    pub component_base: Hpa,
    /// The bus of its root ports (ACPI `_BBN`).
    pub first_bus: u8,
    /// The last bus that may be below it (ACPI `_CRS`).
    pub last_bus: u8,
    /// Its root ports: device numbers 0, 1, and so on.
    pub ports: Vec<Port>,
}

impl HostBridge {
    /// A host bridge that has all buses, with these things below its root ports, which are numbered from 0 on.
    pub fn new(component_base: Hpa, below: impl IntoIterator<Item = Below>) -> HostBridge {
        let port = |(number, below)| Port::new(Role::RootPort, number as u8, below);
        HostBridge {
            component: ComponentRegisters::new(Decodes::Ports, PORT_DECODERS),
            component_base,
            first_bus: 0,
            last_bus: u8::MAX,
            ports: below.into_iter().enumerate().map(port).collect(),
        }
    }

    /// What the host bridge does with a request of software. Requests to configuration space come
    /// as [`Place::Bus`]. [`Step::Nobody`] where the request is for another host bridge.
    fn serve(&mut self, request: Request) -> Step {
        match request.place {
            Place::Device(to, at) | Place::Bus(to, at) => {
                match (self.first_bus..=self.last_bus).contains(&to.bus) {
                    true => serve_config(&mut self.ports, self.first_bus, request, (to, at)),
                    false => Step::Nobody,
                }
            }
            Place::Memory(hpa) => {
                if let Some(at) = hpa.0.checked_sub(self.component_base.0)
                    && at < COMPONENT_BYTES
                {
                    return request.serve_component(&mut self.component, at);
                }
                serve_memory(&mut self.ports, request, hpa)
            }
        }
    }

    /// Every switch, depth first.
    fn switches(&self) -> Vec<&Switch> {
        fn collect<'a>(ports: &'a [Port], found: &mut Vec<&'a Switch>) {
            for port in ports {
                if let Below::Switch(switch) = &port.below {
                    found.push(switch);
                    collect(&switch.down, found);
                }
            }
        }
        let mut found = Vec::new();
        collect(&self.ports, &mut found);
        found
    }

    /// The same hierarchy with the registers of the next of these switches and devices instead of its own,
    /// both depth first. What hangs below these switches' ports means nothing.
    fn assembled(
        &self,
        switches: &mut dyn Iterator<Item = Switch>,
        devices: &mut dyn Iterator<Item = Function>,
    ) -> HostBridge {
        fn replace(
            ports: &mut [Port],
            switches: &mut dyn Iterator<Item = Switch>,
            devices: &mut dyn Iterator<Item = Function>,
        ) {
            for port in ports {
                match &mut port.below {
                    Below::Nothing => {}
                    Below::Endpoint(function) => {
                        if let Some(device) = devices.next() {
                            **function = device;
                        }
                    }
                    Below::Switch(switch) => {
                        if let Some(other) = switches.next() {
                            switch.up = other.up;
                            for (port, other) in switch.down.iter_mut().zip(other.down) {
                                port.function = other.function;
                            }
                        }
                        replace(&mut switch.down, switches, devices);
                    }
                }
            }
        }
        let mut whole = self.clone();
        replace(&mut whole.ports, switches, devices);
        whole
    }

    /// Every device, depth first.
    fn endpoints(&self) -> Vec<&Function> {
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

    /// The device, counted depth first, and the address in it that an address leads to, by the HDM decoders
    /// that are committed. `None`: some decoder on the way does not know it.
    fn decode(&self, hpa: Hpa) -> Option<(usize, Dpa)> {
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

/// What becomes of a request among what hangs below these ports.
fn descend(step: Step, ports: &mut [Port]) -> Step {
    match step {
        Step::Below(place, request) => match ports.get_mut(place) {
            Some(port) => port.below.serve(request),
            None => Step::Nobody,
        },
        other => other,
    }
}

/// Serves a configuration request at ports that stand on a bus.
fn serve_config(ports: &mut [Port], bus: u8, request: Request, (to, at): (Bdf, u16)) -> Step {
    if to.bus == bus {
        let port = ports.get_mut(usize::from(to.device));
        return match port.filter(|_| to.function == 0) {
            Some(port) => port.function.serve_config(request, at),
            None => Step::Nobody,
        };
    }
    let leads = |port: &Port| port.function.buses().0 > bus && port.function.has_below(to.bus);
    let Some(place) = ports.iter().position(leads) else {
        return Step::Nobody;
    };
    if to.bus != ports[place].function.buses().0 {
        return Step::Below(place, request.at(Place::Bus(to, at)));
    }
    // A link has one device.
    match to.device {
        0 => Step::Below(place, request.at(Place::Device(to, at))),
        _ => Step::Nobody,
    }
}

/// Serves a memory request at ports, by their BARs and windows.
fn serve_memory(ports: &mut [Port], request: Request, hpa: Hpa) -> Step {
    for (place, port) in ports.iter_mut().enumerate() {
        if let Some(step) = port.function.serve_memory(request, hpa) {
            return step;
        }
        if port.function.passes(hpa) {
            return Step::Below(place, request);
        }
    }
    Step::Nobody
}
