//! What the guest is given: processors, memory of its own, windows of CXL memory and the devices
//! that they are interleaved over.

/// Most windows of CXL memory: each has a host bridge of its own, for a host bridge of QEMU 7.2 has
/// one HDM decoder.
pub const MOST_WINDOWS: usize = 8;
/// Most devices of one window: root ports of a host bridge, less one.
pub const MOST_WAYS: usize = 8;
/// Most processors.
pub const MOST_PROCESSORS: u32 = crate::ring::LANES as u32;
/// Most private caches of a processor.
pub const MOST_CACHES: usize = 4;
/// Most CXL memory in all: what the kernel keeps about it lies in the guest's own memory.
pub const MOST_CXL: u64 = 64 << 30;

/// A guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Its own memory, in MiB.
    pub memory_mib: u64,
    /// Processors.
    pub processors: u32,
    /// Time of an instruction that waits for nothing, in picoseconds.
    pub instruction_ps: u64,
    /// Private caches of each processor, nearest first.
    pub caches: Vec<Cache>,
    /// CXL memory, in the order of its addresses.
    pub windows: Vec<Window>,
    /// Whether its devices must be persistent memory; otherwise they are volatile where QEMU has such.
    pub persistent: bool,
}

/// A private cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cache {
    /// Sets, a power of two.
    pub sets: u64,
    /// Lines of a set.
    pub ways: u64,
    /// Time of a look, in picoseconds.
    pub access_ps: u64,
}

/// A window of CXL memory: a CXL Fixed Memory Window of the guest, one region, one NUMA node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// Its first address in the plan.
    pub base: u64,
    /// Bytes of consecutive addresses on one device.
    pub granularity: u64,
    /// Whether a switch lies before its devices. However many there are in the plan, the guest sees
    /// one: what a virtual CXL switch shows to its host.
    pub switched: bool,
    /// Its devices, in the order of interleaving.
    pub devices: Vec<Device>,
}

/// A Type 3 device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub capacity: u64,
}

impl Window {
    /// Bytes of the window.
    pub fn size(&self) -> u64 {
        self.devices.iter().map(|device| device.capacity).sum()
    }

    /// What users call it: its devices.
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.devices.iter().map(|one| one.name.as_str()).collect();
        names.join("+")
    }
}

impl Machine {
    /// What cannot be built, in words; nothing when all can.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut check = |good: bool, problem: String| {
            if !good {
                problems.push(problem);
            }
        };
        let windows = self.windows.len();
        check(
            (1..=MOST_WINDOWS).contains(&windows),
            format!("found {windows} windows of CXL memory; allowed: 1 to {MOST_WINDOWS}"),
        );
        check(
            (1..=MOST_PROCESSORS).contains(&self.processors),
            format!(
                "found {} processors; allowed: 1 to {MOST_PROCESSORS}",
                self.processors
            ),
        );
        check(
            (1..=MOST_CACHES).contains(&self.caches.len()),
            format!(
                "found {} caches; allowed: 1 to {MOST_CACHES}",
                self.caches.len()
            ),
        );
        for (at, cache) in self.caches.iter().enumerate() {
            check(
                cache.sets.is_power_of_two(),
                format!(
                    "cache {at} has {} sets; allowed: a power of two (size over 64 B and ways)",
                    cache.sets
                ),
            );
        }
        for window in &self.windows {
            let ways = window.devices.len();
            check(
                (1..=MOST_WAYS).contains(&ways) && ways.is_power_of_two(),
                format!(
                    "{} devices share a window; allowed: 1, 2, 4 or 8 (address_map.ways says how \
                     many)",
                    ways
                ),
            );
        }
        let total: u64 = self.windows.iter().map(Window::size).sum();
        check(
            total <= MOST_CXL,
            format!(
                "found {} GiB of CXL memory; allowed: {} GiB",
                total >> 30,
                MOST_CXL >> 30
            ),
        );
        problems
    }
}
