//! For every switch and destination switch, the ports on a shortest path: lists stored once for
//! each switch and shared by all destinations that have the same.

use std::collections::BTreeMap;

use super::distances::Distances;
use super::ports::{PortPeer, Ports};

/// Shortest-path output ports.
#[derive(Clone, Debug)]
pub(super) struct Candidates {
    switches: usize,
    /// The list of each destination row and switch.
    list_of: Vec<u32>,
    /// Where each list begins in `flat`, and one entry more. List 0 is empty.
    start: Vec<usize>,
    flat: Vec<u16>,
}

impl Candidates {
    /// Collects all shortest-path ports. With `climbs`, a switch that has candidates among those
    /// ports (by their number among all) keeps only them.
    pub(super) fn collect(ports: &Ports, distances: &Distances, climbs: Option<&[bool]>) -> Self {
        let switches = ports.switches();
        let mut table = Candidates {
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

/// Writes to `list` the ports by which messages at `switch` may go on to the destination switch of `row`.
fn nearer(
    ports: &Ports,
    distances: &Distances,
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
