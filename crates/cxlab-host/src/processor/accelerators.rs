//! The accelerators of a processor's host.

use cxlab_protocol::PortId;
use cxlab_protocol::coherence::cache_home::Peer;

/// The accelerators of the host, by edge port.
pub(super) struct Accelerators {
    /// All accelerators, by their number as holders of lines.
    pub(super) ports: Vec<PortId>,
    /// Accelerators that keep their own memory coherent.
    pub(super) coherent: Vec<PortId>,
}

impl Accelerators {
    /// The holder number of a device in the table.
    ///
    /// # Panics
    /// If the port is none of the host's accelerators; the plan has bound them.
    pub(super) fn peer_of(&self, port: PortId) -> Peer {
        let number = self.ports.iter().position(|device| *device == port);
        let Some(peer) = number.and_then(Peer::new) else {
            panic!("{port:?} is no accelerator of this host")
        };
        peer
    }
}
