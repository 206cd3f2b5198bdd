//! Transactions of lines at the home agent, and the accesses that wait for them.

use std::ops::{Index, IndexMut};

use cxlab_agent::{Access, AccessOutcome, LOCAL, WaitingAccess, WaitingAccesses};
use cxlab_cache::Slot;
use cxlab_engine::units::{LineAddr, SimTime};
use cxlab_protocol::coherence::cache_home::{CORES, CoreSnoopResult, LineState, Peer};
use cxlab_protocol::coherence::cache_message::Request;
use cxlab_protocol::{LatencyStages, PortId};
use serde::{Deserialize, Serialize};

use super::tokens::NONE;

/// Value of [`MemoryAccess::sent`] without a message in flight.
pub(super) const NOT_SENT: u64 = u64::MAX;

/// Stands for a transaction that devices do not know by a UQID.
pub(super) const NO_UQID: u16 = u16::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) enum TxnKind {
    /// None: the slot is free.
    Free,
    /// A core's load.
    Read,
    /// A core's store, which needs the line exclusively.
    Own,
    /// A core's flush of the line out of every cache.
    Flush,
    /// A core's write-back of the line, which may stay in its caches.
    WriteBack,
    /// A core's demotion of the line to the last-level cache.
    Demote,
    /// A device's request.
    Device(Request),
    /// A line that a device reads by DMA.
    DmaRead,
    /// A line that a device writes by DMA.
    DmaWrite,
    /// A line of a page that is copied.
    PageRead,
    /// A line of a page that is copied or zeroed.
    PageWrite,
    /// A line of the page table that the IOMMU reads.
    WalkRead,
    /// The recall of a directory entry from devices, for its eviction.
    Recall,
    /// A `BISnpInv` of the device that owns the line.
    BackInvalidate,
    /// A device's request for an address without memory. It has no directory entry.
    Missing(Request),
    /// A write of a line to memory.
    Evict,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Txn {
    pub(super) line: LineAddr,
    pub(super) kind: TxnKind,
    pub(super) core: u16,
    pub(super) slot: Option<Slot>,
    /// State of the line in the table while the transaction has it.
    pub(super) state: LineState,
    /// Copy found in the cores, while the cores' response is in flight.
    pub(super) found: Option<CoreSnoopResult>,
    /// The accesses that wait for the transaction, as a linked list.
    pub(super) first: u32,
    pub(super) last: u32,
    /// Next transaction of the same line.
    pub(super) next: u32,
    /// The page walk of a core that waits for the transaction, or `NONE`.
    pub(super) walk: u32,
    /// The device that responded and keeps the line, and whether its value is poison.
    pub(super) snooped_holder: Option<(PortId, bool)>,
    /// Whether a core forwards its copy, which the table treats as a read.
    pub(super) forwarded: bool,
    /// Whether the line is recalled from devices before the transaction continues.
    pub(super) recalls: bool,
    /// Number of write-buffer entries that the transaction has reserved.
    pub(super) write_entries: u32,
    pub(super) times: TxnTimes,
    pub(super) memory: MemoryAccess,
    pub(super) request: DeviceRequest,
    /// Stages of the latency: of a device's request, or of the message to CXL memory.
    pub(super) stages: LatencyStages,
}

/// The times of a transaction, in picoseconds.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct TxnTimes {
    /// When the transaction reached the home agent.
    pub(super) arrived: u64,
    /// Time that the transaction waited for entries of the write buffer and for the start of
    /// its read.
    pub(super) waited_ps: u64,
    /// Start of the current such wait.
    pub(super) since: u64,
}

/// A transaction's message to memory, and the response.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct MemoryAccess {
    /// For a write: the transaction that waits for it, or `NONE`.
    pub(super) parent: u32,
    /// For a write: whether a cache may still hold the line.
    pub(super) keeps: bool,
    /// Whether the device that owns the line has been notified that the host takes it, and
    /// has not responded yet.
    pub(super) claiming: bool,
    /// Whether the data that a device has sent are only some bytes of the line.
    pub(super) partial: bool,
    /// Whether the device has responded to the notification that the host takes its line.
    pub(super) claimed: bool,
    /// Whether the line has no memory, and a response without data is pending.
    pub(super) missing: bool,
    /// The parts of the response to a read of HDM-DB memory that have arrived.
    pub(super) arrived_parts: u8,
    /// Time that memory took, in picoseconds.
    pub(super) media_ps: u64,
    /// Constant time to memory and back, in picoseconds.
    pub(super) round_trip_ps: u64,
    /// When the message to CXL memory was sent, until its response comes; `NOT_SENT` without one.
    pub(super) sent: u64,
    /// How the message to memory ended.
    pub(super) outcome: AccessOutcome,
    /// Whether the message has timed out and its response has not come: the tag is out of use.
    pub(super) late: bool,
    /// Number of the device that responded, or [`LOCAL`], and the number of links that the response crossed.
    pub(super) device: u16,
    pub(super) hops: u16,
}

/// How devices know a transaction, and its requester if no core began it.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct DeviceRequest {
    pub(super) peer: Peer,
    pub(super) source: PortId,
    /// Whether the request is a write of a line of the device's own memory.
    pub(super) writes_own: bool,
    /// Number by which devices know the transaction, or [`NO_UQID`].
    pub(super) uqid: u16,
    /// CQID of a device's request, or the number of a CXL.io transaction, page job or device walk.
    pub(super) tag: u32,
}

