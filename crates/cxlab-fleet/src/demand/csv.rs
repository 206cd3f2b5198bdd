//! Demand from a CSV file: one VM a line.
//!
//! The first line names the columns, in any order. Required are `start_s`, `lifetime_s`, `cores`
//! and `memory_gib`. Optional are `cluster`, `slowdown` (share of time lost at 182 % of local
//! latency) and `untouched` (share of memory). Fields are plain, without quotes. Empty lines and
//! lines that begin with `#` are skipped. Lines may be in any order. Without `cluster`, VMs are
//! assigned to the clusters round robin, in the order of their starts.

use std::io::Read;
use std::path::Path;

use cxlab_engine::catalog::{Entry, ParamError, read_params};
use cxlab_engine::rng::StreamRng;
use cxlab_files::input;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClusterDemand, Demand, DemandError, VmRequest};

pub(super) const ENTRY: Entry<Box<dyn Demand>> = Entry {
    name: "csv",
    summary: "VMs from a file, one a line: start_s, lifetime_s, cores, memory_gib",
    schema: <Csv as JsonSchema>::json_schema,
    build: |params| {
        let params: Csv = read_params(params)?;
        if params.path.is_empty() {
            return Err(ParamError::new(
                "path",
                "found \"\"; allowed: the path of a file",
            ));
        }
        Ok(Box::new(Trace {
            params,
            table: Table::default(),
            content: Vec::new(),
        }))
    },
};

/// VMs from a CSV file.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct Csv {
    /// Path of the file. A relative path starts from the scenario's folder.
    pub path: String,
}

/// Largest accepted file: 4 GiB.
const MAX_BYTES: u64 = 4 << 30;

#[derive(Debug)]
struct Trace {
    params: Csv,
    table: Table,
    content: Vec<u8>,
}

/// Contents of a demand file.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Table {
    /// VMs in the order of their starts, each with its cluster if the file has that column.
    pub rows: Vec<(Option<u32>, VmRequest)>,
}

impl Demand for Trace {
    fn open(&mut self, folder: &Path) -> Result<(), DemandError> {
        let path = folder.join(&self.params.path);
        let shown = path.display();
        let unreadable = |error: std::io::Error| {
            DemandError(format!("{shown}: the VM demand cannot be read: {error}"))
        };
        // Opening a pipe may block for ever, and a device may have no end.
        if !input::kind(&path).map_err(unreadable)?.is_file {
            return Err(DemandError(format!(
                "{shown}: is a folder, a device or a pipe; allowed: a regular file"
            )));
        }
        let file = input::open(&path).map_err(unreadable)?;
        let mut content = Vec::new();
        // The read is bounded because the file may grow meanwhile.
        file.take(MAX_BYTES + 1)
            .read_to_end(&mut content)
            .map_err(unreadable)?;
        if content.len() as u64 > MAX_BYTES {
            return Err(DemandError(format!(
                "{shown}: is larger than 4 GiB; allowed: at most that"
            )));
        }
        self.table = Table::parse(&content)
            .map_err(|(line, message)| DemandError(format!("{shown}:{line}: {message}")))?;
        self.content = content;
        Ok(())
    }

    fn asks(&self, cluster: &ClusterDemand, _rng: &mut StreamRng) -> Vec<VmRequest> {
        let mine = |(at, (home, ask)): (usize, &(Option<u32>, VmRequest))| {
            let home = home.map_or(at, |home| home as usize) % cluster.of;
            let fits = ask.start_s < cluster.span_s;
            (home == cluster.index && fits).then(|| ask.clone())
        };
        let rows = self.table.rows.iter().enumerate();
        rows.filter_map(mine).collect()
    }

    fn most_mib_per_core(&self) -> f64 {
        let rows = self.table.rows.iter();
        let each = rows.map(|(_, ask)| f64::from(ask.memory_mib) / f64::from(ask.cores));
        each.fold(0.0, f64::max)
    }

    fn content(&self) -> &[u8] {
        &self.content
    }
}

/// Names of the columns, in the order of their numbers. The first `NEEDED` are required.
const COLUMNS: [&str; 7] = [
    "start_s",
    "lifetime_s",
    "cores",
    "memory_gib",
    "cluster",
    "slowdown",
    "untouched",
];
const NEEDED: usize = 4;
/// Latest time in seconds, more than a thousand years: later than any study.
const MOST_S: f64 = 4e10;

