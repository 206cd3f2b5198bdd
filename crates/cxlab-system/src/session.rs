//! A system that another program drives: it hands over requests at external ports, advances time step by step,
//! and takes completions.
//!
//! A session is a run without windows: measurement begins with the session, or where the program says so, and ends
//! with each report. The keys of `[measure]` have no effect.
//!
//! # Time
//! A session has handled all events before [`Session::now`], and none at it or later. So a request may be
//! submitted for `now` or later, and a completion is handed over when `now` has passed it.
//!
//! # Caches of the program
//! A program with caches above a port (`snooped = true`) keeps a line after a read, and changes it after a read with
//! the outcome [`Outcome::Served`] or after a write. It gives a changed line up by a [`RequestKind::WriteBack`], and a
//! clean one without notice. A [`Snoop`] asks it to give up a line or to change it no more; until it is answered,
//! no request of the line completes. The program answers without waiting for requests of its own, and says whether
//! the line was changed, in its caches or in a write-back that has not completed.
//!
//! # Same results as a run
//! A run whose host replays a trace of the same requests at the same times, with exact addresses, has the same
//! completions. It makes no difference when a request is submitted, as long as it is before its time has passed. The
//! order digest is the same if each port is closed before its last request is issued ([`Session::close`]). Otherwise
//! the requester has reserved a wake-up for a request that never came, which has a sequence number.

mod error;
mod port;
mod store;

use std::collections::VecDeque;
use std::path::Path;

use cxlab_engine::state::{Refusal, StateError, StateReader, StateWriter};
use cxlab_engine::units::{Hpa, LINE_BYTES, SimTime};
use cxlab_engine::{Monitor, Threads};
use cxlab_host::{CacheSnoop, RequestRow};
use cxlab_plan::load::Loaded;
use cxlab_plan::{Plan, windows};
use cxlab_workload::{InletError, MemOp, OpKind};

pub use error::SessionError;
pub use port::{Completion, Outcome, PortInfo, Snoop};
use web_time::Instant;

use crate::assembly::{self, Context};
use crate::checkpoint::{self, Checkpoint, CheckpointError, Origin};
use crate::laws;
use crate::output::write_whole;
use crate::position::WarmupEnd;
use crate::readings::{LinkReadings, Readings};
use crate::report::Report;
use crate::run::RunError;
use crate::system::{RecordOptions, System};
use port::{Port, SavedPort};
use store::Store;

/// The first time that a session does not reach: 2^62 ps, 53 days. Times of requests and steps are below it.
pub const END_OF_TIME: SimTime = SimTime(1 << 62);

/// Most lines of a request.
pub const MOST_LINES: u64 = 64;

/// Kind of a request of another program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestKind {
    /// The request reads whole lines.
    Read,
    /// The request writes, or caches of a snooped program want to change the lines.
    Write,
    /// Caches of a snooped program give changed lines up. If a snoop took a line first, nothing remains to be done.
    WriteBack,
}

/// A request of another program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Submission {
    /// Chosen by the program and returned in the completion. The session does not read it.
    pub id: u64,
    /// First byte, counted from the beginning of the memory that the host reaches; a multiple of 64.
    pub address: u64,
    /// Bytes: a multiple of 64, from 64 to 4096.
    pub size: u64,
    /// Kind of the request.
    pub kind: RequestKind,
    /// Earliest time of issue, in picoseconds. The limits of the host may delay the issue.
    pub time: SimTime,
}

/// A system with external ports.
pub struct Session {
    loaded: Loaded,
    seed: u64,
    system: System,
    /// When the workloads began.
    begun: SimTime,
    /// When measurement began.
    start: SimTime,
    now: SimTime,
    ports: Vec<Port>,
    /// Completed requests that were not taken, in the order of their times.
    completed: VecDeque<Completion>,
    /// Lines that completed in the present step.
    rows: Vec<RequestRow>,
    /// Requests that completed in the present step, each with the host's number of its first line.
    fresh: Vec<(Completion, u64)>,
    /// Snoops of the program's caches that were not taken, in the order of their times, and those of one port in
    /// the present step.
    snoops: VecDeque<Snoop>,
    asked: Vec<CacheSnoop>,
    store: Store,
    /// Whether the system can be saved: what happens to threads is recorded then.
    can_save: bool,
    created: Instant,
}

