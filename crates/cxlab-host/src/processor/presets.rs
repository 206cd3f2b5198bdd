//! Processor presets. A preset is a set of parameters; parameters in the scenario override it.
//!
//! `sapphire-rapids` and `zen5` are servers with the times to their own DRAM and to an expander that sources
//! measured. The other three are the nodes of CXL-ClusterSim. One source is its Table 2, which is the same for
//! every instruction set. The other is gem5 with its `BaseO3CPU`, `L1DCache`, `L2Cache`, `L2XBar` and
//! memory management units; for the third cache darchr/gem5,
//! `private_l1_private_l2_shared_l3_cache_hierarchy.py`, commit 0171bc2. Of the differences between gem5's
//! cores, this model has only the TLB. Left out, for lack of a parameter: that stores of x86 leave one at a
//! time (`needsTSO`), the levels of RISC-V's page table, and prefetchers.

use cxlab_engine::catalog::{Part, Preset};
use cxlab_engine::units::{Bytes, Picos};
use cxlab_os::tlb::TlbParams;

use super::params::{Inclusion, LlcParams, ProcessorParams, ProcessorPreset};
use crate::core::CacheLevel;

/// gem5's clock period at 4 GHz (Table 2).
const CYCLE: Picos = Picos(250);

impl ProcessorPreset {
    /// Cores, caches and times of the preset.
    pub fn params(self) -> ProcessorParams {
        match self {
            ProcessorPreset::Gem5Arm | ProcessorPreset::Gem5Riscv | ProcessorPreset::Gem5X86 => {
                self.gem5()
            }
            // 56 cores of which a socket's last-level cache does not include the second caches. The mesh was fitted
            // by 112 ns to local DRAM, the root ports by 250 ns to the expander `cachelib`.
            ProcessorPreset::SapphireRapids => self.server(56, [17_000, 31_000]),
            // 64 of its cores. The mesh was fitted by 130 ns to local DRAM, the root ports by 250 ns to `vistara`.
            ProcessorPreset::Zen5 => self.server(64, [26_000, 22_000]),
        }
    }

    /// A socket with the caches of the defaults, and times of the mesh and of a root port in one direction, in
    /// picoseconds.
    fn server(self, cores: u32, [mesh, root_port]: [u64; 2]) -> ProcessorParams {
        ProcessorParams {
            preset: Some(self),
            cores,
            mesh_time: Picos(mesh),
            root_port_time: Picos(root_port),
            llc: LlcParams {
                inclusion: Inclusion::NonInclusive,
                ..LlcParams::default()
            },
            ..ProcessorParams::default()
        }
    }

    /// The nodes of CXL-ClusterSim.
    fn gem5(self) -> ProcessorParams {
        let level = |kib: u64, ways, cycles: u64| CacheLevel {
            size: Bytes(kib << 10),
            ways,
            access_time: Picos(cycles * CYCLE.0),
        };
        ProcessorParams {
            preset: Some(self),
            cores: 8,
            cycle: CYCLE,
            // 32 loads and 32 stores. With numbers of 8 B these touch eight lines, fewer than the 16
            // MSHRs of the first cache.
            window: 64,
            reorder: 192,
            misses: 8,
            l1: level(32, 8, 1),
            // A lookup, and the cycle of the response.
            l2: level(512, 16, 10 + 1),
            llc: LlcParams {
                size: Bytes(8 << 20),
                ways: 16,
                access_time: Picos(20 * CYCLE.0),
                ..LlcParams::default()
            },
            mesh_time: CYCLE,
            ..ProcessorParams::default()
        }
    }

    /// The TLB of each core: ARM's second-level TLB, and the only TLB of the others. One cycle from a miss
    /// to the walk is *assumed*.
    pub fn tlb(self) -> TlbParams {
        let (entries, ways) = match self {
            ProcessorPreset::Gem5Arm => (1280, 5),
            ProcessorPreset::Gem5Riscv | ProcessorPreset::Gem5X86 => (64, 64),
            ProcessorPreset::SapphireRapids | ProcessorPreset::Zen5 => return TlbParams::default(),
        };
        TlbParams {
            entries,
            ways,
            latency: CYCLE,
            ..TlbParams::default()
        }
    }
}

/// Where the presets were compared with measurements.
const VALIDATED: &str = "Compared with the paper's figures (`cxlab reproduce cxl-clustersim`).";

