//! The features that each revision of the CXL specification has, among those that a scenario can use.
//!
//! Sections are those of CXL 3.1, which define the features. The revision that introduced a feature
//! is taken from the consortium's own summaries of CXL 3.0 and 4.0 (*recollection*).

use cxlab_link::{LinkParams, PcieGeneration, Transmission};
use cxlab_protocol::flit::FlitFormat;
use cxlab_scenario::{Arithmetic, FabricKind, Revision, Sharing};

use crate::links::caching_behind;
use crate::manager;
use crate::plan::Plan;
use crate::problem::{Problem, Problems};

/// A feature that a scenario may use.
struct Feature {
    since: Revision,
    what: &'static str,
    section: &'static str,
    /// The path at which a scenario uses the feature; `None` if the scenario does not.
    asks: fn(&Plan) -> Option<String>,
}

const FEATURES: &[Feature] = &[
    Feature {
        since: Revision::V4_0,
        what: "lanes of 128 GT/s",
        section: "none",
        asks: |plan| rated(plan, PcieGeneration::Gen7),
    },
    Feature {
        since: Revision::V3_0,
        what: "lanes of 64 GT/s",
        section: "6.1",
        asks: |plan| rated(plan, PcieGeneration::Gen6),
    },
    Feature {
        since: Revision::V3_0,
        what: "flits of 256 B",
        section: "6.2.3",
        asks: |plan| {
            link(plan, "flit", |link| {
                link.transmission == Transmission::Flit && link.flit_format() != FlitFormat::B68
            })
        },
    },
    Feature {
        since: Revision::V3_0,
        what: "port-based routing",
        section: "7.7",
        asks: |plan| {
            let routes = plan.scenario.fabric.kind == FabricKind::Pbr;
            let switches = !plan.graph.switches.is_empty();
            (routes && switches).then(|| "fabric.kind".to_owned())
        },
    },
    Feature {
        since: Revision::V3_0,
        what: "switches behind switches",
        section: "7.1",
        asks: |plan| {
            let mut links = plan.links.iter();
            let behind = links.any(|link| link.a.is_switch() && link.b.is_switch());
            behind.then(|| "fabric.topology".to_owned())
        },
    },
    Feature {
        since: Revision::V3_0,
        what: "memory that its device keeps coherent by back-invalidation",
        section: "3.3.3",
        asks: |plan| plan.scenario.back_invalidation(),
    },
    Feature {
        since: Revision::V3_0,
        what: "memory that several hosts share",
        section: "2.4.4",
        asks: |plan| {
            let mut regions = plan.scenario.regions.iter();
            let at = regions.position(|region| region.sharing == Sharing::Shared)?;
            Some(format!("regions[{at}].sharing"))
        },
    },
    Feature {
        since: Revision::V3_0,
        what: "capacity that comes and goes",
        section: "9.13.3",
        asks: |plan| {
            let binds = plan.scenario.fabric.kind == FabricKind::MultipleVcs;
            let changes = manager::changes_capacity(&plan.scenario);
            (changes && !binds).then(|| "events".to_owned())
        },
    },
    Feature {
        since: Revision::V3_0,
        what: "several devices behind a host's switches that cache its memory",
        section: "2.6",
        asks: several_caches,
    },
    Feature {
        since: Revision::V3_0,
        what: "interleaving by XOR",
        section: "9.18.1",
        asks: |plan| {
            let xor = plan.scenario.address_map.arithmetic == Arithmetic::Xor;
            xor.then(|| "address_map.arithmetic".to_owned())
        },
    },
    Feature {
        since: Revision::V3_0,
        what: "interleaving over other than 1, 2, 4 or 8 devices",
        section: "8.2.4.20.7",
        asks: |plan| {
            let windows = plan.hosts.iter().flat_map(|host| host.map.windows());
            let mut ways = windows.map(|window| window.targets.len());
            let other = ways.any(|ways| ![0, 1, 2, 4, 8].contains(&ways));
            other.then(|| "address_map.ways".to_owned())
        },
    },
];

/// The path of a link class in use whose parameters satisfy `is`.
fn link(plan: &Plan, key: &str, is: impl Fn(&LinkParams) -> bool) -> Option<String> {
    let has = |number: usize| plan.links.iter().any(|link| link.class == number);
    let classes = plan.link_classes.iter().enumerate();
    let mut asking = classes.filter(|(number, class)| has(*number) && is(&class.params));
    let (_, class) = asking.next()?;
    Some(format!("{}.{key}", class.path))
}

/// The path of a link class with the rate of that generation. A link whose rate is given in bytes
/// has no generation, and never matches.
fn rated(plan: &Plan, generation: PcieGeneration) -> Option<String> {
    let is = |link: &LinkParams| link.generation == generation && link.bandwidth.is_none();
    link(plan, "generation", is)
}

/// Whether a host has several devices behind switches that cache its memory.
fn several_caches(plan: &Plan) -> Option<String> {
    let (devices, hosts) = (&plan.devices, &plan.accelerator_hosts);
    let behind = |host| caching_behind(&plan.scenario, &plan.links, devices, hosts, host);
    let several = (0..plan.hosts.len()).any(|host| behind(host) > 1);
    several.then(|| "accelerators".to_owned())
}

/// Refuses features that the scenario's revision does not have.
pub(crate) fn check(plan: &Plan) -> Result<(), Vec<Problem>> {
    let Some(revision) = plan.scenario.fabric.revision else {
        return Ok(());
    };
    let mut problems = Problems::default();
    for feature in FEATURES.iter().filter(|feature| feature.since > revision) {
        let Feature { what, section, .. } = feature;
        let section = match *section {
            "none" => String::new(),
            section => format!(" (CXL 3.1 section {section})"),
        };
        let (name, since) = (revision.name(), feature.since.name());
        if let Some(path) = (feature.asks)(plan) {
            problems.refuse(
                path,
                format_args!("{what}{section} with `fabric.revision` = \"{name}\""),
                format_args!("what that revision has, or revision \"{since}\" or later"),
            );
        }
    }
    problems.into_result(())
}
