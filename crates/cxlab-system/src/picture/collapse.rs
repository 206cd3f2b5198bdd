//! Groups of nodes, where a picture of all nodes would have too many of them.

use cxlab_fabric::graph::Arrangement;

use super::place::from_one;
use super::scene::{Node, Scene, Skeleton};

/// Most groups of a line or of a circle.
const ALONG: usize = 16;

/// Nodes that are drawn as one.
pub(super) struct Group {
    pub(super) name: String,
    /// Numbers of its anchors.
    pub(super) members: Vec<usize>,
    pub(super) level: u32,
}

pub(super) struct Groups {
    pub(super) all: Vec<Group>,
    pub(super) arrangement: Arrangement,
}

/// At most about `most` groups of anchors that are neighbours in their arrangement.
pub(super) fn groups(scene: &Scene<'_>, skeleton: &Skeleton, most: usize) -> Groups {
    let count = skeleton.anchors.len();
    let levels = skeleton.anchors.iter().map(|anchor| anchor.level);
    let is_layered = levels.max() != skeleton.anchors.iter().map(|anchor| anchor.level).min();
    let (members, arrangement) = match &skeleton.arrangement {
        Arrangement::Line => (runs(0, count, 1, most.min(ALONG)), Arrangement::Line),
        Arrangement::Circle => (runs(0, count, 1, most.min(ALONG)), Arrangement::Circle),
        Arrangement::Sectors { size } => (runs(0, count, *size, most), Arrangement::Circle),
        Arrangement::Rings { rings, size } => {
            let around = rings * size;
            let mut members = runs(0, around, *size, most.saturating_sub(1).max(1));
            let arrangement = Arrangement::Rings {
                rings: members.len(),
                size: 1,
            };
            members.extend(runs(around, count, count - around, 1));
            (members, arrangement)
        }
        Arrangement::Grid(lengths) => {
            let mut found = blocks(lengths, most);
            for group in found
                .all
                .iter_mut()
                .filter(|group| group.members.len() == 1)
            {
                group.name = name_of(scene, skeleton, &group.members);
            }
            return found;
        }
        Arrangement::Free if is_layered => (by_level(skeleton, most), Arrangement::Free),
        Arrangement::Free => (neighbourhoods(skeleton, most), Arrangement::Free),
    };
    let all = members.into_iter().map(|members| Group {
        name: name_of(scene, skeleton, &members),
        level: skeleton.anchors[members[0]].level,
        members,
    });
    Groups {
        all: all.collect(),
        arrangement,
    }
}

/// Numbers from `first` to `end` in at most `most` runs of equal lengths, which are multiples of `unit`.
fn runs(first: usize, end: usize, unit: usize, most: usize) -> Vec<Vec<usize>> {
    let units = (end - first).div_ceil(unit.max(1));
    let length = units.div_ceil(most).max(1) * unit.max(1);
    let starts = (first..end).step_by(length);
    starts
        .map(|start| (start..(start + length).min(end)).collect())
        .collect()
}

/// Blocks of a grid, whose sides differ by one at most within a dimension.
fn blocks(lengths: &[usize], most: usize) -> Groups {
    let coarse = best_blocks(lengths, most);
    let mut members = vec![Vec::new(); coarse.iter().product()];
    for number in 0..lengths.iter().product() {
        let (mut rest, mut block, mut stride) = (number, 0, 1);
        for (length, blocks) in lengths.iter().zip(&coarse) {
            block += rest % length * blocks / length * stride;
            stride *= blocks;
            rest /= length;
        }
        members[block].push(number);
    }
    let all = members.into_iter().enumerate().map(|(block, members)| {
        let mut rest = block;
        let ranges = lengths.iter().zip(&coarse).map(|(length, blocks)| {
            let place = rest % blocks;
            rest /= blocks;
            let first = (place * length).div_ceil(*blocks);
            match ((place + 1) * length).div_ceil(*blocks) - 1 {
                last if last == first => first.to_string(),
                last => format!("{first}–{last}"),
            }
        });
        let ranges: Vec<String> = ranges.collect();
        Group {
            name: format!("({})", ranges.join(", ")),
            members,
            level: 0,
        }
    });
    Groups {
        all: all.collect(),
        arrangement: Arrangement::Grid(coarse.clone()),
    }
}

/// Numbers of blocks by dimension, at most `most` in all: many blocks, of equal sizes, as long as wide.
fn best_blocks(lengths: &[usize], most: usize) -> Vec<usize> {
    let mut candidates: Vec<Vec<usize>> = vec![Vec::new()];
    for length in lengths {
        let longer = |some: Vec<usize>| {
            let used: usize = some.iter().product();
            let blocks = 1..=(*length).min(most / used);
            blocks.map(move |blocks| [&some[..], &[blocks]].concat())
        };
        candidates = candidates.into_iter().flat_map(longer).collect();
    }
    let cost = |coarse: &Vec<usize>| -> f64 {
        let mut cost = libm::log(most as f64 / coarse.iter().product::<usize>() as f64);
        let (mut shortest, mut longest) = (f64::INFINITY, 0.0_f64);
        for (length, blocks) in lengths.iter().zip(coarse) {
            cost += length.div_ceil(*blocks) as f64 / (length / blocks) as f64 - 1.0;
            let side = *length as f64 / *blocks as f64;
            (shortest, longest) = (shortest.min(side), longest.max(side));
        }
        cost + 0.5 * libm::log(longest / shortest)
    };
    let best = candidates
        .into_iter()
        .min_by(|a, b| cost(a).total_cmp(&cost(b)));
    best.unwrap_or_else(|| vec![1; lengths.len()])
}

/// Most switches of a layer that are not combined.
const FEW: usize = 12;

