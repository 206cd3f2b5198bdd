//! What a processor says of a load or store that was sampled (`union perf_mem_data_src`).

/// Operation of a sampled instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Operation {
    /// The instruction loads.
    Load,
    /// The instruction stores.
    Store,
    /// A prefetch by software.
    Prefetch,
    /// Another operation, or unknown.
    Other,
}

/// Source of a load's data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LoadOrigin {
    /// A cache of the load's own processor, with its level.
    Cache(u8),
    /// A line in flight: an earlier load or a prefetch had requested it.
    InFlight,
    /// The cache of another core or processor.
    OtherCache,
    /// Memory of any kind.
    Memory {
        /// Whether the memory is another node's.
        remote: bool,
        /// Whether the kernel calls it CXL memory or extended memory.
        cxl: bool,
    },
    /// A device, or memory that is not cached.
    Device,
    /// The processor does not report the source.
    Unknown,
}

/// Description of a load or store by the processor (`perf_mem_data_src`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataSource(pub u64);

const LEVEL_SHIFT: u32 = 5;
const LEVEL_NUMBER_SHIFT: u32 = 33;
const REMOTE: u64 = 1 << 37;

impl DataSource {
    /// Operation of the instruction.
    pub fn operation(self) -> Operation {
        match self.0 & 0x1f {
            operation if operation & 0x02 != 0 => Operation::Load,
            operation if operation & 0x04 != 0 => Operation::Store,
            operation if operation & 0x08 != 0 => Operation::Prefetch,
            _ => Operation::Other,
        }
    }

    /// Source of the data.
    pub fn found(self) -> LoadOrigin {
        let remote = self.0 & REMOTE != 0;
        match self.0 >> LEVEL_NUMBER_SHIFT & 0xf {
            level @ 1..=4 if !remote => return LoadOrigin::Cache(level as u8),
            1..=4 => return LoadOrigin::OtherCache,
            // A buffer of misses beside the second level.
            0x5 | 0xc => return LoadOrigin::InFlight,
            // A cache in front of memory counts as memory.
            0x6 | 0xd | 0xe => return LoadOrigin::Memory { remote, cxl: false },
            0x9 => return LoadOrigin::Memory { remote, cxl: true },
            0x8 | 0xa => return LoadOrigin::Device,
            0xb => return LoadOrigin::OtherCache,
            _ => {}
        }
        // Kernels before 4.14 and some processors only have the older bits.
        match self.0 >> LEVEL_SHIFT & 0x3fff {
            level if level & 0x0008 != 0 => LoadOrigin::Cache(1),
            level if level & 0x0010 != 0 => LoadOrigin::InFlight,
            level if level & 0x0020 != 0 => LoadOrigin::Cache(2),
            level if level & 0x0040 != 0 => LoadOrigin::Cache(3),
            level if level & 0x0080 != 0 => LoadOrigin::Memory { remote, cxl: false },
            level if level & 0x0300 != 0 => LoadOrigin::Memory {
                remote: true,
                cxl: false,
            },
            level if level & 0x0c00 != 0 => LoadOrigin::OtherCache,
            level if level & 0x3000 != 0 => LoadOrigin::Device,
            _ => LoadOrigin::Unknown,
        }
    }

    /// A load with that source of its data, as a kernel from 4.14 on encodes it.
    pub fn load(found: LoadOrigin) -> DataSource {
        let (old, number, remote) = match found {
            LoadOrigin::Cache(1) => (0x0008, 0x1, false),
            LoadOrigin::Cache(2) => (0x0020, 0x2, false),
            LoadOrigin::Cache(level) => (0x0040, u64::from(level.clamp(3, 4)), false),
            LoadOrigin::InFlight => (0x0010, 0xc, false),
            LoadOrigin::OtherCache => (0x0400, 0xb, true),
            LoadOrigin::Memory { remote, cxl } => (
                if remote { 0x0100 } else { 0x0080 },
                if cxl { 0x9 } else { 0xd },
                remote,
            ),
            LoadOrigin::Device => (0x1000, 0xa, false),
            LoadOrigin::Unknown => (0x0001, 0xf, false),
        };
        let hit = 0x0002 | old;
        let remote = if remote { REMOTE } else { 0 };
        DataSource(0x02 | hit << LEVEL_SHIFT | number << LEVEL_NUMBER_SHIFT | remote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that `perf script` decodes, of loads on a Xeon Platinum 8173M, Linux 4.15
    /// (`perf.data.weight_struct` of google/perf_data_converter).
    #[test]
    fn real_values_are_read_as_perf_does() {
        let of = |value| {
            let source = DataSource(value);
            (source.operation(), source.found())
        };
        assert_eq!(of(0x118_6810_0242), (Operation::Load, LoadOrigin::InFlight));
        assert_eq!(of(0x102_6810_0142), (Operation::Load, LoadOrigin::Cache(1)));
        assert_eq!(of(0x104_6810_0442), (Operation::Load, LoadOrigin::Cache(2)));
        assert_eq!(of(0x106_5010_0842), (Operation::Load, LoadOrigin::Cache(3)));
    }

    #[test]
    fn what_is_written_is_read() {
        let memory = |remote, cxl| LoadOrigin::Memory { remote, cxl };
        let near = [
            LoadOrigin::InFlight,
            LoadOrigin::OtherCache,
            LoadOrigin::Device,
        ];
        let far = [(false, false), (true, false), (false, true)].map(|(far, cxl)| memory(far, cxl));
        let all = (1..=4).map(LoadOrigin::Cache).chain(near).chain(far);
        for found in all.chain([LoadOrigin::Unknown]) {
            let source = DataSource::load(found);
            assert_eq!(source.operation(), Operation::Load, "{found:?}");
            assert_eq!(source.found(), found);
        }
        // The older bits alone say the same.
        let old = DataSource(0x02 | 0x0082 << LEVEL_SHIFT);
        assert_eq!(old.found(), memory(false, false));
    }
}
