//! What a guest's run is reported as.

use cxlab_engine::units::Picos;
use cxlab_plan::Plan;
use cxlab_system::layout::{nanos, table};
use cxlab_system::output::run_id;
use cxlab_vm::build::Image;
use cxlab_vm::device::Counts;
use cxlab_vm::model::shared::SharedCounts;
use cxlab_vm::pace::GuestSkew;
use cxlab_vm::qemu::Version;
use cxlab_vm::ring::ClockState;
use cxlab_vm::session::{GuestRun, Outcome, SessionError, Span};
use serde_json::{Value, json};

use super::guest::Binding;

/// Contents of the report, for both of its forms.
pub(super) struct Report<'a> {
    pub(super) plan: &'a Plan,
    pub(super) image: &'a Image,
    pub(super) version: Version,
    /// Largest time by which a guest may be ahead of another.
    pub(super) window: Picos,
    pub(super) skew: GuestSkew,
    pub(super) guests: Vec<Facts<'a>>,
}

/// Contents of the report for one guest.
pub(super) struct Facts<'a> {
    pub(super) plan: &'a Plan,
    pub(super) host: usize,
    pub(super) pools: &'a [String],
    /// Constant round-trip time by pool, in picoseconds.
    pub(super) ways_ps: &'a [u64],
    pub(super) bindings: &'a [Binding],
    /// Whether the guest shares memory with other guests.
    pub(super) shares: bool,
    pub(super) accelerator: bool,
    pub(super) result: &'a Result<Outcome, SessionError>,
    pub(super) notes: Vec<String>,
}

/// Most regions of interest of a program in the table. The JSON report has all.
const MOST_SHOWN: usize = 8;

/// Seconds of simulated time.
fn simulated_s(span: &Span) -> f64 {
    span.busy_s + span.idle_s
}

fn rate(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        bytes as f64 / seconds / 1e9
    } else {
        0.0
    }
}

fn mean_ns(sum_ps: u64, count: u64) -> f64 {
    sum_ps as f64 / count.max(1) as f64 / 1e3
}

fn shared_json(counts: &SharedCounts) -> Value {
    json!({
        "accesses": counts.accesses,
        "misses": counts.misses,
        "stale_loads": counts.stale_loads,
        "flushes": counts.flushes,
        "snoops": counts.snoops.snoops,
        "invalidated": counts.snoops.invalidated,
        "written_back": counts.snoops.written_back,
    })
}

fn accelerator_json(counts: &Counts) -> Value {
    let mut value = json!({
        "commands": counts.commands,
        "failed": counts.failed,
        "busy_s": counts.busy_ps as f64 / 1e12,
        "work_items": counts.items,
        "lines_changed": counts.lines,
        "races": counts.races,
    });
    for (name, sum) in &counts.sums {
        value[name.as_str()] = (*sum).into();
    }
    value
}

/// A line on the guest's clock.
pub(super) fn clock(outcome: &Outcome) -> String {
    match outcome.clock {
        ClockState::Simulated => format!("simulated time (clock source {})", outcome.clocksource),
        ClockState::Host | ClockState::Unknown => {
            "this machine's; simulated time is reported beside".to_owned()
        }
    }
}

impl Report<'_> {
    /// The report as JSON.
    pub(super) fn json(&self) -> Value {
        let mut report = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "mode": "vm",
            "scenario": self.plan.scenario.name,
            "plan_hash": self.plan.hash,
            "qemu": match self.version { Version::V7 => "7.2", Version::V10 => "10.0" },
            "guest": self.image.stamp.lines().collect::<Vec<_>>(),
        });
        let more = match &self.guests[..] {
            [one] => one.json(),
            several => json!({
                "window_ns": self.window.0 as f64 / 1e3,
                "events": self.skew.events,
                "late_events": self.skew.late_events,
                "most_late_ns": self.skew.max_late_ps as f64 / 1e3,
                "guests": several.iter().map(Facts::json).collect::<Vec<_>>(),
            }),
        };
        if let (Value::Object(report), Value::Object(more)) = (&mut report, more) {
            report.extend(more);
        }
        report["run"] = run_id(&[&report.to_string()]).into();
        report
    }

    /// The report as text.
    pub(super) fn text(&self) -> String {
        let several = self.guests.len() > 1;
        let mut text = String::from("\n");
        for guest in &self.guests {
            text.push_str(&guest.heading(several));
        }
        if several {
            text.push_str(&format!(
                "  in step: {} ns; {} of {} requests and answers came late, by {} ns at most\n",
                self.window.0 as f64 / 1e3,
                self.skew.late_events,
                self.skew.events,
                self.skew.max_late_ps as f64 / 1e3
            ));
        }
        text.push('\n');
        let mut rows = vec![self.guests[0].cells(several, "host", &HEADS.map(str::to_owned))];
        rows.extend(self.guests.iter().flat_map(|guest| guest.rows(several)));
        text.push_str(&table(&rows));
        for guest in &self.guests {
            text.push_str(&guest.shared_text());
            text.push_str(&guest.accelerator_text());
        }
        for guest in &self.guests {
            for note in &guest.notes {
                match several {
                    true => text.push_str(&format!("  note: `{}`: {note}\n", guest.host_name())),
                    false => text.push_str(&format!("  note: {note}\n")),
                }
            }
        }
        text
    }
}

