//! Counters of the cache since measurement began.

use cxlab_cache::Statistic;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct CacheCounters {
    pub hits: u64,
    pub misses: u64,
    pub merged: u64,
    pub write_buffer_hits: u64,
    pub clean: u64,
    pub dirty: u64,
    pub fetches: u64,
    pub fetched: u64,
    pub written: u64,
    pub prefetches: u64,
    pub useful: u64,
    pub late: u64,
    pub useless: u64,
    pub stalled_ps: u64,
}

impl CacheCounters {
    /// Appends the statistics. `stalled_ps` is the time for which the input is stalled now.
    pub fn append_statistics(&self, stalled_ps: u64, out: &mut Vec<Statistic>) {
        let asked = self.hits + self.misses + self.merged + self.write_buffer_hits;
        let stalled = self.stalled_ps + stalled_ps;
        let part = |of: u64, all: u64| of as f64 / all.max(1) as f64;
        let values = [
            ("hits", self.hits as f64),
            ("misses", self.misses as f64),
            ("merged", self.merged as f64),
            ("write_buffer_hits", self.write_buffer_hits as f64),
            ("hit_ratio", part(self.hits, asked)),
            ("evictions_clean", self.clean as f64),
            ("evictions_dirty", self.dirty as f64),
            ("fetches", self.fetches as f64),
            ("fetched_lines", self.fetched as f64),
            ("written_back_lines", self.written as f64),
            ("prefetches", self.prefetches as f64),
            ("prefetches_useful", self.useful as f64),
            ("prefetches_late", self.late as f64),
            ("prefetches_useless", self.useless as f64),
            (
                "prefetch_accuracy",
                part(self.useful, self.useful + self.useless),
            ),
            ("stalled_ns", stalled as f64 / 1e3),
        ];
        Statistic::append(out, "", &values);
    }
}
