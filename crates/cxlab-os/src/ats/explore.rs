//! Both tables against each other, exhaustively, for one page and one or two devices.
//!
//! Messages stay in flight for any time and overtake each other in any way, which is more than PCIe
//! allows. Accesses and evictions are bounded. Three kinds of events are optional and unbounded:
//! moves of the page, samples of the page (its entry is not present until the next fault) and
//! sweeps (every translation of the process is invalidated). Two checks reduce liveness to single
//! states. In a state without a pending obligation, no access or message may be missing. And the
//! Translation Requests that an access waits for are counted and bounded.

use std::collections::BTreeSet;

use super::{device, home};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ModelMessage {
    TranslationRequest,
    /// With the frame, if the page was present when the walk read it.
    Completion(Option<ModelFrame>),
    PageRequest,
    PageReady,
    Invalidate,
    Invalidated,
    /// An invalidation that no move waits for.
    Sweep,
    Block,
    Blocked,
    Resume,
    Resumed,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
struct ModelDevice {
    page: device::DevicePageState,
    cached: Option<ModelFrame>,
    /// Frames of the accesses in flight.
    uses: Vec<ModelFrame>,
    waiting: u8,
    /// Translation Requests since accesses began to wait.
    requests: u8,
    /// Whether the invalidation in progress is a sweep.
    sweeping: bool,
    accesses: u8,
    evictions: u8,
    done: u8,
    /// Messages in flight to or from this device, sorted.
    messages: Vec<ModelMessage>,
    held: bool,
    /// Whether the device was told that the page is present, and has not got the translation since.
    awaited: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
struct ModelState {
    devices: Vec<ModelDevice>,
    page: home::HomePageState,
    /// The frame in the page table, if the entry is present.
    entry: Option<ModelFrame>,
    /// The frame of the page, present or moving.
    frame: Option<ModelFrame>,
    /// True if moves of the page are explored.
    moves: bool,
    /// Whether the page was sampled: its entry is not present until the next fault.
    sampled: bool,
    /// Whether that fault wants the page to move, even if a device was told that
    /// the page is present.
    promoted: bool,
    copying: bool,
    faulting: bool,
}

/// A frame of the page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ModelFrame {
    /// The page's present frame, or the last one that it got.
    Last,
    /// A frame that other pages may use.
    Retired,
}

/// The device's table, or a variant with a mistake.
type DeviceStep = fn(
    device::DevicePageState,
    device::Event,
) -> Option<(Vec<device::Action>, device::DevicePageState)>;

/// Participants of an exploration, and their rules.
#[derive(Clone, Copy)]
struct ModelConfig {
    devices: usize,
    /// Number of accesses of each device.
    accesses: u8,
    /// Number of evictions of each device.
    evictions: u8,
    /// True if moves of the page are explored.
    moves: bool,
    /// Whether translations of the whole process may be invalidated.
    sweeps: bool,
    step: DeviceStep,
    /// Whether a page stays, after a device was told of it, until the device has looked it up.
    stays: bool,
    /// Maximum number of Translation Requests that an access may wait for.
    most_requests: u8,
}

impl ModelConfig {
    const fn of(devices: usize, accesses: u8) -> ModelConfig {
        ModelConfig {
            devices,
            accesses,
            evictions: 0,
            moves: true,
            sweeps: true,
            step: as_written,
            stays: true,
            most_requests: MOST_REQUESTS,
        }
    }
}

/// Bound of the Translation Requests that an access waits for: the first, and one
/// after the page fault.
const MOST_REQUESTS: u8 = super::MOST_REQUESTS as u8;

fn as_written(
    state: device::DevicePageState,
    event: device::Event,
) -> Option<(Vec<device::Action>, device::DevicePageState)> {
    let (row, next) = device::step(state, event)?;
    Some((row.actions.to_vec(), next))
}

impl ModelState {
    fn send(&mut self, device: usize, message: ModelMessage) {
        let messages = &mut self.devices[device].messages;
        messages.push(message);
        messages.sort_unstable();
    }

    /// Steps a device; `None` if the event has to wait. `Err` if a law is violated.
    fn device(
        &self,
        at: usize,
        event: device::Event,
        frame: Option<ModelFrame>,
        system: &ModelConfig,
    ) -> Result<Option<ModelState>, String> {
        use device::Action as A;
        let Some((actions, next)) = (system.step)(self.devices[at].page, event) else {
            return Ok(None);
        };
        let mut world = self.clone();
        world.devices[at].page = next;
        let mut replay = 0;
        for action in actions {
            let one = &mut world.devices[at];
            match action {
                A::Use => {
                    let frame = one.cached.ok_or("a hit without translation")?;
                    if frame == ModelFrame::Retired {
                        return Err("a frame is used after its invalidation".into());
                    }
                    one.uses.push(frame);
                    one.uses.sort_unstable();
                }
                A::Wait => one.waiting += 1,
                A::Request => {
                    one.requests += 1;
                    if one.requests > system.most_requests {
                        return Err(format!("{} requests for one access", one.requests));
                    }
                    world.send(at, ModelMessage::TranslationRequest);
                }
                A::PageRequest => world.send(at, ModelMessage::PageRequest),
                A::Fill => one.cached = frame,
                A::Drop => one.cached = None,
                A::Replay => {
                    one.requests = 0;
                    replay = std::mem::take(&mut one.waiting);
                }
                A::Fail => return Err("an access failed".into()),
                A::Acknowledge if std::mem::take(&mut one.sweeping) => {}
                A::Acknowledge => world.send(at, ModelMessage::Invalidated),
                A::AckBlock => world.send(at, ModelMessage::Blocked),
                A::AckResume => world.send(at, ModelMessage::Resumed),
            }
        }
        for _ in 0..replay {
            world = world
                .device(at, device::Event::Access, None, system)?
                .ok_or("a replayed access has no row")?;
        }
        Ok(Some(world))
    }

    fn home(&self, from: usize, event: home::Event) -> Result<Option<ModelState>, String> {
        use home::Action as A;
        let Some((row, next)) = home::step(self.page, event) else {
            return Ok(None);
        };
        let mut world = self.clone();
        world.page = next;
        for action in row.actions {
            match action {
                A::Walk => {
                    world.devices[from].awaited &= self.entry.is_none();
                    world.send(from, ModelMessage::Completion(self.entry));
                }
                A::Hold => world.devices[from].held = true,
                A::Fault => world.faulting = true,
                A::Answer => world.tell(from),
                A::AnswerHeld => {
                    for at in 0..world.devices.len() {
                        if std::mem::take(&mut world.devices[at].held) {
                            world.tell(at);
                        }
                    }
                }
                A::Block => world.broadcast(ModelMessage::Block),
                A::Suspend => {
                    world.entry = None;
                    world.sampled = false;
                }
                A::FlushIommu => {}
                A::Invalidate => world.broadcast(ModelMessage::Invalidate),
                A::Copy => {
                    world.frame.ok_or("a page without frame moves")?;
                    world.copying = true;
                    if world.devices.iter().any(|one| !one.uses.is_empty()) {
                        return Err("a frame is in use when it is copied".into());
                    }
                    world.retire();
                }
                A::Install => {
                    world.frame = Some(ModelFrame::Last);
                    world.entry = world.frame;
                }
                A::Resume => world.broadcast(ModelMessage::Resume),
            }
        }
        Ok(Some(world))
    }

    fn tell(&mut self, at: usize) {
        self.devices[at].awaited = true;
        self.send(at, ModelMessage::PageReady);
    }

    /// Retires the page's frame, which other pages may use from now on.
    fn retire(&mut self) {
        self.frame = Some(ModelFrame::Retired);
        for one in &mut self.devices {
            one.cached = one.cached.map(|_| ModelFrame::Retired);
            for message in &mut one.messages {
                if let ModelMessage::Completion(Some(frame)) = message {
                    *frame = ModelFrame::Retired;
                }
            }
            one.messages.sort_unstable();
        }
    }

    fn broadcast(&mut self, message: ModelMessage) {
        (0..self.devices.len()).for_each(|at| self.send(at, message));
    }

    /// Successor state after the arrival of a message.
    fn deliver(
        &self,
        at: usize,
        message: ModelMessage,
        system: &ModelConfig,
    ) -> Result<Option<ModelState>, String> {
        use device::Event as D;
        use home::Event as H;
        let mut world = self.clone();
        let messages = &mut world.devices[at].messages;
        if let Some(place) = messages.iter().position(|other| *other == message) {
            messages.remove(place);
        }
        match message {
            ModelMessage::TranslationRequest => world.home(at, H::TranslationRequest),
            ModelMessage::PageRequest => world.home(at, H::PageRequest),
            ModelMessage::Blocked => world.home(at, H::Blocked),
            ModelMessage::Invalidated => world.home(at, H::Invalidated),
            ModelMessage::Resumed => world.home(at, H::Resumed),
            ModelMessage::Completion(None) => world.device(at, D::NotPresent, None, system),
            ModelMessage::Completion(frame) => world.device(at, D::Granted, frame, system),
            ModelMessage::PageReady => world.device(at, D::PageReady, None, system),
            ModelMessage::Invalidate => world.device(at, D::Invalidate, None, system),
            ModelMessage::Sweep => {
                world.devices[at].sweeping = true;
                world.device(at, D::Invalidate, None, system)
            }
            ModelMessage::Block => world.device(at, D::Block, None, system),
            ModelMessage::Resume => world.device(at, D::Resume, None, system),
        }
    }

    /// Successor states that must be reached eventually.
    fn duties(&self, system: &ModelConfig) -> Result<Vec<ModelState>, String> {
        let mut all = Vec::new();
        for at in 0..self.devices.len() {
            let one = &self.devices[at];
            let mut messages = one.messages.clone();
            messages.dedup();
            for message in messages {
                all.extend(self.deliver(at, message, system)?);
            }
            if one.accesses > 0 {
                let mut world = self.clone();
                world.devices[at].accesses -= 1;
                all.extend(world.device(at, device::Event::Access, None, system)?);
            }
            for place in 0..one.uses.len() {
                let mut world = self.clone();
                world.devices[at].uses.remove(place);
                world.devices[at].done += 1;
                let next = world.device(at, device::Event::Done, None, system)?;
                all.push(next.ok_or("an access cannot end")?);
            }
        }
        if self.copying {
            let world = ModelState {
                copying: false,
                ..self.clone()
            };
            all.extend(world.home(0, home::Event::Copied)?);
        }
        if self.faulting {
            let frame = Some(ModelFrame::Last);
            let world = ModelState {
                faulting: false,
                sampled: false,
                promoted: self.sampled,
                entry: frame,
                frame,
                ..self.clone()
            };
            all.extend(world.home(0, home::Event::Faulted)?);
        }
        Ok(all)
    }

    /// Successor states by optional events.
    fn chances(&self, system: &ModelConfig) -> Result<Vec<ModelState>, String> {
        let mut all = Vec::new();
        for at in 0..self.devices.len() {
            let one = &self.devices[at];
            if one.evictions > 0 {
                let mut world = self.clone();
                world.devices[at].evictions -= 1;
                all.extend(world.device(at, device::Event::Evict, None, system)?);
            }
            if system.sweeps && !one.sweeping && !one.messages.contains(&ModelMessage::Sweep) {
                let mut world = self.clone();
                world.send(at, ModelMessage::Sweep);
                all.push(world);
            }
        }
        let stable = self.page.phase == home::HomePagePhase::Stable && self.frame.is_some();
        let stays = system.stays && self.devices.iter().any(|one| one.awaited);
        if stable && self.moves && (self.promoted || !stays) {
            let world = ModelState {
                promoted: false,
                ..self.clone()
            };
            all.extend(world.home(0, home::Event::Move(self.devices.len() as u8))?);
        }
        if stable && !stays && !self.sampled {
            let world = ModelState {
                sampled: true,
                entry: None,
                ..self.clone()
            };
            all.push(world);
        }
        Ok(all)
    }

    fn check_end(&self, accesses: u8) -> Result<(), String> {
        let settled = self.page == home::HomePageState::default();
        let each = |one: &ModelDevice| {
            one.done == accesses && one.waiting == 0 && one.messages.is_empty() && !one.page.waiting
        };
        if settled && self.devices.iter().all(each) {
            Ok(())
        } else {
            Err(format!("something is lost: {self:?}"))
        }
    }
}

/// Explores every reachable state, and returns their number.
fn explore(system: ModelConfig) -> Result<usize, String> {
    let one = ModelDevice {
        accesses: system.accesses,
        evictions: system.evictions,
        ..ModelDevice::default()
    };
    let start = ModelState {
        devices: vec![one; system.devices],
        moves: system.moves,
        ..ModelState::default()
    };
    let mut seen = BTreeSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some(world) = open.pop() {
        let mut next = world.duties(&system)?;
        if next.is_empty() {
            world.check_end(system.accesses)?;
        }
        next.extend(world.chances(&system)?);
        for next in next {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn devices_never_use_what_was_invalidated_and_lose_nothing() {
    let one = ModelConfig {
        evictions: 2,
        ..ModelConfig::of(1, 4)
    };
    for system in [one, ModelConfig::of(2, 2)] {
        let (devices, states) = (system.devices, explore(system).unwrap());
        assert!(
            states > 1_000,
            "{devices} devices: {states} states are too few"
        );
    }
}

/// Explores rules with one mistake, and returns the violation.
fn caught(system: ModelConfig) -> String {
    explore(system).expect_err("the mistake was not found")
}

#[test]
fn the_bound_of_the_requests_that_an_access_waits_for_is_reached() {
    let error = caught(ModelConfig {
        most_requests: MOST_REQUESTS - 1,
        ..ModelConfig::of(1, 2)
    });
    assert!(error.contains("requests for one access"), "{error}");
}

#[test]
fn a_page_must_stay_until_whoever_was_told_of_it_has_looked_it_up() {
    for moves in [false, true] {
        let error = caught(ModelConfig {
            stays: false,
            moves,
            most_requests: 50,
            ..ModelConfig::of(1, 1)
        });
        assert!(error.contains("51 requests for one access"), "{error}");
    }
}

#[test]
fn a_completion_that_an_invalidation_overtook_must_serve_those_who_wait() {
    use device::{Action, DevicePagePhase as P, DevicePageState, Event as E};
    let error = caught(ModelConfig {
        moves: false,
        most_requests: 50,
        step: |state, event| {
            let (phase, action) = match (state.phase, event) {
                // Acknowledged at once, so the completion would have to be dropped.
                (P::Asked, E::Invalidate) => (P::Draining, Action::Acknowledge),
                (P::Draining, E::Granted | E::NotPresent) => (P::Asked, Action::Request),
                _ => return as_written(state, event),
            };
            Some((vec![action], DevicePageState { phase, ..state }))
        },
        ..ModelConfig::of(1, 1)
    });
    assert!(error.contains("51 requests for one access"), "{error}");
}

#[test]
fn a_block_must_wait_for_a_completion_under_way() {
    use device::{Action, DevicePagePhase as P, DevicePageState, Event as E};
    let error = caught(ModelConfig {
        step: |state, event| {
            let (blocked, action) = match (state.phase, event) {
                (P::Asked, E::Block) => (true, Action::AckBlock),
                (P::Asked, E::Invalidate) => (state.blocked, Action::Acknowledge),
                (P::Asked, E::Resume) => (false, Action::AckResume),
                _ => return as_written(state, event),
            };
            Some((vec![action], DevicePageState { blocked, ..state }))
        },
        ..ModelConfig::of(1, 2)
    });
    assert!(error.contains("used after its invalidation"), "{error}");
}

#[test]
fn an_invalidation_must_wait_for_the_accesses_under_way() {
    let error = caught(ModelConfig {
        sweeps: false,
        step: |state, event| {
            let (mut actions, next) = as_written(state, event)?;
            if event == device::Event::Invalidate && next.phase == device::DevicePagePhase::Draining
            {
                actions.push(device::Action::Acknowledge);
            }
            Some((actions, next))
        },
        ..ModelConfig::of(1, 2)
    });
    assert!(error.contains("in use when it is copied"), "{error}");
}

#[test]
fn accesses_that_waited_through_the_window_must_ask_afterwards() {
    let error = caught(ModelConfig {
        step: |state, event| {
            let (mut actions, mut next) = as_written(state, event)?;
            if event == device::Event::Resume && state.phase == device::DevicePagePhase::Empty {
                next.phase = device::DevicePagePhase::Empty;
                actions.retain(|action| *action != device::Action::Request);
            }
            Some((actions, next))
        },
        ..ModelConfig::of(1, 2)
    });
    assert!(error.contains("lost"), "{error}");
}