impl Session {
    /// Builds the system of a plan, and lets hosts enumerate where the scenario says so. The
    /// session's time is then the beginning of the workloads. `can_save` records what happens to
    /// the threads of kernels, which [`Session::save`] needs.
    ///
    /// # Errors
    /// The errors of a run of the plan.
    pub fn new(loaded: Loaded, seed: u64, can_save: bool) -> Result<Session, RunError> {
        let plan = &loaded.plan;
        let record = RecordOptions {
            states: can_save,
            ..RecordOptions::default()
        };
        let mut system = System::build(plan, seed, record)?;
        let enumerated = system.enumerate(plan, Threads::Exactly(1), &Monitor::default());
        let enumerated = enumerated.map_err(RunError::Law)?;
        let begun = enumerated.map_or(SimTime::ZERO, |outcome| outcome.end);
        system.each_issuer(|host| host.begin_series(begun));
        let hosts = (0..plan.hosts.len()).filter(|host| plan.is_external(*host));
        let ports = hosts.map(|host| Port::new(plan, host, begun)).collect();
        let mut session = Session {
            seed,
            system,
            begun,
            start: begun,
            now: begun,
            ports,
            completed: VecDeque::new(),
            rows: Vec::new(),
            fresh: Vec::new(),
            snoops: VecDeque::new(),
            asked: Vec::new(),
            store: Store::default(),
            can_save,
            created: Instant::now(),
            loaded,
        };
        session.begin_measurement();
        Ok(session)
    }

    /// The plan of the system.
    pub fn plan(&self) -> &Plan {
        &self.loaded.plan
    }

    /// The text of an error, with the lines of the scenario that it is about.
    pub fn describe(&self, error: &RunError) -> String {
        match error {
            RunError::Problems(problems) => self.loaded.mistakes(problems.clone()).render(false),
            other => other.to_string(),
        }
    }

