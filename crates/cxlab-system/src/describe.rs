//! The plan as data, for programs that show it.

use cxlab_plan::{Plan, PlannedHost};
use cxlab_protocol::PortId;
use serde_json::{Value, json};

use crate::picture::{Frame, Node, Picture, Scene};

/// The resolved system: names, links with their parameters, each host's address map in bytes,
/// the proof that it has no deadlock, and where a picture has its components (`x` to the right and `y` downwards, in
/// the order of hosts, devices, switches). A picture of groups has the places of the groups in `groups`, and each
/// component has the number of its `group`.
pub fn describe(plan: &Plan) -> Value {
    let links = plan.links.iter().map(|link| {
        json!({
            "a": plan.end_name(link.a),
            "b": plan.end_name(link.b),
            "link_class": plan.link_path(link),
            "params": link.params,
        })
    });
    let (nodes, groups) = places(plan);
    let maps = plan.hosts.iter().map(|host| address_map(plan, host));
    let proof = plan.tables.proof();
    json!({
        "plan_hash": plan.hash,
        "scenario": plan.scenario,
        "hosts": plan.hosts.iter().map(|host| &host.name).collect::<Vec<_>>(),
        "devices": plan.devices.iter().map(|device| &device.name).collect::<Vec<_>>(),
        "switches": plan.graph.switches.iter().map(|switch| &switch.name).collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
        "nodes": nodes,
        "groups": groups,
        "deadlock_proof": {
            "virtual_channels": proof.virtual_channels,
            "paths": plan.tables.paths().name(),
            "channels": proof.channels,
            "dependencies": proof.dependencies,
        },
        "address_maps": maps.collect::<Vec<_>>(),
        "telemetry": telemetry(plan),
        "throttles": throttles(plan),
        "notes": plan.notes,
    })
}

/// Where the picture of a plan has its components and groups.
fn places(plan: &Plan) -> (Vec<Value>, Vec<Value>) {
    let scene = Scene::of_plan(plan, None);
    let picture = Picture::of(&scene, Frame::SVG);
    let is_grouped = picture.traffic.is_some();
    let all = (0..plan.hosts.len())
        .map(|number| ("host", Node::Host(number)))
        .chain((0..plan.devices.len()).map(|number| ("device", Node::Device(number))))
        .chain((0..plan.graph.switches.len()).map(|number| ("switch", Node::Switch(number))));
    let nodes = all.map(|(kind, node)| {
        let spot = picture.spots[&node];
        let at = picture.boxes[spot].rect.center();
        let mut value = json!({ "name": scene.name(node), "kind": kind, "x": at.x, "y": at.y });
        if is_grouped {
            value["group"] = json!(spot);
        }
        value
    });
    let nodes = nodes.collect();
    let groups = picture.boxes.iter().filter(|_| is_grouped).map(|group| {
        let at = group.rect.center();
        json!({
            "name": group.name,
            "counts": group.texts[1..],
            "x": at.x,
            "y": at.y,
            "width": group.rect.width(),
            "height": group.rect.height(),
        })
    });
    (nodes, groups.collect())
}

/// Devices that tell their load: what they serve at most, the requests inside that keep them just full, and from how
/// many on they tell each load.
fn telemetry(plan: &Plan) -> Vec<Value> {
    let all = plan.devices.iter().zip(&plan.qos.devices);
    let told = all.filter_map(|(device, qos)| {
        let qos = qos.as_ref()?;
        let thresholds = qos.config.thresholds;
        Some(json!({
            "device": device.name,
            "bandwidth_gb_per_s": qos.bandwidth.as_gb_per_s(),
            "limited_by": if qos.is_limited_by_ports { "ports" } else { "medium" },
            "full": qos.full,
            "optimal": thresholds.optimal,
            "moderate": thresholds.moderate,
            "severe": thresholds.severe,
        }))
    });
    told.collect()
}

/// Throttles of hosts, with the rates in force.
fn throttles(plan: &Plan) -> Vec<Value> {
    let all = plan.hosts.iter().zip(&plan.qos.throttles);
    let throttles = all.filter_map(|(host, throttle)| {
        let throttle = &throttle.as_ref()?.params;
        Some(json!({
            "host": host.name,
            "period_ns": throttle.period().0 as f64 / 1e3,
            "step_gb_per_s": throttle.step().as_gb_per_s(),
            "least_gb_per_s": throttle.least().as_gb_per_s(),
            "moderate_cut": throttle.moderate_cut,
            "severe_cut": throttle.severe_cut,
        }))
    });
    throttles.collect()
}

/// The windows of a host: its addresses, and whose memory they are.
fn address_map(plan: &Plan, host: &PlannedHost) -> Value {
    let device = |port: &PortId| &plan.devices[usize::from(port.0) - plan.hosts.len()].name;
    let windows = host.map.windows().iter().map(|window| {
        let targets = window.targets.iter().zip(&window.first);
        let targets =
            targets.map(|(port, first)| json!({ "device": device(port), "dpa": first.0 }));
        json!({
            "base": window.base.0,
            "bytes": window.size.0,
            "ways": window.targets.len(),
            "granularity": plan.scenario.address_map.granularity,
            "xor_maps": plan.scenario.address_map.xor_maps(),
            "targets": targets.collect::<Vec<_>>(),
        })
    });
    json!({ "host": host.name, "windows": windows.collect::<Vec<_>>() })
}
