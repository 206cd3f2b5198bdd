//! Parameters of the `dram` medium.

use cxlab_engine::catalog::{ParamError, in_range, read_params};
use cxlab_engine::units::{Bytes, LINE_BYTES, Picos};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::channel::{Config, Page, Refresh};
use super::hash::BankHash;
use super::mapping::{AddressMapping, FieldWidths};
use super::standard::{Currents, DramStandard, FineRefresh, Organization, SpeedGrade};
use super::standards;
use super::timing::{CommandSpacing, TimingOverrides, Timings};

/// Parameters of the `dram` medium.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct DramParams {
    /// Speed grade, which also selects the standard. Default `DDR5-4800BN`. The sources of each
    /// grade's values are in `docs/explain/dram.md`.
    #[schemars(schema_with = "grade_names")]
    pub grade: String,
    /// Density and width of a device, as in `16Gb x8` (for HBM the density of a channel). Default:
    /// the first of the standard: DDR4 `8Gb x8`, DDR5 `16Gb x8`, LPDDR4 and LPDDR5 `8Gb x16`,
    /// LPDDR6 `16Gb x12`, HBM2 `8Gb`, the other HBM `4Gb`. `8-high` and `16-high` organizations
    /// have 2 or 4 stack IDs, the upper bits of the bank group.
    pub organization: Option<String>,
    /// Number of channels, each with its own buses, queues and scheduler. A power of two, 1 to 64.
    /// Default 2: the two subchannels of a DDR5 module.
    #[schemars(range(min = 1, max = 64))]
    pub channels: u32,
    /// Ranks in a channel (in a pseudo channel). A power of two, 1 to 16. Default 1.
    #[schemars(range(min = 1, max = 16))]
    pub ranks: u32,
    /// Data bits of a channel (of a pseudo channel): a device's width times a power of two.
    /// Default: DDR4 64, DDR5 32, LPDDR4 64, LPDDR5 16, LPDDR6 12, HBM1 128, HBM2 64, HBM3
    /// and HBM4 32.
    #[schemars(range(min = 4, max = 1024))]
    pub width: Option<u32>,
    /// Clock period. Default: the grade's, rounded down to a picosecond. 100 ps to 10 ns.
    pub clock: Option<Picos>,
    /// Address mapping: `RoBaRaCoCh` (default), `ChRaBaRoCo`, `MOP4CLXOR`, or fields from
    /// the most to the least significant bit: `Ro` row, `Ba` bank, `Bg` bank group, `Ra`
    /// rank, `Pc` pseudo channel, `Co` column, `Ch` channel. A split field has a number of
    /// bits, as in `RoCo5BaBgRaCo2Ch`.
    pub mapping: String,
    /// Address bits that are added (exclusive or) to the bits of channel, rank and bank that
    /// `mapping` gives. Default `none`.
    pub hash: BankHash,
    /// Capacity of a channel's read queue, in bursts. 1 to 1024. Default 32
    /// (Ramulator 2, DRAMsim3).
    #[schemars(range(min = 1, max = 1024))]
    pub read_queue: u32,
    /// Capacity of a channel's write queue, in bursts. 1 to 1024. Default 32
    /// (Ramulator 2, DRAMsim3).
    #[schemars(range(min = 1, max = 1024))]
    pub write_queue: u32,
    /// A drain of writes starts when more than this part of their queue is in use, in percent. 1 to
    /// 100 (100: when the queue is full). Default 80 (Ramulator 2).
    #[schemars(range(min = 1, max = 100))]
    pub drain_above: u32,
    /// A drain of writes ends when less than this part of their queue is in use, in percent. 0 to
    /// 100, not above `drain_above`. Default 20 (Ramulator 2).
    #[schemars(range(min = 0, max = 100))]
    pub drain_below: u32,
    /// Capacity of a queue for each bank, behind the read and write queues, which then feed these
    /// queues with one burst a clock. Banks are served in turn (as in DRAMsim3). 1 to 64. Default:
    /// none; the scheduler chooses from the read or the write queue, oldest first.
    #[schemars(range(min = 1, max = 64))]
    pub bank_queue: Option<u32>,
    /// Capacity of a queue for each rank (of each pseudo channel), like `bank_queue`. Ranks
    /// are served in turn, the oldest request first. 1 to 1024. Not together with
    /// `bank_queue`. Default: none.
    #[schemars(range(min = 1, max = 1024))]
    pub rank_queue: Option<u32>,
    /// Requests that may wait for a channel's queue, over all channels. 0 to 4096. Default: none
    /// for one channel (a request is accepted when the queue has room), 16 for each of several
    /// channels (*assumed*), because the channel of a request is not known before its acceptance.
    #[schemars(range(min = 0, max = 4096))]
    pub input_queue: Option<u32>,
    /// Accesses to an open row after which younger row hits wait for an older
    /// request to another row of the bank. 1 to 1,000,000 (in effect no limit).
    /// Default 16 (gem5's `max_accesses_per_row`).
    #[schemars(range(min = 1, max = 1_000_000))]
    pub row_hit_cap: u32,
    /// Accesses to an open row after which such an older request may close the row as soon as the
    /// timings allow; younger hits continue until then. 0 to 1,000,000. Default 4 (DRAMsim3); 0 is
    /// Ramulator 2's behaviour.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub yield_after: u32,
    /// Page policy: when rows are closed. Default `open`.
    pub page: PagePolicy,
    /// The banks that one refresh command covers. Default `all-bank`.
    pub refresh: RefreshMode,
    /// Activates of a bank after which it gets refresh management (RFM; RAAIMT of JESD79-5). The
    /// command takes as long as a refresh, and covers all banks, one, or the same bank of each
    /// group, as `refresh` says. A refresh reduces the counts of its banks by this number. DDR5,
    /// HBM3 and HBM4. 8 to 1,000,000; devices require 32 to 80. Default: none.
    #[schemars(range(min = 8, max = 1_000_000))]
    pub rfm: Option<u32>,
    /// Whether the refreshes of a channel's ranks are evenly spread over time. Default true.
    pub stagger: bool,
    /// Whether a queued write absorbs a later write to the same burst. Default true.
    pub coalesce: bool,
    /// The point at which a write completes. Default `queued`.
    pub write_done: WriteDone,
    /// Timing parameters that replace those of the grade, in clocks.
    pub timing: TimingOverrides,
    /// Supply voltage and currents that replace those of the grade.
    pub currents: CurrentOverrides,
}

