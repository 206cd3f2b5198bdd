//! Parameters of the `ssd` medium.

use cxlab_engine::catalog::{ParamError, in_range, refused};
use cxlab_engine::units::{Bytes, BytesPerSec, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::geometry::DriveGeometry;
use super::presets::{FlashDie, FlashPreset};
use super::victims::GcPolicyName;

/// Parameters of the `ssd` medium. A preset gives the timing and the geometry of the die; each of
/// its values can be overridden.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct SsdParams {
    /// The flash preset: timing, page, block and endurance, with a source for each value. Default
    /// `z-nand`, as in Yang et al. (USENIX ATC 2023).
    pub flash: FlashPreset,
    /// Number of channels, each with its own bus. 1 to 64. Default 8 (MQSim, FAST 2018).
    #[schemars(range(min = 1, max = 64))]
    pub channels: u32,
    /// Chips on a channel. 1 to 64. Default 8 (Yang et al., USENIX ATC 2023).
    #[schemars(range(min = 1, max = 64))]
    pub ways: u32,
    /// Dies in a chip; each executes one command at a time. 1 to 16. Default 1.
    #[schemars(range(min = 1, max = 16))]
    pub dies: u32,
    /// Planes in a die. 1 to 16. Default: as the preset.
    #[schemars(range(min = 1, max = 16))]
    pub planes: Option<u32>,
    /// Blocks in a plane, at least 8. Default: as many as capacity and over-provisioning need.
    #[schemars(range(min = 8, max = 1_048_576))]
    pub blocks: Option<u32>,
    /// Pages in a block. 4 to 4096. Default: as the preset.
    #[schemars(range(min = 4, max = 4096))]
    pub pages: Option<u32>,
    /// Data of a flash page, a power of two from 512 B to 64 KiB. Default: as the preset.
    pub page: Option<Bytes>,
    /// Unit of mapping, reads and buffering: a power of two from 512 B to the page, at least 1/32
    /// of the page. Default 4 KiB, or the page if that is smaller.
    pub sub_page: Option<Bytes>,
    /// The commands of the flash: times, and what dies may do at once.
    #[serde(flatten)]
    pub commands: CommandParams,
    /// Physical flash beyond the device's capacity, as a fraction of the capacity. The mapping and
    /// the free blocks are stored there too, so the drive has more of it if a plane has few blocks.
    /// 0.01 to 10. Default 0.07: 1 GiB sold as 1 GB.
    #[schemars(range(min = 0.01, max = 10.0))]
    pub over_provisioning: f64,
    /// Order in which consecutive pages are spread over channels (C), ways (W), dies (D) and planes
    /// (P): a permutation of `CWDP` whose first component changes fastest (Jung and Kandemir,
    /// HotStorage 2012). Default `CWDP`.
    pub allocation: String,
    /// Capacity of the mapping cache in the drive's own DRAM, in whole translation pages. Default:
    /// all of the mapping, which is about 1/1024 of the capacity.
    pub mapping_cache: Option<Bytes>,
    /// Time of a look-up in the mapping. Default 0 ns.
    pub mapping_time: Picos,
    /// The write buffer of the drive.
    #[serde(flatten)]
    pub write_buffer: WriteBufferParams,
    /// Garbage collection and wear levelling.
    #[serde(flatten)]
    pub collection: CollectionParams,
    /// Constant time of the controller for each request. Default 0 ns: that hardware is counted
    /// in the device.
    pub controller_time: Picos,
    /// Most outstanding reads. 1 to 65536. Default 256 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub read_queue: u32,
    /// Most outstanding writes. 1 to 65536. Default 256 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub write_queue: u32,
    /// Cost of a read of unwritten data. Default `array`.
    pub unwritten: Unwritten,
    /// Fate of the write buffer at a power failure. Default `capacitor`.
    pub power_loss: PowerLoss,
    /// Fraction of the capacity that is filled before the run, in no simulated time.
    /// 0 to 1. Default 0.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub fill: f64,
    /// Order of the fill. Default `sequential`.
    pub fill_order: FillOrder,
    /// Random overwrites before the run, in no simulated time, as a multiple of the filled data. 0
    /// to 100. About 3 reach a steady state. Default 0.
    #[schemars(range(min = 0.0, max = 100.0))]
    pub overwrite: f64,
}

