//! Compares the DRAM medium with measurements of DRAMsim3 and Ramulator 2.1, row by row.
//!
//! `cargo run --release -p cxlab-memory --example dram_validation` prints the table of
//! `docs/explain/dram.md`. Each row is a configuration of one of the simulators and a pattern of
//! requests. The example rebuilds both: the same ranks, queues, mapping and length, and at most one
//! request a clock, as the drivers of the simulators send them. The reference numbers are
//! measurements of DRAMsim3 at commit 2981759 and of Ramulator 2.1 at commit c5b1c3a.

use std::error::Error;

use cxlab_engine::catalog::find;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Dpa, SimTime};
use cxlab_memory::{CATALOG, Completion, MediumSite, MemoryBackend, MemoryRequest};

/// A configuration of a simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum System {
    /// `configs/DDR4_8Gb_x8_3200.ini` of DRAMsim3.
    Ddr4Dramsim,
    /// `configs/LPDDR4_8Gb_x16_2400.ini` of DRAMsim3.
    Lpddr4Dramsim,
    /// Ramulator: DDR5_16Gb_x8, DDR5_4800AN, one rank, FRFCFS-RowHit, Open, AllBank, RoBaRaCoCh.
    Ddr5Ramulator,
    /// As `Ddr5Ramulator`, with MOP4CLXOR.
    Ddr5Mop,
    /// Ramulator: DDR4_8Gb_x8, DDR4_3200AA, otherwise as `Ddr5Ramulator`.
    Ddr4Ramulator3200,
    /// Ramulator: DDR4_8Gb_x8, DDR4_2400R, otherwise as `Ddr5Ramulator`.
    Ddr4Ramulator2400,
    /// Ramulator, probe under load: DDR5_4800AN.
    Ddr5Probe,
    /// Ramulator, probe under load: DDR4_2400R.
    Ddr4Probe,
    /// Ramulator, probe under load: LPDDR5_6400. There a burst moves 32 bytes and is a request.
    /// Here the channel is twice as wide, so that a burst is a line, and the bandwidth is halved.
    Lpddr5Probe,
}
use System::*;

/// The pattern of requests.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    /// Random bursts, one each `gap` clocks, for `cycles` clocks.
    Random { writes: f64, gap: u64, cycles: u64 },
    /// Consecutive bursts, one each `gap` clocks, for `cycles` clocks.
    Sequence { writes: f64, gap: u64, cycles: u64 },
    /// Two arrays are read and a third is written, of 2 MiB each at random places, with up to three
    /// requests a clock.
    Add { cycles: u64 },
    /// A stream over all banks, with one request each `interval` turns of an eighth of a clock, and
    /// dependent random reads, whose latency is measured.
    Probe { interval: u64, reads: u64 },
}
use Pattern::*;

impl Pattern {
    fn name(self) -> String {
        let mix = |writes: f64| format!("{:.0} % reads", (1.0 - writes) * 100.0);
        match self {
            Random { writes, gap, .. } => format!("random, {}, one in {gap}", mix(writes)),
            Sequence { writes, gap, .. } => format!("stream, {}, one in {gap}", mix(writes)),
            Add { .. } => "stream add".to_owned(),
            Probe { interval, reads } => format!("probe, nop {interval}, {reads} % reads"),
        }
    }
}

struct Row {
    system: System,
    pattern: Pattern,
    latency_ns: f64,
    bandwidth: f64,
    /// Bandwidth in percent of the bus.
    load: f64,
}

const fn row(system: System, pattern: Pattern, latency_ns: f64, bandwidth: f64, load: f64) -> Row {
    Row {
        system,
        pattern,
        latency_ns,
        bandwidth,
        load,
    }
}