/// The page policy: when rows are closed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub enum PagePolicy {
    /// A row is closed when another row of its bank is needed.
    #[default]
    Open,
    /// A row is closed with the last access that the queues hold for it.
    Closed,
    /// A row is closed after a number of accesses, after some idle time, or both.
    Capped {
        /// Number of accesses; the last one closes the row. 1 to 1,000,000. Default: no limit.
        #[schemars(range(min = 1, max = 1_000_000))]
        accesses: Option<u32>,
        /// Time since the last access. More than 0, at most 1 ms. Default: no limit.
        idle: Option<Picos>,
    },
}

/// The banks that one refresh command covers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum RefreshMode {
    /// Rows are never refreshed.
    None,
    /// All banks of a rank, each tREFI.
    #[default]
    AllBank,
    /// One bank (LPDDR5, HBM), each tREFI / banks.
    PerBank,
    /// The same bank of every bank group (DDR5), each tREFI / 2 / banks of a group.
    SameBank,
}

/// The point at which a write completes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum WriteDone {
    /// A write completes one clock after it was queued; later reads see it from then on.
    #[default]
    Queued,
    /// A write completes when its data have been transferred to the device.
    Written,
}

macro_rules! current_overrides {
    ($($(#[doc = $doc:literal])* $name:ident: $of:ident,)*) => {
        /// Supply voltage and currents of one device, as data sheets name them. Range of each: 0 to
        /// 100,000. Default of each: the grade's.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
        #[serde(deny_unknown_fields, default)]
        pub struct CurrentOverrides {
            $($(#[doc = $doc])* #[schemars(range(min = 0, max = 100_000))] pub $name: Option<u32>,)*
        }

        impl CurrentOverrides {
            fn over(&self, grade: &Currents) -> Currents {
                Currents { $($of: self.$name.unwrap_or(grade.$of),)* }
            }
        }
    };
}

current_overrides! {
    /// Supply voltage, in millivolts.
    vdd_mv: vdd_mv,
    /// One bank activated and precharged each tRC (IDD0), in milliamperes.
    idd0_ma: idd0,
    /// Standby, all banks precharged (IDD2N), in milliamperes.
    idd2n_ma: idd2n,
    /// Standby, a bank active (IDD3N), in milliamperes.
    idd3n_ma: idd3n,
    /// Reading in bursts without gap (IDD4R), in milliamperes.
    idd4r_ma: idd4r,
    /// Writing in bursts without gap (IDD4W), in milliamperes.
    idd4w_ma: idd4w,
    /// Refreshing all banks without gap (IDD5B), in milliamperes.
    idd5b_ma: idd5b,
}

impl Default for DramParams {
    fn default() -> Self {
        DramParams {
            grade: "DDR5-4800BN".to_owned(),
            organization: None,
            channels: 2,
            ranks: 1,
            width: None,
            clock: None,
            mapping: "RoBaRaCoCh".to_owned(),
            hash: BankHash::None,
            read_queue: 32,
            write_queue: 32,
            drain_above: 80,
            drain_below: 20,
            bank_queue: None,
            rank_queue: None,
            input_queue: None,
            row_hit_cap: 16,
            yield_after: 4,
            page: PagePolicy::Open,
            refresh: RefreshMode::AllBank,
            rfm: None,
            stagger: true,
            coalesce: true,
            write_done: WriteDone::Queued,
            timing: TimingOverrides::default(),
            currents: CurrentOverrides::default(),
        }
    }
}

fn grade_names(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = standards::grades().map(|(_, grade)| grade.name).collect();
    schemars::json_schema!({ "type": "string", "enum": names })
}

/// The resolved and checked parameters.
#[derive(Clone, Debug)]
pub(super) struct ResolvedDram {
    pub standard: &'static str,
    pub timings: Timings,
    pub currents: Currents,
    /// Devices in a rank, which work in lockstep.
    pub devices: u32,
    pub config: Config,
    pub channels: u32,
    pub input: usize,
    pub mapping: AddressMapping,
    pub burst_bytes: u32,
    pub capacity: Bytes,
}

impl DramParams {
    /// Reads and checks parameters.
    ///
    /// # Errors
    /// The first parameter that is invalid, with the allowed values.
    pub fn read(params: &serde_json::Value) -> Result<DramParams, ParamError> {
        let params: DramParams = read_params(params)?;
        params.resolve()?;
        Ok(params)
    }

    /// The data bits of a channel, which a device's width must divide.
    fn data_bits(
        &self,
        standard: &DramStandard,
        organization: &Organization,
    ) -> Result<u32, ParamError> {
        let width = self.width.unwrap_or(standard.width);
        let pins = organization.pins;
        let fits = width.is_multiple_of(pins) && (width / pins).is_power_of_two() && width <= 1024;
        let allowed = format!("the {pins} of a device times a power of two, up to 1024");
        require(fits, "width", format!("{width} bits: must be {allowed}"))?;
        Ok(width)
    }

    fn check_queues(&self) -> Result<(), ParamError> {
        in_range("read_queue", self.read_queue, 1..=1024)?;
        in_range("write_queue", self.write_queue, 1..=1024)?;
        in_range("drain_above", self.drain_above, 1..=100)?;
        in_range("drain_below", self.drain_below, 0..=self.drain_above)?;
        in_range("row_hit_cap", self.row_hit_cap, 1..=1_000_000)?;
        in_range("yield_after", self.yield_after, 0..=1_000_000)?;
        if let Some(depth) = self.bank_queue {
            in_range("bank_queue", depth, 1..=64)?;
        }
        if let Some(depth) = self.rank_queue {
            in_range("rank_queue", depth, 1..=1024)?;
            let message = format!("{depth}: allowed only without `bank_queue`");
            require(self.bank_queue.is_none(), "rank_queue", message)?;
        }
        if let Some(input) = self.input_queue {
            in_range("input_queue", input, 0..=4096)?;
        }
        Ok(())
    }

    /// The clock period in picoseconds.
    fn clock_ps(&self, grade: &SpeedGrade) -> Result<u64, ParamError> {
        let grade = u64::from(grade.clock_ps);
        let clock_ps = self.clock.map_or(grade, |clock| clock.0);
        in_range("clock", Picos(clock_ps), Picos(100)..=Picos(10_000))?;
        Ok(clock_ps)
    }

    pub(super) fn resolve(&self) -> Result<ResolvedDram, ParamError> {
        let (standard, grade) = standards::find(&self.grade).ok_or_else(|| {
            let names: Vec<&str> = standards::grades().map(|(_, grade)| grade.name).collect();
            let names = names.join(", ");
            let message = format!("`{}` is not known; known are {names}", self.grade);
            ParamError::new("grade", message)
        })?;
        let organization = self.find_organization(standard)?;
        power_of_two("channels", self.channels, 64)?;
        power_of_two("ranks", self.ranks, 16)?;
        let width = self.data_bits(standard, organization)?;
        self.check_queues()?;
        let timings = self.timings(standard, grade, organization)?;
        let clock_ps = self.clock_ps(grade)?;
        let gaps = CommandSpacing::new(&timings, &standard.bus);
        let pseudo = standard.pseudo_channels;
        let burst_bytes = (standard.payload * width).div_ceil(standard.width);
        let columns = organization.columns / standard.beats;
        let widths = FieldWidths {
            channel: self.channels.ilog2(),
            pseudo: pseudo.ilog2(),
            rank: self.ranks.ilog2(),
            group: (organization.stacks * organization.groups).ilog2(),
            bank: organization.banks.ilog2(),
            column: columns.ilog2(),
            row: organization.rows.ilog2(),
            burst: burst_bytes.ilog2(),
        };
        let ranks = self.ranks * pseudo;
        let groups = organization.stacks * organization.groups;
        let banks = ranks * groups * organization.banks;
        let queued = self.read_queue + self.write_queue;
        let behind = banks * self.bank_queue.unwrap_or(0) + ranks * self.rank_queue.unwrap_or(0);
        let entries = queued + banks + behind;
        let field = match self.rank_queue {
            Some(_) => "rank_queue",
            None => "bank_queue",
        };
        let queues = format!("{entries} requests in queues of {ranks} ranks and {banks} banks");
        let message = format!("{queues}: a channel holds at most 60,000");
        require(entries <= 60_000, field, message)?;
        let queue = self.bank_queue.or(self.rank_queue);
        let part = |percent: u32| (self.write_queue * percent) as usize;
        let config = Config {
            clock_ps,
            ticks_per_clock: u64::from(standard.bus.ticks_per_clock),
            ranks: ranks as usize,
            pseudo_channels: pseudo as usize,
            groups: groups as usize,
            stacks: organization.stacks as usize,
            banks: organization.banks as usize,
            dual: standard.bus.dual,
            reads: self.read_queue as usize,
            writes: self.write_queue as usize,
            high: part(self.drain_above) / 100,
            low: part(self.drain_below).div_ceil(100),
            queue: queue.map(|depth| depth as usize),
            queue_shift: match self.rank_queue {
                Some(_) => (groups * organization.banks).ilog2(),
                None => 0,
            },
            entries: entries as usize,
            yield_after: self.yield_after,
            hit_cap: self.row_hit_cap,
            page: self.page(clock_ps, &standard.bus)?,
            refresh: self.refresh(standard, &gaps)?,
            rfm: self.management(standard)?,
            stagger: self.stagger,
            coalesce: self.coalesce,
            written: self.write_done == WriteDone::Written,
            gaps,
        };
        let several = u32::from(self.channels > 1) * 16 * self.channels;
        Ok(ResolvedDram {
            standard: standard.name,
            timings,
            currents: self.currents.over(&grade.currents),
            devices: width / organization.pins,
            config,
            channels: self.channels,
            input: self.input_queue.unwrap_or(several) as usize,
            mapping: AddressMapping::new(&self.mapping, &self.hash, widths)?,
            burst_bytes,
            capacity: Bytes(1 << widths.total()),
        })
    }

    fn find_organization(
        &self,
        standard: &'static DramStandard,
    ) -> Result<&'static Organization, ParamError> {
        let Some(name) = &self.organization else {
            return Ok(&standard.organizations[0]);
        };
        let known = standard.organizations;
        known.iter().find(|one| one.name == name).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|one| one.name).collect();
            let names = names.join(", ");
            let of = standard.name;
            let message = format!("`{name}` is not one of {of}; known are {names}");
            ParamError::new("organization", message)
        })
    }

    fn timings(
        &self,
        standard: &DramStandard,
        grade: &SpeedGrade,
        organization: &Organization,
    ) -> Result<Timings, ParamError> {
        if let Some((name, value)) = self.timing.beyond(1_000_000) {
            let message = format!("found {value}; allowed: 0 to 1000000 clocks");
            return Err(ParamError::new(format!("timing.{name}"), message));
        }
        let mut timings = (standard.resolve)(grade, organization);
        let ccd_r = timings.ccd_r - timings.ccd_s;
        let rtw_gap_l = timings.rtw_gap_l - timings.rtw_gap;
        self.timing.apply(&mut timings);
        if self.timing.ccd_r.is_none() {
            timings.ccd_r = timings.ccd_s + ccd_r;
        }
        if self.timing.rtw_gap_l.is_none() {
            timings.rtw_gap_l = timings.rtw_gap + rtw_gap_l;
        }
        if self.timing.rc.is_none() && (self.timing.ras.is_some() || self.timing.rp.is_some()) {
            timings.rc = timings.ras + timings.rp;
        }
        for (name, value) in [
            ("burst", timings.burst),
            ("cl", timings.cl),
            ("rcd", timings.rcd),
            ("rp", timings.rp),
            ("rp_all", timings.rp_all),
            ("ras", timings.ras),
        ] {
            let message = "0: must be at least 1 clock";
            require(value > 0, &format!("timing.{name}"), message)?;
        }
        let (halves, rcd) = (standard.bus.second_within, timings.rcd);
        let message = format!("{rcd}: must exceed tAAD, {halves} clocks");
        let exceeds = rcd.min(timings.rcd_wr) > halves;
        require(halves == 0 || exceeds, "timing.rcd", message)?;
        let gap = timings.rtw_gap.min(timings.rtw_gap_l);
        let (cwl, most) = (timings.cwl, timings.cl + timings.burst + gap);
        let message = format!("{cwl}: must not exceed cl + burst + rtw_gap, {most} clocks");
        require(cwl <= most, "timing.cwl", message)?;
        Ok(timings)
    }

    fn page(&self, clock_ps: u64, bus: &super::standard::CommandBus) -> Result<Page, ParamError> {
        let never = Page {
            auto: false,
            hits: u32::MAX,
            idle: 0,
        };
        match self.page {
            PagePolicy::Open => Ok(never),
            PagePolicy::Closed => Ok(Page {
                auto: true,
                ..never
            }),
            PagePolicy::Capped {
                accesses: None,
                idle: None,
            } => {
                let message = "capped needs `accesses`, `idle` or both";
                Err(ParamError::new("page", message))
            }
            PagePolicy::Capped { accesses, idle } => {
                if let Some(accesses) = accesses {
                    in_range("page.accesses", accesses, 1..=1_000_000)?;
                }
                if let Some(idle) = idle {
                    in_range("page.idle", idle, Picos(1)..=Picos(1_000_000_000))?;
                }
                let ticks = u64::from(bus.ticks_per_clock);
                Ok(Page {
                    auto: false,
                    hits: accesses.unwrap_or(u32::MAX),
                    idle: idle.map_or(0, |idle| (idle.0 * ticks).div_ceil(clock_ps)),
                })
            }
        }
    }

    fn refresh(
        &self,
        standard: &DramStandard,
        gaps: &CommandSpacing,
    ) -> Result<Refresh, ParamError> {
        let (mode, needs) = match self.refresh {
            RefreshMode::None => return Ok(Refresh::Off),
            RefreshMode::AllBank => (Refresh::AllBank, None),
            RefreshMode::PerBank => (Refresh::PerBank, Some(FineRefresh::PerBank)),
            RefreshMode::SameBank => (Refresh::SameBank, Some(FineRefresh::SameBank)),
        };
        if needs.is_some_and(|needs| needs != standard.refresh) {
            let allowed = match standard.refresh {
                FineRefresh::No => "none, all-bank",
                FineRefresh::PerBank => "none, all-bank, per-bank",
                FineRefresh::SameBank => "none, all-bank, same-bank",
            };
            let message = format!("not known to {}; allowed are {allowed}", standard.name);
            return Err(ParamError::new("refresh", message));
        }
        let (refi, rfc) = (gaps.refi, gaps.refresh.act);
        let message = format!("{refi} ticks: must exceed rfc, {rfc}");
        require(
            mode != Refresh::AllBank || refi > rfc,
            "timing.refi",
            message,
        )?;
        Ok(mode)
    }

    /// Activates after which a bank gets refresh management; 0 for never.
    fn management(&self, standard: &DramStandard) -> Result<u32, ParamError> {
        let Some(activates) = self.rfm else {
            return Ok(0);
        };
        in_range("rfm", activates, 8..=1_000_000)?;
        let (name, known) = (standard.name, "allowed with DDR5, HBM3 and HBM4");
        let message = format!("{activates}: not known to {name}; {known}");
        require(standard.management, "rfm", message)?;
        let message = format!("{activates}: allowed only with refresh");
        require(self.refresh != RefreshMode::None, "rfm", message)?;
        Ok(activates)
    }
}

/// The number of bursts in a line: 1 if a burst is as long as a line or longer.
pub(super) fn bursts_of_line(burst_bytes: u32) -> u64 {
    (LINE_BYTES / u64::from(burst_bytes)).max(1)
}

/// Refuses a parameter that does not meet its condition.
fn require(met: bool, name: &str, message: impl Into<String>) -> Result<(), ParamError> {
    match met {
        true => Ok(()),
        false => Err(ParamError::new(name, message)),
    }
}

fn power_of_two(name: &str, value: u32, most: u32) -> Result<(), ParamError> {
    let message = format!("found {value}; allowed: a power of two from 1 to {most}");
    require(value.is_power_of_two() && value <= most, name, message)
}
