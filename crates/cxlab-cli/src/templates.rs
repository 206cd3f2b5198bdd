//! The shipped scenarios, as part of the command: templates of `cxlab new`, and examples of `cxlab explain`.

/// Names of the files in `scenarios/`, and their texts.
#[rustfmt::skip]
pub(super) const SHIPPED: &[(&str, &str)] = &[
    ("cached-ssd", include_str!("../../../scenarios/cached-ssd.toml")),
    ("chain-16", include_str!("../../../scenarios/chain-16.toml")),
    ("cluster-stream", include_str!("../../../scenarios/cluster-stream.toml")),
    ("cohet-fpga", include_str!("../../../scenarios/cohet-fpga.toml")),
    ("cohet-pages", include_str!("../../../scenarios/cohet-pages.toml")),
    ("core-stream", include_str!("../../../scenarios/core-stream.toml")),
    ("curves", include_str!("../../../scenarios/curves.toml")),
    ("cxl-ssd-sim", include_str!("../../../scenarios/cxl-ssd-sim.toml")),
    ("device-coherent", include_str!("../../../scenarios/device-coherent.toml")),
    ("direct", include_str!("../../../scenarios/direct.toml")),
    ("dragonfly-12", include_str!("../../../scenarios/dragonfly-12.toml")),
    ("duplex", include_str!("../../../scenarios/duplex.toml")),
    ("dynamic-capacity", include_str!("../../../scenarios/dynamic-capacity.toml")),
    ("enumeration", include_str!("../../../scenarios/enumeration.toml")),
    ("esf-fig10", include_str!("../../../scenarios/esf-fig10.toml")),
    ("esf-fig14", include_str!("../../../scenarios/esf-fig14.toml")),
    ("esf-fig15", include_str!("../../../scenarios/esf-fig15.toml")),
    ("esf-section4", include_str!("../../../scenarios/esf-section4.toml")),
    ("esf-table3", include_str!("../../../scenarios/esf-table3.toml")),
    ("fabric-manager", include_str!("../../../scenarios/fabric-manager.toml")),
    ("failing-cluster", include_str!("../../../scenarios/failing-cluster.toml")),
    ("failure-year", include_str!("../../../scenarios/failure-year.toml")),
    ("failures", include_str!("../../../scenarios/failures.toml")),
    ("fleet-pond", include_str!("../../../scenarios/fleet-pond.toml")),
    ("fully-connected-16", include_str!("../../../scenarios/fully-connected-16.toml")),
    ("g-fam-4096", include_str!("../../../scenarios/g-fam-4096.toml")),
    ("grant-policies", include_str!("../../../scenarios/grant-policies.toml")),
    ("graph-sharing", include_str!("../../../scenarios/graph-sharing.toml")),
    ("interleaved", include_str!("../../../scenarios/interleaved.toml")),
    ("loaded-latency", include_str!("../../../scenarios/loaded-latency.toml")),
    ("mesh-9", include_str!("../../../scenarios/mesh-9.toml")),
    ("mixed-nodes", include_str!("../../../scenarios/mixed-nodes.toml")),
    ("multiple-vcs", include_str!("../../../scenarios/multiple-vcs.toml")),
    ("nas-pooling", include_str!("../../../scenarios/nas-pooling.toml")),
    ("noisy-neighbours", include_str!("../../../scenarios/noisy-neighbours.toml")),
    ("peer-to-peer", include_str!("../../../scenarios/peer-to-peer.toml")),
    ("processor-trace", include_str!("../../../scenarios/processor-trace.toml")),
    ("qos", include_str!("../../../scenarios/qos.toml")),
    ("ring-16", include_str!("../../../scenarios/ring-16.toml")),
    ("single-vcs", include_str!("../../../scenarios/single-vcs.toml")),
    ("spine-leaf-16", include_str!("../../../scenarios/spine-leaf-16.toml")),
    ("torus-16", include_str!("../../../scenarios/torus-16.toml")),
    ("trace", include_str!("../../../scenarios/trace.toml")),
    ("tree-16", include_str!("../../../scenarios/tree-16.toml")),
    ("type123-pbr", include_str!("../../../scenarios/type123-pbr.toml")),
    (
        "vm-accelerator",
        include_str!("../../../scenarios/vm-accelerator.toml"),
    ),
    ("vm-hosts", include_str!("../../../scenarios/vm-hosts.toml")),
    ("vm-pool", include_str!("../../../scenarios/vm-pool.toml")),
    ("vm-shared", include_str!("../../../scenarios/vm-shared.toml")),
    ("vm-tiering", include_str!("../../../scenarios/vm-tiering.toml")),
];

/// Shipped scenarios that need other files, and are no templates for that reason.
const WITH_FILES: [&str; 3] = ["curves", "processor-trace", "trace"];

/// A shipped scenario as the start of a new one.
#[derive(Clone, Copy)]
pub(super) struct Template {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

impl Template {
    /// The scenario's `description`, or an empty text.
    pub(super) fn description(&self) -> &'static str {
        let line = self
            .text
            .lines()
            .find_map(|line| line.strip_prefix("description = \""));
        line.map_or("", |line| line.trim_end_matches('"'))
    }

    /// The text with another name of the scenario.
    pub(super) fn named(&self, name: &str) -> String {
        let line = |line: &str| match line.starts_with("name = \"") {
            true => format!("name = \"{name}\"\n"),
            false => format!("{line}\n"),
        };
        let (mut head, mut rest) = (String::new(), self.text.lines());
        for own in rest.by_ref() {
            head.push_str(&line(own));
            if own.starts_with("name = \"") {
                break;
            }
        }
        rest.fold(head, |text, line| text + line + "\n")
    }
}

/// All templates, in the order of their names.
pub(super) fn templates() -> impl Iterator<Item = Template> {
    let whole = SHIPPED
        .iter()
        .filter(|(name, _)| !WITH_FILES.contains(name));
    whole.map(|(name, text)| Template { name, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_of_the_folder_is_part_of_the_command() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
        let mut found: Vec<String> = std::fs::read_dir(folder)
            .unwrap_or_else(|error| panic!("{error}"))
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
            .collect();
        found.sort();
        let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
        assert_eq!(found, names);
    }

    #[test]
    fn a_template_gives_its_description_and_takes_a_name() {
        for template in templates() {
            assert!(!template.description().is_empty(), "{}", template.name);
            let named = template.named("mine");
            assert!(named.contains("name = \"mine\"\n"), "{}", template.name);
            assert_eq!(named.lines().count(), template.text.lines().count());
        }
    }
}