/// Reference: mean read latency in nanoseconds, GB/s, percent of peak bandwidth.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    row(Ddr4Dramsim, Random { writes: 1.0 / 3.0, gap: 1, cycles: 6000000 }, 514.39, 18.719, 73.71),
    row(Ddr4Dramsim, Add { cycles: 6000000 }, 251.77, 16.92, 66.62),
    row(Lpddr4Dramsim, Random { writes: 1.0 / 3.0, gap: 1, cycles: 1500000 }, 826.62, 17.411, 90.32),
    row(Lpddr4Dramsim, Add { cycles: 1500000 }, 478.19, 18.139, 94.09),
    row(Ddr4Dramsim, Random { writes: 0.0, gap: 300, cycles: 6000000 }, 46.69, 0.339, 1.33),
    row(Ddr4Dramsim, Random { writes: 0.0, gap: 32, cycles: 1920000 }, 57.43, 3.174, 12.5),
    row(Ddr4Dramsim, Random { writes: 0.0, gap: 16, cycles: 1920000 }, 62.03, 6.349, 25.0),
    row(Ddr4Dramsim, Random { writes: 0.0, gap: 8, cycles: 1920000 }, 77.84, 12.698, 50.0),
    row(Ddr4Dramsim, Random { writes: 0.0, gap: 6, cycles: 1800000 }, 101.85, 16.93, 66.66),
    row(Ddr4Dramsim, Random { writes: 0.0, gap: 1, cycles: 4000000 }, 333.69, 20.528, 80.83),
    row(Ddr4Dramsim, Random { writes: 0.5, gap: 1, cycles: 4000000 }, 586.49, 18.804, 74.04),
    row(Ddr4Dramsim, Sequence { writes: 0.0, gap: 300, cycles: 6000000 }, 27.37, 0.339, 1.33),
    row(Ddr4Dramsim, Sequence { writes: 0.0, gap: 32, cycles: 1920000 }, 29.67, 3.175, 12.5),
    row(Ddr4Dramsim, Sequence { writes: 0.0, gap: 16, cycles: 1920000 }, 34.46, 6.349, 25.0),
    row(Ddr4Dramsim, Sequence { writes: 0.0, gap: 8, cycles: 1920000 }, 59.73, 12.698, 50.0),
    row(Ddr4Dramsim, Sequence { writes: 0.0, gap: 6, cycles: 1800000 }, 179.08, 16.871, 66.43),
    row(Ddr4Dramsim, Sequence { writes: 0.0, gap: 1, cycles: 4000000 }, 179.43, 16.874, 66.44),
    row(Ddr4Dramsim, Sequence { writes: 0.5, gap: 1, cycles: 4000000 }, 322.64, 16.352, 64.39),
    row(Ddr5Ramulator, Random { writes: 0.0, gap: 1, cycles: 13123980 }, 206.32, 11.722, 61.05),
    row(Ddr5Ramulator, Sequence { writes: 0.0, gap: 1, cycles: 9154537 }, 139.58, 16.805, 87.53),
    row(Ddr5Ramulator, Random { writes: 0.33, gap: 1, cycles: 13417597 }, 301.33, 11.466, 59.72),
    row(Ddr5Ramulator, Sequence { writes: 0.33, gap: 1, cycles: 15346248 }, 323.13, 10.025, 52.21),
    row(Ddr5Mop, Sequence { writes: 0.0, gap: 1, cycles: 8739100 }, 134.58, 17.604, 91.69),
    row(Ddr5Mop, Random { writes: 0.0, gap: 1, cycles: 13123892 }, 206.32, 11.722, 61.05),
    row(Ddr4Ramulator3200, Random { writes: 0.0, gap: 1, cycles: 9220442 }, 214.41, 11.105, 43.38),
    row(Ddr4Ramulator3200, Random { writes: 0.33, gap: 1, cycles: 9224269 }, 305.94, 11.101, 43.36),
    row(Ddr4Ramulator3200, Sequence { writes: 0.0, gap: 1, cycles: 6503747 }, 146.44, 15.744, 61.5),
    row(Ddr4Ramulator3200, Sequence { writes: 0.33, gap: 1, cycles: 6323756 }, 205.34, 16.192, 63.25),
    row(Ddr4Ramulator2400, Random { writes: 0.33, gap: 1, cycles: 7040288 }, 310.89, 10.913, 56.84),
    row(Ddr4Ramulator2400, Sequence { writes: 0.33, gap: 1, cycles: 5389626 }, 231.42, 14.255, 74.24),
    row(Ddr5Probe, Probe { interval: 10000, reads: 100 }, 44.83, 1.489, 7.76),
    row(Ddr5Probe, Probe { interval: 100, reads: 100 }, 53.29, 7.338, 38.22),
    row(Ddr5Probe, Probe { interval: 65, reads: 100 }, 54.23, 10.364, 53.98),
    row(Ddr5Probe, Probe { interval: 41, reads: 100 }, 56.8, 15.365, 80.03),
    row(Ddr5Probe, Probe { interval: 33, reads: 100 }, 110.18, 17.593, 91.63),
    row(Ddr5Probe, Probe { interval: 10000, reads: 50 }, 44.93, 1.486, 7.74),
    row(Ddr5Probe, Probe { interval: 100, reads: 50 }, 71.41, 7.049, 36.71),
    row(Ddr5Probe, Probe { interval: 65, reads: 50 }, 80.24, 10.104, 52.62),
    row(Ddr5Probe, Probe { interval: 41, reads: 50 }, 104.55, 14.687, 76.49),
    row(Ddr5Probe, Probe { interval: 33, reads: 50 }, 167.54, 16.22, 84.48),
    row(Ddr4Probe, Probe { interval: 10000, reads: 100 }, 45.1, 1.45, 7.55),
    row(Ddr4Probe, Probe { interval: 100, reads: 100 }, 48.51, 4.393, 22.88),
    row(Ddr4Probe, Probe { interval: 40, reads: 100 }, 50.14, 8.831, 45.99),
    row(Ddr4Probe, Probe { interval: 26, reads: 100 }, 51.5, 12.72, 66.25),
    row(Ddr4Probe, Probe { interval: 20, reads: 100 }, 54.71, 16.002, 83.34),
    row(Ddr4Probe, Probe { interval: 16, reads: 100 }, 136.5, 18.239, 94.99),
    row(Ddr4Probe, Probe { interval: 10000, reads: 50 }, 45.12, 1.449, 7.55),
    row(Ddr4Probe, Probe { interval: 100, reads: 50 }, 53.22, 4.275, 22.27),
    row(Ddr4Probe, Probe { interval: 40, reads: 50 }, 66.16, 8.638, 44.99),
    row(Ddr4Probe, Probe { interval: 26, reads: 50 }, 82.87, 12.281, 63.96),
    row(Ddr4Probe, Probe { interval: 20, reads: 50 }, 98.43, 15.414, 80.28),
    row(Ddr4Probe, Probe { interval: 16, reads: 50 }, 191.84, 17.04, 88.75),
    row(Lpddr5Probe, Probe { interval: 10000, reads: 100 }, 62.83, 0.52, 4.06),
    row(Lpddr5Probe, Probe { interval: 100, reads: 100 }, 69.27, 1.486, 11.61),
    row(Lpddr5Probe, Probe { interval: 30, reads: 100 }, 71.94, 3.858, 30.14),
    row(Lpddr5Probe, Probe { interval: 14, reads: 100 }, 76.55, 7.506, 58.64),
    row(Lpddr5Probe, Probe { interval: 9, reads: 100 }, 84.1, 11.207, 87.55),
];

