//! The properties that the explorations check.

/// A property of a network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Property {
    /// A line has one holder that may write, or any number that may read.
    SingleWriter,
    /// A load returns the last store; a store changes the current value.
    LoadValue,
    /// A state with a message or an operation in flight has a next step that is not a new operation.
    NoDeadlock,
    /// From every state, all messages and operations in flight can end without new operations.
    Progress,
    /// Each request gets exactly its responses.
    ExactResponses,
    /// The snoop filter of a device names every holder of a copy.
    InclusiveFilter,
    /// The directory of a host names every holder of a copy.
    InclusiveDirectory,
    /// The current value is in memory, in a modified copy, or in flight to one of them.
    DirtyDataKept,
    /// A line with nothing in flight accepts every operation.
    AcceptsOperations,
    /// A cache has data for exactly the states that have a copy.
    StateMatchesData,
    /// When a flush completes in the home, no cache holds the line and memory is current.
    FlushReachesAll,
    /// No queue exceeds its bound.
    QueueBounds,
    /// Messages that may not wait are accepted when they arrive.
    ChannelsSink,
    /// The filter has no more lines than entries.
    FilterCapacity,
    /// After a write or a clean eviction, the filter says what the MetaValue of the message said.
    MetadataObeyed,
    /// A modified copy differs from memory. In CXL.cache, only modified data are written to memory.
    ModifiedMeansDirty,
    /// A read for sharing is granted Shared; one that may own is granted Shared only if another
    /// holder has the line.
    GrantAsAsked,
    /// No message on H2D Rsp is sent while a snoop of the line is outstanding at the device (CXL
    /// 3.1, section 3.2.5.2).
    NoGoBesideSnoop,
    /// No snoop is sent while data of the line are pulled from the device (section 3.2.5.3).
    NoSnoopBesidePull,
    /// Data are written where their request says: into the last-level cache or into memory.
    WriteLands,
    /// A device sends only requests that its operation needs.
    RequestAsAsked,
    /// Operations fail where there is no memory, and nowhere else.
    FailsAsMissing,
    /// A load leaves other holders a copy; a load that does not cache leaves their copies unchanged.
    SnoopAsAsked,
    /// The directory does not name a device that evicted or flushed the line, or held it
    /// before a write-through.
    DirectoryObeys,
    /// A snoop waits for at most one operation of the device, and a request for at most one
    /// of each other device.
    BoundedWaiting,
}

/// `Err` with the property if it does not hold.
pub fn check(holds: bool, property: Property) -> Result<(), Property> {
    if holds { Ok(()) } else { Err(property) }
}

/// Whether a queue is within its bound.
pub fn bound(holds: bool) -> Result<(), Property> {
    check(holds, Property::QueueBounds)
}
