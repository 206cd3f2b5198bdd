//! Pictures of a system: a graph for Graphviz, and an SVG whose links are coloured by utilization.

use std::collections::BTreeMap;
use std::fmt::Write;

use cxlab_plan::{End, Plan};

use crate::report::Report;

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
    nodes(
        &mut plan.hosts.iter().map(|host| &host.name),
        "shape=box, style=filled, fillcolor=\"#cfe2ff\"",
    );
    nodes(
        &mut plan.graph.switches.iter().map(|switch| &switch.name),
        "shape=ellipse",
    );
    nodes(
        &mut plan.devices.iter().map(|device| &device.name),
        "shape=box, style=\"filled,rounded\", fillcolor=\"#d1e7dd\"",
    );
    for link in &plan.links {
        let _ = writeln!(
            text,
            "  {:?} -- {:?};",
            plan.end_name(link.a),
            plan.end_name(link.b)
        );
    }
    text.push_str("}\n");
    text
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Point {
    x: f64,
    y: f64,
}

/// Where everything is drawn.
struct Layout {
    hosts: Vec<Point>,
    devices: Vec<Point>,
    switches: Vec<Point>,
    width: f64,
    height: f64,
}

impl Layout {
    fn of(&self, end: End) -> Point {
        match end {
            End::Host(number, _) => self.hosts[number],
            End::Device(number, _) => self.devices[number],
            End::Switch(number, _) => self.switches[number],
        }
    }
}

const MARGIN: f64 = 70.0;
const ROW: f64 = 120.0;
const CELL: f64 = 74.0;
/// Space under the picture for the legend.
const LEGEND: f64 = 46.0;

fn lay_out(plan: &Plan) -> Layout {
    let switches = plan.graph.switches.len();
    let levels = plan
        .graph
        .switches
        .iter()
        .map(|switch| switch.level)
        .max()
        .unwrap_or(0);
    let is_path = plan.graph.links.len() + 1 == switches
        && plan
            .graph
            .links
            .iter()
            .enumerate()
            .all(|(at, link)| link.a == at && link.b == at + 1);
    if switches == 0 {
        return rows_of_endpoints(plan);
    }
    if levels > 0 {
        layered(plan, levels as usize)
    } else if is_path {
        in_a_row(plan)
    } else {
        around(plan)
    }
}

/// Where hosts, devices and switches are drawn, in this order.
pub(crate) fn positions(plan: &Plan) -> Vec<(f64, f64)> {
    let layout = lay_out(plan);
    let all = layout.hosts.iter().chain(&layout.devices);
    let all = all.chain(&layout.switches);
    all.map(|point| (point.x, point.y)).collect()
}

/// Hosts above their devices, without switches.
fn rows_of_endpoints(plan: &Plan) -> Layout {
    let widest = plan.hosts.len().max(plan.devices.len()) as f64;
    let width = 2.0 * MARGIN + widest.max(2.0) * CELL;
    let spread = |count: usize, y: f64| -> Vec<Point> {
        (0..count)
            .map(|at| Point {
                x: width * (at as f64 + 0.5) / count as f64,
                y,
            })
            .collect()
    };
    Layout {
        hosts: spread(plan.hosts.len(), MARGIN),
        devices: spread(plan.devices.len(), MARGIN + ROW),
        switches: Vec::new(),
        width,
        height: 2.0 * MARGIN + ROW,
    }
}

/// The endpoints at each switch: hosts, devices.
fn attached(plan: &Plan) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut attached = vec![(Vec::new(), Vec::new()); plan.graph.switches.len()];
    for link in &plan.links {
        if let End::Switch(switch, _) = link.b {
            match link.a {
                End::Host(number, _) => attached[switch].0.push(number),
                End::Device(number, _) => attached[switch].1.push(number),
                End::Switch(..) => {}
            }
        }
    }
    attached
}

