//! Parts that a Type 3 device may be, with its link: measured expanders and models of them.
//!
//! A part has few parameters. Each has a source, was *fitted* to the named measurements, or is *assumed*. A capacity is that of
//! the medium's dies, if the product has more. `docs/explain/hardware.md` compares all parts with measurements, fitted and not.

use cxlab_engine::catalog::Part;
use serde_json::{Value, json};

/// Eight lanes at 32 GT/s with 68 B flits, as sources of expanders say. Delays are the link's defaults.
fn x8() -> Value {
    json!({ "generation": "5", "lanes": 8 })
}

/// A medium of one latency and one rate, for devices of which no more is known.
fn plain(latency: &str, bandwidth: &str) -> Value {
    json!({ "kind": "fixed", "latency": latency, "bandwidth": bandwidth })
}

/// A DIMM of DDR5-4800 (two subchannels, two ranks) behind a path that limits the rate of reads.
fn one_dimm(read_bandwidth: &str) -> Value {
    let dimm = json!({ "kind": "dram", "grade": "DDR5-4800BN", "channels": 2, "ranks": 2 });
    json!({ "kind": "data-path", "read_bandwidth": read_bandwidth, "medium": dimm })
}

/// Devices by the names that users write.
static PARTS: &[Part] = &[
    Part {
        name: "micron-model",
        summary: "Micron's SystemC model of a CXL 2.0 expander, as its pins see it.",
        source: "Mess, MICRO 2024 (arXiv 2405.10170), curves by mix. Fitted: process time, by idle latency; DDR5-4800C, four subchannels of two ranks, closed pages, no refresh, as the best of nine media, by latencies below the peak.",
        validated: "45 mixes beside the host `mess`: of 207 predicted numbers 95 % are within 5 %, all within 10 %.",
        keys: || {
            json!({
                "capacity": "64 GiB",
                "link": x8(),
                "controller": { "process_time": "14 ns" },
                "memory": {
                    "kind": "dram", "grade": "DDR5-4800C", "channels": 4, "ranks": 2,
                    "page": { "kind": "closed" }, "refresh": "none",
                },
            })
        },
    },
    Part {
        name: "vistara",
        summary: "Meta's Vistara: one of two x8 devices, two channels of DDR4-2400 with two DIMMs each.",
        source: "Vistara, ISCA 2026: link, media, and 50 ns from its pins and back, of which the port has 25. Four ranks a channel are assumed. Fitted: queues of six reads and eight writes a channel, by the bandwidth of reads and of 2:1.",
        validated: "Six rows of the paper's tables, two devices beside the host `zen5`: three predicted, within 4 %.",
        keys: || {
            json!({
                "capacity": "64 GiB",
                "link": x8(),
                "controller": { "process_time": "25 ns" },
                "memory": {
                    "kind": "dram", "grade": "DDR4-2400T", "channels": 2, "ranks": 4,
                    "read_queue": 6, "write_queue": 8, "input_queue": 8,
                },
            })
        },
    },
    Part {
        name: "cachelib",
        summary: "The expander of CacheLib's OCP demo: 96 GB, comparable to a channel of DDR5, x8.",
        source: "CacheLib's wiki, OCP demo configuration. DDR5-4800 with two ranks is assumed. Fitted: a read path of 17.8 GB/s, by the bandwidth of reads.",
        validated: "Five rows beside the host `sapphire-rapids`: three predicted, within 10 %.",
        keys: || json!({ "link": x8(), "memory": one_dimm("17.8 GB/s") }),
    },
    Part {
        name: "micro23-a",
        summary: "CXL-A of Sun et al.: a hard controller with a channel of DDR5-4800.",
        source: "Sun et al., MICRO 2023 (arXiv 2303.15375). x8 and two ranks are assumed. Fitted: a read path of 17.7 GB/s, 46 % of 38.4.",
        validated: "One row, the fitted one.",
        keys: || json!({ "link": x8(), "memory": one_dimm("17.7 GB/s") }),
    },
    Part {
        name: "micro23-b",
        summary: "CXL-B of Sun et al.: a hard controller whose reads take twice as long as those of remote DRAM.",
        source: "Sun et al., MICRO 2023: ratios alone. x8 is assumed. Fitted: the process time, with remote DRAM of 203 ns assumed, and 18 GB/s, 47 % of 38.4.",
        validated: "Two rows, the fitted ones.",
        keys: || {
            json!({
                "link": x8(),
                "controller": { "process_time": "181 ns" },
                "memory": plain("46 ns", "18 GB/s"),
            })
        },
    },
    Part {
        name: "micro23-c",
        summary: "CXL-C of Sun et al.: an FPGA whose reads take three times as long as those of remote DRAM.",
        source: "Sun et al., MICRO 2023: ratios alone. x8 is assumed. Fitted: the process time, with remote DRAM of 203 ns assumed, and 5.1 GB/s, 20 % of a channel of DDR4-3200.",
        validated: "Two rows, the fitted ones.",
        keys: || {
            json!({
                "link": x8(),
                "controller": { "process_time": "384 ns" },
                "memory": plain("46 ns", "5.1 GB/s"),
            })
        },
    },
    Part {
        name: "cxl-dmsim-asic",
        summary: "The CXL-ASIC of CXL-DMSim, of an unnamed vendor.",
        source: "CXL-DMSim (arXiv 2411.02282), its plot scripts. x8 is assumed. Fitted: the process time, by lmbench's random latency, and 25.2 GB/s, by STREAM's Scale with writes that first read.",
        validated: "Eleven rows beside the host `sapphire-rapids`: nine predicted, eight within 5 %, one 14 % off.",
        keys: || {
            json!({
                "link": x8(),
                "controller": { "process_time": "60 ns" },
                "memory": plain("46 ns", "25.2 GB/s"),
            })
        },
    },
    Part {
        name: "cxl-dmsim-fpga",
        summary: "The CXL-FPGA of CXL-DMSim.",
        source: "CXL-DMSim (arXiv 2411.02282): 60 ns in each direction in the device. x8 is assumed. Fitted: the latency of the medium, by lmbench's random latency, and 13.9 GB/s, by STREAM's Triad with writes that first read.",
        validated: "Ten rows beside the host `sapphire-rapids`: eight predicted, within 12 %.",
        keys: || {
            json!({
                "link": x8(),
                "controller": { "process_time": "120 ns" },
                "memory": plain("81 ns", "13.9 GB/s"),
            })
        },
    },
    Part {
        name: "seagate-blade",
        summary: "A blade of Seagate's CMA: eight DIMMs of DDR4-1866 behind a x16 link, some 500 ns away.",
        source: "Weisgut et al., VLDB 2025, figures 4 and 5. Fitted: latency of the medium and process time, by the medians of reads and writes; paths of 39.8 and 13.7 GB/s, by sequential peaks; 32 banks that are busy for 54 ns, by random reads of 64 B. Skewed banks are assumed.",
        validated: "156 points by pattern, size and threads beside the host `emerald-rapids`: of 140 predicted 94 % are within 10 %, all within 19 %; medians of idle latency, but no tails.",
        keys: || {
            json!({
                "capacity": "1 TiB",
                "link": { "generation": "5", "lanes": 16 },
                "controller": { "process_time": "170 ns", "contexts": 1024 },
                "memory": {
                    "kind": "data-path",
                    "read_bandwidth": "39.8 GB/s",
                    "write_bandwidth": "13.7 GB/s",
                    "medium": {
                        "kind": "fixed", "latency": "158 ns", "banks": 32, "bank_skew": true,
                        "bank_cycle": "54 ns", "queue": 1024,
                    },
                },
            })
        },
    },
    Part {
        name: "cz120",
        summary: "Like Micron's CZ120: an x8 expander with two channels of DDR4-3200.",
        source: "Link as the vendor says; media are assumed.",
        validated: "Not validated: no source has its latency or bandwidth alone.",
        keys: || {
            json!({
                "link": x8(),
                "memory": { "kind": "dram", "grade": "DDR4-3200AA", "channels": 2, "ranks": 2 },
            })
        },
    },
    Part {
        name: "cz122",
        summary: "Like Micron's CZ122: an x8 expander with two DIMMs of DDR5-4800.",
        source: "Link as the vendor says; media are assumed.",
        validated: "One row, of a mix that its source does not state: 4 % off at 2:1.",
        keys: || {
            json!({
                "capacity": "64 GiB",
                "link": x8(),
                "memory": { "kind": "dram", "grade": "DDR5-4800BN", "channels": 4, "ranks": 2 },
            })
        },
    },
];

