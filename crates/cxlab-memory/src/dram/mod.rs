//! DRAM: channels, ranks, bank groups and banks with the timing rules of their standard.
//!
//! Modelled, command by command and on clock edges:
//!
//! - the constraints of JEDEC standards on activates, precharges, reads, writes, refreshes and
//!   refresh management (of all banks, one bank, or the same bank of each group), stack IDs,
//!   command and data buses, rank switches and bus turnaround;
//! - read and write queues with drain marks, forwarding and coalescing;
//! - first-ready, first-come scheduling with a cap on row hits; open, closed and capped pages;
//! - address mappings, and energy from supply currents.
//!
//! The model is driven by events: between commands nothing is computed, and an idle channel costs nothing.
//!
//! Left out: power-down and self-refresh, postponed refreshes, temperature, on-die ECC, and data.
//! Concurrent requests to one line may be served in either order, except that a read sees a write
//! queued before it.
//!
//! `standards` holds the tables, `params` the parameters of a scenario, `channel` the scheduler.

mod channel;
mod command_bus;
mod energy;
mod hash;
mod mapping;
mod observer;
mod outstanding;
mod params;
mod standard;
mod standards;
mod timing;

#[cfg(test)]
mod tests;

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, LINE_BYTES, SimTime};
use schemars::JsonSchema;

use crate::{Completion, Medium, MediumSite, MemoryBackend, MemoryRequest, Statistic};
use channel::{Burst, Channel, ChannelCounters};
pub use hash::BankHash;
pub use observer::{Command, CommandKind, CommandObserver, NoObserver};
use outstanding::OutstandingRequests;
pub use params::{CurrentOverrides, DramParams, PagePolicy, RefreshMode, WriteDone};
use params::{ResolvedDram, bursts_of_line};
use serde::{Deserialize, Serialize};
pub use standard::Currents;
pub use timing::{TimingOverrides, Timings};

pub(crate) const ENTRY: Entry<Box<dyn Medium>> = Entry {
    name: "dram",
    summary: "DDR4, DDR5, LPDDR4 to 6, HBM1 to 4: banks, refresh, queues and scheduling, by command",
    schema: <DramParams as JsonSchema>::json_schema,
    build: |params| Ok(Box::new(DramParams::read(params)?)),
};

impl Medium for DramParams {
    fn check(&self, capacity: Bytes) -> Result<(), ParamError> {
        let resolved = self.resolve()?;
        if capacity <= resolved.capacity {
            return Ok(());
        }
        let (channels, ranks) = (self.channels, self.ranks);
        let (standard, all) = (resolved.standard, resolved.capacity);
        let found = format!("{channels} channels of {ranks} ranks of {standard} hold {all}");
        let more = "more channels, more ranks or another organization";
        let message = format!("{found}, and the device has {capacity}: {more}");
        Err(ParamError::new("channels", message))
    }

    fn largest(&self) -> Option<Bytes> {
        self.resolve().ok().map(|resolved| resolved.capacity)
    }

    fn backend(&self, site: MediumSite) -> Box<dyn MemoryBackend> {
        match Dram::new(self, site.capacity, |_| NoObserver) {
            Ok(dram) => Box::new(dram),
            Err(error) => unreachable!("parameters are checked before they are used: {error}"),
        }
    }

    fn keeps_state(&self) -> bool {
        false
    }

    fn idle_read_ps(&self) -> Option<u64> {
        None
    }
}

/// A memory with one or more channels.
pub struct Dram<O = NoObserver> {
    resolved: ResolvedDram,
    channels: Vec<Channel<O>>,
    /// Cached state of each channel, which can be read without calling the channel.
    watches: Vec<ChannelSummary>,
    /// Bursts that wait for room in a queue, over all channels.
    outside: usize,
    outstanding: OutstandingRequests,
    /// Whether the owner was refused and waits for room.
    refused: bool,
    /// The lowest bit of a burst's number in an address, and the number of bursts in a line.
    shift: u32,
    bursts_of_line: u64,
    since: SimTime,
    /// The time up to which all is decided.
    now: SimTime,
    tick: u64,
}

