//! A host as the system sees it: an issuing component of any kind, and its completed requests over time.

use cxlab_agent::{FailureHandling, HwThreads, RequestAgent};
use cxlab_device::Accelerator;
use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::SimTime;
use cxlab_host::{
    CacheSnoop, CachingRequester, CoherenceStats, Core, DueWake, Observation, Processor,
    RequestRow, Requester, RequesterStats, ThrottleStats,
};
use cxlab_link::{LinkPort, Parcel};
use cxlab_workload::Inlet;

use crate::series::{Series, Totals};

/// The part of a host that issues requests.
#[allow(clippy::large_enum_variant)]
pub enum Agent {
    /// A requester of HDM-H memory alone.
    Plain(Requester),
    /// A requester with a coherent cache of HDM-DB memory.
    Caching(CachingRequester),
    /// A core that runs a program.
    Core(Core),
    /// A processor: several cores that run threads.
    Processor(Box<Processor>),
    /// An accelerator: processing elements that run threads.
    Accelerator(Box<Accelerator>),
}

/// A requester and its time series.
#[repr(C)]
pub struct Host {
    series: Series,
    agent: Agent,
}

/// Evaluates an expression with the agent's own type.
macro_rules! of_agent {
    ($self:expr, $agent:ident => $what:expr) => {
        match $self {
            Agent::Plain($agent) => $what,
            Agent::Caching($agent) => $what,
            Agent::Core($agent) => $what,
            Agent::Processor($agent) => $what,
            Agent::Accelerator($agent) => $what,
        }
    };
}

impl Agent {
    /// The agent, for everything but events.
    fn any(&self) -> &dyn RequestAgent {
        match self {
            Agent::Plain(agent) => agent,
            Agent::Caching(agent) => agent,
            Agent::Core(agent) => agent,
            Agent::Processor(agent) => &**agent,
            Agent::Accelerator(agent) => &**agent,
        }
    }

    /// The agent, mutable, for everything but events.
    fn any_mut(&mut self) -> &mut dyn RequestAgent {
        match self {
            Agent::Plain(agent) => agent,
            Agent::Caching(agent) => agent,
            Agent::Core(agent) => agent,
            Agent::Processor(agent) => &mut **agent,
            Agent::Accelerator(agent) => &mut **agent,
        }
    }

    #[inline(always)]
    fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        of_agent!(self, agent => agent.receive(ctx, port, parcel));
    }

    #[inline(always)]
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        of_agent!(self, agent => agent.wake(ctx, token));
    }
}

impl SaveState for Agent {
    fn save(&self, out: &mut StateWriter) {
        self.any().save(out);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.any_mut().restore(from)
    }
}

save_state!(Host {
    states: agent, series;
});

impl Host {
    /// Cost of an event at this host, for [`ExecutionHints`](cxlab_engine::ExecutionHints).
    pub(crate) fn event_cost(&self) -> u64 {
        match &self.agent {
            Agent::Plain(_) => 3,
            Agent::Caching(_) | Agent::Core(_) => 4,
            Agent::Processor(_) => 12,
            Agent::Accelerator(_) => 6,
        }
    }

    pub(crate) fn new(agent: Agent) -> Host {
        Host {
            agent,
            series: Series::new(SimTime::ZERO),
        }
    }

    /// Time series of the host's completed requests.
    pub(crate) fn series(&self) -> Series {
        self.series.up_to(&self.completed())
    }

    fn completed(&self) -> Totals {
        let stats = self.stats();
        Totals {
            reads: stats.reads,
            writes: stats.writes,
            denied: [stats.denied.reads, stats.denied.writes],
            failed: [
                stats.timed_out.reads + stats.cut_off.reads + stats.poisoned.reads,
                stats.timed_out.writes + stats.cut_off.writes + stats.poisoned.writes,
            ],
            latency_ps: stats.served_ps(),
        }
    }

    /// Statistics since measurement began.
    pub fn stats(&self) -> &RequesterStats {
        self.agent.any().stats()
    }

    /// Statistics of coherence between the host's cache and devices with HDM-DB memory; `None` without such a cache.
    pub fn coherence(&self) -> Option<&CoherenceStats> {
        match &self.agent {
            Agent::Caching(agent) => Some(agent.coherence()),
            _ => None,
        }
    }

    /// The core that runs a program, where the host has one.
    pub fn core(&self) -> Option<&Core> {
        match &self.agent {
            Agent::Core(core) => Some(core),
            _ => None,
        }
    }

    /// The host's hardware threads, if it runs threads.
    pub fn hw_threads(&self) -> Option<&HwThreads> {
        match &self.agent {
            Agent::Processor(processor) => Some(processor.hw_threads()),
            Agent::Accelerator(accelerator) => Some(accelerator.hw_threads()),
            _ => None,
        }
    }

    /// The processor, if the host has one.
    pub fn processor(&self) -> Option<&Processor> {
        match &self.agent {
            Agent::Processor(processor) => Some(processor),
            _ => None,
        }
    }

    /// The accelerator, if the component is one.
    pub fn accelerator(&self) -> Option<&Accelerator> {
        match &self.agent {
            Agent::Accelerator(accelerator) => Some(accelerator),
            _ => None,
        }
    }

    /// Statistics of the host's throttle, if it has one.
    pub fn throttle(&self) -> Option<ThrottleStats> {
        match &self.agent {
            Agent::Plain(agent) => agent.throttle(),
            Agent::Caching(agent) => agent.throttle(),
            Agent::Core(_) | Agent::Processor(_) | Agent::Accelerator(_) => None,
        }
    }

