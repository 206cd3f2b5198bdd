//! Both tables against each other, exhaustively, for one page and one or two devices.
//!
//! Messages stay under way for any time and overtake each other in any way, which is more than
//! PCIe allows. Accesses, evictions and moves are bounded, so every path ends, and what is true
//! wherever paths end is true of liveness too.

use std::collections::BTreeSet;

use super::{device, home};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Message {
    TranslationRequest,
    /// With the frame, if the page was present when the walk read it.
    Completion(Option<u8>),
    PageRequest,
    PageReady,
    Invalidate,
    Invalidated,
    Block,
    Blocked,
    Resume,
    Resumed,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
struct Device {
    page: device::PageState,
    cached: Option<u8>,
    /// Frames of the accesses under way.
    uses: Vec<u8>,
    waiting: u8,
    accesses: u8,
    evictions: u8,
    done: u8,
    /// Under way to or from this device, sorted.
    messages: Vec<Message>,
    held: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
struct World {
    devices: Vec<Device>,
    page: home::PageState,
    /// The frame in the page table, if it is present.
    entry: Option<u8>,
    /// The frame that the page has, present or moving.
    frame: Option<u8>,
    /// Frames below this one may be used by others.
    retired: u8,
    moves: u8,
    copying: bool,
    faulting: bool,
}

/// The device's table, or one with a mistake.
type Step =
    fn(device::PageState, device::Event) -> Option<(Vec<device::Action>, device::PageState)>;

fn as_written(
    state: device::PageState,
    event: device::Event,
) -> Option<(Vec<device::Action>, device::PageState)> {
    let (row, next) = device::step(state, event)?;
    Some((row.actions.to_vec(), next))
}

impl World {
    fn send(&mut self, device: usize, message: Message) {
        let messages = &mut self.devices[device].messages;
        messages.push(message);
        messages.sort_unstable();
    }

    /// Steps a device; `None` when the event has to wait. `Err`: a law is broken.
    fn device(
        &self,
        at: usize,
        event: device::Event,
        frame: Option<u8>,
        step: Step,
    ) -> Result<Option<World>, String> {
        use device::Action as A;
        let Some((actions, next)) = step(self.devices[at].page, event) else {
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
                    if frame < world.retired {
                        return Err(format!("frame {frame} used after its invalidation"));
                    }
                    one.uses.push(frame);
                    one.uses.sort_unstable();
                }
                A::Wait => one.waiting += 1,
                A::Request => world.send(at, Message::TranslationRequest),
                A::PageRequest => world.send(at, Message::PageRequest),
                A::Fill => one.cached = frame,
                A::Drop => one.cached = None,
                A::Replay => replay = std::mem::take(&mut one.waiting),
                A::Fail => return Err("an access failed".into()),
                A::Acknowledge => world.send(at, Message::Invalidated),
                A::AckBlock => world.send(at, Message::Blocked),
                A::AckResume => world.send(at, Message::Resumed),
            }
        }
        for _ in 0..replay {
            world = world
                .device(at, device::Event::Access, None, step)?
                .ok_or("a replayed access has no row")?;
        }
        Ok(Some(world))
    }

    fn home(&self, from: usize, event: home::Event) -> Result<Option<World>, String> {
        use home::Action as A;
        let Some((row, next)) = home::step(self.page, event) else {
            return Ok(None);
        };
        let mut world = self.clone();
        world.page = next;
        for action in row.actions {
            match action {
                A::Walk => world.send(from, Message::Completion(self.entry)),
                A::Hold => world.devices[from].held = true,
                A::Fault => world.faulting = true,
                A::Answer => world.send(from, Message::PageReady),
                A::AnswerHeld => {
                    for at in 0..world.devices.len() {
                        if std::mem::take(&mut world.devices[at].held) {
                            world.send(at, Message::PageReady);
                        }
                    }
                }
                A::Block => world.broadcast(Message::Block),
                A::Suspend => world.entry = None,
                A::FlushIommu => {}
                A::Invalidate => world.broadcast(Message::Invalidate),
                A::Copy => {
                    let old = world.frame.ok_or("a page without frame moves")?;
                    world.retired = old + 1;
                    world.copying = true;
                    if world.devices.iter().any(|one| one.uses.contains(&old)) {
                        return Err(format!("frame {old} is in use when it is copied"));
                    }
                }
                A::Install => {
                    world.frame = Some(world.retired);
                    world.entry = world.frame;
                }
                A::Resume => world.broadcast(Message::Resume),
            }
        }
        Ok(Some(world))
    }

    fn broadcast(&mut self, message: Message) {
        (0..self.devices.len()).for_each(|at| self.send(at, message));
    }

    /// What the arrival of a message leads to.
    fn deliver(&self, at: usize, message: Message, step: Step) -> Result<Option<World>, String> {
        use device::Event as D;
        use home::Event as H;
        let mut world = self.clone();
        let messages = &mut world.devices[at].messages;
        if let Some(place) = messages.iter().position(|other| *other == message) {
            messages.remove(place);
        }
        match message {
            Message::TranslationRequest => world.home(at, H::TranslationRequest),
            Message::PageRequest => world.home(at, H::PageRequest),
            Message::Blocked => world.home(at, H::Blocked),
            Message::Invalidated => world.home(at, H::Invalidated),
            Message::Resumed => world.home(at, H::Resumed),
            Message::Completion(None) => world.device(at, D::NotPresent, None, step),
            Message::Completion(frame) => world.device(at, D::Granted, frame, step),
            Message::PageReady => world.device(at, D::PageReady, None, step),
            Message::Invalidate => world.device(at, D::Invalidate, None, step),
            Message::Block => world.device(at, D::Block, None, step),
            Message::Resume => world.device(at, D::Resume, None, step),
        }
    }

    /// Everything that can happen next.
    fn successors(&self, step: Step) -> Result<Vec<World>, String> {
        let mut all = Vec::new();
        for at in 0..self.devices.len() {
            let one = &self.devices[at];
            let mut messages = one.messages.clone();
            messages.dedup();
            for message in messages {
                all.extend(self.deliver(at, message, step)?);
            }
            if one.accesses > 0 {
                let mut world = self.clone();
                world.devices[at].accesses -= 1;
                all.extend(world.device(at, device::Event::Access, None, step)?);
            }
            if one.evictions > 0 {
                let mut world = self.clone();
                world.devices[at].evictions -= 1;
                all.extend(world.device(at, device::Event::Evict, None, step)?);
            }
            for place in 0..one.uses.len() {
                let mut world = self.clone();
                world.devices[at].uses.remove(place);
                world.devices[at].done += 1;
                let next = world.device(at, device::Event::Done, None, step)?;
                all.push(next.ok_or("an access cannot end")?);
            }
        }
        if self.moves > 0 && self.frame.is_some() {
            let mut world = self.clone();
            world.moves -= 1;
            all.extend(world.home(0, home::Event::Move(self.devices.len() as u8))?);
        }
        if self.copying {
            let world = World {
                copying: false,
                ..self.clone()
            };
            all.extend(world.home(0, home::Event::Copied)?);
        }
        if self.faulting {
            let mut world = World {
                faulting: false,
                ..self.clone()
            };
            if world.frame.is_none() {
                (world.frame, world.entry) = (Some(0), Some(0));
            }
            all.extend(world.home(0, home::Event::Faulted)?);
        }
        Ok(all)
    }

    fn check_end(&self, accesses: u8) -> Result<(), String> {
        let settled = self.page == home::PageState::default() && self.moves == 0;
        let each = |one: &Device| {
            one.done == accesses && one.waiting == 0 && one.messages.is_empty() && !one.page.waiting
        };
        if settled && self.devices.iter().all(each) {
            Ok(())
        } else {
            Err(format!("something is lost: {self:?}"))
        }
    }
}

