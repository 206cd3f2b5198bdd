//! HBM2 in pseudo-channel mode (JEDEC JESD235).
//!
//! Values are those of Ramulator 2.1 (`dram/hbm2.py`), which cites JESD235D. A channel has two
//! pseudo channels of 64 bits that share a bus for row commands and one for column commands; rows
//! are half of the source's, so that a channel's bits are its density.
//! Currents: those of DRAMsim3 (`HBM2_8Gb_x128.ini`), halved for a pseudo channel (*assumed*).

use super::super::standard::{
    CommandBus, Currents, DramStandard, FineRefresh, Organization, SpeedGrade,
};
use super::super::timing::Timings;
use super::hbm1::refreshed;

pub(crate) static HBM2: DramStandard = DramStandard {
    name: "HBM2",
    bus: CommandBus {
        act: 2,
        dual: true,
        from_last: true,
        ..CommandBus::PLAIN
    },
    beats: 4,
    width: 64,
    payload: 32,
    pseudo_channels: 2,
    refresh: FineRefresh::PerBank,
    management: false,
    organizations: &[
        Organization::new("8Gb", 8, 64, [1, 4, 4], [15, 7]),
        Organization::new("4Gb", 4, 64, [1, 4, 4], [14, 7]),
        Organization::new("2Gb", 2, 64, [1, 4, 4], [13, 7]),
    ],
    grades: &[
        //    name         rate  tCK   CL CWL RCDRD RCDWR RAS WR RTP WTRS WTRL
        grade("HBM2-1600", [1600, 1250, 10, 4, 10, 8, 24, 12, 4, 5, 6]),
        grade("HBM2-2000", [2000, 1000, 14, 5, 14, 12, 34, 16, 5, 6, 8]),
        grade("HBM2-2400", [2400, 833, 17, 6, 17, 14, 40, 19, 6, 8, 10]),
    ],
    resolve,
};

/// In these bins tRP equals tCL, and tRC is tRAS + tRP.
const fn grade(name: &'static str, row: [u32; 11]) -> SpeedGrade {
    let [rate, clock_ps, cl, cwl, rcd, rcd_wr, ..] = row;
    let [.., ras, wr, rtp, wtr_s, wtr_l] = row;
    SpeedGrade {
        name,
        rate,
        clock_ps,
        timings: Timings {
            rcd_wr,
            ..Timings::core(2, [cl, cwl, rcd, cl, ras, wr, rtp, 4, wtr_s, wtr_l])
        },
        currents: Currents::new(1200, [33, 20, 28, 195, 250, 125]),
    }
}

fn resolve(grade: &SpeedGrade, organization: &Organization) -> Timings {
    let rfc = match organization.density_mb {
        0..=2048 => 160_000,
        2049..=4096 => 260_000,
        _ => 350_000,
    };
    refreshed(grade, rfc)
}
