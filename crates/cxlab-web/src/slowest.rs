//! The slowest requests of a run, with the stages of each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cxlab_host::{RequestRow, STAGE_NAMES};
use serde_json::{Map, Value, json};

/// The requests of the longest latencies; of equal ones, those that completed first.
pub(crate) struct Slowest {
    most: usize,
    kept: BinaryHeap<Reverse<Kept>>,
}

/// A request, ordered by latency and then against its time of completion.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    latency_ps: u64,
    completed_ps: Reverse<u64>,
    requester: u16,
    id: u64,
    device: u16,
    write: bool,
    stages: Vec<u64>,
}

impl Slowest {
    pub(crate) fn new(most: usize) -> Slowest {
        Slowest {
            most,
            kept: BinaryHeap::new(),
        }
    }

    pub(crate) fn add(&mut self, row: &RequestRow) {
        let latency_ps = row.completed_ps - row.issued_ps;
        let full = self.kept.len() == self.most;
        if full
            && self
                .kept
                .peek()
                .is_some_and(|Reverse(least)| least.latency_ps >= latency_ps)
        {
            return;
        }
        if full {
            self.kept.pop();
        }
        self.kept.push(Reverse(Kept {
            latency_ps,
            completed_ps: Reverse(row.completed_ps),
            requester: row.requester,
            id: row.id as u64,
            device: row.device,
            write: row.write,
            stages: row.stages.iter().map(|stage| *stage as u64).collect(),
        }));
    }

    /// The requests that completed after the warm-up, slowest first.
    pub(crate) fn json(self, warmup_ns: f64) -> Value {
        let measured = |kept: &Kept| kept.completed_ps.0 as f64 > warmup_ns * 1e3;
        let kept = self.kept.into_sorted_vec().into_iter();
        let kept = kept.map(|Reverse(kept)| kept).filter(measured);
        let rows = kept.map(|kept| {
            let stages = STAGE_NAMES.iter().zip(kept.stages);
            let stages: Map<String, Value> = stages
                .filter(|(_, time)| *time > 0)
                .map(|(name, time)| ((*name).to_owned(), json!(time)))
                .collect();
            json!({
                "host": kept.requester,
                "device": (kept.device != u16::MAX).then_some(kept.device),
                "id": kept.id,
                "write": kept.write,
                "issued_ps": kept.completed_ps.0 - kept.latency_ps,
                "latency_ps": kept.latency_ps,
                "stages_ps": stages,
            })
        });
        rows.collect()
    }
}