save_state!([O] Dram<O> {
    values: outside, refused, since, now, tick;
    sized: watches;
    states: channels, outstanding;
    built: resolved, shift, bursts_of_line;
});

/// Cached state of a channel.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct ChannelSummary {
    /// The tick of the channel's next event.
    next_tick: u64,
    /// The tick at which the owner should call [`MemoryBackend::advance`].
    wake: u64,
    /// Bursts that wait for room in a queue.
    outside: usize,
}

impl<O: CommandObserver> Dram<O> {
    /// A memory. `observer` makes the observer of a channel's commands from the channel's number.
    ///
    /// # Errors
    /// The parameter that is invalid, or does not fit the capacity.
    pub fn new(
        params: &DramParams,
        capacity: Bytes,
        observer: impl Fn(u32) -> O,
    ) -> Result<Dram<O>, ParamError> {
        params.check(capacity)?;
        let resolved = params.resolve()?;
        let channels: Vec<_> = (0..resolved.channels)
            .map(|number| Channel::new(resolved.config, number, observer(number)))
            .collect();
        let idle = ChannelSummary {
            wake: u64::MAX,
            ..ChannelSummary::default()
        };
        let inside = resolved.config.reads + resolved.config.writes;
        Ok(Dram {
            watches: vec![idle; channels.len()],
            channels,
            outside: 0,
            outstanding: OutstandingRequests::new(inside * 2 * resolved.channels as usize),
            refused: false,
            shift: resolved.burst_bytes.ilog2(),
            bursts_of_line: bursts_of_line(resolved.burst_bytes),
            since: SimTime::ZERO,
            now: SimTime::ZERO,
            tick: 0,
            resolved,
        })
    }

    /// The observer of a channel.
    pub fn observer(&self, channel: u32) -> &O {
        self.channels[channel as usize].observer()
    }

    /// The timing parameters of all channels.
    pub fn timings(&self) -> &Timings {
        &self.resolved.timings
    }

    /// Makes all decisions up to `now`, and returns its tick.
    #[inline]
    fn run(&mut self, now: SimTime) -> u64 {
        if now != self.now {
            self.now = now;
            self.tick = self.resolved.config.tick(now.0);
            for number in 0..self.channels.len() {
                if self.watches[number].next_tick <= self.tick {
                    self.run_channel(number);
                }
            }
        }
        self.tick
    }

    #[inline]
    fn run_channel(&mut self, number: usize) {
        let channel = &mut self.channels[number];
        let next_tick = channel.run(self.tick, &mut self.outstanding);
        let watch = ChannelSummary {
            next_tick,
            wake: channel.wake(false),
            outside: channel.waiting_outside(),
        };
        let before = std::mem::replace(&mut self.watches[number], watch);
        self.outside = self.outside + watch.outside - before.outside;
    }

    fn sum(&self, tick: u64, of: impl Fn(&ChannelCounters) -> u64) -> f64 {
        let counters = self.channels.iter().map(|channel| channel.counters(tick));
        counters.map(|one| of(&one)).sum::<u64>() as f64
    }
}

impl<O: CommandObserver> MemoryBackend for Dram<O> {
    fn can_accept(&mut self, now: SimTime, write: bool) -> bool {
        self.run(now);
        let room = self.outside < self.resolved.input
            || (self.outside == 0 && self.channels.iter().all(|channel| channel.has_room(write)));
        self.refused = !room;
        room
    }

    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime> {
        let tick = self.run(now);
        let first = request.dpa.0 >> self.shift;
        let bursts = if self.bursts_of_line > 1 {
            // The bursts of whole lines, even if the address is inside the first line.
            u64::from(request.lines) * self.bursts_of_line
        } else {
            let last = request.dpa.0 + u64::from(request.lines) * LINE_BYTES - 1;
            (last >> self.shift) - first + 1
        };
        let number = self.outstanding.open(request.id, bursts as u32);
        for address in first..first + bursts {
            let place = self.resolved.mapping.place(address);
            let burst = Burst {
                address,
                place,
                write: request.write,
                request: number,
            };
            let number = place.channel as usize;
            self.channels[number].arrive(tick, burst, &mut self.outstanding);
            // Runs the channel again, so that its next event is known.
            self.run_channel(number);
        }
        None
    }

