//! Timing parameters as in the standards, in clocks, and the least distances between two commands
//! that follow from them, in ticks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::command_bus::CommandBus;

macro_rules! timings {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Timing parameters of a speed grade and organization, in clocks (tCK).
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct Timings {
            $($(#[doc = $doc])* pub $name: u32,)*
        }

        const ZERO: Timings = Timings { $($name: 0,)* };

        /// Timing parameters that replace those of the grade, each in clocks (tCK). Range of each:
        /// 0 to 1,000,000. Default of each: the grade's.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
        #[serde(deny_unknown_fields, default)]
        pub struct TimingOverrides {
            $($(#[doc = $doc])* #[serde(skip_serializing_if = "Option::is_none")]
              #[schemars(range(min = 0, max = 1_000_000))]
              pub $name: Option<u32>,)*
        }

        impl TimingOverrides {
            /// Replaces the parameters of the grade that are given here.
            pub(super) fn apply(&self, timings: &mut Timings) {
                $(if let Some(value) = self.$name { timings.$name = value; })*
            }
            /// The name and value of the first parameter above `most`.
            pub(super) fn beyond(&self, most: u32) -> Option<(&'static str, u32)> {
                $(if let Some(value) = self.$name.filter(|value| *value > most) {
                    return Some((stringify!($name), value));
                })*
                None
            }
        }
    };
}

timings! {
    /// A burst on the data bus (BL / data rate per clock).
    burst,
    /// The time for which a burst occupies the column path of its bank group, for the distance from
    /// a write to a read there (LPDDR5: BL/n_max; other standards: as `burst`).
    burst_group,
    /// CAS (read) latency, tCL.
    cl,
    /// CAS write latency, tCWL.
    cwl,
    /// Activate to read, tRCD.
    rcd,
    /// Activate to write, tRCD (HBM: tRCDWR).
    rcd_wr,
    /// Precharge of one bank to activate, tRP.
    rp,
    /// Precharge of all banks to activate, tRPab; as `rp` where the standard has one value.
    rp_all,
    /// Activate to precharge, tRAS.
    ras,
    /// Activate to activate of the same bank, tRC. Without an override it is the sum of `ras` and
    /// `rp` if one of these is given.
    rc,
    /// End of write data to precharge, tWR.
    wr,
    /// Read to precharge, tRTP.
    rtp,
    /// Read to read of another bank group, tCCD_S.
    ccd_s,
    /// Read to read of the same bank group, tCCD_L.
    ccd_l,
    /// Read to read of another stack ID, tCCD_R (HBM); as `ccd_s` in other standards. If `ccd_s` is
    /// given and this is not, it keeps its distance from `ccd_s`.
    ccd_r,
    /// Write to write of another bank group, tCCD_S_WR; as `ccd_s` if the standard has one value.
    ccd_s_wr,
    /// Write to write of the same bank group, tCCD_L_WR; as `ccd_l` if the standard has one value.
    ccd_l_wr,
    /// Activate to activate of another bank group, tRRD_S.
    rrd_s,
    /// Activate to activate of the same bank group, tRRD_L.
    rrd_l,
    /// Window of at most four activates of a rank, tFAW.
    faw,
    /// End of write data to read of another bank group, tWTR_S.
    wtr_s,
    /// End of write data to read of the same bank group, tWTR_L.
    wtr_l,
    /// Bus turnaround from the end of read data to the start of write data
    /// (preambles and postambles).
    rtw_gap,
    /// Bus turnaround as `rtw_gap`, within a bank group; equal to `rtw_gap` if the standard has one
    /// value. If `rtw_gap` is given and this is not, it keeps its distance from `rtw_gap`.
    rtw_gap_l,
    /// Gap on the data bus between the data of two ranks, if one of them reads (tCS, tRTRS).
    rank_gap,
    /// Precharge to precharge of the same rank, tPPD; 0 or 1 for no constraint.
    ppd,
    /// Average time between two refreshes of a rank (of all its banks), tREFI.
    refi,
    /// Refresh of all banks to activate, tRFC.
    rfc,
    /// Refresh of one bank, or of the same bank in each group, to activate there: tRFCpb, tRFCsb.
    rfc_pb,
    /// Refresh of one bank to refresh of another of the same rank: tpbR2pbR, tREFSBRD, tRREFD.
    pbr_pbr,
    /// Refresh of one bank to activate of another of the same rank: tpbR2act, tREFSBRD, tRREFD.
    pbr_act,
    /// Time after the last data for which the write clock stays synchronized (LPDDR5: tWCKPST). A
    /// later access needs a CAS command before it. 0 if there is no write clock.
    wck_post,
}

impl Timings {
    /// The parameters of a standard without further rules: one value of tRCD, tRP, tCCD_S and
    /// tCCD_L each, tRC as the sum of tRAS and tRP, gaps of two clocks on the data bus, and 0 for
    /// all that depends on the organization. In clocks; see [`Timings`] for their meaning.
    pub(super) const fn core(
        burst: u32,
        [cl, cwl, rcd, rp, ras, wr, rtp, ccd_l, wtr_s, wtr_l]: [u32; 10],
    ) -> Timings {
        Timings {
            burst,
            burst_group: burst,
            cl,
            cwl,
            rcd,
            rcd_wr: rcd,
            rp,
            rp_all: rp,
            ras,
            rc: ras + rp,
            wr,
            rtp,
            ccd_s: burst,
            ccd_l,
            ccd_r: burst,
            ccd_s_wr: burst,
            ccd_l_wr: ccd_l,
            wtr_s,
            wtr_l,
            rtw_gap: 2,
            rtw_gap_l: 2,
            rank_gap: 2,
            ..ZERO
        }
    }
}

/// Least distances from an activate to later commands of its rank, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct AfterActivate {
    pub rd: u64,
    pub wr: u64,
    pub pre: u64,
    /// To an activate of the same bank, of its bank group, and of other groups.
    pub act: u64,
    pub act_l: u64,
    pub act_s: u64,
    pub ref_other: u64,
}

/// Least distances from a read to later commands, in ticks. Suffixes: `_l` in the same bank group, `_s` in
/// others, `_rank` in another rank, `_stack` in another stack ID.
#[derive(Clone, Copy, Debug)]
pub(super) struct AfterRead {
    pub pre: u64,
    pub rd_l: u64,
    pub rd_s: u64,
    pub rd_rank: u64,
    pub rd_stack: u64,
    pub wr_l: u64,
    pub wr: u64,
    pub wr_rank: u64,
}

/// Least distances from a write to later commands, in ticks. Suffixes as for reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct AfterWrite {
    pub pre: u64,
    pub wr_l: u64,
    pub wr_s: u64,
    pub wr_rank: u64,
    pub rd_l: u64,
    pub rd_s: u64,
    pub rd_rank: u64,
}

