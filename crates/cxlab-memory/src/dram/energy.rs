//! Energy from supply currents, as in the power calculators of data sheets.
//!
//! A command costs its current above standby, for its duration, at the supply voltage, in
//! each device of the rank. Standby draws IDD3N while a row of the rank is open, and IDD2N
//! otherwise. Left out: the second supply (VPP), termination and input/output, power-down
//! and self-refresh, temperature.

use super::channel::ChannelCounters;
use super::params::ResolvedDram;

/// Energies of a channel, in nanojoules.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct ChannelEnergy {
    pub activate: f64,
    pub read: f64,
    pub write: f64,
    pub refresh: f64,
    pub standby: f64,
}

impl ChannelEnergy {
    pub(super) fn total(&self) -> f64 {
        self.activate + self.read + self.write + self.refresh + self.standby
    }
}

/// Energy of one channel's commands, and of its ranks' standby over `span_ps`.
pub(super) fn energy(
    resolved: &ResolvedDram,
    counters: &ChannelCounters,
    span_ps: u64,
) -> ChannelEnergy {
    let (t, i, config) = (&resolved.timings, &resolved.currents, &resolved.config);
    let clock_ns = config.clock_ps as f64 / 1e3;
    // mA * V * ns = pJ; the devices of a rank work in lockstep.
    let cost = |milliampere: f64, nanoseconds: f64| {
        let devices = f64::from(resolved.devices);
        (milliampere * nanoseconds * f64::from(i.vdd_mv) / 1e3 * devices / 1e3).max(0.0)
    };
    let [idd0, idd2n, idd3n, idd4r, idd4w, idd5b] =
        [i.idd0, i.idd2n, i.idd3n, i.idd4r, i.idd4w, i.idd5b].map(f64::from);
    let ns = |clocks: u32| f64::from(clocks) * clock_ns;
    let pair =
        cost(idd0, ns(t.rc)) - cost(idd3n, ns(t.ras)) - cost(idd2n, ns(t.rc.saturating_sub(t.ras)));
    let banks = (config.groups * config.banks) as f64;
    let open_ns = counters.open as f64 * clock_ns / config.ticks_per_clock as f64;
    let all_ns = span_ps as f64 / 1e3 * config.ranks as f64;
    let refresh_all = cost(idd5b - idd2n, ns(t.rfc));
    let refresh_part = match config.refresh {
        // A refresh of a part of the banks draws that part of the current.
        super::channel::Refresh::SameBank => {
            cost(idd5b - idd2n, ns(t.rfc_pb)) * config.groups as f64 / banks
        }
        _ => cost(idd5b - idd2n, ns(t.rfc_pb)) / banks,
    };
    let managed = match config.refresh {
        super::channel::Refresh::AllBank => refresh_all,
        _ => refresh_part,
    };
    ChannelEnergy {
        activate: pair.max(0.0) * counters.activates as f64,
        read: cost(idd4r - idd3n, ns(t.burst)) * counters.reads as f64,
        write: cost(idd4w - idd3n, ns(t.burst)) * counters.writes as f64,
        refresh: refresh_all * counters.refreshes as f64
            + refresh_part * counters.fine_refreshes as f64
            + managed * counters.managements as f64,
        standby: cost(idd3n, open_ns.min(all_ns)) + cost(idd2n, (all_ns - open_ns).max(0.0)),
    }
}
