//! What a program would have cost with its memory elsewhere or on another fabric, ranked.

use std::collections::{BTreeMap, BTreeSet};

use cxlab_attach::fabric::Fabric;
use cxlab_attach::located::LocatedPhase;
use cxlab_attach::placement::Placement;
use cxlab_attach::profile::cost::{ProfileCost, SampledMachine};
use cxlab_attach::profile::{Profile, ProfileError};
use cxlab_attach::recording::Recording;
use cxlab_attach::replay::{Choice, cost, cxl_bytes, mapped_bytes, without};
use cxlab_attach::symbols::Symbols;
use cxlab_system::layout::{cells, table};
use serde::Serialize;

/// Factor by which the delay may be wrong either way: the error class of the recorded run.
const ERROR_FACTOR: f64 = 2.0;
/// Most objects that are tried as local memory alone.
const OBJECTS: usize = 4;
/// Least share of the delay of an object that is tried alone.
const MIN_SHARE: f64 = 0.02;
/// Shares of a program's memory that are tried as local memory, in quarters.
const QUARTERS: [u64; 3] = [1, 2, 3];

/// A change, with the cost of the program after it.
#[derive(Clone, Serialize, Debug)]
pub(super) struct Case {
    change: String,
    /// Bytes of CXL memory that the program's mappings take.
    #[serde(skip_serializing_if = "Option::is_none")]
    cxl_bytes: Option<u64>,
    delay_s: f64,
    slowdown: f64,
    least: f64,
    most: f64,
    /// Whether the case is the recorded run itself.
    as_recorded: bool,
}

/// Cases, least slowdown first.
#[derive(Clone, Serialize, Debug)]
pub(super) struct Advice {
    pub(super) cases: Vec<Case>,
    /// Data that was replayed: windows or samples.
    by: &'static str,
    /// Delay that the recorded run requested, and delay of its replay, in seconds. The difference is the error of
    /// replaying. `None` on another scenario.
    asked_s: Option<f64>,
    replayed_s: Option<f64>,
}

/// A fabric to try, with its name.
pub(super) struct TriedFabric<'a> {
    pub(super) name: String,
    pub(super) fabric: &'a mut dyn Fabric,
}

/// The run to replay.
pub(super) struct Run<'a> {
    pub(super) recording: &'a Recording,
    pub(super) placement: Placement,
    pub(super) native_s: f64,
    /// Delay that the run requested on the first fabric, in seconds, and by place. `None` if the run had another fabric.
    pub(super) asked: Option<(f64, &'a [LocatedPhase])>,
}

/// Tries placements on the first fabric, and the run's placement on the others.
pub(super) fn advise(run: &Run<'_>, fabrics: Vec<TriedFabric<'_>>) -> Advice {
    let recording = run.recording;
    let case = |change: String, delay_s: f64, cxl_bytes: Option<u64>| {
        let factor = |delay_s: f64| 1.0 + delay_s / run.native_s;
        Case {
            change,
            cxl_bytes,
            delay_s,
            slowdown: factor(delay_s),
            least: factor(delay_s / ERROR_FACTOR),
            most: factor(delay_s * ERROR_FACTOR),
            as_recorded: false,
        }
    };
    let mut cases = Vec::new();
    let mut replayed_s = None;
    for (number, tried) in fabrics.into_iter().enumerate() {
        let mut of = |choice: Choice| cost(recording, tried.fabric, choice).delay_ns / 1e9;
        let own = Choice::Placed(run.placement);
        let bytes = Some(cxl_bytes(recording, own));
        let delay_s = of(own);
        if number > 0 {
            cases.push(case(format!("fabric of {}", tried.name), delay_s, bytes));
            continue;
        }
        replayed_s = Some(delay_s);
        let name = match run.asked {
            Some(_) => "as it was".to_owned(),
            None => format!("as it was, on {}", tried.name),
        };
        cases.push(Case {
            as_recorded: run.asked.is_some(),
            ..case(name, delay_s, bytes)
        });
        for (name, choice) in choices(mapped_bytes(recording)) {
            if choice != own {
                cases.push(case(name, of(choice), Some(cxl_bytes(recording, choice))));
            }
        }
    }
    if let Some((asked_s, phases)) = run.asked {
        for (name, left_s) in pieces(recording, phases, asked_s) {
            cases.push(case(name, left_s, None));
        }
    }
    sort(&mut cases);
    Advice {
        cases,
        by: "the recorded windows",
        asked_s: run.asked.map(|(asked_s, _)| asked_s),
        replayed_s: replayed_s.filter(|_| run.asked.is_some()),
    }
}

/// A sampled program, with its cost without changes.
pub(super) struct Sampling<'a> {
    pub(super) profile: &'a Profile,
    pub(super) machine: &'a SampledMachine,
    pub(super) placement: Placement,
    pub(super) cost: &'a ProfileCost,
}

