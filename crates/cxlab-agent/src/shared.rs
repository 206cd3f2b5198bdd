//! Data of memory that several hosts map without hardware coherence (HDM-H in shared regions).
//!
//! Each host has an image of its own, which stands for its caches and its own memory. The device-held data of shared
//! regions are a further image, which only the devices access. A line's bytes cross between the two images with the
//! messages that carry the line. A write takes the line from the host's image when the line leaves the host's caches. A
//! read copies the device's line when the device's medium accepts the request. So a host sees another host's store only
//! after the writer has written the line back and the reader has dropped its own copy. Software on such memory has to
//! do the same flushes as on real hardware.
//!
//! Messages carry no bytes. In transit the bytes have an address given by requester and tag. Only the message passes
//! the right to access that address, and the message takes at least a wire's latency, so no other component accesses
//! the bytes meanwhile (`cxlab_workload::image` explains why that is deterministic).

use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::{Dpa, Hpa, LINE_BYTES, LineAddr};
use cxlab_protocol::{Message, PortId};
use cxlab_workload::Image;

/// First address of lines in transit, above those of devices: 2^63.
const TRANSIT_BASE: u64 = 1 << 63;

/// The bytes that devices hold of shared regions. A clone refers to the same memory.
#[derive(Clone, Default, Debug)]
pub struct SharedMemory(Image);

impl SharedMemory {
    /// Address of a device's line: DPAs are below 2^50, edge ports below 2^12.
    fn device_address(device: PortId, dpa: Dpa) -> Hpa {
        Hpa(u64::from(device.0) << 50 | dpa.0)
    }

    fn transit_address(requester: PortId, tag: u32) -> Hpa {
        Hpa(TRANSIT_BASE | u64::from(requester.0) << 38 | u64::from(tag) << 6)
    }

    /// Initialises a device's line, before the run, with the line at `hpa` of an image.
    pub fn prepare(&self, device: PortId, dpa: Dpa, image: &Image, hpa: Hpa) {
        copy_line(image, hpa, &self.0, Self::device_address(device, dpa));
    }
}

/// One host's view of the shared memory.
#[derive(Clone, Debug)]
pub struct HostSharedMemory {
    /// The data that devices hold.
    pub memory: SharedMemory,
    /// Ranges of the host's addresses that are shared: first line, and the line after the last.
    pub lines: Vec<(LineAddr, LineAddr)>,
}

impl HostSharedMemory {
    /// Whether a line is in shared memory.
    #[inline]
    pub fn holds(&self, line: LineAddr) -> bool {
        let mut windows = self.lines.iter();
        windows.any(|(first, end)| (*first..*end).contains(&line))
    }

    /// Copies a line that leaves the host's caches for memory from `image` into transit.
    pub fn send(&self, requester: PortId, tag: u32, image: &Image, hpa: Hpa) {
        copy_line(
            image,
            hpa,
            &self.memory.0,
            SharedMemory::transit_address(requester, tag),
        );
    }

    /// Copies a line that has arrived from memory out of transit into `image`.
    pub fn take(&self, requester: PortId, tag: u32, image: &Image, hpa: Hpa) {
        copy_line(
            &self.memory.0,
            SharedMemory::transit_address(requester, tag),
            image,
            hpa,
        );
    }
}

/// One device's view of the shared memory.
#[derive(Clone, Debug)]
pub struct DeviceSharedMemory {
    /// The data that devices hold.
    pub memory: SharedMemory,
    /// Edge port of the device.
    pub device: PortId,
    /// Hosts whose messages carry bytes, each with the range of DPAs that it shares: first, and end (exclusive).
    pub hosts: Vec<(PortId, Dpa, Dpa)>,
}

