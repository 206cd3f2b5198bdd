//! Hierarchies of functions below the host bridges of a root complex, and how configuration and
//! memory accesses reach a function.
//!
//! Routing depends on the registers alone: bus numbers, windows and BARs as software wrote them.
//! Each component either serves a [`Request`] or names the port through which the request leaves
//! ([`Step`]). The components of a simulation, which share nothing, therefore do together what a
//! whole hierarchy does here. A read that no component answers returns all ones, as a root complex
//! does for an unsupported request (PCIe 5.0, section 2.3.2). Left out: several functions and
//! segments, and peer-to-peer.

mod complex;
mod function;
mod request;

use cxlab_engine::units::{Dpa, Hpa};

use super::component::{ComponentRegisters, Decodes};
use super::space::{COMPONENT_BYTES, FunctionSpec, PORT_DECODERS, Role};

pub use complex::{FixedWindow, HostBridgeTable, PlatformTables, RootComplex};
pub use function::Function;
pub use request::{Bdf, RegisterPlace, Request, Step, all_ones};

/// The component below a port.
#[derive(Clone, Debug)]
pub enum ComponentBelow {
    /// No component is connected.
    Nothing,
    /// A device with one function.
    Endpoint(Box<Function>),
    /// A switch with its downstream ports.
    Switch(Box<Switch>),
}

/// A switch and the hierarchies below it.
#[derive(Clone, Debug)]
pub struct Switch {
    /// The upstream port, which has the switch's HDM decoders.
    pub up: Function,
    /// The downstream ports.
    pub down: Vec<Port>,
}

/// A port and the component below it.
#[derive(Clone, Debug)]
pub struct Port {
    /// Function of the port.
    pub function: Function,
    /// The component below the port.
    pub below: ComponentBelow,
}

impl Port {
    /// A port with a component below it.
    pub fn new(role: Role, number: u8, below: ComponentBelow) -> Port {
        Port {
            function: Function::new(FunctionSpec::port(role, number)),
            below,
        }
    }
}

impl ComponentBelow {
    /// A device with one function.
    pub fn endpoint(spec: FunctionSpec) -> ComponentBelow {
        ComponentBelow::Endpoint(Box::new(Function::new(spec)))
    }

    /// A switch with these components below its downstream ports, which are numbered from 1 on.
    pub fn switch(below: impl IntoIterator<Item = ComponentBelow>) -> ComponentBelow {
        let port = |(number, below)| Port::new(Role::DownstreamPort, 1 + number as u8, below);
        ComponentBelow::Switch(Box::new(Switch {
            up: Function::new(FunctionSpec::port(Role::UpstreamPort, 0)),
            down: below.into_iter().enumerate().map(port).collect(),
        }))
    }

    /// Serves a request, here or further below.
    fn serve(&mut self, request: Request) -> Step {
        let (step, ports) = match self {
            ComponentBelow::Nothing => return Step::Nobody,
            ComponentBelow::Endpoint(function) => return function.serve(request),
            ComponentBelow::Switch(switch) => (switch.serve(request), &mut switch.down),
        };
        descend(step, ports)
    }
}

impl Switch {
    /// Serves a request that comes from above the switch, or names the downstream port
    /// through which it leaves.
    pub fn serve(&mut self, request: Request) -> Step {
        let secondary = self.up.buses().0;
        match request.place {
            RegisterPlace::Device(to, at) if to.device == 0 && to.function == 0 => {
                self.up.serve_config(request, at)
            }
            RegisterPlace::Device(..) => Step::Nobody,
            RegisterPlace::Bus(to, at) if self.up.has_below(to.bus) => {
                serve_config(&mut self.down, secondary, request, (to, at))
            }
            RegisterPlace::Bus(..) => Step::Nobody,
            RegisterPlace::Memory(hpa) => match self.up.serve_memory(request, hpa) {
                Some(step) => step,
                None if self.up.passes(hpa) => serve_memory(&mut self.down, request, hpa),
                None => Step::Nobody,
            },
        }
    }
}

/// A host bridge. Its root ports are on the first of its buses.
#[derive(Clone)]
pub struct HostBridge {
    /// The component registers, at an address that firmware knows (ACPI CEDT, CHBS).
    pub component: ComponentRegisters,
    /// Address of the component registers.
    pub component_base: Hpa,
    /// The bus of the root ports (ACPI `_BBN`).
    pub first_bus: u8,
    /// The last bus that may be below the host bridge (ACPI `_CRS`).
    pub last_bus: u8,
    /// The root ports: device numbers 0, 1, and so on.
    pub ports: Vec<Port>,
}