/// Commands of the flash: their times, and what dies may do at once.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(default)]
pub struct CommandParams {
    /// Array time of a read, by the level of the page: LSB, CSB, MSB. 1 to 4 levels, as many as in
    /// `program_times`. Page `i` of a block has level `i` modulo the number of levels (*assumed*:
    /// parts differ in how they order pages). Default: as the preset.
    pub read_times: Option<Vec<Picos>>,
    /// Array time of a program, by level. Default: as the preset.
    pub program_times: Option<Vec<Picos>>,
    /// Time of an erase. Default: as the preset.
    pub erase_time: Option<Picos>,
    /// Channel time of a command with its address. Default 200 ns (*assumed*: 7 cycles of tWC 25 ns
    /// and tWB; these two from the sample configuration of SimpleSSD 2.1).
    pub command_time: Picos,
    /// Data rate of a channel. Default: as the preset.
    pub channel_rate: Option<BytesPerSec>,
    /// Whether a read may suspend a program or an erase. Default: both.
    pub suspend: Suspend,
    /// Time from a suspend until the die is ready, and again from the resume until the program
    /// continues. Default: as the preset.
    pub suspend_program_time: Option<Picos>,
    /// Time to suspend and to resume an erase. Default: as the preset.
    pub suspend_erase_time: Option<Picos>,
    /// Most suspends of one program or erase. 1 to 255. Default 8 (*assumed*).
    #[schemars(range(min = 1, max = 255))]
    pub suspend_limit: u8,
    /// Commands that the planes of a die may execute together. Default `same-page`.
    pub multi_plane: MultiPlane,
    /// Most reads in a row that a die or a channel serves while a program waits. 1 to 65536.
    /// Default 32 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub read_streak: u32,
}

/// The write buffer of the drive.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(default)]
pub struct WriteBufferParams {
    /// Capacity of the write buffer. At least two flash pages. Default 8 MiB (*assumed*).
    #[serde(rename = "buffer")]
    pub capacity: Bytes,
    /// Whether reads of buffered data are served from the buffer. Default true. False is
    /// SimpleSSD's default (`EnableReadCache = 0`): such reads take the time of a flash read.
    #[serde(rename = "buffer_reads")]
    pub reads: bool,
    /// Time to read or write a sub-page in the buffer. Default 50 ns (the DRAM of
    /// CXL-SSD-Sim, section III-A).
    #[serde(rename = "buffer_time")]
    pub time: Picos,
    /// Part of the buffer that may be dirty before flushing begins. 0 to 0.9.
    /// Default 0.5 (*assumed*).
    #[schemars(range(min = 0.0, max = 0.9))]
    #[serde(rename = "buffer_dirty")]
    pub dirty: f64,
    /// The point at which a write completes. Default `buffered`.
    pub acknowledge: Acknowledge,
}

/// Garbage collection and wear levelling.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(default)]
pub struct CollectionParams {
    /// Victim policy of garbage collection. Default `greedy`.
    #[serde(rename = "gc_policy")]
    pub policy: GcPolicyName,
    /// Number of blocks among which `d-choice` chooses. 1 to 1024. Default 10, near greedy (Van
    /// Houdt, SIGMETRICS 2013).
    #[schemars(range(min = 1, max = 1024))]
    #[serde(rename = "gc_choices")]
    pub choices: u32,
    /// Collection starts when a plane has fewer free blocks than this, and ends when it has as
    /// many. 3 to 4096. Default 4 (*assumed*).
    #[schemars(range(min = 3, max = 4096))]
    #[serde(rename = "gc_start")]
    pub start: u32,
    /// Collection has priority over requests when a plane has fewer free blocks than this.
    /// At least 2, less than `gc_start`. Default 2: only the block that collection needs
    /// is left (*assumed*).
    #[schemars(range(min = 2, max = 4095))]
    #[serde(rename = "gc_hard")]
    pub hard: u32,
    /// Whether collection yields to requests until `gc_hard`. Default true.
    #[serde(rename = "gc_preemptible")]
    pub preemptible: bool,
    /// Whether collection writes to separate blocks. Default true.
    #[serde(rename = "gc_separate")]
    pub separate: bool,
    /// Dynamic wear levelling: the next block to write is the least worn free block. Default true.
    /// Otherwise it is the block that has been free for longest.
    pub wear_dynamic: bool,
    /// Static wear levelling: most erases by which the most worn block of a plane may exceed the
    /// least worn one, before the data of the latter move to a worn block. 0 (no bound) to 1000000.
    /// Default 100 (MQSim).
    #[schemars(range(min = 0, max = 1_000_000))]
    pub wear_static: u32,
    /// Erases that a block survives, for projections; blocks do not fail. 1 to 100000000. Default:
    /// as the preset.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub endurance: Option<u32>,
}

