//! Where in a program its delay comes from, for people: functions, source lines, memory, a flame graph.

use std::collections::BTreeMap;

use cxlab_attach::located::{LocatedPhase, MissCost, by_stack, total};
use cxlab_attach::recording::Recording;
use cxlab_attach::symbols::{Function, Symbols};
use cxlab_system::layout::table;
use serde::Serialize;

/// Most rows of a table.
const ROWS: usize = 12;
/// Widest name in a table.
const WIDTH: usize = 64;

/// A row: a function, a line, or a piece of memory.
#[derive(Clone, Serialize, Debug)]
pub(super) struct Row {
    pub(super) name: String,
    /// Function of a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    /// Peak size of a piece of memory, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    pub(super) delay_ns: f64,
    /// Lines read from all pools.
    misses: f64,
}

/// Delay and misses of a run by place.
#[derive(Clone, Serialize, Debug)]
pub(super) struct CostByPlace {
    functions: Vec<Row>,
    lines: Vec<Row>,
    pub(super) memory: Vec<Row>,
    /// Delay that no window locates, in nanoseconds.
    unlocated_ns: f64,
    /// Missing parts, each with the reason.
    notes: Vec<String>,
    /// Delay by calls, outermost first, in whole nanoseconds.
    #[serde(skip)]
    folded: BTreeMap<String, u64>,
}

impl CostByPlace {
    /// Sums the delay of all phases by function, line, object and calls, with names from the program's files.
    pub(super) fn new(recording: &Recording, phases: &[LocatedPhase]) -> CostByPlace {
        let mut symbols = Symbols::new(recording);
        let mut functions: BTreeMap<String, MissCost> = BTreeMap::new();
        let mut lines: BTreeMap<(String, String), MissCost> = BTreeMap::new();
        let mut memory: BTreeMap<String, (MissCost, BTreeMap<u32, u64>)> = BTreeMap::new();
        let mut folded: BTreeMap<String, f64> = BTreeMap::new();
        for phase in phases {
            for (place, used) in &phase.instructions {
                let inner = symbols.functions(*place);
                let Some(first) = inner.first() else { continue };
                functions.entry(first.name.clone()).or_default().add(*used);
                if let Some(line) = first.line() {
                    let of = lines.entry((line, first.name.clone())).or_default();
                    of.add(*used);
                }
                for (stack, part) in by_stack(&phase.stacks, *used) {
                    if part.delay_ns > 0.0 {
                        let calls = joined(symbols.calls(stack), &inner);
                        *folded.entry(calls).or_default() += part.delay_ns;
                    }
                }
            }
            for (object, used) in &phase.objects {
                let (name, bytes) = symbols.object(*object);
                let (all, sizes) = memory.entry(name).or_default();
                all.add(*used);
                sizes.insert(*object, bytes.unwrap_or(0));
            }
        }
        let plain = |name, used: MissCost| Row {
            name,
            function: None,
            bytes: None,
            delay_ns: used.delay_ns,
            misses: used.lines,
        };
        let unlocated_ns = phases.iter().map(|phase| phase.unlocated_ns).sum();
        let folded = folded.into_iter();
        CostByPlace {
            functions: sorted(functions.into_iter().map(|(name, used)| plain(name, used))),
            lines: sorted(lines.into_iter().map(|((line, function), used)| Row {
                function: Some(function),
                ..plain(line, used)
            })),
            memory: sorted(memory.into_iter().map(|(name, (used, sizes))| {
                // Variables share the size of their one symbol, and allocation sites add up.
                let is_variable = name.starts_with("variable");
                let bytes = match is_variable {
                    true => sizes.values().max().copied(),
                    false => Some(sizes.values().sum()),
                };
                Row {
                    bytes: bytes.filter(|bytes| *bytes > 0),
                    ..plain(name, used)
                }
            })),
            unlocated_ns,
            notes: recording.notes.clone(),
            folded: folded
                .map(|(calls, ns)| (calls, ns.round() as u64))
                .filter(|(_, ns)| *ns > 0)
                .collect(),
        }
    }

