//! Keys of a scenario that have no effect, because the component that would read them is missing.
//! Examples are the snoop filter of a device that snoops no host, and the translation cache of a
//! device without an operating system.
//!
//! Such keys are not mistakes, because a sweep may change which components there are. Each of
//! them gets a note; contradictions are refused by the plan. A key has a note only if the file or
//! a `--set` has it.

use cxlab_device::AcceleratorKind;
use cxlab_engine::units::{LINE_BYTES, Picos};
use cxlab_scenario::diagnostics::Document;
use cxlab_scenario::{EventParams, Note};

use crate::plan::Plan;

/// Keys of one entry of a list, and the condition under which they have no effect.
struct Rule {
    /// Keys below the entry; the name of a table stands for all keys in it.
    keys: &'static [&'static str],
    /// Whether the keys have no effect in the entry of that number.
    unread: fn(&Plan, usize) -> bool,
    /// Reason for the note, as a part of its message.
    why: &'static str,
}

/// Rules for keys of `[[hosts]]`.
const HOSTS: &[Rule] = &[
    Rule {
        keys: &["issue"],
        unread: |plan, at| plan.scenario.hosts[at].requester().is_none(),
        why: "`core` and `processor` say how they issue themselves",
    },
    Rule {
        keys: &["issue.throttle"],
        unread: |plan, at| !plan.is_told_load(at),
        why: "the host reaches no device with `qos`, and none tells it a load",
    },
    Rule {
        keys: &["issue.partial_write"],
        unread: |plan, at| {
            let whole = plan.workloads[at].request().0 >= LINE_BYTES;
            let issue = plan.scenario.hosts[at].requester();
            whole || issue.is_some_and(|issue| issue.cache.is_some())
        },
        why: "the workload has no writes of less than a line, or the cache takes them",
    },
    Rule {
        keys: &[
            "issue.cache.mshrs",
            "issue.cache.clean_evict",
            "issue.cache.load_request",
            "issue.cache.snoop_time",
        ],
        unread: |plan, at| plan.scenario.hosts[at].requester().is_some() && !plan.is_coherent(at),
        why: "the cache is not coherent, as the host reaches no memory of class \"hdm-db\"",
    },
    Rule {
        keys: &["processor.window"],
        unread: |plan, at| !plan.runs_threads(at),
        why: "operations of threads alone are limited by it; `processor.reorder` limits those of patterns, \
              traces and programs",
    },
    Rule {
        keys: &["processor.reorder"],
        unread: |plan, at| plan.runs_threads(at) && plan.scenario.hosts[at].beside.is_none(),
        why: "patterns, traces and programs alone are limited by it; `processor.window` limits operations of \
              threads",
    },
    Rule {
        keys: &[
            "processor.home_interval",
            "processor.interrupt_time",
            "processor.payload",
            "os.iommu",
            "os.page_request_time",
        ],
        unread: |plan, at| !plan.has_accelerator(at),
        why: "the host has no accelerator",
    },
];

/// Rules for keys of `[[devices]]`.
const DEVICES: &[Rule] = &[
    Rule {
        keys: &["coherence.filter", "coherence.victim"],
        unread: |plan, at| !plan.scenario.devices[at].is_hdm_db(),
        why: "a device of class \"hdm-h\" snoops nobody",
    },
    Rule {
        keys: &[
            "qos.egress_moderate_percentage",
            "qos.egress_severe_percentage",
        ],
        unread: |plan, at| {
            let qos = plan.scenario.devices[at].qos.as_ref();
            qos.is_some_and(|qos| qos.backpressure_sample_interval == Picos::ZERO)
        },
        why: "Egress Port Congestion is not measured without `qos.backpressure_sample_interval`",
    },
    Rule {
        keys: &["qos.completion_collection_interval"],
        unread: |plan, at| {
            let scenario = &plan.scenario;
            let qos = scenario.devices[at].qos.as_ref();
            let is_set = |event: &EventParams| matches!(event, EventParams::SetQos { .. });
            qos.is_some_and(|qos| qos.shares.is_empty()) && !scenario.events.iter().any(is_set)
        },
        why: "responses are counted for shares alone, and no host has one",
    },
];

/// Rules for keys of `[[accelerators]]`.
const ACCELERATORS: &[Rule] = &[
    Rule {
        keys: &[
            "device.cache.size",
            "device.cache.ways",
            "device.cache.hit_cycles",
            "device.cache.misses",
            "device.cache.clean_evict",
            "device.cache.clean_evict_data",
            "device.cache.load_request",
            "device.cache.store_request",
            "device.cache.flush_at_end",
        ],
        unread: |plan, at| plan.scenario.accelerators[at].device.kind == AcceleratorKind::Pcie,
        why: "a device of kind \"pcie\" has no cache of host memory",
    },
    Rule {
        keys: &["device.dmc", "device.bias_page"],
        unread: |plan, at| plan.scenario.accelerators[at].memory.is_none(),
        why: "the device has no `memory` of its own",
    },
    Rule {
        keys: &["device.bias_page"],
        unread: |plan, at| plan.scenario.accelerators[at].is_hdm_db(),
        why: "memory of class \"hdm-db\" has no bias: its device knows of each line whether the host may hold it",
    },
    Rule {
        keys: &["device.atc"],
        unread: |plan, at| !plan.translates(at),
        why: "the device's host has no `os`, and addresses are physical",
    },
];

/// A table of the scenario, the condition under which it has no effect, and the reason.
type TableRule = (&'static str, fn(&Plan) -> bool, &'static str);

/// Rules for tables of the whole scenario.
const TABLES: &[TableRule] = &[(
    "fabric.switch",
    |plan| plan.graph.switches.is_empty(),
    "the topology has no switches",
)];

/// Notes about the keys of a document that have no effect in its plan.
pub fn notes(document: &Document, plan: &Plan) -> Vec<Note> {
    let scenario = &plan.scenario;
    let lists = [
        ("hosts", scenario.hosts.len(), HOSTS),
        ("devices", scenario.devices.len(), DEVICES),
        ("accelerators", scenario.accelerators.len(), ACCELERATORS),
    ];
    let mut notes = Vec::new();
    let mut tell = |path: String, why: &str| {
        if document.get(&path).is_some() {
            notes.push(Note::new(path, format!("is not read: {why}")));
        }
    };
    for (list, entries, rules) in lists {
        for at in 0..entries {
            for rule in rules.iter().filter(|rule| (rule.unread)(plan, at)) {
                for key in rule.keys {
                    tell(format!("{list}[{at}].{key}"), rule.why);
                }
            }
        }
    }
    for (table, unread, why) in TABLES {
        if unread(plan) {
            tell((*table).to_owned(), why);
        }
    }
    let named = scenario.fabric.links.keys();
    let named = named.map(|name| format!("fabric.links.{name}"));
    let of_devices = (0..scenario.devices.len()).map(|at| format!("devices[{at}].link"));
    let whole = ["fabric.link", "fabric.edge_link"].map(str::to_owned);
    let links = whole.into_iter().chain(named).chain(of_devices);
    // Of two keys of a table, the first replaces the second.
    let rates = links.map(|link| (link, "bandwidth", "lanes", "`bandwidth` gives the rate"));
    let topology = "fabric.topology".to_owned();
    let why = "`spines` gives the number";
    let spines = (topology, "spines", "oversubscription", why);
    for (table, given, unread, why) in rates.chain([spines]) {
        if document.get(&format!("{table}.{given}")).is_some() {
            tell(format!("{table}.{unread}"), why);
        }
    }
    notes
}
