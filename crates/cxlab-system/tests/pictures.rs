//! Pictures of every topology of the catalog, with 4 to 4,096 endpoints: boxes and texts do not overlap, and no picture is
//! wider than 1,600 pixels. A new topology of the catalog is drawn without a change here.
//!
//! `CXLAB_PICTURES=FOLDER` writes the pictures to a folder, so that they can be looked at.

use cxlab_engine::catalog::find;
use cxlab_fabric::graph::{Endpoints, FabricGraph};
use cxlab_fabric::topology::CATALOG;
use cxlab_system::picture::{Fill, Frame, Label, Load, MOST_NODES, Picture, Rect, Scene};
use serde_json::{Value, json};

/// A title that does not fit most pictures.
const LONG: &str = "a title of WWWWWWWWWWWWWWWWWWWWWWWW and mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm, \
    and more words until it is wider than most of the pictures that are drawn here";

/// Numbers of endpoints.
const SIZES: [usize; 18] = [
    4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 60, 64, 128, 256, 512, 1024, 2048, 4096,
];

/// Parameters of a topology, the defaults first. A topology without an arm here is drawn with its defaults, and with the
/// other placement if it has one.
fn parameters(name: &str, endpoints: &Endpoints) -> Vec<Value> {
    let count = endpoints.len();
    match name {
        "custom" => customs(endpoints),
        "mesh" | "torus" if count <= 64 => vec![
            json!({}),
            json!({"dimensions": [3, 2, 3]}),
            json!({"dimensions": [16, 2], "placement": "paired"}),
        ],
        "mesh" | "torus" => vec![
            json!({}),
            json!({"dimensions": [8, 8, 4]}),
            json!({"dimensions": [64, 2], "placement": "paired"}),
        ],
        "chain" | "ring" => vec![json!({}), json!({"switches": 3}), json!({"switches": 30})],
        "fully-connected" => vec![json!({}), json!({"switches": 1}), json!({"switches": 6})],
        "dragonfly" => vec![
            json!({}),
            json!({"global_links": 2, "placement": "paired"}),
            json!({"groups": 3, "routers_per_group": 4}),
        ],
        "tree" => vec![json!({}), json!({"arity": 4}), json!({"leaves": 3})],
        "spine-leaf" => vec![json!({}), json!({"leaves": 4, "spines": 3})],
        _ => {
            let entry = find(CATALOG, name).expect("an entry");
            let schema = (entry.schema)(&mut schemars::SchemaGenerator::default()).to_value();
            let placed = schema.pointer("/properties/placement").is_some();
            let paired = placed.then(|| json!({"placement": "paired"}));
            [json!({})].into_iter().chain(paired).collect()
        }
    }
}

/// A ring with chords, two islands with names of different lengths, and devices with two heads each.
fn customs(endpoints: &Endpoints) -> Vec<Value> {
    let switches = (endpoints.len() / 3).clamp(2, 1000);
    let name = |number: usize| format!("s{number}");
    let mut links = Vec::new();
    for number in 0..switches {
        links.push(json!([name(number), name((number + 1) % switches)]));
        let far = (number * 7 + 3) % switches;
        if number % 5 == 0 && far != number {
            links.push(json!([name(number), name(far)]));
        }
    }
    let at = |number: usize| number * switches / endpoints.len();
    let names: Vec<&str> = endpoints.names().collect();
    let mut ring = links.clone();
    let numbered = || names.iter().enumerate();
    ring.extend(numbered().map(|(number, one)| json!([one, name(at(number))])));
    let all: Vec<String> = (0..switches).map(name).collect();

    let left = "a-switch-with-a-name-that-is-long";
    let side = |number: usize| if number.is_multiple_of(2) { left } else { "r" };
    let islands: Vec<Value> = numbered()
        .map(|(number, one)| json!([one, side(number)]))
        .collect();

    let hosts = endpoints.requesters.len();
    let heads: Vec<Value> = (0..endpoints.devices.len())
        .flat_map(|device| {
            let first = json!([names[device % hosts], names[hosts + device]]);
            let second = json!([names[(device + 1) % hosts], names[hosts + device]]);
            [first].into_iter().chain((hosts > 1).then_some(second))
        })
        .collect();
    vec![
        json!({"switches": all, "links": ring}),
        json!({"switches": [left, "r"], "links": islands}),
        json!({"links": heads}),
    ]
}