impl HostBridge {
    /// A host bridge that has all buses, with these components below its root ports, which are
    /// numbered from 0 on.
    pub fn new(component_base: Hpa, below: impl IntoIterator<Item = ComponentBelow>) -> HostBridge {
        let port = |(number, below)| Port::new(Role::RootPort, number as u8, below);
        HostBridge {
            component: ComponentRegisters::new(Decodes::Ports, PORT_DECODERS),
            component_base,
            first_bus: 0,
            last_bus: u8::MAX,
            ports: below.into_iter().enumerate().map(port).collect(),
        }
    }

    /// Serves a request of software, or names the root port through which it leaves. Requests to
    /// configuration space come as [`RegisterPlace::Bus`]. Returns [`Step::Nobody`] if the request is for
    /// another host bridge.
    fn serve(&mut self, request: Request) -> Step {
        match request.place {
            RegisterPlace::Device(to, at) | RegisterPlace::Bus(to, at) => {
                match (self.first_bus..=self.last_bus).contains(&to.bus) {
                    true => serve_config(&mut self.ports, self.first_bus, request, (to, at)),
                    false => Step::Nobody,
                }
            }
            RegisterPlace::Memory(hpa) => {
                if let Some(at) = hpa.0.checked_sub(self.component_base.0)
                    && at < COMPONENT_BYTES
                {
                    return request.serve_component(&mut self.component, at);
                }
                serve_memory(&mut self.ports, request, hpa)
            }
        }
    }

    /// All switches, depth first.
    fn switches(&self) -> Vec<&Switch> {
        fn collect<'a>(ports: &'a [Port], found: &mut Vec<&'a Switch>) {
            for port in ports {
                if let ComponentBelow::Switch(switch) = &port.below {
                    found.push(switch);
                    collect(&switch.down, found);
                }
            }
        }
        let mut found = Vec::new();
        collect(&self.ports, &mut found);
        found
    }

    /// A copy of the hierarchy that has the registers of these switches and devices, both taken
    /// depth first, instead of its own. The components below these switches' ports are ignored.
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
                    ComponentBelow::Nothing => {}
                    ComponentBelow::Endpoint(function) => {
                        if let Some(device) = devices.next() {
                            **function = device;
                        }
                    }
                    ComponentBelow::Switch(switch) => {
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

    /// All devices, depth first.
    fn endpoints(&self) -> Vec<&Function> {
        fn collect<'a>(ports: &'a [Port], found: &mut Vec<&'a Function>) {
            for port in ports {
                match &port.below {
                    ComponentBelow::Nothing => {}
                    ComponentBelow::Endpoint(function) => found.push(function),
                    ComponentBelow::Switch(switch) => collect(&switch.down, found),
                }
            }
        }
        let mut found = Vec::new();
        collect(&self.ports, &mut found);
        found
    }

    /// The device, counted depth first, and the DPA that an address leads to by the committed HDM
    /// decoders. `None` if a decoder on the path does not decode the address.
    fn decode(&self, hpa: Hpa) -> Option<(usize, Dpa)> {
        fn walk(ports: &[Port], number: u8, hpa: Hpa, mut first: usize) -> Option<(usize, Dpa)> {
            for port in ports {
                if port.function.spec.port_number == number {
                    return match &port.below {
                        ComponentBelow::Nothing => None,
                        ComponentBelow::Endpoint(device) => {
                            Some((first, device.component.dpa_of(hpa)?))
                        }
                        ComponentBelow::Switch(switch) => {
                            let number = switch.up.component.port_of(hpa)?;
                            walk(&switch.down, number, hpa, first)
                        }
                    };
                }
                first += count(&port.below);
            }
            None
        }
        fn count(below: &ComponentBelow) -> usize {
            match below {
                ComponentBelow::Nothing => 0,
                ComponentBelow::Endpoint(_) => 1,
                ComponentBelow::Switch(switch) => {
                    switch.down.iter().map(|port| count(&port.below)).sum()
                }
            }
        }
        walk(&self.ports, self.component.port_of(hpa)?, hpa, 0)
    }
}

/// Continues a request that leaves through one of these ports, in the component below that port.
fn descend(step: Step, ports: &mut [Port]) -> Step {
    match step {
        Step::Below(place, request) => match ports.get_mut(place) {
            Some(port) => port.below.serve(request),
            None => Step::Nobody,
        },
        other => other,
    }
}

/// Serves a configuration request at the ports of a bus.
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
        return Step::Below(place, request.at(RegisterPlace::Bus(to, at)));
    }
    // A link has one device.
    match to.device {
        0 => Step::Below(place, request.at(RegisterPlace::Device(to, at))),
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
