//! Best-offset prefetching (Michaud, HPCA 2016), of pages instead of lines.
//!
//! One offset is in use at a time. At each miss or first use of a prefetched page X, learning tests
//! one offset of a list. The offset scores a point if X minus the offset is among the recent
//! requests, because a prefetch of X from that page would have been timely. A phase ends when an
//! offset reaches the highest score, or when all were tested often enough. The best offset becomes
//! the one in use; if its score is bad, prefetching is off until the end of the next phase.

use cxlab_engine::catalog::{Entry, in_range, read_params};
use cxlab_engine::save_state;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PageAccessResult, PrefetchCandidates, PrefetchPolicy, Prefetcher};

pub(super) const ENTRY: Entry<Box<dyn PrefetchPolicy>> = Entry {
    name: "best-offset",
    summary: "the page at the offset that would have come in time most often",
    schema: <BestOffsetParams as JsonSchema>::json_schema,
    build: |params| {
        let params: BestOffsetParams = read_params(params)?;
        in_range("recent", params.recent, 1..=65536)?;
        in_range("score_max", params.score_max, 1..=1000)?;
        in_range("round_max", params.round_max, 1..=1000)?;
        in_range("bad_score", params.bad_score, 0..=params.score_max - 1)?;
        Ok(Box::new(params))
    },
};

/// Parameters of best-offset prefetching. The defaults are those of Michaud, Table 2.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
struct BestOffsetParams {
    /// Entries of the table of recent requests. 1 to 65536. Default 256.
    #[schemars(range(min = 1, max = 65536))]
    recent: u32,
    /// Score that ends a phase. 1 to 1000. Default 31.
    #[schemars(range(min = 1, max = 1000))]
    score_max: u32,
    /// Most tests of each offset in a phase. 1 to 1000. Default 100.
    #[schemars(range(min = 1, max = 1000))]
    round_max: u32,
    /// Prefetching is turned off if the best score is not above this value.
    /// 0 to `score_max` - 1. Default 1.
    bad_score: u32,
}

impl Default for BestOffsetParams {
    fn default() -> Self {
        BestOffsetParams {
            recent: 256,
            score_max: 31,
            round_max: 100,
            bad_score: 1,
        }
    }
}

/// Largest offset (Michaud, section 4.2).
const MAX_OFFSET: u64 = 256;

/// The numbers up to 256 without prime factors above 5, 52 of them (Michaud, section 4.2).
fn offsets() -> Vec<u64> {
    let smooth = |offset: &u64| {
        let mut rest = *offset;
        for prime in [2, 3, 5] {
            while rest.is_multiple_of(prime) {
                rest /= prime;
            }
        }
        rest == 1
    };
    (1..=MAX_OFFSET).filter(smooth).collect()
}

impl PrefetchPolicy for BestOffsetParams {
    fn state(&self) -> Box<dyn Prefetcher> {
        let offsets = offsets();
        Box::new(BestOffset {
            params: *self,
            scores: vec![0; offsets.len()],
            offsets,
            tried: 0,
            round: 0,
            recent: vec![u64::MAX; self.recent as usize],
            offset: Some(1),
        })
    }
}

struct BestOffset {
    params: BestOffsetParams,
    offsets: Vec<u64>,
    scores: Vec<u32>,
    /// Index of the offset to test next.
    tried: usize,
    round: u32,
    recent: Vec<u64>,
    /// The offset in use; `None` while prefetching is off.
    offset: Option<u64>,
}

save_state!(BestOffset {
    values: tried, round, offset;
    sized: scores, recent;
    built: params, offsets;
});

impl BestOffset {
    fn place(&self, page: u64) -> usize {
        let hash = page.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(hash) * self.recent.len() as u128) >> 64) as usize
    }

    fn is_recent(&self, page: u64) -> bool {
        self.recent[self.place(page)] == page
    }

    /// Tests the next offset of the list.
    fn learn(&mut self, page: u64) {
        let at = self.tried;
        let base = page.checked_sub(self.offsets[at]);
        if base.is_some_and(|base| self.is_recent(base)) {
            self.scores[at] += 1;
        }
        self.tried += 1;
        if self.tried == self.offsets.len() {
            self.tried = 0;
            self.round += 1;
        }
        if self.scores[at] >= self.params.score_max || self.round == self.params.round_max {
            self.end_phase();
        }
    }

    fn end_phase(&mut self) {
        let mut best = 0;
        for (at, score) in self.scores.iter().enumerate() {
            if *score > self.scores[best] {
                best = at;
            }
        }
        self.offset = (self.scores[best] > self.params.bad_score).then(|| self.offsets[best]);
        self.scores.fill(0);
        (self.tried, self.round) = (0, 0);
    }
}

impl Prefetcher for BestOffset {
    fn accessed(&mut self, page: u64, outcome: PageAccessResult, wanted: &mut PrefetchCandidates) {
        if outcome == PageAccessResult::Hit {
            return;
        }
        self.learn(page);
        if let Some(offset) = self.offset {
            wanted.push(page + offset);
        }
    }

    fn filled(&mut self, page: u64, prefetched: bool) {
        let base = match self.offset {
            Some(offset) if prefetched => page.checked_sub(offset),
            Some(_) => None,
            None => Some(page),
        };
        if let Some(base) = base {
            let place = self.place(base);
            self.recent[place] = base;
        }
    }
}
