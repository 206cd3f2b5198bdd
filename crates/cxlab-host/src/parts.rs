//! Parts that a requester may be: hosts as their memory requests see them.
//!
//! The process time of a server is that of its path to CXL memory: core, caches that miss, mesh, and the root
//! complex in front of the port. It is longer than to the host's own DRAM.

use cxlab_engine::catalog::Part;
use serde_json::json;

/// Requesters by the names that users write.
pub(crate) static PARTS: &[Part] = &[
    Part {
        name: "esf",
        summary: "The requester of ESF: a process time of 10 ns.",
        source: "Table III of the paper.",
        validated: "Compared with the paper's figures (`cxlab reproduce esf`).",
        keys: || json!({ "process_time": "10 ns" }),
    },
    Part {
        name: "mess",
        summary: "A source of requests at the pins of an expander, as behind the curves of `micron-model`.",
        source: "Fitted: 256 requests in flight, by the latency of saturated reads, of which eight may wait for the link, by that of saturated writes.",
        validated: "45 mixes, beside the device `micron-model`, where the numbers are.",
        keys: || json!({ "process_time": "0 ns", "outstanding": 256, "queue": 8 }),
    },
    Part {
        name: "sapphire-rapids",
        summary: "A socket of Intel's fourth Xeon.",
        source: "Fitted: the process time, by 250 ns of the device `cachelib`. 512 requests in flight are assumed: 16 fill buffers of each of 32 cores.",
        validated: "Idle latencies of nine other expanders: four within 5 %, all within 19 %.",
        keys: || json!({ "process_time": "120 ns", "outstanding": 512 }),
    },
    Part {
        name: "emerald-rapids",
        summary: "A socket of Intel's fifth Xeon.",
        source: "The process time of `sapphire-rapids`, whose uncore is assumed to be alike. 512 requests in flight are assumed.",
        validated: "Beside the device `seagate-blade`, where the numbers are.",
        keys: || json!({ "process_time": "120 ns", "outstanding": 512 }),
    },
    Part {
        name: "granite-rapids",
        summary: "A socket of Intel's sixth Xeon.",
        source: "The process time of `sapphire-rapids` and 1,024 requests in flight are assumed.",
        validated: "Not validated.",
        keys: || json!({ "process_time": "120 ns", "outstanding": 1024 }),
    },
    Part {
        name: "zen4",
        summary: "A socket of AMD's fourth EPYC.",
        source: "The process time of `zen5` and 512 requests in flight are assumed.",
        validated: "Not validated.",
        keys: || json!({ "process_time": "121 ns", "outstanding": 512 }),
    },
    Part {
        name: "zen5",
        summary: "A socket of AMD's fifth EPYC.",
        source: "Fitted: the process time, by 250 ns of the device `vistara`; 84 of it are those to its own DRAM (130 ns, Vistara, ISCA 2026). 512 requests in flight are assumed.",
        validated: "Beside the device `vistara`, where the numbers are.",
        keys: || json!({ "process_time": "121 ns", "outstanding": 512 }),
    },
];
