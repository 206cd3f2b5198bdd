//! From a scene to a picture: which boxes there are, their texts, links and legend.

use std::collections::BTreeMap;

use super::collapse::{self, Groups};
use super::colour;
use super::geometry::{FONT, MARGIN, Point, Rect, Size, shortened, text_width};
use super::heat;
use super::place::{self, Body, Course, Layout, PlacedBoxes, Satellite};
use super::scene::{Anchor, Node, Scene, Skeleton};
use super::traffic::Traffic;
use super::{Cell, Fill, Frame, Ink, Kind, Label, NodeBox, Picture, Wire};

/// Most nodes that are drawn one by one.
pub const MOST_NODES: usize = 64;
/// Space above the picture for its title, in pixels.
const HEAD: f64 = 42.0;
/// Most characters of a name in a box.
const NAME: usize = 14;
/// Numbers of groups that are tried, until the picture fits.
const GROUPS: [usize; 8] = [28, 20, 16, 12, 9, 6, 4, 2];
/// Least width of a picture, in pixels: that of the legend.
const LEAST_WIDTH: f64 = 480.0;
/// Distance of parallel links, in pixels.
const PARALLEL: f64 = 5.0;

pub(super) fn draw(scene: &Scene<'_>, frame: Frame) -> Picture {
    let skeleton = Skeleton::of(scene);
    if scene.nodes() <= MOST_NODES {
        for width in [frame.wrap, frame.most] {
            if let Some(picture) = nodes(scene, &skeleton, width - 2.0 * MARGIN) {
                return picture;
            }
        }
    }
    for width in [frame.wrap, frame.most] {
        for most in GROUPS {
            let groups = collapse::groups(scene, &skeleton, most);
            if let Some(placed) = overview(&skeleton, &groups, width - 2.0 * MARGIN) {
                return of_groups(scene, &skeleton, &groups, &placed, frame);
            }
        }
    }
    let groups = Groups::one(scene, &skeleton);
    let placed = overview(&skeleton, &groups, f64::INFINITY).unwrap_or_default();
    of_groups(scene, &skeleton, &groups, &placed, frame)
}

fn box_size(text: &str) -> Size {
    // A terminal has cells of 7 pixels.
    let letters = 7.0 * text.chars().count() as f64;
    Size {
        width: text_width(text, FONT).max(letters) + 14.0,
        height: 20.0,
    }
}

fn kind(node: Node) -> Kind {
    match node {
        Node::Host(_) => Kind::Host,
        Node::Device(_) => Kind::Device,
        Node::Switch(_) => Kind::Switch,
    }
}

/// A picture of every node. `None` if it does not fit the width.
fn nodes(scene: &Scene<'_>, skeleton: &Skeleton, width: f64) -> Option<Picture> {
    let text = |node: Node| shortened(scene.name(node), NAME);
    let is_host = |node: &Node| matches!(node, Node::Host(_));
    let satellite = |node: &Node| Satellite {
        size: box_size(&text(*node)),
        is_host: is_host(node),
    };
    let body = |anchor: &Anchor| Body {
        size: box_size(&text(anchor.node)),
        level: anchor.level,
        is_host: is_host(&anchor.node),
        satellites: anchor.satellites.iter().map(satellite).collect(),
    };
    let bodies: Vec<Body> = skeleton.anchors.iter().map(body).collect();
    let layout = Layout {
        bodies: &bodies,
        edges: &skeleton.edges,
        arrangement: &skeleton.arrangement,
    };
    let placed = place::place(&layout, width)?;
    let bounds = placed.bounds(&bodies);
    let shift = Point::new(MARGIN - bounds.left, HEAD - bounds.top);
    let mut picture = Picture::new(scene.title, bounds.width() + 2.0 * MARGIN);
    for (number, anchor) in skeleton.anchors.iter().enumerate() {
        let own = (anchor.node, placed.at[number], bodies[number].size);
        let satellites = anchor.satellites.iter().zip(&placed.satellites[number]);
        let satellites = satellites.zip(&bodies[number].satellites);
        let hung = satellites.map(|((node, hung), one)| (*node, hung.at, one.size));
        for (node, at, size) in std::iter::once(own).chain(hung) {
            let rect = Rect::around(at.plus(shift), size);
            picture.spots.insert(node, picture.boxes.len());
            picture.add_box(kind(node), rect, scene.name(node), &[text(node)]);
        }
    }
    node_wires(&mut picture, scene, skeleton, &placed, shift);
    picture.bands = moved_bands(&placed, shift);
    picture.height = HEAD + bounds.height() + 14.0;
    legend(&mut picture, scene.loads.is_some(), true);
    Some(picture)
}

