//! LPDDR5 and LPDDR5X (JEDEC JESD209-5B and C), bank-group mode, CKR 4:1, bursts of 16.
//!
//! Values of 6400 and the refresh tables are those of Ramulator 2.1 (`dram/lpddr5.py`), which
//! cites the tables of JESD209-5B. 5500 takes their times in nanoseconds at its own clock of
//! 687.5 MHz and the latencies of the set of that rate (*assumed*: RL 15, WL 8). LPDDR5X-7500 and
//! 8533 take the times of 6400 in nanoseconds at their own clocks, rounded up (*assumed*; no public
//! simulator has timings of LPDDR5X).
//! An activate is two commands of one clock each, with at most tAAD = 8 clocks from one to the
//! other; distances count from the first. An access while the write clock is not synchronized is
//! preceded by a CAS command. Currents: *assumed*, of the order of data sheets of 8 Gb x16
//! devices, all rails taken together at 1.05 V.

use super::super::standard::{
    CommandBus, Currents, DramStandard, FineRefresh, Organization, SpeedGrade, clocks,
};
use super::super::timing::Timings;

pub(crate) static LPDDR5: DramStandard = DramStandard {
    name: "LPDDR5",
    bus: CommandBus {
        cas: 1,
        second_within: 8,
        ..CommandBus::PLAIN
    },
    beats: 16,
    width: 16,
    payload: 32,
    pseudo_channels: 1,
    refresh: FineRefresh::PerBank,
    management: false,
    organizations: &[
        Organization::new("8Gb x16", 8, 16, [1, 4, 4], [15, 10]),
        Organization::new("16Gb x16", 16, 16, [1, 4, 4], [16, 10]),
    ],
    grades: &[
        //    name          rate  tCK   CL CWL RCD RP RPab RAS WR RTP WTRS WTRL
        grade(
            "LPDDR5-5500",
            [5500, 1454, 15, 8, 13, 13, 15, 29, 24, 7, 5, 9],
        ),
        grade(
            "LPDDR5-6400",
            [6400, 1250, 17, 9, 15, 15, 17, 34, 28, 8, 5, 10],
        ),
        grade(
            "LPDDR5X-7500",
            [7500, 1066, 20, 11, 18, 18, 20, 40, 33, 10, 6, 12],
        ),
        grade(
            "LPDDR5X-8533",
            [8533, 937, 23, 12, 20, 20, 23, 46, 38, 11, 7, 14],
        ),
    ],
    resolve,
};

const fn grade(name: &'static str, row: [u32; 12]) -> SpeedGrade {
    let [rate, clock_ps, cl, cwl, rcd, rp, ..] = row;
    let [.., rp_all, ras, wr, rtp, wtr_s, wtr_l] = row;
    SpeedGrade {
        name,
        rate,
        clock_ps,
        timings: Timings {
            burst_group: 4,
            rp_all,
            ppd: 2,
            wck_post: 1,
            ..Timings::core(2, [cl, cwl, rcd, rp, ras, wr, rtp, 4, wtr_s, wtr_l])
        },
        currents: Currents::new(1050, [60, 25, 32, 260, 240, 150]),
    }
}

fn resolve(grade: &SpeedGrade, organization: &Organization) -> Timings {
    let clock = grade.clock_ps;
    let mut timings = grade.timings;
    timings.rrd_s = clocks(5_000, clock).max(4);
    timings.rrd_l = timings.rrd_s;
    timings.faw = clocks(20_000, clock).max(16);
    let (rfc, rfc_pb) = match organization.density_mb {
        0..=8192 => (210_000, 120_000),
        _ => (280_000, 140_000),
    };
    timings.rfc = clocks(rfc, clock);
    timings.rfc_pb = clocks(rfc_pb, clock);
    timings.refi = clocks(3_906_000, clock);
    timings.pbr_pbr = clocks(90_000, clock);
    timings.pbr_act = clocks(7_500, clock);
    timings
}
