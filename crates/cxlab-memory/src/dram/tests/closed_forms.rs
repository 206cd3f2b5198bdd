//! Latencies and bandwidths that follow from the timings by calculation.

use super::owner::{drive, memory, params, read, write};
use crate::MemoryBackend;
use crate::dram::{DramParams, Timings, standards};
use crate::testing::statistic;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::SimTime;

/// One channel without refresh: its parameters, timings and clock period.
fn quiet(grade: &str, rest: &str) -> (DramParams, Timings, u64) {
    let params = params(&format!(
        r#"{{"grade": "{grade}", "channels": 1, "refresh": "none" {rest}}}"#
    ));
    let resolved = params.resolve().unwrap();
    (params, resolved.timings, resolved.config.clock_ps)
}

/// Bytes in a row over all devices, and distance in bytes between two rows of one bank.
fn row_bytes(params: &DramParams) -> (u64, u64) {
    let resolved = params.resolve().unwrap();
    let capacity = resolved.capacity.0;
    let rows = match &*params.grade {
        "DDR4-3200AA" | "DDR5-4800BN" => 1 << 16,
        other => panic!("rows of {other}"),
    };
    let banks = resolved.config.ranks * resolved.config.groups * resolved.config.banks;
    (capacity / rows / banks as u64, capacity / rows)
}

#[test]
fn an_idle_read_takes_a_clock_and_trcd_tcl_and_its_burst() {
    for grade in ["DDR4-3200AA", "DDR4-2400R", "DDR5-4800BN", "DDR5-6400AN"] {
        let (params, t, clock) = quiet(grade, "");
        let heard = drive(&mut memory(&params), &[read(0, 0)]);
        // The first edge after the request's arrival, then the two commands.
        let clocks = 1 + t.rcd + t.cl + t.burst;
        assert_eq!(heard.done[0], u64::from(clocks) * clock, "{grade}");
    }
}

/// For the whole catalog: the first edge, the activate, a CAS command if the standard has one, and
/// the bursts of the line.
#[test]
fn an_idle_read_of_every_grade_is_the_sum_of_its_timings() {
    for (standard, grade) in standards::grades() {
        let (params, t, clock) = quiet(grade.name, "");
        let (bus, ticks) = (&standard.bus, standard.bus.ticks_per_clock);
        let longer = if bus.from_last {
            bus.act - bus.column
        } else {
            0
        };
        let more = (64 / standard.payload).max(1) - 1;
        let clocks = t.rcd + more * t.ccd_l + t.cl + t.burst;
        let at = u64::from(1 + longer + bus.cas + clocks * ticks);
        let heard = drive(&mut memory(&params), &[read(0, 0)]);
        assert_eq!(
            heard.done[0],
            at * clock / u64::from(ticks),
            "{}",
            grade.name
        );
    }
}

#[test]
fn a_request_between_two_edges_waits_for_the_next() {
    let (params, t, clock) = quiet("DDR4-3200AA", "");
    let heard = drive(&mut memory(&params), &[read(10 * clock + 1, 0)]);
    let clocks = 11 + t.rcd + t.cl + t.burst;
    assert_eq!(heard.done[0], u64::from(clocks) * clock);
}

#[test]
fn a_row_hit_takes_tcl_and_a_conflict_trp_more_than_a_miss() {
    for grade in ["DDR4-3200AA", "DDR5-4800BN"] {
        let (params, t, clock) = quiet(grade, "");
        let (_, next_row) = row_bytes(&params);
        let later = 1_000_000 / clock * clock;
        let wishes = [read(0, 0), read(later, 64), read(2 * later, next_row)];
        let heard = drive(&mut memory(&params), &wishes);
        let hit = 1 + t.cl + t.burst;
        assert_eq!(heard.done[1] - later, u64::from(hit) * clock, "{grade}");
        // In DDR5 a precharge takes one clock and an activate two, which saves one clock.
        let saved = u32::from(grade.starts_with("DDR5"));
        let conflict = 1 + t.rp - saved + t.rcd + t.cl + t.burst;
        let latency = heard.done[2] - 2 * later;
        assert_eq!(latency, u64::from(conflict) * clock, "{grade}");
    }
}

