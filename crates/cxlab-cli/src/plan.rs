//! `cxlab check` and `cxlab plan`.

use std::fmt::Display;

use cxlab_fabric::graph::FabricGraph;
use cxlab_fabric::routing::{AllowedPaths, RoutingTables};
use cxlab_link::LinkParams;
use cxlab_plan::load::Loaded;
use cxlab_plan::{End, Plan};
use cxlab_protocol::Channel;
use cxlab_scenario::{Arithmetic, RegionGroup, Sharing};
use cxlab_system::analytic;
use cxlab_system::describe::describe;
use cxlab_system::picture;

use super::failure::Failure;
use super::load::{is_coloured, load};
use super::{CheckArgs, OutputFormat, PlanArgs, PlanFormat, print, print_as_it_is};

/// Checks a scenario.
pub(super) fn check(args: &CheckArgs) -> Result<(), Failure> {
    match load(&args.scenario)? {
        Err(mistakes) if args.format == OutputFormat::Json => {
            print(&mistakes.json())?;
            Err(Failure::Mistake(String::new()))
        }
        Err(mistakes) => Err(mistakes.into()),
        Ok(loaded) if args.format == OutputFormat::Json => print(&loaded.warnings().json()),
        Ok(loaded) => {
            let mut text = format!("{}: ok\n", args.scenario.scenario.display());
            if !loaded.plan.notes.is_empty() {
                text.push_str(&loaded.warnings().render(is_coloured(&std::io::stdout())));
            }
            // The rendered text only contains cxlab's own control characters.
            print_as_it_is(&text)
        }
    }
}

/// Shows the resolved system.
pub(super) fn show(args: &PlanArgs) -> Result<(), Failure> {
    let loaded = load(&args.scenario)?.map_err(Failure::from)?;
    let plan = &loaded.plan;
    let text = match args.format {
        PlanFormat::Text => summary(&loaded),
        PlanFormat::Json => format!("{:#}\n", describe(plan)),
        PlanFormat::Dot => picture::dot(plan),
        PlanFormat::Svg => picture::svg(plan, None),
        PlanFormat::Terminal => picture::text(plan),
    };
    match &args.out {
        None => print(&text),
        Some(path) => cxlab_system::output::write_whole(path, text.as_bytes())
            .map_err(|error| Failure::Output(format!("{}: {error}", path.display()))),
    }
}

/// The common value, or the least and the largest. `None` without values.
fn span<T: Ord + Display>(values: impl Iterator<Item = T>) -> Option<String> {
    let values: Vec<T> = values.collect();
    let (least, most) = (values.iter().min()?, values.iter().max()?);
    Some(match least == most {
        true => least.to_string(),
        false => format!("{least} to {most}"),
    })
}

/// The credits of the classes of CXL.mem's reads and writes.
fn credits(link: &LinkParams) -> String {
    use Channel::{M2sReq, M2sRwd, S2mDrs, S2mNdr};
    let classes = [M2sReq, M2sRwd, S2mNdr, S2mDrs].into_iter();
    span(classes.map(|class| link.credits_of(class))).unwrap_or_default()
}

/// The links of a class, by their ends where there are few of a named one.
fn which(plan: &Plan, class: usize, count: usize) -> String {
    const MAX_NAMED: usize = 4;
    if count > MAX_NAMED || plan.link_classes[class].name.is_none() {
        return format!("{count} links");
    }
    let own = plan.links.iter().filter(|link| link.class == class);
    let names = own.map(|link| format!("{}--{}", plan.end_name(link.a), plan.end_name(link.b)));
    names.collect::<Vec<_>>().join(", ")
}

/// Paths that messages may take, and cost of paths that are not the shortest.
fn paths(plan: &Plan) -> String {
    let name = plan.tables.paths().name();
    if plan.tables.paths() == AllowedPaths::UpDown
        && let Ok(free) = RoutingTables::build(&plan.graph, plan.tables.kind())
    {
        return format!(
            "{name}: {:.2} links between host and device on the mean, {:.2} by shortest paths",
            mean_links(&plan.graph, &plan.tables),
            mean_links(&plan.graph, &free)
        );
    }
    name.to_owned()
}

/// The mean number of links from a host to a reachable device, and back.
fn mean_links(graph: &FabricGraph, tables: &RoutingTables) -> f64 {
    let devices = graph.endpoints.device_range();
    let pairs = (0..graph.endpoints.requesters.len())
        .flat_map(|host| devices.clone().map(move |device| (host, device)));
    let both = pairs.flat_map(|(host, device)| [(host, device), (device, host)]);
    let links = both.filter_map(|(from, to)| tables.hops(from, to));
    let (sum, count) = links.fold((0, 0), |(sum, count), links| {
        (sum + u64::from(links), count + 1_u64)
    });
    sum as f64 / count.max(1) as f64
}

/// A row for each class of links that the plan uses.
fn link_rows(plan: &Plan) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for (number, class) in plan.link_classes.iter().enumerate() {
        let links = plan.links.iter().filter(|link| link.class == number);
        let count = links.count();
        if count == 0 {
            continue;
        }
        let link = &class.params;
        rows.push((
            class.path.trim_start_matches("fabric.").to_owned(),
            format!(
                "{:.3} GB/s a direction, {} ns port to port, {} credits a class ({})",
                link.rate().as_gb_per_s(),
                link.crossing_ps() as f64 / 1e3,
                credits(link),
                which(plan, number, count)
            ),
        ));
    }
    rows
}