impl System {
    fn params(self) -> String {
        let common = r#""channels": 1, "row_hit_cap": 1000000"#;
        let dramsim = r#""ranks": 2, "bank_queue": 8, "drain_above": 100, "drain_below": 25,
            "yield_after": 4, "mapping": "RoChRaBaBgCo""#;
        let dramsim = |rest: &str| format!("{{{common}, {dramsim}, {rest}}}");
        let ramulator = |rest: &str| format!(r#"{{{common}, "yield_after": 0, "grade": {rest}}}"#);
        match self {
            Ddr4Dramsim => dramsim(
                r#""grade": "DDR4-3200AA", "clock": "630 ps",
                    "timing": {"rtw_gap": 1, "rank_gap": 1, "rfc": 560, "refi": 12480}"#,
            ),
            Lpddr4Dramsim => dramsim(r#""grade": "LPDDR4-2400", "coalesce": false"#),
            Ddr5Ramulator | Ddr5Probe => ramulator(r#""DDR5-4800AN""#),
            Ddr5Mop => ramulator(r#""DDR5-4800AN", "mapping": "MOP4CLXOR""#),
            Ddr4Ramulator3200 => ramulator(r#""DDR4-3200AA""#),
            Ddr4Ramulator2400 | Ddr4Probe => ramulator(r#""DDR4-2400R""#),
            Lpddr5Probe => ramulator(r#""LPDDR5-6400", "width": 32"#),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Ddr4Dramsim => "DRAMsim3 DDR4-3200",
            Lpddr4Dramsim => "DRAMsim3 LPDDR4-2400",
            Ddr5Ramulator => "Ramulator DDR5-4800AN",
            Ddr5Mop => "Ramulator DDR5-4800AN, MOP4CLXOR",
            Ddr4Ramulator3200 => "Ramulator DDR4-3200AA",
            Ddr4Ramulator2400 => "Ramulator DDR4-2400R",
            Ddr5Probe => "Ramulator DDR5-4800AN, probe",
            Ddr4Probe => "Ramulator DDR4-2400R, probe",
            Lpddr5Probe => "Ramulator LPDDR5-6400, probe",
        }
    }

    /// Clock in picoseconds, bytes in a request, bytes that the simulator counts for a request.
    fn units(self) -> (u64, u64, f64) {
        match self {
            Ddr4Dramsim => (630, 64, 64.0),
            Lpddr4Dramsim => (830, 128, 128.0),
            Ddr5Ramulator | Ddr5Mop | Ddr5Probe => (416, 64, 64.0),
            Ddr4Ramulator3200 => (625, 64, 64.0),
            Ddr4Ramulator2400 | Ddr4Probe => (833, 64, 64.0),
            Lpddr5Probe => (1250, 64, 32.0),
        }
    }

    /// Banks in a group, groups, bursts in a row, and rows, for the addresses of the probe.
    fn shape(self) -> (u64, u64, u64, u64) {
        match self {
            Ddr5Probe => (4, 8, 64, 1 << 16),
            Ddr4Probe => (4, 4, 128, 1 << 16),
            _ => (4, 4, 64, 1 << 15),
        }
    }
}

/// A memory with its requests in flight and the measured latencies.
struct Bench {
    memory: Box<dyn MemoryBackend>,
    clock: u64,
    lines: u16,
    capacity: u64,
    /// For each request by number, the time at which it was sent, and whether it is a read.
    /// Numbers are reused.
    sent: Vec<(u64, bool)>,
    free: Vec<u32>,
    heard: Vec<Completion>,
    rng: StreamRng,
    requests: u64,
    reads: u64,
    read_ps: u64,
}

impl Bench {
    fn new(system: System) -> Result<Bench, Box<dyn Error>> {
        let entry = find(CATALOG, "dram").ok_or("no DRAM in the catalog")?;
        let medium = (entry.build)(&serde_json::from_str(&system.params())?)?;
        // The capacity of the channel, found by trial.
        let mut capacity = 1u64 << 40;
        while medium.check(Bytes(capacity)).is_err() {
            capacity /= 2;
        }
        let (clock, bytes, _) = system.units();
        Ok(Bench {
            memory: medium.backend(MediumSite::alone(Bytes(capacity), 1)),
            clock,
            lines: (bytes / 64) as u16,
            capacity,
            sent: Vec::new(),
            free: Vec::new(),
            heard: Vec::new(),
            rng: StreamRng::new(12345, "validation"),
            requests: 0,
            reads: 0,
            read_ps: 0,
        })
    }

    /// Sends a request if there is room, and returns its number.
    fn send(&mut self, tick: u64, dpa: u64, write: bool) -> Option<u32> {
        let now = SimTime(tick * self.clock);
        if !self.memory.can_accept(now, write) {
            return None;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.sent.push((0, false));
            self.sent.len() as u32 - 1
        });
        self.sent[id as usize] = (now.0, !write);
        self.requests += 1;
        let request = MemoryRequest {
            id,
            dpa: Dpa(dpa),
            lines: self.lines,
            write,
        };
        self.memory.enqueue(now, request);
        Some(id)
    }

    /// Collects the completions up to a tick.
    fn hear(&mut self, tick: u64) {
        self.heard.clear();
        self.memory
            .advance(SimTime(tick * self.clock), &mut self.heard);
        for one in &self.heard {
            let (sent, read) = self.sent[one.id as usize];
            if read {
                self.reads += 1;
                self.read_ps += one.at.0 - sent;
            }
            self.free.push(one.id);
        }
    }

    fn random(&mut self) -> u64 {
        let bytes = u64::from(self.lines) * 64;
        self.rng.below(self.capacity / bytes) * bytes
    }

    /// Sends a request each `gap` ticks in order, or as soon as there is room.
    fn paced(&mut self, random: bool, writes: f64, gap: u64, cycles: u64) {
        let bytes = u64::from(self.lines) * 64;
        let mut wish = None;
        let mut number = 0u64;
        for tick in 0..cycles {
            self.hear(tick);
            if number * gap > tick {
                continue;
            }
            let (dpa, write) = match wish {
                Some(wish) => wish,
                None if random => (self.random(), self.rng.chance(writes)),
                None => (number * bytes % self.capacity, self.rng.chance(writes)),
            };
            wish = Some((dpa, write));
            if self.send(tick, dpa, write).is_some() {
                number += 1;
                wish = None;
            }
        }
    }

    fn add(&mut self, cycles: u64) {
        let bytes = u64::from(self.lines) * 64;
        let mut arrays = [0; 3];
        let mut left = [false; 3];
        let mut offset = u64::MAX;
        for tick in 0..cycles {
            self.hear(tick);
            if offset >= 2 << 20 {
                arrays = [self.random(), self.random(), self.random()];
                offset = 0;
                left = [true; 3];
            }
            for index in 0..3 {
                let dpa = (arrays[index] + offset) % self.capacity / bytes * bytes;
                if left[index] && self.send(tick, dpa, index == 2).is_some() {
                    left[index] = false;
                }
            }
            if left == [false; 3] {
                offset += 64;
                left = [true; 3];
            }
        }
    }

    /// Like Ramulator's latency-throughput driver: turns of stream and probe alternate, eight a
    /// clock. Only each `interval`th turn of the stream sends a request; a probe waits for the one
    /// before. After a warm-up of 10,000 clocks there are 2,000 probes. Returns the number of
    /// clocks after the warm-up.
    fn probe(&mut self, system: System, interval: u64, reads: u64) -> u64 {
        let (banks, groups, bursts, rows) = system.shape();
        let address = |row: u64, bank: u64, group: u64, burst: u64| {
            (((row * banks + bank) * groups + group) * bursts + burst) * 64
        };
        let units = banks * groups;
        let (mut turn, mut index, mut probing) = (0u64, 0u64, false);
        let (mut stream, mut wanted, mut inflight) = (None, None, None);
        let (mut probes, mut probe_ps) = (0u64, 0u64);
        let warmup = 10_000;
        for tick in 0.. {
            self.hear(tick);
            if let Some(probe) = inflight
                && let Some(done) = self.heard.iter().find(|one| one.id == probe)
            {
                probes += 1;
                probe_ps += done.at.0 - self.sent[probe as usize].0;
                inflight = None;
            }
            if tick == warmup {
                self.requests = 0;
            }
            if probes == 2_000 {
                (self.reads, self.read_ps) = (probes, probe_ps);
                return tick - warmup;
            }
            for _ in 0..8 {
                if !probing {
                    let skip = interval > 1 && turn != 0;
                    turn = (turn + 1) % interval;
                    if skip {
                        probing = true;
                        continue;
                    }
                    let (dpa, write) = stream.unwrap_or_else(|| {
                        let unit = index % units;
                        let stagger = if units <= bursts {
                            unit * bursts / units
                        } else {
                            unit / units.div_ceil(bursts)
                        };
                        let step = index / units + stagger;
                        // Consecutive units are in different bank groups.
                        let (group, bank) = (unit % groups, unit / groups);
                        let row = step / bursts % rows;
                        let write = reads < 100 && self.rng.below(100) >= reads;
                        (address(row, bank, group, step % bursts), write)
                    });
                    stream = Some((dpa, write));
                    if self.send(tick, dpa, write).is_some() {
                        (stream, probing) = (None, true);
                        index += 1;
                    }
                } else if inflight.is_some() || tick < warmup {
                    probing = false;
                } else {
                    let dpa = wanted.unwrap_or_else(|| {
                        let place = [rows, banks, groups, bursts].map(|n| self.rng.below(n));
                        address(place[0], place[1], place[2], place[3])
                    });
                    wanted = Some(dpa);
                    inflight = self.send(tick, dpa, false);
                    if inflight.is_some() {
                        (wanted, probing) = (None, false);
                    }
                }
            }
        }
        0
    }
}

/// Measures a row: the latency in nanoseconds, and the bandwidth in GB/s.
fn measure(row: &Row) -> Result<(f64, f64), Box<dyn Error>> {
    let mut bench = Bench::new(row.system)?;
    let cycles = match row.pattern {
        Random {
            writes,
            gap,
            cycles,
        }
        | Sequence {
            writes,
            gap,
            cycles,
        } => {
            let random = matches!(row.pattern, Random { .. });
            bench.paced(random, writes, gap, cycles);
            cycles
        }
        Add { cycles } => {
            bench.add(cycles);
            cycles
        }
        Probe { interval, reads } => bench.probe(row.system, interval, reads),
    };
    let (clock, _, bytes) = row.system.units();
    let nanoseconds = (cycles * clock) as f64 / 1e3;
    let latency = bench.read_ps as f64 / 1e3 / bench.reads.max(1) as f64;
    Ok((latency, bench.requests as f64 * bytes / nanoseconds))
}

/// Allowed deviation of the latency, in percent: unloaded, below 80 % load, and above.
fn allowed(row: &Row) -> f64 {
    let unloaded = match row.pattern {
        Random { gap, .. } | Sequence { gap, .. } => gap >= 300,
        Add { .. } => false,
        Probe { interval, .. } => interval >= 10_000,
    };
    let saturated = row.load >= 80.0
        || match row.pattern {
            Random { gap, .. } | Sequence { gap, .. } => gap == 1,
            Add { .. } => true,
            Probe { .. } => false,
        };
    match (unloaded, saturated) {
        (true, _) => 2.0,
        (_, true) => 20.0,
        _ => 10.0,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    println!(
        "| simulator | pattern | ns there | here | off (of) | GB/s there | here | off (of 5 %) | |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---|");
    let (mut passed, mut total) = (0, 0);
    for row in ROWS {
        let (system, pattern) = (row.system.name(), row.pattern.name());
        if !format!("{system} {pattern}").contains(&wanted) {
            continue;
        }
        let (latency_ns, gigabytes) = measure(row)?;
        let off = |here: f64, there: f64| (here / there - 1.0) * 100.0;
        let latency = off(latency_ns, row.latency_ns);
        let bandwidth = off(gigabytes, row.bandwidth);
        let good = latency.abs() <= allowed(row) && bandwidth.abs() <= 5.0;
        total += 1;
        passed += usize::from(good);
        println!(
            "| {system} | {pattern} | {:.2} | {:.2} | {latency:+.1} % ({} %) | {:.3} | {:.3} | \
             {bandwidth:+.1} % | {} |",
            row.latency_ns,
            latency_ns,
            allowed(row),
            row.bandwidth,
            gigabytes,
            if good { "pass" } else { "**miss**" }
        );
    }
    println!("\n{passed} of {total} pass");
    Ok(())
}