/// Calls for each topology of the catalog, with many parameters and numbers of endpoints.
fn each_graph(mut call: impl FnMut(&str, &FabricGraph)) {
    for entry in CATALOG {
        for size in SIZES {
            // Large pictures differ little by the part of hosts.
            let parts: &[usize] = if size <= 64 { &[2, 4] } else { &[2] };
            for hosts in parts.iter().map(|part| size / part) {
                let endpoints = Endpoints::numbered(hosts, size - hosts);
                for (number, params) in parameters(entry.name, &endpoints).iter().enumerate() {
                    let topology = (entry.build)(params).expect("the parameters are right");
                    let name = format!("{}-{size}-{hosts}-{number}", entry.name);
                    let graph = topology.build(&endpoints);
                    let graph = graph.unwrap_or_else(|error| panic!("{name}: {error}"));
                    call(&name, &graph);
                }
            }
        }
    }
}

/// Use of links that differs from link to link.
fn loads(links: usize) -> Vec<[Load; 2]> {
    let load = |number: usize| Load {
        utilization: (number * 37 % 101) as f64 / 100.0,
        efficiency: 0.5,
    };
    let both = |link: usize| [load(2 * link), load(2 * link + 1)];
    (0..links).map(both).collect()
}

fn mistakes(picture: &Picture) -> Vec<String> {
    let mut found = Vec::new();
    let whole = Rect {
        left: 0.0,
        top: 0.0,
        right: picture.width,
        bottom: picture.height,
    };
    if picture.width > 1600.0 {
        found.push(format!("it is {} pixels wide", picture.width));
    }
    if picture.boxes.len() > MOST_NODES {
        found.push(format!("it has {} boxes", picture.boxes.len()));
    }
    let boxes = picture.boxes.iter();
    let boxes = boxes.map(|node| (format!("box {}", node.name), node.rect));
    let cells = picture.cells.iter().filter(|cell| cell.fill != Fill::Empty);
    let cells = cells.map(|cell| (format!("cell {}", cell.title), cell.rect));
    let solid: Vec<(String, Rect)> = boxes.chain(cells).collect();
    let labels = picture.labels.iter();
    let texts: Vec<(&Label, Rect)> = labels.map(|label| (label, label.rect())).collect();
    for (number, (name, rect)) in solid.iter().enumerate() {
        if !whole.contains(*rect) {
            found.push(format!("{name} is outside"));
        }
        let others = solid[..number]
            .iter()
            .filter(|(_, other)| rect.overlaps(*other));
        found.extend(others.map(|(other, _)| format!("{name} overlaps {other}")));
    }
    for (number, (label, rect)) in texts.iter().enumerate() {
        let text = &label.text;
        if !whole.contains(*rect) {
            found.push(format!("text {text} is outside"));
        }
        let others = texts[..number]
            .iter()
            .filter(|(_, other)| rect.overlaps(*other));
        found.extend(others.map(|(other, _)| format!("text {text} overlaps text {}", other.text)));
        let own = |other: &Rect| label.within == Some(*other);
        if label.within.is_some_and(|own| !own.contains(*rect)) {
            found.push(format!("text {text} is wider than its box"));
        }
        let others = solid
            .iter()
            .filter(|(_, other)| rect.overlaps(*other) && !own(other));
        found.extend(others.map(|(other, _)| format!("text {text} overlaps {other}")));
    }
    found
}

/// Links that a picture shows as lines, and links within groups.
fn is_complete(scene: &Scene<'_>, picture: &Picture) -> bool {
    let within = |(a, b): &&(_, _)| picture.spots[a] == picture.spots[b];
    let hidden = scene.links.iter().filter(within).count();
    let shown: usize = picture.wires.iter().map(|wire| wire.links.len()).sum();
    let members = picture.boxes.iter().map(|node| node.members.len().max(1));
    let members: usize = members.sum();
    let at_all = picture.spots.len() == scene.nodes() && members == scene.nodes();
    at_all && shown + hidden == scene.links.len() && (hidden == 0 || picture.traffic.is_some())
}

