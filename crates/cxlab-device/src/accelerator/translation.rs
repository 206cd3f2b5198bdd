//! Address translation of an accelerator whose host has an operating system: an address translation
//! cache (ATC), and the ATS messages to and from the host's IOMMU.
//!
//! The table [`cxlab_os::ats::device`] decides what happens to a page. Processing elements and the
//! DMA engine share the cache. A hit adds the lookup time to the access; an access that misses
//! waits for its page. The DMA engine looks up the pages of its descriptors ahead of its
//! transactions, in at most half of the cache, so that no page is replaced before its use.

use cxlab_agent::{Access, AtsCompletion, AtsKind, AtsMessage, staging};
use cxlab_cache::Statistic;
use cxlab_engine::Ctx;
use cxlab_engine::probe::LatencyProbe;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, Picos, SimTime};
use cxlab_link::Parcel;
use cxlab_os::ats::{
    AccessDecision, Atc, DeferredReply, PageResponse, PendingPageAction, TranslationCompletion,
};
use cxlab_os::frames::Frame;
use cxlab_os::tlb::{InvalidationScope, TlbParams, Translation};
use cxlab_os::{Page, PageAccess, PageSize, Pasid, VirtAddr};
use cxlab_protocol::{Message, Opcode};
use serde::{Deserialize, Serialize};

use super::Accelerator;

/// The only process.
const PROCESS: Pasid = Pasid(1);

/// First tag of Translation Requests, above those of DMA.
const TAGS: u32 = 1 << 14;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TranslationOutcome {
    /// The access has its physical address.
    Now,
    /// The access waits for its page.
    Waits,
    /// No further request can be outstanding.
    Full,
}

/// An access that waits for its page.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct TranslationWaiter {
    page: Page,
    access: Access,
    begun: SimTime,
    since: SimTime,
}

/// Counters since measurement began.
#[derive(Default, Serialize, Deserialize)]
struct TranslationCounters {
    hits: u64,
    misses: u64,
    requests: u64,
    page_requests: u64,
    invalidations: u64,
    miss: LatencyProbe,
    dma_stalled: LatencyProbe,
    blocked: LatencyProbe,
}

/// The translation cache, with the accesses that wait for pages.
pub(super) struct Translator {
    atc: Atc,
    latency: Picos,
    waiting: Vec<TranslationWaiter>,
    /// Accesses that had begun and found no space for a request.
    starved: Vec<(Access, SimTime)>,
    /// Whether the DMA engine waits for a page.
    engine_waits: bool,
    /// Time since which the DMA engine has been stalled by a missing translation.
    engine_stalled: Option<SimTime>,
    /// Pages that missed for the DMA engine, and the time of the miss.
    engine_misses: Vec<(Page, SimTime)>,
    /// Number of pages that the DMA engine has looked up and not finished.
    engine_pages: u32,
    /// Limit of `engine_pages`: half of the cache.
    most_engine_pages: u32,
    /// Pages of the outstanding Translation Requests, by tag.
    asked: Vec<Option<Page>>,
    /// Blocked pages, and the time of the block.
    blocks: Vec<(Page, SimTime)>,
    counts: TranslationCounters,
}

save_state!(Translator {
    values: waiting, starved, engine_waits, engine_stalled, engine_misses, engine_pages, asked, blocks, counts;
    states: atc;
    built: latency, most_engine_pages;
});

impl Translator {
    pub(super) fn new(atc: Atc, cache: &TlbParams) -> Translator {
        Translator {
            atc,
            latency: cache.latency,
            waiting: Vec::new(),
            starved: Vec::new(),
            engine_waits: false,
            engine_stalled: None,
            engine_misses: Vec::new(),
            engine_pages: 0,
            most_engine_pages: (cache.entries / 2).max(1),
            asked: Vec::new(),
            blocks: Vec::new(),
            counts: TranslationCounters::default(),
        }
    }

    /// Maximum number of Translation Requests that one access waited for.
    pub(super) fn most_requests(&self) -> u32 {
        self.atc.most_requests()
    }

    pub(super) fn begin_measurement(&mut self) {
        self.counts = TranslationCounters::default();
    }

