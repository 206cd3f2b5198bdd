//! The system as a graph for Graphviz.

use std::fmt::Write;

use cxlab_plan::Plan;

/// The system as a graph for Graphviz.
pub fn dot(plan: &Plan) -> String {
    let mut text = format!(
        "graph {:?} {{\n  layout=neato; overlap=false; splines=true;\n",
        plan.scenario.name
    );
    let mut nodes = |names: &mut dyn Iterator<Item = &String>, style: &str| {
        for name in names {
            let _ = writeln!(text, "  {name:?} [{style}];");
        }
    };
    let host = "shape=box, style=filled, fillcolor=\"#cfe2ff\"";
    nodes(&mut plan.hosts.iter().map(|host| &host.name), host);
    let switches = &plan.graph.switches;
    nodes(
        &mut switches.iter().map(|switch| &switch.name),
        "shape=ellipse",
    );
    let device = "shape=box, style=\"filled,rounded\", fillcolor=\"#d1e7dd\"";
    nodes(&mut plan.devices.iter().map(|device| &device.name), device);
    for link in &plan.links {
        let (a, b) = (plan.end_name(link.a), plan.end_name(link.b));
        let _ = writeln!(text, "  {a:?} -- {b:?};");
    }
    text.push_str("}\n");
    text
}