    fn next_event(&self) -> Option<SimTime> {
        let wakes = self.watches.iter().map(|watch| watch.wake);
        let refused = self.channels.iter().filter(|_| self.refused);
        let unknown = wakes
            .chain(refused.map(|channel| channel.wake(true)))
            .min()
            .filter(|tick| *tick != u64::MAX)
            .map(|tick| SimTime(self.resolved.config.time(tick)));
        match (self.outstanding.next(), unknown) {
            (Some(known), Some(unknown)) => Some(known.min(unknown)),
            (known, unknown) => known.or(unknown),
        }
    }

    fn soonest(&self, at: SimTime) -> SimTime {
        // Writes, and reads served from a queued write, are done at the next tick.
        let config = &self.resolved.config;
        SimTime(config.time(config.tick(at.0) + 1))
    }

    fn advance(&mut self, now: SimTime, done: &mut Vec<Completion>) {
        self.run(now);
        self.outstanding.take_completed(now, done);
    }

    fn granule(&self) -> u32 {
        self.resolved.burst_bytes.max(LINE_BYTES as u32)
    }

    fn begin_measurement(&mut self, now: SimTime) {
        let tick = self.run(now);
        self.since = now;
        for channel in &mut self.channels {
            channel.begin_measurement(tick);
        }
    }

    fn statistics(&self, now: SimTime, out: &mut Vec<Statistic>) {
        let config = &self.resolved.config;
        let tick = config.tick(now.0);
        let span = now.since(self.since).0;
        let mut put = |name: &str, value: f64| {
            let name = format!("dram.{name}");
            out.push(Statistic { name, value });
        };
        put("activates", self.sum(tick, |one| one.activates));
        put("precharges", self.sum(tick, |one| one.precharges));
        put("reads", self.sum(tick, |one| one.reads));
        put("writes", self.sum(tick, |one| one.writes));
        put("refreshes", self.sum(tick, |one| one.refreshes));
        put("bank_refreshes", self.sum(tick, |one| one.fine_refreshes));
        put("refresh_managements", self.sum(tick, |one| one.managements));
        put("row_hits", self.sum(tick, |one| one.hits));
        put("row_misses", self.sum(tick, |one| one.misses));
        put("row_conflicts", self.sum(tick, |one| one.conflicts));
        put("forwarded_reads", self.sum(tick, |one| one.forwarded));
        put("coalesced_writes", self.sum(tick, |one| one.coalesced));
        let buses = (self.channels.len() * config.pseudo_channels) as f64;
        let ticks = span as f64 / config.clock_ps as f64 * config.ticks_per_clock as f64;
        let busy = self.sum(tick, |one| one.busy) / buses;
        put("bus_utilization", if span > 0 { busy / ticks } else { 0.0 });
        let energy =
            |channel: &Channel<O>| energy::energy(&self.resolved, &channel.counters(tick), span);
        let energy: Vec<_> = self.channels.iter().map(energy).collect();
        let mut sum = |name: &str, of: fn(&energy::ChannelEnergy) -> f64| {
            put(name, energy.iter().map(of).sum());
        };
        sum("activate_energy_nj", |one| one.activate);
        sum("read_energy_nj", |one| one.read);
        sum("write_energy_nj", |one| one.write);
        sum("refresh_energy_nj", |one| one.refresh);
        sum("standby_energy_nj", |one| one.standby);
        sum("energy_nj", energy::ChannelEnergy::total);
    }
}