    /// The requester, if it has a coherent cache of HDM-DB memory.
    pub fn caching(&self) -> Option<&CachingRequester> {
        match &self.agent {
            Agent::Caching(agent) => Some(agent),
            _ => None,
        }
    }

    /// The requester, where all its memory is HDM-H and it has neither core nor processor.
    pub fn plain(&self) -> Option<&Requester> {
        match &self.agent {
            Agent::Plain(agent) => Some(agent),
            _ => None,
        }
    }

    /// The requester without a cache, if the host is one.
    pub(crate) fn plain_mut(&mut self) -> Option<&mut Requester> {
        match &mut self.agent {
            Agent::Plain(agent) => Some(agent),
            _ => None,
        }
    }

    /// The host's failure handling; `None` if it has none.
    pub(crate) fn fails(&mut self) -> Option<&mut dyn FailureHandling> {
        self.agent.any_mut().failure_handling()
    }

    /// Ends the bins of the time series before `now`, and returns [`Host::fails`].
    pub(crate) fn fails_at(&mut self, now: SimTime) -> Option<&mut dyn FailureHandling> {
        self.reach(now);
        self.fails()
    }

    /// Requests in flight, write-backs included.
    pub fn in_flight(&self) -> u64 {
        self.agent.any().in_flight()
    }

    /// Requests in flight that count as requests.
    pub fn requests_in_flight(&self) -> u64 {
        self.agent.any().requests_in_flight()
    }

    /// Summed age of the requests in flight at `now`, in picoseconds.
    pub fn age_ps(&self, now: SimTime) -> u128 {
        self.agent.any().age_ps(now)
    }

    /// Whether the host's traffic source has ended and all its requests have completed.
    pub fn is_done(&self) -> bool {
        self.agent.any().is_done()
    }

    /// The host's ports, for link statistics.
    pub fn ports_mut(&mut self) -> &mut [LinkPort] {
        self.agent.any_mut().ports_mut()
    }

    /// Takes the rows logged since the last call.
    pub fn take_rows(&mut self) -> Vec<RequestRow> {
        self.agent.any_mut().take_rows()
    }

    /// Moves the rows logged since the last call to the end of `out`.
    pub(crate) fn drain_rows(&mut self, out: &mut Vec<RequestRow>) {
        self.agent.any_mut().ledger_mut().drain_rows(out);
    }

    /// The inlet of the host's traffic source, if another program hands over operations.
    pub(crate) fn inlet(&mut self) -> Option<&mut Inlet> {
        match &mut self.agent {
            Agent::Plain(agent) => agent.inlet(),
            Agent::Caching(agent) => agent.inlet(),
            Agent::Core(_) | Agent::Processor(_) | Agent::Accelerator(_) => None,
        }
    }

    /// The wake-up to be passed to the simulation after operations were added to the inlet.
    pub(crate) fn handed_over(&mut self) -> Option<DueWake> {
        match &mut self.agent {
            Agent::Plain(agent) => agent.handed_over(),
            Agent::Caching(agent) => agent.handed_over(),
            Agent::Core(_) | Agent::Processor(_) | Agent::Accelerator(_) => None,
        }
    }

    /// Moves the snoops of the program's caches since the last call to the end of `out`.
    pub(crate) fn drain_cache_snoops(&mut self, out: &mut Vec<CacheSnoop>) {
        if let Agent::Caching(agent) = &mut self.agent {
            agent.drain_cache_snoops(out);
        }
    }

    /// Takes the program's response to a snoop of its caches. Returns a wake-up to be passed to the simulation.
    pub(crate) fn answer_cache_snoop(
        &mut self,
        snoop: &CacheSnoop,
        changed: bool,
        time: SimTime,
    ) -> Option<DueWake> {
        match &mut self.agent {
            Agent::Caching(agent) => Some(agent.answer_cache_snoop(snoop, changed, time)),
            Agent::Plain(_) | Agent::Core(_) | Agent::Processor(_) | Agent::Accelerator(_) => None,
        }
    }

    /// Takes the values that accesses read or wrote since the last call, in the order in which the accesses took
    /// effect; empty unless the system records values and the host has a coherent cache.
    pub fn take_observations(&mut self) -> Vec<Observation> {
        match &mut self.agent {
            Agent::Caching(agent) => agent.take_observations(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn begin_measurement(&mut self, now: SimTime) {
        self.agent.any_mut().begin_measurement(now);
        self.begin_series(now);
    }

    /// Begins a new time series, at the beginning of the workload or of the measurement.
    pub(crate) fn begin_series(&mut self, now: SimTime) {
        self.series = Series::new(now);
    }

    pub(crate) fn end_measurement(&mut self, now: SimTime) {
        self.agent.any_mut().end_measurement(now);
    }

    pub(crate) fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.agent.any_mut().start(ctx);
    }

    #[inline]
    pub(crate) fn prefetch(&self, port: u16, parcel: &Parcel) {
        if let Agent::Plain(requester) = &self.agent {
            requester.prefetch(port, parcel);
        }
    }

    #[inline]
    pub(crate) fn prefetch_next(&self, parcel: &Parcel) {
        if let Agent::Plain(requester) = &self.agent {
            requester.prefetch_next(parcel);
        }
    }

    #[inline(always)]
    pub(crate) fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        self.reach(ctx.now());
        self.agent.receive(ctx, port, parcel);
    }

    #[inline(always)]
    pub(crate) fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        self.reach(ctx.now());
        self.agent.wake(ctx, token);
    }

    /// Ends the bins of the time series before `now`. To be called before each event of the host.
    #[inline(always)]
    fn reach(&mut self, now: SimTime) {
        if self.series.has_ended(now) {
            let completed = self.completed();
            self.series.reach(now, &completed);
        }
    }
}