    /// Number of external ports.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// Name, limits and memory of a port.
    ///
    /// # Errors
    /// If there is no such port.
    pub fn port_info(&self, port: usize) -> Result<PortInfo<'_>, SessionError> {
        let planned = self.port(port)?;
        let host = &self.plan().hosts[planned.host];
        let group = &self.plan().scenario.hosts[host.group];
        Ok(PortInfo {
            name: &host.name,
            span: host.map.span(),
            depth: group.port_depth(),
            outstanding: group.requester().map_or(0, |issue| issue.outstanding),
        })
    }

    /// The number of the port with this name.
    pub fn find_port(&self, name: &str) -> Option<usize> {
        let hosts = &self.plan().hosts;
        self.ports
            .iter()
            .position(|port| hosts[port.host].name == name)
    }

    fn port(&self, port: usize) -> Result<&Port, SessionError> {
        let known = self.ports.len();
        let found = self.ports.get(port);
        found.ok_or(SessionError::Port { found: port, known })
    }

    /// All events before this time have been handled, and no other.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// The time of the earliest pending event, if there is one. Requests that wait at a port have an event.
    pub fn next_event(&mut self) -> Option<SimTime> {
        match self.system.simulation.has_started() {
            true => self.system.simulation.next_event(),
            false => Some(self.now),
        }
    }

    /// Number of further requests that a port takes now.
    ///
    /// # Errors
    /// If there is no such port.
    pub fn room(&mut self, port: usize) -> Result<usize, SessionError> {
        let host = self.port(port)?.host;
        let node = self.system.simulation.component_mut(host);
        let inlet = node.host_mut().and_then(|host| host.inlet());
        Ok(inlet.map_or(0, |inlet| inlet.room()))
    }

    /// Hands over a request. Nothing has changed after an error.
    ///
    /// # Errors
    /// An unknown, full or closed port; a time before [`Session::now`] or before the request that the port was
    /// given last; an address or a size that is not allowed.
    pub fn submit(&mut self, port: usize, request: Submission) -> Result<(), SessionError> {
        let known = self.ports.len();
        let Some(own) = self.ports.get_mut(port) else {
            return Err(SessionError::Port { found: port, known });
        };
        let earliest = self.now.max(own.last);
        if request.time < earliest || request.time >= END_OF_TIME {
            return Err(SessionError::Time {
                found: request.time,
                earliest,
            });
        }
        let lines = request.size / LINE_BYTES;
        if !request.size.is_multiple_of(LINE_BYTES) || !(1..=MOST_LINES).contains(&lines) {
            return Err(SessionError::Size(request.size));
        }
        let write_back = request.kind == RequestKind::WriteBack;
        if write_back && !own.is_snooped() {
            return Err(SessionError::WriteBack);
        }
        let number = own.host;
        let Some(host) = self.system.simulation.component_mut(number).host_mut() else {
            unreachable!("ports are hosts")
        };
        let Some(inlet) = host.inlet() else {
            unreachable!("a port has an inlet")
        };
        let span = inlet.span();
        let end = request.address.checked_add(request.size);
        if !request.address.is_multiple_of(LINE_BYTES) || end.is_none_or(|end| end > span.0) {
            return Err(SessionError::Address {
                address: request.address,
                size: request.size,
                span,
            });
        }
        let op = MemOp {
            hpa: Hpa(request.address),
            kind: match request.kind {
                RequestKind::Read => OpKind::Read,
                RequestKind::Write | RequestKind::WriteBack => OpKind::Write,
            },
            lines: lines as u8,
            not_before: SimTime(request.time.0.saturating_sub(own.begins.0)),
            dependent: false,
            write_back,
        };
        inlet.push(op).map_err(|error| match error {
            InletError::Full => SessionError::Full,
            InletError::Closed => SessionError::Closed,
        })?;
        own.enter(request.id, lines as u8);
        own.last = request.time;
        self.hand_over(number);
        Ok(())
    }

    /// Wakes a requester that waits for a request, when the request is due.
    fn hand_over(&mut self, number: usize) {
        let simulation = &mut self.system.simulation;
        let host = simulation.component_mut(number).host_mut();
        if let Some(due) = host.and_then(|host| host.handed_over()) {
            simulation.wake_reserved(number, due.wake, due.at, due.token);
        }
    }

    /// Says that no further request comes to a port. A port that is closed before its last request is issued
    /// makes the order digest that of a run with the same requests.
    ///
    /// # Errors
    /// If there is no such port.
    pub fn close(&mut self, port: usize) -> Result<(), SessionError> {
        let number = self.port(port)?.host;
        let node = self.system.simulation.component_mut(number);
        if let Some(inlet) = node.host_mut().and_then(|host| host.inlet()) {
            inlet.close();
        }
        self.hand_over(number);
        Ok(())
    }

    /// Handles all events before `until`. Requests that complete are added to the completions.
    ///
    /// # Errors
    /// A time before [`Session::now`] or too far in the future; a medium from a shared library that cannot go on.
    pub fn advance(&mut self, until: SimTime) -> Result<(), SessionError> {
        if until < self.now || until > END_OF_TIME {
            return Err(SessionError::Time {
                found: until,
                earliest: self.now,
            });
        }
        // Before the first step the components have not started, and may still get requests for the start.
        if until > self.now {
            self.system.simulation.run_before(until);
            self.now = until;
        }
        self.collect();
        self.check_fault()
    }

    /// Handles events until none is pending, even if snoops are unanswered. The session's time is then after the last event.
    ///
    /// # Errors
    /// [`SessionError::Endless`] if the workload of a host does not end by itself.
    pub fn drain(&mut self) -> Result<(), SessionError> {
        let plan = &self.loaded.plan;
        let mut hosts = plan.hosts.iter();
        if let Some(host) = hosts.find(|host| !windows::ends(plan, host)) {
            return Err(SessionError::Endless(host.name.clone()));
        }
        self.system.simulation.run_before(END_OF_TIME);
        let end = self.system.simulation.end();
        self.now = self.now.max(SimTime(end.0 + 1));
        self.collect();
        self.check_fault()
    }

    fn check_fault(&self) -> Result<(), SessionError> {
        if !self.plan().has_plugins {
            return Ok(());
        }
        match self.system.faults.first() {
            Some((_, what)) => Err(SessionError::Fault(what)),
            None => Ok(()),
        }
    }

    /// Moves the requests that completed in this step to the completions.
    fn collect(&mut self) {
        for (number, port) in self.ports.iter_mut().enumerate() {
            let node = self.system.simulation.component_mut(port.host);
            if let Some(host) = node.host_mut() {
                host.drain_rows(&mut self.rows);
            }
            for row in self.rows.drain(..) {
                self.fresh.extend(port.leave(number as u32, &row));
            }
            if port.is_snooped()
                && let Some(host) = node.host_mut()
            {
                host.drain_cache_snoops(&mut self.asked);
                let asked = self
                    .asked
                    .drain(..)
                    .map(|snoop| port.ask(number as u32, snoop));
                self.snoops.extend(asked);
            }
        }
        let order = |snoop: &Snoop| (snoop.time, snoop.port, snoop.id);
        if !self.snoops.iter().is_sorted_by_key(order) {
            self.snoops.make_contiguous().sort_unstable_by_key(order);
        }
        let order = |(done, first): &(Completion, u64)| (done.completed, done.port, *first);
        if !self.fresh.is_sorted_by_key(order) {
            self.fresh.sort_unstable_by_key(order);
        }
        let fresh = self.fresh.drain(..).map(|(done, _)| done);
        self.completed.extend(fresh);
    }

    /// The next completed request: in the order of times, at one time in that of ports, at one port in that of
    /// submissions.
    pub fn take_completion(&mut self) -> Option<Completion> {
        self.completed.pop_front()
    }

    /// The next snoop of the program's caches, in the order of times. It comes after the requests that completed at
    /// its time or before. Later ones do not concern its line until it is answered.
    pub fn take_snoop(&mut self) -> Option<Snoop> {
        self.snoops.pop_front()
    }

    /// Answers a snoop: from `time` on, the program's caches have the line no more, or change it no more. `changed`
    /// says that the line was changed since the program got it.
    ///
    /// # Errors
    /// An unknown port, a snoop that was answered or never came, or a time before [`Session::now`].
    pub fn answer(
        &mut self,
        port: usize,
        snoop: u64,
        changed: bool,
        time: SimTime,
    ) -> Result<(), SessionError> {
        let known = self.ports.len();
        let Some(own) = self.ports.get_mut(port) else {
            return Err(SessionError::Port { found: port, known });
        };
        if time < self.now || time >= END_OF_TIME {
            return Err(SessionError::Time {
                found: time,
                earliest: self.now,
            });
        }
        let unanswered = own.unanswered();
        let Some(asked) = own.answer(snoop) else {
            return Err(SessionError::Snoop {
                found: snoop,
                unanswered,
            });
        };
        let number = own.host;
        let simulation = &mut self.system.simulation;
        let host = simulation.component_mut(number).host_mut();
        if let Some(due) = host.and_then(|host| host.answer_cache_snoop(&asked, changed, time)) {
            simulation.wake_reserved(number, due.wake, due.at, due.token);
        }
        Ok(())
    }

    /// Number of completed requests that were not taken.
    pub fn completions(&self) -> usize {
        self.completed.len()
    }

    /// Measurement begins now: statistics start from zero.
    pub fn begin_measurement(&mut self) {
        let now = self.now;
        self.start = now;
        let simulation = &mut self.system.simulation;
        simulation.for_each_mut(|node| node.begin_measurement(now));
    }

    /// The order digest of all events so far, and their number.
    pub fn digest(&mut self) -> (u64, u64) {
        if !self.system.simulation.has_started() {
            return (0, 0);
        }
        let outcome = self.system.simulation.outcome_so_far();
        (outcome.digest, outcome.events)
    }

    /// The report of the measurement up to now.
    ///
    /// # Errors
    /// A law that does not hold, and mistakes of workloads that only the run shows.
    pub fn report(&mut self) -> Result<Report, RunError> {
        let closed = (0..self.ports.len()).all(|port| self.is_closed(port));
        let idle = self.system.simulation.has_started() && self.next_event().is_none();
        let ended = closed && idle && self.ports.iter().all(|port| port.unanswered() == 0);
        let end = match ended {
            true => self.system.simulation.end().max(self.start),
            false => self.now,
        };
        (self.system).each_issuer(|host| host.end_measurement(end));
        if ended {
            laws::check_drained(&self.system)
                .and_then(|()| laws::check_kernels(&self.system))
                .map_err(RunError::Law)?;
        }
        let outcome = self.system.simulation.outcome_so_far();
        let links = LinkReadings::all(&mut self.system, end);
        let readings = Readings::of(&self.system, links, end - self.start, end);
        let readings = readings.map_err(RunError::Law)?;
        let plan = &self.loaded.plan;
        let context = Context {
            plan,
            seed: self.seed,
            warmed: WarmupEnd::AsConfigured,
            outcome: &outcome,
            enumeration: (!self.system.enumerated.is_empty()).then_some(self.begun),
            start: self.start,
            end,
            readings: &readings,
            sampling: None,
            partial: false,
            notes: plan.notes.clone(),
            parts: None,
            wall: self.created.elapsed(),
        };
        assembly::assemble(&self.system, &context).map_err(RunError::Law)
    }

    fn is_closed(&mut self, port: usize) -> bool {
        let node = self.system.simulation.component_mut(self.ports[port].host);
        let inlet = node.host_mut().and_then(|host| host.inlet());
        inlet.is_none_or(|inlet| !inlet.is_open())
    }

    /// Reads bytes that [`Session::write`] has stored in the memory behind an address of a port; zeros where none
    /// were. Takes no simulated time.
    ///
    /// # Errors
    /// If there is no such port, or an address is outside its memory.
    pub fn read(&self, port: usize, address: u64, bytes: &mut [u8]) -> Result<(), SessionError> {
        let host = self.port(port)?.host;
        self.store
            .read(&self.plan().hosts[host].map, address, bytes)
    }

    /// Stores bytes in the memory behind an address of a port. Takes no simulated time. Ports that reach the
    /// same memory read the same bytes.
    ///
    /// # Errors
    /// If there is no such port, or an address is outside its memory.
    pub fn write(&mut self, port: usize, address: u64, bytes: &[u8]) -> Result<(), SessionError> {
        let host = self.port(port)?.host;
        let map = &self.loaded.plan.hosts[host].map;
        self.store.write(map, address, bytes)
    }

    /// Writes the whole state to a file.
    ///
    /// # Errors
    /// A session that was made without `can_save`, state that cannot be saved, or a file that cannot be written.
    pub fn save(&mut self, path: &Path) -> Result<(), RunError> {
        self.check_can_save()?;
        let saved = self.saved();
        let bytes =
            saved.map_err(|refusals| checkpoint::problems(self.plan(), &self.system, &refusals))?;
        let unwritable = |error| CheckpointError::Unwritable(path.to_owned(), error);
        write_whole(path, &bytes).map_err(|error| RunError::Checkpoint(unwritable(error)))
    }

    fn check_can_save(&self) -> Result<(), RunError> {
        match self.can_save {
            true => Ok(()),
            false => Err(refused(
                "found a system that was made without `can_save`; allowed: one that was made with it".to_owned(),
            )),
        }
    }

    fn saved(&mut self) -> Result<Vec<u8>, Vec<Refusal>> {
        let mut out = StateWriter::default();
        out.value("session", &Origin::of(&self.loaded.plan, self.seed));
        out.value("times", &(self.start, self.now));
        let ports: Vec<SavedPort<'_>> = self.ports.iter().map(Port::saved).collect();
        out.value("ports", &ports);
        out.value("completed", &self.completed);
        out.value("snoops", &self.snoops);
        out.value("store", &self.store);
        self.system.simulation.save(&mut out);
        out.finish()
    }

    /// Restores a state, saved by a session of the same scenario and seed, into a new session with `can_save`.
    ///
    /// # Errors
    /// A file that cannot be read, that is damaged, or that is of another system. The session is then unusable.
    pub fn restore(&mut self, path: &Path) -> Result<(), RunError> {
        self.check_can_save()?;
        if self.system.simulation.has_started() || self.ports.iter().any(Port::was_used) {
            return Err(refused(
                "found a system that has advanced or has requests; allowed: one that was just made"
                    .to_owned(),
            ));
        }
        let state = Checkpoint::read(path).map_err(RunError::Checkpoint)?;
        let restored = self.fill(state.bytes());
        restored.map_err(|error| refused(format!("{}: {error}", path.display())))
    }

    fn fill(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let mut from = StateReader::open(bytes)?;
        let of: Origin = from.value("session")?;
        of.check(&Origin::of(&self.loaded.plan, self.seed))?;
        (self.start, self.now) = from.value("times")?;
        let ports: Vec<SavedPort<'static>> = from.value("ports")?;
        if ports.len() != self.ports.len() {
            return Err(StateError::new("a state with another number of ports"));
        }
        for (port, saved) in self.ports.iter_mut().zip(ports) {
            port.fill(saved);
        }
        self.completed = from.value("completed")?;
        self.snoops = from.value("snoops")?;
        self.store = from.value("store")?;
        self.system.simulation.restore(&mut from)?;
        from.finish()
    }
}

/// The refusal of a saved state.
fn refused(why: String) -> RunError {
    RunError::Checkpoint(CheckpointError::Refused(why))
}
