//! LPDDR6 (JEDEC JESD209-6), bursts of 24.
//!
//! Values are those of Ramulator 2.1 (`dram/lpddr6.py`, `LPDDR6_10667_BL24`), which cites tables
//! 302, 381 to 394, 414 and 415 of JESD209-6. A burst moves 288 bits over 12 pins: 32 bytes of
//! data and 4 of metadata. Every command takes two clocks of the command bus, an activate is two
//! commands with at most tAAD = 8 clocks from one to the other, and an access while the write
//! clock is not synchronized is preceded by a CAS command. tRP and tRC include the update of the
//! row's activation count (tACU, 22 ns); read to write has termination on. Left out: bursts of
//! 48, per-bank refresh (the source has none). tRFC is that of the only organization, 32 Gb in two
//! sub-channels. Currents: *assumed*, those of LPDDR5 scaled with the rate.

use super::super::standard::{
    CommandBus, Currents, DramStandard, FineRefresh, Organization, SpeedGrade, clocks,
};
use super::super::timing::Timings;

const CLOCK_PS: u32 = 375;
const RAS: u32 = clocks(20_000, CLOCK_PS);
const UPDATE: u32 = clocks(22_000, CLOCK_PS);
const RP: u32 = UPDATE + clocks(18_000, CLOCK_PS);
const RP_ALL: u32 = UPDATE + clocks(21_000, CLOCK_PS);

pub(crate) static LPDDR6: DramStandard = DramStandard {
    name: "LPDDR6",
    bus: CommandBus {
        act: 2,
        column: 2,
        row: 2,
        cas: 2,
        second_within: 8,
        ..CommandBus::PLAIN
    },
    beats: 24,
    width: 12,
    payload: 32,
    pseudo_channels: 1,
    refresh: FineRefresh::No,
    management: false,
    organizations: &[Organization {
        // A row has 64 bursts.
        columns: 64 * 24,
        ..Organization::new("16Gb x12", 16, 12, [1, 4, 4], [16, 0])
    }],
    grades: &[SpeedGrade {
        name: "LPDDR6-10667",
        rate: 10_667,
        clock_ps: CLOCK_PS,
        timings: Timings {
            burst_group: 12,
            rcd_wr: 22,
            rp_all: RP_ALL,
            rc: RAS + RP_ALL,
            rrd_s: 10,
            rrd_l: 10,
            faw: 40,
            // RL + BL/n + tWCK2DQO - ODTLon + 1 in all, with BL/n_max in the same bank group.
            rtw_gap: 5,
            rtw_gap_l: 11,
            ppd: 4,
            refi: clocks(3_906_000, CLOCK_PS),
            rfc: clocks(380_000, CLOCK_PS),
            wck_post: 3,
            // CL CWL RCD RP RAS WR RTP CCDL WTRS WTRL. WR ends 6 clocks after the data, counted from
            // BL/n_max on.
            ..Timings::core(6, [56, 26, 48, RP, RAS, 32 + 6, 14, 10, 17, 32])
        },
        currents: Currents::new(1000, [75, 30, 40, 390, 360, 190]),
    }],
    resolve: |grade, _| grade.timings,
};
