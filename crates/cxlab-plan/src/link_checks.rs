//! Checks links: their parameters, and what the links of a fabric can carry.

use cxlab_engine::units::{Bytes, BytesPerSec, LINE_BYTES, Picos};
use cxlab_fabric::routing::RoutingTables;
use cxlab_host::PartialWrite;
use cxlab_link::{Duplex, LinkParams, PcieGeneration, Transmission};
use cxlab_protocol::flit::FlitFormat;
use cxlab_scenario::{LinkClass, Note, Scenario};
use cxlab_workload::Workload;
use serde_json::Value;

use crate::endpoints::PlannedDevice;
use crate::links::{End, PbrLink, PlannedLink, caching_behind, pbr_link};
use crate::problem::{Fields, LONGEST_DELAY, Problem, Problems, did_you_mean};

/// The lowest and the highest rate of a link.
const RATES: [BytesPerSec; 2] = [BytesPerSec(1_000_000), BytesPerSec(1_000_000_000_000_000)];

/// Checks the parameters of the scenario's links.
pub(crate) fn check(scenario: &Scenario, problems: &mut Problems) {
    let before = problems.len();
    for class in scenario.link_classes() {
        // A problem of `fabric.link` is also a problem of the links that inherit from it.
        if !class.inherits() || problems.len() == before {
            check_one(problems.below(&class.path), &class.params);
        }
    }
    let simple = |name: &str| {
        let legal = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        !name.is_empty() && name.chars().all(legal)
    };
    for name in scenario.fabric.links.keys().filter(|name| !simple(name)) {
        let found = format_args!("the name `{name}`");
        problems.refuse("fabric.links", found, "letters, digits, `-` and `_`");
    }
    for (at, one) in scenario.fabric.overrides.iter().enumerate() {
        let path = format!("fabric.overrides[{at}].link");
        check_name(scenario, path, &one.link, problems);
    }
    for (at, name) in custom_names(scenario) {
        let path = format!("fabric.topology.links[{at}][2]");
        check_name(scenario, path, name, problems);
    }
}

/// The names of links that the list of a custom topology refers to, with their indices in the list.
fn custom_names(scenario: &Scenario) -> impl Iterator<Item = (usize, &str)> {
    let topology = &scenario.fabric.topology;
    let list = topology.params.get("links");
    let list = list.filter(|_| topology.kind == "custom");
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.enumerate()
        .filter_map(|(at, link)| Some((at, link.get(2)?.as_str()?)))
}

fn check_name(scenario: &Scenario, path: String, name: &str, problems: &mut Problems) {
    let known = &scenario.fabric.links;
    if known.contains_key(name) {
        return;
    }
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    let allowed = match names.as_slice() {
        [] => "a name in [fabric.links], which has none".to_owned(),
        names => names.join(", "),
    };
    let allowed = allowed + &did_you_mean(name, names);
    problems.refuse(path, format_args!("`{name}`"), allowed);
}

fn check_one(mut fields: Fields<'_>, link: &LinkParams) {
    if let Some(rate) = link.bandwidth {
        fields.between("bandwidth", rate, RATES);
    }
    let has_sync_headers = link.generation.has_sync_headers() && link.bandwidth.is_none();
    if link.sync_header_bypass == Some(true) && !has_sync_headers {
        fields.refuse(
            "sync_header_bypass",
            "true",
            "generation 3, 4 or 5 without `bandwidth` (generations 6 and 7 have no sync headers, CXL 3.1 table \
             6-15)",
        );
    }
    let spans = [
        ("propagation", link.propagation),
        ("port_delay", link.port_delay),
        ("fec_delay", link.fec_delay.unwrap_or(Picos::ZERO)),
        ("retimer_delay", link.retimer_delay),
        ("turnaround", link.turnaround),
    ];
    for (field, span) in spans {
        fields.delay(field, span);
    }
    // This check also keeps the sums below from overflowing.
    if spans.iter().any(|(_, span)| *span > LONGEST_DELAY) {
        return;
    }
    if link.crossing_ps() < 2 {
        let (wire, all) = (link.propagation, link.crossing_ps());
        fields.refuse(
            "propagation",
            format_args!("{wire}, with ports and retimers {all} ps"),
            "at least 2 ps together, or nothing would lie between cause and effect",
        );
    }
    match link.transmission {
        Transmission::Packet => {
            for (field, size) in [
                ("packet.header", link.packet.header),
                ("packet.data_header", link.packet.data_header),
                ("packet.staging", link.packet.staging),
            ] {
                if size.0 > 65536 {
                    fields.refuse(field, size, "at most 64 KiB");
                    return;
                }
            }
            if link.flit.is_some() {
                let allowed = "none with transmission = \"packet\"";
                fields.refuse("flit", "a flit format", allowed);
            }
        }
        Transmission::Flit => {
            if link.duplex == Duplex::Half {
                fields.refuse(
                    "duplex",
                    "\"half\"",
                    "\"full\", or transmission = \"packet\" (CXL flits exist on full-duplex PCIe only)",
                );
            }
            if link.generation >= PcieGeneration::Gen6 && link.flit == Some(FlitFormat::B68) {
                fields.wrong(
                    "flit",
                    "found 68B flits on generation 6 or 7; allowed there: the 256B formats of FLIT \
                     mode (68B ends with generation 5)",
                );
            }
        }
    }
    check_errors(fields, link);
}

