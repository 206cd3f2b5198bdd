//! Memory operations and where they come from: patterns, traces, capture.
