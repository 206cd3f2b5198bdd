//! The slowest requests of a run, with the stages of each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cxlab_host::{RequestRow, STAGE_NAMES};
use serde_json::{Map, Value, json};

/// The requests of the longest latencies; of equal ones, those that completed first.
///
/// Where the measurement begins is known only at the end of a run. It is at a sampling point, as the hand-overs of
/// rows are, so the slowest of each hand-over are kept.
pub(crate) struct Slowest {
    most: usize,
    kept: Vec<KeptRequest>,
}

/// A request, ordered by latency and then against its time of completion.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct KeptRequest {
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
            kept: Vec::new(),
        }
    }

    /// Takes the rows of one hand-over.
    pub(crate) fn add(&mut self, rows: &[RequestRow]) {
        let mut slowest = BinaryHeap::new();
        for (place, row) in rows.iter().enumerate() {
            let latency_ps = row.completed_ps - row.issued_ps;
            let rank = Reverse((latency_ps, Reverse((row.completed_ps, place))));
            if slowest.len() < self.most {
                slowest.push(rank);
            } else if let Some(mut least) = slowest.peek_mut()
                && *least > rank
            {
                *least = rank;
            }
        }
        let slowest = slowest.into_iter();
        let rows = slowest.map(|Reverse((_, Reverse((_, place))))| &rows[place]);
        self.kept.extend(rows.map(|row| KeptRequest {
            latency_ps: row.completed_ps - row.issued_ps,
            completed_ps: Reverse(row.completed_ps),
            requester: row.requester,
            id: row.id,
            device: row.device,
            write: row.write,
            stages: row.stages.to_vec(),
        }));
    }

    /// The requests that completed after the warm-up, slowest first.
    pub(crate) fn json(mut self, warmup_ns: f64) -> Value {
        let warmup_ps = (warmup_ns * 1e3).round() as u64;
        self.kept.retain(|kept| kept.completed_ps.0 > warmup_ps);
        self.kept.sort_unstable_by(|a, b| b.cmp(a));
        self.kept.truncate(self.most);
        let rows = self.kept.into_iter().map(|kept| {
            let stages = STAGE_NAMES.iter().zip(kept.stages);
            let stages = stages.filter(|(_, time)| *time > 0);
            let stages = stages.map(|(name, time)| ((*name).to_owned(), json!(time)));
            let stages: Map<String, Value> = stages.collect();
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
