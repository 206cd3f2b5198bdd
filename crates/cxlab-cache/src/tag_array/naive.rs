//! Every policy as in its definition, slow and obvious.

use cxlab_engine::units::LineAddr;

use super::{Geometry, LineBlock};

#[derive(Clone, Copy, Debug)]
pub(super) struct ReferenceLine {
    pub(super) line: u64,
    pub(super) pinned: bool,
    owner: u64,
    inserted: u64,
    used: u64,
    uses: u64,
    dirty: bool,
    /// For CLOCK: whether the line was used since the hand passed.
    marked: bool,
    /// For 2Q: whether the line is in `Am`.
    main: bool,
}

/// The policies with their parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum PolicyDefinition {
    Fifo,
    Lru,
    Lifo,
    Mru,
    Lfi,
    BlockLength { max_lines: u64, aligned: bool },
    Lfru,
    Clock,
    TwoQueue { in_percent: u32, out_percent: u32 },
    Cflru { window_percent: u32 },
}

/// A reference tag array: a list of lines and the list of all insertions.
pub(super) struct ReferenceTagArray {
    pub(super) lines: Vec<ReferenceLine>,
    insertions: Vec<u64>,
    /// For 2Q: lines that left `A1in`, oldest first.
    remembered: Vec<u64>,
    geometry: Geometry,
    definition: PolicyDefinition,
    clock: u64,
}

impl ReferenceTagArray {
    pub(super) fn new(geometry: Geometry, definition: PolicyDefinition) -> Self {
        ReferenceTagArray {
            lines: Vec::new(),
            insertions: Vec::new(),
            remembered: Vec::new(),
            geometry,
            definition,
            clock: 0,
        }
    }

    pub(super) fn find(&mut self, line: u64) -> Option<&mut ReferenceLine> {
        self.lines.iter_mut().find(|one| one.line == line)
    }

    pub(super) fn touch(&mut self, line: u64) {
        self.clock += 1;
        let clock = self.clock;
        if let Some(one) = self.find(line) {
            one.used = clock;
            one.uses += 1;
            one.marked = true;
        }
    }

    pub(super) fn set_dirty(&mut self, line: u64, dirty: bool) {
        if let Some(one) = self.find(line) {
            one.dirty = dirty;
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
        let main = self.remembered.contains(&line);
        self.remembered.retain(|one| *one != line);
        self.lines.push(ReferenceLine {
            line,
            pinned: false,
            owner: 0,
            inserted: self.clock,
            used: self.clock,
            uses: 1,
            dirty: false,
            marked: true,
            main,
        });
    }

    pub(super) fn remove(&mut self, line: u64) {
        if let PolicyDefinition::TwoQueue { out_percent, .. } = self.definition
            && self.find(line).is_some_and(|one| !one.main)
        {
            self.remembered.push(line);
            let set = self.geometry.set_of(LineAddr(line));
            let same = |one: &u64| self.geometry.set_of(LineAddr(*one)) == set;
            if self.remembered.iter().filter(|one| same(one)).count() > self.share(out_percent) {
                let oldest = self.remembered.iter().position(same).unwrap();
                self.remembered.remove(oldest);
            }
        }
        self.lines.retain(|one| one.line != line);
    }

    /// A share of a set's ways in percent, at least one way.
    fn share(&self, percent: u32) -> usize {
        (self.geometry.ways() as usize * percent as usize / 100).max(1)
    }

    pub(super) fn is_full(&self, line: u64) -> bool {
        self.of_set(line).count() == self.geometry.ways() as usize
    }

    /// The block that is evicted for `line`; `None` if all lines of its set are pinned.
    pub(super) fn victim(&mut self, line: u64) -> Option<LineBlock> {
        if self.definition == PolicyDefinition::Clock {
            self.turn(line);
        }
        let candidates = self.of_set(line).filter(|one| !one.pinned);
        let victim = match self.definition {
            PolicyDefinition::Fifo => candidates.min_by_key(|one| one.inserted),
            PolicyDefinition::Lru => candidates.min_by_key(|one| one.used),
            PolicyDefinition::Lifo => candidates.max_by_key(|one| one.inserted),
            PolicyDefinition::Mru => candidates.max_by_key(|one| one.used),
            PolicyDefinition::Lfi => candidates.max_by_key(|one| {
                let count = self.insertions.iter().filter(|line| **line == one.line);
                (std::cmp::Reverse(count.count()), one.inserted)
            }),
            PolicyDefinition::BlockLength { .. } => {
                candidates.max_by_key(|one| (self.block(one).lines, one.inserted))
            }
            PolicyDefinition::Lfru => candidates.min_by_key(|one| (one.uses, one.used)),
            PolicyDefinition::Clock => candidates.min_by_key(|one| one.inserted),
            PolicyDefinition::TwoQueue { in_percent, .. } => {
                let waiting = self.of_set(line).filter(|one| !one.main).count();
                let main_first = waiting <= self.share(in_percent);
                candidates.min_by_key(|one| match one.main {
                    true => (!main_first, one.used),
                    false => (main_first, one.inserted),
                })
            }
            PolicyDefinition::Cflru { window_percent } => {
                let mut by_use: Vec<u64> = self.of_set(line).map(|one| one.used).collect();
                by_use.sort_unstable();
                let inside = &by_use[..self.share(window_percent).min(by_use.len())];
                candidates.min_by_key(|one| (one.dirty || !inside.contains(&one.used), one.used))
            }
        };
        victim.map(|one| self.block(one))
    }

    /// Turns CLOCK's hand to an unmarked line; the lines that it passes go to the end.
    fn turn(&mut self, line: u64) {
        loop {
            let candidates = self.of_set(line).filter(|one| !one.pinned);
            let Some(first) = candidates
                .min_by_key(|one| one.inserted)
                .map(|one| one.line)
            else {
                return;
            };
            self.clock += 1;
            let clock = self.clock;
            match self.find(first) {
                Some(one) if one.marked => (one.marked, one.inserted) = (false, clock),
                _ => return,
            }
        }
    }

    fn of_set(&self, line: u64) -> impl Iterator<Item = &ReferenceLine> {
        let set = self.geometry.set_of(LineAddr(line));
        let same = move |one: &&ReferenceLine| self.geometry.set_of(LineAddr(one.line)) == set;
        self.lines.iter().filter(same)
    }

    /// The longest allowed run around a line. Of several runs with three or four lines,
    /// the first one.
    fn block(&self, victim: &ReferenceLine) -> LineBlock {
        let single = LineBlock::single(LineAddr(victim.line));
        let PolicyDefinition::BlockLength { max_lines, aligned } = self.definition else {
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
