//! `cxlab list` and `cxlab schema`.

use cxlab_device::ControllerPreset;
use cxlab_engine::catalog::{Entry, Part, Preset};
use cxlab_fabric::switch::SwitchPreset;
use cxlab_host::{ProcessorPreset, RequesterPreset};
use cxlab_link::LinkPreset;
use cxlab_scenario::DevicePreset;
use cxlab_scenario::diagnostics::nearest;

use super::failure::Failure;
use super::print;

/// Names, what each is for, and further lines: parameters, or sources of values.
struct Listing {
    name: &'static str,
    what: &'static str,
    entries: Vec<(&'static str, &'static str, Vec<String>)>,
}

fn listing<B>(name: &'static str, what: &'static str, catalog: &[Entry<B>]) -> Listing {
    let entries = catalog.iter().map(|entry| {
        let mut generator = schemars::SchemaGenerator::default();
        let schema = (entry.schema)(&mut generator).to_value();
        let properties = schema
            .get("properties")
            .and_then(|properties| properties.as_object());
        let keys = properties.map(|all| all.keys().cloned().collect::<Vec<_>>());
        let keys = keys.filter(|keys| !keys.is_empty());
        let line = keys.map(|keys| keys.join(", "));
        (entry.name, entry.summary, line.into_iter().collect())
    });
    Listing {
        name,
        what,
        entries: entries.collect(),
    }
}

/// Every part that a table may name as its `preset`, with its source and what it was compared with.
fn presets() -> Vec<(&'static str, &'static str, Vec<String>)> {
    fn parts<P: Preset>() -> &'static [Part] {
        P::PARTS
    }
    let tables = [
        ("devices[]", parts::<DevicePreset>()),
        ("devices[].controller", parts::<ControllerPreset>()),
        ("hosts[].issue", parts::<RequesterPreset>()),
        ("hosts[].processor", parts::<ProcessorPreset>()),
        ("fabric.switch", parts::<SwitchPreset>()),
        ("fabric.link", parts::<LinkPreset>()),
    ];
    let of = |(table, parts): (&str, &'static [Part])| {
        let entry = |part: &'static Part| {
            let lines = [
                format!("{table}. {}", part.source),
                part.validated.to_owned(),
            ];
            (part.name, part.summary, lines.into())
        };
        parts.iter().map(entry).collect::<Vec<_>>()
    };
    tables.into_iter().flat_map(of).collect()
}

fn all() -> Vec<Listing> {
    let mut listings = vec![
        listing(
            "topologies",
            "fabric.topology.kind",
            cxlab_fabric::topology::CATALOG,
        ),
        listing("routings", "fabric.routing", cxlab_fabric::routing::CATALOG),
        listing(
            "workloads",
            "hosts[].workload.kind",
            cxlab_workload::pattern::CATALOG,
        ),
        listing("media", "devices[].memory.kind", cxlab_memory::CATALOG),
        listing(
            "victim-policies",
            "devices[].coherence.victim.kind",
            cxlab_memory::victim::CATALOG,
        ),
        listing(
            "vm-demands",
            "fleet.demand.kind",
            cxlab_fleet::demand::CATALOG,
        ),
        listing(
            "vm-placements",
            "fleet.placement.kind",
            cxlab_fleet::placement::CATALOG,
        ),
        listing(
            "pool-policies",
            "fleet.pool.kind",
            cxlab_fleet::policy::CATALOG,
        ),
        listing(
            "grant-policies",
            "fabric_manager.policy.kind",
            cxlab_fabric::manager::CATALOG,
        ),
    ];
    listings.push(Listing {
        name: "presets",
        what: "preset of the table that is named first",
        entries: presets(),
    });
    let formats = cxlab_workload::import::FORMATS.iter();
    listings.push(Listing {
        name: "trace-formats",
        what: "cxlab trace import --format",
        entries: formats
            .map(|format| (format.name, format.summary, Vec::new()))
            .collect(),
    });
    listings
}

/// Lists one catalog or all.
pub(super) fn list(catalog: Option<&str>) -> Result<(), Failure> {
    let listings = all();
    if let Some(wanted) = catalog
        && !listings.iter().any(|listing| listing.name == wanted)
    {
        let names: Vec<&str> = listings.iter().map(|listing| listing.name).collect();
        let hint = nearest(wanted, names.iter().copied())
            .map(|name| format!("; did you mean `{name}`?"))
            .unwrap_or_default();
        return Err(Failure::mistake(format!(
            "catalog: found `{wanted}`; allowed: {}{hint}",
            names.join(", ")
        )));
    }
    let mut text = String::new();
    for listing in listings
        .iter()
        .filter(|listing| catalog.is_none_or(|name| name == listing.name))
    {
        text.push_str(&format!("{} ({})\n", listing.name, listing.what));
        for (name, summary, lines) in &listing.entries {
            text.push_str(&format!("  {name:<18} {summary}\n"));
            for line in lines {
                text.push_str(&format!("  {:<18}   {line}\n", ""));
            }
        }
        text.push('\n');
    }
    print(text.trim_end_matches('\n'))?;
    print("\n")
}

/// Prints the JSON Schema.
pub(super) fn schema() -> Result<(), Failure> {
    print(&format!("{:#}\n", cxlab_scenario::schema()))
}
