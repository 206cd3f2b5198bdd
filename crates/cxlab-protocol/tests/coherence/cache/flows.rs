//! Races, message by message. Each chart is played in the model, so that the tables send every
//! message of it. The charts are shown in `docs/reference/coherence-tables.md`.

use cxlab_protocol::coherence::cache_agent::{Event, Line};
use cxlab_protocol::coherence::cache_home::{CORES, Filter, Peer};

use super::exploration::TWO;
use super::{Model, Move, Pulled, World};
use crate::checker::{Data, Network, System, peer};
use crate::docs;

/// A path through the states of two devices and one line.
struct Play {
    model: Model,
    world: World,
    chart: String,
}

const NAMES: [&str; 2] = ["A", "B"];

fn name(holder: Peer) -> &'static str {
    match holder {
        CORES => "the cores",
        device => NAMES[device.index()],
    }
}

impl Play {
    fn new() -> Play {
        let model = Model::new(TWO, Model::unaltered());
        let world = model.start();
        Play {
            model,
            world,
            chart: "| from | to | message | then |\n|---|---|---|---|\n".into(),
        }
    }

    /// Begins in the state after these moves, which the chart does not show.
    fn after(moves: &[Move]) -> Play {
        let mut play = Play::new();
        moves.iter().for_each(|step| play.step(*step));
        play.chart = Play::new().chart;
        play
    }

    /// Makes one move, which must be possible.
    fn step(&mut self, step: Move) {
        let mut next = Vec::new();
        self.model.moves(&self.world, &mut next);
        let found = next.into_iter().find(|(found, _)| *found == step);
        let Some((_, outcome)) = found else {
            panic!("{step:?} cannot happen here: {:#?}", self.world);
        };
        let to = outcome.unwrap();
        if let Some((from, receiver, message)) = self.message(step) {
            let then = self.becomes(step, &to);
            self.chart += &format!("| {from} | {receiver} | {message} | {then} |\n");
        }
        self.world = to;
    }

    fn play(&mut self, moves: &[Move]) -> &mut Play {
        moves.iter().for_each(|step| self.step(*step));
        self
    }

    /// Sender, receiver and name of the message that a move delivers.
    fn message(&self, step: Move) -> Option<(&'static str, &'static str, String)> {
        let wire = |a: usize| &self.world.wires[0][a];
        Some(match step {
            Move::Local(a, _, event) => ("", NAMES[a], format!("*{event:?}*")),
            Move::Request(a, _) => (NAMES[a], "home", format!("{:?}", wire(a).request?)),
            Move::SnoopResponse(a, _) => (NAMES[a], "home", format!("{:?}", wire(a).answer?)),
            Move::SnoopData(a, _) => (NAMES[a], "home", "data of the snoop".into()),
            Move::PulledData(a, _) => {
                let bogus = matches!(wire(a).pulled, Some((Pulled::Bogus, _)));
                let name = if bogus { "data, Bogus" } else { "data" };
                (NAMES[a], "home", name.into())
            }
            Move::Snoop(a, _) => ("home", NAMES[a], format!("Snp{:?}", wire(a).snoop?)),
            Move::Response(a, _) => ("home", NAMES[a], format!("{:?}", wire(a).response?)),
            Move::Data(a, _) => ("home", NAMES[a], "data".into()),
            Move::ReadDone(_) => ("memory", "home", "data".into()),
            other => ("", "", format!("{other:?}")),
        })
    }

    /// The receiver's state after the move.
    fn becomes(&self, step: Move, to: &World) -> String {
        match step {
            Move::Local(a, ..) | Move::Snoop(a, _) | Move::Response(a, _) | Move::Data(a, _) => {
                format!("{}: {:?}", NAMES[a], to.wires[0][a].state.line)
            }
            _ => {
                let state = to.home[0].state;
                let holders = match state.filter {
                    Filter::Invalid => "nobody".into(),
                    Filter::Any(owner) => name(owner).to_string(),
                    Filter::Shared(peers) => {
                        let names: Vec<_> = peers.iter().map(name).collect();
                        names.join(" and ")
                    }
                };
                format!("home: {:?}, held by {holders}", state.phase)
            }
        }
    }

