//! A host as the system sees it: a requester, and what it completed over time.

use std::ops::{Deref, DerefMut};

use cxlab_engine::Ctx;
use cxlab_engine::units::SimTime;
use cxlab_host::Requester;
use cxlab_link::Parcel;

use crate::series::Series;

/// A requester and its time series.
pub struct Host {
    requester: Requester,
    series: Series,
}

impl Host {
    pub(crate) fn new(requester: Requester) -> Host {
        Host {
            requester,
            series: Series::new(SimTime::ZERO),
        }
    }

    pub(crate) fn series(&self) -> &Series {
        &self.series
    }

    pub(crate) fn begin_measurement(&mut self, now: SimTime) {
        self.requester.begin_measurement(now);
        self.series = Series::new(now);
    }

    #[inline]
    pub(crate) fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        self.requester.receive(ctx, port, parcel);
        self.observe(ctx.now());
    }

    #[inline]
    pub(crate) fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        self.requester.wake(ctx, token);
        self.observe(ctx.now());
    }

    #[inline]
    fn observe(&mut self, now: SimTime) {
        let stats = self.requester.stats();
        let latency = stats.read_latency.sum_ps() + stats.write_latency.sum_ps();
        self.series.tell(now, stats.reads, stats.writes, latency);
    }
}

impl Deref for Host {
    type Target = Requester;

    fn deref(&self) -> &Requester {
        &self.requester
    }
}

impl DerefMut for Host {
    fn deref_mut(&mut self) -> &mut Requester {
        &mut self.requester
    }
}
