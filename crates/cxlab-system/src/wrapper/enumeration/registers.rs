//! Components that respond from their registers: switches and devices.

use cxlab_engine::Ctx;
use cxlab_engine::units::Picos;
use cxlab_link::{BufferId, Parcel};
use cxlab_plan::Plan;
use cxlab_protocol::io::packet;
use cxlab_protocol::io::tree::{Function, Request, Step, Switch};
use cxlab_protocol::{Message, PortId};

use super::super::Inner;
use super::super::tokens::CompletionWake;
use super::answers::PendingMessages;

/// The virtual switches in a switch, one for each host above it.
pub(crate) struct VirtualSwitches {
    /// Registers by host, without the components below the ports.
    pub(crate) registers: Vec<(PortId, Switch)>,
    /// By host and downstream port: an edge port behind it.
    towards: Vec<Vec<PortId>>,
    pub(crate) answers: PendingMessages,
    switching: Picos,
}

impl VirtualSwitches {
    /// Registers of a switch after reset.
    pub(crate) fn new(plan: &Plan, switch: usize, switching: Picos, time: Picos) -> Self {
        let mut made = VirtualSwitches {
            registers: Vec::new(),
            towards: Vec::new(),
            answers: PendingMessages::new(time),
            switching,
        };
        for (host, hierarchy) in plan.hierarchies.iter().enumerate() {
            let all = hierarchy.switches.iter().zip(hierarchy.root.switches());
            for (planned, registers) in all.filter(|(planned, _)| planned.switch == switch) {
                let host = PortId(host as u16);
                made.registers.push((host, registers.clone()));
                made.towards.push(planned.towards.clone());
            }
        }
        made
    }

    /// Serves a request: the number of its virtual switch, and the next step; `None` if it is for no virtual switch.
    fn serve(&mut self, message: &Message) -> Option<(usize, Step)> {
        let request = packet::request(message)?;
        let mut hosts = self.registers.iter();
        let number = hosts.position(|(host, _)| *host == message.source)?;
        Some((number, self.registers[number].1.serve(request)))
    }

    pub(crate) fn receive(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        node: &mut impl Inner,
        port: u16,
        parcel: &Parcel,
    ) {
        let served = parcel.message.as_ref().and_then(|message| {
            let (number, step) = self.serve(message)?;
            Some((*message, number, step))
        });
        let mut parcel = *parcel;
        let mut answer = None;
        match served {
            Some((message, number, Step::Below(place, request))) => {
                let towards = self.towards[number][place];
                parcel.message = Some(forwarded(message, request, towards));
            }
            Some((message, _, step)) => {
                parcel.message = None;
                answer = Some((message, step));
            }
            None => {}
        }
        *ctx.received_mut() = parcel;
        node.arrive(ctx, port);
        if let Some((message, step)) = answer {
            release(ctx, node, port, &message);
            if let Some(mut completion) = packet::completion(&message, step) {
                completion.stages.switch += self.switching.0 as u32;
                self.answers.answer(ctx, port, completion);
            }
        }
        self.answers.pump(ctx, node, port);
    }

    pub(crate) fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, node: &mut impl Inner, token: u32) {
        match CompletionWake::of(token) {
            Some(wake) => self.answers.wake(ctx, node, wake),
            None => node.wake(ctx, token),
        }
    }
}

/// A request forwarded to the component below a port.
fn forwarded(mut message: Message, request: Request, towards: PortId) -> Message {
    packet::put(&mut message, request);
    message.destination = towards;
    message
}

/// Returns the credit of a message that has left its receive buffer.
fn release(ctx: &mut Ctx<'_, Parcel>, node: &mut impl Inner, port: u16, message: &Message) {
    let buffer = BufferId::of(message.channel(), message.vc);
    node.port_mut(port).release(ctx, buffer);
}

/// The logical devices of a device, one for each host that it is bound to.
pub(crate) struct LogicalDevices {
    /// Registers of the logical device of each host.
    pub(crate) registers: Vec<(PortId, Function)>,
    pub(crate) answers: PendingMessages,
    constant: Picos,
}

impl LogicalDevices {
    /// Registers of a device after reset. `constant` is the time of the wires to and from it.
    pub(crate) fn new(plan: &Plan, device: usize, constant: Picos, time: Picos) -> Self {
        let mut registers = Vec::new();
        for (host, hierarchy) in plan.hierarchies.iter().enumerate() {
            let all = hierarchy.devices.iter().zip(hierarchy.root.endpoints());
            for (_, function) in all.filter(|(planned, _)| **planned == device) {
                registers.push((PortId(host as u16), function.clone()));
            }
        }
        LogicalDevices {
            registers,
            answers: PendingMessages::new(time),
            constant,
        }
    }

    fn serve(&mut self, message: &Message) -> Step {
        let mut all = self.registers.iter_mut();
        let known = all.find(|(host, _)| *host == message.source);
        match (known, packet::request(message)) {
            (Some((_, function)), Some(request)) => function.serve(request),
            _ => Step::Nobody,
        }
    }

    pub(crate) fn receive(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        node: &mut impl Inner,
        port: u16,
        parcel: &Parcel,
    ) {
        let credited = node.port_mut(port).receive(parcel);
        if let Some(message) = &parcel.message {
            release(ctx, node, port, message);
            let step = self.serve(message);
            if let Some(mut completion) = packet::completion(message, step) {
                completion.stages.device += self.constant.0 as u32;
                self.answers.answer(ctx, port, completion);
            }
        }
        if credited {
            self.answers.pump(ctx, node, port);
        }
    }
}
