//! Changes of the routing: when the fabric manager makes new tables, and when they come into force.

use std::collections::BTreeMap;
use std::sync::Arc;

use cxlab_engine::units::Picos;
use cxlab_fabric::routing::RoutingTables;
use cxlab_scenario::Note;

use super::changes::{Change, ChangedPart};
use super::channels::{Channels, Grant};
use super::fabric::{Edges, Fabric, SurvivingFabric};
use super::planned::{FailureChange, Failures, RoutingChange, RoutingState};
use crate::problem::Problem;

/// The fabric manager. It learns of failures and repairs after `reconfiguration_time`, and changes the routing.
pub(super) struct Router<'a> {
    fabric: &'a Fabric<'a>,
    edges: Edges,
    /// The failures that the fabric manager knows of.
    known: SurvivingFabric,
    all: Failures,
    channels: Channels,
    /// All routing tables made so far.
    tables: Vec<Arc<RoutingTables>>,
    /// Number of the tables, by the set of links that are cut.
    made: BTreeMap<Vec<bool>, usize>,
    /// By number of the tables: the last routing state that used them.
    state_of: Vec<Option<usize>>,
    /// Number of the tables in force.
    current: usize,
    /// A pending change of the routing, which waits for virtual channels to drain.
    waiting: Option<PendingReroute>,
    /// By host: the devices that the host knows to be unreachable.
    cut_off: Vec<Vec<bool>>,
    /// Most pairs of host and device that random failures have cut off at the same time.
    most_cut_off: usize,
}

/// A pending change of the routing.
struct PendingReroute {
    tables: usize,
    due: Picos,
    grant: Grant,
}

