//! The values of a report by their paths, with their intervals.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{LISTS, OF_THE_RUN};

/// Intervals whose name is not that of their value: in `ci95`, and in the table that has it.
const INTERVALS: [(&str, &str); 7] = [
    ("total_gb_per_s", "bandwidth_gb_per_s.total"),
    ("read_gb_per_s", "bandwidth_gb_per_s.read"),
    ("write_gb_per_s", "bandwidth_gb_per_s.write"),
    ("latency_ns", "latency_ns.mean"),
    ("read_latency_ns", "read_latency_ns.mean"),
    ("in_flight", "littles_law.in_flight"),
    ("time_ci95_ns", "time_ns"),
];

/// A number, and the half-width of its 95 % interval if the report has one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct MeasuredValue {
    pub(super) value: f64,
    pub(super) ci95: Option<f64>,
}

/// All values of a report.
#[derive(Default)]
pub(super) struct Values {
    pub(super) numbers: BTreeMap<String, MeasuredValue>,
    /// Texts and truth values.
    pub(super) others: BTreeMap<String, Value>,
}

/// The values of a report that are compared.
pub(super) fn measured(report: &Value) -> Values {
    let mut values = Values::default();
    if let Some(Value::Array(quantities)) = report.get("quantities") {
        values.quantities(quantities);
    } else if let Value::Object(map) = report {
        let compared = |key: &str| {
            let of_run =
                ["scenario", "plan_hash", "seed", "partial", "mode", "notes"].contains(&key);
            !of_run && !OF_THE_RUN.contains(&key) && !LISTS.contains(&key)
        };
        let kept: Map<String, Value> = map
            .iter()
            .filter(|(key, _)| compared(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        values.table(&kept, "");
        values.numbers.remove("requests.per_wall_second");
    }
    values
}

impl Values {
    /// Gives entries other names.
    pub(super) fn rename(&mut self, names: &Names) {
        fn all<V>(map: &mut BTreeMap<String, V>, names: &Names) {
            let old = std::mem::take(map).into_iter();
            map.extend(old.map(|(path, value)| (renamed(&path, names), value)));
        }
        if !names.is_empty() {
            all(&mut self.numbers, names);
            all(&mut self.others, names);
        }
    }

    /// The means over several seeds.
    fn quantities(&mut self, quantities: &[Value]) {
        for quantity in quantities {
            let number = |key: &str| quantity.get(key).and_then(Value::as_f64);
            let name = quantity.get("name").and_then(Value::as_str);
            if let (Some(name), Some(value)) = (name, number("mean")) {
                let ci95 = number("ci95");
                self.numbers
                    .insert(name.to_owned(), MeasuredValue { value, ci95 });
            }
        }
    }

    fn add(&mut self, value: &Value, path: String) {
        match value {
            Value::Number(number) => {
                let value = number.as_f64().unwrap_or(f64::NAN);
                self.numbers
                    .insert(path, MeasuredValue { value, ci95: None });
            }
            Value::Object(map) => self.table(map, &path),
            Value::Array(items) => {
                let mut labels: Vec<String> = Vec::with_capacity(items.len());
                for (at, item) in items.iter().enumerate() {
                    let own = label(item, at);
                    // Parallel links have the same ends.
                    let alike = labels.iter().filter(|other| **other == own).count();
                    let number = match alike {
                        0 => String::new(),
                        before => format!(" #{}", before + 1),
                    };
                    self.add(item, format!("{path}[{own}{number}]"));
                    labels.push(own);
                }
            }
            Value::Null => {}
            Value::Bool(_) | Value::String(_) => {
                self.others.insert(path, value.clone());
            }
        }
    }

    fn table(&mut self, map: &Map<String, Value>, path: &str) {
        let dot = if path.is_empty() { "" } else { "." };
        for (key, value) in map.iter().filter(|(key, _)| !key.contains("ci95")) {
            self.add(value, format!("{path}{dot}{key}"));
        }
        if let Some(Value::Object(intervals)) = map.get("ci95") {
            self.intervals(intervals, &format!("{path}{dot}"));
        }
        if let Some(half) = map.get("time_ci95_ns").and_then(Value::as_f64) {
            self.interval("time_ci95_ns", half, &format!("{path}{dot}"));
        }
    }

    /// Gives the values below `prefix` their intervals.
    fn intervals(&mut self, intervals: &Map<String, Value>, prefix: &str) {
        for (name, half) in intervals {
            match half {
                Value::Number(half) => {
                    self.interval(name, half.as_f64().unwrap_or(f64::INFINITY), prefix);
                }
                Value::Object(stages) => self.intervals(stages, &format!("{prefix}{name}.")),
                _ => {}
            }
        }
    }

    fn interval(&mut self, name: &str, half: f64, prefix: &str) {
        let renamed = INTERVALS.iter().find(|(own, _)| *own == name);
        let renamed = renamed.map(|(_, value)| format!("{prefix}{value}"));
        // A host's `in_flight` has the interval's own name.
        let path = renamed.filter(|path| self.numbers.contains_key(path));
        let path = path.unwrap_or_else(|| format!("{prefix}{name}"));
        if let Some(number) = self.numbers.get_mut(&path) {
            number.ci95 = Some(half);
        }
    }
}

/// Other names of entries, by their own.
pub(super) type Names = BTreeMap<String, String>;

/// Lists whose entries are named after their group: alone as it is, and with their number where there are several.
const GROUPS: [&str; 3] = ["hosts", "accelerators", "devices"];

/// The entries that stand alone in their group in `alone`, and are the first of several in `several`: their names
/// there, by the names here.
pub(super) fn firsts(alone: &Value, several: &Value) -> Names {
    let names = |report: &Value| -> BTreeSet<String> {
        let lists = GROUPS
            .iter()
            .filter_map(|list| report.get(list)?.as_array());
        let names = lists
            .flatten()
            .filter_map(|entry| entry.get("name")?.as_str());
        names.map(str::to_owned).collect()
    };
    let (alone, several) = (names(alone), names(several));
    let first = |name: &String| (name.clone(), format!("{name}0"));
    let all = alone.difference(&several).map(first);
    all.filter(|(_, first)| several.contains(first) && !alone.contains(first))
        .collect()
}

/// A path with other names of its entry, or of the ends of its link.
fn renamed(path: &str, names: &Names) -> String {
    let parts = path
        .split_once('[')
        .and_then(|(list, rest)| Some((list, rest.split_once(']')?)));
    let Some((list, (label, rest))) = parts else {
        return path.to_owned();
    };
    let (ends, number) = label.split_at(label.find(" #").unwrap_or(label.len()));
    let ends = ends.split("->");
    let ends = ends.map(|end| names.get(end).map_or(end, String::as_str));
    let ends: Vec<&str> = ends.collect();
    format!("{list}[{}{number}]{rest}", ends.join("->"))
}

/// What tells an entry of a list from the others, whatever their order: its name, its number of links, or its
/// position in the list.
fn label(item: &Value, at: usize) -> String {
    let text = |key: &str| item.get(key).and_then(Value::as_str);
    match (text("direction"), text("name"), item.get("hops")) {
        (Some(direction), ..) => direction.to_owned(),
        (None, Some(name), _) => name.to_owned(),
        (None, None, Some(hops)) => format!("hops={hops}"),
        _ => at.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_intervals_of_their_table() {
        let report = serde_json::json!({
            "latency_ns": { "mean": 5.0, "max": 9.0 }, "run": "x", "in_flight": 3,
            "ci95": { "batches": 20, "latency_ns": 0.5, "in_flight": 0.1, "stages_ns": { "link": 0.25 } },
            "stages_ns": { "link": 2.0 },
            "links": [
                { "name": "a--b", "direction": "a->b", "utilization": 0.5, "ci95": { "utilization": 0.01 } },
                { "name": "a--b", "direction": "a->b", "utilization": 0.25, "ci95": {} },
            ],
            "by_hops": [{ "hops": 2, "mean_ns": 7, "ci95": { "mean_ns": null } }],
        });
        let values = measured(&report);
        let half = |path: &str| values.numbers[path].ci95;
        assert_eq!(half("latency_ns.mean"), Some(0.5));
        assert_eq!(half("latency_ns.max"), None);
        assert_eq!(half("in_flight"), Some(0.1));
        assert_eq!(half("stages_ns.link"), Some(0.25));
        assert_eq!(half("links[a->b].utilization"), Some(0.01));
        assert_eq!(values.numbers["links[a->b #2].utilization"].value, 0.25);
        assert_eq!(half("by_hops[hops=2].mean_ns"), None);
        assert!(!values.numbers.keys().any(|path| path.contains("ci95")));
        assert!(!values.others.contains_key("run"));
    }

    #[test]
    fn what_stands_alone_is_the_first_of_several() {
        let alone = serde_json::json!({
            "hosts": [{ "name": "host" }, { "name": "beside" }], "devices": [{ "name": "mem0" }],
        });
        let several = serde_json::json!({
            "hosts": [{ "name": "host0" }, { "name": "host1" }, { "name": "beside" }],
            "devices": [{ "name": "mem0" }],
        });
        let names = firsts(&alone, &several);
        assert_eq!(
            names,
            BTreeMap::from([("host".to_owned(), "host0".to_owned())])
        );
        assert!(firsts(&several, &alone).is_empty());
        for (path, other) in [
            ("hosts[host].latency_ns.p99", "hosts[host0].latency_ns.p99"),
            (
                "links[sw0->host #2].messages",
                "links[sw0->host0 #2].messages",
            ),
            ("hosts[beside].reads", "hosts[beside].reads"),
            ("latency_ns.p99", "latency_ns.p99"),
        ] {
            assert_eq!(renamed(path, &names), other);
        }
    }
}
