//! The mapping from logical sub-pages to places. A chunk of the mapping exists from the first write
//! to one of its sub-pages.
//!
//! The mapping is always up to date. [`super::mapping_cache`] models the part of the mapping that
//! is held in DRAM, and so the cost of a look-up.

use cxlab_engine::list::NONE;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};

use super::geometry::DriveGeometry;

/// Set if the rest of the word is a slot of the write buffer.
const BUFFERED: u32 = 1 << 31;

/// The location of a logical sub-page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SubPageLocation {
    /// The sub-page was never written.
    Nowhere,
    /// The sub-page is at that place in flash.
    Flash(u32),
    /// The sub-page is in that slot of the write buffer, which also has its place in flash.
    Buffer(u32),
}

/// Entries in a chunk.
const CHUNK: usize = 1024;

pub(super) struct SubPageMap {
    /// For each chunk 0, or one more than its index in `chunks`.
    directory: Vec<u32>,
    chunks: Vec<Box<[u32; CHUNK]>>,
}

impl SaveState for SubPageMap {
    fn save(&self, out: &mut StateWriter) {
        let SubPageMap { directory, chunks } = self;
        out.value("directory", directory);
        let chunks: Vec<&[u32]> = chunks.iter().map(|chunk| chunk.as_slice()).collect();
        out.value("chunks", &chunks);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let count = self.directory.len();
        self.directory = from.value("directory")?;
        if self.directory.len() != count {
            return Err(StateError::of_length(
                "directory",
                self.directory.len(),
                count,
            ));
        }
        let chunks: Vec<Vec<u32>> = from.value("chunks")?;
        let whole = |chunk: Vec<u32>| {
            let length = chunk.len();
            let whole = chunk.into_boxed_slice().try_into();
            whole.map_err(|_| StateError::of_length("chunks", length, CHUNK))
        };
        self.chunks = chunks.into_iter().map(whole).collect::<Result<_, _>>()?;
        Ok(())
    }
}

impl SubPageMap {
    pub fn new(geometry: &DriveGeometry) -> SubPageMap {
        let chunks = (geometry.logical() as usize).div_ceil(CHUNK);
        SubPageMap {
            directory: vec![0; chunks],
            chunks: Vec::new(),
        }
    }

    #[inline]
    fn word(&self, logical: u32) -> u32 {
        match self.directory[logical as usize / CHUNK] {
            0 => NONE,
            chunk => self.chunks[chunk as usize - 1][logical as usize % CHUNK],
        }
    }

    #[inline]
    pub fn get(&self, logical: u32) -> SubPageLocation {
        match self.word(logical) {
            NONE => SubPageLocation::Nowhere,
            word if word & BUFFERED != 0 => SubPageLocation::Buffer(word & !BUFFERED),
            word => SubPageLocation::Flash(word),
        }
    }

    #[inline]
    pub fn set(&mut self, logical: u32, location: SubPageLocation) {
        let word = match location {
            SubPageLocation::Nowhere => NONE,
            SubPageLocation::Flash(place) => place,
            SubPageLocation::Buffer(slot) => slot | BUFFERED,
        };
        let entry = &mut self.directory[logical as usize / CHUNK];
        if *entry == 0 {
            self.chunks.push(Box::new([NONE; CHUNK]));
            *entry = self.chunks.len() as u32;
        }
        self.chunks[*entry as usize - 1][logical as usize % CHUNK] = word;
    }

    /// Number of allocated chunks.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }
}
