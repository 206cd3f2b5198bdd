//! A device's address translation cache: the table of [`device`](super::device) for all pages.
//!
//! Settled pages are only in the cache; pages with an outstanding request are in a bounded
//! list. An invalidation waits for *all* accesses that began before it, whatever their page
//! ([`crate::epochs`]); the table counts users of the page alone, which waits less and is as
//! safe. An invalidation or a block that meets outstanding Translation Requests waits for
//! their completions. The owner calls [`Atc::retired`] when it has performed all
//! consequences of a completion.

use cxlab_engine::catalog::{ParamError, in_range};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::device::{Action, DevicePagePhase, DevicePageState, Event, step};
use super::{PageResponse, TranslationCompletion};
use crate::address::{Page, PageAccess, PageSize, Pasid, VirtAddr};
use crate::epochs::Epochs;
use crate::tlb::{InvalidationScope, Tlb, TlbParams, TlbStats, Translation};

/// Parameters of a device's address translation.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct AtcParams {
    /// Parameters of the translation cache. Default 64 entries, fully
    /// associative, 2.5 ns (*assumed*).
    pub cache: TlbParams,
    /// Maximum number of pages with an outstanding request. 1 to 1024. Default 32 (*assumed*).
    #[schemars(range(min = 1, max = 1024))]
    pub requests: u32,
}

impl Default for AtcParams {
    fn default() -> Self {
        AtcParams {
            cache: TlbParams::device(),
            requests: 32,
        }
    }
}

/// What an access has to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessDecision {
    /// Use this translation, and call [`Atc::done`] with this epoch at the end of the access.
    Go(Translation, u64),
    /// Send a Translation Request for the page, and wait for the page.
    Ask(Page),
    /// Wait for the page.
    Wait(Page),
    /// Wait until any page has settled: no further request can be outstanding.
    Full,
}

/// Next step for a page with waiting accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PendingPageAction {
    /// Repeat the lookups of the waiting accesses, which hit unless they need more permission.
    Replay,
    /// Send a Translation Request for the page.
    Ask,
    /// Send a Page Request for the page.
    PageRequest,
    /// End the waiting accesses with an error.
    Fail,
    /// Wait until the driver resumes the page.
    Nothing,
}

/// Reply to the host of an invalidation or a block that waited for completions, with its tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeferredReply {
    /// An Invalidate Completion.
    Invalidated(u32),
    /// The device is blocked.
    Blocked(u32),
}

/// Kind of an order for a range, from the driver or an invalidation.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum RangeOrder {
    Invalidate,
    Block,
}

/// An invalidation or a block that waits for Translation Completions.
#[derive(Serialize, Deserialize)]
struct DeferredOrder {
    order: RangeOrder,
    scope: InvalidationScope,
    tag: u32,
    /// Pages of 4 KiB whose completions are awaited.
    awaited: Vec<Page>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct PendingPage {
    page: Page,
    state: DevicePageState,
    /// Whether a waiting access is a write.
    write: bool,
    /// Translation Requests sent for the page so far.
    requests: u32,
}

/// A device's translation cache with its outstanding requests.
pub struct Atc {
    cache: Tlb,
    pending: Vec<PendingPage>,
    /// Maximum number of pages with an outstanding request.
    requests: usize,
    blocked: Vec<InvalidationScope>,
    deferred: Vec<DeferredOrder>,
    /// Maximum number of Translation Requests for one page.
    most_requests: u32,
    epochs: Epochs,
}

save_state!(Atc {
    values: pending, blocked, deferred, most_requests;
    states: cache, epochs;
    built: requests;
});

impl Atc {
    /// An empty cache.
    ///
    /// # Errors
    /// Parameters out of range.
    pub fn new(params: &AtcParams, rng: StreamRng) -> Result<Atc, ParamError> {
        in_range("requests", params.requests, 1..=1024)?;
        Ok(Atc {
            cache: Tlb::new(&params.cache, rng).map_err(|error| {
                ParamError::new(format!("cache.{}", error.field), error.message)
            })?,
            pending: Vec::with_capacity(params.requests as usize),
            requests: params.requests as usize,
            blocked: Vec::new(),
            deferred: Vec::new(),
            most_requests: 0,
            epochs: Epochs::default(),
        })
    }

