//! `ua`: heat transfer on a mesh of cubes of different sizes (NPB `ua.f`), access-accurate.
//!
//! Each cube, an element, has 5 x 5 x 5 points of its own. Elements share the points of the mortars
//! between them, which they access through lists of indices. A step of the solver processes all
//! elements: it stores products of small matrices with the points of one array to another array.
//! Then the points of each face are added to the mortars (scatter), and after a barrier fetched
//! from them (gather). Refining and coarsening leave the elements unordered. Here their order is
//! random, and one face in four is shared with any element, the others with a nearby one
//! (*assumed*). Instead of arithmetic, each update adds one to a number.

use std::ops::Range;
use std::sync::OnceLock;

use cxlab_engine::rng::StreamRng;

use super::{Arrays, Nas, Program, RangesAhead, RunningKernel, Worker, one_more};
use crate::kernel::team::in_order;
use crate::thread::{Value, Window};

/// Elements of class D (*recollection*: `lelt` 515,000).
const ELEMENTS: u64 = 515_000;
/// Points of an element, and of all its faces.
const POINTS: u64 = 125;
const FACE_POINTS: u64 = 6 * 25;
/// Number of arrays with a number for each point (*assumed*). With lists and mortars they take
/// 6.8 GiB at class D, which fits into the 8 GiB of CXL-ClusterSim (Table 3 gives the working set
/// in whole GiB: 8).
const FIELDS: u64 = 12;
/// Steps of the solver in an iteration; each reads one array and updates another.
const STEPS: u64 = FIELDS / 2;
/// Floating-point operations of a point in a step: three products with a row of 5, two
/// operations for each term.
const FLOPS: u64 = 3 * 2 * 2 * 5;

const POINT_FIELDS: usize = 0;
const LISTS: usize = 1;
const ORDER: usize = 2;
const MORTARS: usize = 3;

pub(super) struct Mesh {
    elements: u64,
    iterations: u32,
    seed: u64,
    mortars: u64,
    /// The mesh, made when it is first needed.
    shape: OnceLock<Shape>,
}

/// Which mortars the elements share, and the order of the elements.
struct Shape {
    /// By element and point of its faces: the index of the mortar's point.
    lists: Vec<u32>,
    /// The order in which elements are processed.
    order: Vec<u32>,
}

impl Shape {
    fn random(elements: u64, seed: u64) -> Shape {
        let mut rng = StreamRng::new(seed, "nas/ua");
        let mut order: Vec<u32> = (0..elements as u32).collect();
        for last in (1..elements).rev() {
            order.swap(last as usize, rng.below(last + 1) as usize);
        }
        let mut lists = Vec::new();
        for element in 0..elements {
            for face in 0..6 {
                let other = match rng.below(4) {
                    0 => rng.below(elements),
                    _ => (element + rng.below(9) + elements - 4.min(elements)) % elements,
                };
                // Each mortar is numbered as a face of one of its elements.
                let owner = if rng.chance(0.5) { element } else { other };
                let first = owner * FACE_POINTS + face * 25;
                lists.extend((first..first + 25).map(|at| at as u32));
            }
        }
        Shape { lists, order }
    }
}

impl Mesh {
    pub(super) fn new(params: &Nas, seed: u64) -> Mesh {
        let elements = (ELEMENTS / params.shrink.pow(3)).max(1);
        Mesh {
            elements,
            iterations: params.iterations,
            seed,
            mortars: elements * FACE_POINTS,
            shape: OnceLock::new(),
        }
    }

    fn shape(&self) -> &Shape {
        self.shape
            .get_or_init(|| Shape::random(self.elements, self.seed))
    }

    async fn work(&self, worker: &mut Worker<'_>) {
        let t = worker.t;
        for _ in 0..self.iterations {
            for step in 0..STEPS {
                let mine = worker.team.part(self.elements);
                let order = load_order(worker, mine).await;
                self.products(worker, step, &order).await;
                // Other threads add to the mortars as well.
                self.faces(worker, &order, |at| t.fetch_add(at, 1)).await;
                worker.team.barrier().await;
                self.faces(worker, &order, |at| t.load(at)).await;
                worker.team.barrier().await;
                worker.t.count(order.len() as u32);
            }
        }
    }

