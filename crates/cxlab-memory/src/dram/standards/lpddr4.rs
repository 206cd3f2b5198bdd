//! LPDDR4 as DRAMsim3 models it (`LPDDR4_8Gb_x16_2400.ini`): a channel of four x16 devices side
//! by side, 64 bits wide, whose burst of 16 moves 128 bytes. Every value is from that file, with
//! its command bus of one clock for every command; the standard (JESD209-4) spreads commands over
//! two to four clocks of a narrower bus, which is left out here.

use super::super::standard::{
    CommandBus, Currents, DramStandard, FineRefresh, Organization, SpeedGrade,
};
use super::super::timing::{CoreTimings, Timings};

pub(crate) static LPDDR4: DramStandard = DramStandard {
    name: "LPDDR4",
    bus: CommandBus::PLAIN,
    beats: 16,
    width: 64,
    payload: 128,
    pseudo_channels: 1,
    refresh: FineRefresh::No,
    management: false,
    organizations: &[Organization {
        name: "8Gb x16",
        density_mb: 8 << 10,
        pins: 16,
        stacks: 1,
        groups: 2,
        banks: 4,
        rows: 1 << 16,
        columns: 1 << 10,
    }],
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
            ..CoreTimings {
                burst: 8,
                cl: 17,
                cwl: 14,
                rcd: 15,
                rp: 15,
                ras: 32,
                wr: 30,
                rtp: 12,
                ccd_l: 8,
                wtr_s: 8,
                wtr_l: 16,
            }
            .timings()
        },
        currents: Currents {
            vdd_mv: 1200,
            idd0: 80,
            idd2n: 34,
            idd3n: 47,
            idd4r: 243,
            idd4w: 228,
            idd5b: 280,
        },
    }],
    resolve: |grade, _| grade.timings,
};
