//! A trace as JSON in Chrome's Trace Event Format, which Perfetto's UI and `chrome://tracing` open.

use serde_json::{Map, Value, json};

use super::model::{Arg, Slice, Trace};

/// Picoseconds as microseconds, the unit of the format. A double has 53 bits, so times are exact up to 2^53 ps, or two
/// and a half hours of simulated time.
fn micros(picos: u64) -> f64 {
    picos as f64 / 1e6
}

impl Trace {
    /// The trace as JSON. A process is a host, device, switch or link direction, and a thread a track of it.
    pub fn chrome_json(&self) -> String {
        let mut events = Vec::new();
        let tracks = self.tracks.iter().enumerate();
        for (number, track) in tracks.filter(|(_, track)| !track.is_counter) {
            let (what, pid, tid) = match track.parent {
                None => ("process_name", number, 0),
                Some(parent) => ("thread_name", parent, number),
            };
            events.push(json!({
                "ph": "M", "pid": pid, "tid": tid, "name": what, "args": { "name": track.name },
            }));
        }
        for slice in &self.slices {
            self.add_chrome(&mut events, slice);
        }
        self.add_flows(&mut events);
        for count in &self.counts {
            let track = &self.tracks[count.track];
            events.push(json!({
                "ph": "C", "name": track.name, "pid": track.parent.unwrap_or(count.track),
                "ts": micros(count.at_ps), "args": { "value": count.value },
            }));
        }
        let lines: Vec<String> = events.iter().map(Value::to_string).collect();
        format!(
            "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n",
            lines.join(",\n")
        )
    }

    fn pid(&self, slice: &Slice) -> usize {
        self.tracks[slice.track].parent.unwrap_or(slice.track)
    }

    fn add_chrome(&self, events: &mut Vec<Value>, slice: &Slice) {
        let mut args = Map::new();
        args.insert("request".to_owned(), slice.request.into());
        for (name, value) in &slice.args {
            let value = match value {
                Arg::Number(number) => Value::from(*number),
                Arg::Text(text) => Value::from(text.as_str()),
            };
            args.insert((*name).to_owned(), value);
        }
        events.push(json!({
            "ph": "X", "name": slice.name, "cat": slice.category, "pid": self.pid(slice), "tid": slice.track,
            "ts": micros(slice.begin_ps), "dur": micros(slice.end_ps - slice.begin_ps), "args": args,
        }));
        for inside in &slice.inside {
            self.add_chrome(events, inside);
        }
    }

    /// Arrows between the slices of each request, in the order of time.
    fn add_flows(&self, events: &mut Vec<Value>) {
        let mut steps: Vec<&Slice> = self.slices.iter().filter(|slice| slice.in_flow).collect();
        steps.sort_by_key(|slice| (slice.request, slice.begin_ps));
        let flows = steps.chunk_by(|one, next| one.request == next.request);
        for flow in flows.filter(|flow| flow.len() > 1) {
            for (number, slice) in flow.iter().enumerate() {
                let phase = match number {
                    0 => "s",
                    _ if number + 1 == flow.len() => "f",
                    _ => "t",
                };
                events.push(json!({
                    "ph": phase, "bp": "e", "id": slice.request, "name": "request", "cat": "flow",
                    "pid": self.pid(slice), "tid": slice.track, "ts": micros(slice.begin_ps),
                }));
            }
        }
    }
}
