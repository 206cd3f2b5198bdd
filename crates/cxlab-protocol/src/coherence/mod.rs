//! Coherence of HDM-DB memory and of host memory over CXL.cache: who may hold a line, and what each
//! agent does about it.
//!
//! Pure tables, `(state, event) -> (state, actions)`: no time, no input or output, no allocation.
//! [`requester`] is the side that caches lines of another device's memory; [`dcoh`] is the home of
//! the lines in that device; [`host_only`] is the memory that only its host keeps coherent
//! (HDM-H); [`block`] gathers the answers to a snoop of several lines. [`cache_agent`] is a device's
//! cache of host memory (CXL.cache), [`cache_home`] the host's home agent for it. Each table is an array of
//! named rows, found through an index that is computed when the crate is compiled: a step costs
//! two loads and the row's few actions.
//!
//! The rows, what is checked exhaustively and by which bounds, and where the specification leaves
//! room: `docs/explain/coherence.md`.
//!
//! # How a caching requester drives its table
//!
//! It keeps a [`requester::LineState`] for each line that is not settled, in an entry that is
//! allocated when a request or a snoop begins and freed when [`requester::LineState::is_settled`].
//! Settled lines need only I, S, E or M in the cache array.
//!
//! - Processor and replacement: `Load`, `Store`, `Evict` and so on. No row means *wait*: ask again
//!   when the line has changed. A line takes one request at a time, so a miss to a line that is
//!   being evicted waits.
//! - Responses (NDR, DRS) must be taken at once, whatever M2S Req and RwD do: the entry is what
//!   was allocated for them. They may cause a `MemRd` (an upgrade that lost its copy) or a `MemWr`
//!   (a deferred snoop of a modified line), so there must be a place for one M2S Req, one `MemWr`,
//!   one `BIConflict` and one BIRsp an entry, besides the credits of the link.
//! - BISnp must be taken whatever M2S Req does; it may wait for RwD and BIRsp (table 3-59). A snoop
//!   of a line that has no entry needs none unless the line is modified. A requester that has
//!   entries for requests only must keep some for snoops.
//! - `MemData` is kept beside the entry until `Fill`; `MemWr` takes the copy's data when the action
//!   comes, before a later `Drop`.
//! - `BIConflict` has the tag of the request that is under way; the fabric orders by it.
//!
//! # How a device drives the table of the DCOH
//!
//! It keeps a [`dcoh::Filter`] for each entry of the snoop filter, and the rest of
//! [`dcoh::LineState`] for the lines that are busy.
//!
//! - M2S Req: with no row the request waits for its line, in order of arrival; the channel may
//!   block meanwhile. A request that [allocates](dcoh::Operation::allocates) needs an entry first:
//!   if its line has none ([`dcoh::LineState::needs_entry`]) and none is free, the device chooses a
//!   victim among the lines that are not busy and steps it with `EvictEntry`; the request waits
//!   until an entry is free. It may read the medium meanwhile (figure 3-21), if it drops what it
//!   read when a `MemWr` of the line comes first.
//! - RwD (`MemWr`, `BIConflict`) and BIRsp must be taken at once, whatever waits on M2S Req or
//!   BISnp. Their answers need a place for one completion and one acknowledgement a requester and
//!   line.
//! - BISnp: one a line and requester is out. Snoops of neighbouring lines for the same requesters
//!   may be joined into one `BISnp*Blk`; a `BIRsp*Blk` is then given to each of its lines.
//! - The medium serves the reads and writes of a line in the order of the actions. `Cmp` of a write
//!   is an action beside `WriteMedium`: the device may send it when the order is settled.
//! - `Cmp*` and `MemData` of one request are sent together and may arrive in either order. The
//!   response channels must not let `BIConflictAck` pass an earlier `Cmp*` of the same line.
//!
//! # How a device drives the table of its host-memory cache
//!
//! It keeps a [`cache_agent::LineState`] for each line that is not settled, in an entry whose number
//! is the CQID of the request. Settled lines need only I, S, E or M in the cache array.
//!
//! - Loads, stores, pushes, evictions: no row means *wait*, and ask again when the line has changed.
//!   Table 3-28 is kept by the rows: what must not be asked for while a copy is there has no row.
//! - H2D Rsp and H2D Data must be taken at once: the entry is what was allocated for them. Data are
//!   kept beside the entry until `Fill` or `CompleteLoadOnce`.
//! - H2D Req (snoops) must be answered whatever D2H Req does; only credits of D2H Rsp and D2H Data may
//!   delay the answer. A snoop of a settled line needs no entry. If the step leaves
//!   [`cache_agent::LineState::owes`], the entry keeps the snoop's UQID until `SnoopData`.
//! - `SnoopData` goes to the UQID of the snoop; `WriteData`, `EvictData` and `BogusData` go to that of
//!   the pull that was the event. `EvictData` and `SnoopData` take the copy before a later `Drop`.
//! - A request that `Event::Push` caused is marked [`PUSH`](crate::message::CacheMeta::PUSH).
//! - `CacheFlushed` is about no line: it may be sent when every line is I and settled, and until its
//!   `GO` nothing else is asked for.
//!
//! # How a host drives the table of its home agent
//!
//! It keeps a [`cache_home::Filter`] for each line that devices or cores hold, and the rest of
//! [`cache_home::LineState`], with a buffer of one line, for the lines that are busy.
//!
//! - D2H Req: with no row the request waits for its line, in any order among requests; the channel
//!   may block meanwhile. Cores' misses ([`cache_home::Event::CoreRead`], `CoreOwn`) and write-backs
//!   wait likewise. A core's hit needs no event.
//! - D2H Rsp and D2H Data must be taken at once. The UQID of a snoop or a pull names the line's
//!   entry, so data are `SnoopData` or `PulledData` by the phase of their line.
//! - `Snoop` sends one H2D Req to each device in the set, all with the entry's UQID. `SnoopCores` is
//!   done in the host's own way; a write-back that a core has begun counts as what the cores hold.
//!   `CoresAnswered` says what was found, with the line in the buffer unless it was nothing.
//! - A home may read memory before the snoops are answered, if it drops what it read when `ReadMemory`
//!   does not follow.
//! - `Reply(_, GO)` and `Reply(_, Data)` of one request are sent together and may arrive in either
//!   order. `WriteMemory` takes the buffer as it is, so that a later pull may reuse it.
//! - Who wants clean victims in the last-level cache steps `CleanEvictWanted` in place of the request.
//! - `CacheFlushed`: step [`cache_home::Event::CacheFlushed`] for every line that the device may hold;
//!   lines that are busy wait. Then send `GO-I`.
//!
//! # What link and fabric guarantee for CXL.cache
//!
//! Nothing is ordered, also within a channel, but for one rule: a message on H2D Req does not pass an
//! earlier message on H2D Rsp to the same line and device ("snoop pushes GO", CXL 3.1, sections 3.2.5.2
//! and 4.2.5). Outgoing queues, ports, switches and buses keep it for all lines of a pair of endpoints,
//! and a fabric gives both classes of a pair one path, whatever the routing
//! ([`crate::Channel::is_ordered`]). H2D Data may pass both. D2H
//! Req may wait for anything; H2D Req may wait for D2H Rsp and D2H Data, and H2D Rsp for H2D Req, with
//! which it shares a queue; the others wait for credits alone.

pub mod block;
pub mod cache_agent;
pub mod cache_home;
pub mod cache_message;
pub mod dcoh;
pub mod fields;
mod filter;
pub mod hold;
pub mod host_only;
pub mod list;
pub mod message;
pub mod requester;
