//! The candidate ports of every switch for every destination switch. A switch stores each list once, and
//! destinations with the same candidates share it.

use std::collections::BTreeMap;

use super::distances::SwitchDistances;
use super::ports::{PortPeer, SwitchPorts};

/// Candidate output ports of all switches.
#[derive(Clone, Debug)]
pub(super) struct OutputCandidates {
    switches: usize,
    /// Number of the list for each destination row and switch.
    list_of: Vec<u32>,
    /// Index in `flat` at which each list begins, and one entry more. List 0 is empty.
    start: Vec<usize>,
    flat: Vec<u16>,
}

impl OutputCandidates {
    /// Collects the candidates on the paths of `distances`. With `climbs` (by port, numbered over all
    /// switches), a switch that has candidates which climb keeps only these.
    pub(super) fn collect(
        ports: &SwitchPorts,
        distances: &SwitchDistances,
        climbs: Option<&[bool]>,
    ) -> Self {
        let switches = ports.switches();
        let mut table = OutputCandidates {
            switches,
            list_of: vec![0; distances.rows() * switches],
            start: vec![0, 0],
            flat: Vec::new(),
        };
        let mut list = Vec::new();
        for switch in 0..switches {
            let mut known: BTreeMap<Vec<u16>, u32> = BTreeMap::from([(Vec::new(), 0)]);
            let mut last = 0;
            for row in 0..distances.rows() {
                nearer(ports, distances, row, switch, climbs, &mut list);
                if let Some(climbs) = climbs
                    && list.iter().any(|port| climbs[ports.flat(switch, *port)])
                {
                    list.retain(|port| climbs[ports.flat(switch, *port)]);
                }
                if table.list(last) != list {
                    last = match known.get(&list) {
                        Some(number) => *number,
                        None => {
                            let number = table.add(&list);
                            known.insert(list.clone(), number);
                            number
                        }
                    };
                }
                table.list_of[row * switches + switch] = last;
            }
        }
        table
    }

    /// The candidates at `switch` for the destination switch of `row`.
    #[inline]
    pub(super) fn of(&self, switch: usize, row: usize) -> &[u16] {
        self.list(self.list_of[row * self.switches + switch])
    }

    #[inline]
    fn list(&self, number: u32) -> &[u16] {
        let number = number as usize;
        &self.flat[self.start[number]..self.start[number + 1]]
    }

    fn add(&mut self, list: &[u16]) -> u32 {
        self.flat.extend(list);
        self.start.push(self.flat.len());
        (self.start.len() - 2) as u32
    }
}

/// Writes to `list` the ports by which messages at `switch` may continue to the
/// destination switch of `row`.
fn nearer(
    ports: &SwitchPorts,
    distances: &SwitchDistances,
    row: usize,
    switch: usize,
    climbs: Option<&[bool]>,
    list: &mut Vec<u16>,
) {
    list.clear();
    for (port, peer) in ports.of(switch).iter().enumerate() {
        let port = port as u16;
        if let PortPeer::Switch { index, .. } = *peer
            && distances.may(
                row,
                switch,
                index,
                climbs.is_some_and(|climbs| climbs[ports.flat(switch, port)]),
            )
        {
            list.push(port);
        }
    }
}