cxlab_engine::preset! {
    /// A Type 3 device with a name.
    DevicePreset, PARTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceGroup;

    fn read(table: Value) -> DeviceGroup {
        serde_json::from_value(table).unwrap()
    }

    #[test]
    fn every_part_is_a_device_whose_medium_can_be_built() {
        for part in PARTS {
            let group = read(json!({ "name": "d", "preset": part.name }));
            let medium = group.memory.build().unwrap();
            medium.check(group.capacity).unwrap();
            assert!(group.link.is_some(), "{}", part.name);
            for text in [part.summary, part.source, part.validated] {
                assert!(text.ends_with('.'), "{}: {text}", part.name);
            }
        }
    }

    #[test]
    fn keys_beside_a_preset_replace_its_values_and_another_medium_all_of_its_medium() {
        let group = read(json!({
            "name": "d", "preset": "vistara",
            "controller": { "contexts": 8 }, "memory": { "kind": "fixed", "latency": "1 ns" },
        }));
        assert_eq!(group.controller.contexts, 8);
        assert_eq!(group.controller.process_time.0, 25_000);
        assert_eq!(
            serde_json::to_value(&group.memory).unwrap()["latency"],
            "1 ns"
        );
        let more = read(json!({
            "name": "d", "preset": "vistara", "memory": { "kind": "dram", "channels": 4 },
        }));
        let memory = serde_json::to_value(&more.memory).unwrap();
        assert_eq!(
            (&memory["channels"], &memory["grade"]),
            (&json!(4), &json!("DDR4-2400T"))
        );
    }

    #[test]
    fn what_is_written_is_read_again_with_the_same_values() {
        let group = read(json!({ "name": "d", "preset": "cachelib", "link": { "lanes": 4 } }));
        let written = serde_json::to_value(&group).unwrap();
        assert_eq!(
            serde_json::to_value(read(written.clone())).unwrap(),
            written
        );
        assert_eq!(written["link"], json!({ "generation": "5", "lanes": 4 }));
    }
}
