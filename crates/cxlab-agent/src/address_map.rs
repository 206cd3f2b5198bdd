//! Which device owns an address: a requester's view of the HDM decoders.

use cxlab_engine::units::{Bytes, Dpa, Hpa};
use cxlab_protocol::PortId;
use cxlab_protocol::hdm::InterleaveSet;

/// A window of host physical addresses, interleaved over some devices.
#[derive(Clone, Debug)]
pub struct Window {
    /// First address.
    pub base: Hpa,
    /// Bytes of the window.
    pub size: Bytes,
    /// The arithmetic.
    pub set: InterleaveSet,
    /// Edge port of each target.
    pub targets: Vec<PortId>,
    /// Where in each target the window's share begins.
    pub first: Vec<Dpa>,
}

/// All windows of a requester, contiguous from address 0.
#[derive(Clone, Debug)]
pub struct AddressMap {
    windows: Vec<Window>,
    /// Size of each window when they are all equal, else 0.
    stride: u64,
    /// Its logarithm when it is a power of two, which saves a division.
    shift: Option<u32>,
    span: u64,
}

impl AddressMap {
    /// A map of contiguous windows in order.
    ///
    /// # Panics
    /// If the windows leave a gap or overlap: the plan lays them out.
    pub fn new(windows: Vec<Window>) -> Self {
        let mut span = 0;
        for window in &windows {
            assert_eq!(window.base.0, span, "windows are contiguous");
            span += window.size.0;
        }
        let first = windows.first().map_or(0, |window| window.size.0);
        let equal = windows.iter().all(|window| window.size.0 == first);
        AddressMap {
            windows,
            stride: if equal { first } else { 0 },
            shift: (equal && first.is_power_of_two()).then(|| first.ilog2()),
            span,
        }
    }

    /// Bytes that are mapped, from address 0.
    pub fn span(&self) -> Bytes {
        Bytes(self.span)
    }

    /// The windows in order.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// The edge port of the device that owns `hpa`; `None` outside.
    #[inline(always)]
    pub fn owner(&self, hpa: Hpa) -> Option<PortId> {
        let window = self.window(hpa)?;
        let (target, _) = window.set.decode(hpa)?;
        Some(window.targets[target as usize])
    }

    /// The edge port of the device that owns `hpa`, and the address there; `None` outside.
    pub fn locate(&self, hpa: Hpa) -> Option<(PortId, Dpa)> {
        let window = self.window(hpa)?;
        let (target, dpa) = window.set.decode(hpa)?;
        let first = window.first[target as usize];
        Some((window.targets[target as usize], Dpa(first.0 + dpa.0)))
    }

    #[inline(always)]
    fn window(&self, hpa: Hpa) -> Option<&Window> {
        if hpa.0 >= self.span {
            return None;
        }
        let at = match self.shift {
            Some(shift) => (hpa.0 >> shift) as usize,
            None => match hpa.0.checked_div(self.stride) {
                Some(at) => at as usize,
                None => self.windows.partition_point(|window| window.base <= hpa) - 1,
            },
        };
        self.windows.get(at)
    }
}
