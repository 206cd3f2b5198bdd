//! Breadth-first search of all states, and of the path from each back to a quiet state.

use std::fmt::Debug;

use super::Property;

/// The system that is searched: states, their encodings in a few words, and the possible moves in each.
pub trait System {
    type World: Copy;
    type Code: AsRef<[u64]>;
    type Move: Copy + Debug;

    /// Name of the system in messages.
    fn name(&self) -> &'static str;
    /// Number of words of an encoding that are used.
    fn words(&self) -> usize;
    fn start(&self) -> Self::World;
    fn encode(&self, world: &Self::World) -> Self::Code;
    fn decode(&self, code: &[u64]) -> Self::World;
    /// Lists all possible next steps; `Err` is a broken property.
    fn moves(&self, world: &Self::World, out: &mut Steps<Self>);
    /// Whether the move helps to end what is in flight, instead of beginning something new.
    fn drains(&self, step: Self::Move) -> bool;
    /// Whether no message and no operation is in flight.
    fn is_quiet(&self, world: &Self::World) -> bool;
}

/// Moves of a system, each with the state after it or a broken property.
pub type Steps<S> = Vec<(<S as System>::Move, Result<<S as System>::World, Property>)>;

/// The result of a search.
pub struct Found<S: System + ?Sized> {
    pub states: usize,
    pub moves: usize,
    pub broken: Option<Counterexample<S>>,
}

/// A broken property and the shortest path to it.
pub struct Counterexample<S: System + ?Sized> {
    pub property: Property,
    pub path: Vec<S::Move>,
}

/// States by number, and numbers by state: open addressing over one array, because a state is a few
/// words, and there may be tens of millions.
struct Seen {
    words: usize,
    codes: Vec<u64>,
    slots: Vec<u32>,
}

const EMPTY: u32 = u32::MAX;

impl Seen {
    fn new(words: usize) -> Seen {
        Seen {
            words,
            codes: Vec::new(),
            slots: vec![EMPTY; 1 << 12],
        }
    }

    fn len(&self) -> usize {
        self.codes.len() / self.words
    }

    fn code(&self, state: u32) -> &[u64] {
        let at = state as usize * self.words;
        &self.codes[at..at + self.words]
    }

    fn slot(&self, code: &[u64]) -> usize {
        let hash = code.iter().fold(0_u64, |h, &word| {
            (h.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        });
        let mask = self.slots.len() - 1;
        let mut slot = (hash ^ (hash >> 29)) as usize & mask;
        while self.slots[slot] != EMPTY && self.code(self.slots[slot]) != code {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// Returns the number of the state, and whether the state is new.
    fn insert(&mut self, code: &[u64]) -> (u32, bool) {
        let code = &code[..self.words];
        let slot = self.slot(code);
        if self.slots[slot] != EMPTY {
            return (self.slots[slot], false);
        }
        let state = self.len() as u32;
        self.slots[slot] = state;
        self.codes.extend_from_slice(code);
        if self.len() * 2 > self.slots.len() {
            self.slots = vec![EMPTY; self.slots.len() * 2];
            for state in 0..self.len() as u32 {
                let slot = self.slot(self.code(state));
                self.slots[slot] = state;
            }
        }
        (state, true)
    }
}

/// Visits every state. Stops at the first broken property.
pub fn search<S: System>(model: &S) -> Found<S> {
    let mut seen = Seen::new(model.words());
    let mut parents: Vec<u32> = vec![0];
    let mut drains: Vec<(u32, u32)> = Vec::new();
    let mut quiet: Vec<u32> = Vec::new();
    let mut next = Vec::new();
    let mut moves = 0;
    seen.insert(model.encode(&model.start()).as_ref());
    let mut at = 0;
    while (at as usize) < seen.len() {
        let world = model.decode(seen.code(at));
        let mut stuck = true;
        model.moves(&world, &mut next);
        for (step, outcome) in &next {
            moves += 1;
            let to = match outcome {
                Ok(to) => to,
                Err(property) => {
                    let mut path = path_to(model, &seen, &parents, at);
                    path.push(*step);
                    return found(&seen, moves, Some((*property, path)));
                }
            };
            let (to, new) = seen.insert(model.encode(to).as_ref());
            if new {
                parents.push(at);
            }
            if model.drains(*step) {
                stuck = false;
                drains.push((to, at));
            }
        }
        if model.is_quiet(&world) {
            quiet.push(at);
        } else if stuck {
            let path = path_to(model, &seen, &parents, at);
            return found(&seen, moves, Some((Property::NoDeadlock, path)));
        }
        at += 1;
    }
    let lost = cannot_reach(&quiet, drains, seen.len());
    let broken = lost.map(|state| (Property::Progress, path_to(model, &seen, &parents, state)));
    found(&seen, moves, broken)
}

fn found<S: System>(
    seen: &Seen,
    moves: usize,
    broken: Option<(Property, Vec<S::Move>)>,
) -> Found<S> {
    Found {
        states: seen.len(),
        moves,
        broken: broken.map(|(property, path)| Counterexample { property, path }),
    }
}

/// The first state from which no goal can be reached; `edges` are (to, from).
fn cannot_reach(goals: &[u32], mut edges: Vec<(u32, u32)>, states: usize) -> Option<u32> {
    edges.sort_unstable();
    let mut first = vec![0_usize; states + 1];
    for &(to, _) in &edges {
        first[to as usize + 1] += 1;
    }
    for i in 0..states {
        first[i + 1] += first[i];
    }
    let mut reaches = vec![false; states];
    let mut open = goals.to_vec();
    for &goal in goals {
        reaches[goal as usize] = true;
    }
    while let Some(to) = open.pop() {
        for &(_, from) in &edges[first[to as usize]..first[to as usize + 1]] {
            if !std::mem::replace(&mut reaches[from as usize], true) {
                open.push(from);
            }
        }
    }
    reaches.iter().position(|&r| !r).map(|i| i as u32)
}

/// The moves of a shortest path to a state. Requesters and lines have the names of the stored states.
fn path_to<S: System>(model: &S, seen: &Seen, parents: &[u32], state: u32) -> Vec<S::Move> {
    let mut path = Vec::new();
    let mut next = Vec::new();
    let mut at = state;
    while at != 0 {
        let parent = parents[at as usize];
        model.moves(&model.decode(seen.code(parent)), &mut next);
        let step = next.iter().find(|(_, outcome)| {
            outcome
                .as_ref()
                .is_ok_and(|to| model.encode(to).as_ref()[..model.words()] == *seen.code(at))
        });
        path.extend(step.map(|(step, _)| *step));
        at = parent;
    }
    path.reverse();
    path
}
