//! A controller's data path in front of a medium: the rates at which it moves data to and from the medium.
//!
//! Reads and writes each have a path of their own, as in a controller whose buses are so many bytes wide and
//! clocked at so many hertz. A request that finds its path busy waits in the device, and the path takes one
//! line after the other. Left out: queues of the path's own, and the time of a line on it (part of a device's
//! `process_time`).

use std::path::Path;

use cxlab_cache::{Completion, MemoryBackend, MemoryRequest, Statistic};
use cxlab_engine::catalog::{Entry, ParamError, in_part, read_params};
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, BytesPerSec, LINE_BYTES, Picos, SimTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nested::{files_within, notes_within};
use crate::{InputFile, Medium, MediumNote, MediumSite, NestedMedium, RunContext};

/// Parameters of a data path. At least one rate is given.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct DataPathParams {
    /// Rate of data that are read. Default: no limit.
    #[serde(default)]
    pub read_bandwidth: Option<BytesPerSec>,
    /// Rate of data that are written. Default: no limit.
    #[serde(default)]
    pub write_bandwidth: Option<BytesPerSec>,
    /// The medium behind the path.
    pub medium: NestedMedium,
}

/// The medium behind a path, and its times.
struct DataPathMedium {
    line_ps: [u64; 2],
    medium: Box<dyn Medium>,
}

pub(crate) const ENTRY: Entry<Box<dyn Medium>> = Entry {
    name: "data-path",
    summary: "a controller's data path in front of a medium: own rates of reads and writes",
    schema: <DataPathParams as JsonSchema>::json_schema,
    build: |params| {
        let params: DataPathParams = read_params(params)?;
        let rates = [
            ("read_bandwidth", params.read_bandwidth),
            ("write_bandwidth", params.write_bandwidth),
        ];
        if rates.iter().all(|(_, rate)| rate.is_none()) {
            let allowed = "at least one of `read_bandwidth` and `write_bandwidth` is required";
            return Err(ParamError::new("", allowed));
        }
        if let Some((name, _)) = rates.iter().find(|(_, rate)| *rate == Some(BytesPerSec(0))) {
            return Err(ParamError::new(*name, "must be more than 0 B/s"));
        }
        let time = |rate: BytesPerSec| rate.time_for(Bytes(LINE_BYTES)).0;
        Ok(Box::new(DataPathMedium {
            line_ps: rates.map(|(_, rate)| rate.map_or(0, time)),
            medium: in_part("medium", params.medium.build())?,
        }))
    },
};

impl Medium for DataPathMedium {
    fn load(&mut self, folder: &Path) -> Result<(), ParamError> {
        in_part("medium", self.medium.load(folder))
    }

    fn check(&self, capacity: Bytes) -> Result<(), ParamError> {
        in_part("medium", self.medium.check(capacity))
    }

    fn largest(&self) -> Option<Bytes> {
        self.medium.largest()
    }

    fn backend(&self, site: MediumSite) -> Box<dyn MemoryBackend> {
        Box::new(DataPath {
            line_ps: self.line_ps,
            free: [SimTime::ZERO; 2],
            refused: [false; 2],
            medium: self.medium.backend(site),
        })
    }

    fn can_be_warmed(&self) -> bool {
        self.medium.can_be_warmed()
    }

    fn keeps_state(&self) -> bool {
        self.medium.keeps_state()
    }

    fn slowest(&self) -> Picos {
        self.medium.slowest()
    }

    fn is_persistent(&self) -> Option<bool> {
        self.medium.is_persistent()
    }

    fn files(&self) -> Vec<InputFile> {
        files_within("medium", self.medium.as_ref())
    }

    fn latency_follows_load(&self) -> bool {
        self.medium.latency_follows_load()
    }

    fn runs_code(&self) -> bool {
        self.medium.runs_code()
    }

    fn notes(&self, _outstanding: Option<u32>) -> Vec<MediumNote> {
        notes_within("medium", self.medium.as_ref())
    }

    fn rehearse(&self, capacity: Bytes, context: &RunContext) -> Result<(), ParamError> {
        in_part("medium", self.medium.rehearse(capacity, context))
    }

    fn idle_read_ps(&self) -> Option<u64> {
        self.medium.idle_read_ps()
    }
}

