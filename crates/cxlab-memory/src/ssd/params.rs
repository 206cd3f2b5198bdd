//! What a user says of a drive.

use cxlab_engine::catalog::ParamError;
use cxlab_engine::units::{Bytes, BytesPerSec, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::geometry::Geometry;
use super::presets::{Cells, FlashPreset};
use super::victims::PolicyName;

/// Parameters of the SSD medium.
///
/// A preset gives cells, geometry of the die and timing; every part of it can be overridden.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct SsdParams {
    /// The flash: timing, page, block and endurance, each with its source in the preset. Default
    /// `z-nand`, as in Yang et al. (USENIX ATC 2023).
    pub flash: FlashPreset,
    /// Channels, each a bus of its own. 1 to 64. Default 8 (MQSim, FAST 2018).
    #[schemars(range(min = 1, max = 64))]
    pub channels: u32,
    /// Chips of a channel. 1 to 64. Default 8 (Yang et al., USENIX ATC 2023).
    #[schemars(range(min = 1, max = 64))]
    pub ways: u32,
    /// Dies of a chip, each doing one command at a time. 1 to 16. Default 1.
    #[schemars(range(min = 1, max = 16))]
    pub dies: u32,
    /// Planes of a die. 1 to 16. Default: as the preset.
    #[schemars(range(min = 1, max = 16))]
    pub planes: Option<u32>,
    /// Blocks of a plane, at least 8. Default: as many as capacity and over-provisioning need.
    #[schemars(range(min = 8, max = 1_048_576))]
    pub blocks: Option<u32>,
    /// Pages of a block. 4 to 4096. Default: as the preset.
    #[schemars(range(min = 4, max = 4096))]
    pub pages: Option<u32>,
    /// Data of a flash page, a power of two from 512 B to 64 KiB. Default: as the preset.
    pub page: Option<Bytes>,
    /// What is mapped, read and buffered as a whole: a power of two from 512 B to the page, 1/32 of
    /// the page at least. Default 4 KiB, or the page where that is smaller.
    pub sub_page: Option<Bytes>,
    /// Array time of a read, by the level of the page: LSB, CSB, MSB. 1 to 4 levels, as many as
    /// of `program_times`. Page `i` of a block is of level `i` modulo their number (*assumed*:
    /// parts differ in how they order pages). Default: as the preset.
    pub read_times: Option<Vec<Picos>>,
    /// Array time of a program, by level. Default: as the preset.
    pub program_times: Option<Vec<Picos>>,
    /// Time of an erase. Default: as the preset.
    pub erase_time: Option<Picos>,
    /// Time on the channel of a command with its address. Default 200 ns (*assumed*: 7 cycles of
    /// tWC 25 ns and tWB; those two from the sample configuration of SimpleSSD 2.1).
    pub command_time: Picos,
    /// Data rate of a channel. Default: as the preset.
    pub channel_rate: Option<BytesPerSec>,
    /// Whether a read may suspend a program or an erase. Default: both.
    pub suspend: Suspend,
    /// Time from a suspend to the die being ready, and again from the resume to the program going
    /// on. Default: as the preset.
    pub suspend_program_time: Option<Picos>,
    /// The same of an erase. Default: as the preset.
    pub suspend_erase_time: Option<Picos>,
    /// How often one program or erase may be suspended. 1 to 255. Default 8 (*assumed*).
    #[schemars(range(min = 1, max = 255))]
    pub suspend_limit: u8,
    /// Which commands the planes of a die may do together. Default `same-page`.
    pub multi_plane: MultiPlane,
    /// Reads that a die, or a channel, prefers in a row while a program waits. 1 to 65536. Default
    /// 32 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub read_streak: u32,
    /// Physical flash beyond the device's capacity, as a fraction of the capacity. It also holds
    /// the mapping and the free blocks, so there is more of it where a plane has few blocks. 0.01 to
    /// 10. Default 0.07: 1 GiB sold as 1 GB.
    #[schemars(range(min = 0.01, max = 10.0))]
    pub over_provisioning: f64,
    /// Order in which consecutive pages go to channels (C), ways (W), dies (D) and planes (P): a
    /// permutation of these letters, the first one changing fastest (Jung and Kandemir, HotStorage
    /// 2012). Default `CWDP`.
    pub allocation: String,
    /// Part of the mapping that is held in the drive's own DRAM, in whole translation pages.
    /// Default: all of it, which is about 1/1024 of the capacity.
    pub mapping_cache: Option<Bytes>,
    /// Time of a look into the mapping. Default 0 ns.
    pub mapping_time: Picos,
    /// Write buffer. At least two flash pages. Default 8 MiB (*assumed*).
    pub buffer: Bytes,
    /// Whether reads of what is in the buffer are answered from there. Default true. False is
    /// SimpleSSD's default (`EnableReadCache = 0`): they take the time of a flash read.
    pub buffer_reads: bool,
    /// Time to read or write a sub-page in the buffer. Default 50 ns, the DRAM of CXL-SSD-Sim
    /// (section III-A).
    pub buffer_time: Picos,
    /// Part of the buffer that may stay dirty before it is flushed. 0 to 0.9. Default 0.5
    /// (*assumed*).
    #[schemars(range(min = 0.0, max = 0.9))]
    pub buffer_dirty: f64,
    /// When a write is answered. Default `buffered`.
    pub acknowledge: Acknowledge,
    /// Which block garbage collection takes. Default `greedy`.
    pub gc_policy: PolicyName,
    /// Blocks among which `d-choice` chooses. 1 to 1024. Default 10, near greedy (Van Houdt,
    /// SIGMETRICS 2013).
    #[schemars(range(min = 1, max = 1024))]
    pub gc_choices: u32,
    /// Collection begins when a plane has fewer free blocks, and ends when it has as many. 3 to
    /// 4096. Default 4 (*assumed*).
    #[schemars(range(min = 3, max = 4096))]
    pub gc_start: u32,
    /// Collection goes before requests when a plane has fewer free blocks. At least 2, less than
    /// `gc_start`. Default 2: when only the block that collection needs is left (*assumed*).
    #[schemars(range(min = 2, max = 4095))]
    pub gc_hard: u32,
    /// Whether collection waits for requests until `gc_hard`. Default true.
    pub gc_preemptible: bool,
    /// Whether data moved by collection go to blocks of their own. Default true.
    pub gc_separate: bool,
    /// Dynamic wear levelling: the least worn free block is written next. Default true; otherwise
    /// the one that has been free for longest.
    pub wear_dynamic: bool,
    /// Static wear levelling: how much more often the most worn block of a plane may be erased than
    /// the least worn one, before the data of the latter move to a worn block. 0, which is any
    /// number, to 1000000. Default 100 (MQSim).
    #[schemars(range(min = 0, max = 1_000_000))]
    pub wear_static: u32,
    /// Erases that a block survives, for projections; blocks do not fail. 1 to 100000000. Default:
    /// as the preset.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub endurance: Option<u32>,
    /// Constant time of the controller for each request. Default 0 ns: hardware that is counted with
    /// the device.
    pub controller_time: Picos,
    /// Reads that the drive holds at once. 1 to 65536. Default 256 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub read_queue: u32,
    /// Writes that the drive holds at once. 1 to 65536. Default 256 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub write_queue: u32,
    /// What a read of something never written costs. Default `array`.
    pub unwritten: Unwritten,
    /// What becomes of the buffer when power fails. Default `capacitor`.
    pub power_loss: PowerLoss,
    /// Part of the capacity that is filled before the run, in no simulated time. 0 to 1. Default 0.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub fill: f64,
    /// Order of the fill. Default `sequential`.
    pub fill_order: FillOrder,
    /// Random overwrites before the run, in no simulated time, as a multiple of what was filled.
    /// 0 to 100. About 3 reach a steady state. Default 0.
    #[schemars(range(min = 0.0, max = 100.0))]
    pub overwrite: f64,
}

