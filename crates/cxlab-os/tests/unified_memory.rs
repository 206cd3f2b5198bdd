//! All parts together, without time: an accelerator and a processor share one page table; pages are
//! touched, moved, sampled and unmapped while accesses are in flight.
#![allow(clippy::unwrap_used)]

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Hpa, Picos, SimTime};
use cxlab_os::ats::{
    AccessDecision, Atc, AtcParams, Iommu, IommuParams, PageResponse, PendingPageAction, home,
};
use cxlab_os::frames::{
    FrameAllocator, NodeId, NodeKind, NodeSpec, NumaDistances, WatermarkParams,
};
use cxlab_os::policy::migration::{self, Migration};
use cxlab_os::policy::placement::PlacementChoice;
use cxlab_os::space::{AddressSpace, AreaOptions, SpaceError, TouchResult};
use cxlab_os::tlb::{InvalidationScope, TlbParams};
use cxlab_os::{Page, PageAccess, PageSize, Pasid, VirtAddr};
use proptest::prelude::*;

const CPU: NodeId = NodeId(0);
const XPU: NodeId = NodeId(1);
const EXPANDER: NodeId = NodeId(2);
const SMALL: u64 = PageSize::Small.bytes();
/// Tags of the invalidations for a move, and for a sample.
const MOVE_TAG: u32 = 7;
const SAMPLE_TAG: u32 = 0;

fn frames(blocks: u64) -> FrameAllocator {
    let kinds = [NodeKind::Cpu, NodeKind::Xpu, NodeKind::Memory];
    let spec = |(number, kind): (usize, &NodeKind)| NodeSpec {
        kind: *kind,
        base: Hpa((number as u64) << 32),
        capacity: Bytes(blocks * PageSize::Large.bytes()),
        watermarks: WatermarkParams::NONE,
    };
    let specs: Vec<NodeSpec> = kinds.iter().enumerate().map(spec).collect();
    let rows = vec![vec![10, 20, 30], vec![20, 10, 40], vec![30, 40, 10]];
    FrameAllocator::new(&specs, NumaDistances::new(rows).unwrap()).unwrap()
}

/// A page that is being moved, with its state in the table.
struct MovingPage {
    page: Page,
    state: home::HomePageState,
}

struct World {
    frames: FrameAllocator,
    space: AddressSpace,
    atc: Atc,
    iommu: Iommu,
    /// Accesses of the device in flight: epoch and physical address.
    under_way: Vec<(u64, Hpa)>,
    moving: Option<MovingPage>,
    /// Number of physical reads of all walks.
    walk_reads: usize,
}

impl World {
    fn new(blocks: u64) -> World {
        let mut frames = frames(blocks);
        let policy = PlacementChoice::default().build().unwrap();
        let policy = policy.state(frames.nodes());
        let space = AddressSpace::new(Pasid(3), CPU, policy, &mut frames).unwrap();
        let cache = TlbParams {
            entries: 8,
            ways: 8,
            ..TlbParams::device()
        };
        let atc = AtcParams { cache, requests: 4 };
        World {
            space,
            frames,
            atc: Atc::new(&atc, StreamRng::new(1, "atc")).unwrap(),
            iommu: Iommu::new(&IommuParams::default(), StreamRng::new(1, "iommu")).unwrap(),
            under_way: Vec::new(),
            moving: None,
            walk_reads: 0,
        }
    }

    fn pasid(&self) -> Pasid {
        self.space.pasid()
    }

    /// Maps so many pages of 4 KiB, and returns their first address.
    fn mmap(&mut self, pages: u64) -> VirtAddr {
        let options = AreaOptions::default();
        self.space.mmap(pages * SMALL, options, None).unwrap()
    }

    /// Begins an access of the device and returns its physical address; `None` if the access has to
    /// wait for a move, `Err` if it failed.
    fn device(&mut self, at: VirtAddr, access: PageAccess) -> Result<Option<Hpa>, SpaceError> {
        let pasid = self.pasid();
        let mut next = match self.atc.access(pasid, at, access) {
            AccessDecision::Go(translation, epoch) => {
                let hpa = translation.apply(at);
                self.under_way.push((epoch, hpa));
                return Ok(Some(hpa));
            }
            AccessDecision::Ask(page) => (page, PendingPageAction::Ask),
            AccessDecision::Wait(_) | AccessDecision::Full => return Ok(None),
        };
        loop {
            next.1 = match next.1 {
                PendingPageAction::Ask => {
                    let table = Some(self.space.table());
                    let walked = self.iommu.translate(pasid, at, access, table);
                    self.walk_reads += walked.reads().len();
                    self.atc.completion(next.0, walked.completion)
                }
                PendingPageAction::PageRequest => {
                    match self.space.touch(at, access, XPU, &mut self.frames) {
                        Ok(_) => self.atc.page_response(next.0, PageResponse::Success),
                        // The request is held until the move is over.
                        Err(SpaceError::Moving(_)) => return Ok(None),
                        Err(error) => {
                            self.atc.page_response(next.0, PageResponse::InvalidRequest);
                            return Err(error);
                        }
                    }
                }
                PendingPageAction::Replay => return self.device(at, access),
                PendingPageAction::Fail => return Err(SpaceError::Unmapped(at)),
                PendingPageAction::Nothing => return Ok(None),
            };
        }
    }

