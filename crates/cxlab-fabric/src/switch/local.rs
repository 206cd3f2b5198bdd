//! The routing as one switch sees it. A large fabric's tables fit no near cache, and a switch looks at
//! its own for each message, so they are a byte for each destination.

use std::collections::BTreeMap;
use std::sync::Arc;

use cxlab_protocol::PortId;

use crate::routing::{RoutingKind, RoutingTables};

/// The way to a destination that the tables of the whole fabric have to tell.
const ELSEWHERE: u8 = u8::MAX;

/// The routing tables' part for one switch.
pub(super) struct LocalRouting {
    switch: usize,
    tables: Arc<RoutingTables>,
    kind: RoutingKind,
    /// Whether messages change their virtual channel at all.
    climbs: bool,
    /// By destination: the only output; or, `singles` added, the number of a list; or [`ELSEWHERE`].
    ways: Box<[u8]>,
    /// Outputs that a way can name: all of the switch's, or none if there are too many.
    singles: u8,
    /// Candidates of the destinations that have several, each list once.
    lists: Vec<Box<[u16]>>,
}

impl LocalRouting {
    /// That of a switch with so many ports, in a fabric of so many endpoints.
    pub(super) fn new(
        tables: &Arc<RoutingTables>,
        switch: usize,
        ports: usize,
        endpoints: usize,
    ) -> Self {
        let singles = u8::try_from(ports).unwrap_or(0);
        let mut lists: Vec<Box<[u16]>> = Vec::new();
        let mut known: BTreeMap<&[u16], u8> = BTreeMap::new();
        let ways = (0..endpoints).map(|destination| {
            let candidates = tables.candidates(switch, destination);
            match *candidates {
                [only] if only < u16::from(singles) => only as u8,
                _ => *known.entry(candidates).or_insert_with(|| {
                    let way = u8::try_from(usize::from(singles) + lists.len());
                    match way.unwrap_or(ELSEWHERE) {
                        ELSEWHERE => ELSEWHERE,
                        way => {
                            lists.push(candidates.into());
                            way
                        }
                    }
                }),
            }
        });
        LocalRouting {
            switch,
            kind: tables.kind(),
            climbs: tables.virtual_channels() > 1,
            ways: ways.collect(),
            singles,
            lists,
            tables: Arc::clone(tables),
        }
    }

    /// The outputs for a destination that has not just one.
    #[inline]
    fn candidates(&self, way: u8, destination: usize) -> &[u16] {
        match self.lists.get(usize::from(way - self.singles)) {
            Some(list) => list,
            None => self.tables.candidates(self.switch, destination),
        }
    }

    /// The output for a message ([`RoutingKind::pick`] says what is asked for when).
    #[inline(always)]
    pub(super) fn pick(
        &self,
        source: PortId,
        destination: PortId,
        random: impl FnOnce() -> u64,
        congestion: impl FnMut(u16) -> u64,
    ) -> u16 {
        let destination = usize::from(destination.0);
        let way = self.ways[destination];
        if way < self.singles {
            return u16::from(way);
        }
        let candidates = self.candidates(way, destination);
        let source = usize::from(source.0);
        let kind = self.kind;
        kind.pick(
            candidates,
            self.switch,
            source,
            destination,
            random,
            congestion,
        )
    }

    /// The output that a message will be given, where that is certain: unless it is a matter of chance or of
    /// congestion.
    #[inline]
    pub(super) fn foresee(&self, source: PortId, destination: PortId) -> Option<u16> {
        let destination = usize::from(destination.0);
        let way = *self.ways.get(destination)?;
        if way < self.singles {
            return Some(u16::from(way));
        }
        let candidates = self.candidates(way, destination);
        let (kind, source) = (self.kind, usize::from(source.0));
        let certain = kind.keeps_order() && !candidates.is_empty();
        certain.then(|| kind.pick(candidates, self.switch, source, destination, || 0, |_| 0))
    }

    /// The virtual channel on which a message goes on that came in on `vc`.
    #[inline(always)]
    pub(super) fn next_vc(&self, input: u16, output: u16, vc: u8) -> u8 {
        let climbs = self.climbs && self.tables.vc_increment(self.switch, input, output);
        vc + u8::from(climbs)
    }
}