    pub(super) fn list(&self, list: &mut Vec<Statistic>) {
        let counts = &self.counts;
        let statistics = [
            ("atc_hits", counts.hits as f64),
            ("atc_misses", counts.misses as f64),
            ("atc_miss_ns", counts.miss.mean_ns()),
            ("atc_miss_max_ns", counts.miss.max_ns()),
            ("translation_requests", counts.requests as f64),
            ("page_requests", counts.page_requests as f64),
            ("dma_translation_stalls", counts.dma_stalled.count() as f64),
            ("dma_translation_stall_ns", counts.dma_stalled.mean_ns()),
            ("atc_invalidations", counts.invalidations as f64),
            ("page_blocks", counts.blocked.count() as f64),
            ("page_block_ns", counts.blocked.mean_ns()),
        ];
        Statistic::append(list, "", &statistics);
    }

    fn tag(&mut self, page: Page) -> u32 {
        let free = self.asked.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.asked.push(None);
            self.asked.len() - 1
        });
        self.asked[index] = Some(page);
        TAGS + index as u32
    }

    /// Whether a write access waits for the page.
    fn writes(&self, page: Page) -> bool {
        let writes =
            |waiter: &TranslationWaiter| waiter.page == page && waiter.access.kind.writes();
        self.waiting.iter().any(writes)
    }
}

impl Accelerator {
    /// Translates the address of an access. `fresh` is whether the access has not begun; an
    /// access that waits begins here.
    pub(super) fn translate(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: &mut Access,
        begun: SimTime,
        fresh: bool,
    ) -> TranslationOutcome {
        let Some(translator) = &mut self.translator else {
            return TranslationOutcome::Now;
        };
        let address = VirtAddr(access.addr);
        let need = match access.kind.writes() {
            true => PageAccess::Write,
            false => PageAccess::Read,
        };
        let decision = translator.atc.access(PROCESS, address, need);
        let (page, asks) = match decision {
            AccessDecision::Go(found, epoch) => {
                (access.hpa, access.epoch) = (found.apply(address), epoch);
                return TranslationOutcome::Now;
            }
            AccessDecision::Ask(page) => (page, true),
            AccessDecision::Wait(page) => (page, false),
            AccessDecision::Full if fresh => return TranslationOutcome::Full,
            AccessDecision::Full => {
                translator.starved.push((*access, begun));
                return TranslationOutcome::Waits;
            }
        };
        translator.waiting.push(TranslationWaiter {
            page,
            access: *access,
            begun,
            since: ctx.now(),
        });
        translator.counts.misses += 1;
        if fresh {
            self.hw_threads.access_begun(access, ctx.now());
        }
        if asks {
            self.request_translation(ctx, page, need == PageAccess::Write);
        }
        TranslationOutcome::Waits
    }

    /// Counts a translation hit of an access that has begun.
    pub(super) fn count_translation(&mut self) {
        if let Some(translator) = &mut self.translator {
            translator.counts.hits += 1;
        }
    }

    /// Physical address of a part of a descriptor, and its epoch; `None` when the engine has to
    /// wait. Without translation the address is physical.
    pub(super) fn translate_dma(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        addr: u64,
        need: PageAccess,
    ) -> Option<(Hpa, u64)> {
        let Some(translator) = &mut self.translator else {
            return Some((Hpa(addr), Access::NO_EPOCH));
        };
        let address = VirtAddr(addr);
        let decision = translator.atc.access(PROCESS, address, need);
        if let AccessDecision::Go(found, epoch) = decision {
            if let Some(since) = translator.engine_stalled.take() {
                let counts = &mut translator.counts;
                counts.dma_stalled.record(ctx.now().since(since));
            }
            return Some((found.apply(address), epoch));
        }
        translator.engine_stalled.get_or_insert(ctx.now());
        self.engine_misses(ctx, decision, need);
        None
    }

    /// Whether the DMA engine may look up another page before it has finished the earlier ones.
    pub(super) fn may_look_ahead(&self) -> bool {
        let Some(translator) = &self.translator else {
            return false;
        };
        translator.engine_pages < translator.most_engine_pages
    }

    /// Looks up a page for the DMA engine, and requests its translation on a miss. False if no
    /// further request can be outstanding.
    pub(super) fn look_up(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        addr: u64,
        need: PageAccess,
    ) -> bool {
        let Some(translator) = &mut self.translator else {
            return true;
        };
        let decision = translator.atc.access(PROCESS, VirtAddr(addr), need);
        if decision == AccessDecision::Full {
            translator.engine_waits = true;
            return false;
        }
        translator.engine_pages += 1;
        match decision {
            AccessDecision::Go(_, epoch) => {
                translator.counts.hits += 1;
                self.end_translation(ctx, epoch);
            }
            _ => self.engine_misses(ctx, decision, need),
        }
        true
    }

