//! Content and omissions of a trace, in words.

use super::model::Trace;

impl Trace {
    /// Number of requests in the trace.
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// Content and omissions of the trace, in a sentence or two.
    pub fn summary(&self) -> String {
        let Some((from, to)) = self.window else {
            return "no requests: the run ended before the window".to_owned();
        };
        let nanos = |picos: u64| picos as f64 / 1e3;
        let plural = if self.requests == 1 { "" } else { "s" };
        let mut text = format!(
            "{} request{plural} from {} ns to {} ns",
            self.requests,
            nanos(from),
            nanos(to)
        );
        let by_stage = self.requests - self.by_messages;
        if by_stage > 0 {
            text += &format!(
                "; {by_stage} of them without messages that show where, so their stages are in a fixed order"
            );
        }
        if self.left_out > 0 {
            let left_out = self.left_out;
            text += &format!(
                "; left out: {left_out} later ones (--perfetto-requests, --perfetto-window)"
            );
        }
        text
    }
}
