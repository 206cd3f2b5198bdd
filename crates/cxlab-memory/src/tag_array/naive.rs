//! Every policy as its definition reads: slow and obvious.

use cxlab_engine::units::LineAddr;

use super::{Block, Geometry};

#[derive(Clone, Copy, Debug)]
pub(super) struct NaiveLine {
    pub(super) line: u64,
    pub(super) pinned: bool,
    owner: u64,
    inserted: u64,
    used: u64,
}

/// The definitions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Definition {
    Fifo,
    Lru,
    Lifo,
    Mru,
    Lfi,
    BlockLength { max_lines: u64, aligned: bool },
}

/// A list of lines and the list of all insertions.
pub(super) struct Naive {
    pub(super) lines: Vec<NaiveLine>,
    insertions: Vec<u64>,
    geometry: Geometry,
    definition: Definition,
    clock: u64,
}

impl Naive {
    pub(super) fn new(geometry: Geometry, definition: Definition) -> Self {
        Naive {
            lines: Vec::new(),
            insertions: Vec::new(),
            geometry,
            definition,
            clock: 0,
        }
    }

    pub(super) fn find(&mut self, line: u64) -> Option<&mut NaiveLine> {
        self.lines.iter_mut().find(|one| one.line == line)
    }

    pub(super) fn touch(&mut self, line: u64) {
        self.clock += 1;
        let clock = self.clock;
        if let Some(one) = self.find(line) {
            one.used = clock;
        }
    }

    pub(super) fn set_owner(&mut self, line: u64, owner: u64) {
        if let Some(one) = self.find(line) {
            one.owner = owner;
        }
    }

    pub(super) fn insert(&mut self, line: u64) {
        self.clock += 1;
        self.insertions.push(line);
        self.lines.push(NaiveLine {
            line,
            pinned: false,
            owner: 0,
            inserted: self.clock,
            used: self.clock,
        });
    }

    pub(super) fn remove(&mut self, line: u64) {
        self.lines.retain(|one| one.line != line);
    }

    pub(super) fn is_full(&self, line: u64) -> bool {
        self.of_set(line).count() == self.geometry.ways() as usize
    }

    /// The block that leaves for `line`; `None` when all of its set are pinned.
    pub(super) fn victim(&self, line: u64) -> Option<Block> {
        let candidates = self.of_set(line).filter(|one| !one.pinned);
        let victim = match self.definition {
            Definition::Fifo => candidates.min_by_key(|one| one.inserted),
            Definition::Lru => candidates.min_by_key(|one| one.used),
            Definition::Lifo => candidates.max_by_key(|one| one.inserted),
            Definition::Mru => candidates.max_by_key(|one| one.used),
            Definition::Lfi => candidates.max_by_key(|one| {
                let count = self.insertions.iter().filter(|line| **line == one.line);
                (std::cmp::Reverse(count.count()), one.inserted)
            }),
            Definition::BlockLength { .. } => {
                candidates.max_by_key(|one| (self.block(one).lines, one.inserted))
            }
        };
        victim.map(|one| self.block(one))
    }

    fn of_set(&self, line: u64) -> impl Iterator<Item = &NaiveLine> {
        let set = self.geometry.set_of(LineAddr(line));
        let same = move |one: &&NaiveLine| self.geometry.set_of(LineAddr(one.line)) == set;
        self.lines.iter().filter(same)
    }

    /// The longest allowed run about a line; of the runs of three or four that hold it, the one
    /// that begins first.
    fn block(&self, victim: &NaiveLine) -> Block {
        let single = Block::single(LineAddr(victim.line));
        let Definition::BlockLength { max_lines, aligned } = self.definition else {
            return single;
        };
        let fits = |line: u64| {
            let one = self.lines.iter().find(|one| one.line == line);
            one.is_some_and(|one| !one.pinned && one.owner == victim.owner)
        };
        let mut best = single;
        for lines in 2..=max_lines {
            let from = victim.line.saturating_sub(lines - 1);
            for first in from..=victim.line {
                let whole = (first..first + lines).all(fits);
                let placed = !aligned || (lines != 3 && first % lines == 0);
                if whole && placed && lines > u64::from(best.lines) {
                    (best.first, best.lines) = (LineAddr(first), lines as u32);
                }
            }
        }
        best
    }
}
