//! The HDM decoders of a device that several hosts share.
//!
//! Every host addresses a device by host physical addresses of its own. The device translates them:
//! a multi-logical device by the decoders of the logical device that the host is bound to (CXL 3.1,
//! section 2.5), a G-FAM device by the decoders that it stores for each requester (section 7.7.2),
//! a multi-headed device by those of the head. The model is the same for all three: a list of
//! decoders for each host. The source of a request (SPID) selects the list.

use cxlab_engine::units::{Bytes, Dpa, Hpa};

use crate::PortId;
use crate::hdm::InterleaveSet;

/// One committed decoder of a device: its share of a window of host physical addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceDecoder {
    /// The window and its interleaving.
    pub set: InterleaveSet,
    /// Position of the device among the window's targets.
    pub target: u32,
    /// DPA at which the share begins (DPA base).
    pub first: Dpa,
}

impl DeviceDecoder {
    /// A share that begins at DPA 0.
    pub fn whole(set: InterleaveSet, target: u32) -> Self {
        DeviceDecoder {
            set,
            target,
            first: Dpa(0),
        }
    }

    /// Translates an address of the window to a DPA. `None` if the address belongs to another target.
    #[inline]
    pub fn decode(&self, hpa: Hpa) -> Option<Dpa> {
        match self.set.decode(hpa) {
            Some((target, dpa)) if target == self.target => Some(Dpa(self.first.0 + dpa.0)),
            _ => None,
        }
    }

    /// Translates a DPA to an address of the window. `None` if the DPA is outside the share.
    fn encode(&self, dpa: Dpa) -> Option<Hpa> {
        let within = dpa.0.checked_sub(self.first.0)?;
        (within < self.set.target_size().0).then(|| self.set.encode(self.target, Dpa(within)))
    }

    /// The first DPA after the share.
    pub fn end(&self) -> Dpa {
        Dpa(self.first.0 + self.set.target_size().0)
    }
}

/// The decoders of a device, for each host.
///
/// ```
/// use cxlab_engine::units::{Bytes, Dpa, Hpa};
/// use cxlab_protocol::hdm::InterleaveSet;
/// use cxlab_protocol::{DecoderTable, DeviceDecoder, PortId};
///
/// let half = Bytes(512 << 20);
/// let set = InterleaveSet::new(Hpa(0), half, Bytes(256), 1).unwrap();
/// let share = |first| DeviceDecoder { set, target: 0, first: Dpa(first) };
/// let table = DecoderTable::by_host(vec![vec![share(0)], vec![share(half.0)]]);
/// assert_eq!(table.decode(PortId(0), Hpa(64)), Some(Dpa(64)));
/// assert_eq!(table.decode(PortId(1), Hpa(64)), Some(Dpa(half.0 + 64)));
/// assert_eq!(table.encode(PortId(1), Dpa(half.0 + 64)), Some(Hpa(64)));
/// assert_eq!(table.decode(PortId(2), Hpa(64)), None);
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DecoderTable {
    /// The decoder, if the table has a single one for all hosts. Most devices have one, and every
    /// request reads it, so it is stored inline.
    only: Option<DeviceDecoder>,
    /// All decoders, grouped by host. Within a host, the enabled decoders come first.
    decoders: Vec<DeviceDecoder>,
    /// For each host: index of its first decoder, and index after its last enabled one. Empty if
    /// all hosts have all decoders.
    of_host: Vec<(u32, u32)>,
}

impl DecoderTable {
    /// A table with the same decoders for every host. Without decoders, no host can access the device.
    pub fn common(decoders: Vec<DeviceDecoder>) -> Self {
        DecoderTable {
            only: match decoders[..] {
                [only] => Some(only),
                _ => None,
            },
            decoders,
            of_host: Vec::new(),
        }
    }

    /// A table with a list of decoders for each host, indexed by the host's edge port.
    pub fn by_host(lists: Vec<Vec<DeviceDecoder>>) -> Self {
        let mut table = DecoderTable::default();
        for list in lists {
            let first = table.decoders.len() as u32;
            table.decoders.extend(list);
            table.of_host.push((first, table.decoders.len() as u32));
        }
        table
    }

    /// Whether the table has no decoders, so that no host can access the device.
    pub fn is_empty(&self) -> bool {
        self.decoders.is_empty()
    }

    /// All decoders, including disabled ones, grouped by host.
    pub fn decoders(&self) -> &[DeviceDecoder] {
        &self.decoders
    }

    /// The enabled decoders of a host.
    #[inline]
    pub fn of(&self, host: PortId) -> &[DeviceDecoder] {
        if self.of_host.is_empty() {
            return &self.decoders;
        }
        match self.of_host.get(usize::from(host.0)) {
            Some((first, end)) => &self.decoders[*first as usize..*end as usize],
            None => &[],
        }
    }

    /// Translates an address of a host to a DPA. `None` if no enabled decoder of the host
    /// contains the address.
    #[inline(always)]
    pub fn decode(&self, host: PortId, hpa: Hpa) -> Option<Dpa> {
        if let Some(only) = &self.only {
            return only.decode(hpa);
        }
        self.of(host).iter().find_map(|one| one.decode(hpa))
    }

    /// Translates a DPA to an address of a host. `None` if no enabled decoder of the host maps the DPA.
    pub fn encode(&self, host: PortId, dpa: Dpa) -> Option<Hpa> {
        self.of(host).iter().find_map(|one| one.encode(dpa))
    }