    fn line(&self, a: usize) -> Line {
        self.world.wires[0][a].state.line
    }

    /// Checks that nothing is in flight, that the devices have these states, and that the document shows the chart.
    fn ends(&self, lines: [Line; 2], name: &str) {
        assert!(self.model.is_quiet(&self.world), "{:#?}", self.world);
        assert_eq!([self.line(0), self.line(1)], lines);
        docs::compare(name, &self.chart);
    }
}

const A: usize = 0;
const B: usize = 1;

/// A has stored to the line.
const A_MODIFIED: &[Move] = &[
    Move::Local(A, 0, Event::Store),
    Move::Request(A, 0),
    Move::ReadDone(0),
    Move::Data(A, 0),
    Move::Response(A, 0),
];

#[test]
fn a_dirty_eviction_that_a_snoop_overtakes_is_pulled_and_dropped_as_bogus() {
    let mut play = Play::after(A_MODIFIED);
    play.play(&[
        Move::Local(A, 0, Event::Evict),
        Move::Local(B, 0, Event::Store),
        Move::Request(B, 0),
        Move::Snoop(A, 0),
        Move::SnoopResponse(A, 0),
        Move::SnoopData(A, 0),
        Move::Response(B, 0),
        Move::Data(B, 0),
    ]);
    // The eviction arrives only now, after B has stored: its data must not reach memory.
    assert_eq!(play.world.home[0].state.filter, Filter::Any(peer(B)));
    play.play(&[Move::Request(A, 0), Move::Response(A, 0)]);
    assert_eq!(
        play.world.wires[0][A].pulled,
        Some((Pulled::Bogus, Data::Stale))
    );
    play.step(Move::PulledData(A, 0));
    play.ends([Line::I, Line::M], "cache-stale-evict");
}

#[test]
fn a_snoop_behind_a_go_finds_the_new_copy_and_waits_for_its_data() {
    let mut play = Play::new();
    play.play(&[
        Move::Local(A, 0, Event::Store),
        Move::Local(B, 0, Event::Store),
        Move::Request(A, 0),
        Move::ReadDone(0),
        Move::Request(B, 0),
    ]);
    // The snoop has been sent, and must not arrive before the GO.
    let mut next = Vec::new();
    play.model.moves(&play.world, &mut next);
    assert!(next.iter().all(|(step, _)| *step != Move::Snoop(A, 0)));
    play.play(&[
        Move::Response(A, 0),
        Move::Snoop(A, 0),
        Move::SnoopResponse(A, 0),
    ]);
    assert_eq!(play.line(A), Line::ImD);
    play.play(&[
        Move::Data(A, 0),
        Move::SnoopData(A, 0),
        Move::Response(B, 0),
        Move::Data(B, 0),
    ]);
    play.ends([Line::I, Line::M], "cache-go-snoop");
}

#[test]
fn data_before_the_go_wait_for_the_state_that_the_go_brings() {
    let mut play = Play::new();
    play.play(&[
        Move::Local(A, 0, Event::LoadShared),
        Move::Request(A, 0),
        Move::ReadDone(0),
        Move::Data(A, 0),
    ]);
    assert_eq!(play.line(A), Line::IsA);
    play.step(Move::Response(A, 0));
    play.ends([Line::S, Line::I], "cache-data-first");
}

#[test]
fn a_shared_copy_that_is_snooped_before_its_data_is_used_once() {
    let mut play = Play::new();
    play.play(&[
        Move::Local(A, 0, Event::LoadShared),
        Move::Request(A, 0),
        Move::ReadDone(0),
        Move::Response(A, 0),
        Move::Local(B, 0, Event::StoreLine),
        Move::Request(B, 0),
        Move::Snoop(A, 0),
    ]);
    assert_eq!(play.line(A), Line::IsDI);
    play.play(&[
        Move::SnoopResponse(A, 0),
        Move::Response(B, 0),
        Move::Data(A, 0),
    ]);
    play.ends([Line::I, Line::M], "cache-used-once");
}