/// The operations of a die that a read may suspend.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Suspend {
    /// Reads wait for the end of the operation.
    Never,
    /// A read may suspend an erase (Kim et al., USENIX ATC 2019).
    Erase,
    /// A read may suspend a program or an erase (Wu and He, FAST 2012).
    ProgramAndErase,
}

/// Commands that the planes of a die may execute together.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum MultiPlane {
    /// None: one plane works at a time.
    Off,
    /// The same command at the same page of different planes (ONFI).
    SamePage,
    /// The same command at any pages of different planes (independent planes).
    Independent,
}

/// The point at which a write completes.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Acknowledge {
    /// A write completes when it is in the write buffer.
    Buffered,
    /// A write completes when it has been programmed; the buffer is flushed at once, in padded
    /// pages if necessary.
    Programmed,
}

/// Cost of a read of unwritten data.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Unwritten {
    /// The time of a read as if the drive had been filled in order. Experiments then need no fill
    /// before the run.
    Array,
    /// The time of a look-up in the buffer, because the mapping has no entry.
    Zero,
}

/// Fate of the write buffer at a power failure.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum PowerLoss {
    /// Capacitors last until the buffer is flushed; every completed write survives.
    Capacitor,
    /// The buffer is lost, and so is a page that is being programmed. Data
    /// programmed before survive.
    None,
}

/// Order in which preconditioning fills the drive.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum FillOrder {
    /// By ascending address.
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
            commands: CommandParams::default(),
            over_provisioning: 0.07,
            allocation: "CWDP".to_owned(),
            mapping_cache: None,
            mapping_time: Picos::ZERO,
            write_buffer: WriteBufferParams::default(),
            collection: CollectionParams::default(),
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

impl Default for CommandParams {
    fn default() -> Self {
        CommandParams {
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
        }
    }
}

impl Default for WriteBufferParams {
    fn default() -> Self {
        WriteBufferParams {
            capacity: Bytes(8 << 20),
            reads: true,
            time: Picos::from_nanos(50),
            dirty: 0.5,
            acknowledge: Acknowledge::Buffered,
        }
    }
}

impl Default for CollectionParams {
    fn default() -> Self {
        CollectionParams {
            policy: GcPolicyName::default(),
            choices: 10,
            start: 4,
            hard: 2,
            preemptible: true,
            separate: true,
            wear_dynamic: true,
            wear_static: 100,
            endurance: None,
        }
    }
}

/// Bound on the time of a phase of the flash: 100 s.
const LONGEST: Picos = Picos(100_000_000_000_000);

fn power_of_two(name: &str, value: Bytes, least: u64, most: u64) -> Result<(), ParamError> {
    if value.0.is_power_of_two() && (least..=most).contains(&value.0) {
        return Ok(());
    }
    let (least, most) = (Bytes(least), Bytes(most));
    let allowed = format!("a power of two from {least} to {most}");
    Err(refused(name, value, allowed))
}

impl SsdParams {
    /// The values of the preset with the overrides.
    pub fn cells(&self) -> FlashDie {
        let preset = self.flash.cells();
        FlashDie {
            planes: self.planes.unwrap_or(preset.planes),
            pages: self.pages.unwrap_or(preset.pages),
            page: self.page.unwrap_or(preset.page),
            read: self.commands.read_times.clone().unwrap_or(preset.read),
            program: self
                .commands
                .program_times
                .clone()
                .unwrap_or(preset.program),
            erase: self.commands.erase_time.unwrap_or(preset.erase),
            suspend_program: self
                .commands
                .suspend_program_time
                .unwrap_or(preset.suspend_program),
            suspend_erase: self
                .commands
                .suspend_erase_time
                .unwrap_or(preset.suspend_erase),
            rate: self.commands.channel_rate.unwrap_or(preset.rate),
            endurance: self.collection.endurance.unwrap_or(preset.endurance),
        }
    }

