//! The report of an attached run as people read it: slowdown, pools, and where its numbers come from.

use cxlab_attach::report::{AttachReport, SampledReport, Tier};
use cxlab_attach::slowdown::{PoolReport, Slowdown};
use cxlab_system::analytic::PlanFabric;
use cxlab_system::layout::{SHOWN, cells, nanos, table};

use super::profile::by_source;
use crate::verify::{ModelSide, ThreadResult, Verification};

/// Report of a run as text. `pools` has the names of the pools with their unloaded latencies.
pub(super) fn summary(
    scenario: &str,
    pools: &[(String, f64)],
    fabric: &PlanFabric<'_>,
    report: &AttachReport,
) -> String {
    let mut text = format!("\n{scenario} (attach): {}\n\n", headline(report));
    text.push_str(&by_pool(pools, &report.pools, report.local_latency_ns));
    text.push_str(&error_of(fabric));
    text.push('\n');
    text.push_str(&origin(report));
    for note in &report.notes {
        text.push_str(&format!("  note: {note}\n"));
    }
    text
}

/// Error bounds of the fabric's latencies against the event engine.
pub(super) fn error_of(fabric: &PlanFabric<'_>) -> String {
    let (classes, worst) = fabric.error_classes();
    let Some(worst) = worst else {
        return String::new();
    };
    let parts: Vec<String> = classes
        .iter()
        .map(|(class, part)| format!("{class} for {:.1} % of the lines", 100.0 * part))
        .collect();
    format!(
        "  error of the latencies against the event engine: {}; the worst because {}\n",
        parts.join(", "),
        worst.why
    )
}

/// The slowdown with its interval, or the reason why there is none.
fn headline(report: &AttachReport) -> String {
    match &report.slowdown {
        Some(slowdown) => slower(slowdown),
        None => {
            let why = report.no_slowdown.as_deref().unwrap_or("it is not known");
            format!("no slowdown: {why}")
        }
    }
}

/// A slowdown with its interval.
pub(super) fn slower(slowdown: &Slowdown) -> String {
    format!(
        "slowdown {:.2} ({:.2} to {:.2})\n  native {:.3} s of CPU time, with CXL memory {:.3} s ({:.3} to {:.3} s)",
        slowdown.factor,
        slowdown.least,
        slowdown.most,
        slowdown.native_s,
        slowdown.with_cxl_s,
        slowdown.native_s * slowdown.least,
        slowdown.native_s * slowdown.most
    )
}

/// Table of the program's requests to each pool.
pub(super) fn by_pool(pools: &[(String, f64)], used: &[PoolReport], local_ns: f64) -> String {
    let mut rows = vec![cells([
        "pool",
        "without load, ns",
        "latency, ns",
        "misses",
        "share",
        "written back",
        "waits",
    ])];
    for (pool, (_, unloaded)) in used.iter().zip(pools).take(SHOWN) {
        rows.push(vec![
            pool.name.clone(),
            nanos(*unloaded),
            pool.latency_ns.map_or("-".to_owned(), nanos),
            format!("{:.0}", pool.misses),
            format!("{:.1} %", pool.share * 100.0),
            format!("{:.0}", pool.write_backs),
            format!("{:.0}", pool.waits),
        ]);
    }
    rows[1][1] = nanos(local_ns);
    table(&rows)
}

/// Prices of CPU time, charged delay and method of the run.
fn origin(report: &AttachReport) -> String {
    let delay = &report.delay;
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let mut text = match &report.sampled {
        Some(sampled) => outstanding(sampled, report.cpu_s),
        None => String::new(),
    };
    if report.tier.number > 1 {
        text.push_str(&by_count(report));
    }
    text.push_str(&format!(
        "  delay asked for {:.6} s, charged {:.6} s ({:+.2} %): held {:.6} s, and {:.6} s were taken by attaching \
         itself\n",
        seconds(delay.asked_ns),
        seconds(delay.charged_ns),
        report.delay_error_percent,
        seconds(delay.held_ns),
        seconds(delay.taken_ns)
    ));
    let windows = match report.tier.number > 1 {
        true => format!(
            "; {} windows with {} instructions in all took {:.3} s",
            report.windows, report.window_instructions, report.window_s
        ),
        false => String::new(),
    };
    text.push_str(&format!("  real time {:.3} s{windows}\n", report.real_s));
    text.push_str(&tier(&report.tier));
    for line in &report.tier.refused {
        text.push_str(&format!("  not {line}\n"));
    }
    text
}

/// The tier, with its expected accuracy.
pub(super) fn tier(tier: &Tier) -> String {
    format!(
        "  tier {}, {}; {}\n",
        tier.number, tier.name, tier.error_class
    )
}