/// The constant times of hosts, switches and devices, or the least and the largest of each.
fn constant_times(plan: &Plan) -> String {
    let hosts = 0..plan.hosts.len();
    let out = span(hosts.clone().map(|host| plan.egress(End::Host(host, 0))));
    let back = span(hosts.map(|host| plan.ingress(End::Host(host, 0))));
    let switch = (!plan.graph.switches.is_empty()).then(|| plan.ingress(End::Switch(0, 0)));
    let devices = (0..plan.devices.len()).map(|device| End::Device(device, 0));
    let device = span(devices.map(|end| plan.egress(end) + plan.ingress(end)));
    let parts = [
        out.map(|time| format!("host {time} out")),
        back.map(|time| format!("{time} back")),
        switch.map(|time| format!("switch {time}")),
        device.map(|time| format!("device {time}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The windows of the first host, and how they are interleaved.
fn describe_map(plan: &Plan) -> Option<String> {
    let windows = plan.hosts.first()?.map.windows();
    let ways = windows.first().map_or(0, |window| window.targets.len());
    let map = &plan.scenario.address_map;
    let arithmetic = match map.arithmetic {
        Arithmetic::Modulo => "",
        Arithmetic::Xor => ", XOR",
    };
    let plural = if windows.len() == 1 { "" } else { "s" };
    Some(format!(
        "{} window{plural}, {ways}-way interleaved by {}{arithmetic}",
        windows.len(),
        map.granularity
    ))
}

/// A region's capacity, hosts and devices.
fn describe_region(region: &RegionGroup) -> String {
    let whose = match region.sharing {
        Sharing::Exclusive => "for each of",
        Sharing::Shared => "shared by",
        Sharing::Moving => "one at a time of",
        Sharing::Pooled => "in blocks, by demand, for",
    };
    let first = match region.initially_added {
        true => "",
        false => ", not from the beginning",
    };
    let list = |names: &[String]| match names {
        [] => "all".to_owned(),
        names => names.join(", "),
    };
    format!(
        "{} {whose} {}, on {}{first}",
        region.capacity,
        list(&region.hosts),
        list(&region.devices)
    )
}

/// The resolved system as text: topology, address map, links, hosts, devices and notes.
pub fn summary(loaded: &Loaded) -> String {
    let plan = &loaded.plan;
    let scenario = &plan.scenario;
    let proof = plan.tables.proof();
    let mut text = format!("{}  (plan {})\n", scenario.name, plan.hash);
    if !scenario.description.is_empty() {
        text.push_str(&format!("{}\n", scenario.description.trim()));
    }
    let mut row = |name: &str, value: String| text.push_str(&format!("  {name:<18} {value}\n"));
    row(
        "topology",
        format!(
            "{}, routing {}",
            scenario.fabric.topology.kind,
            plan.routing_name()
        ),
    );
    row("hosts", plan.hosts.len().to_string());
    row(
        "devices",
        format!("{}, {} in all", plan.devices.len(), plan.capacity()),
    );
    row("switches", plan.graph.switches.len().to_string());
    row("links", plan.links.len().to_string());
    for (class, links) in link_rows(plan) {
        row(&class, links);
    }
    row("constant times", constant_times(plan));
    row(
        "virtual channels",
        format!(
            "{} ({}no deadlock: {} channels, {} dependencies, no cycle)",
            proof.virtual_channels,
            match proof.virtual_channels {
                1 => "",
                _ => "an extension of CXL; ",
            },
            proof.channels,
            proof.dependencies
        ),
    );
    if plan.tables.paths() != AllowedPaths::Shortest {
        row("paths", paths(plan));
    }
    if let Some(failures) = plan.failures() {
        row(
            "with failures",
            format!(
                "{} failures and repairs, {} changes of the routing to {} different fabrics, {} virtual channels",
                failures.times.len(),
                failures.routing.len(),
                failures.fabrics,
                failures.virtual_channels
            ),
        );
    }
    if let Some(map) = describe_map(plan) {
        row("address map", map);
    }
    for region in &scenario.regions {
        row(&format!("region {}", region.name), describe_region(region));
    }
    if let Some(manager) = &scenario.fabric_manager {
        row(
            "fabric manager",
            format!(
                "commands take {}, hosts {} to give up what they are asked for, scrubs {}",
                manager.command_time, manager.host_time, manager.scrub_time
            ),
        );
        for binding in &manager.unbound {
            row("not bound", format!("{}, {}", binding.host, binding.device));
        }
    }
    for (name, what) in plan.describe_qos() {
        row(&name, what);
    }
    for event in &scenario.events {
        row(&format!("at {}", event.at()), event.describe());
    }
    if let Some(path) = plan.longest_path() {
        row("longest path", format!("{path} links"));
    }
    for limit in analytic::in_flight_limits(plan) {
        row("in flight", limit);
    }
    for note in &plan.notes {
        text.push_str(&format!("  note: {}\n", loaded.describe_note(note)));
    }
    text
}
