//! The geometry of a drive: sub-pages in pages, blocks, planes, dies and channels.
//!
//! A place is the number of a physical sub-page. Logical sub-pages are numbered by address; the
//! pages of the mapping itself follow those of the user.

use cxlab_engine::catalog::{ParamError, refused};
use cxlab_engine::units::{Bytes, LINE_BYTES};

use super::params::SsdParams;

/// Bound on places, which leaves a bit of a word to mark data in the write buffer.
pub(super) const MAX_PLACES: u64 = (1 << 31) - 1;

/// Bytes in an entry of the mapping.
const ENTRY_BYTES: u64 = 4;

/// Blocks of a plane that hold no user data at rest: one for collection, and the open blocks
/// of three streams.
const WORKING_BLOCKS: u64 = 4;

/// The dimensions that follow from the parameters and the capacity.
#[derive(Clone, Debug)]
pub(super) struct DriveGeometry {
    pub channels: u32,
    pub dies_per_channel: u32,
    /// Dies in all channels.
    pub dies: u32,
    pub planes_per_die: u32,
    /// Planes in all dies.
    pub planes: u32,
    /// Blocks in a plane.
    pub blocks: u32,
    /// Pages in a block.
    pub pages: u32,
    /// Sub-pages in a page.
    pub subs: u32,
    /// Lines in a sub-page.
    pub lines: u32,
    pub sub_bytes: u64,
    /// Number of the user's logical sub-pages.
    pub user: u32,
    /// Entries in a translation page.
    pub entries: u32,
    /// Number of translation pages, which follow the user's logical sub-pages.
    pub translations: u32,
    /// Planes in the order of allocation.
    pub order: Vec<u32>,
}

impl DriveGeometry {
    /// Parses an order of allocation into the positions of channel, way, die and plane.
    pub fn order_of(text: &str) -> Result<[usize; 4], ParamError> {
        let place = |letter| text.find(letter);
        match (place('C'), place('W'), place('D'), place('P')) {
            (Some(c), Some(w), Some(d), Some(p)) if text.len() == 4 => Ok([c, w, d, p]),
            _ => {
                let found = format!("`{text}`");
                Err(refused("allocation", found, "a permutation of CWDP"))
            }
        }
    }

    /// The geometry of a drive with that capacity.
    pub fn new(params: &SsdParams, capacity: Bytes) -> Result<DriveGeometry, ParamError> {
        let cells = params.cells();
        let sub_bytes = params.sub_page_bytes().0;
        let subs = cells.page.0 / sub_bytes;
        let planes_per_die = u64::from(cells.planes);
        let dies_per_channel = u64::from(params.ways) * u64::from(params.dies);
        let dies = u64::from(params.channels) * dies_per_channel;
        let planes = dies * planes_per_die;
        let block_subs = u64::from(cells.pages) * subs;
        let user = capacity.0.div_ceil(sub_bytes);
        let entries = sub_bytes / ENTRY_BYTES;
        let translations = user.div_ceil(entries);
        let least = Self::least_blocks(user + translations, planes, &cells, params);
        let blocks = match params.blocks {
            Some(blocks) => u64::from(blocks),
            None => {
                let wanted = (user as f64 * (1.0 + params.over_provisioning)) as u64;
                wanted.div_ceil(planes * block_subs).max(least)
            }
        };
        let place_count = planes * blocks * block_subs;
        if place_count > MAX_PLACES || user + translations > MAX_PLACES {
            let found = format!("{capacity} in sub-pages of {}", Bytes(sub_bytes));
            let allowed = "less than 2^31 physical sub-pages";
            return Err(refused("sub_page", found, allowed));
        }
        if blocks < least {
            let physical = Bytes(place_count * sub_bytes);
            let block = Bytes(block_subs * sub_bytes);
            let found = format!(
                "{blocks} blocks of {block} in each of {planes} planes, {physical} of flash"
            );
            let allowed = format!("{least} or more for {capacity}");
            return Err(refused("blocks", found, allowed));
        }
        Ok(DriveGeometry {
            channels: params.channels,
            dies_per_channel: dies_per_channel as u32,
            dies: dies as u32,
            planes_per_die: cells.planes,
            planes: planes as u32,
            blocks: blocks as u32,
            pages: cells.pages,
            subs: subs as u32,
            lines: (sub_bytes / LINE_BYTES) as u32,
            sub_bytes,
            user: user as u32,
            entries: entries as u32,
            translations: translations as u32,
            order: Self::planes_in_order(params, cells.planes)?,
        })
    }

    /// The fewest blocks of a plane with which collection cannot get stuck: even with one
    /// reclaimable page in every block, all data fit beside the free and the working blocks.
    fn least_blocks(data: u64, planes: u64, cells: &super::FlashDie, params: &SsdParams) -> u64 {
        let subs = cells.page.0 / params.sub_page_bytes().0;
        let usable = (u64::from(cells.pages) - 1) * subs;
        data.div_ceil(planes * usable) + u64::from(params.collection.start) + WORKING_BLOCKS
    }

    fn planes_in_order(params: &SsdParams, planes: u32) -> Result<Vec<u32>, ParamError> {
        let places = Self::order_of(&params.allocation)?;
        let sizes = [params.channels, params.ways, params.dies, planes];
        let mut by_place = [0; 4];
        for (what, place) in places.iter().enumerate() {
            by_place[*place] = what;
        }
        let total: u32 = sizes.iter().product();
        let plane = |mut number: u32| {
            let mut at = [0; 4];
            for what in by_place {
                at[what] = number % sizes[what];
                number /= sizes[what];
            }
            ((at[0] * sizes[1] + at[1]) * sizes[2] + at[2]) * sizes[3] + at[3]
        };
        Ok((0..total).map(plane).collect())
    }

    /// Sub-pages in a block.
    #[inline]
    pub fn block_subs(&self) -> u32 {
        self.pages * self.subs
    }

    /// The first place of a page.
    #[inline]
    pub fn place(&self, plane: u32, block: u32, page: u32) -> u32 {
        ((plane * self.blocks + block) * self.pages + page) * self.subs
    }

    /// Plane, block in the plane, and sub-page in the block of a place.
    #[inline]
    pub fn split(&self, place: u32) -> (u32, u32, u32) {
        let block = place / self.block_subs();
        (
            block / self.blocks,
            block % self.blocks,
            place % self.block_subs(),
        )
    }

    /// The place of a logical sub-page if the drive had been filled in order.
    #[inline]
    pub fn home(&self, logical: u32) -> u32 {
        let page = logical / self.subs;
        let plane = self.order[(page % self.planes) as usize];
        let row = page / self.planes;
        let block = row / self.pages % self.blocks;
        self.place(plane, block, row % self.pages) + logical % self.subs
    }

    /// Number of logical sub-pages, including those of the mapping.
    pub fn logical(&self) -> u32 {
        self.user + self.translations
    }

    /// Raw capacity of the flash, in bytes.
    pub fn physical_bytes(&self) -> u64 {
        u64::from(self.planes)
            * u64::from(self.blocks)
            * u64::from(self.block_subs())
            * self.sub_bytes
    }
}