/// Runs of each level, as many of a level as its switches and `most` allow.
fn by_level(skeleton: &Skeleton, most: usize) -> Vec<Vec<usize>> {
    let highest = skeleton.anchors.iter().map(|anchor| anchor.level).max();
    let of_level = |level: u32| -> Vec<usize> {
        let all = 0..skeleton.anchors.len();
        all.filter(|number| skeleton.anchors[*number].level == level)
            .collect()
    };
    let levels: Vec<Vec<usize>> = (0..=highest.unwrap_or(0)).map(of_level).collect();
    let total = |cap: usize| -> usize { levels.iter().map(|level| level.len().min(cap)).sum() };
    let few = levels.iter().all(|level| level.len() <= FEW);
    // Powers of two divide most trees at the boundaries of their subtrees.
    let mut caps = [FEW, 8, 4, 2, 1]
        .into_iter()
        .filter(|cap| few || *cap != FEW);
    let cap = caps.find(|cap| total(*cap) <= most).unwrap_or(1);
    let all = levels.iter().flat_map(|level| {
        let runs = runs(0, level.len(), 1, cap);
        runs.into_iter()
            .map(|run| run.into_iter().map(|at| level[at]).collect())
    });
    all.collect()
}

/// Anchors by the nearest of `most` seeds, each of which is as far from the earlier ones as possible.
fn neighbourhoods(skeleton: &Skeleton, most: usize) -> Vec<Vec<usize>> {
    let count = skeleton.anchors.len();
    let mut linked = vec![Vec::new(); count];
    for (a, b) in &skeleton.edges {
        linked[*a].push(*b);
        linked[*b].push(*a);
    }
    let mut nearest = from_one(0, &linked);
    let mut seed_of = vec![0; count];
    for seed in 1..most.min(count) {
        let farthest = (0..count).rev().max_by_key(|at| nearest[*at]);
        let Some(farthest) = farthest.filter(|at| nearest[*at] > 0) else {
            break;
        };
        for (at, far) in from_one(farthest, &linked).into_iter().enumerate() {
            if far < nearest[at] {
                nearest[at] = far;
                seed_of[at] = seed;
            }
        }
    }
    let mut members = vec![Vec::new(); most.min(count)];
    for (number, seed) in seed_of.into_iter().enumerate() {
        members[seed].push(number);
    }
    members.retain(|members| !members.is_empty());
    members
}

/// A name for anchors: their range if they are numbered without a gap, or else the first one and how many more.
fn name_of(scene: &Scene<'_>, skeleton: &Skeleton, members: &[usize]) -> String {
    let name = |number: usize| scene.name(skeleton.anchors[number].node);
    let (first, last) = (members[0], members[members.len() - 1]);
    if first == last {
        return name(first).to_owned();
    }
    if last - first + 1 == members.len() {
        return range(name(first), name(last));
    }
    format!("{} + {}", name(first), members.len() - 1)
}

/// Two names as a range: `leaf0–7`, `g0r0–g3r7`.
fn range(first: &str, last: &str) -> String {
    let stem = |name: &str| {
        name.trim_end_matches(|char: char| char.is_ascii_digit())
            .len()
    };
    let (a, b) = (stem(first), stem(last));
    match a == b && first[..a] == last[..b] && a < first.len() && b < last.len() {
        true => format!("{first}–{}", &last[b..]),
        false => format!("{first}–{last}"),
    }
}

/// Numbers of switches, hosts and devices of a group, as lines of text.
pub(super) fn counts(skeleton: &Skeleton, members: &[usize]) -> Vec<String> {
    let mut count = [0; 3];
    let nodes = members.iter().flat_map(|number| {
        let anchor = &skeleton.anchors[*number];
        std::iter::once(&anchor.node).chain(&anchor.satellites)
    });
    for node in nodes {
        count[match node {
            Node::Switch(_) => 0,
            Node::Host(_) => 1,
            Node::Device(_) => 2,
        }] += 1;
    }
    let line = |count: usize, one: &str, more: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        _ => Some(format!("{count} {more}")),
    };
    let lines = [
        line(count[0], "switch", "switches"),
        line(count[1], "host", "hosts"),
        line(count[2], "device", "devices"),
    ];
    lines.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_name_what_the_ends_share_once() {
        assert_eq!(range("leaf0", "leaf7"), "leaf0–7");
        assert_eq!(range("g0r0", "g0r7"), "g0r0–7");
        assert_eq!(range("g0r0", "g3r7"), "g0r0–g3r7");
        assert_eq!(range("a", "b"), "a–b");
    }

    #[test]
    fn a_grid_is_divided_into_blocks_that_cover_it_once() {
        for lengths in [vec![46, 45], vec![32, 2], vec![8, 8, 64], vec![1, 9]] {
            let found = blocks(&lengths, 25);
            let Arrangement::Grid(coarse) = &found.arrangement else {
                panic!("blocks of a grid are a grid");
            };
            assert_eq!(coarse.iter().product::<usize>(), found.all.len());
            assert!(found.all.len() <= 25);
            let members = found.all.iter().flat_map(|group| group.members.clone());
            let mut all: Vec<usize> = members.collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..lengths.iter().product()));
        }
        assert_eq!(blocks(&[46, 45], 25).all[1].name, "(10–18, 0–8)");
        assert_eq!(best_blocks(&[16, 16], 28), [4, 4]);
    }

    #[test]
    fn runs_keep_units_together() {
        let halves: [Vec<usize>; 2] = [(0..8).collect(), (8..12).collect()];
        assert_eq!(runs(0, 12, 4, 2), halves);
        assert_eq!(runs(0, 5, 1, 24).len(), 5);
    }
}