    fn field(&self, worker: &Worker<'_>, field: u64, element: u64) -> (u64, u64) {
        let first = (field * self.elements + element) * POINTS;
        (worker.at(POINT_FIELDS, first), 8 * POINTS)
    }

    async fn products(&self, worker: &Worker<'_>, step: u64, order: &[u64]) {
        let wanted = order.iter().flat_map(|element| {
            [2 * step, 2 * step + 1].map(|field| self.field(worker, field, *element))
        });
        let mut ahead = RangesAhead::new(worker, wanted);
        let mut stores = Window::new(worker.outstanding());
        for element in order {
            ahead.next().await;
            let own = ahead.next().await;
            worker.compute(FLOPS * POINTS).await;
            stores.room().await;
            let (at, _) = self.field(worker, 2 * step + 1, *element);
            stores.add(worker.t.write_range(at, &one_more(&own)));
        }
        stores.drain().await;
    }

    /// Goes through the points of the faces, with an operation on the mortar of each.
    async fn faces<'t>(
        &self,
        worker: &Worker<'t>,
        order: &[u64],
        operation: impl Fn(u64) -> Value<'t>,
    ) {
        let mut window = Window::new(worker.outstanding());
        let mut ahead = RangesAhead::new(worker, order.iter().map(|one| list(worker, *one)));
        for _ in order {
            for mortar in numbers(&ahead.next().await) {
                window.room().await;
                window.add(operation(worker.at(MORTARS, mortar)));
            }
            worker.compute(2 * FACE_POINTS).await;
        }
        window.drain().await;
    }
}

/// Address and bytes of an element's list of mortar points.
fn list(worker: &Worker<'_>, element: u64) -> (u64, u64) {
    let bytes = 4 * FACE_POINTS;
    (worker.places[LISTS].0 + element * bytes, bytes)
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|word| u32::from_le_bytes(*word).into())
}

/// Loads the elements in a range of the order.
async fn load_order(worker: &Worker<'_>, mine: Range<u64>) -> Vec<u64> {
    let first = worker.places[ORDER].0;
    let mut order = Vec::new();
    for start in mine.clone().step_by(16) {
        let part = start..(start + 16).min(mine.end);
        order.extend(in_order(part.map(|at| worker.t.load_sized(first + 4 * at, 4))).await);
    }
    order
}

impl Program for Mesh {
    fn arrays(&self) -> Vec<u64> {
        vec![
            8 * FIELDS * self.elements * POINTS,
            4 * self.elements * FACE_POINTS,
            4 * self.elements,
            8 * self.mortars,
        ]
    }

    fn prepare(&self, memory: &Arrays<'_>) {
        let bytes = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        };
        memory.write_bytes(LISTS, &bytes(&self.shape().lists));
        memory.write_bytes(ORDER, &bytes(&self.shape().order));
    }

    fn run<'a>(&'a self, worker: &'a mut Worker<'_>) -> RunningKernel<'a> {
        Box::pin(self.work(worker))
    }

    /// Checks that every point of every second array is updated once in each iteration, and each
    /// point of a mortar in each step as often as the lists have it.
    fn check(&self, memory: &Arrays<'_>) -> Result<(), String> {
        let iterations = u64::from(self.iterations);
        let mut named = vec![0u64; self.mortars as usize];
        for mortar in &self.shape().lists {
            named[*mortar as usize] += STEPS * iterations;
        }
        for (at, expected) in (0..).zip(named) {
            let found = memory.word(MORTARS, at);
            if found != expected {
                return Err(format!(
                    "ua: point {at} of the mortars was added to {found} times, not {expected}"
                ));
            }
        }
        for field in 0..FIELDS {
            for at in field * self.elements * POINTS..(field + 1) * self.elements * POINTS {
                let (found, expected) = (memory.word(POINT_FIELDS, at), field % 2 * iterations);
                if found != expected {
                    return Err(format!(
                        "ua: point {at} was updated {found} times, not {expected}"
                    ));
                }
            }
        }
        Ok(())
    }
}