    /// Ends the oldest access of the device.
    fn finish_one(&mut self) {
        if !self.under_way.is_empty() {
            let (epoch, _) = self.under_way.remove(0);
            if self.atc.done(epoch).contains(&MOVE_TAG) {
                self.home(home::Event::Invalidated);
            }
        }
    }

    fn home(&mut self, event: home::Event) {
        let Some(moving) = &mut self.moving else {
            return;
        };
        let (row, state) = home::step(moving.state, event).unwrap();
        moving.state = state;
        let page = moving.page;
        let scope = InvalidationScope::page(page);
        for action in row.actions {
            match action {
                home::Action::Block => {
                    let tag = MOVE_TAG;
                    assert!(self.atc.block(scope, tag), "no request is under way");
                    self.home(home::Event::Blocked);
                }
                home::Action::Suspend | home::Action::Hold | home::Action::AnswerHeld => {}
                home::Action::FlushIommu => self.iommu.invalidate(scope),
                home::Action::Invalidate => {
                    if self.atc.invalidate(scope, MOVE_TAG) {
                        self.home(home::Event::Invalidated);
                    }
                }
                home::Action::Copy => {
                    let old = self.space.moving()[0].from;
                    let inside =
                        |hpa: &Hpa| (old.base.0..old.base.0 + old.size.bytes()).contains(&hpa.0);
                    let used = self.under_way.iter().any(|(_, hpa)| inside(hpa));
                    assert!(!used, "a frame is in use when it is copied");
                    self.home(home::Event::Copied);
                }
                home::Action::Install => {
                    self.space.end_move(page, &mut self.frames).unwrap();
                }
                home::Action::Resume => {
                    let next = self.atc.resume(scope);
                    self.home(home::Event::Resumed);
                    for (page, next) in next {
                        let ask = PendingPageAction::Ask;
                        assert_eq!(next, ask, "its translation was invalidated");
                        self.ask_again(page);
                    }
                }
                other => panic!("{other:?} is no part of a move"),
            }
        }
        let settled = home::HomePageState::default();
        self.moving.take_if(|moving| moving.state == settled);
    }

    /// Serves the request of a page whose accesses waited; the accesses
    /// themselves are repeated later.
    fn ask_again(&mut self, page: Page) {
        let table = Some(self.space.table());
        let walked = self
            .iommu
            .translate(page.pasid, page.start, PageAccess::Read, table);
        if self.atc.completion(page, walked.completion) == PendingPageAction::PageRequest {
            self.atc.page_response(page, PageResponse::Failure);
        }
    }

    fn begin_move(&mut self, at: VirtAddr, to: NodeId) {
        if self.moving.is_some() {
            return;
        }
        if let Ok(moving) = self.space.begin_move(at, to, 0, &mut self.frames) {
            let state = home::HomePageState::default();
            self.moving = Some(MovingPage {
                page: moving.page,
                state,
            });
            self.home(home::Event::Move(1));
        }
    }

    /// Physical address that a processor finds for a virtual address now.
    fn walk(&self, at: VirtAddr) -> Option<Hpa> {
        let mapping = self.space.table().lookup(at)?;
        let within = at.offset_in(mapping.frame.size);
        mapping
            .entry
            .is_present()
            .then(|| Hpa(mapping.frame.base.0 + within))
    }

    fn check(&self) {
        for (_, hpa) in &self.under_way {
            assert!(self.frames.node_of(*hpa).is_some());
        }
    }
}

#[test]
fn the_first_touch_of_the_accelerator_is_a_page_request_and_the_second_page_a_short_walk() {
    let mut world = World::new(4);
    let start = world.mmap(16);
    let read = |world: &mut World, offset: u64| {
        let at = VirtAddr(start.0 + offset);
        world.device(at, PageAccess::Read)
    };
    let first = world.device(start, PageAccess::Write).unwrap().unwrap();
    assert_eq!(world.frames.node_of(first), Some(XPU));
    let seen = world.walk(start);
    assert_eq!(seen, Some(first), "processors see the same page");
    // One read finds no table below the root; then all four levels exist.
    assert_eq!(world.walk_reads, 1 + 4);
    read(&mut world, SMALL).unwrap().unwrap();
    // The last level is read twice: empty, and after the fault.
    assert_eq!(world.walk_reads, 5 + 2);
    read(&mut world, 5).unwrap().unwrap();
    assert_eq!(world.walk_reads, 7, "a hit");
    let outside = read(&mut world, 16 * SMALL);
    assert!(matches!(outside, Err(SpaceError::Unmapped(_))));
}

