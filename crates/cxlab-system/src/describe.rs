//! The plan as data, for programs that show it.

use cxlab_plan::{Plan, PlannedHost};
use cxlab_protocol::PortId;
use serde_json::{Value, json};

use crate::picture::{Course, Frame, Node, Picture, Scene};

/// The resolved system: names, links with their parameters, each host's address map in bytes,
/// the proof that it has no deadlock, and where a picture has its components (`x` to the right and `y` downwards, in
/// the order of hosts, devices, switches). A picture of groups has the places of the groups in `groups`, and each
/// component has the number of its `group`. `wires` are the lines of the picture, each with the numbers of its links.
pub fn describe(plan: &Plan) -> Value {
    let links = plan.links.iter().map(|link| {
        json!({
            "a": plan.end_name(link.a),
            "b": plan.end_name(link.b),
            "link_class": plan.link_path(link),
            "params": link.params,
        })
    });
    let places = Places::of(plan);
    let maps = plan.hosts.iter().map(|host| address_map(plan, host));
    let proof = plan.tables.proof();
    json!({
        "plan_hash": plan.hash,
        "scenario": plan.scenario.to_value(),
        "hosts": plan.hosts.iter().map(|host| &host.name).collect::<Vec<_>>(),
        "devices": plan.devices.iter().map(|device| &device.name).collect::<Vec<_>>(),
        "switches": plan.graph.switches.iter().map(|switch| &switch.name).collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
        "nodes": places.nodes,
        "groups": places.groups,
        "wires": places.wires,
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

/// Where the picture of a plan has its components, groups and links.
struct Places {
    nodes: Vec<Value>,
    groups: Vec<Value>,
    wires: Vec<Value>,
}

impl Places {
    fn of(plan: &Plan) -> Places {
        let scene = Scene::of_plan(plan, None);
        let picture = Picture::of(&scene, Frame::SVG);
        let is_grouped = picture.traffic.is_some();
        let hosts = (0..plan.hosts.len()).map(|number| ("host", Node::Host(number)));
        let devices = (0..plan.devices.len()).map(|number| ("device", Node::Device(number)));
        let switches = 0..plan.graph.switches.len();
        let switches = switches.map(|number| ("switch", Node::Switch(number)));
        let nodes = hosts.chain(devices).chain(switches).map(|(kind, node)| {
            let spot = picture.spots[&node];
            let at = picture.boxes[spot].rect.center();
            let mut value = json!({ "name": scene.name(node), "kind": kind, "x": at.x, "y": at.y });
            if is_grouped {
                value["group"] = json!(spot);
            }
            value
        });
        let groups = picture.boxes.iter().filter(|_| is_grouped).map(|group| {
            let at = group.rect.center();
            json!({ "name": group.name, "counts": group.texts[1..], "x": at.x, "y": at.y })
        });
        let wires = picture.wires.iter().map(|wire| {
            let points = wire.course.points().iter();
            let points: Vec<[f64; 2]> = points.map(|point| [point.x, point.y]).collect();
            let is_curve = matches!(wire.course, Course::Curve(_));
            json!({ "points": points, "curve": is_curve, "links": wire.links })
        });
        Places {
            nodes: nodes.collect(),
            groups: groups.collect(),
            wires: wires.collect(),
        }
    }
}

/// Devices that report their load: their highest bandwidth, the requests inside that saturate them,
/// and the number from which they report each load.
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

/// The windows of a host: their addresses, and the devices with the memory.
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