    /// Size of a sub-page.
    pub fn sub_page_bytes(&self) -> Bytes {
        let page = self.cells().page;
        self.sub_page.unwrap_or(Bytes(page.0.min(4096)))
    }

    /// Checks all constraints that do not depend on the device.
    ///
    /// # Errors
    /// The first parameter that is out of range or contradicts another one.
    pub fn check_alone(&self) -> Result<(), ParamError> {
        let cells = self.cells();
        in_range("channels", self.channels, 1..=64)?;
        in_range("ways", self.ways, 1..=64)?;
        in_range("dies", self.dies, 1..=16)?;
        in_range("planes", cells.planes, 1..=16)?;
        in_range("pages", cells.pages, 4..=4096)?;
        power_of_two("page", cells.page, 512, 65536)?;
        let least = (cells.page.0 / 32).max(512);
        power_of_two("sub_page", self.sub_page_bytes(), least, cells.page.0)?;
        if let Some(blocks) = self.blocks {
            in_range("blocks", blocks, 8..=1 << 20)?;
        }
        self.check_times(&cells)?;
        in_range("suspend_limit", self.commands.suspend_limit, 1..=255)?;
        in_range("read_streak", self.commands.read_streak, 1..=65536)?;
        in_range("over_provisioning", self.over_provisioning, 0.01..=10.0)?;
        DriveGeometry::order_of(&self.allocation)?;
        if let Some(cache) = self.mapping_cache {
            let least = self.sub_page_bytes();
            if cache < least {
                let allowed = format!("a translation page of {least} or more");
                return Err(refused("mapping_cache", cache, allowed));
            }
        }
        let least = Bytes(2 * cells.page.0);
        if self.write_buffer.capacity < least || self.write_buffer.capacity.0 > 1 << 36 {
            let allowed = format!("two flash pages ({least}) to 64 GiB");
            return Err(refused("buffer", self.write_buffer.capacity, allowed));
        }
        in_range("buffer_dirty", self.write_buffer.dirty, 0.0..=0.9)?;
        in_range("gc_choices", self.collection.choices, 1..=1024)?;
        in_range("gc_start", self.collection.start, 3..=4096)?;
        in_range(
            "gc_hard",
            self.collection.hard,
            2..=self.collection.start - 1,
        )?;
        in_range("wear_static", self.collection.wear_static, 0..=1_000_000)?;
        in_range("endurance", cells.endurance, 1..=100_000_000)?;
        in_range("read_queue", self.read_queue, 1..=65536)?;
        in_range("write_queue", self.write_queue, 1..=65536)?;
        in_range("fill", self.fill, 0.0..=1.0)?;
        in_range("overwrite", self.overwrite, 0.0..=100.0)
    }

    fn check_times(&self, cells: &FlashDie) -> Result<(), ParamError> {
        for (name, times) in [
            ("read_times", &cells.read),
            ("program_times", &cells.program),
        ] {
            in_range(&format!("the number of {name}"), times.len(), 1..=4)
                .map_err(|error| ParamError::new(name, error.to_string()))?;
        }
        if cells.read.len() != cells.program.len() {
            let (reads, programs) = (cells.read.len(), cells.program.len());
            let found = format!("{programs} levels beside {reads} of `read_times`");
            return Err(refused("program_times", found, "as many"));
        }
        let lists = cells.read.iter().map(|time| ("read_times", *time));
        let lists = lists.chain(cells.program.iter().map(|time| ("program_times", *time)));
        let single = [
            ("erase_time", cells.erase),
            ("command_time", self.commands.command_time),
            ("suspend_program_time", cells.suspend_program),
            ("suspend_erase_time", cells.suspend_erase),
            ("mapping_time", self.mapping_time),
            ("buffer_time", self.write_buffer.time),
            ("controller_time", self.controller_time),
        ];
        for (name, time) in lists.chain(single) {
            if time > LONGEST {
                return Err(refused(name, time, format!("0 s to {LONGEST}")));
            }
        }
        if cells.rate.0 < 1_000_000 {
            return Err(refused("channel_rate", cells.rate, "1 MB/s or more"));
        }
        Ok(())
    }
}