/// Every state that can be reached; their number.
fn explore(
    devices: usize,
    accesses: u8,
    moves: u8,
    evictions: u8,
    step: Step,
) -> Result<usize, String> {
    let one = Device {
        accesses,
        evictions,
        ..Device::default()
    };
    let start = World {
        devices: vec![one; devices],
        moves,
        ..World::default()
    };
    let mut seen = BTreeSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some(world) = open.pop() {
        let next = world.successors(step)?;
        // Evictions are nobody's duty, and a move of a page that never got a frame is not either.
        let duties = next.iter().any(|next| {
            next.devices.iter().map(|one| one.evictions).sum::<u8>()
                == world.devices.iter().map(|one| one.evictions).sum::<u8>()
        });
        if !duties {
            world.check_end(accesses)?;
        }
        for next in next {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn one_device_never_uses_what_was_invalidated_and_loses_nothing() {
    let states = explore(1, 4, 3, 2, as_written).unwrap();
    assert!(
        states > 1_000,
        "{states} states are too few to mean anything"
    );
}

#[test]
fn two_devices_never_use_what_was_invalidated_and_lose_nothing() {
    let states = explore(2, 2, 1, 0, as_written).unwrap();
    assert!(
        states > 1_000,
        "{states} states are too few to mean anything"
    );
}

/// A table with one mistake must be caught.
fn caught(step: Step) -> String {
    explore(1, 2, 1, 0, step).expect_err("the mistake was not found")
}

#[test]
fn a_completion_that_an_invalidation_overtook_must_be_dropped() {
    let error = caught(|state, event| {
        let (actions, mut next) = as_written(state, event)?;
        if event == device::Event::Invalidate && next.phase == device::Phase::Stale {
            next.phase = device::Phase::Asked;
        }
        Some((actions, next))
    });
    assert!(error.contains("used after its invalidation"), "{error}");
}

#[test]
fn an_invalidation_must_wait_for_the_accesses_under_way() {
    let error = caught(|state, event| {
        let (mut actions, next) = as_written(state, event)?;
        if event == device::Event::Invalidate && next.phase == device::Phase::Draining {
            actions.push(device::Action::Acknowledge);
        }
        Some((actions, next))
    });
    assert!(error.contains("in use when it is copied"), "{error}");
}

#[test]
fn accesses_that_waited_through_the_window_must_ask_afterwards() {
    let error = caught(|state, event| {
        let (mut actions, mut next) = as_written(state, event)?;
        if event == device::Event::Resume && state.phase == device::Phase::Empty {
            next.phase = device::Phase::Empty;
            actions.retain(|action| *action != device::Action::Request);
        }
        Some((actions, next))
    });
    assert!(error.contains("lost"), "{error}");
}