    /// Counters of the cache.
    pub fn stats(&self) -> TlbStats {
        self.cache.stats()
    }

    /// Number of pages with an outstanding request, or blocked with waiting accesses.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether a page is blocked. A block that waits for the page's completion does not apply
    /// to the page yet.
    fn is_blocked(&self, page: Page) -> bool {
        let waits = |scope: &InvalidationScope| {
            let mut deferred = self.deferred.iter();
            deferred.any(|one| {
                one.order == RangeOrder::Block && one.scope == *scope && one.awaited.contains(&page)
            })
        };
        let mut blocked = self.blocked.iter();
        blocked.any(|scope| scope.concerns(page) && !waits(scope))
    }

    /// Pages with outstanding Translation Requests whose completion may be in a range.
    fn asked(&self, scope: InvalidationScope) -> Vec<Page> {
        let asked = |pending: &&PendingPage| {
            // The completion may turn out to be for a larger page.
            let Page { pasid, start, .. } = pending.page;
            pending.state.phase == DevicePagePhase::Asked
                && scope.concerns(Page::around(pasid, start, PageSize::Large))
        };
        let pending = self.pending.iter().filter(asked);
        pending.map(|pending| pending.page).collect()
    }

    /// Maximum number of Translation Requests for one page until its waiting accesses began.
    pub fn most_requests(&self) -> u32 {
        self.most_requests
    }

    fn place(&self, page: Page) -> Option<usize> {
        self.pending.iter().position(|pending| pending.page == page)
    }

    /// Looks up the translation of an access that wants to begin.
    pub fn access(
        &mut self,
        pasid: Pasid,
        address: VirtAddr,
        access: PageAccess,
    ) -> AccessDecision {
        let page = Page::around(pasid, address, PageSize::Small);
        let blocked = self.is_blocked(page);
        if !blocked {
            let found = self.cache.lookup(pasid, address);
            if let Some(found) = found.filter(|found| found.allows(access)) {
                return AccessDecision::Go(found, self.epochs.begin());
            }
        }
        let place = match self.place(page) {
            Some(place) => place,
            None if self.pending.len() == self.requests => return AccessDecision::Full,
            None => {
                let state = DevicePageState {
                    blocked,
                    ..DevicePageState::default()
                };
                self.pending.push(PendingPage {
                    page,
                    state,
                    write: false,
                    requests: 0,
                });
                self.pending.len() - 1
            }
        };
        self.pending[place].write |= access == PageAccess::Write;
        match self.step(place, Event::Access) {
            PendingPageAction::Ask => AccessDecision::Ask(page),
            _ => AccessDecision::Wait(page),
        }
    }

    /// Applies an event to a page that is not settled, and drops the page when it has settled.
    fn step(&mut self, place: usize, event: Event) -> PendingPageAction {
        let Some((row, state)) = step(self.pending[place].state, event) else {
            return PendingPageAction::Nothing;
        };
        let pending = &mut self.pending[place];
        pending.state = state;
        pending.requests += u32::from(row.actions.contains(&Action::Request));
        self.most_requests = self.most_requests.max(pending.requests);
        if matches!(
            state.phase,
            DevicePagePhase::Empty | DevicePagePhase::Cached
        ) && !state.waiting
        {
            self.pending.swap_remove(place);
        }
        let next = |action: &Action| match action {
            Action::Request => Some(PendingPageAction::Ask),
            Action::PageRequest => Some(PendingPageAction::PageRequest),
            Action::Replay => Some(PendingPageAction::Replay),
            Action::Fail => Some(PendingPageAction::Fail),
            _ => None,
        };
        row.actions
            .iter()
            .find_map(next)
            .unwrap_or(PendingPageAction::Nothing)
    }

    /// Handles a Translation Completion for the requested page of 4 KiB.
    pub fn completion(
        &mut self,
        page: Page,
        completion: TranslationCompletion,
    ) -> PendingPageAction {
        let Some(place) = self.place(page) else {
            return PendingPageAction::Nothing;
        };
        let event = match completion {
            TranslationCompletion::Granted(found)
                if found.writable || !self.pending[place].write =>
            {
                let covers = Page::around(page.pasid, page.start, found.frame.size);
                self.cache.insert(covers, found);
                Event::Granted
            }
            TranslationCompletion::Granted(_) | TranslationCompletion::NotPresent => {
                Event::NotPresent
            }
            TranslationCompletion::Refused => Event::Refused,
        };
        self.step(place, event)
    }

