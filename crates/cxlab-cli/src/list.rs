//! `cxlab list` and `cxlab schema`.

use cxlab_cache::{prefetch, victim};
use cxlab_device::ControllerPreset;
use cxlab_engine::catalog::{Entry, Part, Preset};
use cxlab_fabric::switch::SwitchPreset;
use cxlab_fabric::{manager, routing, topology};
use cxlab_fleet::{demand, placement, policy};
use cxlab_host::{ProcessorPreset, RequesterPreset};
use cxlab_link::LinkPreset;
use cxlab_os::policy as os;
use cxlab_scenario::DevicePreset;
use cxlab_scenario::diagnostics::nearest;
use cxlab_workload::pattern;

use super::failure::Failure;
use super::print;

/// A list of entries: name, purpose, and further lines with parameters or sources of values.
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

/// Presets of each table, with the source of their values and the measurements they were compared with.
fn presets() -> Vec<Listing> {
    fn parts<P: Preset>(name: &'static str, what: &'static str) -> Listing {
        let entry = |part: &'static Part| {
            let lines = [part.source.to_owned(), part.validated.to_owned()];
            (part.name, part.summary, lines.into())
        };
        Listing {
            name,
            what,
            entries: P::PARTS.iter().map(entry).collect(),
        }
    }
    vec![
        parts::<DevicePreset>("device-presets", "devices[].preset"),
        parts::<ControllerPreset>("controller-presets", "devices[].controller.preset"),
        parts::<RequesterPreset>("issue-presets", "hosts[].issue.preset"),
        parts::<ProcessorPreset>("processor-presets", "hosts[].processor.preset"),
        parts::<SwitchPreset>("switch-presets", "fabric.switch.preset"),
        parts::<LinkPreset>("link-presets", "fabric.link.preset"),
    ]
}

fn all() -> Vec<Listing> {
    let mut listings = vec![
        listing("topologies", "fabric.topology.kind", topology::CATALOG),
        listing("routings", "fabric.routing", routing::CATALOG),
        listing("workloads", "hosts[].workload.kind", pattern::CATALOG),
        listing("media", "devices[].memory.kind", cxlab_memory::CATALOG),
        listing(
            "victim-policies",
            "devices[].coherence.victim.kind",
            victim::CATALOG,
        ),
        listing(
            "prefetchers",
            "devices[].memory.prefetch.kind",
            prefetch::CATALOG,
        ),
        listing(
            "page-placements",
            "hosts[].os.placement.kind",
            os::placement::CATALOG,
        ),
        listing(
            "migration-policies",
            "hosts[].os.migration.kind",
            os::migration::CATALOG,
        ),
        listing("vm-demands", "fleet.demand.kind", demand::CATALOG),
        listing("vm-placements", "fleet.placement.kind", placement::CATALOG),
        listing("pool-policies", "fleet.pool.kind", policy::CATALOG),
        listing(
            "grant-policies",
            "fabric_manager.policy.kind",
            manager::CATALOG,
        ),
    ];
    listings.extend(presets());
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

/// The name of all presets together.
const PRESETS: &str = "presets";

/// All catalogs of a scenario, with names and summaries of their entries.
pub fn catalogs() -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    let short = |listing: Listing| {
        let entries = listing.entries.into_iter();
        let entries = entries.map(|(name, summary, _)| (name, summary)).collect();
        (listing.name, entries)
    };
    all().into_iter().map(short).collect()
}

/// Lists one catalog, all presets, or all catalogs.
pub(super) fn list(catalog: Option<&str>) -> Result<(), Failure> {
    let listings = all();
    let is_wanted = |listing: &Listing, wanted: &str| {
        listing.name == wanted || wanted == PRESETS && listing.name.ends_with("-presets")
    };
    if let Some(wanted) = catalog
        && !listings.iter().any(|listing| is_wanted(listing, wanted))
    {
        let mut names: Vec<&str> = listings.iter().map(|listing| listing.name).collect();
        names.push(PRESETS);
        let owners = listings.iter().filter(|listing| {
            let mut entries = listing.entries.iter();
            entries.any(|(name, _, _)| *name == wanted)
        });
        let owners: Vec<&str> = owners.map(|listing| listing.name).collect();
        let entry = match owners.is_empty() {
            true => String::new(),
            false => format!(", an entry of `{}`", owners.join("` and `")),
        };
        let near = owners.first().copied();
        let near = near.or_else(|| nearest(wanted, names.iter().copied()));
        let hint = near.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
        return Err(Failure::mistake(format!(
            "catalog: found `{wanted}`{entry}; allowed: {}{hint}",
            names.join(", ")
        )));
    }
    let mut text = String::new();
    for listing in listings
        .iter()
        .filter(|listing| catalog.is_none_or(|wanted| is_wanted(listing, wanted)))
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

/// The entries with this name, each with the key that chooses it; empty if no catalog has one.
pub(super) fn entries_named(wanted: &str) -> String {
    let mut text = String::new();
    for listing in all() {
        for (name, summary, lines) in listing.entries {
            if name == wanted {
                text += &format!(
                    "{name}, of {}: {}\n  {summary}\n",
                    listing.name, listing.what
                );
                text.extend(lines.iter().map(|line| format!("  {line}\n")));
            }
        }
    }
    text
}

/// Prints the JSON Schema.
pub(super) fn schema() -> Result<(), Failure> {
    print(&format!("{:#}\n", cxlab_scenario::schema()))
}