fn moved_bands(placed: &PlacedBoxes, shift: Point) -> Vec<place::Band> {
    let bands = placed.bands.iter().map(|band| place::Band {
        from: band.from.plus(shift),
        to: band.to.plus(shift),
        ..*band
    });
    bands.collect()
}

/// The course of a link between two bodies.
fn course(placed: &PlacedBoxes, a: usize, b: usize) -> Course {
    let pair = (a.min(b), a.max(b));
    let straight = || Course::Lines(vec![placed.at[pair.0], placed.at[pair.1]]);
    placed.courses.get(&pair).cloned().unwrap_or_else(straight)
}

/// A line for each link. The busiest are drawn last.
fn node_wires(
    picture: &mut Picture,
    scene: &Scene<'_>,
    skeleton: &Skeleton,
    placed: &PlacedBoxes,
    shift: Point,
) {
    let mut parallel: BTreeMap<(Node, Node), usize> = BTreeMap::new();
    for (a, b) in &scene.links {
        *parallel.entry((*a.min(b), *a.max(b))).or_default() += 1;
    }
    let mut seen: BTreeMap<(Node, Node), usize> = BTreeMap::new();
    for (number, (a, b)) in scene.links.iter().enumerate() {
        let (home, other) = (skeleton.home(*a), skeleton.home(*b));
        let course = if home == other {
            let mut all = skeleton.anchors[home].satellites.iter();
            let hung = all.position(|node| node == a || node == b);
            let hung = hung.map(|at| &placed.satellites[home][at]);
            Course::Lines(hung.map_or(Vec::new(), |hung| hung.course.clone()))
        } else {
            course(placed, home, other)
        };
        let pair = (*a.min(b), *a.max(b));
        let place = seen.entry(pair).or_default();
        let aside = *place as f64 - (parallel[&pair] - 1) as f64 / 2.0;
        *place += 1;
        picture.wires.push(Wire {
            course: aside_of(course.moved(shift), aside * PARALLEL),
            ends: (picture.spots[a], picture.spots[b]),
            links: vec![number],
            load: scene.busier(number),
            title: title(scene, number),
        });
    }
    picture.busiest_last();
}

/// A course moved to its side, so that parallel links are apart.
fn aside_of(course: Course, aside: f64) -> Course {
    if aside == 0.0 {
        return course;
    }
    let points = course.points();
    let along = points[points.len() - 1].minus(points[0]);
    let length = along.length().max(1e-6);
    course.moved(Point::new(-along.y, along.x).times(aside / length))
}

/// Tooltip of a link: its ends, and the utilization of both directions.
fn title(scene: &Scene<'_>, number: usize) -> String {
    let Some(loads) = &scene.loads else {
        let (a, b) = scene.links[number];
        return format!("{} -- {}", scene.name(a), scene.name(b));
    };
    let say = |back: bool| {
        let load = loads[number][usize::from(back)];
        format!(
            "{}: {:.1} % busy, {:.1} % of its bytes payload",
            scene.direction(number, back),
            load.utilization * 100.0,
            load.efficiency * 100.0
        )
    };
    format!("{}\n{}", say(false), say(true))
}

/// Places groups. `None` if they do not fit the width.
fn overview(skeleton: &Skeleton, groups: &Groups, width: f64) -> Option<PlacedBoxes> {
    let bodies = group_bodies(skeleton, groups);
    let edges = group_edges(skeleton, groups);
    let layout = Layout {
        bodies: &bodies,
        edges: &edges,
        arrangement: &groups.arrangement,
    };
    place::place(&layout, width)
}

fn group_texts(skeleton: &Skeleton, group: &collapse::Group) -> Vec<String> {
    let mut texts = vec![shortened(&group.name, 2 * NAME)];
    texts.extend(collapse::counts(skeleton, &group.members));
    texts
}

/// Distance of the lines of a group's box, in pixels.
const LINE: f64 = 14.0;