/// Checks the rate of flit errors, and that the replay buffer covers the round trip of a retry.
fn check_errors(mut fields: Fields<'_>, link: &LinkParams) {
    let rate = link.flit_error_rate.0;
    if !(0.0..=0.1).contains(&rate) {
        fields.refuse("flit_error_rate", rate, "0 to 0.1");
    }
    let unit_ps = link.rate().time_for(Bytes(link.unit_bytes())).0.max(1);
    let needed = link.retry_round_trip_ps().div_ceil(unit_ps) + 1;
    if rate > 0.0 && u64::from(link.replay_buffer_flits) < needed {
        let allowed = format_args!(
            "at least {needed}, to cover the round trip of {} ns (a smaller buffer would throttle the \
             link, which is not modelled)",
            link.retry_round_trip_ps() as f64 / 1e3
        );
        fields.refuse("replay_buffer_flits", link.replay_buffer_flits, allowed);
    }
}

/// Checks that PBR links carry standard 256 B flits, as PBR requires (CXL 3.1 section 6.4.1.4,
/// table 6-13; section 4.3.2), and that G-FAM devices have no other link.
pub(crate) fn check_flits(
    scenario: &Scenario,
    links: &[PlannedLink],
    classes: &[LinkClass],
    devices: &[PlannedDevice],
) -> Result<(), Vec<Problem>> {
    let wrong = |number: usize| {
        let params = &classes[number].params;
        if params.transmission != Transmission::Flit || params.flit_format() == FlitFormat::B256 {
            return None;
        }
        let mut links = links.iter().filter(|link| link.class == number);
        let kind = links.find_map(|link| pbr_link(scenario, devices, (link.a, link.b)))?;
        Some((number, kind))
    };
    let problem = |(number, kind): (usize, PbrLink)| {
        let LinkClass { path, params, .. } = &classes[number];
        let found = match params.flit_format() {
            FlitFormat::B68 => {
                "68 B flits, the format of generations 3 to 5 unless `flit` says otherwise,"
            }
            _ => "latency-optimised flits",
        };
        Problem::new(
            format!("{path}.flit"),
            match kind {
                PbrLink::InterSwitch => format!(
                    "found {found} between switches of a PBR fabric; allowed there: \"256B\" (PBR flits are standard 256 B flits, \
                     CXL 3.1 section 6.4.1.4, table 6-13; links of hosts and devices are `fabric.edge_link`), or a fabric of `kind` \
                     \"single-vcs\" or \"multiple-vcs\""
                ),
                PbrLink::Gfd(device) => format!(
                    "found {found} on the link of G-FAM device `{}`; allowed there: \"256B\" (it is a PBR link, CXL 3.1 sections 2.8 \
                     and 7.7.6.9, and PBR flits are standard 256 B flits, section 6.4.1.4, table 6-13), or a device without \
                     `g_fam`",
                    devices[device].name
                ),
            },
        )
    };
    let mut problems: Problems = (0..classes.len()).filter_map(wrong).map(problem).collect();
    let direct = |link: &PlannedLink| {
        let (End::Host(..), End::Device(device, _)) = (link.a, link.b) else {
            return None;
        };
        let group = devices[device].memory()?;
        scenario.devices[group].g_fam.then(|| {
            Problem::refused(
                format!("devices[{group}].g_fam"),
                format_args!("true for `{}`, which has a link to a host", devices[device].name),
                "behind a PBR switch alone (CXL 3.1 section 7.7.6.9: a GFD link leads to a PBR switch)",
            )
        })
    };
    problems.extend(links.iter().find_map(direct));
    problems.into_result(())
}