/// Least distances from a refresh to later commands of its rank, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct AfterRefresh {
    /// From a refresh of all banks to an activate.
    pub act: u64,
    /// From a refresh of one bank to an activate there, to one elsewhere, and to the next refresh.
    pub same_act: u64,
    pub other_act: u64,
    pub pbr: u64,
}

/// Ticks for which a command occupies its bus.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandTicks {
    pub act: u64,
    pub col: u64,
    pub row: u64,
    pub cas: u64,
    /// The time within which the second half of an activate follows the first.
    pub second_within: u64,
}

/// Least distances between two commands, in ticks, from the first tick of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandSpacing {
    pub act: AfterActivate,
    pub rd: AfterRead,
    pub wr: AfterWrite,
    pub refresh: AfterRefresh,
    pub ticks: CommandTicks,
    pub faw: u64,
    pub pre_act: u64,
    pub pre_all_act: u64,
    /// Extra wait of a refresh, compared with an activate, after the same precharge.
    pub ref_after_act: u64,
    pub pre_pre: u64,
    /// Read command to the end of its data.
    pub read_done: u64,
    /// Write command to the end of its data.
    pub write_done: u64,
    pub burst: u64,
    pub refi: u64,
    pub wck_post: u64,
}

impl CommandSpacing {
    pub(super) fn new(t: &Timings, bus: &CommandBus) -> CommandSpacing {
        let clock = i64::from(bus.ticks_per_clock);
        let span = |clocks: i64| clocks * clock;
        // The extra ticks of a command, if distances count from its last tick.
        let offset = |ticks: u32| i64::from(bus.from_last) * (i64::from(ticks) - 1);
        let (act, col, row) = (offset(bus.act), offset(bus.column), offset(bus.row));
        let gap = |clocks: i64, before: i64, after: i64| -> u64 {
            u64::try_from(span(clocks) + before - after).unwrap_or(0)
        };
        let get = i64::from;
        let (bl, cl, cwl) = (get(t.burst), get(t.cl), get(t.cwl));
        CommandSpacing {
            act: AfterActivate {
                rd: gap(get(t.rcd), act, col),
                wr: gap(get(t.rcd_wr), act, col),
                pre: gap(get(t.ras), act, row),
                act: gap(get(t.rc), act, act),
                act_l: gap(get(t.rrd_l.max(t.rrd_s)), act, act),
                act_s: gap(get(t.rrd_s), act, act),
                ref_other: gap(get(t.rrd_s), act, row),
            },
            rd: AfterRead {
                pre: gap(get(t.rtp), col, row),
                rd_l: gap(get(t.ccd_l.max(t.burst)), col, col),
                rd_s: gap(get(t.ccd_s.max(t.burst)), col, col),
                rd_rank: gap(bl + get(t.rank_gap), col, col),
                rd_stack: gap(get(t.ccd_r.max(t.burst)), col, col),
                wr_l: gap(cl + bl + get(t.rtw_gap_l) - cwl, col, col),
                wr: gap(cl + bl + get(t.rtw_gap) - cwl, col, col),
                wr_rank: gap(cl + bl + get(t.rank_gap) - cwl, col, col),
            },
            wr: AfterWrite {
                pre: gap(cwl + bl + get(t.wr), col, row),
                wr_l: gap(get(t.ccd_l_wr.max(t.burst)), col, col),
                wr_s: gap(get(t.ccd_s_wr.max(t.burst)), col, col),
                wr_rank: gap(bl, col, col),
                rd_l: gap(cwl + get(t.burst_group) + get(t.wtr_l), col, col),
                rd_s: gap(cwl + bl + get(t.wtr_s), col, col),
                rd_rank: gap((cwl + bl + get(t.rank_gap) - cl).max(0), col, col),
            },
            refresh: AfterRefresh {
                act: gap(get(t.rfc), row, act),
                same_act: gap(get(t.rfc_pb), row, act),
                other_act: gap(get(t.pbr_act), row, act),
                pbr: gap(get(t.pbr_pbr), row, row),
            },
            ticks: CommandTicks {
                act: u64::from(bus.act),
                col: u64::from(bus.column),
                row: u64::from(bus.row),
                cas: u64::from(bus.cas),
                second_within: u64::from(bus.second_within),
            },
            faw: gap(get(t.faw), act, act),
            pre_act: gap(get(t.rp), row, act),
            pre_all_act: gap(get(t.rp_all), row, act),
            ref_after_act: u64::try_from(act - row).unwrap_or(0),
            pre_pre: gap(get(t.ppd), row, row),
            read_done: gap(cl + bl, 0, 0),
            write_done: gap(cwl + bl, 0, 0),
            burst: gap(bl, 0, 0),
            refi: gap(get(t.refi), 0, 0),
            wck_post: gap(get(t.wck_post), 0, 0),
        }
    }
}