/// Tries placements of a sampled program on the first fabric, and its placement on the others.
///
/// # Errors
/// [`ProfileError`]
pub(super) fn advise_sampled(
    run: &Sampling<'_>,
    fabrics: Vec<TriedFabric<'_>>,
) -> Result<Advice, ProfileError> {
    let case = |change: String, cost: &ProfileCost| {
        let slowdown = &cost.slowdown;
        Case {
            change,
            cxl_bytes: Some(cost.cxl_bytes),
            delay_s: slowdown.with_cxl_s - slowdown.native_s,
            slowdown: slowdown.factor,
            least: slowdown.least,
            most: slowdown.most,
            as_recorded: false,
        }
    };
    let mut cases = vec![Case {
        as_recorded: true,
        ..case("as it was".to_owned(), run.cost)
    }];
    for (number, tried) in fabrics.into_iter().enumerate() {
        let mut of = |placement| run.profile.cost(tried.fabric, placement, run.machine);
        if number > 0 {
            let cost = of(run.placement)?;
            cases.push(case(format!("fabric of {}", tried.name), &cost));
            continue;
        }
        for (name, choice) in choices(run.cost.mapped_bytes) {
            if let Choice::Placed(placement) = choice
                && placement != run.placement
            {
                cases.push(case(name, &of(placement)?));
            }
        }
    }
    let slowdown = &run.cost.slowdown;
    let asked_s = slowdown.with_cxl_s - slowdown.native_s;
    for (name, left_s) in pieces(&run.cost.recording, &run.cost.located, asked_s) {
        let part = if asked_s > 0.0 { left_s / asked_s } else { 0.0 };
        let factor = |factor: f64| 1.0 + part * (factor - 1.0);
        cases.push(Case {
            change: name,
            cxl_bytes: None,
            delay_s: left_s,
            slowdown: factor(slowdown.factor),
            least: factor(slowdown.least),
            most: factor(slowdown.most),
            as_recorded: false,
        });
    }
    sort(&mut cases);
    Ok(Advice {
        cases,
        by: "the samples",
        asked_s: None,
        replayed_s: None,
    })
}

/// Least slowdown first.
fn sort(cases: &mut [Case]) {
    cases.sort_by(|one, other| {
        let order = one.slowdown.total_cmp(&other.slowdown);
        order.then(one.cxl_bytes.cmp(&other.cxl_bytes).reverse())
    });
}

/// Placements to try for a program with `all` mapped bytes.
fn choices(all: u64) -> Vec<(String, Choice)> {
    let mut choices = vec![("--placement cxl".to_owned(), Choice::Placed(Placement::Cxl))];
    for quarters in QUARTERS {
        let mib = (all / 4 * quarters) >> 20;
        if mib > 0 {
            let bytes = mib << 20;
            let first = format!("--placement local-first:{mib}MiB");
            choices.push((first, Choice::Placed(Placement::LocalFirst(bytes))));
            let hottest = format!("hottest {mib} MiB local");
            choices.push((hottest, Choice::Hottest(bytes)));
        }
    }
    for (local, cxl) in [(1, 1), (3, 1)] {
        let choice = Choice::Placed(Placement::Interleave(local, cxl));
        choices.push((format!("--placement interleave:{local}:{cxl}"), choice));
    }
    choices
}

/// The objects with most delay, each with the total delay if it is local.
fn pieces(recording: &Recording, phases: &[LocatedPhase], asked_s: f64) -> Vec<(String, f64)> {
    let mut symbols = Symbols::new(recording);
    let mut by_name: BTreeMap<String, (f64, Option<u64>)> = BTreeMap::new();
    let objects: BTreeSet<u32> = phases
        .iter()
        .flat_map(|phase| phase.objects.keys().copied())
        .collect();
    for object in objects {
        let (name, bytes) = symbols.object(object);
        let saved_s = asked_s - without(phases, object) / 1e9;
        let of = by_name.entry(name).or_default();
        of.0 += saved_s;
        of.1 = of.1.max(bytes);
    }
    let mut all: Vec<(String, f64, Option<u64>)> = by_name
        .into_iter()
        .filter(|(name, (saved_s, _))| *saved_s > MIN_SHARE * asked_s && name != "unknown")
        .map(|(name, (saved_s, bytes))| (name, saved_s, bytes))
        .collect();
    all.sort_by(|one, other| other.1.total_cmp(&one.1));
    all.truncate(OBJECTS);
    all.into_iter()
        .map(|(name, saved_s, bytes)| {
            let size = bytes.map_or(String::new(), |bytes| {
                format!("{:.0} MiB ", bytes as f64 / f64::from(1 << 20))
            });
            (format!("local: {size}{name}"), (asked_s - saved_s).max(0.0))
        })
        .collect()
}

impl Advice {
    /// A table for users.
    pub(super) fn text(&self) -> String {
        let mut rows = vec![cells([
            "change",
            "CXL memory, MiB",
            "delay, s",
            "slowdown",
            "from",
            "to",
        ])];
        for case in &self.cases {
            let mark = if case.as_recorded { "> " } else { "" };
            rows.push(vec![
                format!("{mark}{}", case.change),
                case.cxl_bytes
                    .map_or("-".to_owned(), |bytes| (bytes >> 20).to_string()),
                format!("{:.6}", case.delay_s),
                format!("{:.3}", case.slowdown),
                format!("{:.3}", case.least),
                format!("{:.3}", case.most),
            ]);
        }
        let mut text = format!("\nwhat if, by {}\n\n{}", self.by, table(&rows));
        if let (Some(asked), Some(replayed)) = (self.asked_s, self.replayed_s) {
            let error = match asked > 0.0 {
                true => format!(" ({:+.1} %)", 100.0 * (replayed / asked - 1.0)),
                false => String::new(),
            };
            text.push_str(&format!(
                "  replayed as it was: {replayed:.6} s of delay, where the run asked for {asked:.6} s{error}\n"
            ));
        }
        text.push_str("  \"local:\" takes away what its misses have of the delay; the others are modelled anew\n");
        text
    }
}
