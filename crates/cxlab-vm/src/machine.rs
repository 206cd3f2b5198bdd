//! The machine of a guest: processors, local memory, windows of CXL memory, and the devices
//! over which each window is interleaved.

/// Most windows of CXL memory. Each window has its own host bridge, because a host bridge of QEMU
/// 7.2 has a single HDM decoder.
pub const MOST_WINDOWS: usize = crate::ring::MOST_WINDOWS;
/// Most devices of one window: the root ports of a host bridge, less one.
pub const MOST_WAYS: usize = 8;
/// Most processors of a guest, one per ring.
pub const MOST_PROCESSORS: u32 = crate::ring::LANES as u32;
/// Most private caches of a processor.
pub const MOST_CACHES: usize = 4;
/// Most CXL memory of a guest, in bytes. The kernel's data about it is in the guest's own memory.
pub const MOST_CXL: u64 = 64 << 30;

/// The machine of a guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Size of the guest's own memory, in MiB.
    pub memory_mib: u64,
    /// Number of processors.
    pub processors: u32,
    /// Time of an instruction that does not wait for memory, in picoseconds.
    pub instruction_ps: u64,
    /// Private caches of each processor, nearest first.
    pub caches: Vec<Cache>,
    /// CXL memory, in the order of its addresses.
    pub windows: Vec<Window>,
    /// Whether the devices must be persistent memory. Otherwise they are
    /// volatile if QEMU has volatile devices.
    pub persistent: bool,
    /// Whether the guest has an accelerator: a PCI function with registers.
    pub accelerator: bool,
}

/// A private cache of a processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cache {
    /// Number of sets, a power of two.
    pub sets: u64,
    /// Lines of a set.
    pub ways: u64,
    /// Time of a lookup, in picoseconds.
    pub access_ps: u64,
}

/// A window of CXL memory: one CXL Fixed Memory Window of the guest, one region, one NUMA node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// First address of the window in the plan.
    pub base: u64,
    /// Bytes of consecutive addresses on one device.
    pub granularity: u64,
    /// Whether its devices are reached through a switch. The guest sees a single switch, however
    /// many the plan has, because that is what a virtual CXL switch shows to its host.
    pub switched: bool,
    /// Its devices, in the order of interleaving.
    pub devices: Vec<Device>,
    /// The memory behind it that other guests have too; `None` if it is the guest's own.
    pub share: Option<Share>,
}

/// Memory that guests share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// Number of the memory, below [`MOST_WINDOWS`].
    pub number: usize,
    /// Whether the device keeps the caches of guests coherent. Otherwise their software must, and
    /// its flushes matter.
    pub coherent: bool,
}

/// A Type 3 device of a guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Name of the device in the scenario.
    pub name: String,
    /// Capacity of the device, in bytes.
    pub capacity: u64,
}

impl Window {
    /// Size of the window, in bytes.
    pub fn size(&self) -> u64 {
        self.devices.iter().map(|device| device.capacity).sum()
    }

    /// Name of the window for users: the names of its devices.
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.devices.iter().map(|one| one.name.as_str()).collect();
        names.join("+")
    }
}

impl Machine {
    /// Whether the guest shares memory with others.
    pub fn shares(&self) -> bool {
        self.windows.iter().any(|window| window.share.is_some())
    }

    /// Whether flushes and fences of the guest's programs have an effect: it shares memory that no
    /// device keeps coherent.
    pub fn flushes(&self) -> bool {
        let mut shares = self.windows.iter().filter_map(|window| window.share);
        shares.any(|share| !share.coherent)
    }

    /// Limits that the machine exceeds, as messages. Empty if the machine can be built.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut check = |good: bool, problem: String| {
            if !good {
                problems.push(problem);
            }
        };
        let (windows, caches) = (self.windows.len(), self.caches.len());
        let processors = self.processors;
        check(
            (1..=MOST_WINDOWS).contains(&windows),
            format!("found {windows} windows of CXL memory; allowed: 1 to {MOST_WINDOWS}"),
        );
        check(
            (1..=MOST_PROCESSORS).contains(&processors),
            format!("found {processors} processors; allowed: 1 to {MOST_PROCESSORS}"),
        );
        check(
            (1..=MOST_CACHES).contains(&caches),
            format!("found {caches} caches; allowed: 1 to {MOST_CACHES}"),
        );
        check(
            processors == 1 || !self.shares(),
            format!(
                "found {processors} processors; allowed: 1 in guests that share memory, whose accesses have one order"
            ),
        );
        check(
            processors == 1 || !self.accelerator,
            format!(
                "found {processors} processors; allowed: 1 in guests with an accelerator, whose commands have one order"
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
                    "{ways} devices share a window; allowed: 1, 2, 4 or 8 (address_map.ways says how many)"
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
