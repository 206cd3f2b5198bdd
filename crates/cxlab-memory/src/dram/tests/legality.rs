//! No command breaks a rule of its standard, for every grade and organization under random traffic.

use cxlab_engine::rng::StreamRng;

use super::checker::check;
use super::owner::{drive, memory, params, read};
use crate::dram::standards;
use crate::dram::{CommandKind, DramParams};
use crate::testing::TimedRequest;

/// Random and sequential traffic in phases: reads and writes, one line and several,
/// dense and sparse.
pub fn traffic(seed: u64, count: usize, capacity: u64) -> Vec<TimedRequest> {
    let mut rng = StreamRng::new(seed, "traffic");
    let mut list = Vec::with_capacity(count);
    let mut at = 0;
    while list.len() < count {
        let length = 20 + rng.below(200);
        let sequential = rng.chance(0.5);
        let hot = rng.chance(0.3);
        let gap = [0, 0, 1_000, 3_000, 20_000, 400_000][rng.below(6) as usize];
        let length = if gap > 100_000 { length / 8 } else { length };
        let writes = [0.0, 0.1, 0.5, 1.0][rng.below(4) as usize];
        let lines = if rng.chance(0.2) { 4 } else { 1 };
        let mut dpa = rng.below(capacity / 64) * 64;
        for _ in 0..length {
            if sequential {
                dpa = (dpa + 64) % capacity;
            } else if hot {
                dpa = rng.below(64) * 8192 % capacity;
            } else {
                dpa = rng.below(capacity / 64) * 64;
            }
            let first = dpa.min(capacity - 64 * u64::from(lines));
            list.push((at, first, lines, rng.chance(writes)));
            at += rng.below(2 * gap + 1);
        }
    }
    list.truncate(count);
    list
}

fn violations(params: &DramParams, seed: u64, count: usize) -> (Vec<String>, usize) {
    let resolved = params.resolve().unwrap();
    let (standard, _) = standards::find(&params.grade).unwrap();
    let mut memory = memory(params);
    let wishes = traffic(seed, count, resolved.capacity.0);
    let heard = drive(&mut memory, &wishes);
    assert!(
        heard.done.iter().all(|at| *at != u64::MAX),
        "a request was lost"
    );
    let mut wrong = Vec::new();
    let mut commands = 0;
    for channel in 0..resolved.channels {
        let list = &memory.observer(channel).0;
        commands += list.len();
        wrong.extend(check(list, &resolved, &standard.bus));
    }
    (wrong, commands)
}

fn assert_legal(params: &DramParams, seed: u64, count: usize) {
    let (wrong, commands) = violations(params, seed, count);
    assert!(commands > count, "{commands} commands for {count} requests");
    assert!(
        wrong.is_empty(),
        "{params:?}: {} violations, the first: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(3)]
    );
}

#[test]
fn no_grade_and_organization_breaks_a_rule() {
    let mut seed = 0;
    for (standard, grade) in standards::grades() {
        for organization in standard.organizations {
            seed += 1;
            let params = params(&format!(
                r#"{{"grade": "{}", "organization": "{}", "channels": 1}}"#,
                grade.name, organization.name
            ));
            assert_legal(&params, seed, 1_500);
        }
    }
}

#[test]
fn no_policy_breaks_a_rule() {
    let grades = [
        ("DDR4-3200AA", "all-bank"),
        ("DDR5-5600AN", "same-bank"),
        ("LPDDR4-2400", "all-bank"),
        ("LPDDR5-6400", "per-bank"),
        ("HBM2-2000", "per-bank"),
        ("HBM3-6400", "per-bank"),
        ("DDR5-4800BN", "all-bank"),
        ("HBM3-6400", "all-bank"),
        ("HBM1-2000", "per-bank"),
        ("HBM4-8000", "per-bank"),
        ("LPDDR5X-8533", "per-bank"),
        ("LPDDR6-10667", "all-bank"),
    ];
    let policies = [
        r#""ranks": 2, "mapping": "MOP4CLXOR""#,
        r#""ranks": 2, "hash": {"kind": "fold"}"#,
        r#""ranks": 4, "bank_queue": 8, "drain_above": 100, "drain_below": 25"#,
        r#""ranks": 2, "rank_queue": 6, "page": {"kind": "capped", "accesses": 3}"#,
        r#""page": {"kind": "closed"}, "mapping": "ChRaBaRoCo", "ranks": 2"#,
        r#""yield_after": 0, "page": {"kind": "capped", "accesses": 2}, "channels": 2"#,
        r#""page": {"kind": "capped", "idle": "100 ns"}, "ranks": 2, "stagger": false"#,
        r#""bank_queue": 4, "page": {"kind": "closed"}, "write_done": "written""#,
        r#""row_hit_cap": 1, "write_queue": 4, "read_queue": 64, "channels": 4"#,
        r#""write_done": "written", "ranks": 2, "page": {"kind": "capped", "accesses": 8, "idle": "50 ns"}"#,
    ];
    let mut seed = 1_000;
    for (grade, refresh) in grades {
        for policy in policies {
            seed += 1;
            let params = params(&format!(
                r#"{{"grade": "{grade}", "refresh": "{refresh}", {policy}}}"#
            ));
            assert_legal(&params, seed, 3_000);
        }
    }
}

