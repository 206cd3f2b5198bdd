//! LPDDR4 as DRAMsim3 models it (`LPDDR4_8Gb_x16_2400.ini`): a channel of four x16 devices side
//! by side, 64 bits wide, whose burst of 16 moves 128 bytes. Every value is from that file, with
//! its command bus of one clock for every command; the standard (JESD209-4) spreads commands over
//! two to four clocks of a narrower bus, which is left out here.

use super::super::standard::{
    CommandBus, Currents, DramStandard, FineRefresh, Organization, SpeedGrade,
};
use super::super::timing::Timings;

pub(crate) static LPDDR4: DramStandard = DramStandard {
    name: "LPDDR4",
    bus: CommandBus::PLAIN,
    beats: 16,
    width: 64,
    payload: 128,
    pseudo_channels: 1,
    refresh: FineRefresh::No,
    management: false,
    organizations: &[Organization::new("8Gb x16", 8, 16, [1, 2, 4], [16, 10])],
    grades: &[SpeedGrade {
        name: "LPDDR4-2400",
        rate: 2400,
        clock_ps: 830,
        timings: Timings {
            rrd_s: 8,
            rrd_l: 8,
            faw: 32,
            rtw_gap: 1,
            rtw_gap_l: 1,
            rank_gap: 1,
            ppd: 2,
            refi: 8660,
            rfc: 392,
            // CL CWL RCD RP RAS WR RTP CCDL WTRS WTRL.
            ..Timings::core(8, [17, 14, 15, 15, 32, 30, 12, 8, 8, 16])
        },
        currents: Currents::new(1200, [80, 34, 47, 243, 228, 280]),
    }],
    resolve: |grade, _| grade.timings,
};