/// Whether a read may suspend what the die does.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Suspend {
    /// Reads wait.
    Never,
    /// An erase can be suspended (Kim et al., USENIX ATC 2019).
    Erase,
    /// A program or an erase can be suspended (Wu and He, FAST 2012).
    ProgramAndErase,
}

/// Which commands the planes of a die may do together.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum MultiPlane {
    /// One plane at a time.
    Off,
    /// The same command at the same page of different planes (ONFI).
    SamePage,
    /// The same command at any pages of different planes (independent planes).
    Independent,
}

/// When a write is answered.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Acknowledge {
    /// When it is in the write buffer.
    Buffered,
    /// When it has been programmed; the buffer is flushed at once, in padded pages if need be.
    Programmed,
}

/// What a read of something never written costs.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Unwritten {
    /// As much as if the drive had been filled in order: an experiment need not fill it.
    Array,
    /// The time of a look into the buffer: the mapping knows that there is nothing.
    Zero,
}

/// What becomes of the write buffer when power fails.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum PowerLoss {
    /// Capacitors last until the buffer is flushed; every answered write survives.
    Capacitor,
    /// The buffer is lost, and so is a page that is being programmed. What was programmed before
    /// survives.
    None,
}

/// Order in which preconditioning fills the drive.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum FillOrder {
    /// By address.
    Sequential,
    /// In a random order of the sub-pages.
    Random,
}

