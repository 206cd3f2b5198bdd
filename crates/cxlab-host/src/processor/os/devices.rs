//! Requests of accelerators to the IOMMU and the operating system, and messages to accelerators: address
//! translation services over CXL.io.

use cxlab_agent::{AtsCompletion, AtsKind, AtsMessage, staging};
use cxlab_engine::Ctx;
use cxlab_engine::units::{LINE_BYTES, LineAddr, Picos};
use cxlab_link::Parcel;
use cxlab_os::ats::home::Event;
use cxlab_os::ats::{IommuWalk, TranslationCompletion};
use cxlab_os::{Page, PageAccess, PageSize, VirtAddr};
use cxlab_protocol::{Message, Opcode};
use serde::{Deserialize, Serialize};

use super::super::Processor;
use super::super::tokens::IOMMU;
use super::super::transactions::{Txn, TxnKind};
use super::faults::{PageWaiter, TaskSubject};
use super::{PROCESS, since, space_index};

/// A page walk for a device.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(in super::super) struct DeviceWalk {
    message: Message,
    walked: IommuWalk,
    at: u8,
    begun: u64,
}

fn access_of(flag: bool) -> PageAccess {
    match flag {
        true => PageAccess::Write,
        false => PageAccess::Read,
    }
}

impl Processor {
    pub(in super::super) fn ats_message(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        message: &Message,
        ats: AtsMessage,
    ) {
        let page = Page::around(PROCESS, VirtAddr(ats.page), PageSize::Small);
        match ats.kind {
            AtsKind::Translate => self.translation_request(ctx, message),
            AtsKind::PageRequest => {
                let device = self.accelerators.peer_of(message.source).index() as u16;
                let holder = PageWaiter::Device(device, page);
                self.page_request(ctx, page, access_of(ats.flag), holder);
            }
            AtsKind::Invalidated => self.invalidated(ctx, message.tag),
            AtsKind::Blocked => self.page_event(ctx, message.tag, Event::Blocked, None),
            AtsKind::Resumed => self.page_event(ctx, message.tag, Event::Resumed, None),
            _ => panic!("{:?} comes from no device", ats.kind),
        }
    }

    /// Handles a device's report that it has invalidated translations.
    fn invalidated(&mut self, ctx: &mut Ctx<'_, Parcel>, tag: u32) {
        let Some(os) = &self.os else { return };
        match os.tasks.get(tag).map(|task| &task.subject) {
            Some(TaskSubject::Page(_)) => self.page_event(ctx, tag, Event::Invalidated, None),
            Some(TaskSubject::Release(..)) => self.waited(ctx, tag),
            None => {}
        }
    }

    fn translation_request(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let device = self.accelerators.peer_of(message.source).index() as u16;
        let Some(os) = &mut self.os else { return };
        if os.device_walks.len() >= os.params.iommu.walkers as usize {
            os.asked.push_back(*message);
            return;
        }
        let Some(ats) = AtsMessage::at(message.hpa) else {
            return;
        };
        let (address, need) = (VirtAddr(ats.page), access_of(ats.flag));
        let mut walked = os.iommu.translate(
            PROCESS,
            address,
            need,
            Some(os.spaces[space_index(PROCESS)].table()),
        );
        let page = Page::around(PROCESS, address, PageSize::Small);
        match walked.completion {
            TranslationCompletion::Granted(_) if os.is_being_zeroed(page) => {
                walked.completion = TranslationCompletion::NotPresent;
            }
            TranslationCompletion::Granted(_) => {
                os.found(PageWaiter::Device(device, page));
                os.spaces[space_index(PROCESS)].mark(address, need);
            }
            TranslationCompletion::NotPresent | TranslationCompletion::Refused => {}
        }
        let walk = DeviceWalk {
            message: *message,
            walked,
            at: 0,
            begun: ctx.now().0,
        };
        let id = os.device_walks.insert(walk);
        os.stats.translation_reads += walked.reads().len() as u64;
        let overhead = match walked.reads().is_empty() {
            true => os.params.iommu.overhead,
            false => Picos(os.params.iommu.overhead.0 / 2),
        };
        let time = os.params.iommu.iotlb.latency + overhead;
        ctx.wake_at(ctx.now() + time, IOMMU | id);
    }

    /// Sends the next read of a device's walk, or its completion.
    pub(in super::super) fn device_walk_on(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let Some(os) = &mut self.os else { return };
        let Some(walk) = os.device_walks.get_mut(id) else {
            return;
        };
        let reads = walk.walked.reads();
        if usize::from(walk.at) == reads.len() {
            self.translation_completed(ctx, id);
            return;
        }
        let line = LineAddr(reads[usize::from(walk.at)].0 / LINE_BYTES);
        walk.at += 1;
        let txn = self.home.txns.open(Txn::of_io(line, TxnKind::WalkRead, id));
        self.arrive(ctx, txn);
    }

    pub(in super::super) fn device_walk_read(&mut self, ctx: &mut Ctx<'_, Parcel>, txn: &Txn) {
        let Some(os) = &self.os else { return };
        let Some(walk) = os.device_walks.get(txn.request.tag) else {
            return;
        };
        let last = usize::from(walk.at) == walk.walked.reads().len();
        let time = match last {
            true => Picos(os.params.iommu.overhead.0 / 2),
            false => Picos::ZERO,
        };
        ctx.wake_at(ctx.now() + time, IOMMU | txn.request.tag);
    }

    fn translation_completed(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let Some(os) = &mut self.os else { return };
        let Some(DeviceWalk {
            message,
            walked,
            begun,
            ..
        }) = os.device_walks.remove(id)
        else {
            return;
        };
        os.stats.translations += 1;
        os.stats.translation.record(since(begun, ctx.now().0));
        let waiting = os.asked.pop_front();
        let completion = match walked.completion {
            TranslationCompletion::Granted(found) => AtsCompletion {
                present: true,
                writable: found.writable,
                large: found.frame.size == PageSize::Large,
                base: found.frame.base.0,
            },
            TranslationCompletion::NotPresent | TranslationCompletion::Refused => {
                AtsCompletion::default()
            }
        };
        let there = staging(message.source, message.tag);
        completion.put(self.hw_threads.image(), there);
        let answer = Message {
            opcode: Opcode::CplD,
            data: 8,
            ..message
        };
        self.send_io(ctx, message.source, answer);
        if let Some(next) = waiting {
            self.translation_request(ctx, &next);
        }
    }

    /// Tells a device whether the page that it requested is present now.
    pub(super) fn answer_page_request(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        device: u16,
        page: Page,
        there: bool,
    ) {
        let ats = AtsMessage {
            kind: AtsKind::PageResponse,
            page: page.start.0,
            flag: there,
        };
        self.tell_device(ctx, usize::from(device), ats, 0);
    }

    /// Sends every device a message about a page. Devices respond with the tag.
    pub(super) fn tell_devices(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        kind: AtsKind,
        page: Page,
        tag: u32,
    ) {
        let ats = AtsMessage {
            kind,
            page: page.start.0,
            flag: page.size == PageSize::Large,
        };
        for device in 0..self.accelerators.ports.len() {
            self.tell_device(ctx, device, ats, tag);
        }
    }

    fn tell_device(&mut self, ctx: &mut Ctx<'_, Parcel>, device: usize, ats: AtsMessage, tag: u32) {
        let (hpa, to) = (ats.address(), self.accelerators.ports[device]);
        let mut message = Message::new(Opcode::MWr, hpa, tag, self.port_id, to, ctx.now());
        message.data = 8;
        self.send_io(ctx, to, message);
    }
}