    /// Handles a PRG Response for a page.
    pub fn page_response(&mut self, page: Page, response: PageResponse) -> PendingPageAction {
        let event = match response {
            PageResponse::Success => Event::PageReady,
            PageResponse::InvalidRequest | PageResponse::Failure => Event::PageFailed,
        };
        match self.place(page) {
            Some(place) => self.step(place, event),
            None => PendingPageAction::Nothing,
        }
    }

    /// Handles an Invalidate Request. True if its Invalidate Completion can be sent now; otherwise
    /// [`Atc::retired`] or [`Atc::done`] returns its tag later.
    pub fn invalidate(&mut self, scope: InvalidationScope, tag: u32) -> bool {
        self.cache.invalidate(scope);
        for pending in &mut self.pending {
            if scope.concerns(pending.page)
                && let Some((_, state)) = step(pending.state, Event::Invalidate)
            {
                pending.state = state;
            }
        }
        !self.defer(RangeOrder::Invalidate, scope, tag) && self.epochs.invalidate(tag)
    }

    /// Defers an order that has to wait for Translation Completions; false if there are
    /// none to wait for.
    fn defer(&mut self, order: RangeOrder, scope: InvalidationScope, tag: u32) -> bool {
        let awaited = self.asked(scope);
        let waits = !awaited.is_empty();
        if waits {
            self.deferred.push(DeferredOrder {
                order,
                scope,
                tag,
                awaited,
            });
        }
        waits
    }

    /// Reports that a page's Translation Completion has come and that the accesses waiting for
    /// it have begun. Deferred invalidations and blocks now apply to the page. Returns the
    /// replies for the host.
    pub fn retired(&mut self, page: Page) -> Vec<DeferredReply> {
        let place = self.place(page);
        if place.is_some_and(|place| self.pending[place].state.phase == DevicePagePhase::Asked) {
            return Vec::new();
        }
        let mut replies = Vec::new();
        for mut one in std::mem::take(&mut self.deferred) {
            let awaited = one.awaited.iter().position(|other| *other == page);
            if let Some(at) = awaited {
                one.awaited.swap_remove(at);
                let within = one.scope.concerns(page);
                match one.order {
                    // The translation may be that of a larger page which contains the range.
                    RangeOrder::Invalidate if within => {
                        self.cache.invalidate(InvalidationScope::page(page))
                    }
                    RangeOrder::Invalidate => self.cache.invalidate(one.scope),
                    RangeOrder::Block => 0,
                };
                if let Some(place) = place.filter(|_| within) {
                    let state = &mut self.pending[place].state;
                    match one.order {
                        RangeOrder::Block => state.blocked = true,
                        RangeOrder::Invalidate => {
                            *state = step(*state, Event::Invalidate).map_or(*state, |(_, s)| s);
                        }
                    }
                }
            }
            match one.order {
                _ if !one.awaited.is_empty() => self.deferred.push(one),
                RangeOrder::Block => replies.push(DeferredReply::Blocked(one.tag)),
                RangeOrder::Invalidate => {
                    if self.epochs.invalidate(one.tag) {
                        replies.push(DeferredReply::Invalidated(one.tag));
                    }
                }
            }
        }
        replies
    }

    /// Ends an access of an epoch, and returns the tags of the invalidations that
    /// are complete with it.
    pub fn done(&mut self, epoch: u64) -> Vec<u32> {
        self.epochs.done(epoch)
    }

    /// Blocks a range for the driver: no access to the range begins until it is resumed. True if
    /// the driver can be told now; otherwise [`Atc::retired`] returns the tag later.
    pub fn block(&mut self, scope: InvalidationScope, tag: u32) -> bool {
        self.blocked.push(scope);
        let waits = self.defer(RangeOrder::Block, scope, tag);
        for pending in &mut self.pending {
            let asked = pending.state.phase == DevicePagePhase::Asked;
            pending.state.blocked |= !asked && scope.concerns(pending.page);
        }
        !waits
    }

