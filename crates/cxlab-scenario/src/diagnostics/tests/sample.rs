//! A small scenario schema with one key of every sort, as schemars makes it.

use cxlab_engine::units::{Bytes, BytesPerSec, Picos};
use schemars::JsonSchema;
use serde_json::Value;

use super::super::{Diagnostics, Document, render, validate};

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)]
pub struct Scenario {
    /// The machines that issue requests.
    #[schemars(length(min = 1, max = 3))]
    hosts: Vec<Host>,
    #[schemars(default)]
    fabric: Option<Fabric>,
    mode: Option<Mode>,
    tier: Option<Tier>,
    window: Option<(u8, u8)>,
    limits: Option<std::collections::BTreeMap<String, u16>>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)]
pub struct Host {
    /// The name used in reports.
    #[schemars(regex(pattern = "^[a-z][a-z0-9]*$"))]
    name: String,
    #[schemars(range(min = 1, max = 64), default)]
    count: u32,
    #[schemars(default)]
    seed: u64,
    #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0.0), default)]
    share: f64,
    #[schemars(default)]
    pinned: bool,
    workload: Option<Workload>,
}

#[derive(JsonSchema)]
#[schemars(tag = "kind", deny_unknown_fields, rename_all = "kebab-case")]
#[allow(dead_code)]
pub enum Workload {
    /// Addresses at random.
    Random {
        #[schemars(default)]
        reads: f64,
    },
    /// A recorded trace.
    Trace { file: String },
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)]
pub struct Fabric {
    topology: Topology,
    /// The time one hop takes.
    latency: Picos,
    rate: Option<BytesPerSec>,
    buffer: Option<Bytes>,
}

#[derive(JsonSchema)]
#[schemars(tag = "kind", deny_unknown_fields, rename_all = "kebab-case")]
#[allow(dead_code)]
pub enum Topology {
    Ring {
        /// How many switches the ring has.
        switches: u8,
    },
    Mesh {
        rows: u8,
        columns: u8,
    },
    Star,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code)]
pub enum Mode {
    /// As fast as possible.
    Fast,
    Exact,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code)]
pub enum Tier {
    Near,
    Far,
}

/// The scenario that breaks no rule.
pub const VALID: &str = r#"mode = "fast"
window = [1, 2]
limits = { reads = 4 }

[fabric]
latency = "25 ns"
rate = "32 GB/s"
buffer = "64 KiB"
topology = { kind = "ring", switches = 4 }

[[hosts]]
name = "h0"
count = 2
share = 0.5

[[hosts]]
name = "h1"
pinned = true
workload.kind = "trace"
workload.file = "a.trace"
"#;

pub fn schema() -> Value {
    schemars::schema_for!(Scenario).to_value()
}

/// The document and its diagnostics, whether it parses or not.
pub fn diagnose(text: &str) -> (Document, Diagnostics) {
    match Document::parse("s.toml", text) {
        Ok(document) => {
            let found = validate(&document, &schema());
            (document, found)
        }
        Err(found) => (Document::unparsed("s.toml", text), found),
    }
}

/// The rendered diagnostics of a text.
pub fn shown(text: &str) -> String {
    let (document, found) = diagnose(text);
    render(&found, &document, false)
}

/// Asserts that `text` has exactly `count` mistakes and that they are shown with all of `parts`.
pub fn assert_shown(text: &str, count: usize, parts: &[&str]) {
    let (document, found) = diagnose(text);
    let shown = render(&found, &document, false);
    assert_eq!(found.len(), count, "{text}\n{shown}");
    assert_parts(&shown, parts);
}

pub fn assert_parts(shown: &str, parts: &[&str]) {
    for part in parts {
        assert!(shown.contains(part), "`{part}` is not in\n{shown}");
    }
}

/// Asserts a table of texts with one mistake each. A row is a text, `=>`, and the parts with which its
/// mistake is shown, between `//`; lines that begin with `//` continue the row above them. `\n`, `\r` and `\t`
/// stand for those characters.
pub fn assert_rows(table: &str, text: impl Fn(&str) -> String) {
    let mut rows: Vec<String> = Vec::new();
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match rows.last_mut().filter(|_| line.starts_with("//")) {
            Some(row) => row.extend([" ", line]),
            None => rows.push(line.to_owned()),
        }
    }
    for row in rows {
        let (found, parts) = row.split_once(" => ").unwrap();
        let parts: Vec<&str> = parts.split(" // ").collect();
        let found = found
            .replace("\\n", "\n")
            .replace("\\r", "\r")
            .replace("\\t", "\t");
        assert_shown(&text(&found), 1, &parts);
    }
}