/// Sends reads as fast as they are accepted, and returns the clocks between two completions.
fn pace(params: &DramParams, clock: u64, address: impl Fn(u64) -> u64) -> f64 {
    let count = 4_000;
    let wishes: Vec<_> = (0..count).map(|index| read(0, address(index))).collect();
    let heard = drive(&mut memory(params), &wishes);
    let mut done = heard.done;
    done.sort_unstable();
    let (first, last) = (done[count as usize / 4], done[count as usize - 1]);
    (last - first) as f64 / clock as f64 / (count as f64 * 0.75 - 1.0)
}

#[test]
fn row_hits_come_each_tccd_s_where_bank_groups_alternate_and_each_tccd_l_where_not() {
    let alternate = r#", "mapping": "RoBaRaCoBgCh""#;
    for grade in ["DDR4-3200AA", "DDR5-4800BN", "LPDDR5-6400"] {
        let (params, t, clock) = quiet(grade, alternate);
        let burst = f64::from(t.ccd_s) * if grade == "LPDDR5-6400" { 2.0 } else { 1.0 };
        let pace = pace(&params, clock, |index| index * 64 % (1 << 14));
        assert!((pace / burst - 1.0).abs() < 0.01, "{grade}: {pace}");
    }
    for grade in ["DDR4-3200AA", "DDR5-4800BN"] {
        let (params, t, clock) = quiet(grade, "");
        let (row, _) = row_bytes(&params);
        let pace = pace(&params, clock, |index| index * 64 % row);
        let long = f64::from(t.ccd_l);
        assert!((pace / long - 1.0).abs() < 0.01, "{grade}: {pace}");
    }
}

#[test]
fn reads_of_two_stack_ids_come_each_tccd_r() {
    // The two bursts of a line are in two stack IDs, all in the open rows of one bank of each.
    let (params, t, clock) = quiet(
        "HBM3-6400",
        r#", "organization": "8Gb 8-high", "hash": {"kind": "functions", "bits": {"Bg2": [5]}}"#,
    );
    let pace = pace(&params, clock, |index| index * 64 % 1024);
    let expected = 2.0 * f64::from(t.ccd_r);
    assert!((pace / expected - 1.0).abs() < 0.01, "{pace} of {expected}");
}

#[test]
fn random_reads_come_four_in_tfaw() {
    // The window is so long that nothing else bounds the pace, and the queue deep enough
    // to fill it.
    let (params, _, clock) = quiet(
        "DDR4-3200AA",
        r#", "timing": {"faw": 80}, "read_queue": 256, "page": {"kind": "closed"}"#,
    );
    let rows = 1u64 << 33;
    let mut rng = StreamRng::new(5, "rows");
    let draws: Vec<u64> = (0..4_000).map(|_| rng.below(rows / 64) * 64).collect();
    let pace = pace(&params, clock, |index| draws[index as usize]);
    assert!((pace / 20.0 - 1.0).abs() < 0.01, "{pace} clocks");
}

#[test]
fn random_reads_of_one_bank_come_each_trc() {
    for grade in ["DDR4-3200AA", "DDR5-4800BN"] {
        let (params, t, clock) = quiet(grade, "");
        let (_, next_row) = row_bytes(&params);
        let pace = pace(&params, clock, |index| index % 1_000 * next_row);
        let cycle = f64::from(t.rc.max(t.ras + t.rp));
        assert!((pace / cycle - 1.0).abs() < 0.01, "{grade}: {pace}");
    }
}

