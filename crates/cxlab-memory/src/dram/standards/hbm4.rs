//! HBM4 (JEDEC JESD270-4).
//!
//! Values are those of Ramulator 2.1 (`dram/hbm4.py`, `HBM4_8000Mbps`); its preset of 16,000
//! Mb/s is that one with all times doubled in clocks, and is left out. A channel has two pseudo
//! channels of 32 bits that share a bus for row commands and one for column commands; precharge
//! and refresh take half a clock, an activate one and a half. Stacks of 8 and 16 dies have stack
//! IDs. Densities are those of a channel. Currents: *assumed*, those of HBM3 scaled with the rate.

use super::super::standard::{
    CommandBus, Currents, DramStandard, FineRefresh, Organization, SpeedGrade, clocks,
};
use super::super::timing::Timings;

pub(crate) static HBM4: DramStandard = DramStandard {
    name: "HBM4",
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
        Organization::new("4Gb", 4, 32, [1, 2, 8], [14, 8]),
        Organization::new("8Gb 8-high", 8, 32, [2, 2, 8], [14, 8]),
        Organization::new("16Gb 16-high", 16, 32, [4, 2, 8], [14, 8]),
    ],
    grades: &[SpeedGrade {
        name: "HBM4-8000",
        rate: 8000,
        clock_ps: 500,
        timings: Timings {
            rcd_wr: 19,
            rrd_s: 5,
            rrd_l: 7,
            faw: 30,
            // tRTW 25, less CL + BL/2 - CWL.
            rtw_gap: 13,
            rtw_gap_l: 13,
            ppd: 2,
            rfc_pb: 560,
            // CL CWL RCD RP RAS WR RTP CCDL WTRS WTRL.
            ..Timings::core(2, [20, 10, 39, 33, 57, 42, 12, 4, 9, 13])
        },
        currents: Currents::new(1050, [45, 28, 40, 375, 400, 180]),
    }],
    resolve,
};

fn resolve(grade: &SpeedGrade, organization: &Organization) -> Timings {
    let clock = grade.clock_ps;
    let mut timings = grade.timings;
    let rfc = match organization.density_mb {
        0..=4096 => 400_000,
        4097..=8192 => 450_000,
        _ => 530_000,
    };
    timings.rfc = clocks(rfc, clock);
    timings.pbr_pbr = clocks(8_000, clock).max(3);
    timings.pbr_act = timings.pbr_pbr;
    timings.refi = clocks(3_900_000, clock);
    timings
}
