//! Steady state of a flash drive, on standard output, as CSV unless noted; `docs/explain/ssd.md`
//! shows the results.
//!
//! - `amplification`: write amplification of one plane beside published models.
//! - `tail`: latency of reads and writes over time while a full drive is written at random.
//! - `figure`: the read latencies of `tail` as SVG.

use std::collections::VecDeque;
use std::io::{self, Write};

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Dpa, SimTime};
use cxlab_memory::ssd::{
    CollectionParams, CommandParams, Drive, GcPolicyName, SsdParams, Suspend, WriteBufferParams,
};
use cxlab_memory::{Completion, MediumSite, MemoryBackend, MemoryRequest};

#[path = "../tests/ssd/theory.rs"]
mod theory;

const PAGE: u64 = 4096;
const BLOCKS: u32 = 512;
const PAGES: u32 = 64;
const FREE: u32 = 3;

fn main() -> io::Result<()> {
    let out = &mut io::stdout().lock();
    match std::env::args().nth(1).as_deref() {
        Some("amplification") => amplification(out),
        Some("tail") => tail(out),
        Some("figure") => figure(out),
        _ => {
            writeln!(io::stderr(), "give one of: amplification, tail, figure")?;
            std::process::exit(2);
        }
    }
}

fn build(params: &SsdParams, capacity: u64) -> io::Result<Drive> {
    Drive::new(params, MediumSite::alone(Bytes(capacity), 1)).map_err(io::Error::other)
}

fn policy(name: &str) -> GcPolicyName {
    GcPolicyName::find(name).unwrap_or_default()
}

/// Skewed patterns of writes: to the first fraction of the data goes the second of the writes.
const PATTERNS: [(&str, f64, f64); 3] = [
    ("uniform", 0.5, 0.5),
    ("80/20", 0.2, 0.8),
    ("90/10", 0.1, 0.9),
];

fn amplification(out: &mut impl Write) -> io::Result<()> {
    let policies = ["greedy", "d-choice", "fifo", "cost-benefit"];
    writeln!(out, "pattern,policy,separate,alpha,measured,model,bound")?;
    for (pattern, hot, rate) in PATTERNS {
        for name in policies {
            for separate in [false, true] {
                for alpha in [1.07, 1.1, 1.15, 1.2, 1.28, 1.4, 1.5] {
                    let measured = amplify((hot, rate), name, separate, alpha)?;
                    let uniform = hot == rate;
                    let model = match (name, uniform) {
                        ("greedy", true) => Some(theory::greedy(alpha, PAGES)),
                        ("d-choice", true) => Some(theory::choice(alpha, PAGES, 10.0)),
                        ("fifo", true) => Some(theory::fifo(alpha)),
                        ("fifo", false) if !separate => {
                            Some(theory::fifo_hot_cold(alpha, hot, rate))
                        }
                        _ => None,
                    };
                    let model = model.map_or(String::new(), |model| format!("{model:.4}"));
                    let bound = match uniform {
                        true => String::new(),
                        false => format!("{:.4}", theory::separated(alpha, hot, rate, PAGES)),
                    };
                    writeln!(
                        out,
                        "{pattern},{name},{separate},{alpha},{measured:.4},{model},{bound}"
                    )?;
                }
            }
        }
    }
    Ok(())
}

fn amplify((hot, rate): (f64, f64), name: &str, separate: bool, alpha: f64) -> io::Result<f64> {
    let params = SsdParams {
        channels: 1,
        ways: 1,
        planes: Some(1),
        blocks: Some(BLOCKS),
        pages: Some(PAGES),
        page: Some(Bytes(PAGE)),
        write_buffer: WriteBufferParams {
            capacity: Bytes(32 << 10),
            ..WriteBufferParams::default()
        },
        collection: CollectionParams {
            policy: policy(name),
            separate,
            start: FREE,
            wear_static: 0,
            ..CollectionParams::default()
        },
        fill: 1.0,
        overwrite: 5.0,
        ..SsdParams::default()
    };
    let open = if separate { 2.0 } else { 1.0 };
    let used = f64::from(BLOCKS) - f64::from(FREE) - open / 2.0;
    let count = (used * f64::from(PAGES) / alpha) as u64;
    let mut drive = build(&params, count * PAGE)?;
    let mut rng = StreamRng::new(3, "writes");
    let border = (count as f64 * hot) as u64;
    let (mut now, mut done) = (SimTime(0), Vec::new());
    for number in 0..10 * count {
        if number == 6 * count {
            drive.begin_measurement(now);
        }
        let page = if rng.chance(rate) {
            rng.below(border)
        } else {
            border + rng.below(count - border)
        };
        drive.enqueue(now, request(0, page, 64, true));
        while let Some(at) = drive.next_event().filter(|_| number % 8 == 7) {
            now = at;
            drive.advance(at, &mut done);
        }
        done.clear();
    }
    Ok(statistic(&drive, now, "ftl.write_amplification"))
}