impl Default for SsdParams {
    fn default() -> Self {
        SsdParams {
            flash: FlashPreset::ZNand,
            channels: 8,
            ways: 8,
            dies: 1,
            planes: None,
            blocks: None,
            pages: None,
            page: None,
            sub_page: None,
            read_times: None,
            program_times: None,
            erase_time: None,
            command_time: Picos::from_nanos(200),
            channel_rate: None,
            suspend: Suspend::ProgramAndErase,
            suspend_program_time: None,
            suspend_erase_time: None,
            suspend_limit: 8,
            multi_plane: MultiPlane::SamePage,
            read_streak: 32,
            over_provisioning: 0.07,
            allocation: "CWDP".to_owned(),
            mapping_cache: None,
            mapping_time: Picos::ZERO,
            buffer: Bytes(8 << 20),
            buffer_reads: true,
            buffer_time: Picos::from_nanos(50),
            buffer_dirty: 0.5,
            acknowledge: Acknowledge::Buffered,
            gc_policy: PolicyName::default(),
            gc_choices: 10,
            gc_start: 4,
            gc_hard: 2,
            gc_preemptible: true,
            gc_separate: true,
            wear_dynamic: true,
            wear_static: 100,
            endurance: None,
            controller_time: Picos::ZERO,
            read_queue: 256,
            write_queue: 256,
            unwritten: Unwritten::Array,
            power_loss: PowerLoss::Capacitor,
            fill: 0.0,
            fill_order: FillOrder::Sequential,
            overwrite: 0.0,
        }
    }
}

/// Longest time that a phase of the flash may take: 100 s.
const LONGEST: Picos = Picos(100_000_000_000_000);

fn between(name: &str, value: u64, least: u64, most: u64) -> Result<(), ParamError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let message = format!("found {value}; allowed: {least} to {most}");
    Err(ParamError::new(name, message))
}

fn part(name: &str, value: f64, least: f64, most: f64) -> Result<(), ParamError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let message = format!("found {value}; allowed: {least} to {most}");
    Err(ParamError::new(name, message))
}

fn power_of_two(name: &str, value: Bytes, least: u64, most: u64) -> Result<(), ParamError> {
    if value.0.is_power_of_two() && (least..=most).contains(&value.0) {
        return Ok(());
    }
    let (least, most) = (Bytes(least), Bytes(most));
    let message = format!("found {value}; allowed: a power of two from {least} to {most}");
    Err(ParamError::new(name, message))
}

impl SsdParams {
    /// The preset with what overrides it.
    pub fn cells(&self) -> Cells {
        let preset = self.flash.cells();
        Cells {
            planes: self.planes.unwrap_or(preset.planes),
            pages: self.pages.unwrap_or(preset.pages),
            page: self.page.unwrap_or(preset.page),
            read: self.read_times.clone().unwrap_or(preset.read),
            program: self.program_times.clone().unwrap_or(preset.program),
            erase: self.erase_time.unwrap_or(preset.erase),
            suspend_program: self.suspend_program_time.unwrap_or(preset.suspend_program),
            suspend_erase: self.suspend_erase_time.unwrap_or(preset.suspend_erase),
            rate: self.channel_rate.unwrap_or(preset.rate),
            endurance: self.endurance.unwrap_or(preset.endurance),
        }
    }

