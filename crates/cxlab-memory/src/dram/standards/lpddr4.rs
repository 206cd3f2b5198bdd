//! LPDDR4 as DRAMsim3 models it (`LPDDR4_8Gb_x16_2400.ini`): a channel of four x16 devices side
//! by side, 64 bits wide, whose burst of 16 moves 128 bytes. Every value is from that file, with
//! its command bus of one clock for every command; the standard (JESD209-4) spreads commands over
//! two to four clocks of a narrower bus, which is left out here.

use super::super::standard::{CommandBus, Currents, FineRefresh, Grade, Organization, Standard};
use super::super::timing::Timings;

pub(crate) static LPDDR4: Standard = Standard {
    name: "LPDDR4",
    bus: CommandBus {
        ticks_per_clock: 1,
        act: 1,
        column: 1,
        row: 1,
        dual: false,
        from_last: false,
    },
    beats: 16,
    width: 64,
    pseudo_channels: 1,
    refresh: FineRefresh::No,
    organizations: &[Organization {
        name: "8Gb x16",
        density_mb: 8 << 10,
        pins: 16,
        groups: 2,
        banks: 4,
        rows: 1 << 16,
        columns: 1 << 10,
    }],
    grades: &[Grade {
        name: "LPDDR4-2400",
        rate: 2400,
        clock_ps: 830,
        timings: Timings {
            burst: 8,
            burst_group: 8,
            cl: 17,
            cwl: 14,
            rcd: 15,
            rcd_wr: 15,
            rp: 15,
            rp_all: 15,
            ras: 32,
            rc: 47,
            wr: 30,
            rtp: 12,
            ccd_s: 8,
            ccd_l: 8,
            ccd_s_wr: 8,
            ccd_l_wr: 8,
            rrd_s: 8,
            rrd_l: 8,
            faw: 32,
            wtr_s: 8,
            wtr_l: 16,
            rtw_gap: 1,
            rank_gap: 1,
            ppd: 2,
            refi: 8660,
            rfc: 392,
            rfc_pb: 0,
            pbr_pbr: 0,
            pbr_act: 0,
            wck_post: 0,
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
