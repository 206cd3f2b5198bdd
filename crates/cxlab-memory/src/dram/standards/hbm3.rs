//! HBM3 (JEDEC JESD238).
//!
//! Values of 6400 are those of Ramulator 2.1 (`dram/hbm3.py`), which cites JESD238; 5200 takes
//! their times in nanoseconds at its own clock (*assumed*). A channel has two pseudo channels of
//! 32 bits that share a bus for row commands and one for column commands. Precharge and refresh
//! take half a clock, an activate one and a half, so a tick is half a clock. Stacks of 8
//! and 16 dies have stack IDs; 16 Gb 16-high is *assumed* by the rule of the others. Densities
//! are those of a channel. Currents: *assumed*, those of HBM2 scaled with the rate.

use super::super::standard::{
    CommandBus, Currents, DramStandard, FineRefresh, Organization, SpeedGrade, clocks,
};
use super::super::timing::Timings;

pub(crate) static HBM3: DramStandard = DramStandard {
    name: "HBM3",
    bus: CommandBus {
        ticks_per_clock: 2,
        act: 3,
        column: 2,
        dual: true,
        from_last: true,
        ..CommandBus::PLAIN
    },
    beats: 8,
    width: 32,
    payload: 32,
    pseudo_channels: 2,
    refresh: FineRefresh::PerBank,
    management: true,
    organizations: &[
        Organization::new("4Gb", 4, 32, [1, 4, 4], [14, 8]),
        Organization::new("8Gb", 8, 32, [1, 4, 4], [15, 8]),
        Organization::new("16Gb", 16, 32, [1, 4, 4], [16, 8]),
        Organization::new("4Gb 8-high", 4, 32, [2, 4, 4], [13, 8]),
        Organization::new("8Gb 8-high", 8, 32, [2, 4, 4], [14, 8]),
        Organization::new("16Gb 8-high", 16, 32, [2, 4, 4], [15, 8]),
        Organization::new("16Gb 16-high", 16, 32, [4, 4, 4], [14, 8]),
    ],
    grades: &[
        //    name         rate  tCK  CL CWL RCDRD RCDWR RP RAS WR RTP WTRS WTRL RTW
        grade(
            "HBM3-5200",
            [5200, 769, 17, 8, 26, 13, 22, 37, 27, 8, 6, 9, 6],
        ),
        grade(
            "HBM3-6400",
            [6400, 625, 20, 10, 31, 15, 26, 45, 33, 9, 7, 10, 8],
        ),
    ],
    resolve,
};

/// tRC is tRAS + tRP + 1 in the source's bin; the gap from read to write follows from its tRTW.
const fn grade(name: &'static str, row: [u32; 13]) -> SpeedGrade {
    let [rate, clock_ps, cl, cwl, rcd, rcd_wr, ..] = row;
    let [.., rp, ras, wr, rtp, wtr_s, wtr_l, rtw_gap] = row;
    SpeedGrade {
        name,
        rate,
        clock_ps,
        timings: Timings {
            rcd_wr,
            rc: ras + rp + 1,
            // The standard's tCCDR.
            ccd_r: 3,
            rrd_s: 4,
            rrd_l: 5,
            faw: 24,
            rtw_gap,
            rtw_gap_l: rtw_gap,
            ppd: 2,
            ..Timings::core(2, [cl, cwl, rcd, rp, ras, wr, rtp, 4, wtr_s, wtr_l])
        },
        currents: Currents::new(1100, [40, 25, 35, 300, 320, 150]),
    }
}

fn resolve(grade: &SpeedGrade, organization: &Organization) -> Timings {
    let clock = grade.clock_ps;
    let mut timings = grade.timings;
    let rfc = match organization.density_mb {
        0..=4096 => 260_000,
        4097..=8192 => 350_000,
        _ => 450_000,
    };
    timings.rfc = clocks(rfc, clock);
    timings.rfc_pb = clocks(200_000, clock);
    timings.pbr_pbr = clocks(5_000, clock).max(3);
    timings.pbr_act = timings.pbr_pbr;
    timings.refi = clocks(3_900_000, clock);
    timings
}