/// Rows of switches by level, the core on top, endpoints below their switch.
fn layered(plan: &Plan, levels: usize) -> Layout {
    let attached = attached(plan);
    let base = MARGIN + levels as f64 * ROW;
    let mut layout = Layout {
        hosts: vec![Point { x: 0.0, y: 0.0 }; plan.hosts.len()],
        devices: vec![Point { x: 0.0, y: 0.0 }; plan.devices.len()],
        switches: vec![Point { x: 0.0, y: 0.0 }; plan.graph.switches.len()],
        width: 0.0,
        height: base + ROW + MARGIN,
    };
    let mut x = MARGIN;
    for (number, switch) in plan.graph.switches.iter().enumerate() {
        if switch.level > 0 {
            continue;
        }
        let (hosts, devices) = &attached[number];
        let places = (hosts.len() + devices.len()).max(1) as f64;
        let mut at = x + CELL / 2.0;
        for host in hosts {
            layout.hosts[*host] = Point {
                x: at,
                y: base + ROW,
            };
            at += CELL;
        }
        for device in devices {
            layout.devices[*device] = Point {
                x: at,
                y: base + ROW,
            };
            at += CELL;
        }
        layout.switches[number] = Point {
            x: x + places * CELL / 2.0,
            y: base,
        };
        x += places * CELL + 12.0;
    }
    layout.width = x + MARGIN;
    for level in 1..=levels {
        let row: Vec<usize> = (0..plan.graph.switches.len())
            .filter(|number| plan.graph.switches[*number].level as usize == level)
            .collect();
        for (at, number) in row.iter().enumerate() {
            layout.switches[*number] = Point {
                x: layout.width * (at as f64 + 0.5) / row.len() as f64,
                y: base - level as f64 * ROW,
            };
        }
    }
    layout
}

/// A chain: hosts above, devices below.
fn in_a_row(plan: &Plan) -> Layout {
    let mut layout = Layout {
        hosts: vec![Point { x: 0.0, y: 0.0 }; plan.hosts.len()],
        devices: vec![Point { x: 0.0, y: 0.0 }; plan.devices.len()],
        switches: Vec::new(),
        width: 0.0,
        height: 2.0 * MARGIN + 2.0 * ROW,
    };
    let mut x = MARGIN;
    for (hosts, devices) in attached(plan) {
        let places = hosts.len().max(devices.len()).max(1) as f64;
        let center = x + places * CELL / 2.0;
        let spread =
            |at: usize, count: usize| center + (at as f64 - (count as f64 - 1.0) / 2.0) * CELL;
        for (at, host) in hosts.iter().enumerate() {
            layout.hosts[*host] = Point {
                x: spread(at, hosts.len()),
                y: MARGIN,
            };
        }
        for (at, device) in devices.iter().enumerate() {
            layout.devices[*device] = Point {
                x: spread(at, devices.len()),
                y: MARGIN + 2.0 * ROW,
            };
        }
        layout.switches.push(Point {
            x: center,
            y: MARGIN + ROW,
        });
        x += places * CELL + 16.0;
    }
    layout.width = x + MARGIN;
    layout
}

/// Switches on a circle, endpoints outside.
fn around(plan: &Plan) -> Layout {
    let attached = attached(plan);
    let endpoints = (plan.hosts.len() + plan.devices.len()) as f64;
    let outer = (endpoints * CELL / std::f64::consts::TAU).max(150.0);
    let inner = outer - 95.0_f64.min(outer * 0.45);
    let center = outer + MARGIN;
    let at = |turn: f64, radius: f64| Point {
        x: center + radius * (turn * std::f64::consts::TAU).sin(),
        y: center - radius * (turn * std::f64::consts::TAU).cos(),
    };
    let mut layout = Layout {
        hosts: vec![Point { x: 0.0, y: 0.0 }; plan.hosts.len()],
        devices: vec![Point { x: 0.0, y: 0.0 }; plan.devices.len()],
        switches: Vec::new(),
        width: 2.0 * center,
        height: 2.0 * center,
    };
    let count = plan.graph.switches.len() as f64;
    for (number, (hosts, devices)) in attached.iter().enumerate() {
        let turn = number as f64 / count;
        layout.switches.push(at(turn, inner));
        let here = (hosts.len() + devices.len()) as f64;
        let place =
            |index: usize| turn + (index as f64 - (here - 1.0) / 2.0) / endpoints.max(count);
        for (index, host) in hosts.iter().enumerate() {
            layout.hosts[*host] = at(place(index), outer);
        }
        for (index, device) in devices.iter().enumerate() {
            layout.devices[*device] = at(place(hosts.len() + index), outer);
        }
    }
    layout
}

/// From idle (grey) over blue to saturated (red): readable also without colour, because busy
/// links are drawn wider.
fn color(utilization: f64) -> String {
    let stops = [
        (0.0, [173, 181, 189]),
        (0.35, [13, 110, 253]),
        (0.7, [253, 126, 20]),
        (1.0, [214, 30, 48]),
    ];
    let value = utilization.clamp(0.0, 1.0);
    let mut rgb = stops[3].1;
    for pair in stops.windows(2) {
        if value <= pair[1].0 {
            let share = (value - pair[0].0) / (pair[1].0 - pair[0].0);
            for (channel, (from, to)) in rgb.iter_mut().zip(pair[0].1.iter().zip(pair[1].1)) {
                let (from, to) = (f64::from(*from), f64::from(to));
                *channel = (from + (to - from) * share).round() as i32;
            }
            break;
        }
    }
    format!("#{:02x}{:02x}{:02x}", rgb[0], rgb[1], rgb[2])
}