impl DeviceSharedMemory {
    /// Moves the bytes of a request when the medium accepts it. Requests outside the shared ranges move none.
    pub fn access(&self, dpa: Dpa, write: bool, request: &Message) {
        let is_part = |(host, first, end): &(PortId, Dpa, Dpa)| {
            *host == request.source && (*first..*end).contains(&dpa)
        };
        if !self.hosts.iter().any(is_part) {
            return;
        }
        let transit_address = SharedMemory::transit_address(request.source, request.tag);
        let here = SharedMemory::device_address(self.device, dpa);
        let (from, to) = if write {
            (transit_address, here)
        } else {
            (here, transit_address)
        };
        self.memory.0.copy(from, to, LINE_BYTES);
    }
}

/// Each device that shares the memory saves it; all saved copies are equal.
impl SaveState for DeviceSharedMemory {
    fn save(&self, out: &mut StateWriter) {
        let DeviceSharedMemory {
            memory,
            device: _,
            hosts: _,
        } = self;
        memory.0.save(out);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.memory.0.restore(from)
    }
}

fn copy_line(from_image: &Image, from: Hpa, to_image: &Image, to: Hpa) {
    let mut bytes = [0; LINE_BYTES as usize];
    from_image.read_bytes(from, &mut bytes);
    to_image.write_bytes(to, &bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use cxlab_engine::units::SimTime;
    use cxlab_protocol::Opcode;

    fn request(source: u16, tag: u32, opcode: Opcode) -> Message {
        Message::new(opcode, Hpa(0), tag, PortId(source), PortId(9), SimTime(0))
    }

    /// The same line has address 64 at the one host and 4096 at the other.
    #[test]
    fn a_store_is_seen_when_it_was_written_back_and_the_line_fetched_again() {
        let memory = SharedMemory::default();
        let windows = |first: u64| HostSharedMemory {
            memory: memory.clone(),
            lines: vec![(LineAddr(first), LineAddr(first + 4))],
        };
        let (host, other_host) = (windows(0), windows(63));
        assert!(
            host.holds(LineAddr(3)) && !host.holds(LineAddr(4)) && !other_host.holds(LineAddr(62))
        );
        let (mine, theirs) = (Image::new(), Image::new());
        let device = DeviceSharedMemory {
            memory: memory.clone(),
            device: PortId(9),
            hosts: vec![(PortId(1), Dpa(0), Dpa(256)), (PortId(2), Dpa(0), Dpa(256))],
        };
        mine.write(Hpa(64), 8, 7);
        let fetch = |tag| {
            device.access(Dpa(64), false, &request(2, tag, Opcode::MemRd));
            other_host.take(PortId(2), tag, &theirs, Hpa(4096));
            theirs.read(Hpa(4096), 8)
        };
        assert_eq!(fetch(5), 0);
        host.send(PortId(1), 5, &mine, Hpa(64));
        mine.write(Hpa(64), 8, 8);
        assert_eq!(fetch(6), 0, "the write is on its way");
        device.access(Dpa(64), true, &request(1, 5, Opcode::MemWr));
        assert_eq!(
            theirs.read(Hpa(4096), 8),
            0,
            "the other host keeps its copy"
        );
        assert_eq!(fetch(5), 7);
    }

    #[test]
    fn requests_of_others_and_beside_the_region_change_nothing() {
        let memory = SharedMemory::default();
        let device = DeviceSharedMemory {
            memory: memory.clone(),
            device: PortId(9),
            hosts: vec![(PortId(1), Dpa(64), Dpa(128))],
        };
        let (image, windows) = (
            Image::new(),
            HostSharedMemory {
                memory: memory.clone(),
                lines: vec![(LineAddr(0), LineAddr(8))],
            },
        );
        image.write(Hpa(64), 8, 7);
        for (host, dpa) in [(1, 0), (1, 128), (2, 64)] {
            windows.send(PortId(host), 0, &image, Hpa(64));
            device.access(Dpa(dpa), true, &request(host, 0, Opcode::MemWr));
            let held = memory
                .0
                .read(SharedMemory::device_address(PortId(9), Dpa(dpa)), 8);
            assert_eq!(held, 0);
        }
    }
}