impl Table {
    /// Parses a whole file.
    ///
    /// # Errors
    /// The line of the first mistake, counted from 1, with a message.
    pub fn parse(content: &[u8]) -> Result<Table, (usize, String)> {
        let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
        let mut head: Option<Vec<usize>> = None;
        let mut rows = Vec::new();
        for (at, line) in content.split(|byte| *byte == b'\n').enumerate() {
            let number = at + 1;
            let unreadable = "found bytes that are no UTF-8; allowed: text";
            let line = std::str::from_utf8(line).map_err(|_| (number, unreadable.to_owned()))?;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match &head {
                None => head = Some(columns(line).map_err(|message| (number, message))?),
                Some(head) => rows.push(row(head, line).map_err(|message| (number, message))?),
            }
        }
        if head.is_none() {
            let names = COLUMNS.join(", ");
            let message = format!("found no line with the names of columns; allowed: {names}");
            return Err((1, message));
        }
        if rows.is_empty() {
            return Err((1, "found no VMs; allowed: one at least".to_owned()));
        }
        // The sort is stable, so VMs that start together stay in the order of the file.
        rows.sort_by_key(|(_, ask): &(Option<u32>, VmRequest)| ask.start_s);
        Ok(Table { rows })
    }
}

/// Parses the header into the number of the column of each field.
fn columns(line: &str) -> Result<Vec<usize>, String> {
    let mut found = Vec::new();
    for name in line.split(',').map(str::trim) {
        let Some(column) = COLUMNS.iter().position(|column| *column == name) else {
            let hint = near(name).map(|near| format!("; did you mean `{near}`?"));
            return Err(format!(
                "found column `{}`; allowed: {}{}",
                shown(name),
                COLUMNS.join(", "),
                hint.unwrap_or_default()
            ));
        };
        if found.contains(&column) {
            return Err(format!("found column `{name}` twice; allowed: once"));
        }
        found.push(column);
    }
    match (0..NEEDED).find(|column| !found.contains(column)) {
        Some(missing) => Err(format!(
            "found no column `{}`; it is needed",
            COLUMNS[missing]
        )),
        None => Ok(found),
    }
}

/// The column that a misspelt name likely means: equal but for case, separators and unit.
fn near(name: &str) -> Option<&'static str> {
    let plain = |text: &str| -> String {
        let letters = text.chars().filter(char::is_ascii_alphanumeric);
        letters.map(|letter| letter.to_ascii_lowercase()).collect()
    };
    let wanted = plain(name);
    let stem = |column: &str| plain(column.split('_').next().unwrap_or(column));
    let is_near = |column: &&&str| {
        plain(column) == wanted
            || (wanted.len() > 2
                && (stem(column).starts_with(&wanted) || wanted.starts_with(&stem(column))))
    };
    COLUMNS.iter().find(is_near).copied()
}

/// A field as messages show it, at most 40 characters.
fn shown(field: &str) -> String {
    field.chars().take(40).collect()
}

fn row(head: &[usize], line: &str) -> Result<(Option<u32>, VmRequest), String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if fields.len() != head.len() {
        return Err(format!(
            "found {} fields; allowed: {}, as the columns",
            fields.len(),
            head.len()
        ));
    }
    let mut values: [Option<f64>; COLUMNS.len()] = [None; COLUMNS.len()];
    for (column, field) in head.iter().zip(fields) {
        if column >= &NEEDED && field.is_empty() {
            continue;
        }
        values[*column] = Some(value(*column, field)?);
    }
    let need = |column: usize| values[column].unwrap_or_default();
    let start_s = need(0) as u64;
    let ask = VmRequest {
        start_s,
        end_s: start_s + (need(1) as u64).max(1),
        cores: need(2) as u32,
        memory_mib: ((need(3) * 1024.0).round() as u32).max(1),
        loss: values[5],
        untouched: values[6],
    };
    Ok((values[4].map(|cluster| cluster as u32), ask))
}

fn value(column: usize, field: &str) -> Result<f64, String> {
    let (low, high, whole) = match column {
        0 | 1 => (0.0, MOST_S, false),
        2 => (1.0, 4096.0, true),
        3 => (1.0 / 1024.0, 4e6, false),
        4 => (0.0, 1e6, true),
        5 => (0.0, 10.0, false),
        _ => (0.0, 1.0, false),
    };
    let wrong = || {
        let kind = if whole { "a whole number" } else { "a number" };
        format!(
            "column `{}`: found \"{}\"; allowed: {kind} from {low} to {high}",
            COLUMNS[column],
            shown(field)
        )
    };
    let number: f64 = field.parse().map_err(|_| wrong())?;
    let right = (low..=high).contains(&number) && (!whole || number.trunc() == number);
    if right { Ok(number) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests;
