//! DDR4 (JEDEC JESD79-4).
//!
//! Speed bins and the tables of tRRD, tFAW and tRFC are those of Ramulator 2.1 (`dram/ddr4.py`),
//! which cites JESD79-4; currents are those of an 8 Gb x8 device in the configurations of
//! DRAMsim3 (`DDR4_8Gb_x8_2400.ini` and so on), and stand for all organizations.

use super::super::standard::{
    CommandBus, Currents, DramStandard, FineRefresh, Organization, SpeedGrade, clocks,
};
use super::super::timing::Timings;

pub(crate) static DDR4: DramStandard = DramStandard {
    name: "DDR4",
    bus: CommandBus::PLAIN,
    beats: 8,
    width: 64,
    payload: 64,
    pseudo_channels: 1,
    refresh: FineRefresh::No,
    management: false,
    organizations: &[
        Organization::new("8Gb x8", 8, 8, [1, 4, 4], [16, 10]),
        Organization::new("8Gb x4", 8, 4, [1, 4, 4], [17, 10]),
        Organization::new("8Gb x16", 8, 16, [1, 2, 4], [16, 10]),
        Organization::new("4Gb x4", 4, 4, [1, 4, 4], [16, 10]),
        Organization::new("4Gb x8", 4, 8, [1, 4, 4], [15, 10]),
        Organization::new("4Gb x16", 4, 16, [1, 2, 4], [15, 10]),
        Organization::new("16Gb x4", 16, 4, [1, 4, 4], [18, 10]),
        Organization::new("16Gb x8", 16, 8, [1, 4, 4], [17, 10]),
        Organization::new("16Gb x16", 16, 16, [1, 2, 4], [17, 10]),
    ],
    grades: &[
        //    name          rate  tCK  CL  CWL RAS WR RTP CCDL WTRS WTRL
        grade("DDR4-2400P", [2400, 833, 15, 12, 39, 18, 9, 6, 3, 9]),
        grade("DDR4-2400R", [2400, 833, 16, 12, 39, 18, 9, 6, 3, 9]),
        grade("DDR4-2400U", [2400, 833, 17, 12, 39, 18, 9, 6, 3, 9]),
        grade("DDR4-2400T", [2400, 833, 18, 12, 39, 18, 9, 6, 3, 9]),
        grade("DDR4-2666T", [2666, 750, 17, 14, 43, 20, 10, 7, 4, 10]),
        grade("DDR4-2666U", [2666, 750, 18, 14, 43, 20, 10, 7, 4, 10]),
        grade("DDR4-2666V", [2666, 750, 19, 14, 43, 20, 10, 7, 4, 10]),
        grade("DDR4-2666W", [2666, 750, 20, 14, 43, 20, 10, 7, 4, 10]),
        grade("DDR4-2933V", [2933, 682, 19, 16, 47, 22, 11, 8, 4, 11]),
        grade("DDR4-2933W", [2933, 682, 20, 16, 47, 22, 11, 8, 4, 11]),
        grade("DDR4-2933Y", [2933, 682, 21, 16, 47, 22, 11, 8, 4, 11]),
        grade("DDR4-2933AA", [2933, 682, 22, 16, 47, 22, 11, 8, 4, 11]),
        grade("DDR4-3200W", [3200, 625, 20, 16, 52, 24, 12, 8, 4, 12]),
        grade("DDR4-3200AA", [3200, 625, 22, 16, 52, 24, 12, 8, 4, 12]),
        grade("DDR4-3200AC", [3200, 625, 24, 16, 52, 24, 12, 8, 4, 12]),
    ],
    resolve,
};

/// In the speed bins of DDR4, tRCD and tRP equal tCL, and tRC is tRAS + tRP.
const fn grade(
    name: &'static str,
    [rate, clock_ps, cl, cwl, ras, wr, rtp, ccd_l, wtr_s, wtr_l]: [u32; 10],
) -> SpeedGrade {
    SpeedGrade {
        name,
        rate,
        clock_ps,
        timings: Timings::core(4, [cl, cwl, cl, cl, ras, wr, rtp, ccd_l, wtr_s, wtr_l]),
        currents: match rate {
            2400 => Currents::new(1200, [48, 34, 43, 135, 123, 250]),
            2666 => Currents::new(1200, [51, 35, 46, 146, 132, 250]),
            2933 => Currents::new(1200, [54, 36, 49, 157, 141, 250]),
            _ => Currents::new(1200, [57, 37, 52, 168, 150, 250]),
        },
    }
}

fn resolve(grade: &SpeedGrade, organization: &Organization) -> Timings {
    let rate = |limits: &[(u32, u32)]| {
        let row = limits.iter().find(|(most, _)| grade.rate <= *most);
        row.or(limits.last()).map_or(0, |(_, value)| *value)
    };
    let narrow = organization.pins <= 8;
    let mut timings = grade.timings;
    timings.rrd_s = match narrow {
        true => 4,
        false => rate(&[(2400, 7), (2933, 8), (3200, 9)]),
    };
    timings.rrd_l = match narrow {
        true => rate(&[(2400, 6), (2666, 7), (3200, 8)]),
        false => rate(&[(2400, 8), (2666, 9), (2933, 10), (3200, 11)]),
    };
    timings.faw = match organization.pins {
        4 => 16,
        8 => rate(&[(2400, 26), (2666, 28), (2933, 31), (3200, 34)]),
        _ => rate(&[(2400, 36), (2666, 40), (2933, 44), (3200, 48)]),
    };
    let rfc_ns = match organization.density_mb {
        0..=4096 => 260,
        4097..=8192 => 360,
        _ => 550,
    };
    timings.rfc = clocks(rfc_ns * 1000, grade.clock_ps);
    timings.refi = clocks(7_800_000, grade.clock_ps);
    timings
}