    /// Tables for users.
    pub(super) fn text(&self, phases: &[LocatedPhase]) -> String {
        let all = total(phases);
        let part = |value: f64, all: f64| match all > 0.0 {
            true => format!("{:.1} %", 100.0 * value / all),
            false => "-".to_owned(),
        };
        let by = |what: &str, last: &[&str], rows: &[Row], more: fn(&Row) -> String| {
            let head = [&[what, "delay, s", "share", "misses", "share"], last].concat();
            let mut all_rows = vec![head.into_iter().map(str::to_owned).collect()];
            for row in rows.iter().take(ROWS) {
                let mut cells = vec![
                    clipped(&row.name),
                    format!("{:.6}", row.delay_ns / 1e9),
                    part(row.delay_ns, all.delay_ns),
                    format!("{:.0}", row.misses),
                    part(row.misses, all.lines),
                    more(row),
                ];
                cells.truncate(5 + last.len());
                all_rows.push(cells);
            }
            let rest = match rows.len().saturating_sub(ROWS) {
                0 => String::new(),
                left_out => format!("  ... {left_out} more in report.json\n"),
            };
            table(&all_rows) + &rest
        };
        let mut text = "\nwhere in the program\n\n".to_owned();
        text.push_str(&by("function", &[], &self.functions, |_| String::new()));
        text.push('\n');
        let function = |row: &Row| row.function.as_deref().map(clipped).unwrap_or_default();
        match self.lines.is_empty() {
            true => text.push_str("  no lines: the program has no debug information (-g)\n"),
            false => text.push_str(&by("line", &["function"], &self.lines, function)),
        }
        text.push('\n');
        let size = |row: &Row| {
            let mib = |bytes| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
            row.bytes.map_or("-".to_owned(), mib)
        };
        text.push_str(&by("memory", &["size, MiB"], &self.memory, size));
        if self.unlocated_ns > 0.0 {
            text.push_str(&format!(
                "  note: no window says where {:.6} s of the delay are from\n",
                self.unlocated_ns / 1e9
            ));
        }
        for note in &self.notes {
            text.push_str(&format!("  note: {note}\n"));
        }
        text
    }

    /// Delay by calls, one line each: calls from the outermost inward, then nanoseconds.
    pub(super) fn folded(&self) -> String {
        let lines = self.folded.iter();
        lines.map(|(calls, ns)| format!("{calls} {ns}\n")).collect()
    }

    /// The flame graph. `None` where there is no delay to draw.
    pub(super) fn flame_graph(&self, title: &str) -> Option<Vec<u8>> {
        let mut options = inferno::flamegraph::Options::default();
        options.title = format!("{title}: delay by CXL memory");
        options.count_name = "ns".to_owned();
        options.colors =
            inferno::flamegraph::Palette::Basic(inferno::flamegraph::color::BasicPalette::Mem);
        options.deterministic = true;
        let folded = self.folded();
        let mut picture = Vec::new();
        let drawn = inferno::flamegraph::from_lines(&mut options, folded.lines(), &mut picture);
        (!folded.is_empty() && drawn.is_ok()).then_some(picture)
    }
}

/// Rows with delay or misses, most delay first.
fn sorted(rows: impl Iterator<Item = Row>) -> Vec<Row> {
    let mut rows: Vec<Row> = rows
        .filter(|row| row.delay_ns > 0.0 || row.misses > 0.0)
        .collect();
    rows.sort_by(|one, other| {
        let key = |row: &Row| (row.delay_ns, row.misses);
        let order = key(other)
            .partial_cmp(&key(one))
            .unwrap_or(std::cmp::Ordering::Equal);
        order.then_with(|| one.name.cmp(&other.name))
    });
    rows
}

/// A name that fits a table: its beginning and its end.
fn clipped(name: &str) -> String {
    let all: Vec<char> = name.chars().collect();
    if all.len() <= WIDTH {
        return name.to_owned();
    }
    let part = |chars: &[char]| chars.iter().collect::<String>();
    let end = (WIDTH - 3) / 3;
    format!(
        "{}...{}",
        part(&all[..WIDTH - 3 - end]),
        part(&all[all.len() - end..])
    )
}

/// A sample's calls joined with the functions at an instruction that misses, outermost first. The sample may be of another
/// instruction of the same phase. If the functions are among the sample's calls, inner calls are dropped. Otherwise the
/// innermost call is taken to call the functions.
fn joined(mut calls: Vec<Function>, inner: &[Function]) -> String {
    let outer = inner.last().map(|function| function.name.as_str());
    let at = calls
        .iter()
        .position(|call| Some(call.name.as_str()) == outer);
    if let Some(at) = at {
        calls.drain(..=at);
    }
    let all = inner.iter().chain(&calls).rev();
    // A semicolon parts calls.
    let names: Vec<String> = all
        .map(|call| call.name.replace([';', '\n'], ":"))
        .collect();
    names.join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(names: &[&str]) -> Vec<Function> {
        let function = |name: &&str| Function {
            name: (*name).to_owned(),
            source: None,
        };
        names.iter().map(function).collect()
    }

    #[test]
    fn calls_end_at_the_instruction_that_misses() {
        let calls = functions(&["hash", "find", "main"]);
        let of = |inner: &[&str]| joined(calls.clone(), &functions(inner));
        assert_eq!(of(&["hash"]), "main;find;hash");
        assert_eq!(of(&["find"]), "main;find");
        assert_eq!(of(&["compare"]), "main;find;hash;compare");
        assert_eq!(of(&["inlined", "find"]), "main;find;inlined");
        assert_eq!(joined(Vec::new(), &functions(&["a;b"])), "a:b");
    }

    #[test]
    fn long_names_keep_both_ends() {
        let name = "a".repeat(100) + "end";
        let short = clipped(&name);
        assert_eq!(short.chars().count(), WIDTH);
        assert!(short.ends_with("end") && short.contains("..."));
        assert_eq!(clipped("short"), "short");
    }
}