/// Most devices that a CacheID can identify: it has 4 bits (CXL 3.1 section 4.3.3).
const CACHE_IDS: usize = 16;

/// Checks that flits on a host's link to switches can identify the device of a CXL.cache message. Only
/// 256 B flits have a CacheID (CXL 3.1 section 4.2.1). With 68 B flits, one device behind switches can
/// cache the host's memory; with 256 B flits, 16 can. `of_host` has the host of each accelerator.
pub(crate) fn check_cache_ids(
    scenario: &Scenario,
    links: &[PlannedLink],
    classes: &[LinkClass],
    devices: &[PlannedDevice],
    of_host: &[usize],
) -> Result<(), Vec<Problem>> {
    let behind = |host| caching_behind(scenario, links, devices, of_host, host);
    let mut problems = Problems::default();
    for link in links {
        let (End::Host(host, _), true) = (link.a, link.b.is_switch()) else {
            continue;
        };
        if link.params.transmission != Transmission::Flit {
            continue;
        }
        let (narrow, number) = (link.params.flit_format() == FlitFormat::B68, behind(host));
        if !narrow && number > CACHE_IDS && problems.is_empty() {
            problems.refuse(
                "accelerators",
                format_args!("{number} devices behind switches that cache the memory of one host"),
                format_args!("at most {CACHE_IDS}, which a CacheID of four bits tells apart"),
            );
        }
        if narrow && number > 1 {
            problems.refuse(
                format!("{}.flit", classes[link.class].path),
                format_args!(
                    "68 B flits on a link of a host with {number} devices behind switches that cache its memory"
                ),
                "256 B flits, or one such device (68 B flits have no CacheID, CXL 3.1 section 4.2.1)",
            );
        }
    }
    problems.into_result(())
}

/// Checks that no host sends `MemRdFill` over a link with 68 B flits, in which its opcode is
/// reserved (CXL 3.1, table 3-41).
pub(crate) fn check_fills(
    scenario: &Scenario,
    workloads: &[Box<dyn Workload>],
    links: &[PlannedLink],
) -> Result<(), Problem> {
    let is_narrow = |link: &PlannedLink| {
        link.params.transmission == Transmission::Flit
            && link.params.flit_format() == FlitFormat::B68
    };
    if !links.iter().any(is_narrow) {
        return Ok(());
    }
    let fills = |at: &usize| {
        let issue = scenario.hosts[*at].requester();
        issue.is_some_and(|issue| {
            issue.partial_write == PartialWrite::MemRdFill
                && issue.cache.is_none()
                && workloads[*at].request().0 < LINE_BYTES
        })
    };
    match (0..scenario.hosts.len()).find(fills) {
        None => Ok(()),
        Some(at) => Err(Problem::new(
            format!("hosts[{at}].issue.partial_write"),
            "found \"MemRdFill\" where links have 68 B flits; allowed there: \"MemWrPtl\" (CXL 3.1, table 3-41)",
        )),
    }
}

/// A note for each named link class that no link uses.
pub(crate) fn notes(classes: &[LinkClass], links: &[PlannedLink]) -> Vec<Note> {
    let unused = |number: &usize| {
        classes[*number].name.is_some() && links.iter().all(|link| link.class != *number)
    };
    let unused = (0..classes.len()).filter(unused);
    let note = |at: usize| Note::new(&classes[at].path, "no link of the fabric has it");
    unused.map(note).collect()
}

/// Checks that half-duplex buses have no virtual channels of their own.
pub(crate) fn check_virtual_channels(
    scenario: &Scenario,
    tables: &RoutingTables,
) -> Result<(), Vec<Problem>> {
    if tables.virtual_channels() == 1 {
        return Ok(());
    }
    let half = |class: &LinkClass| class.params.duplex == Duplex::Half;
    let mut problems = Problems::default();
    for class in scenario.link_classes().into_iter().filter(half) {
        problems.below(class.path).wrong(
            "duplex",
            format!(
                "found \"half\"; allowed on this topology: \"full\", or `fabric.virtual_channels = 1` (its routing needs {} \
                 virtual channels, which a half-duplex bus does not have)",
                tables.virtual_channels()
            ),
        );
    }
    problems.into_result(())
}
