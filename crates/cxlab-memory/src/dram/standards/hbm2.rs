//! HBM2 in pseudo-channel mode (JEDEC JESD235).
//!
//! Values are those of Ramulator 2.1 (`dram/hbm2.py`), which cites JESD235D. A channel has two
//! pseudo channels of 64 bits that share a bus for row commands and one for column commands; rows
//! are half of the source's, so that a channel's bits are its density.
//! Currents: those of DRAMsim3 (`HBM2_8Gb_x128.ini`), halved for a pseudo channel (*assumed*).

use super::super::standard::{
    CommandBus, Currents, DramStandard, FineRefresh, Organization, SpeedGrade, clocks,
};
use super::super::timing::Timings;

pub(crate) static HBM2: DramStandard = DramStandard {
    name: "HBM2",
    bus: CommandBus {
        ticks_per_clock: 1,
        act: 2,
        column: 1,
        row: 1,
        cas: 0,
        dual: true,
        second_within: 0,
        from_last: true,
    },
    beats: 4,
    width: 64,
    payload: 32,
    pseudo_channels: 2,
    refresh: FineRefresh::PerBank,
    management: false,
    organizations: &[
        organization("8Gb", 8, 15),
        organization("4Gb", 4, 14),
        organization("2Gb", 2, 13),
    ],
    grades: &[
        //    name         rate  tCK   CL CWL RCDRD RCDWR RAS WR RTP WTRS WTRL
        grade("HBM2-1600", [1600, 1250, 10, 4, 10, 8, 24, 12, 4, 5, 6]),
        grade("HBM2-2000", [2000, 1000, 14, 5, 14, 12, 34, 16, 5, 6, 8]),
        grade("HBM2-2400", [2400, 833, 17, 6, 17, 14, 40, 19, 6, 8, 10]),
    ],
    resolve,
};

const fn organization(name: &'static str, gigabits: u32, row_bits: u32) -> Organization {
    Organization {
        name,
        density_mb: gigabits << 10,
        pins: 64,
        stacks: 1,
        groups: 4,
        banks: 4,
        rows: 1 << row_bits,
        columns: 1 << 7,
    }
}

/// In these bins tRP equals tCL, and tRC is tRAS + tRP.
const fn grade(
    name: &'static str,
    [
        rate,
        clock_ps,
        cl,
        cwl,
        rcd,
        rcd_wr,
        ras,
        wr,
        rtp,
        wtr_s,
        wtr_l,
    ]: [u32; 11],
) -> SpeedGrade {
    SpeedGrade {
        name,
        rate,
        clock_ps,
        timings: Timings {
            burst: 2,
            burst_group: 2,
            cl,
            cwl,
            rcd,
            rcd_wr,
            rp: cl,
            rp_all: cl,
            ras,
            rc: ras + cl,
            wr,
            rtp,
            ccd_s: 2,
            ccd_l: 4,
            ccd_r: 2,
            ccd_s_wr: 2,
            ccd_l_wr: 4,
            rrd_s: 0,
            rrd_l: 0,
            faw: 0,
            wtr_s,
            wtr_l,
            rtw_gap: 2,
            rtw_gap_l: 2,
            rank_gap: 2,
            ppd: 0,
            refi: 0,
            rfc: 0,
            rfc_pb: 0,
            pbr_pbr: 0,
            pbr_act: 0,
            wck_post: 0,
        },
        currents: Currents {
            vdd_mv: 1200,
            idd0: 33,
            idd2n: 20,
            idd3n: 28,
            idd4r: 195,
            idd4w: 250,
            idd5b: 125,
        },
    }
}

fn resolve(grade: &SpeedGrade, organization: &Organization) -> Timings {
    let clock = grade.clock_ps;
    let mut timings = grade.timings;
    timings.rrd_s = clocks(4_000, clock).max(4);
    timings.rrd_l = timings.rrd_s;
    timings.faw = clocks(15_000, clock).max(8);
    let rfc = match organization.density_mb {
        0..=2048 => 160_000,
        2049..=4096 => 260_000,
        _ => 350_000,
    };
    timings.rfc = clocks(rfc, clock);
    timings.rfc_pb = clocks(160_000, clock);
    timings.pbr_pbr = clocks(8_000, clock).max(4);
    timings.pbr_act = timings.pbr_pbr;
    timings.refi = clocks(3_900_000, clock);
    timings
}
