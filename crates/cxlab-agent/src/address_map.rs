//! Which device serves an address: a requester's view of the HDM decoders.

use cxlab_engine::units::{Bytes, Dpa, Hpa};
use cxlab_protocol::PortId;
use cxlab_protocol::hdm::InterleaveSet;

/// A window of host physical addresses, interleaved over one or more devices.
#[derive(Clone, Debug)]
pub struct AddressWindow {
    /// First address of the window.
    pub base: Hpa,
    /// Size of the window in bytes.
    pub size: Bytes,
    /// Interleaving arithmetic: maps an address to a target and a DPA.
    pub set: InterleaveSet,
    /// Edge port of each target device, in the order of the interleave set.
    pub targets: Vec<PortId>,
    /// First DPA of the window's share in each target.
    pub first: Vec<Dpa>,
}

/// All windows of a requester, contiguous from address 0.
#[derive(Clone, Debug)]
pub struct AddressMap {
    windows: Vec<AddressWindow>,
    /// Size of each window in bytes if all are equal, else 0.
    stride: u64,
    /// log2 of the stride if it is a power of two; a shift then replaces the division.
    shift: Option<u32>,
    span: u64,
}

impl AddressMap {
    /// A map of contiguous windows, in ascending order of their addresses.
    ///
    /// # Panics
    /// If the windows leave a gap or overlap; the layout is made by the build plan.
    pub fn new(windows: Vec<AddressWindow>) -> Self {
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

    /// Mapped bytes, from address 0.
    pub fn span(&self) -> Bytes {
        Bytes(self.span)
    }

    /// The windows in ascending order of their addresses.
    pub fn windows(&self) -> &[AddressWindow] {
        &self.windows
    }

    /// The edge port of the device that serves `hpa`; `None` for an unmapped address.
    #[inline(always)]
    pub fn owner(&self, hpa: Hpa) -> Option<PortId> {
        let window = self.window(hpa)?;
        let (target, _) = window.set.decode(hpa)?;
        Some(window.targets[target as usize])
    }

    /// The edge port of the device that serves `hpa`, and the DPA there; `None`
    /// for an unmapped address.
    pub fn locate(&self, hpa: Hpa) -> Option<(PortId, Dpa)> {
        let window = self.window(hpa)?;
        let (target, dpa) = window.set.decode(hpa)?;
        let first = window.first[target as usize];
        Some((window.targets[target as usize], Dpa(first.0 + dpa.0)))
    }

    #[inline(always)]
    fn window(&self, hpa: Hpa) -> Option<&AddressWindow> {
        if hpa.0 >= self.span {
            return None;
        }
        let index = match self.shift {
            Some(shift) => (hpa.0 >> shift) as usize,
            None => match hpa.0.checked_div(self.stride) {
                Some(index) => index as usize,
                None => self.windows.partition_point(|window| window.base <= hpa) - 1,
            },
        };
        self.windows.get(index)
    }
}