/// A picture of the system; with a report, links are coloured by their busier direction.
pub fn svg(plan: &Plan, report: Option<&Report>) -> String {
    let layout = lay_out(plan);
    let (width, height) = (layout.width.max(420.0), layout.height + LEGEND);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"16\" y=\"24\" font-size=\"15\" font-weight=\"bold\">{}</text>\n",
        escape(&plan.scenario.name)
    );
    draw_links(&mut text, plan, &layout, report);
    let few = plan.hosts.len() + plan.devices.len() <= 80;
    for (host, point) in plan.hosts.iter().zip(&layout.hosts) {
        node(&mut text, *point, &host.name, "#cfe2ff", 4.0, few);
    }
    for (device, point) in plan.devices.iter().zip(&layout.devices) {
        node(&mut text, *point, &device.name, "#d1e7dd", 12.0, few);
    }
    for (switch, point) in plan.graph.switches.iter().zip(&layout.switches) {
        node(
            &mut text,
            *point,
            &switch.name,
            "#f1f3f5",
            16.0,
            plan.graph.switches.len() <= 80,
        );
    }
    legend(&mut text, layout.height + 8.0, report);
    text.push_str("</svg>\n");
    text
}

fn draw_links(text: &mut String, plan: &Plan, layout: &Layout, report: Option<&Report>) {
    let mut parallel: BTreeMap<(String, String), u32> = BTreeMap::new();
    for (number, link) in plan.links.iter().enumerate() {
        let (a, b) = (layout.of(link.a), layout.of(link.b));
        let names = (plan.end_name(link.a), plan.end_name(link.b));
        let seen = parallel
            .entry((names.0.to_owned(), names.1.to_owned()))
            .or_default();
        let shift = f64::from(*seen) * 6.0;
        *seen += 1;
        let (stroke, wide, title) = match report {
            None => (
                "#6c757d".to_owned(),
                1.6,
                format!("{} -- {}", names.0, names.1),
            ),
            Some(report) => {
                let ways = &report.links[2 * number..2 * number + 2];
                let busiest = ways.iter().map(|way| way.utilization).fold(0.0, f64::max);
                let titles: Vec<String> = ways
                    .iter()
                    .map(|way| {
                        format!(
                            "{}: {:.1} % busy, {:.1} % of its bytes payload",
                            way.direction,
                            way.utilization * 100.0,
                            way.efficiency * 100.0
                        )
                    })
                    .collect();
                (color(busiest), 1.4 + 3.6 * busiest, titles.join("\n"))
            }
        };
        let _ = writeln!(
            text,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{stroke}\" \
             stroke-width=\"{wide:.1}\"><title>{}</title></line>",
            a.x + shift,
            a.y,
            b.x + shift,
            b.y,
            escape(&title)
        );
    }
}

fn node(text: &mut String, at: Point, name: &str, fill: &str, round: f64, label: bool) {
    let half = if label {
        (name.chars().count() as f64 * 3.4 + 7.0).max(20.0)
    } else {
        6.0
    };
    let tall = if label { 13.0 } else { 6.0 };
    let _ = writeln!(
        text,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"{}\" fill=\"{fill}\" \
         stroke=\"#343a40\"><title>{}</title></rect>",
        at.x - half,
        at.y - tall,
        2.0 * half,
        2.0 * tall,
        round.min(tall),
        escape(name)
    );
    if label {
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            at.x,
            at.y + 4.0,
            escape(name)
        );
    }
}

fn legend(text: &mut String, y: f64, report: Option<&Report>) {
    let boxes = [
        ("host", "#cfe2ff"),
        ("switch", "#f1f3f5"),
        ("device", "#d1e7dd"),
    ];
    for (at, (name, fill)) in boxes.iter().enumerate() {
        let x = 16.0 + at as f64 * 70.0;
        let _ = writeln!(
            text,
            "<rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"14\" height=\"14\" fill=\"{fill}\" \
             stroke=\"#343a40\"/><text x=\"{:.0}\" y=\"{:.0}\">{name}</text>",
            x + 19.0,
            y + 11.0
        );
    }
    if report.is_some() {
        for step in 0..=10 {
            let _ = writeln!(
                text,
                "<rect x=\"{:.0}\" y=\"{y:.0}\" width=\"11\" height=\"14\" fill=\"{}\"/>",
                240.0 + f64::from(step) * 10.0,
                color(f64::from(step) / 10.0)
            );
        }
        let _ = writeln!(
            text,
            "<text x=\"240\" y=\"{:.0}\">0 %</text><text x=\"322\" y=\"{:.0}\">100 % busy</text>",
            y + 28.0,
            y + 28.0
        );
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