impl Txn {
    pub(super) fn new(line: LineAddr, kind: TxnKind, core: u16) -> Txn {
        Txn {
            line,
            kind,
            core,
            slot: None,
            state: LineState::default(),
            found: None,
            first: NONE,
            last: NONE,
            next: NONE,
            walk: NONE,
            snooped_holder: None,
            forwarded: false,
            recalls: false,
            write_entries: 0,
            times: TxnTimes {
                arrived: 0,
                waited_ps: 0,
                since: 0,
            },
            memory: MemoryAccess {
                parent: NONE,
                keeps: false,
                claiming: false,
                partial: false,
                claimed: false,
                missing: false,
                arrived_parts: 0,
                media_ps: 0,
                round_trip_ps: 0,
                sent: NOT_SENT,
                outcome: AccessOutcome::Served,
                late: false,
                device: LOCAL,
                hops: 0,
            },
            request: DeviceRequest {
                peer: CORES,
                source: PortId(0),
                writes_own: false,
                uqid: NO_UQID,
                tag: 0,
            },
            stages: LatencyStages::default(),
        }
    }

    /// A transaction of the root complex: a line of DMA, of a page, or of a device's page walk. `tag` is the
    /// number of the operation to which the line belongs.
    pub(super) fn of_io(line: LineAddr, kind: TxnKind, tag: u32) -> Txn {
        let mut txn = Txn::new(line, kind, 0);
        if let Some(peer) = Peer::new(IO) {
            txn.request.peer = peer;
        }
        txn.request.tag = tag;
        txn
    }

    /// Whether a core's load or store waits for the line.
    pub(super) fn is_miss(&self) -> bool {
        matches!(self.kind, TxnKind::Read | TxnKind::Own)
    }
}

/// Holder number of the root complex in the table.
const IO: usize = 62;

/// The transactions in flight, by number, and the accesses that wait for them.
#[derive(Serialize, Deserialize)]
pub(super) struct Transactions {
    list: Vec<Txn>,
    free: Vec<u32>,
    waiters: WaitingAccesses,
    /// Number of transactions that are over and whose tag is out of use.
    out_of_use: u64,
}

impl Transactions {
    pub(super) fn new(capacity: usize) -> Transactions {
        Transactions {
            list: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            waiters: WaitingAccesses::default(),
            out_of_use: 0,
        }
    }

    pub(super) fn in_flight(&self) -> u64 {
        (self.list.len() - self.free.len()) as u64 - self.out_of_use
    }

    /// All transactions, by number, including those that are over.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, Txn> {
        self.list.iter()
    }

    /// The numbers of all transactions, including those that are over.
    pub(super) fn numbers(&self) -> std::ops::Range<u32> {
        0..self.list.len() as u32
    }

    pub(super) fn open(&mut self, txn: Txn) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.list[id as usize] = txn;
                id
            }
            None => {
                self.list.push(txn);
                self.list.len() as u32 - 1
            }
        }
    }

    pub(super) fn close(&mut self, id: u32) {
        let txn = &mut self.list[id as usize];
        txn.kind = TxnKind::Free;
        match txn.memory.late {
            false => self.free.push(id),
            true => self.out_of_use += 1,
        }
    }

    /// Puts the tag of a message that has timed out into use again, because the response has come.
    pub(super) fn reuse_late(&mut self, id: u32) {
        let txn = &mut self.list[id as usize];
        txn.memory.late = false;
        if txn.kind == TxnKind::Free {
            self.out_of_use -= 1;
            self.free.push(id);
        }
    }

    /// Appends an access to those that wait for a transaction.
    pub(super) fn wait_behind(&mut self, id: u32, access: Access, begun: SimTime) {
        let txn = &mut self.list[id as usize];
        self.waiters
            .append(&mut txn.first, &mut txn.last, access, begun);
    }

    #[inline]
    pub(super) fn take_waiter(&mut self, waiter: u32) -> WaitingAccess {
        self.waiters.take(waiter)
    }

    /// Appends a transaction to those of the same line, of which `first` has the line.
    pub(super) fn queue_behind(&mut self, first: u32, id: u32) {
        let mut last = first;
        while self[last].next != NONE {
            last = self[last].next;
        }
        self[last].next = id;
    }

    /// Whether no transaction that arrived earlier waits for the line of this one.
    pub(super) fn is_first_of_its_line(&self, id: u32) -> bool {
        let Txn { line, times, .. } = self[id];
        let waits = |other: &&Txn| {
            let kept = matches!(other.kind, TxnKind::Free | TxnKind::Evict | TxnKind::Recall);
            other.line == line && !kept && other.slot.is_none() && !other.memory.late
        };
        // Transactions that have not arrived yet have no time.
        let mut waiting = self.list.iter().filter(waits);
        self[id].kind == TxnKind::Recall
            || waiting.all(|other| other.times.arrived == 0 || other.times.arrived >= times.arrived)
    }
}

impl Index<u32> for Transactions {
    type Output = Txn;

    #[inline]
    fn index(&self, id: u32) -> &Txn {
        &self.list[id as usize]
    }
}

impl IndexMut<u32> for Transactions {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut Txn {
        &mut self.list[id as usize]
    }
}
