//! When a request was in each of its stages, and where.

use cxlab_agent::{
    CACHE, COHERENCE, CREDITS, DEVICE_QUEUE, HOST_QUEUE, MEDIA, MEDIA_QUEUE, PROCESS, SWITCH_QUEUE,
};
use cxlab_host::{RequestRow, STAGE_NAMES, StageTimes};

use super::chains::{Chain, Hop};

/// Positions of further stages in [`STAGE_NAMES`].
const LINK: usize = 4;
const PORT: usize = 5;
const SWITCH: usize = 6;
const DEVICE: usize = 8;

/// The order of stages between two arrivals: the component, its output, the wire.
const ORDER: [usize; STAGE_NAMES.len()] = [
    CACHE,
    PROCESS,
    HOST_QUEUE,
    SWITCH,
    DEVICE,
    COHERENCE,
    MEDIA_QUEUE,
    MEDIA,
    DEVICE_QUEUE,
    SWITCH_QUEUE,
    CREDITS,
    PORT,
    LINK,
];

/// The order in which a requester's own stages fill the time that no message shows.
const OWN: [usize; STAGE_NAMES.len()] = [
    CACHE,
    PROCESS,
    HOST_QUEUE,
    COHERENCE,
    MEDIA_QUEUE,
    MEDIA,
    SWITCH,
    DEVICE,
    DEVICE_QUEUE,
    SWITCH_QUEUE,
    CREDITS,
    PORT,
    LINK,
];

/// Where a part of a request's time was spent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Spot {
    Requester,
    /// In a component on the way.
    Component(usize),
    /// At the output to a link's direction.
    Output(usize),
    /// On a link's direction, its ports included.
    Wire(usize),
}

/// A part of a request's time in one stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StageSpan {
    pub(super) stage: usize,
    pub(super) spot: Spot,
    pub(super) begin_ps: u64,
    pub(super) end_ps: u64,
}

/// A request with its time by stage: the spans follow each other from its issue to its completion.
#[derive(Debug)]
pub(super) struct PlacedRequest {
    pub(super) row: RequestRow,
    pub(super) spans: Vec<StageSpan>,
    /// Whether messages show where its time was spent.
    pub(super) by_messages: bool,
}

/// The stage at an output in which a message waits for the wire or for credits.
fn is_at_output(stage: usize) -> bool {
    [HOST_QUEUE, SWITCH_QUEUE, DEVICE_QUEUE, CREDITS].contains(&stage)
}

/// Appends spans one behind the other.
struct Layout {
    spans: Vec<StageSpan>,
    at_ps: u64,
}

impl Layout {
    fn of(row: &RequestRow) -> Layout {
        Layout {
            spans: Vec::new(),
            at_ps: row.issued_ps,
        }
    }

    fn add(&mut self, stage: usize, spot: Spot, picos: u64) {
        if picos == 0 {
            return;
        }
        let begin_ps = self.at_ps;
        self.at_ps += picos;
        let end_ps = self.at_ps;
        // Two parts of one stage at one place that touch are one.
        if let Some(last) = self.spans.last_mut()
            && (last.stage, last.spot, last.end_ps) == (stage, spot, begin_ps)
        {
            last.end_ps = end_ps;
            return;
        }
        self.spans.push(StageSpan {
            stage,
            spot,
            begin_ps,
            end_ps,
        });
    }

    /// Takes `picos` of the stages in `left`, in the order of [`OWN`]; false if `left` has less.
    fn fill(&mut self, left: &mut StageTimes, spot: Spot, mut picos: u64) -> bool {
        for stage in OWN {
            let part = picos.min(left[stage]);
            self.add(stage, spot, part);
            left[stage] -= part;
            picos -= part;
        }
        picos == 0
    }
}

/// The spans of a hop, from its beginning on, without the component's own time.
fn add_hop(layout: &mut Layout, hop: &Hop, own: Spot) {
    for stage in ORDER {
        let spot = match stage {
            PORT | LINK => Spot::Wire(hop.direction),
            _ if is_at_output(stage) => Spot::Output(hop.direction),
            _ => own,
        };
        layout.add(stage, spot, hop.stages[stage]);
    }
}

/// When the message of a hop began to wait at the output, and when it went.
pub(super) fn wait_of(hop: &Hop) -> (u64, u64) {
    let time = |stages: &[usize]| stages.iter().map(|stage| hop.stages[*stage]).sum::<u64>();
    let end = hop.end_ps - time(&[PORT, LINK]);
    let waited = time(&[HOST_QUEUE, SWITCH_QUEUE, DEVICE_QUEUE, CREDITS]);
    (end - waited, end)
}

/// Places a request by one of these transactions, or by stage where none is the request's.
pub(super) fn place<'c>(
    row: &RequestRow,
    requester: usize,
    candidates: impl Iterator<Item = &'c Chain>,
) -> PlacedRequest {
    // What completes a request is the last of its messages.
    let mut candidates: Vec<&Chain> = candidates.collect();
    candidates.sort_by_key(|chain| std::cmp::Reverse(chain.end_ps()));
    let mut candidates = candidates.into_iter();
    let by_messages = candidates.find_map(|chain| by_chain(row, requester, chain));
    let found = by_messages.is_some();
    let spans = by_messages.unwrap_or_else(|| {
        let mut layout = Layout::of(row);
        for (stage, picos) in row.stages.into_iter().enumerate() {
            layout.add(stage, Spot::Requester, picos);
        }
        layout.spans
    });
    PlacedRequest {
        row: *row,
        spans,
        by_messages: found,
    }
}

/// The spans of a request whose messages are these; `None` where they are not.
fn by_chain(row: &RequestRow, requester: usize, chain: &Chain) -> Option<Vec<StageSpan>> {
    let before = chain.key.issued_ps.checked_sub(row.issued_ps)?;
    let behind = row.completed_ps.checked_sub(chain.end_ps())?;
    if chain.last() != Some(requester) {
        return None;
    }
    let mut left = row.stages;
    for (left, own) in left.iter_mut().zip(chain.stages) {
        *left = left.checked_sub(own)?;
    }
    let mut layout = Layout::of(row);
    let mut complete = layout.fill(&mut left, Spot::Requester, before);
    for hop in &chain.hops {
        let own = match hop.from == requester {
            true => Spot::Requester,
            false => Spot::Component(hop.from),
        };
        complete &= layout.fill(&mut left, own, hop.rest_ps);
        add_hop(&mut layout, hop, own);
    }
    complete &= layout.fill(&mut left, Spot::Requester, behind);
    (complete && layout.at_ps == row.completed_ps).then_some(layout.spans)
}