/// Writes a picture where the maintainer asked for it.
fn keep(file: &str, picture: &str) {
    if let Ok(folder) = std::env::var("CXLAB_PICTURES") {
        let path = std::path::Path::new(&folder).join(file);
        std::fs::write(path, picture).expect("it is written");
    }
}

#[test]
fn no_box_and_no_text_of_any_topology_overlaps_another() {
    let mut wrong = Vec::new();
    each_graph(|name, graph| {
        let mut scene = Scene::of_graph(name, graph);
        for with_loads in [false, true] {
            scene.title = match graph.switches.len() % 3 {
                2 => LONG,
                _ => name,
            };
            scene.loads = with_loads.then(|| loads(scene.links.len()));
            let picture = Picture::of(&scene, Frame::SVG);
            let title = if with_loads { "run" } else { "plan" };
            let svg = picture.svg();
            keep(&format!("{name}-{title}.svg"), &svg);
            let found = mistakes(&picture);
            let found = found.iter().take(3);
            wrong.extend(found.map(|one| format!("{name}, {title}: {one}")));
            if !is_complete(&scene, &picture) {
                wrong.push(format!("{name}, {title}: links or nodes are missing"));
            }
            assert_eq!(svg.matches("<text").count(), picture.labels.len(), "{name}");
        }
    });
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn a_picture_of_characters_has_every_name_and_at_most_104_columns() {
    each_graph(|name, graph| {
        if graph.endpoints.len() > 512 {
            return;
        }
        let picture = Picture::of(&Scene::of_graph(name, graph), Frame::TERMINAL);
        let text = picture.text();
        keep(&format!("{name}.txt"), &text);
        let drawing = text.split("links from to").next().unwrap_or_default();
        for line in text.lines() {
            assert!(line.chars().count() <= 104, "{name}: {line}");
        }
        let texts = picture.boxes.iter().flat_map(|node| &node.texts);
        for one in texts {
            assert!(
                drawing.contains(one.as_str()),
                "{name} lacks {one}:\n{text}"
            );
        }
    });
}

#[test]
fn systems_of_up_to_40_nodes_are_drawn_node_by_node() {
    let mut grouped = Vec::new();
    each_graph(|name, graph| {
        let scene = Scene::of_graph(name, graph);
        if scene.nodes() > 40 {
            return;
        }
        let picture = Picture::of(&scene, Frame::SVG);
        assert_eq!(picture, Picture::of(&scene, Frame::SVG));
        if picture.traffic.is_some() || picture.boxes.len() != scene.nodes() {
            grouped.push(name.to_owned());
        }
    });
    assert!(grouped.is_empty(), "{grouped:?}");
}

#[test]
fn a_large_run_names_the_ten_busiest_links_and_has_a_cell_for_each_pair_of_groups() {
    let endpoints = Endpoints::numbered(128, 128);
    let topology = (find(CATALOG, "dragonfly").expect("an entry").build)(&json!({}));
    let graph = topology.and_then(|topology| topology.build(&endpoints));
    let graph = graph.expect("the defaults are right");
    let mut scene = Scene::of_graph("dragonfly", &graph);
    scene.loads = Some(loads(scene.links.len()));
    let picture = Picture::of(&scene, Frame::SVG);
    let traffic = picture.traffic.as_ref().expect("it has groups");
    assert_eq!(traffic.busiest.len(), 10);
    assert!(traffic.busiest.iter().all(|(_, load)| *load == 1.0));
    let busiest = &traffic.busiest[0].0;
    let svg = picture.svg();
    assert!(svg.contains(&busiest.replace('>', "&gt;")), "{busiest}");
    let [.., before, last] = &traffic.names[..] else {
        panic!("two names at least")
    };
    assert_eq!([before, last], ["hosts", "devices"]);
    // A dragonfly has links between every two of its groups.
    let groups = picture.boxes.len();
    let pairs = (0..groups).flat_map(|from| (0..groups).map(move |to| (from, to)));
    assert!(pairs.clone().count() > 100);
    for pair in pairs {
        assert!(traffic.flows.contains_key(&pair), "{pair:?}");
    }
    let of_hosts = traffic
        .flows
        .iter()
        .filter(|((from, _), _)| *from == groups);
    let hosts: usize = of_hosts.map(|(_, flow)| flow.links).sum();
    assert_eq!(hosts, 128);
}