#[test]
fn of_two_upgrades_the_loser_gets_ownership_without_data_and_reads() {
    let both_share = [
        Move::Local(A, 0, Event::LoadShared),
        Move::Request(A, 0),
        Move::ReadDone(0),
        Move::Data(A, 0),
        Move::Response(A, 0),
        Move::Local(B, 0, Event::LoadShared),
        Move::Request(B, 0),
        Move::ReadDone(0),
        Move::Data(B, 0),
        Move::Response(B, 0),
    ];
    let mut play = Play::after(&both_share);
    play.play(&[
        Move::Local(A, 0, Event::Store),
        Move::Local(B, 0, Event::Store),
        Move::Request(A, 0),
        Move::Snoop(B, 0),
        Move::SnoopResponse(B, 0),
        Move::Response(A, 0),
        Move::Request(B, 0),
        Move::Snoop(A, 0),
        Move::SnoopData(A, 0),
        Move::SnoopResponse(A, 0),
        Move::Response(B, 0),
    ]);
    assert_eq!(play.line(B), Line::ImAD);
    play.play(&[
        Move::Request(B, 0),
        Move::ReadDone(0),
        Move::Response(B, 0),
        Move::Data(B, 0),
    ]);
    play.ends([Line::I, Line::M], "cache-upgrades");
}

#[test]
fn a_push_of_a_line_that_the_device_owns_ends_in_the_last_level_cache() {
    let mut play = Play::after(A_MODIFIED);
    play.play(&[
        Move::Local(A, 0, Event::Push),
        Move::Request(A, 0),
        Move::Response(A, 0),
        Move::PulledData(A, 0),
    ]);
    assert_eq!(play.world.cores[0].line, Line::M);
    assert_eq!(play.world.cores[0].copy, Data::Fresh);
    assert_ne!(play.world.home[0].memory, Data::Fresh);
    assert_eq!(play.line(A), Line::I);
}

#[test]
fn what_the_protocol_does_not_have_has_no_row() {
    use cxlab_protocol::coherence::cache_agent::{self, LineState};
    use cxlab_protocol::coherence::cache_home;
    use cxlab_protocol::coherence::cache_message::{HostResponse, Request, SnoopResponse};
    use cxlab_protocol::coherence::fields::GoState;
    // Table 3-28: requests that are not allowed while the device has a copy.
    for line in [Line::S, Line::E, Line::M] {
        for event in [
            Event::LoadOnce,
            Event::WriteOwn,
            Event::WriteThrough,
            Event::Flush,
        ] {
            assert_eq!(cache_agent::step(LineState::stable(line), event), None);
        }
    }
    let go = |state| Event::HostResponse(HostResponse::Go(state));
    let (loading, _) = cache_agent::step(LineState::default(), Event::Load).unwrap();
    assert_eq!(cache_agent::step(loading, go(GoState::Invalid)), None);
    assert_eq!(
        cache_agent::step(LineState::default(), go(GoState::Shared)),
        None
    );
    // Data that were not requested, a response of a device that was not snooped, and one that table 3-26 does not have.
    let (a, b) = (peer(A), peer(B));
    let owned = cache_home::LineState::idle(Filter::Any(a));
    let request = cache_home::Event::Request(b, Request::RdOwn);
    let (snooping, _) = cache_home::step(owned, request).unwrap();
    for event in [
        cache_home::Event::SnoopResponse(b, SnoopResponse::RspIHitI),
        cache_home::Event::SnoopResponse(a, SnoopResponse::RspVHitV),
        cache_home::Event::PulledData(false),
    ] {
        assert_eq!(cache_home::step(snooping, event), None, "{event:?}");
        assert_eq!(cache_home::step(owned, event), None, "{event:?}");
    }
}

#[test]
fn states_are_small() {
    use cxlab_protocol::coherence::{cache_agent, cache_home};
    assert_eq!(size_of::<cache_agent::LineState>(), 2);
    assert!(size_of::<cache_home::LineState>() <= 32);
}