    /// Enables or disables a decoder of a host and returns whether anything changed. In a table
    /// that is common to all hosts, nothing changes. Disabled decoders are stored after the enabled
    /// ones and cost nothing, because lookups do not reach them.
    pub fn set_enabled(&mut self, host: PortId, decoder: &DeviceDecoder, enabled: bool) -> bool {
        let number = usize::from(host.0);
        let next = self.of_host.get(number + 1).map(|(first, _)| *first);
        let limit = next.map_or(self.decoders.len(), |first| first as usize);
        let Some((first, end)) = self.of_host.get_mut(number) else {
            return false;
        };
        let own = &mut self.decoders[*first as usize..limit];
        let used = (*end - *first) as usize;
        let Some(place) = own.iter().position(|one| one == decoder) else {
            return false;
        };
        match (place < used, enabled) {
            (true, false) => {
                own.swap(place, used - 1);
                *end -= 1;
            }
            (false, true) => {
                own.swap(place, used);
                *end += 1;
            }
            _ => return false,
        }
        true
    }

    /// Whether a range of the device is one contiguous range of addresses, for every decoder that
    /// maps its first byte.
    pub fn is_contiguous(&self, first: Dpa, bytes: Bytes) -> bool {
        let last = Dpa(first.0 + bytes.0 - 1);
        self.decoders
            .iter()
            .filter_map(|one| Some((one, one.encode(first)?)))
            .all(|(one, hpa)| one.encode(last) == Some(Hpa(hpa.0 + bytes.0 - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNIT: u64 = 1 << 20;

    fn decoder(base: u64, size: u64, ways: u32, target: u32, first: u64) -> DeviceDecoder {
        DeviceDecoder {
            set: InterleaveSet::new(Hpa(base), Bytes(size), Bytes(256), ways).unwrap(),
            target,
            first: Dpa(first),
        }
    }

    #[test]
    fn a_host_sees_its_own_share_and_no_other() {
        let table = DecoderTable::by_host(vec![
            vec![
                decoder(0, UNIT, 1, 0, 0),
                decoder(UNIT, 2 * UNIT, 2, 1, 4 * UNIT),
            ],
            vec![],
            vec![decoder(0, UNIT, 1, 0, UNIT)],
        ]);
        assert_eq!(table.decode(PortId(0), Hpa(5)), Some(Dpa(5)));
        assert_eq!(table.decode(PortId(2), Hpa(5)), Some(Dpa(UNIT + 5)));
        assert_eq!(table.decode(PortId(1), Hpa(5)), None);
        assert_eq!(table.decode(PortId(3), Hpa(5)), None, "no such host");
        // The second window alternates between two devices, and this is the second of them.
        assert_eq!(table.decode(PortId(0), Hpa(UNIT)), None);
        assert_eq!(
            table.decode(PortId(0), Hpa(UNIT + 256)),
            Some(Dpa(4 * UNIT))
        );
        assert_eq!(table.encode(PortId(2), Dpa(5)), None, "the first host's");
    }

    #[test]
    fn a_disabled_decoder_has_no_address_until_it_is_enabled_again() {
        let own = [0, 1, 2].map(|at| decoder(at * UNIT, UNIT, 1, 0, at * UNIT));
        let mut table = DecoderTable::by_host(vec![own.to_vec(), own.to_vec()]);
        let (host, other) = (PortId(0), PortId(1));
        let sees = |table: &DecoderTable, host| {
            [0, 1, 2].map(|at| table.decode(host, Hpa(at * UNIT + 5)) == Some(Dpa(at * UNIT + 5)))
        };
        assert!(table.set_enabled(host, &own[0], false));
        assert!(!table.set_enabled(host, &own[0], false), "as it was");
        assert_eq!(sees(&table, host), [false, true, true]);
        assert_eq!(table.encode(host, Dpa(5)), None);
        assert!(table.set_enabled(host, &own[2], false));
        assert_eq!(sees(&table, host), [false, true, false]);
        assert!(table.set_enabled(host, &own[0], true));
        assert_eq!(sees(&table, host), [true, true, false]);
        assert_eq!(sees(&table, other), [true; 3], "another's are its own");
        assert!(
            !table.set_enabled(PortId(2), &own[0], false),
            "no such host"
        );
        assert_eq!(table.decoders().len(), 6, "none is gone");
        let mut common = DecoderTable::common(own.to_vec());
        assert!(!common.set_enabled(host, &own[0], false));
        assert_eq!(sees(&common, host), [true; 3]);
    }

    #[test]
    fn a_stretch_ends_where_the_interleaving_or_the_share_does() {
        let table = DecoderTable::common(vec![decoder(0, 2 * UNIT, 2, 0, 0)]);
        assert!(table.is_contiguous(Dpa(0), Bytes(256)));
        assert!(!table.is_contiguous(Dpa(192), Bytes(128)));
        let whole = DecoderTable::common(vec![decoder(0, UNIT, 1, 0, 0)]);
        assert!(whole.is_contiguous(Dpa(192), Bytes(128)));
        assert!(!whole.is_contiguous(Dpa(UNIT - 64), Bytes(128)));
    }

    proptest! {
        #[test]
        fn encoding_is_the_inverse_of_decoding_for_each_host(
            host in 0u16..4,
            line in 0..UNIT / 64,
            ways in prop::sample::select(vec![1u32, 2, 3, 4]),
        ) {
            let lists = (0..4).map(|host| {
                vec![decoder(host * UNIT, 3 * UNIT * u64::from(ways), ways, ways - 1, host * 3 * UNIT)]
            });
            let table = DecoderTable::by_host(lists.collect());
            let dpa = Dpa(u64::from(host) * 3 * UNIT + line * 64);
            let hpa = table.encode(PortId(host), dpa).unwrap();
            prop_assert_eq!(table.decode(PortId(host), hpa), Some(dpa));
            for other in (0..4).filter(|other| *other != host) {
                prop_assert_eq!(table.encode(PortId(other), dpa), None);
                prop_assert_ne!(table.decode(PortId(other), hpa), Some(dpa));
            }
        }
    }
}
