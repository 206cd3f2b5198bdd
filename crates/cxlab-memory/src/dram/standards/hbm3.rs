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
use super::super::timing::{CoreTimings, Timings};

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
        organization("4Gb", 4, 14, 1),
        organization("8Gb", 8, 15, 1),
        organization("16Gb", 16, 16, 1),
        organization("4Gb 8-high", 4, 13, 2),
        organization("8Gb 8-high", 8, 14, 2),
        organization("16Gb 8-high", 16, 15, 2),
        organization("16Gb 16-high", 16, 14, 4),
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

const fn organization(
    name: &'static str,
    gigabits: u32,
    row_bits: u32,
    stacks: u32,
) -> Organization {
    Organization {
        name,
        density_mb: gigabits << 10,
        pins: 32,
        stacks,
        groups: 4,
        banks: 4,
        rows: 1 << row_bits,
        columns: 1 << 8,
    }
}

/// tRC is tRAS + tRP + 1 in the source's bin; the gap from read to write follows from its tRTW.
const fn grade(
    name: &'static str,
    [
        rate,
        clock_ps,
        cl,
        cwl,
        rcd,
        rcd_wr,
        rp,
        ras,
        wr,
        rtp,
        wtr_s,
        wtr_l,
        rtw_gap,
    ]: [u32; 13],
) -> SpeedGrade {
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
            ..CoreTimings {
                burst: 2,
                cl,
                cwl,
                rcd,
                rp,
                ras,
                wr,
                rtp,
                ccd_l: 4,
                wtr_s,
                wtr_l,
            }
            .timings()
        },
        currents: Currents {
            vdd_mv: 1100,
            idd0: 40,
            idd2n: 25,
            idd3n: 35,
            idd4r: 300,
            idd4w: 320,
            idd5b: 150,
        },
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
