//! Caches of another program above requesters, at random times. They have only what their requester's cache has,
//! loads return the last store, and everything completes.

use std::collections::BTreeMap;

use cxlab_engine::Simulation;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, LineAddr, SimTime};
use cxlab_host::{CacheSnoop, CachingRequester, DueWake, RequestAgent, RequestRow, StallReason};
use cxlab_protocol::coherence::requester::Line;
use cxlab_testkit::{read, write};
use cxlab_workload::{Inlet, MemOp};

use crate::harness::{HDM_H, Node, params, with_source};
use crate::home::Home;
use crate::random::{check_copies, check_values, home, host, random_cache, rights, with_home};

const SEEDS: u64 = 1_000;
/// Operations of each program.
const OPERATIONS: u64 = 80;

/// What a program asks its requester to do with a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Load,
    Store,
    WriteBack,
}

/// Situations that must occur.
#[derive(Clone, Copy, Debug)]
enum Situation {
    Invalidated,
    Shared,
    SilentlyDropped,
    Changed,
    TakenBack,
    /// A snoop meets a write-back that has not completed.
    Crossed,
    /// A snoop invalidates a shared line whose store has not completed.
    DuringUpgrade,
    GrantedShared,
    GrantedAlone,
    Recalls,
    EarlyConflicts,
}

/// How often each situation occurred.
type Met = [u64; 11];

/// The caches of a program above a requester. Each line has one operation outstanding at most.
struct Program {
    rng: StreamRng,
    number: u64,
    /// Lines that the caches have, and whether they may change each.
    lines: BTreeMap<LineAddr, bool>,
    /// Snoops that were not answered: the time of the answer, and whether the line was changed.
    snoops: Vec<(u64, CacheSnoop, bool)>,
    outstanding: BTreeMap<LineAddr, Asked>,
    /// Longest time until a snoop is answered, in picoseconds.
    patience: u64,
    left: u64,
    issued: u64,
    met: Met,
}

impl Program {
    /// Takes what completed and what was snooped before `now`, in the order of times.
    fn take(&mut self, agent: &mut CachingRequester, now: u64) {
        let mut snoops = vec![];
        agent.drain_cache_snoops(&mut snoops);
        let mut rows = agent.take_rows();
        rows.sort_by_key(|row| row.completed_ps);
        let mut rows = rows.into_iter().peekable();
        for snoop in snoops {
            while let Some(row) = rows.next_if(|row| row.completed_ps <= snoop.time.0) {
                self.complete(&row);
            }
            let answer = now + self.rng.below(self.patience);
            self.snoop(snoop, answer);
        }
        rows.for_each(|row| self.complete(&row));
    }

    fn complete(&mut self, row: &RequestRow) {
        let line = LineAddr(row.hpa / 64);
        match self.outstanding.remove(&line) {
            Some(Asked::WriteBack) => return,
            Some(Asked::Store) => assert!(!row.shared, "a store has the line alone"),
            Some(Asked::Load) => {
                self.met[Situation::GrantedShared as usize] += u64::from(row.shared);
                self.met[Situation::GrantedAlone as usize] += u64::from(!row.shared);
            }
            None => panic!("{line:?} was not asked for"),
        }
        let waits = self.snoops.iter().any(|(_, snoop, _)| snoop.line == line);
        assert!(!waits, "{line:?} is granted before its snoop is answered");
        self.lines.insert(line, !row.shared);
    }

    /// Gives up or shares the line at once, and answers later.
    fn snoop(&mut self, snoop: CacheSnoop, answer: u64) {
        let had = self.lines.get(&snoop.line).copied();
        let asked = self.outstanding.get(&snoop.line);
        let crossed = asked == Some(&Asked::WriteBack);
        let changed = crossed || had == Some(true) && self.rng.chance(0.5);
        if snoop.invalidate {
            self.lines.remove(&snoop.line);
            self.met[Situation::Invalidated as usize] += 1;
            let upgrades = had == Some(false) && asked == Some(&Asked::Store);
            self.met[Situation::DuringUpgrade as usize] += u64::from(upgrades);
        } else {
            self.met[Situation::Shared as usize] += 1;
            if let Some(may_change) = self.lines.get_mut(&snoop.line) {
                *may_change = false;
            }
        }
        self.met[Situation::Changed as usize] += u64::from(changed);
        self.met[Situation::Crossed as usize] += u64::from(crossed);
        self.snoops.push((answer, snoop, changed));
    }

    /// The answers that are due before `until`, as wake-ups of the requester.
    fn answer(&mut self, agent: &mut CachingRequester, until: u64) -> Vec<DueWake> {
        let snoops = std::mem::take(&mut self.snoops);
        let (due, rest): (Vec<_>, Vec<_>) = snoops.into_iter().partition(|one| one.0 < until);
        self.snoops = rest;
        due.iter()
            .map(|(time, snoop, changed)| agent.answer_cache_snoop(snoop, *changed, SimTime(*time)))
            .collect()
    }

    /// The operations that the program issues from `now` on.
    fn issue(&mut self, now: u64, lines: u64) -> Vec<MemOp> {
        let count = self.left.min(self.rng.below(4));
        let mut ops = vec![];
        self.issued = self.issued.max(now);
        for _ in 0..count {
            let number = match self.rng.chance(0.2) {
                true => HDM_H + 16 * self.number + self.rng.below(5),
                false => self.rng.below(lines),
            };
            let line = LineAddr(number);
            if self.outstanding.contains_key(&line) {
                continue;
            }
            let (asked, mut op) = match (self.lines.get(&line), self.rng.below(3)) {
                (Some(true), 0) => (Asked::WriteBack, write(number)),
                (_, 1) => (Asked::Store, write(number)),
                _ => (Asked::Load, read(number)),
            };
            op.write_back = asked == Asked::WriteBack;
            if op.write_back {
                self.lines.remove(&line);
                self.met[Situation::TakenBack as usize] += 1;
            } else if asked == Asked::Load && self.lines.get(&line) == Some(&false) {
                // A cache asks for a line again that it has dropped, and the requester does not know.
                self.lines.remove(&line);
                self.met[Situation::SilentlyDropped as usize] += 1;
            }
            self.issued += self.rng.below(20_000);
            op.not_before = SimTime(self.issued);
            self.outstanding.insert(line, asked);
            self.left -= 1;
            ops.push(op);
        }
        ops
    }