#[test]
fn stack_ids_and_refresh_management_break_no_rule() {
    let mut seed = 5_000;
    for what in [
        r#""grade": "HBM3-6400", "organization": "16Gb 8-high", "refresh": "per-bank""#,
        r#""grade": "HBM3-5200", "organization": "16Gb 16-high", "ranks": 2"#,
        r#""grade": "HBM4-8000", "organization": "16Gb 16-high", "refresh": "per-bank""#,
        r#""grade": "DDR5-4800BN", "rfm": 8"#,
        r#""grade": "DDR5-6400AN", "rfm": 8, "refresh": "same-bank", "ranks": 2"#,
        r#""grade": "HBM3-6400", "rfm": 8, "refresh": "per-bank", "bank_queue": 4"#,
        r#""grade": "HBM4-8000", "organization": "8Gb 8-high", "rfm": 8, "rank_queue": 16"#,
    ] {
        for page in ["open", "closed"] {
            seed += 1;
            let text = format!(r#"{{{what}, "page": {{"kind": "{page}"}}}}"#);
            assert_legal(&params(&text), seed, 4_000);
        }
    }
}

/// The checker finds each broken rule: a stream that the scheduler made for looser timings is
/// checked against the true ones.
#[test]
fn the_checker_finds_every_loosened_timing() {
    let loosened = [
        ("DDR4-3200AA", "all-bank", "cl"),
        ("DDR4-3200AA", "all-bank", "rcd"),
        ("DDR4-3200AA", "all-bank", "rcd_wr"),
        ("DDR4-3200AA", "all-bank", "rp"),
        ("DDR4-3200AA", "all-bank", "ras"),
        ("DDR4-3200AA", "all-bank", "rc"),
        ("DDR4-3200AA", "all-bank", "wr"),
        ("DDR4-3200AA", "all-bank", "rtp"),
        ("DDR4-3200AA", "all-bank", "ccd_l"),
        ("DDR4-3200AA", "all-bank", "ccd_l_wr"),
        ("DDR4-3200AA", "all-bank", "rrd_s"),
        ("DDR4-3200AA", "all-bank", "rrd_l"),
        ("DDR4-3200AA", "all-bank", "faw"),
        ("DDR4-3200AA", "all-bank", "wtr_s"),
        ("DDR4-3200AA", "all-bank", "wtr_l"),
        ("DDR4-3200AA", "all-bank", "rtw_gap"),
        ("DDR4-3200AA", "all-bank", "rank_gap"),
        ("DDR4-3200AA", "all-bank", "rfc"),
        ("DDR5-4800BN", "all-bank", "ppd"),
        ("DDR5-4800BN", "all-bank", "ccd_l_wr"),
        ("DDR5-4800BN", "same-bank", "rfc_pb"),
        ("DDR5-4800BN", "same-bank", "pbr_act"),
        ("HBM3-6400", "per-bank", "rfc_pb"),
        ("HBM3-6400", "per-bank", "pbr_act"),
        ("LPDDR5-6400", "per-bank", "burst_group"),
        ("LPDDR6-10667", "all-bank", "rtw_gap_l"),
    ];
    for (grade, refresh, name) in loosened {
        let text = |timing: &str| {
            format!(
                r#"{{"grade": "{grade}", "refresh": "{refresh}", "channels": 1, "ranks": 2,
                    "timing": {{{timing}}}}}"#
            )
        };
        // Some rules are hidden by others, which are therefore relaxed on both sides.
        let aside = match name {
            "ras" => r#""rc": 1, "rtp": 1"#,
            "rrd_s" | "rrd_l" => r#""faw": 1"#,
            "rtp" => r#""ras": 20, "rc": 30"#,
            _ => "",
        };
        let honest = params(&text(match name {
            "rc" => r#""rc": 120"#,
            _ => aside,
        }));
        let value = match name {
            "burst_group" => 2,
            "cl" => 16,
            "rcd" | "rp" | "ras" => 1,
            _ => 0,
        };
        let comma = if aside.is_empty() { "" } else { ", " };
        let loose = params(&text(&format!(r#"{aside}{comma}"{name}": {value}"#)));
        let resolved = honest.resolve().unwrap();
        let (standard, _) = standards::find(grade).unwrap();
        let mut memory = memory(&loose);
        drive(&mut memory, &traffic(7, 6_000, resolved.capacity.0));
        let commands = &memory.observer(0).0;
        assert!(
            !check(commands, &resolved, &standard.bus).is_empty(),
            "{grade} {refresh}: `{name}` = {value} went unseen"
        );
    }
}

#[test]
fn the_checker_finds_reads_of_two_stack_ids_that_are_too_close() {
    let text = |rest: &str| {
        params(&format!(
            r#"{{"grade": "HBM3-6400", "organization": "8Gb 8-high", "channels": 1 {rest}}}"#
        ))
    };
    let resolved = text("").resolve().unwrap();
    let (standard, _) = standards::find("HBM3-6400").unwrap();
    let mut memory = memory(&text(r#", "timing": {"ccd_r": 2}"#));
    drive(&mut memory, &traffic(7, 6_000, resolved.capacity.0));
    assert!(!check(&memory.observer(0).0, &resolved, &standard.bus).is_empty());
}

#[test]
fn the_checker_finds_a_bank_without_refresh_management() {
    // No refresh is due in the simulated time.
    let managed = params(
        r#"{"grade": "DDR5-4800BN", "channels": 1, "rfm": 16, "timing": {"refi": 1000000}}"#,
    );
    let resolved = managed.resolve().unwrap();
    let (standard, _) = standards::find(&managed.grade).unwrap();
    let mut memory = memory(&managed);
    // Successive reads go to different rows of one bank.
    let row = resolved.capacity.0 >> 16;
    let wishes: Vec<_> = (0..2_000).map(|index| read(0, index % 100 * row)).collect();
    drive(&mut memory, &wishes);
    let commands = &memory.observer(0).0;
    assert!(check(commands, &resolved, &standard.bus).is_empty());
    let managed = commands
        .iter()
        .filter(|one| one.kind == CommandKind::ManageAll);
    let found = managed.count();
    assert!(
        (124..=125).contains(&found),
        "{found} after 2,000 activates"
    );
    let mut list = commands.clone();
    list.retain(|one| one.kind != CommandKind::ManageAll);
    assert!(!check(&list, &resolved, &standard.bus).is_empty());
}

/// The checker also finds violations of rules without a parameter: a command moved, doubled
/// or left out.
#[test]
fn the_checker_finds_a_stream_that_was_tampered_with() {
    let params = params(r#"{"grade": "LPDDR5-6400", "channels": 1}"#);
    let resolved = params.resolve().unwrap();
    let (standard, _) = standards::find(&params.grade).unwrap();
    let mut memory = memory(&params);
    drive(&mut memory, &traffic(3, 2_000, resolved.capacity.0));
    let good = &memory.observer(0).0;
    assert!(check(good, &resolved, &standard.bus).is_empty());
    let without = |kind: CommandKind| {
        let first = good.iter().position(|one| one.kind == kind).unwrap();
        let mut list = good.clone();
        list.remove(first);
        list
    };
    for kind in [
        CommandKind::Activate,
        CommandKind::ActivateSecond,
        CommandKind::Precharge,
        CommandKind::PrechargeAll,
        CommandKind::Cas,
    ] {
        let wrong = check(&without(kind), &resolved, &standard.bus);
        assert!(!wrong.is_empty(), "without one {kind:?}");
    }
    let mut list = good.clone();
    list.retain(|one| one.kind != CommandKind::RefreshAll);
    assert!(!check(&list, &resolved, &standard.bus).is_empty());
    let mut list = good.clone();
    let read = list
        .iter()
        .position(|one| one.kind == CommandKind::Read)
        .unwrap();
    list[read].row += 1;
    assert!(!check(&list, &resolved, &standard.bus).is_empty());
}