/// The paths of reads and writes, in this order, and the medium.
struct DataPath {
    /// Time of a line on each path.
    line_ps: [u64; 2],
    /// When each path takes the next line.
    free: [SimTime; 2],
    /// Whether the owner waits for each path.
    refused: [bool; 2],
    medium: Box<dyn MemoryBackend>,
}

save_state!(DataPath {
    values: free, refused;
    states: medium;
    built: line_ps;
});

impl MemoryBackend for DataPath {
    fn can_accept(&mut self, now: SimTime, write: bool) -> bool {
        let path = usize::from(write);
        let busy = self.free[path] > now;
        self.refused[path] = busy;
        !busy && self.medium.can_accept(now, write)
    }

    fn prefetch(&self) {
        self.medium.prefetch();
    }

    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime> {
        let path = usize::from(request.write);
        self.free[path] = SimTime(now.0 + self.line_ps[path] * u64::from(request.lines));
        self.medium.enqueue(now, request)
    }

    fn defer(&mut self) {
        self.medium.defer();
    }

    fn next_event(&self) -> Option<SimTime> {
        let waits = |path: usize| self.refused[path].then_some(self.free[path]);
        let paths = [waits(0), waits(1)].into_iter().flatten();
        paths.chain(self.medium.next_event()).min()
    }

    fn soonest(&self, at: SimTime) -> SimTime {
        self.medium.soonest(at)
    }

    fn advance(&mut self, now: SimTime, done: &mut Vec<Completion>) {
        for path in 0..2 {
            self.refused[path] &= self.free[path] > now;
        }
        self.medium.advance(now, done);
    }

    fn granule(&self) -> u32 {
        self.medium.granule()
    }

    fn warm(&mut self, request: MemoryRequest) {
        self.medium.warm(request);
    }

    fn begin_measurement(&mut self, now: SimTime) {
        self.medium.begin_measurement(now);
    }

    fn statistics(&self, now: SimTime, out: &mut Vec<Statistic>) {
        self.medium.statistics(now, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{backend, refusal, request};
    use serde_json::json;

    /// Times at which the path accepts each request, in picoseconds, where all come at time 0 and a class that
    /// waits does not hold back the other.
    fn accepted(params: &serde_json::Value, writes: &[bool]) -> Vec<u64> {
        let mut path = backend("data-path", params, 1 << 30);
        let mut left: Vec<usize> = (0..writes.len()).collect();
        let (mut now, mut times) = (SimTime::ZERO, vec![0; writes.len()]);
        loop {
            let mut held = [false; 2];
            left.retain(|&at| {
                let write = writes[at];
                held[usize::from(write)] |= !path.can_accept(now, write);
                if held[usize::from(write)] {
                    return true;
                }
                path.enqueue(now, request(at as u32, at as u64 * 64, 1, write));
                times[at] = now.0;
                false
            });
            if left.is_empty() {
                return times;
            }
            now = path.next_event().unwrap();
            path.advance(now, &mut Vec::new());
        }
    }

    #[test]
    fn reads_and_writes_are_spaced_by_their_own_rates() {
        let params = json!({
            "read_bandwidth": "64 GB/s", "write_bandwidth": "16 GB/s", "medium": { "kind": "fixed" },
        });
        let writes = [false, true, false, true, false, true];
        let times = accepted(&params, &writes);
        assert_eq!(times, [0, 0, 1_000, 4_000, 2_000, 8_000]);
        let params = json!({ "write_bandwidth": "16 GB/s", "medium": { "kind": "fixed" } });
        assert_eq!(accepted(&params, &writes), [0, 0, 0, 4_000, 0, 8_000]);
    }

    #[test]
    fn a_path_without_rates_or_with_a_wrong_medium_is_refused() {
        for (params, message) in [
            (
                json!({ "medium": { "kind": "fixed" } }),
                "at least one of `read_bandwidth` and `write_bandwidth` is required",
            ),
            (
                json!({ "read_bandwidth": "0 B/s", "medium": { "kind": "fixed" } }),
                "`read_bandwidth`: must be more than 0 B/s",
            ),
            (
                json!({ "read_bandwidth": "1 GB/s", "medium": { "kind": "fixed", "banks": 0 } }),
                "`medium.banks`: found 0; allowed: 1 to 65536",
            ),
        ] {
            let error = refusal("data-path", &params, 1 << 30);
            assert_eq!(error.to_string(), message);
        }
    }
}