    /// Ends a block. Returns the pages with waiting accesses, each with its next step: a
    /// request or a replay.
    pub fn resume(&mut self, scope: InvalidationScope) -> Vec<(Page, PendingPageAction)> {
        if let Some(place) = self.blocked.iter().position(|other| *other == scope) {
            self.blocked.swap_remove(place);
        }
        let mut next = Vec::new();
        for place in (0..self.pending.len()).rev() {
            let PendingPage { page, state, .. } = self.pending[place];
            if state.blocked && !self.is_blocked(page) {
                match self.step(place, Event::Resume) {
                    PendingPageAction::Nothing => {}
                    other => next.push((page, other)),
                }
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use cxlab_engine::units::Hpa;

    use super::AccessDecision::{Ask, Full, Go, Wait};
    use super::PendingPageAction::{Fail, PageRequest, Replay};
    use super::TranslationCompletion::{Granted, NotPresent, Refused};
    use super::*;
    use crate::frames::Frame;

    const SMALL: u64 = PageSize::Small.bytes();
    const PASID: Pasid = Pasid(7);

    fn atc(requests: u32) -> Atc {
        let params = AtcParams {
            requests,
            ..AtcParams::default()
        };
        Atc::new(&params, StreamRng::new(1, "atc")).unwrap()
    }

    fn page(number: u64) -> Page {
        Page::around(PASID, VirtAddr(number * SMALL), PageSize::Small)
    }

    fn translation(base: u64, size: PageSize, writable: bool) -> Translation {
        let base = Hpa(base);
        let frame = Frame { base, size };
        Translation { frame, writable }
    }

    /// Completes the request for a page with a small frame.
    fn grant(atc: &mut Atc, number: u64, frame: u64, writable: bool) -> PendingPageAction {
        let found = translation(frame * SMALL, PageSize::Small, writable);
        atc.completion(page(number), Granted(found))
    }

    fn read(atc: &mut Atc, number: u64) -> AccessDecision {
        atc.access(PASID, VirtAddr(number * SMALL), PageAccess::Read)
    }

    /// The epoch of an access that begins.
    fn begun(atc: &mut Atc, number: u64) -> u64 {
        match read(atc, number) {
            Go(_, epoch) => epoch,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_miss_asks_once_and_a_first_touch_pages() {
        let mut atc = atc(4);
        assert_eq!(read(&mut atc, 3), Ask(page(3)));
        assert_eq!(read(&mut atc, 3), Wait(page(3)));
        assert_eq!(atc.completion(page(3), NotPresent), PageRequest);
        let ready = atc.page_response(page(3), PageResponse::Success);
        assert_eq!(ready, PendingPageAction::Ask);
        assert_eq!(grant(&mut atc, 3, 9, true), Replay);
        assert!(matches!(read(&mut atc, 3), Go(t, 0) if t.frame.base == Hpa(9 * SMALL)));
        assert_eq!(atc.pending(), 0);
        assert_eq!(read(&mut atc, 5), Ask(page(5)));
        assert_eq!(atc.completion(page(5), Refused), Fail);
        assert_eq!(atc.pending(), 0);
    }

    #[test]
    fn a_translation_of_2_mib_covers_pages_that_nobody_asked_for() {
        let mut atc = atc(4);
        read(&mut atc, 3);
        read(&mut atc, 4);
        let large = translation(1 << 30, PageSize::Large, true);
        assert_eq!(atc.completion(page(3), Granted(large)), Replay);
        assert!(matches!(read(&mut atc, 500), Go(t, _) if t.frame == large.frame));
        assert_eq!(read(&mut atc, 512), Ask(page(512)));
        // An invalidation of any part removes the whole page, and applies to
        // outstanding requests within it.
        let complete = atc.invalidate(InvalidationScope::page(page(100)), 1);
        assert!(!complete, "an access is under way");
        assert_eq!(read(&mut atc, 500), Ask(page(500)));
        assert_eq!(atc.completion(page(4), Granted(large)), Replay);
        begun(&mut atc, 500);
        atc.retired(page(4));
        assert_eq!(read(&mut atc, 500), Wait(page(500)), "it may be older");
    }

    #[test]
    fn requests_are_bounded() {
        let mut atc = atc(2);
        assert_eq!(read(&mut atc, 1), Ask(page(1)));
        assert_eq!(read(&mut atc, 2), Ask(page(2)));
        assert_eq!(read(&mut atc, 3), Full);
        assert_eq!(read(&mut atc, 2), Wait(page(2)));
        grant(&mut atc, 1, 1, true);
        assert_eq!(read(&mut atc, 3), Ask(page(3)));
    }

    #[test]
    fn a_write_needs_permission_and_pages_for_it() {
        let mut atc = atc(2);
        read(&mut atc, 1);
        grant(&mut atc, 1, 1, false);
        begun(&mut atc, 1);
        let write = atc.access(PASID, VirtAddr(SMALL), PageAccess::Write);
        assert_eq!(write, Ask(page(1)));
        assert_eq!(grant(&mut atc, 1, 1, false), PageRequest);
        let refused = atc.page_response(page(1), PageResponse::InvalidRequest);
        assert_eq!(refused, Fail);
    }

    #[test]
    fn an_invalidation_ends_with_the_last_access_that_began_before_it() {
        let mut atc = atc(2);
        read(&mut atc, 1);
        grant(&mut atc, 1, 1, true);
        let (first, second) = (begun(&mut atc, 1), begun(&mut atc, 1));
        assert!(!atc.invalidate(InvalidationScope::page(page(1)), 17));
        let after = read(&mut atc, 1);
        assert_eq!(after, Ask(page(1)), "the translation is gone at once");
        let complete = atc.invalidate(InvalidationScope::All, 18);
        assert!(!complete, "that is under way");
        assert!(atc.done(first).is_empty());
        grant(&mut atc, 1, 5, true);
        assert_eq!(atc.retired(page(1)), []);
        assert_eq!(atc.done(second), [17, 18]);
        assert!(atc.invalidate(InvalidationScope::All, 19));
    }

    #[test]
    fn a_completion_that_an_invalidation_overtook_serves_those_who_wait_and_nobody_after() {
        let mut atc = atc(2);
        read(&mut atc, 1);
        assert!(!atc.invalidate(InvalidationScope::page(page(1)), 17));
        assert_eq!(grant(&mut atc, 1, 1, true), Replay);
        let epoch = begun(&mut atc, 1);
        assert_eq!(atc.retired(page(1)), [], "an access is under way");
        assert_eq!(read(&mut atc, 1), Ask(page(1)));
        assert_eq!(atc.done(epoch), [17]);
        assert!(!atc.invalidate(InvalidationScope::All, 18));
        assert_eq!(atc.completion(page(1), NotPresent), PageRequest);
        assert_eq!(atc.retired(page(1)), [DeferredReply::Invalidated(18)]);
    }

    #[test]
    fn a_block_waits_for_the_completion_and_those_who_wait_for_it_begin() {
        let mut atc = atc(2);
        read(&mut atc, 1);
        assert!(!atc.block(InvalidationScope::page(page(1)), 5));
        assert_eq!(read(&mut atc, 1), Wait(page(1)));
        assert_eq!(grant(&mut atc, 1, 1, true), Replay);
        begun(&mut atc, 1);
        assert_eq!(atc.retired(page(1)), [DeferredReply::Blocked(5)]);
        assert_eq!(read(&mut atc, 1), Wait(page(1)));
    }

    #[test]
    fn a_blocked_page_waits_for_the_driver() {
        let mut atc = atc(4);
        read(&mut atc, 1);
        grant(&mut atc, 1, 1, true);
        let scope = InvalidationScope::page(page(1));
        assert!(atc.block(scope, 4));
        assert_eq!(read(&mut atc, 1), Wait(page(1)));
        assert_eq!(read(&mut atc, 2), Ask(page(2)), "another page goes on");
        let complete = atc.invalidate(scope, 1);
        assert!(!complete, "page 2 may be part of the same one");
        grant(&mut atc, 2, 7, true);
        assert_eq!(atc.retired(page(2)), [DeferredReply::Invalidated(1)]);
        assert_eq!(atc.resume(scope), [(page(1), PendingPageAction::Ask)]);
        assert_eq!(grant(&mut atc, 1, 2, true), Replay);
        begun(&mut atc, 1);
    }
}
