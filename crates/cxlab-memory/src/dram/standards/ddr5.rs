//! DDR5 (JEDEC JESD79-5).
//!
//! Speed bins, tRRD, tFAW and tRFC1 are those of Ramulator 2.1 (`dram/ddr5.py`), which cites
//! JESD79-5; bins B and C of 5600 and 6400 follow its rule of the 4800 bins (two clocks more of
//! tCL, tRCD and tRP a bin, *assumed*). tRFCsb and tREFSBRD are those of JESD79-5 (115, 130,
//! 190 ns by density; 30 ns). Refresh management (RFM) takes as long as the refresh of the same
//! banks. Same-bank refresh belongs to fine-granularity refresh, with half of tREFI. Activates,
//! reads and writes take two clocks of the command bus, and distances count from the second.
//! Currents: the defaults of Ramulator 2.0 (`DDR5.cpp`), for all grades.

use super::super::standard::{
    CommandBus, Currents, DramStandard, FineRefresh, Organization, SpeedGrade, clocks,
};
use super::super::timing::Timings;

pub(crate) static DDR5: DramStandard = DramStandard {
    name: "DDR5",
    bus: CommandBus {
        act: 2,
        column: 2,
        from_last: true,
        ..CommandBus::PLAIN
    },
    beats: 16,
    width: 32,
    payload: 64,
    pseudo_channels: 1,
    refresh: FineRefresh::SameBank,
    management: true,
    organizations: &[
        Organization::new("16Gb x8", 16, 8, [1, 8, 4], [16, 10]),
        Organization::new("16Gb x4", 16, 4, [1, 8, 4], [16, 11]),
        Organization::new("16Gb x16", 16, 16, [1, 4, 4], [16, 10]),
        Organization::new("8Gb x4", 8, 4, [1, 8, 2], [16, 11]),
        Organization::new("8Gb x8", 8, 8, [1, 8, 2], [16, 10]),
        Organization::new("8Gb x16", 8, 16, [1, 4, 2], [16, 10]),
        Organization::new("32Gb x4", 32, 4, [1, 8, 4], [17, 11]),
        Organization::new("32Gb x8", 32, 8, [1, 8, 4], [17, 10]),
        Organization::new("32Gb x16", 32, 16, [1, 4, 4], [17, 10]),
    ],
    grades: &[
        //    name          rate  tCK  CL  RAS  WR RTP CCDL CCDLWR WTRS WTRL
        grade("DDR5-3200AN", [3200, 625, 24, 52, 48, 12, 8, 32, 6, 16]),
        grade("DDR5-3200BN", [3200, 625, 26, 52, 48, 12, 8, 32, 6, 16]),
        grade("DDR5-3200C", [3200, 625, 28, 52, 48, 12, 8, 32, 6, 16]),
        grade("DDR5-4800AN", [4800, 416, 34, 77, 72, 18, 12, 48, 6, 24]),
        grade("DDR5-4800BN", [4800, 416, 36, 77, 72, 18, 12, 48, 6, 24]),
        grade("DDR5-4800C", [4800, 416, 38, 77, 72, 18, 12, 48, 6, 24]),
        grade("DDR5-5600AN", [5600, 357, 40, 90, 84, 20, 12, 56, 5, 28]),
        grade("DDR5-5600BN", [5600, 357, 42, 90, 84, 20, 12, 56, 5, 28]),
        grade("DDR5-6400AN", [6400, 312, 46, 103, 96, 24, 16, 64, 5, 32]),
        grade("DDR5-6400BN", [6400, 312, 48, 103, 96, 24, 16, 64, 5, 32]),
    ],
    resolve,
};

/// In these bins tRCD and tRP equal tCL, tRC is tRAS + tRP, and tCWL is tCL - 2.
const fn grade(name: &'static str, row: [u32; 10]) -> SpeedGrade {
    let [rate, clock_ps, cl, ras, wr, rtp, ..] = row;
    let [.., ccd_l, ccd_l_wr, wtr_s, wtr_l] = row;
    SpeedGrade {
        name,
        rate,
        clock_ps,
        timings: Timings {
            ccd_l_wr,
            rrd_s: 8,
            // A postamble of half a clock, rounded to 2, and a write preamble of 2.
            rtw_gap: 4,
            rtw_gap_l: 4,
            ppd: 2,
            ..Timings::core(8, [cl, cl - 2, cl, cl, ras, wr, rtp, ccd_l, wtr_s, wtr_l])
        },
        currents: Currents::new(1100, [60, 50, 55, 145, 145, 362]),
    }
}

fn resolve(grade: &SpeedGrade, organization: &Organization) -> Timings {
    let mut timings = grade.timings;
    // The exact clock, because the table's is rounded down.
    let exact = |ns: u32| (ns * grade.rate).div_ceil(2000);
    timings.rrd_l = match grade.rate {
        4800 => 12,
        _ => exact(5).max(8),
    };
    timings.faw = exact(if organization.pins <= 8 { 20 } else { 25 }).max(32);
    let (rfc, rfc_sb) = match organization.density_mb {
        0..=8192 => (195_000, 115_000),
        8193..=16384 => (295_000, 130_000),
        _ => (410_000, 190_000),
    };
    timings.rfc = clocks(rfc, grade.clock_ps);
    timings.rfc_pb = clocks(rfc_sb, grade.clock_ps);
    timings.pbr_pbr = clocks(30_000, grade.clock_ps);
    timings.pbr_act = clocks(30_000, grade.clock_ps);
    timings.refi = clocks(3_900_000, grade.clock_ps);
    timings
}