#[test]
fn a_move_waits_for_the_accesses_under_way_and_those_that_come_wait_for_the_move() {
    let mut world = World::new(4);
    let start = world.mmap(1);
    let old = world.device(start, PageAccess::Write).unwrap().unwrap();
    world.begin_move(start, CPU);
    assert!(world.moving.is_some(), "one access is under way");
    assert_eq!(world.device(start, PageAccess::Read), Ok(None));
    world.finish_one();
    assert!(world.moving.is_none());
    let new = world.device(start, PageAccess::Read).unwrap().unwrap();
    assert_ne!(new, old);
    assert_eq!(world.frames.node_of(new), Some(CPU));
    assert_eq!(world.walk(start), Some(new));
}

#[test]
fn a_page_that_the_processor_uses_often_comes_to_it() {
    let mut world = World::new(4);
    let entry = cxlab_engine::catalog::find(migration::CATALOG, "tpp").unwrap();
    let json = serde_json::json!({ "scan_period": "1 ms", "window": "3 ms" });
    let policy = (entry.build)(&json).unwrap();
    let mut policy: Box<dyn Migration> = policy.state(&world.frames);
    let start = world.mmap(2);
    let page = |at| Page::around(Pasid(3), at, PageSize::Small);
    let touch = |world: &mut World, at, access, by| {
        let World { space, frames, .. } = world;
        space.touch(at, access, by, frames)
    };
    for number in 0..2 {
        let at = VirtAddr(start.0 + number * SMALL);
        let touched = touch(&mut world, at, PageAccess::Write, EXPANDER);
        assert!(matches!(touched, Ok(TouchResult::Placed(_, EXPANDER))));
        policy.placed(page(at), EXPANDER);
    }
    for ms in 1..=2 {
        let now = SimTime::ZERO + Picos::from_nanos(ms * 1_000_000);
        for page in policy.scan(now) {
            assert!(world.space.sample(page));
        }
        // The processor uses the first page alone.
        let touched = touch(&mut world, start, PageAccess::Read, CPU);
        assert!(matches!(touched, Ok(TouchResult::Hinted(_))));
        policy.hint_fault(now, page(start), CPU);
    }
    let wanted = policy.wanted(&world.frames).unwrap();
    let moved = (wanted.page.start, wanted.from, wanted.to);
    assert_eq!(moved, (start, EXPANDER, CPU));
    world.begin_move(wanted.page.start, wanted.to);
    policy.ended(wanted, world.moving.is_none());
    assert_eq!(world.frames.node_of(world.walk(start).unwrap()), Some(CPU));
    assert_eq!(policy.wanted(&world.frames), None);
    assert_eq!(policy.stats().promoted, 1);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Device(u64, bool),
    Processor(u64),
    Finish,
    Move(u64, u16),
    Sample(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let page = 0u64..40;
    prop_oneof![
        4 => (page.clone(), any::<bool>()).prop_map(|(page, write)| Step::Device(page, write)),
        2 => page.clone().prop_map(Step::Processor),
        3 => Just(Step::Finish),
        2 => (page.clone(), 0u16..3).prop_map(|(page, node)| Step::Move(page, node)),
        1 => page.prop_map(Step::Sample),
    ]
}

proptest! {
    #[test]
    fn the_device_never_goes_elsewhere_than_the_page_table(
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut world = World::new(2);
        let start = world.mmap(40);
        let at = |page: u64| VirtAddr(start.0 + page * SMALL + page);
        for step in steps {
            match step {
                Step::Device(page, write) => {
                    let access = if write { PageAccess::Write } else { PageAccess::Read };
                    if let Some(hpa) = world.device(at(page), access).unwrap() {
                        prop_assert_eq!(world.walk(at(page)), Some(hpa));
                    }
                }
                Step::Processor(page) => {
                    let touched = world.space.touch(at(page), PageAccess::Read, CPU, &mut world.frames);
                    let fine = matches!(touched, Ok(_) | Err(SpaceError::Moving(_)));
                    prop_assert!(fine);
                }
                Step::Finish => world.finish_one(),
                Step::Move(page, node) => world.begin_move(at(page), NodeId(node)),
                Step::Sample(page) => {
                    let page = Page::around(world.pasid(), at(page), PageSize::Small);
                    if world.moving.is_none() && world.space.sample(page) {
                        world.iommu.invalidate(InvalidationScope::page(page));
                        world.atc.invalidate(InvalidationScope::page(page), SAMPLE_TAG);
                    }
                }
            }
            world.check();
        }
        while !world.under_way.is_empty() {
            world.finish_one();
        }
        prop_assert!(world.moving.is_none(), "a move was lost");
    }
}