fn request(id: u32, page: u64, lines: u16, write: bool) -> MemoryRequest {
    MemoryRequest {
        id,
        dpa: Dpa(page * PAGE),
        lines,
        write,
    }
}

fn statistic(drive: &Drive, now: SimTime, name: &str) -> f64 {
    let mut all = Vec::new();
    drive.statistics(now, &mut all);
    let found = all.iter().find(|one| one.name == name);
    found.map_or(f64::NAN, |one| one.value)
}

/// Requests in a run, and the mean time between two of them in picoseconds.
const REQUESTS: u32 = 4_000_000;
const GAP: u64 = 2_500_000;
/// Time that a row covers, in picoseconds.
const BIN: u64 = 250_000_000_000;
/// Capacity of the drive in bytes.
const CAPACITY: u64 = 4 << 30;

/// A row: the requests completed in an interval of time.
struct Row {
    ms: u64,
    reads: Vec<f64>,
    writes: Vec<f64>,
    amplification: f64,
    collected: f64,
}

/// Percentiles in a row.
const PARTS: [f64; 4] = [0.5, 0.99, 0.999, 1.0];

/// The names and the parameters of the runs.
fn variants() -> [(&'static str, SsdParams); 3] {
    let base = SsdParams {
        planes: Some(1),
        pages: Some(64),
        over_provisioning: 0.2,
        collection: CollectionParams {
            start: 6,
            ..CollectionParams::default()
        },
        fill: 1.0,
        ..SsdParams::default()
    };
    let not_preemptible = SsdParams {
        collection: CollectionParams {
            preemptible: false,
            ..base.collection.clone()
        },
        ..base.clone()
    };
    let no_suspend = SsdParams {
        commands: CommandParams {
            suspend: Suspend::Never,
            ..base.commands.clone()
        },
        ..base.clone()
    };
    [
        ("preemptible", base),
        ("no suspend", no_suspend),
        ("not preemptible", not_preemptible),
    ]
}

/// A drive of 4 GiB that is full and has never collected: 400,000 requests a second at random
/// times. Every fourth request writes 4 KiB, and the others read 64 B.
fn tail(out: &mut impl Write) -> io::Result<()> {
    let names = "read_p50_us,read_p99_us,read_p999_us,read_max_us,write_p50_us,write_p99_us,write_p999_us,write_max_us";
    writeln!(out, "variant,ms,{names},write_amplification,collected")?;
    for (name, params) in variants() {
        for row in run_tail(&params)? {
            write!(out, "{name},{}", row.ms)?;
            for time in row.reads.iter().chain(&row.writes) {
                write!(out, ",{time:.2}")?;
            }
            writeln!(out, ",{:.3},{}", row.amplification, row.collected)?;
        }
    }
    Ok(())
}

fn run_tail(params: &SsdParams) -> io::Result<Vec<Row>> {
    let mut drive = build(params, CAPACITY)?;
    let mut rng = StreamRng::new(11, "tail");
    let mut rows = Vec::new();
    let (mut now, mut end, mut done) = (0, BIN, Vec::<Completion>::new());
    let mut began = vec![0u64; REQUESTS as usize];
    let mut times = [Vec::new(), Vec::new()];
    let mut waiting = [VecDeque::new(), VecDeque::new()];
    for id in 0..REQUESTS {
        now += rng.below(2 * GAP);
        while let Some(at) = drive.next_event().filter(|at| at.0 <= now) {
            drive.advance(at, &mut done);
            for one in done.drain(..) {
                let time = one.at.0 - began[one.id as usize];
                times[usize::from(one.id % 4 == 0)].push(time);
            }
            admit(&mut drive, at, &mut waiting);
        }
        began[id as usize] = now;
        let write = id % 4 == 0;
        let lines = if write { 64 } else { 1 };
        let request = request(id, rng.below(CAPACITY / PAGE), lines, write);
        waiting[usize::from(write)].push_back(request);
        admit(&mut drive, SimTime(now), &mut waiting);
        if now >= end {
            let [reads, writes] = &mut times;
            rows.push(Row {
                ms: end / 1_000_000_000,
                reads: percentiles(reads),
                writes: percentiles(writes),
                amplification: statistic(&drive, SimTime(end), "ftl.write_amplification"),
                collected: statistic(&drive, SimTime(end), "gc.blocks"),
            });
            drive.begin_measurement(SimTime(end));
            end += BIN;
        }
    }
    Ok(rows)
}

/// Enqueues requests while the drive accepts them, reads and writes each in their order.
fn admit(drive: &mut Drive, now: SimTime, waiting: &mut [VecDeque<MemoryRequest>; 2]) {
    for queue in waiting {
        while let Some(first) = queue.front().copied() {
            if !drive.can_accept(now, first.write) {
                break;
            }
            drive.enqueue(now, first);
            queue.pop_front();
        }
    }
}

/// Percentiles in microseconds. Empties the list.
fn percentiles(list: &mut Vec<u64>) -> Vec<f64> {
    list.sort_unstable();
    let of = |part: f64| {
        let at = ((list.len() as f64 * part) as usize).min(list.len().saturating_sub(1));
        list.get(at).map_or(0.0, |time| *time as f64 / 1e6)
    };
    let all = PARTS.map(of).to_vec();
    list.clear();
    all
}

/// Read latency over time, percentiles by colour, variants side by side, as SVG.
fn figure(out: &mut impl Write) -> io::Result<()> {
    let colours = ["#4477aa", "#ccbb44", "#ee6677", "#aa3377"];
    let (width, height, left, top) = (240.0, 220.0, 60.0, 30.0);
    // One decade is 44 units high, with 1 us at the bottom.
    let y = |time: f64| top + height - 44.0 * time.max(1.0).log10();
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 860 310\" font-family=\"sans-serif\" font-size=\"12\"><rect width=\"860\" height=\"310\" fill=\"white\"/>"
    )?;
    for (number, (name, params)) in variants().into_iter().enumerate() {
        let rows = run_tail(&params)?;
        let begin = left + number as f64 * (width + 20.0);
        let last = rows.last().map_or(1, |row| row.ms) as f64;
        writeln!(
            out,
            "<text x=\"{begin}\" y=\"20\">{name}</text><rect x=\"{begin}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"#999\"/>"
        )?;
        for (part, colour) in colours.iter().enumerate() {
            let points = rows.iter().map(|row| {
                let x = begin + width * row.ms as f64 / last;
                format!("{x:.1},{:.1}", y(row.reads[part]))
            });
            let points: Vec<String> = points.collect();
            let points = points.join(" ");
            writeln!(
                out,
                "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
            )?;
        }
        let (middle, below) = (begin + width / 2.0, top + height + 16.0);
        writeln!(
            out,
            "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">0 to {:.1} s</text>",
            last / 1000.0
        )?;
    }
    for (power, label) in ["1 us", "10 us", "100 us", "1 ms", "10 ms", "100 ms"]
        .iter()
        .enumerate()
    {
        let at = y(10f64.powi(power as i32));
        let (end, line) = (left - 4.0, at + 4.0);
        writeln!(
            out,
            "<text x=\"{end}\" y=\"{line:.1}\" text-anchor=\"end\">{label}</text><path d=\"M{left} {at:.1}H820\" stroke=\"#ddd\"/>"
        )?;
    }
    for (part, (name, colour)) in ["median", "99 %", "99.9 %", "most"]
        .iter()
        .zip(colours)
        .enumerate()
    {
        let x = left + 110.0 * part as f64;
        writeln!(
            out,
            "<path d=\"M{x} 290h24\" stroke=\"{colour}\" stroke-width=\"2\"/><text x=\"{}\" y=\"294\">{name}</text>",
            x + 30.0
        )?;
    }
    writeln!(out, "</svg>")
}