/// The table's columns, without the host.
const HEADS: [&str; 9] = [
    "bound to",
    "guest, s",
    "simulated, s",
    "pool",
    "missing loads",
    "latency, ns",
    "read, GB/s",
    "written, GB/s",
    "M accesses/s",
];

impl Facts<'_> {
    fn host_name(&self) -> &str {
        &self.plan.hosts[self.host].name
    }

    fn name(&self, run: &GuestRun) -> String {
        let found = self.bindings.iter().find(|one| one.word == run.memory);
        found.map_or_else(|| run.memory.clone(), |one| one.name.clone())
    }

    fn json(&self) -> Value {
        let host = self.host_name();
        match self.result {
            Err(error) => json!({ "host": host, "error": error.to_string() }),
            Ok(outcome) => json!({
                "host": host,
                "guest_clock_is_simulated": outcome.clock == ClockState::Simulated,
                "clocksource": outcome.clocksource,
                "fast_windows": outcome.overlay,
                "boot_s": outcome.boot_s,
                "ready_s": outcome.ready_s,
                "restored_s": outcome.restored_s,
                "wall_s": outcome.wall_s,
                "regions": outcome.regions,
                "runs": outcome.runs.iter().map(|run| self.run(run)).collect::<Vec<_>>(),
                "notes": self.notes,
            }),
        }
    }

    fn run(&self, run: &GuestRun) -> Value {
        let mut value = json!({
            "memory": self.name(run),
            "exit_code": run.exit_code,
            "guest_s": run.guest_s,
            "regions_of_interest": run.interest.iter().map(|span| self.span(span)).collect::<Vec<_>>(),
            "output": run.output,
        });
        if let (Value::Object(value), Value::Object(more)) = (&mut value, self.span(&run.span)) {
            value.extend(more);
        }
        value
    }

    fn span(&self, span: &Span) -> Value {
        let seconds = simulated_s(span);
        let pools: Vec<Value> = span
            .pools
            .iter()
            .enumerate()
            .map(|(at, counts)| {
                json!({
                    "name": self.pools[at],
                    "way_ns": self.ways_ps[at] as f64 / 1e3,
                    "loads": counts.loads,
                    "prefetched": counts.prefetched,
                    "waited_s": counts.waited_ps as f64 / 1e12,
                    "demand": counts.demand,
                    "latency_ns": mean_ns(counts.demand_ps, counts.demand),
                    "bytes_read": counts.lines_read * 64,
                    "bytes_written": counts.lines_written * 64,
                    "gb_per_s": rate((counts.lines_read + counts.lines_written) * 64, seconds),
                })
            })
            .collect();
        let mut value = json!({
            "simulated_s": seconds,
            "idle_s": span.idle_s,
            "wall_s": span.wall_s,
            "instructions": span.counters.instructions,
            "accesses": span.counters.accesses,
            "accesses_per_wall_s": span.counters.accesses as f64 / span.wall_s.max(1e-9),
            "first_cache_misses": span.counters.first_misses,
            "misses": span.counters.misses,
            "clock_reads": span.counters.clock_reads,
            "device_accesses": span.counters.device_accesses,
            "pools": pools,
        });
        if self.shares {
            value["shared"] = shared_json(&span.shared);
        }
        if self.accelerator {
            value["accelerator"] = accelerator_json(&span.device);
        }
        value
    }

    /// A line for each program, with its accesses to memory that guests share.
    fn shared_text(&self) -> String {
        let runs = self.result.iter().flat_map(|outcome| &outcome.runs);
        let lines = runs.filter(|_| self.shares).map(|run| {
            let counts = &run.span.shared;
            format!(
                "  `{}`, bound to {}: {} accesses to shared memory, {} of them misses; {} snoops took \
                 {} lines; {} flushes; {} loads of old values\n",
                self.host_name(),
                self.name(run),
                counts.accesses,
                counts.misses,
                counts.snoops.snoops,
                counts.snoops.invalidated,
                counts.flushes,
                counts.stale_loads
            )
        });
        lines.collect()
    }

    /// A line for each program that used the accelerator, with its commands.
    fn accelerator_text(&self) -> String {
        let runs = self.result.iter().flat_map(|outcome| &outcome.runs);
        let used = runs.filter(|run| run.span.device.commands > 0);
        let lines = used.map(|run| {
            let counts = &run.span.device;
            let sums = counts.sums.iter().filter(|(_, sum)| *sum > 0);
            let sums = sums.map(|(name, sum)| format!(", {sum} {}", name.replace('_', " ")));
            format!(
                "  accelerator, bound to {}: {} commands ({} failed), {} work-items in {:.3} us; {} lines \
                 changed{}\n",
                self.name(run),
                counts.commands,
                counts.failed,
                counts.items,
                counts.busy_ps as f64 / 1e6,
                counts.lines,
                sums.collect::<String>()
            )
        });
        lines.collect()
    }

    /// Boot, restore and total times of the guest.
    fn heading(&self, several: bool) -> String {
        let name = match several {
            true => format!("{} (vm), `{}`", self.plan.scenario.name, self.host_name()),
            false => format!("{} (vm)", self.plan.scenario.name),
        };
        let outcome = match self.result {
            Ok(outcome) => outcome,
            Err(error) => return format!("{name}: {error}\n"),
        };
        let regions = outcome.regions.len();
        let began = match outcome.restored_s {
            Some(restored) => {
                format!("the guest, with {regions} regions, was restored after {restored:.1} s")
            }
            None => format!(
                "the guest was up after {:.1} s, its {regions} regions after {:.1} s",
                outcome.boot_s.unwrap_or_default(),
                outcome.ready_s.unwrap_or_default()
            ),
        };
        format!(
            "{name}: {began}; {:.1} s in all\n  the guest's clock: {}\n",
            outcome.wall_s,
            clock(outcome)
        )
    }

    /// A row, with its host where there are several.
    fn cells(&self, several: bool, host: &str, row: &[String]) -> Vec<String> {
        let host = several.then(|| host.to_owned());
        host.into_iter().chain(row.iter().cloned()).collect()
    }

    /// The rows of all runs.
    fn rows(&self, several: bool) -> Vec<Vec<String>> {
        let runs = self.result.iter().flat_map(|outcome| &outcome.runs);
        let rows = runs.flat_map(|run| self.rows_of(run));
        rows.map(|row| self.cells(several, self.host_name(), &row))
            .collect()
    }

    /// The rows of a program and of its regions of interest.
    fn rows_of(&self, run: &GuestRun) -> Vec<Vec<String>> {
        let guest = run
            .guest_s
            .map_or("-".to_owned(), |guest| format!("{guest:.4}"));
        let mut rows = self.rows_of_span(&run.span, &self.name(run), &guest);
        for (number, span) in run.interest.iter().take(MOST_SHOWN).enumerate() {
            let name = format!("{}, roi {}", self.name(run), number + 1);
            rows.extend(self.rows_of_span(span, &name, "-"));
        }
        rows
    }

    /// A row for each pool that was used.
    fn rows_of_span(&self, span: &Span, name: &str, guest: &str) -> Vec<Vec<String>> {
        let seconds = simulated_s(span);
        let mut rows = Vec::new();
        for (at, counts) in span.pools.iter().enumerate() {
            if counts.lines_read + counts.lines_written == 0 {
                continue;
            }
            let first = rows.is_empty();
            let once = |text: String| if first { text } else { String::new() };
            let rate_of_accesses = span.counters.accesses as f64 / span.wall_s.max(1e-9) / 1e6;
            rows.push(vec![
                once(name.to_owned()),
                once(guest.to_owned()),
                once(format!("{seconds:.4}")),
                self.pools[at].clone(),
                counts.loads.to_string(),
                nanos(mean_ns(counts.demand_ps, counts.demand)),
                format!("{:.2}", rate(counts.lines_read * 64, seconds)),
                format!("{:.2}", rate(counts.lines_written * 64, seconds)),
                once(format!("{rate_of_accesses:.1}")),
            ]);
        }
        rows
    }
}
