//! Flash parts with the geometry and the timing of a die.

use cxlab_engine::units::{Bytes, BytesPerSec, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A flash part with published timing.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum FlashPreset {
    /// Low-latency single-level cells, Samsung Z-NAND: read 3 us, program 100 us, pages of 4 KiB.
    ZNand,
    /// Low-latency single-level cells with 16 planes, Toshiba XL-FLASH: read 4 us, pages of 4 KiB.
    XlFlash,
    /// Single-level cells: read 25 us, program 200 us, pages of 4 KiB.
    Slc,
    /// Multi-level cells: read 48 and 64 us, program 0.85 and 2.3 ms, pages of 16 KiB.
    Mlc,
    /// Triple-level cells: read 56.5, 77.5 and 106 us, program 0.82, 2.2 and 5.7 ms,
    /// pages of 16 KiB.
    Tlc,
}

/// The geometry and timing of a die.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlashDie {
    /// Planes in a die.
    pub planes: u32,
    /// Pages in a block.
    pub pages: u32,
    /// Size of a page.
    pub page: Bytes,
    /// Array time of a read, by level.
    pub read: Vec<Picos>,
    /// Array time of a program, by level.
    pub program: Vec<Picos>,
    /// Time of an erase.
    pub erase: Picos,
    /// Time to suspend a program, and to resume it.
    pub suspend_program: Picos,
    /// Time to suspend an erase, and to resume it.
    pub suspend_erase: Picos,
    /// Data rate of a channel.
    pub rate: BytesPerSec,
    /// Erases that a block survives.
    pub endurance: u32,
}

fn micros(list: &[f64]) -> Vec<Picos> {
    list.iter().map(|time| Picos((time * 1e6) as u64)).collect()
}

impl FlashPreset {
    /// The values of the part.
    pub fn cells(self) -> FlashDie {
        match self {
            // Samsung at ISSCC 2018: tR 3 us, tPROG 100 us, pages of 2 or 4 KiB, as reported in
            // AnandTech's review of the 983 ZET (2019). Two planes, 256 pages, erase 1 ms, 1.2 GB/s
            // (ONFI 4.1) and suspending in 5 and 20 us are assumed; so are 50,000 erases.
            FlashPreset::ZNand => FlashDie {
                planes: 2,
                pages: 256,
                page: Bytes(4096),
                read: micros(&[3.0]),
                program: micros(&[100.0]),
                erase: Picos::from_nanos(1_000_000),
                suspend_program: Picos::from_nanos(5_000),
                suspend_erase: Picos::from_nanos(20_000),
                rate: BytesPerSec(1_200_000_000),
                endurance: 50_000,
            },
            // Toshiba at FMS 2019: less than 5 us, 16 planes, pages of 4 KiB, as reported by heise
            // online (August 2019). Read 4 us and program 75 us are assumed, and all else as above.
            FlashPreset::XlFlash => FlashDie {
                planes: 16,
                read: micros(&[4.0]),
                program: micros(&[75.0]),
                ..FlashPreset::ZNand.cells()
            },
            // Agrawal et al., USENIX ATC 2008, table 1, after the Samsung K9XXG08UXM: 25, 200 us and
            // 1.5 ms; 4 planes, blocks of 64 pages of 4 KiB, 100,000 erases. 400 MB/s (ONFI 3) is
            // assumed in place of that part's 40; suspending in 10 and 50 us is assumed.
            FlashPreset::Slc => FlashDie {
                planes: 4,
                pages: 64,
                page: Bytes(4096),
                read: micros(&[25.0]),
                program: micros(&[200.0]),
                erase: Picos::from_nanos(1_500_000),
                suspend_program: Picos::from_nanos(10_000),
                suspend_erase: Picos::from_nanos(50_000),
                rate: BytesPerSec(400_000_000),
                endurance: 100_000,
            },
            // FEMU's nand.h, profiled from Micron L95B: 48 and 64 us, 850 and 2300 us, erase 3 ms.
            // Two planes, blocks of 512 pages of 16 KiB, 400 MB/s: the sample configuration of
            // SimpleSSD 2.0. 5,000 erases: SpecTek L41A data sheet. Suspending is assumed.
            FlashPreset::Mlc => FlashDie {
                planes: 2,
                pages: 512,
                page: Bytes(16384),
                read: micros(&[48.0, 64.0]),
                program: micros(&[850.0, 2300.0]),
                erase: Picos::from_nanos(3_000_000),
                suspend_program: Picos::from_nanos(20_000),
                suspend_erase: Picos::from_nanos(100_000),
                rate: BytesPerSec(400_000_000),
                endurance: 5_000,
            },
            // FEMU's nand.h, after the SimpleSSD paper (Jung et al., IEEE CAL 2018): 56.5, 77.5, 106
            // us; 820.5, 2225, 5734 us; erase 3 ms. 768 pages of 16 KiB, 800 MB/s (Toggle 3), 3,000
            // erases and suspending in 20 and 100 us are assumed.
            FlashPreset::Tlc => FlashDie {
                pages: 768,
                read: micros(&[56.5, 77.5, 106.0]),
                program: micros(&[820.5, 2225.0, 5734.0]),
                rate: BytesPerSec(800_000_000),
                endurance: 3_000,
                ..FlashPreset::Mlc.cells()
            },
        }
    }
}