    /// Checks that the requester's cache has all that the caches above have.
    fn check(&self, requester: &CachingRequester) {
        for (line, may_change) in &self.lines {
            let state = requester.line(*line);
            let (load, store) = rights(state);
            assert!(load && (store || !may_change), "{line:?} is {state:?}");
        }
    }
}

fn agent(simulation: &mut Simulation<Node>, number: usize) -> &mut CachingRequester {
    match simulation.component_mut(number) {
        Node::Host(host) => host,
        Node::Peer(_) | Node::Home(_) => panic!("component {number} is a host"),
    }
}

/// Two or three requesters with programs, and a home.
fn system(seed: u64, lines: u64) -> (Simulation<Node>, Vec<Program>) {
    let mut rng = StreamRng::new(seed, "system");
    let hosts = 2 + rng.below(2) as usize;
    let credits = [1, 2, 8][rng.below(3) as usize];
    let patience = [1, 5_000, 200_000][rng.below(3) as usize];
    let nodes: Vec<Node> = (0..hosts)
        .map(|number| {
            let cache = random_cache(&mut rng);
            let params = params(1 + rng.below(30) as u32);
            let source = Box::new(Inlet::new(OPERATIONS as usize, Bytes(1 << 40)));
            let number = number as u16;
            Node::Host(with_source(number, params, cache, credits, source, true))
        })
        .collect();
    let capacity = 1 + rng.below(lines) as usize;
    let blocks = rng.chance(0.5);
    let home = Home::new(hosts as u16, credits, seed, capacity, blocks);
    let programs = (0..hosts as u64).map(|number| Program {
        rng: StreamRng::new(seed, &format!("program{number}")),
        number,
        lines: BTreeMap::new(),
        snoops: vec![],
        outstanding: BTreeMap::new(),
        patience,
        left: OPERATIONS,
        issued: 0,
        met: [0; 11],
    });
    (with_home(nodes, home), programs.collect())
}

fn run(seed: u64) -> Met {
    let mut rng = StreamRng::new(seed, "steps");
    let lines = 2 + rng.below(6);
    let (mut simulation, mut programs) = system(seed, lines);
    let mut now = 0;
    while programs
        .iter()
        .any(|one| one.left > 0 || !one.outstanding.is_empty() || !one.snoops.is_empty())
        || simulation.next_event().is_some()
    {
        assert!(now < 1_000_000_000, "everything completes");
        let longest = [2_000, 60_000][rng.below(2) as usize];
        let until = now + 1 + rng.below(longest);
        for (number, program) in programs.iter_mut().enumerate() {
            let mut wakes = program.answer(agent(&mut simulation, number), until);
            let host = agent(&mut simulation, number);
            for op in program.issue(now, lines) {
                let inlet = host.inlet().unwrap();
                inlet.push(op).unwrap();
                wakes.extend(host.handed_over());
            }
            for due in wakes {
                simulation.wake_reserved(number, due.wake, due.at, due.token);
            }
        }
        simulation.run_before(SimTime(until));
        now = until;
        for (number, program) in programs.iter_mut().enumerate() {
            program.take(agent(&mut simulation, number), now);
            program.check(host(&simulation, number));
        }
        check_copies(&simulation, programs.len(), lines);
    }
    finish(&mut simulation, &programs)
}

/// Checks what is left when everything has completed.
fn finish(simulation: &mut Simulation<Node>, programs: &[Program]) -> Met {
    let mut all: Met = [0; 11];
    let mut observed = vec![];
    for (number, program) in programs.iter().enumerate() {
        let host = agent(simulation, number);
        host.inlet().unwrap().close();
        assert!(host.handed_over().is_none(), "everything was issued");
        assert_eq!((host.in_flight(), host.requests_in_flight()), (0, 0));
        assert_eq!(host.stats().completed_ever, OPERATIONS);
        let seen = host.take_observations();
        observed.extend(seen.into_iter().map(|seen| (number, seen)));
        for (sum, count) in all.iter_mut().zip(program.met) {
            *sum += count;
        }
        let coherence = host.coherence();
        all[Situation::Recalls as usize] += coherence.stalls[StallReason::Above as usize];
        all[Situation::EarlyConflicts as usize] += coherence.early_conflicts;
    }
    assert!(home(simulation).is_idle(), "nothing is left at the home");
    for (line, value) in check_values(observed) {
        let hosts = 0..programs.len();
        let modified = hosts
            .clone()
            .any(|number| host(simulation, number).line(line) == Line::M);
        let memory = home(simulation).value(line);
        assert!(modified || memory == value, "{line:?} kept its last store");
    }
    all
}

#[test]
fn caches_above_have_only_what_the_cache_below_has() {
    let mut all = [0; 11];
    for seed in 0..SEEDS {
        let met = match std::panic::catch_unwind(|| run(seed)) {
            Ok(met) => met,
            Err(_) => panic!("seed {seed}"),
        };
        for (sum, count) in all.iter_mut().zip(met) {
            *sum += count;
        }
    }
    assert!(all.iter().all(|&count| count > 20), "{all:?}");
}