    /// Bytes of a sub-page.
    pub fn sub_page_bytes(&self) -> Bytes {
        let page = self.cells().page;
        self.sub_page.unwrap_or(Bytes(page.0.min(4096)))
    }

    /// Checks what does not depend on the device.
    ///
    /// # Errors
    /// The first parameter that is out of range or contradicts another.
    pub fn check_alone(&self) -> Result<(), ParamError> {
        let cells = self.cells();
        between("channels", self.channels.into(), 1, 64)?;
        between("ways", self.ways.into(), 1, 64)?;
        between("dies", self.dies.into(), 1, 16)?;
        between("planes", cells.planes.into(), 1, 16)?;
        between("pages", cells.pages.into(), 4, 4096)?;
        power_of_two("page", cells.page, 512, 65536)?;
        let least = (cells.page.0 / 32).max(512);
        power_of_two("sub_page", self.sub_page_bytes(), least, cells.page.0)?;
        if let Some(blocks) = self.blocks {
            between("blocks", blocks.into(), 8, 1 << 20)?;
        }
        self.check_times(&cells)?;
        between("suspend_limit", self.suspend_limit.into(), 1, 255)?;
        between("read_streak", self.read_streak.into(), 1, 65536)?;
        part("over_provisioning", self.over_provisioning, 0.01, 10.0)?;
        Geometry::order_of(&self.allocation)?;
        if let Some(cache) = self.mapping_cache {
            let least = self.sub_page_bytes();
            if cache < least {
                let message =
                    format!("found {cache}; allowed: a translation page of {least} or more");
                return Err(ParamError::new("mapping_cache", message));
            }
        }
        let least = Bytes(2 * cells.page.0);
        if self.buffer < least || self.buffer.0 > 1 << 36 {
            let message = format!(
                "found {}; allowed: two flash pages ({least}) to 64 GiB",
                self.buffer
            );
            return Err(ParamError::new("buffer", message));
        }
        part("buffer_dirty", self.buffer_dirty, 0.0, 0.9)?;
        between("gc_choices", self.gc_choices.into(), 1, 1024)?;
        between("gc_start", self.gc_start.into(), 3, 4096)?;
        between(
            "gc_hard",
            self.gc_hard.into(),
            2,
            u64::from(self.gc_start) - 1,
        )?;
        between("wear_static", self.wear_static.into(), 0, 1_000_000)?;
        between("endurance", cells.endurance.into(), 1, 100_000_000)?;
        between("read_queue", self.read_queue.into(), 1, 65536)?;
        between("write_queue", self.write_queue.into(), 1, 65536)?;
        part("fill", self.fill, 0.0, 1.0)?;
        part("overwrite", self.overwrite, 0.0, 100.0)
    }

    fn check_times(&self, cells: &Cells) -> Result<(), ParamError> {
        for (name, times) in [
            ("read_times", &cells.read),
            ("program_times", &cells.program),
        ] {
            between(&format!("the number of {name}"), times.len() as u64, 1, 4)
                .map_err(|error| ParamError::new(name, error.to_string()))?;
        }
        if cells.read.len() != cells.program.len() {
            let (reads, programs) = (cells.read.len(), cells.program.len());
            let message =
                format!("found {programs} levels beside {reads} of `read_times`; allowed: as many");
            return Err(ParamError::new("program_times", message));
        }
        let lists = cells.read.iter().map(|time| ("read_times", *time));
        let lists = lists.chain(cells.program.iter().map(|time| ("program_times", *time)));
        let single = [
            ("erase_time", cells.erase),
            ("command_time", self.command_time),
            ("suspend_program_time", cells.suspend_program),
            ("suspend_erase_time", cells.suspend_erase),
            ("mapping_time", self.mapping_time),
            ("buffer_time", self.buffer_time),
            ("controller_time", self.controller_time),
        ];
        for (name, time) in lists.chain(single) {
            if time > LONGEST {
                let message = format!("found {time}; allowed: 0 s to {LONGEST}");
                return Err(ParamError::new(name, message));
            }
        }
        if cells.rate.0 < 1_000_000 {
            let message = format!("found {}; allowed: 1 MB/s or more", cells.rate);
            return Err(ParamError::new("channel_rate", message));
        }
        Ok(())
    }
}