    /// Handles a miss of the DMA engine: requests the translation, or waits for an earlier request.
    fn engine_misses(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        decision: AccessDecision,
        need: PageAccess,
    ) {
        let Some(translator) = &mut self.translator else {
            return;
        };
        translator.engine_waits = true;
        let (AccessDecision::Ask(page) | AccessDecision::Wait(page)) = decision else {
            return;
        };
        let mut missed = translator.engine_misses.iter();
        if !missed.any(|(other, _)| *other == page) {
            translator.engine_misses.push((page, ctx.now()));
            translator.counts.misses += 1;
        }
        if matches!(decision, AccessDecision::Ask(_)) {
            self.request_translation(ctx, page, need == PageAccess::Write);
        }
    }

    /// Records that the last transaction of a page of a descriptor has been sent.
    pub(super) fn page_done(&mut self) {
        if let Some(translator) = &mut self.translator {
            assert!(translator.engine_pages > 0, "the page was looked up");
            translator.engine_pages -= 1;
        }
    }

    /// Lookup time that the translation adds to an access.
    pub(super) fn translation_time(&self, access: &Access) -> Picos {
        match &self.translator {
            Some(translator) if access.epoch != Access::NO_EPOCH => translator.latency,
            _ => Picos::ZERO,
        }
    }

    /// Ends the use of a translation, and completes invalidations that waited for this.
    pub(super) fn end_translation(&mut self, ctx: &mut Ctx<'_, Parcel>, epoch: u64) {
        if epoch == Access::NO_EPOCH {
            return;
        }
        let Some(translator) = &mut self.translator else {
            return;
        };
        for tag in translator.atc.done(epoch) {
            self.send_ats(ctx, AtsKind::Invalidated, 0, false, tag);
        }
    }

    fn request_translation(&mut self, ctx: &mut Ctx<'_, Parcel>, page: Page, write: bool) {
        let Some(translator) = &mut self.translator else {
            return;
        };
        translator.counts.requests += 1;
        let tag = translator.tag(page);
        self.send_ats(ctx, AtsKind::Translate, page.start.0, write, tag);
    }

    fn send_ats(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        kind: AtsKind,
        page: u64,
        flag: bool,
        tag: u32,
    ) {
        let opcode = match kind {
            AtsKind::Translate => Opcode::MRd,
            _ => Opcode::MWr,
        };
        let hpa = AtsMessage { kind, page, flag }.address();
        self.send_io(ctx, opcode, hpa, tag, 8, true);
    }

    pub(super) fn ats_message(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        message: &Message,
        ats: AtsMessage,
    ) {
        let size = match ats.flag {
            true => PageSize::Large,
            false => PageSize::Small,
        };
        let page = Page::around(PROCESS, VirtAddr(ats.page), size);
        match ats.kind {
            AtsKind::Translate => self.translation_completed(ctx, message.tag),
            AtsKind::PageResponse => self.page_response_arrived(ctx, ats),
            AtsKind::Invalidate => self.invalidate(ctx, InvalidationScope::page(page), message.tag),
            AtsKind::InvalidateAll => {
                self.invalidate(ctx, InvalidationScope::Process(PROCESS), message.tag)
            }
            AtsKind::Block => {
                let Some(translator) = &mut self.translator else {
                    return;
                };
                translator.blocks.push((page, ctx.now()));
                if translator
                    .atc
                    .block(InvalidationScope::page(page), message.tag)
                {
                    self.send_ats(ctx, AtsKind::Blocked, 0, false, message.tag);
                }
            }
            AtsKind::Resume => {
                self.send_ats(ctx, AtsKind::Resumed, 0, false, message.tag);
                self.resume(ctx, page);
            }
            _ => panic!("{:?} comes from no host", ats.kind),
        }
    }

    fn translation_completed(&mut self, ctx: &mut Ctx<'_, Parcel>, tag: u32) {
        let found = AtsCompletion::take(self.hw_threads.image(), staging(self.port_id, tag));
        let Some(translator) = &mut self.translator else {
            return;
        };
        let index = tag.wrapping_sub(TAGS) as usize;
        let Some(page) = translator.asked.get_mut(index).and_then(Option::take) else {
            panic!("a Translation Completion without a Translation Request")
        };
        let size = match found.large {
            true => PageSize::Large,
            false => PageSize::Small,
        };
        let frame = Frame {
            base: Hpa(found.base),
            size,
        };
        let completion = match found.present {
            true => TranslationCompletion::Granted(Translation {
                frame,
                writable: found.writable,
            }),
            false => TranslationCompletion::NotPresent,
        };
        let next = translator.atc.completion(page, completion);
        self.follow(ctx, page, next);
        let Some(translator) = &mut self.translator else {
            return;
        };
        for reply in translator.atc.retired(page) {
            let (kind, tag) = match reply {
                DeferredReply::Invalidated(tag) => (AtsKind::Invalidated, tag),
                DeferredReply::Blocked(tag) => (AtsKind::Blocked, tag),
            };
            self.send_ats(ctx, kind, 0, false, tag);
        }
    }