impl<'a> Router<'a> {
    pub(super) fn new(fabric: &'a Fabric<'a>, components: usize) -> Router<'a> {
        let params = fabric.scenario.failures.clone().unwrap_or_default();
        let needed = fabric.tables.virtual_channels();
        let most = fabric.scenario.fabric.virtual_channels.max(needed);
        let channels = Channels::new(most, params.drain_time(), needed);
        Router {
            edges: fabric.edges(),
            known: SurvivingFabric::whole(fabric.links.len(), components),
            channels,
            tables: vec![Arc::clone(fabric.tables)],
            made: BTreeMap::from([(vec![false; fabric.graph.links.len()], 0)]),
            state_of: vec![Some(0)],
            current: 0,
            waiting: None,
            cut_off: vec![vec![false; fabric.devices()]; fabric.hosts()],
            most_cut_off: 0,
            all: Failures {
                params,
                states: vec![RoutingState {
                    tables: Arc::clone(fabric.tables),
                    channels: ((1_u32 << needed) - 1) as u8,
                }],
                fabrics: 1,
                virtual_channels: needed,
                times: Vec::new(),
                routing: Vec::new(),
                timelines: vec![Vec::new(); components],
            },
            fabric,
        }
    }

    /// Processes failures and repairs that the fabric manager learns of at the same time.
    pub(super) fn know(
        &mut self,
        changes: &[Change],
        notes: &mut Vec<Note>,
    ) -> Result<(), Problem> {
        let Some(last) = changes.last() else {
            return Ok(());
        };
        let due = last.at + self.all.params.reconfiguration_time;
        self.wait_for(due);
        for change in changes {
            self.fabric.happen(&mut self.known, change.what)?;
        }
        let wanted = self.tables_of(last.what)?;
        let since = self.waiting.take().map_or(due, |waiting| waiting.due);
        if wanted != self.current {
            let kept = self.state_of[wanted].filter(|state| self.channels.has_all(*state));
            match kept {
                Some(state) => {
                    self.channels.resume(state, due);
                    self.begin(wanted, state, since, due, false);
                }
                None => {
                    let needed = self.tables[wanted].virtual_channels();
                    self.waiting = Some(PendingReroute {
                        tables: wanted,
                        due: since,
                        grant: self.channels.grant(needed, due),
                    });
                    self.wait_for(due + Picos(1));
                }
            }
        }
        self.tell_hosts(due);
        let pairs = self.pairs_cut_off(wanted);
        match last.what {
            ChangedPart::Event { number, .. } if pairs > 0 => {
                let event = self.fabric.scenario.events[number].describe();
                let text = format!(
                    "after this event ({event}) {pairs} pairs of host and device are cut off"
                );
                notes.push(Note::new(format!("events[{number}]"), text));
            }
            ChangedPart::Event { .. } => {}
            ChangedPart::Link { .. } | ChangedPart::Component { .. } => {
                self.most_cut_off = self.most_cut_off.max(pairs);
            }
        }
        Ok(())
    }

    /// The number of the tables for the links known to work. New tables are made if there are none yet.
    fn tables_of(&mut self, what: ChangedPart) -> Result<usize, Problem> {
        let cut = self.fabric.cut(&self.known);
        if let Some(number) = self.made.get(&cut) {
            return Ok(*number);
        }
        let Fabric {
            graph,
            tables,
            scenario,
            ..
        } = self.fabric;
        let most = scenario.fabric.virtual_channels;
        let tables = RoutingTables::build_without(graph, tables.kind(), most, |link| cut[link]);
        let tables = tables.map_err(|error| {
            let message = format!("found a failure after which {error}");
            Problem::new(format!("{}.kind", what.path()), message)
        })?;
        let number = self.tables.len();
        self.tables.push(Arc::new(tables));
        self.state_of.push(None);
        self.made.insert(cut, number);
        Ok(number)
    }

    /// Puts the last change into force; returns the changes of all components.
    pub(super) fn finish(mut self, notes: &mut Vec<Note>) -> Failures {
        self.wait_for(Picos(u64::MAX));
        self.note(notes);
        self.all
    }

    /// Puts the pending change into force if that is due before `time`.
    fn wait_for(&mut self, time: Picos) {
        let Some(waiting) = self.waiting.take_if(|waiting| waiting.grant.at < time) else {
            return;
        };
        let Grant {
            at,
            channels,
            overlaps,
        } = waiting.grant;
        let state = self.channels.begin(channels, at);
        self.all.states.push(RoutingState {
            tables: Arc::clone(&self.tables[waiting.tables]),
            channels,
        });
        let used = u8::BITS - channels.leading_zeros();
        self.all.virtual_channels = self.all.virtual_channels.max(used as u8);
        self.state_of[waiting.tables] = Some(state);
        self.begin(waiting.tables, state, waiting.due, at, overlaps);
        self.tell_hosts(at);
    }

    /// Puts tables into force as the routing state of this number.
    fn begin(&mut self, tables: usize, state: usize, due: Picos, at: Picos, overlaps: bool) {
        self.current = tables;
        let change = RoutingChange { due, at, overlaps };
        self.all.routing.push(change);
        let endpoints = self.fabric.hosts() + self.fabric.devices();
        for timeline in &mut self.all.timelines[endpoints..] {
            timeline.push((at, FailureChange::Route(state)));
        }
    }

    /// Updates each host's list of unreachable devices to the tables in force, if the list has changed.
    fn tell_hosts(&mut self, at: Picos) {
        let tables = &self.tables[self.current];
        for (host, before) in self.cut_off.iter_mut().enumerate() {
            let now = self.fabric.cut_off(&self.known, &self.edges, tables, host);
            if now != *before {
                let change = FailureChange::CutOff(now.as_slice().into());
                self.all.timelines[host].push((at, change));
                *before = now;
            }
        }
    }

    /// Number of pairs of host and device that are cut off with these tables.
    fn pairs_cut_off(&self, tables: usize) -> usize {
        let tables = &self.tables[tables];
        let of = |host| {
            let cut = self.fabric.cut_off(&self.known, &self.edges, tables, host);
            cut.iter().filter(|cut| **cut).count()
        };
        (0..self.fabric.hosts()).map(of).sum()
    }

    /// Adds notes on delayed and lossy changes of the routing, and on devices that are cut off.
    fn note(&mut self, notes: &mut Vec<Note>) {
        self.all.fabrics = self.state_of.iter().flatten().count();
        let routing = &self.all.routing;
        let waits = routing.iter().map(|one| one.at.0 - one.due.0);
        let waited = waits.clone().filter(|wait| *wait > 0).count();
        if waited > 0 {
            let longest = Picos(waits.max().unwrap_or(0));
            notes.push(Note::new(
                "failures.drain_time",
                format!(
                    "{waited} of {} changes of the routing wait until virtual channels of earlier routing states have \
                     drained, {longest} at the longest; a shorter `drain_time` shortens that",
                    routing.len()
                ),
            ));
        }
        let overlapping = routing.iter().filter(|one| one.overlaps).count();
        if overlapping > 0 {
            notes.push(Note::new(
                "fabric.virtual_channels",
                format!(
                    "{overlapping} of {} changes of the routing discard messages in flight, because there are too few \
                     virtual channels for tables before and after",
                    routing.len()
                ),
            ));
        }
        if self.most_cut_off > 0 {
            let most = self.most_cut_off;
            let text = format!("up to {most} pairs of host and device are cut off at a time");
            notes.push(Note::new("failures.random", text));
        }
    }
}