/// Time with misses outstanding, and the samples.
fn outstanding(sampled: &SampledReport, cpu_s: f64) -> String {
    format!(
        "  misses outstanding, natively: {:.3} s of {cpu_s:.3} s\n\n{}\n",
        sampled.outstanding_s,
        by_source(&sampled.profile)
    )
}

/// CPU time by the method that determined its number of instructions.
fn by_count(report: &AttachReport) -> String {
    let mut text = format!(
        "  CPU time {:.3} s: {:.3} s with instructions counted by registers, {:.3} s at the pace of those, {:.3} s at \
         the model's\n",
        report.cpu_s, report.parts.counted_s, report.parts.paced_s, report.parts.priced_s
    );
    if report.parts.kernel_s + report.parts.unpriced_s >= 0.0005 {
        text.push_str(&format!(
            "  without a price: {:.3} s in the kernel (to 10 ms), whose memory stays local, and {:.3} s of code that no window \
             saw\n",
            report.parts.kernel_s, report.parts.unpriced_s
        ));
    }
    text
}

fn seconds(nanos: f64) -> String {
    format!("{:.6}", nanos / 1e9)
}

/// The row of the event engine: local time and delay in nanoseconds, and slowdown.
fn engine_row(
    name: String,
    lines: String,
    [local_ns, delay_ns, slowdown]: [f64; 3],
) -> Vec<String> {
    let none = || "-".to_owned();
    vec![
        name,
        lines,
        none(),
        seconds(local_ns),
        seconds(delay_ns),
        none(),
        format!("{slowdown:.4}"),
        none(),
        none(),
    ]
}

fn model_row(name: &str, side: &ModelSide) -> Vec<String> {
    let percent = |error: f64| format!("{error:+.1} %");
    vec![
        name.to_owned(),
        format!("{:.0}", side.lines),
        format!("{:.0}", side.waits),
        seconds(side.local_ns),
        seconds(side.delay_ns),
        side.error_percent.map_or("-".to_owned(), percent),
        format!("{:.4}", side.slowdown),
        percent(side.slowdown_error_percent),
        percent(side.same_local_error_percent),
    ]
}

/// The rows of one of several threads.
fn thread_rows(thread: &ThreadResult) -> [Vec<String>; 3] {
    let name = |what: &str| format!("thread {}: {what}", thread.thread);
    let times = [thread.local_ns, thread.delay_ns, thread.slowdown];
    [
        engine_row(name("event engine"), "-".to_owned(), times),
        model_row(&name("model, every miss known"), &thread.exact),
        model_row(&name("model, in samples"), &thread.sampled),
    ]
}

/// The event engine, the model on the same execution, and this run side by side.
pub(super) fn comparison(verified: &Verification) -> String {
    let engine = &verified.engine;
    let mut rows = vec![cells([
        "delay by",
        "lines",
        "waits",
        "local, s",
        "delay, s",
        "error",
        "slowdown",
        "error",
        "same local",
    ])];
    rows.push(engine_row(
        "event engine, exact execution".to_owned(),
        (engine.misses + engine.prefetches).to_string(),
        [engine.local_ns, engine.delay_ns, engine.slowdown],
    ));
    rows.push(model_row("model, every miss known", &verified.exact));
    rows.push(model_row("model, in samples", &verified.sampled));
    for one in &verified.by_period {
        let name = match one.period {
            1 => "sampled addresses, all misses".to_owned(),
            period => format!("sampled addresses, 1 of {period}"),
        };
        rows.push(model_row(&name, &one.side));
    }
    let run = [
        ("this run", &verified.run),
        ("this run, model's time", &verified.run_modelled),
    ];
    let run = run
        .iter()
        .filter_map(|(name, side)| Some((*name, side.as_ref()?)));
    rows.extend(run.map(|(name, side)| model_row(name, side)));
    rows.extend(verified.threads.iter().flat_map(thread_rows));
    let mut text = format!(
        "\n  verified with {}: {} instructions; each slowdown is over that row's own time with local \
         memory; same local: its error where delay comes to the engine's time\n\n{}",
        verified.recorder,
        verified.instructions,
        table(&rows)
    );
    if let Some(to_end) = &verified.to_end {
        text.push_str(&format!(
            "  {} threads, whose times are added up above; from the program's beginning to its end by the event \
             engine: {} s with local memory, {} s with CXL memory, slowdown {:.4}\n",
            verified.threads.len(),
            seconds(to_end.local_ns),
            seconds(to_end.placed_ns),
            to_end.slowdown
        ));
    }
    for note in &verified.notes {
        text.push_str(&format!("  note: {note}\n"));
    }
    text
}