    fn page_response_arrived(&mut self, ctx: &mut Ctx<'_, Parcel>, ats: AtsMessage) {
        let page = Page::around(PROCESS, VirtAddr(ats.page), PageSize::Small);
        let response = match ats.flag {
            true => PageResponse::Success,
            false => PageResponse::InvalidRequest,
        };
        if let Some(translator) = &mut self.translator {
            let next = translator.atc.page_response(page, response);
            self.follow(ctx, page, next);
        }
    }

    fn resume(&mut self, ctx: &mut Ctx<'_, Parcel>, page: Page) {
        let Some(translator) = &mut self.translator else {
            return;
        };
        let mut blocks = translator.blocks.iter();
        if let Some(index) = blocks.position(|(blocked, _)| *blocked == page) {
            let (_, since) = translator.blocks.swap_remove(index);
            translator.counts.blocked.record(ctx.now().since(since));
        }
        for (page, next) in translator.atc.resume(InvalidationScope::page(page)) {
            self.follow(ctx, page, next);
        }
        self.settled(ctx);
    }

    /// Invalidates translations. The host is informed when no access uses one of them any more.
    fn invalidate(&mut self, ctx: &mut Ctx<'_, Parcel>, scope: InvalidationScope, tag: u32) {
        let Some(translator) = &mut self.translator else {
            return;
        };
        translator.counts.invalidations += 1;
        if translator.atc.invalidate(scope, tag) {
            self.send_ats(ctx, AtsKind::Invalidated, 0, false, tag);
        }
        // Operations that spin on an old frame look up the new one.
        let at = |addr| Page::around(PROCESS, VirtAddr(addr), PageSize::Small);
        let mut again = Vec::new();
        self.spinning.retain(|(_, access)| {
            let stays = access.epoch != Access::NO_EPOCH
                || access.addr >= cxlab_workload::thread::SCRATCH_BASE
                || !scope.concerns(at(access.addr));
            if !stays {
                again.push(*access);
            }
            stays
        });
        for access in again {
            let begun = self.hw_threads.issued(access.op);
            self.again(ctx, access, begun);
        }
    }

    /// Performs the next step of the table for a page and for the accesses that wait for it.
    fn follow(&mut self, ctx: &mut Ctx<'_, Parcel>, page: Page, next: PendingPageAction) {
        let Some(translator) = &mut self.translator else {
            return;
        };
        match next {
            PendingPageAction::Nothing => {}
            PendingPageAction::Ask => {
                let write = translator.writes(page);
                self.request_translation(ctx, page, write);
            }
            PendingPageAction::PageRequest => {
                translator.counts.page_requests += 1;
                let write = translator.writes(page);
                self.send_ats(ctx, AtsKind::PageRequest, page.start.0, write, 0);
            }
            // The process has failed, as the host knows: these accesses never complete.
            PendingPageAction::Fail => {
                translator.waiting.retain(|waiter| waiter.page != page);
                translator
                    .engine_misses
                    .retain(|(missed, _)| *missed != page);
            }
            PendingPageAction::Replay => {
                let mut ready = Vec::new();
                let now = ctx.now();
                translator.engine_misses.retain(|(missed, since)| {
                    let waits = *missed != page;
                    if !waits {
                        translator.counts.miss.record(now.since(*since));
                    }
                    waits
                });
                translator.waiting.retain(|waiter| {
                    let waits = waiter.page != page;
                    if !waits {
                        ready.push(*waiter);
                        translator.counts.miss.record(now.since(waiter.since));
                    }
                    waits
                });
                for TranslationWaiter { access, begun, .. } in ready {
                    self.again(ctx, access, begun);
                }
            }
        }
        self.settled(ctx);
    }

    /// Retries the accesses and the DMA engine that found no space for a request, after
    /// a page has settled.
    fn settled(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let Some(translator) = &mut self.translator else {
            return;
        };
        let engine = std::mem::take(&mut translator.engine_waits);
        for (access, begun) in std::mem::take(&mut translator.starved) {
            self.again(ctx, access, begun);
        }
        if engine {
            self.work(ctx);
        }
        self.retry(ctx);
    }
}