impl Preset for ProcessorPreset {
    const PARTS: &'static [Part] = &[
        Part {
            name: "gem5-arm",
            summary: "Eight out-of-order cores at 4 GHz with a TLB of 1,280 entries: CXL-ClusterSim's ARM node.",
            source: "CXL-ClusterSim, Table 2, and gem5.",
            validated: VALIDATED,
            keys: || serde_json::json!(ProcessorPreset::Gem5Arm.params()),
        },
        Part {
            name: "gem5-riscv",
            summary: "Eight out-of-order cores at 4 GHz with a TLB of 64 entries: CXL-ClusterSim's RISC-V node.",
            source: "CXL-ClusterSim, Table 2, and gem5.",
            validated: VALIDATED,
            keys: || serde_json::json!(ProcessorPreset::Gem5Riscv.params()),
        },
        Part {
            name: "gem5-x86",
            summary: "Eight out-of-order cores at 4 GHz with a TLB of 64 entries: CXL-ClusterSim's x86 node.",
            source: "CXL-ClusterSim, Table 2, and gem5.",
            validated: VALIDATED,
            keys: || serde_json::json!(ProcessorPreset::Gem5X86.params()),
        },
        Part {
            name: "sapphire-rapids",
            summary: "A socket of Intel's fourth or fifth Xeon with 56 cores.",
            source: "Fitted: the mesh, by 112 ns to its own DRAM (Melody, ASPLOS 2025), and the root ports, by 250 ns of the device `cachelib`. Caches are those of Golden Cove; all else is assumed. The home agent is one, so that bandwidth to its own DRAM is too low.",
            validated: "Eleven idle latencies to local and remote memory (docs/explain/hardware.md): four within 10 %, all within 27 %.",
            keys: || serde_json::json!(ProcessorPreset::SapphireRapids.params()),
        },
        Part {
            name: "zen5",
            summary: "A socket of AMD's fifth EPYC, with 64 of its cores.",
            source: "Fitted: the mesh, by 130 ns to its own DRAM (Vistara, ISCA 2026), and the root ports, by 250 ns of the device `vistara`. All else is assumed, caches too.",
            validated: "One idle latency to local memory: 11 % off.",
            keys: || serde_json::json!(ProcessorPreset::Zen5.params()),
        },
    ];

    fn keys(&self) -> serde_json::Value {
        serde_json::json!(self.params())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn all() -> impl Iterator<Item = (ProcessorPreset, &'static str)> {
        let parts = ProcessorPreset::PARTS.iter();
        parts.map(|part| (serde_json::from_value(json!(part.name)).unwrap(), part.name))
    }

    fn read(text: &Value) -> ProcessorParams {
        serde_json::from_value(text.clone()).unwrap()
    }

    #[test]
    fn a_name_stands_for_all_parameters_and_what_is_given_comes_on_top() {
        for (preset, name) in all() {
            assert_eq!(read(&json!({ "preset": name })), preset.params());
            let given = json!({ "cores": 2, "preset": name, "llc": { "size": "1 MiB" } });
            let expected = ProcessorParams {
                cores: 2,
                llc: LlcParams {
                    size: Bytes(1 << 20),
                    ..preset.params().llc
                },
                ..preset.params()
            };
            assert_eq!(read(&given), expected);
        }
        assert_eq!(read(&json!({})), ProcessorParams::default());
    }

    #[test]
    fn what_is_written_reads_as_itself() {
        let presets = all().map(|(preset, _)| preset.params());
        for params in presets.chain([ProcessorParams::default()]) {
            let changed = ProcessorParams { cores: 3, ..params };
            assert_eq!(read(&serde_json::to_value(&changed).unwrap()), changed);
        }
        let plain = serde_json::to_value(ProcessorParams::default()).unwrap();
        assert_eq!(plain.get("preset"), None);
    }

    #[test]
    fn mistakes_are_mistakes_with_a_preset_too() {
        let wrong = [
            json!({ "preset": "gem5-mips" }),
            json!({ "preset": "gem5-arm", "core": 3 }),
            json!({ "preset": "gem5-arm", "l1": { "sise": "1 KiB" } }),
        ];
        for text in wrong {
            assert!(serde_json::from_value::<ProcessorParams>(text).is_err());
        }
    }
}
