//! HBM (JEDEC JESD235), whose channels have no pseudo channels. A channel of HBM2's legacy mode
//! is the same.
//!
//! Values are those of Ramulator 2.1 (`dram/hbm1.py`), which cites JESD235D; tFAW, 15 ns, is of
//! vendors (typical). A channel of 128 bits has a bus for row commands and one for column
//! commands, and its burst of 2 moves 32 bytes. Read to write as in HBM2: a gap of two clocks.
//! Currents: those of HBM2's pseudo channel, doubled (*assumed*).

use super::super::standard::{
    CommandBus, Currents, DramStandard, FineRefresh, Organization, SpeedGrade, clocks,
};
use super::super::timing::Timings;

pub(crate) static HBM1: DramStandard = DramStandard {
    name: "HBM1",
    bus: CommandBus {
        act: 2,
        dual: true,
        from_last: true,
        ..CommandBus::PLAIN
    },
    beats: 2,
    width: 128,
    payload: 32,
    pseudo_channels: 1,
    refresh: FineRefresh::PerBank,
    management: false,
    organizations: &[
        Organization::new("4Gb", 4, 128, [1, 4, 2], [15, 7]),
        Organization::new("2Gb", 2, 128, [1, 4, 2], [14, 7]),
        Organization::new("1Gb", 1, 128, [1, 4, 2], [13, 7]),
    ],
    grades: &[
        //    name         rate  tCK  CL CWL RCDRD RCDWR RP RAS WR RTP WTRS WTRL
        grade("HBM1-1000", [1000, 2000, 7, 4, 7, 6, 7, 17, 8, 4, 3, 4]),
        grade(
            "HBM1-2000",
            [2000, 1000, 14, 5, 14, 12, 14, 34, 16, 5, 6, 8],
        ),
    ],
    resolve,
};

const fn grade(name: &'static str, row: [u32; 12]) -> SpeedGrade {
    let [rate, clock_ps, cl, cwl, rcd, rcd_wr, ..] = row;
    let [.., rp, ras, wr, rtp, wtr_s, wtr_l] = row;
    SpeedGrade {
        name,
        rate,
        clock_ps,
        timings: Timings {
            rcd_wr,
            ..Timings::core(1, [cl, cwl, rcd, rp, ras, wr, rtp, 2, wtr_s, wtr_l])
        },
        currents: Currents::new(1200, [96, 40, 56, 390, 500, 250]),
    }
}

fn resolve(grade: &SpeedGrade, organization: &Organization) -> Timings {
    let rfc = match organization.density_mb {
        0..=1024 => 110_000,
        1025..=2048 => 160_000,
        _ => 260_000,
    };
    refreshed(grade, rfc)
}

/// The timings of HBM1 and HBM2 with this tRFC in picoseconds.
pub(super) fn refreshed(grade: &SpeedGrade, rfc: u32) -> Timings {
    let clock = grade.clock_ps;
    let (rrd, pbr) = (clocks(4_000, clock).max(4), clocks(8_000, clock).max(4));
    Timings {
        rrd_s: rrd,
        rrd_l: rrd,
        faw: clocks(15_000, clock).max(8),
        refi: clocks(3_900_000, clock),
        rfc: clocks(rfc, clock),
        rfc_pb: clocks(160_000, clock),
        pbr_pbr: pbr,
        pbr_act: pbr,
        ..grade.timings
    }
}