#[test]
fn a_hash_spreads_reads_of_one_bank_four_in_tfaw() {
    for grade in ["DDR4-3200AA", "DDR5-4800BN"] {
        for hash in ["permutation", "fold"] {
            let (params, t, clock) = quiet(grade, &format!(r#", "hash": {{"kind": "{hash}"}}"#));
            let (_, next_row) = row_bytes(&params);
            let pace = pace(&params, clock, |index| index % 1_024 * next_row);
            let window = (f64::from(t.faw) / 4.0).max(f64::from(t.rrd_s));
            // An activate that collides with another command on the bus goes a clock later.
            let most = window + 0.5;
            assert!(
                (0.99 * window..most).contains(&pace),
                "{grade} {hash}: {pace}"
            );
        }
    }
}

#[test]
fn refresh_takes_its_share_of_the_bandwidth() {
    // Row hits of one row at tCCD_L: a refresh costs the precharge, its own time and the activate.
    let text = r#"{"grade": "DDR4-3200AA", "channels": 1, "timing": {"refi": 3000, "rfc": 600}}"#;
    let params = params(text);
    let resolved = params.resolve().unwrap();
    let t = resolved.timings;
    let (row, _) = row_bytes(&params);
    let wishes: Vec<_> = (0..20_000).map(|index| read(0, index * 64 % row)).collect();
    let heard = drive(&mut memory(&params), &wishes);
    let last = *heard.done.iter().max().unwrap();
    let clocks = last as f64 / resolved.config.clock_ps as f64;
    // Time from the last read before a refresh to the first read after it.
    let lost = f64::from(t.rtp + t.rp + t.rfc + t.rcd - t.ccd_l);
    let expected = 20_000.0 * f64::from(t.ccd_l) / (1.0 - lost / f64::from(t.refi));
    assert!(
        (clocks / expected - 1.0).abs() < 0.01,
        "{clocks} {expected}"
    );
}

#[test]
fn posted_writes_are_done_a_clock_later_and_written_ones_with_their_data() {
    let (queued, t, clock) = quiet("DDR4-3200AA", "");
    assert_eq!(drive(&mut memory(&queued), &[write(0, 0)]).done[0], clock);
    let (written, ..) = quiet("DDR4-3200AA", r#", "write_done": "written""#);
    let clocks = 1 + t.rcd_wr + t.cwl + t.burst;
    let heard = drive(&mut memory(&written), &[write(0, 0)]);
    assert_eq!(heard.done[0], u64::from(clocks) * clock);
}

#[test]
fn energy_is_what_the_currents_say() {
    let params = params(r#"{"grade": "DDR4-3200AA", "channels": 1}"#);
    let mut memory = memory(&params);
    // One read each 1 us for 100 us, each in another bank, from time 0.
    let wishes: Vec<_> = (0..100)
        .map(|index| read(index * 1_000_000, index << 13))
        .collect();
    drive(&mut memory, &wishes);
    let end = 100_000_000;
    memory.advance(SimTime(end), &mut Vec::new());
    let value = |name: &str| statistic(&memory, end, &format!("dram.{name}"));
    // 8 devices at 1.2 V: mA * ns * V = pJ.
    let (volts, ns) = (1.2 * 8.0 / 1e3, 0.625);
    let pair = (57.0 * 74.0 - 52.0 * 52.0 - 37.0 * 22.0) * ns * volts;
    assert_eq!(value("activates"), 100.0);
    assert!((value("activate_energy_nj") - 100.0 * pair).abs() < 1e-6);
    let burst = (168.0 - 52.0) * 4.0 * ns * volts;
    assert!((value("read_energy_nj") - 100.0 * burst).abs() < 1e-6);
    let refresh = (250.0 - 37.0) * 576.0 * ns * volts;
    // tREFI is 7.8 us: 12 refreshes.
    assert_eq!(value("refreshes"), 12.0);
    assert!((value("refresh_energy_nj") - 12.0 * refresh).abs() < 1e-6);
    let (low, high) = (37.0 * 1e5 * volts, 52.0 * 1e5 * volts);
    let standby = value("standby_energy_nj");
    assert!(low < standby && standby < high, "{low} {standby} {high}");
    // 100 reads of 4 clocks each in 100 us.
    let busy = 100.0 * 4.0 * ns / 1e5;
    assert!((value("bus_utilization") - busy).abs() < 1e-9);
}
