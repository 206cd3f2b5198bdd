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
use super::super::timing::{CoreTimings, Timings};

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
        organization("4Gb", 4, 1),
        organization("8Gb 8-high", 8, 2),
        organization("16Gb 16-high", 16, 4),
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
            ..CoreTimings {
                burst: 2,
                cl: 20,
                cwl: 10,
                rcd: 39,
                rp: 33,
                ras: 57,
                wr: 42,
                rtp: 12,
                ccd_l: 4,
                wtr_s: 9,
                wtr_l: 13,
            }
            .timings()
        },
        currents: Currents {
            vdd_mv: 1050,
            idd0: 45,
            idd2n: 28,
            idd3n: 40,
            idd4r: 375,
            idd4w: 400,
            idd5b: 180,
        },
    }],
    resolve,
};

const fn organization(name: &'static str, gigabits: u32, stacks: u32) -> Organization {
    Organization {
        name,
        density_mb: gigabits << 10,
        pins: 32,
        stacks,
        groups: 2,
        banks: 8,
        rows: 1 << 14,
        columns: 1 << 8,
    }
}

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
