//! Coherence of HDM-DB memory and of host memory over CXL.cache: which caches may hold a line, and
//! what each agent does about it.
//!
//! Pure tables, `(state, event) -> (state, actions)`: no time, no input or output, no allocation.
//!
//! - [`requester`]: the side that caches lines of another device's memory.
//! - [`dcoh`]: the home of the lines in that device.
//! - [`host_only`]: the memory that only its host keeps coherent (HDM-H).
//! - [`block`]: collects the responses to a snoop of several lines.
//! - [`cache_agent`]: a device's cache of host memory (CXL.cache).
//! - [`cache_home`]: the host's home agent for that cache.
//!
//! Each table is an array of named rows, found through an index that is computed when the crate is
//! compiled: a step costs two loads and the row's few actions.
//!
//! `docs/reference/coherence-tables.md` has the rows. `docs/explain/coherence.md` has the properties that are checked
//! exhaustively with their bounds, and the choices where the specification leaves room.
//!
//! # How a caching requester drives its table
//!
//! The requester stores a [`requester::LineState`] for each line that is not settled, in an entry
//! that is allocated when a request or a snoop begins and freed when
//! [`requester::LineState::is_settled`]. Settled lines need only I, S, E or M in the cache array.
//!
//! - Processor and replacement: `Load`, `Store`, `Evict` and so on. An event without a row must
//!   wait, and is retried when the line has changed. A line has one outstanding request at a time,
//!   so a miss to a line that is being evicted waits.
//! - Responses (NDR, DRS) must be accepted at once, regardless of M2S Req and RwD: the entry was
//!   allocated for them. They may cause a `MemRd` (an upgrade that lost its copy) or a `MemWr` (a
//!   deferred snoop of a modified line). Each entry therefore needs buffer slots for one M2S Req,
//!   one `MemWr`, one `BIConflict` and one BIRsp, besides the credits of the link.
//! - BISnp must be accepted regardless of M2S Req; it may wait for RwD and BIRsp (table 3-59). A
//!   snoop of a line that has no entry needs none unless the line is modified. A requester
//!   must reserve some of its entries for snoops.
//! - `MemData` is stored beside the entry until `Fill`. `MemWr` takes the copy's data when the
//!   action is executed, before a later `Drop`.
//! - `BIConflict` has the tag of the outstanding request; the fabric orders by it.
//!
//! # How a device drives the table of the DCOH
//!
//! The device stores a [`dcoh::Filter`] for each entry of the snoop filter, and the rest of
//! [`dcoh::LineState`] for the lines that are busy.
//!
//! - M2S Req: a request without a row waits for its line, in order of arrival; the channel may
//!   block meanwhile. A request that [allocates](dcoh::Operation::allocates) needs an entry first.
//!   If its line has none ([`dcoh::LineState::needs_entry`]) and none is free, the device chooses a
//!   victim among the lines that are not busy and steps it with `EvictEntry`. The request waits
//!   until an entry is free. It may read the medium meanwhile (figure 3-21), if it drops the data
//!   read when a `MemWr` of the line comes first.
//! - RwD (`MemWr`, `BIConflict`) and BIRsp must be accepted at once, regardless of the queues of
//!   M2S Req and BISnp. Their responses need buffer slots for one completion and one
//!   acknowledgement per requester and line.
//! - BISnp: at most one per line and requester is outstanding. Snoops of neighbouring lines for the same
//!   requesters may be joined into one `BISnp*Blk`; a `BIRsp*Blk` is then given to each of its lines.
//! - The medium serves the reads and writes of a line in the order of the actions. `Cmp` of a write
//!   is an action beside `WriteMedium`: the device may send it when the order is settled.
//! - `Cmp*` and `MemData` of one request are sent together and may arrive in either order. The
//!   response channels must not let `BIConflictAck` pass an earlier `Cmp*` of the same line.
//!
//! # How a device drives the table of its host-memory cache
//!
//! The device stores a [`cache_agent::LineState`] for each line that is not settled, in an entry
//! whose number is the CQID of the request. Settled lines need only I, S, E or M in the cache array.
//!
//! - Loads, stores, pushes, evictions: an event without a row must wait, and is retried when the
//!   line has changed. The rows obey table 3-28: a request that is not allowed while the device has
//!   a copy has no row.
//! - H2D Rsp and H2D Data must be accepted at once: the entry was allocated for them. Data are
//!   stored beside the entry until `Fill` or `CompleteLoadOnce`.
//! - H2D Req (snoops) must be answered regardless of D2H Req; only credits of D2H Rsp and D2H Data
//!   may delay the response. A snoop of a settled line needs no entry. If the step leaves
//!   [`cache_agent::LineState::owes`], the entry keeps the snoop's UQID until `SnoopData`.
//! - `SnoopData` goes to the UQID of the snoop; `WriteData`, `EvictData` and `BogusData` go to that
//!   of the pull that was the event. `EvictData` and `SnoopData` take the copy before a later `Drop`.
//! - A request that `Event::Push` caused is marked [`PUSH`](crate::message::CacheMeta::PUSH).
//! - `CacheFlushed` concerns no line. The device may send it when every line is I and settled, and
//!   sends no other request until its `GO`.
//!
//! # How a host drives the table of its home agent
//!
//! The host stores a [`cache_home::Filter`] for each line that devices or cores hold, and the rest
//! of [`cache_home::LineState`], with a buffer of one line, for the lines that are busy.
//!
//! - D2H Req: a request without a row waits for its line, in any order among requests; the channel
//!   may block meanwhile. Cores' misses ([`cache_home::Event::CoreRead`], `CoreOwn`) and
//!   write-backs wait likewise. A core's hit needs no event.
//! - D2H Rsp and D2H Data must be accepted at once. The UQID of a snoop or a pull names the line's
//!   entry, so data are `SnoopData` or `PulledData` by the phase of their line.
//! - `Snoop` sends one H2D Req to each device in the set, all with the entry's UQID. `SnoopCores` is
//!   executed by the host's own means; a write-back that a core has begun counts as part of what the cores
//!   hold. `CoresResponded` reports the result, with the line in the buffer unless nothing was found.
//! - A home may read memory before the snoops are answered, if it drops the data read when
//!   `ReadMemory` does not follow.
//! - `Respond(_, GO)` and `Respond(_, Data)` of one request are sent together and may arrive in either
//!   order. `WriteMemory` takes the buffer as it is, so that a later pull may reuse it.
//! - A home that wants clean victims in the last-level cache steps `CleanEvictWanted` in
//!   place of the request.
//! - `CacheFlushed`: the home steps [`cache_home::Event::CacheFlushed`] for every line that the
//!   device may hold; lines that are busy wait. Then the home sends `GO-I`.
//!
//! # What link and fabric guarantee for CXL.cache
//!
//! Nothing is ordered, not even within a channel, except for one rule: a message on H2D Req does not pass an earlier
//! message on H2D Rsp to the same line and device ("snoop pushes GO", CXL 3.1, sections 3.2.5.2 and 4.2.5). Outgoing
//! queues, ports, switches and buses apply the rule to all lines of a pair of endpoints. A fabric gives both classes of
//! a pair one path, whatever the routing ([`crate::Channel::is_ordered`]). H2D Data may pass both.
//!
//! D2H Req may wait for anything. H2D Req may wait for D2H Rsp and D2H Data, and H2D Rsp for H2D
//! Req, with which it shares a queue. The other classes wait for credits alone.

pub mod block;
pub mod cache_agent;
pub mod cache_home;
pub mod cache_message;
pub mod dcoh;
pub mod fields;
mod filter;
pub mod host_only;
pub mod line_arbitration;
pub mod list;
pub mod message;
pub mod requester;
pub mod table;
