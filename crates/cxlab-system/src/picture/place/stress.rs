//! Positions of a graph of which nothing is known but its links.
//!
//! Stress majorization after E. Gansner, Y. Koren, S. North, "Graph Drawing by Stress Majorization", Graph Drawing 2004:
//! each step moves one node to the place that its distances to all others ask for, so that the sum of the squared
//! deviations never grows. It begins from a circle in order of number, so the same graph has the same picture.

use crate::picture::geometry::Point;

/// Rounds over all nodes. *Assumed*: graphs of 64 nodes change by less than a pixel from then on.
const ROUNDS: usize = 300;

/// Positions at which neighbours are about 1 apart. The picture is wider than high.
pub(super) fn stress(count: usize, edges: &[(usize, usize)]) -> Vec<Point> {
    let wanted = distances(count, edges);
    let radius = count as f64 / std::f64::consts::TAU;
    let turns = (0..count).map(|number| number as f64 / count as f64);
    let mut at: Vec<Point> = turns
        .map(|turn| Point::at_turn(turn).times(radius))
        .collect();
    for _ in 0..ROUNDS {
        for node in 0..count {
            let mut sum = Point::default();
            let mut weights = 0.0;
            for other in (0..count).filter(|other| *other != node) {
                let want = f64::from(wanted[node][other]);
                let weight = 1.0 / (want * want);
                let apart = at[node].minus(at[other]);
                let length = apart.length().max(1e-6);
                sum = sum.plus(at[other].plus(apart.times(want / length)).times(weight));
                weights += weight;
            }
            if weights > 0.0 {
                at[node] = sum.times(1.0 / weights);
            }
        }
    }
    lying(at)
}

/// Number of links between every two nodes. Nodes without a path are one link farther than the farthest ones with one.
fn distances(count: usize, edges: &[(usize, usize)]) -> Vec<Vec<u32>> {
    let mut linked = vec![Vec::new(); count];
    for (a, b) in edges {
        linked[*a].push(*b);
        linked[*b].push(*a);
    }
    let mut all: Vec<Vec<u32>> = (0..count).map(|from| from_one(from, &linked)).collect();
    let known = all.iter().flatten().filter(|far| **far != u32::MAX);
    let farthest = known.max().copied().unwrap_or(0) + 1;
    for far in all.iter_mut().flatten() {
        *far = (*far).min(farthest);
    }
    all
}

/// Number of links from one node to each. `u32::MAX` without a path.
pub(in crate::picture) fn from_one(from: usize, linked: &[Vec<usize>]) -> Vec<u32> {
    let mut far = vec![u32::MAX; linked.len()];
    far[from] = 0;
    let mut queue = std::collections::VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        for next in &linked[node] {
            if far[*next] == u32::MAX {
                far[*next] = far[node] + 1;
                queue.push_back(*next);
            }
        }
    }
    far
}

/// The positions turned so that they extend most to the sides.
fn lying(at: Vec<Point>) -> Vec<Point> {
    let count = at.len().max(1) as f64;
    let sum = at
        .iter()
        .fold(Point::default(), |sum, point| sum.plus(*point));
    let middle = sum.times(1.0 / count);
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for point in &at {
        let from = point.minus(middle);
        xx += from.x * from.x;
        xy += from.x * from.y;
        yy += from.y * from.y;
    }
    let angle = -0.5 * libm::atan2(2.0 * xy, xx - yy);
    let (sin, cos) = (libm::sin(angle), libm::cos(angle));
    let turned = at.iter().map(|point| {
        let from = point.minus(middle);
        Point::new(from.x * cos - from.y * sin, from.x * sin + from.y * cos)
    });
    turned.collect()
}

pub(super) fn widest_gap(directions: &[Point]) -> Point {
    let turns = directions.iter().map(|one| libm::atan2(one.y, one.x));
    let mut turns: Vec<f64> = turns.collect();
    turns.sort_by(f64::total_cmp);
    let Some(first) = turns.first().copied() else {
        return Point::new(0.0, 1.0);
    };
    turns.push(first + std::f64::consts::TAU);
    let mut widest = (0.0, 0.0);
    for pair in turns.windows(2) {
        let gap = pair[1] - pair[0];
        if gap > widest.0 + 1e-6 {
            widest = (gap, (pair[0] + pair[1]) / 2.0);
        }
    }
    Point::new(libm::cos(widest.1), libm::sin(widest.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_a_line_and_the_same_one_each_time() {
        let edges = [(0, 1), (1, 2), (2, 3)];
        let at = stress(4, &edges);
        assert_eq!(at, stress(4, &edges));
        for pair in at.windows(2) {
            let apart = pair[1].minus(pair[0]);
            assert!((apart.length() - 1.0).abs() < 0.05, "{at:?}");
            assert!(apart.y.abs() < 0.2, "{at:?}");
        }
    }

    #[test]
    fn the_widest_gap_is_opposite_to_the_only_link() {
        let gap = widest_gap(&[Point::new(1.0, 0.0)]);
        assert!(gap.x < -0.99, "{gap:?}");
    }
}
