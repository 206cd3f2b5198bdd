//! Software on a host, and the registers of its root complex.

use cxlab_engine::Ctx;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_link::{BufferId, Parcel};
use cxlab_plan::Plan;
use cxlab_protocol::io::enumerate::{
    Access, EnumerateError, Enumeration, EnumerationLog, EnumerationStep, Phase, Target,
};
use cxlab_protocol::io::packet::{self, CompletionResult};
use cxlab_protocol::io::tree::{RegisterPlace, Request, RootComplex, Step, all_ones};
use cxlab_protocol::{Message, PortId};
use cxlab_scenario::EnumerationParams;

use super::super::Inner;
use super::super::tokens::CompletionWake;
use super::EnumerationResult;
use super::answers::PendingMessages;

/// The wake-up token of software.
const SOFTWARE: u32 = 0;
/// The wake-up token of the root complex's own registers.
const ROOT_COMPLEX: u32 = 1;

/// Software that enumerates, one access after the other.
pub(crate) struct Software {
    id: PortId,
    params: EnumerationParams,
    /// Constant times before and behind the host's links, together.
    constant: Picos,
    code: Enumeration,
    /// The root complex, without the components below its ports.
    root: RootComplex,
    roots: Vec<(u16, PortId)>,
    outgoing: PendingMessages,
    /// The access in progress, and its response if it went to a register of the root complex.
    access: Option<Access>,
    local: Option<Step>,
    since: SimTime,
    phases: [Picos; Phase::ALL.len()],
    result: Option<Result<EnumerationLog, EnumerateError>>,
}

fn request(access: &Access) -> Request {
    Request {
        place: match access.target {
            Target::Config(to, at) => RegisterPlace::Bus(to, at),
            Target::Memory(hpa) => RegisterPlace::Memory(hpa),
        },
        width: access.width.into(),
        write: access.write.then_some(access.value),
    }
}

/// Result of an access that ends as unsupported request: a read returns all ones.
fn unsupported(access: &Access) -> u64 {
    match access.write {
        true => access.value,
        false => all_ones(access.width.into()),
    }
}

impl Software {
    /// Software of a host before its first access. `constant` is the time of the wires to and from it.
    pub(crate) fn new(
        plan: &Plan,
        host: usize,
        params: &EnumerationParams,
        constant: Picos,
    ) -> Software {
        let hierarchy = &plan.hierarchies[host];
        let root = hierarchy.root.clone();
        Software {
            id: PortId(host as u16),
            params: params.clone(),
            constant,
            code: Enumeration::new(root.tables(), hierarchy.goal.clone()),
            root,
            roots: hierarchy.roots.clone(),
            outgoing: PendingMessages::new(Picos::ZERO),
            access: None,
            local: None,
            since: SimTime::ZERO,
            phases: [Picos::ZERO; Phase::ALL.len()],
            result: None,
        }
    }

    /// Number of messages to be sent, plus one while the enumeration has not ended.
    pub(crate) fn holds(&self) -> u64 {
        u64::from(self.result.is_none()) + self.outgoing.holds()
    }

    /// The result of the enumeration, and the root complex with its registers.
    pub(crate) fn result(self) -> Result<(EnumerationResult, RootComplex), String> {
        match self.result {
            Some(Ok(log)) => Ok((
                EnumerationResult {
                    log,
                    duration: self.since - SimTime::ZERO,
                    phases: self.phases,
                },
                self.root,
            )),
            Some(Err(error)) => Err(error.to_string()),
            None => Err("it has not ended".to_owned()),
        }
    }

    pub(crate) fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.go_on(ctx, None);
    }

    /// Passes the result of an access to the software and runs it up to its next access.
    fn go_on(&mut self, ctx: &mut Ctx<'_, Parcel>, answer: Option<Result<u64, EnumerateError>>) {
        let now = ctx.now();
        if let Some(done) = self.access.take() {
            self.phases[done.phase as usize] += now - self.since;
        }
        self.since = now;
        match self.code.next(answer) {
            EnumerationStep::Access(access) => {
                self.access = Some(access);
                ctx.wake_at(now + self.params.software_time, SOFTWARE);
            }
            EnumerationStep::Done(result) => self.result = Some(result),
        }
    }

    /// Performs the access in progress, after the time of software.
    fn act(&mut self, ctx: &mut Ctx<'_, Parcel>, node: &mut impl Inner) {
        let Some(access) = self.access else { return };
        let asked = request(&access);
        let step = self.root.serve(asked);
        if let Step::Below(root, request) = step {
            let (link, behind) = self.roots[root];
            let message = packet::message(request, ctx.now().0, self.id, behind);
            self.outgoing.send(ctx, node, link, message);
        } else if !packet::is_posted(&asked) {
            self.local = Some(step);
            ctx.wake_at(ctx.now() + self.params.register_time, ROOT_COMPLEX);
        }
        if packet::is_posted(&asked) {
            self.go_on(ctx, Some(Ok(access.value)));
        }
    }

    /// Completes an access to a register of the root complex.
    fn answered(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let (Some(access), Some(step)) = (self.access, self.local.take()) else {
            return;
        };
        let answer = match step {
            Step::Done(result) => result.map_err(EnumerateError::Access),
            Step::Below(..) | Step::Nobody => Ok(unsupported(&access)),
        };
        self.go_on(ctx, Some(answer));
    }

    pub(crate) fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, node: &mut impl Inner, token: u32) {
        match token {
            SOFTWARE => self.act(ctx, node),
            ROOT_COMPLEX => self.answered(ctx),
            _ => {
                if let Some(wake) = CompletionWake::of(token) {
                    self.outgoing.wake(ctx, node, wake);
                }
            }
        }
    }

    pub(crate) fn receive(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        node: &mut impl Inner,
        port: u16,
        parcel: &Parcel,
    ) {
        let link = node.port_mut(port);
        let credited = link.receive(parcel);
        if let Some(message) = &parcel.message {
            link.release(ctx, BufferId::of(message.channel(), message.vc));
            self.complete(ctx, message);
        }
        if credited {
            self.outgoing.pump(ctx, node, port);
        }
    }

    fn complete(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let (Some(access), Some(answer)) = (self.access, packet::answer(message)) else {
            unreachable!("while hosts enumerate, they get completions alone");
        };
        assert_eq!(
            message.stages.total() + self.constant,
            ctx.now() - SimTime(message.issued_ps),
            "stages of an access sum to its latency"
        );
        let value = match answer {
            CompletionResult::Done(_) if access.write => Ok(access.value),
            CompletionResult::Done(value) => Ok(value),
            CompletionResult::Unsupported => Ok(unsupported(&access)),
            CompletionResult::Aborted => Err(EnumerateError::Aborted(access.target)),
        };
        self.go_on(ctx, Some(value));
    }
}