fn group_bodies(skeleton: &Skeleton, groups: &Groups) -> Vec<Body> {
    let bodies = groups.all.iter().map(|group| {
        let texts = group_texts(skeleton, group);
        let widths = texts.iter().enumerate().map(|(line, text)| {
            // The first line is bold.
            let bold = if line == 0 { 1.12 } else { 1.0 };
            (text_width(text, FONT) * bold).max(7.0 * text.chars().count() as f64)
        });
        Body {
            size: Size {
                width: widths.fold(0.0, f64::max) + 16.0,
                height: LINE * texts.len() as f64 + 8.0,
            },
            level: group.level,
            ..Body::default()
        }
    });
    bodies.collect()
}

fn group_of(skeleton: &Skeleton, groups: &Groups) -> Vec<usize> {
    let mut of = vec![0; skeleton.anchors.len()];
    for (number, group) in groups.all.iter().enumerate() {
        for member in &group.members {
            of[*member] = number;
        }
    }
    of
}

fn group_edges(skeleton: &Skeleton, groups: &Groups) -> Vec<(usize, usize)> {
    let of = group_of(skeleton, groups);
    let pairs = skeleton.edges.iter().map(|(a, b)| (of[*a], of[*b]));
    let between = pairs
        .filter(|(a, b)| a != b)
        .map(|(a, b)| (a.min(b), a.max(b)));
    let mut edges: Vec<(usize, usize)> = between.collect();
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// A picture of groups, with a heat map of the links between them.
fn of_groups(
    scene: &Scene<'_>,
    skeleton: &Skeleton,
    groups: &Groups,
    placed: &PlacedBoxes,
    frame: Frame,
) -> Picture {
    let bodies = group_bodies(skeleton, groups);
    let of = group_of(skeleton, groups);
    let bounds = placed.bounds(&bodies);
    let names: Vec<String> = groups.all.iter().map(|group| group.name.clone()).collect();
    let traffic = Traffic::of(scene, names, |node| of[skeleton.home(node)]);
    let heat_width = heat::width(&traffic, frame);
    let width = (bounds.width() + 2.0 * MARGIN).max(heat_width);
    let left = (width - bounds.width()) / 2.0;
    let shift = Point::new(left - bounds.left, HEAD - bounds.top);
    let mut picture = Picture::new(scene.title, width);
    for (number, group) in groups.all.iter().enumerate() {
        let rect = Rect::around(placed.at[number].plus(shift), bodies[number].size);
        let texts = group_texts(skeleton, group);
        picture.add_box(Kind::Group, rect, &group.name, &texts);
    }
    for (number, anchor) in skeleton.anchors.iter().enumerate() {
        for node in std::iter::once(&anchor.node).chain(&anchor.satellites) {
            picture.spots.insert(*node, of[number]);
            let name = scene.name(*node).to_owned();
            picture.boxes[of[number]].members.push(name);
        }
    }
    group_wires(&mut picture, scene, placed, shift);
    picture.height = HEAD + bounds.height() + 24.0;
    heat::draw(&mut picture, &traffic, scene.loads.is_some(), frame);
    picture.traffic = Some(traffic);
    legend(&mut picture, scene.loads.is_some(), false);
    picture
}

/// One line for all links between two groups, with the busiest of them.
fn group_wires(picture: &mut Picture, scene: &Scene<'_>, placed: &PlacedBoxes, shift: Point) {
    #[derive(Default)]
    struct Bundle {
        links: Vec<usize>,
        /// The busiest direction: its link, whether back, and its utilization.
        busiest: Option<(usize, bool, f64)>,
    }
    let mut bundles: BTreeMap<(usize, usize), Bundle> = BTreeMap::new();
    for (number, (a, b)) in scene.links.iter().enumerate() {
        let (a, b) = (picture.spots[a], picture.spots[b]);
        if a == b {
            continue;
        }
        let bundle = bundles.entry((a.min(b), a.max(b))).or_default();
        bundle.links.push(number);
        let loads = scene.loads.iter().flat_map(|loads| loads[number]);
        for (back, load) in loads.enumerate() {
            let busiest = bundle.busiest.map(|(.., most)| most);
            if busiest.is_none_or(|most| load.utilization > most) {
                bundle.busiest = Some((number, back == 1, load.utilization));
            }
        }
    }
    for ((a, b), bundle) in bundles {
        let (from, to) = (&picture.boxes[a].name, &picture.boxes[b].name);
        let count = bundle.links.len();
        let links = if count == 1 { "link" } else { "links" };
        let mut title = format!("{from} -- {to}: {count} {links}");
        if let Some((number, back, load)) = bundle.busiest {
            let direction = scene.direction(number, back);
            title.push_str(&format!(
                "\nbusiest: {direction}, {:.1} % busy",
                load * 100.0
            ));
        }
        picture.wires.push(Wire {
            course: course(placed, a, b).moved(shift),
            ends: (a, b),
            links: bundle.links,
            load: bundle.busiest.map(|(.., load)| load),
            title,
        });
    }
    picture.busiest_last();
}

impl Groups {
    fn one(scene: &Scene<'_>, skeleton: &Skeleton) -> Groups {
        let all = collapse::Group {
            name: scene.title.to_owned(),
            members: (0..skeleton.anchors.len()).collect(),
            level: 0,
        };
        Groups {
            all: vec![all],
            arrangement: cxlab_fabric::graph::Arrangement::Circle,
        }
    }
}

impl Picture {
    fn new(title: &str, width: f64) -> Picture {
        let width = width.max(LEAST_WIDTH).ceil();
        let mut picture = Picture {
            title: title.to_owned(),
            width,
            ..Picture::default()
        };
        let mut label = Label {
            size: 15.0,
            bold: true,
            ..Label::new(16.0, 24.0, title.to_owned())
        };
        for most in (8..title.chars().count()).rev() {
            if label.rect().right <= width - 16.0 {
                break;
            }
            label.text = shortened(title, most);
        }
        picture.labels.push(label);
        picture
    }

    /// Sorts links, so that the busiest are drawn last.
    fn busiest_last(&mut self) {
        let load = |wire: &Wire| wire.load.unwrap_or(0.0);
        self.wires.sort_by(|a, b| load(a).total_cmp(&load(b)));
    }

    /// A box with lines of text in its middle, the first one bold if there are several.
    fn add_box(&mut self, kind: Kind, rect: Rect, name: &str, texts: &[String]) {
        let middle = rect.center();
        let first = middle.y - LINE * (texts.len() as f64 - 1.0) / 2.0 + 0.36 * FONT;
        for (line, text) in texts.iter().enumerate() {
            let (bold, ink) = match (texts.len(), line) {
                (1, _) => (false, Ink::Strong),
                (_, 0) => (true, Ink::Strong),
                _ => (false, Ink::Soft),
            };
            self.labels.push(Label {
                centered: true,
                bold,
                ink,
                within: Some(rect),
                ..Label::new(middle.x, first + LINE * line as f64, text.clone())
            });
        }
        self.boxes.push(NodeBox {
            rect,
            kind,
            name: name.to_owned(),
            texts: texts.to_vec(),
            members: Vec::new(),
        });
    }
}

/// Colours of nodes and of utilization, below the picture.
fn legend(picture: &mut Picture, with_loads: bool, with_nodes: bool) {
    let y = picture.height + 10.0;
    let mut x = MARGIN;
    let swatch = |left: f64, width: f64, fill: Fill| Cell {
        rect: Rect::at(left, y, width, 12.0),
        fill,
        title: String::new(),
    };
    if with_nodes {
        for (name, kind) in [
            ("host", Kind::Host),
            ("switch", Kind::Switch),
            ("device", Kind::Device),
        ] {
            picture.cells.push(swatch(x, 14.0, Fill::Node(kind)));
            let label = Label::new(x + 19.0, y + 10.0, name.to_owned());
            picture.labels.push(label);
            x += 68.0;
        }
    }
    if with_loads {
        x += 4.0;
        let steps = 12;
        let of = |part: f64| shortened(&format!("{part:.0} %"), 8);
        picture.labels.push(Label::new(x, y + 10.0, of(0.0)));
        x += 26.0;
        for step in 0..steps {
            let load = f64::from(step) / f64::from(steps - 1);
            let fill = Fill::Colour(colour::of_utilization(load));
            picture.cells.push(swatch(x, 9.0, fill));
            x += 9.0;
        }
        let text = "100 % busy".to_owned();
        picture.labels.push(Label::new(x + 6.0, y + 10.0, text));
    }
    if with_loads || with_nodes {
        picture.height += 36.0;
    }
    picture.height = picture.height.ceil();
}
