"""Types of a run's report, `report.json`."""

from dataclasses import dataclass
from typing import Literal, NotRequired, TypeAlias, TypedDict

#: Values of a scenario: those TOML values that cxlab uses.
Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value]"
#: A table of a scenario.
Table: TypeAlias = dict[str, Value]
#: Most threads, or as many as there are processors.
Threads: TypeAlias = "int | Literal['auto']"


@dataclass(frozen=True)
class Note:
    """An assumption or limit of a scenario or a run that users should know."""

    #: Path in the scenario, such as ``hosts[0].issue``; empty for the whole system.
    path: str
    #: Line in the scenario's file, if it is known.
    line: int | None
    #: Text of the note.
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class Bandwidth(TypedDict):
    """Rates of 64-byte lines, GB/s. Requests that a private cache answered count too."""

    #: Reads and writes together.
    total: float
    #: Payload that reads bring to the host.
    read: float
    #: Payload that writes bring to the device.
    write: float


class Latency(TypedDict):
    """A latency distribution, ns. Percentiles are upper bounds (0.1 %, or 0.128 ns)."""

    #: Mean, exact.
    mean: float
    #: Shortest latency, exact.
    min: float
    #: Median, an upper bound.
    p50: float
    #: 90 % of requests are not slower; an upper bound.
    p90: float
    #: 99 % of requests are not slower; an upper bound.
    p99: float
    #: 99.9 % of requests are not slower; an upper bound.
    p999: float
    #: Longest latency, exact.
    max: float


class UnservedLatency(TypedDict):
    """Latency of the requests that completed without being served, by their outcome."""

    #: Latency of requests that a device denied.
    denied: NotRequired[Latency]
    #: Latency of requests that timed out.
    timed_out: NotRequired[Latency]
    #: Latency of requests that were not sent, because the host knew that no path leads to the
    #: device.
    cut_off: NotRequired[Latency]
    #: Latency of requests that were answered with poison.
    poisoned: NotRequired[Latency]


class HostCi95(TypedDict):
    """Half-widths of 95 % confidence intervals; None means a value without an interval."""

    #: Why a value here has no interval, unless the report's ``ci95`` says so of all.
    reason: NotRequired[str]
    #: Half-width for `bandwidth_gb_per_s.total`.
    total_gb_per_s: float | None
    #: Half-width for `bandwidth_gb_per_s.read`.
    read_gb_per_s: float | None
    #: Half-width for `bandwidth_gb_per_s.write`.
    write_gb_per_s: float | None
    #: Half-width for `latency_ns.mean`.
    latency_ns: float | None
    #: Half-width for `in_flight`.
    in_flight: float | None


class DeviceCi95(TypedDict):
    """Half-widths of 95 % confidence intervals; None means a value without an interval."""

    #: Why a value of this table has no interval, unless the report's `ci95` gives the reason for
    #: all.
    reason: NotRequired[str]
    #: Half-width for `bandwidth_gb_per_s.total`.
    total_gb_per_s: float | None
    #: Half-width for `bandwidth_gb_per_s.read`.
    read_gb_per_s: float | None
    #: Half-width for `bandwidth_gb_per_s.write`.
    write_gb_per_s: float | None


class LinkCi95(TypedDict):
    """Half-widths of 95 % confidence intervals; None means a value without an interval."""

    #: Why a value of this table has no interval, unless the report's `ci95` gives the reason for
    #: all.
    reason: NotRequired[str]
    #: Half-width for `utilization`.
    utilization: float | None
    #: Half-width for `efficiency`.
    efficiency: float | None
    #: Half-width for the rate of payload: `payload_bytes` over the window.
    payload_gb_per_s: float | None


class HopsCi95(TypedDict):
    """Half-widths of 95 % confidence intervals; None means a value without an interval."""

    #: Why a value of this table has no interval, unless the report's `ci95` gives the reason for
    #: all.
    reason: NotRequired[str]
    #: Half-width for `mean_ns`.
    mean_ns: float | None
    #: Half-width for `queue_ns`.
    queue_ns: float | None


class ReportCi95(HostCi95):
    """Half-widths of 95 % confidence intervals of the report's own rates and means."""

    #: Number of batches of equal simulated time from which they are computed.
    batches: int
    #: Length of a batch; in a sampled run, the mean length of a measured window.
    batch_ns: float
    #: Half-width for `read_latency_ns.mean`.
    read_latency_ns: float | None
    #: Half-width for each entry of `stages_ns`.
    stages_ns: dict[str, float | None]


class Denied(TypedDict):
    """Requests to memory that a host did not have."""

    #: Reads that were answered `MemData-NXM`, without data.
    reads: int
    #: Writes that the device dropped.
    writes: int


class FailedRequests(TypedDict):
    """Requests without a response."""

    #: Reads that timed out: the host has no data.
    timed_out_reads: int
    #: These writes may have taken effect, or may do so later.
    timed_out_writes: int
    #: Reads of devices that the host knew to be unreachable: not sent, no data.
    cut_off_reads: int
    #: Writes to devices that the host knew to be unreachable: not sent, dropped.
    cut_off_writes: int
    #: Reads that were answered with poison.
    poisoned_reads: int
    #: Atomic operations that were answered with poison.
    poisoned_writes: int


class FailuresReport(TypedDict):
    """Effects of failures on messages, from the beginning of the run."""

    #: Number of failures and repairs.
    changes: int
    #: Number of changes of the routing.
    routing_changes: int
    #: Changes of the routing that waited until virtual channels of earlier routing states had
    #: drained.
    delayed_routing_changes: int
    #: Longest delay of a change of the routing.
    longest_routing_delay_ns: float
    #: Messages lost: on links, in switches, in devices, and in front of links that did not work.
    lost_messages: int
    #: Lost messages whose virtual channel a later routing state took.
    discarded_messages: int
    #: Responses that arrived after the time-out of their request.
    late_answers: int
    #: Requests that timed out. In a run that ends by itself, lost messages and late responses
    #: together.
    timed_out: int


class CommandReport(TypedDict):
    """A command of the fabric manager. Times count from the start of the workloads."""

    #: Name of the command in the specification.
    command: str
    #: Opcode of the command, as the specification writes it.
    opcode: str
    #: Target of the command.
    of: str
    #: Time at which the command was issued.
    issued_ns: float
    #: Completion time. Absent if the run ended before.
    done_ns: NotRequired[float]
    #: Return code of the command; absent if the run ended before it.
    response: NotRequired[str]


class PoolReport(TypedDict):
    """A pooled region, up to the end of the run. Means are over time."""

    #: Name of the region.
    region: str
    #: Policy by which blocks were granted.
    policy: str
    #: Capacity of the pool.
    capacity_gib: float
    #: Number of demands of hosts.
    demands: int
    #: Number of demands that were refused.
    refused: int
    #: Mean capacity that hosts needed.
    needed_gib: float
    #: Mean capacity that hosts had.
    held_gib: float
    #: Memory beyond what hosts needed.
    idle_gib: float
    #: Mean capacity that hosts needed and did not have.
    unmet_gib: float
    #: Memory that no host had while some host lacked memory.
    stranded_gib: float
    #: Largest number of contiguous runs of free blocks.
    most_free_runs: int
    #: Largest number of contiguous runs of granted blocks.
    most_extents: int


class Requests(TypedDict):
    """Requests in the window."""

    #: Requests issued in the window.
    issued: int
    #: Requests completed in the window.
    completed: int
    #: Reads among the completed requests.
    reads: int
    #: Writes among the completed requests.
    writes: int
    #: Completed requests that a private cache answered.
    cache_hits: int
    #: Dirty lines written back, which are not counted as requests.
    writebacks: int
    #: Lines that prefetchers read in vain, if a host has `issue.overfetch`.
    overfetched: NotRequired[int]
    #: Requests that devices denied, if hosts gain or lose memory.
    denied: NotRequired[Denied]
    #: Requests that failed, if the scenario has failures.
    failed: NotRequired[FailedRequests]
    #: Requests in flight at the end of the window.
    in_flight_at_end: int
    #: Requests completed since the start of the run, warm-up included, per second of real time.
    per_wall_second: float


class ThrottleReport(TypedDict):
    """Actions of a host's throttle in the window."""

    #: Periods after which the host raised its rate.
    faster: int
    #: Periods after which the host lowered its rate.
    slower: int
    #: Share of the periods in which the host issued nearly all requests that its rate allowed.
    held: float
    #: Allowed rate at the end. Absent if there is no limit.
    rate_gb_per_s: NotRequired[float]


class DeviceLoad(TypedDict):
    """Number of a device's responses by the load that they reported (DevLoad)."""

    #: Responses that reported light load.
    light: int
    #: Responses that reported optimal load.
    optimal: int
    #: Responses that reported moderate overload.
    moderate: int
    #: Responses that reported severe overload.
    severe: int


class ByHops(TypedDict):
    """Requests that crossed this many links."""

    #: Links crossed by the response; *links crossed* in the table of a run.
    hops: int
    #: Number of requests.
    count: int
    #: Mean latency of these requests.
    mean_ns: float
    #: Mean wait for a place or a wire: the sum of the stages `host_queue`, `credits`,
    #: `switch_queue`, `device_queue` and `media_queue`. *In queues* in the table of a run.
    queue_ns: float
    #: Half-widths of the 95 % confidence intervals of these means.
    ci95: HopsCi95


class LittlesLaw(TypedDict):
    """Mean requests in flight, against rate times latency.

    They differ by the ages of the requests that cross the window's edges. With those the law holds
    exactly, which every run checks.
    """

    #: Mean number of requests in flight over the time of the window.
    in_flight: float
    #: Completions per nanosecond times mean latency, over all requests, served or not.
    rate_times_latency: float


class PhaseReport(TypedDict):
    """Statistics of a phase of a core's program."""

    #: Name of the phase.
    name: str
    #: Operations of the program that were completed.
    operations: int
    #: Loads, stores and flushes that were issued.
    steps: int
    #: Time from the first issue to the last completion.
    time_ns: float
    #: Operations over that time.
    operations_per_second: float
    #: Bytes that the program counts for its operations, over that time; 0 where it counts none.
    bandwidth_gb_per_s: float
    #: Mean latency of loads, from caches and memory.
    load_latency_ns: float


class CoreReport(TypedDict):
    """Statistics of a core's program."""

    #: Loads that the core issued.
    loads: int
    #: Stores that the core issued.
    stores: int
    #: Flushes that the core issued.
    flushes: int
    #: Flushes that found a modified line.
    flushes_dirty: int
    #: Loads and stores that hit in each private cache, nearest first.
    hits: list[int]
    #: Loads and stores whose line was outstanding already.
    merged: int
    #: Loads and stores that requested their line from memory.
    misses: int
    #: Lines that its prefetcher requested, if it has one.
    prefetches: NotRequired[int]
    #: Time in which the program waited for memory, however many requests it had outstanding.
    outstanding_ns: float
    #: Phases of the program, in order.
    phases: list[PhaseReport]
    #: Statistics of the host's own memory.
    memory: NotRequired[dict[str, float]]


class ThreadPhaseReport(TypedDict):
    """Statistics of a component's threads in a phase of their kernel."""

    #: Name of the phase.
    name: str
    #: Operations of the kernel that were completed, by its own count.
    operations: int
    #: Operations of the threads that were completed: loads, stores, atomics, DMA and so on.
    steps: int
    #: Time from the first begin to the last completion.
    time_ns: float
    #: Operations of the kernel over that time.
    operations_per_second: float
    #: Operations of threads on memory.
    on_memory: int
    #: Operations on memory whose first byte is in CXL memory.
    on_cxl: int
    #: Operations on memory that waited for the host's own memory; caches answered the others.
    from_own: int
    #: Operations on memory that waited for CXL memory.
    from_cxl: int
    #: Bytes that operations of threads moved, without those denied or failed.
    bytes: int
    #: Time with at least one memory operation in flight.
    busy_ns: float
    #: `bytes` over `busy_ns`.
    bandwidth_gb_per_s: float
    #: Latency of memory operations.
    latency_ns: Latency


class Accesses(TypedDict):
    """Accesses of enumeration."""

    #: Reads of configuration space.
    config_reads: int
    #: Writes to configuration space.
    config_writes: int
    #: Reads of registers in memory.
    memory_reads: int
    #: Writes to registers in memory.
    memory_writes: int


class EnumerationPhase(TypedDict):
    """A phase of a host's enumeration."""

    #: `scan`, `size`, `assign`, `discover` or `decode`.
    name: str
    #: Duration of the phase.
    duration_ns: float
    #: Accesses made in the phase.
    accesses: Accesses


class HostCoherence(TypedDict):
    """Statistics of a cache that holds lines of memory that devices keep coherent."""

    #: Accesses that found their line in a sufficient state.
    hits: int
    #: Accesses that sent a request.
    misses: int
    #: Accesses that waited for the request of another access to the same line.
    merged: int
    #: Stores to lines in state S.
    upgrades: int
    #: Clean lines that were evicted, of which the device was told.
    clean_evictions: int
    #: Modified lines that were evicted.
    dirty_evictions: int
    #: Lines that back-invalidate snoops invalidated.
    invalidated: int
    #: Modified lines that back-invalidate snoops wrote back.
    snoop_writebacks: int
    #: Snoops of a line with a request in flight.
    conflicts: int


class EnumerationReport(TypedDict):
    """A host's enumeration."""

    #: Duration from the beginning of the run.
    duration_ns: float
    #: Functions found: ports and devices.
    functions: int
    #: Devices among them.
    devices: int
    #: Accesses made in all phases.
    accesses: Accesses
    #: Phases, in order.
    phases: list[EnumerationPhase]


class HostReport(TypedDict):
    """Measurements of a host."""

    #: Name of the host.
    name: str
    #: Requests issued in the window.
    issued: int
    #: Requests completed in the window.
    completed: int
    #: Reads among the completed requests.
    reads: int
    #: Writes among the completed requests.
    writes: int
    #: Completed requests that the private cache answered.
    cache_hits: int
    #: Requests that devices denied, if hosts gain or lose memory.
    denied: NotRequired[Denied]
    #: Requests that failed, if the scenario has failures.
    failed: NotRequired[FailedRequests]
    #: Actions of its throttle, if it has one.
    throttle: NotRequired[ThrottleReport]
    #: Payload, without requests denied or failed.
    bandwidth_gb_per_s: Bandwidth
    #: Latency of served requests.
    latency_ns: Latency
    #: Mean time of its served requests in each stage.
    stages_ns: NotRequired[dict[str, float]]
    #: Latency of requests that were not served, if there are any.
    unserved_latency_ns: NotRequired[UnservedLatency]
    #: Latency of all requests, served or not, if some were not served.
    all_latency_ns: NotRequired[Latency]
    #: Mean number of requests in flight.
    in_flight: float
    #: Half-widths of the 95 % confidence intervals of these rates and means.
    ci95: HostCi95
    #: Its enumeration, if the run begins with one.
    enumeration: NotRequired[EnumerationReport]
    #: Statistics of its cache, if it holds lines of memory that devices keep coherent.
    coherence: NotRequired[HostCoherence]
    #: Statistics of its program, if it has a core.
    core: NotRequired[CoreReport]
    #: Statistics of its threads and its caches, if it has a processor.
    phases: NotRequired[list[ThreadPhaseReport]]
    #: [Statistics](statistics.md#processors) of caches, home agent, memory and operating system, if
    #: the host has a processor: name and value.
    processor: NotRequired[dict[str, float]]


class AcceleratorReport(TypedDict):
    """Measurements of an accelerator."""

    #: Name of the accelerator.
    name: str
    #: Requests issued in the window.
    issued: int
    #: Requests completed in the window.
    completed: int
    #: Reads among the completed requests.
    reads: int
    #: Writes among the completed requests.
    writes: int
    #: Completed requests that the cache of host memory answered.
    cache_hits: int
    #: Payload, without requests denied or failed.
    bandwidth_gb_per_s: Bandwidth
    #: Latency of served requests.
    latency_ns: Latency
    #: Mean number of requests in flight.
    in_flight: float
    #: Half-widths of the 95 % confidence intervals of these rates and means.
    ci95: HostCi95
    #: Phases of the kernel, if the accelerator runs threads.
    phases: list[ThreadPhaseReport]
    #: [Statistics](statistics.md#accelerators) of caches, engines and memory: name and value.
    accelerator: dict[str, float]


class Wait(TypedDict):
    """Wait of messages at a place in ns, over all messages that pass it."""

    #: Mean, exact. Messages that do not wait count as 0.
    mean: float
    #: An upper bound: the end of a bin that is at most 12.5 % wide.
    p99: float
    #: Longest wait, exact.
    max: float


class Bottleneck(TypedDict):
    """The component that limits a run, by measured utilization and waits."""

    #: A link's direction, a device, or `hosts`.
    name: str
    #: `wire`, `credits`, `medium`, `contexts`, `outstanding`, `throttle` or `pace`.
    limit: str
    #: Number of other places that are alike: wires that are as busy, or devices or links with the
    #: same limit and at least half of the mean wait.
    alike: int
    #: Utilization of the wire, if the bottleneck is a link.
    busy: NotRequired[float]
    #: Mean wait for the limiting resource, over all messages or requests that pass.
    wait_ns: float
    #: Share of all requests' latency that is spent in this wait, there and at the places that are
    #: alike.
    share: float
    #: The longest stage (a key of `stages_ns`), where its time says more than the wait: if hosts
    #: limit the rate, or if requests take longer in media than they wait here.
    longest_stage: NotRequired[str]
    #: The bottleneck in a sentence.
    text: str


class MediaErrorStats(TypedDict):
    """Poison of a device's media."""

    #: Reads that returned poison.
    poisoned_reads: int
    #: Writes after which the line is poison.
    poisoned_writes: int
    #: Lines that were poison and were overwritten with good data.
    repaired: int


class DeviceViral(TypedDict):
    """Effects of viral on a device."""

    #: Time at which the device went viral for the first host, from the start of the workloads.
    since_ns: float
    #: Writes that the device dropped, which `writes` counts too.
    dropped_writes: int


class DeviceCoherence(TypedDict):
    """Statistics of a DCOH and its snoop filter."""

    #: Requests on M2S Req.
    requests: int
    #: Requests that need an entry of the snoop filter and found that of their line.
    filter_hits: int
    #: Requests that need an entry of the snoop filter and found none.
    filter_misses: int
    #: Entries of the snoop filter that were evicted.
    evictions: int
    #: Snoop messages sent.
    snoops: int
    #: Snoop messages for several lines, such as BISnpCurBlk.
    block_snoops: int
    #: Messages for several lines that join snoops for requests, if there were any.
    joined_snoops: NotRequired[int]
    #: Copies in caches of hosts that snoops invalidated.
    invalidated: int
    #: Modified lines written back.
    writebacks: int
    #: Snoops of a line with a request in flight.
    conflicts: int
    #: Largest number of entries in use at once.
    peak_entries: int
    #: Time that requests waited for their line, summed over requests.
    line_wait_ns: float
    #: Time that requests waited for an entry of the snoop filter, summed over requests.
    entry_wait_ns: float
    #: Time that requests waited for snoops of their own line, summed over requests.
    snoop_wait_ns: float


class DeviceReport(TypedDict):
    """Measurements of a device."""

    #: Name of the device.
    name: str
    #: Lines that the medium read for hosts.
    reads: int
    #: Lines that the medium wrote for hosts.
    writes: int
    #: Lines that it read before their request, if a host sends speculative reads (`MemSpecRd`).
    speculative_reads: NotRequired[int]
    #: Requests that it denied in addition, if hosts gain or lose memory.
    denied: NotRequired[Denied]
    #: Load that it reported, if it has QoS telemetry.
    load: NotRequired[DeviceLoad]
    #: Poison that was read and written, if its lines may be poison.
    media_errors: NotRequired[MediaErrorStats]
    #: Effects of viral, if an event brings it to the device.
    viral: NotRequired[DeviceViral]
    #: Payload of the requests that the device serves.
    bandwidth_gb_per_s: Bandwidth
    #: Wait before the media accept a request.
    wait_ns: Wait
    #: The part of the mean that is for the media. The rest is for a context.
    medium_wait_ns: float
    #: Half-widths of the 95 % confidence intervals of these rates.
    ci95: DeviceCi95
    #: Statistics of its DCOH and snoop filter, if it keeps its memory coherent.
    coherence: NotRequired[DeviceCoherence]
    #: [Statistics](statistics.md#media) of its media: name and value.
    medium: NotRequired[dict[str, float]]


class LinkReport(TypedDict):
    """Traffic of one direction of a link."""

    #: Name of the link: its ends joined by `--`.
    name: str
    #: Direction: `transmitter` `->` `receiver`.
    direction: str
    #: Name of the component that sends.
    transmitter: str
    #: Name of the component that receives.
    receiver: str
    #: Name of the link class that it belongs to, if any.
    link_class: NotRequired[str]
    #: Fraction of the window in which the wire was busy.
    utilization: float
    #: Payload (64-byte lines) as a fraction of all bytes sent.
    efficiency: float
    #: Bytes sent, headers and empty slots included.
    bytes: int
    #: Bytes of 64-byte lines among the bytes sent.
    payload_bytes: int
    #: `payload_bytes` over the window, in GB/s.
    payload_gb_per_s: float
    #: Flits (or packets) sent.
    flits: int
    #: Flits sent again after an error.
    retries: int
    #: Rate of the wire.
    rate_gb_per_s: float
    #: Messages sent.
    messages: int
    #: Wait before the transmitter accepts a message.
    wait_ns: Wait
    #: The part of the mean that is for credits. The rest is for the wire.
    credit_wait_ns: float
    #: Half-widths of the 95 % confidence intervals of these values.
    ci95: LinkCi95


class TimeSeries(TypedDict):
    """Requests completed over the time of the measurement, in bins of equal width."""

    #: Width of a bin.
    bin_ns: float
    #: Reads completed in each bin.
    reads: list[int]
    #: Writes completed in each bin.
    writes: list[int]
    #: Of these, requests that devices denied. Absent if there are none.
    denied_reads: NotRequired[list[int]]
    #: Writes among the completed that a device denied. Absent if there are none.
    denied_writes: NotRequired[list[int]]
    #: Of these, requests without a response. Absent if there are none.
    failed_reads: NotRequired[list[int]]
    #: Writes among the completed without a response. Absent if there are none.
    failed_writes: NotRequired[list[int]]
    #: Mean latency of the served requests of each bin; 0 if there are none.
    latency_ns: list[float]


class NoteReport(TypedDict):
    """A note for users: its place in the scenario, and its text."""

    #: Path in the scenario, such as `hosts[0].issue`; empty for the whole system.
    path: str
    #: Text of the note.
    message: str


class SamplingReport(TypedDict):
    """What a sampled run simulated in detail and what it skipped, in requests."""

    #: Number of sampling units that were measured.
    units: int
    #: Requests since the warm-up: warmed ones and detailed ones.
    requests: int
    #: Requests applied to caches, buffers and mappings without time, those of the warm-up
    #: included.
    warmed: int
    #: Requests simulated in detail.
    detailed: int
    #: Requests that completed in measured windows.
    measured: int
    #: `measured` over `requests`.
    measured_fraction: float
    #: Estimate of the simulated time of all ``requests``.
    time_ns: NotRequired[float]
    #: Half-width of the 95 % confidence interval of `time_ns`.
    time_ci95_ns: float | None


class Operations(TypedDict):
    """Operations of several lines, each of which is a request too."""

    #: Operations completed in the window.
    completed: int
    #: Latency from the issue of the first line to the completion of the last.
    latency_ns: Latency


class Provenance(TypedDict):
    """The run that a report is of: its input, its version, and whether it came to its end."""

    #: Version of cxlab.
    version: str
    #: Version of the names in the report: 2.
    format: int
    #: The scenario's name.
    scenario: str
    #: Hash of everything that can change the result but the seed.
    plan_hash: str
    #: Seed of every random stream.
    seed: int
    #: ID of the run, which all of its files carry.
    run: NotRequired[str]
    #: Hash of the order of all events, hexadecimal.
    digest: str
    #: Whether the run was interrupted before its window ended.
    partial: bool
    #: The plug-in fault that interrupted the run, if any.
    fault: NotRequired[str]
    #: Assumptions and limits of the scenario and of this run that users should know.
    notes: NotRequired[list[NoteReport]]


class Extent(TypedDict):
    """How much a run simulated and measured, and in what time."""

    #: Start of the workloads, if hosts enumerate before.
    enumeration_ns: NotRequired[float]
    #: Simulated time when measurement began.
    warmup_ns: float
    #: Simulated time at which the transient had ended, if the run found its warm-up itself
    #: (`warmup = "auto"`). Measurement begins there or later, at `warmup_ns`.
    settled_ns: NotRequired[float]
    #: Simulated time at the end of the measurement.
    sim_time_ns: float
    #: Length of the measurement; of a sampled run, of all its measured windows together.
    window_ns: float
    #: How the run was sampled, if it was. All other values are of its measured windows.
    sampling: NotRequired[SamplingReport]
    #: Real time of the run, building included.
    wall_seconds: float
    #: Number of events handled, warm-up included.
    events: int
    #: Events per real second.
    events_per_second: float


class Report(Provenance, Extent):
    """Report of a run."""

    #: Number of requests in the window, by outcome.
    requests: Requests
    #: Rates of 64-byte lines in the window, in GB/s (10^9 bytes per second), without requests that
    #: were denied or failed.
    bandwidth_gb_per_s: Bandwidth
    #: Latency of served requests. Stages, histogram and `by_hops` are of served requests too.
    latency_ns: Latency
    #: Latency of served reads.
    read_latency_ns: Latency
    #: Latency of requests that were not served, if there are any.
    unserved_latency_ns: NotRequired[UnservedLatency]
    #: Latency of all requests, served or not, if some were not served.
    all_latency_ns: NotRequired[Latency]
    #: Operations of several lines, if the workloads have any.
    operations: NotRequired[Operations]
    #: Mean time of each latency stage of served requests; the stages sum to the mean latency.
    stages_ns: dict[str, float]
    #: Latency of served requests by number of links crossed.
    by_hops: list[ByHops]
    #: Effects of failures on messages, if the scenario has failures.
    failures: NotRequired[FailuresReport]
    #: Commands of the fabric manager up to the end of the run.
    commands: NotRequired[list[CommandReport]]
    #: Pooled regions.
    pools: NotRequired[list[PoolReport]]
    #: Little's law: mean number of requests in flight against rate times latency.
    littles_law: LittlesLaw
    #: Half-widths of the 95 % confidence intervals of these rates and means.
    ci95: ReportCi95
    #: Hosts, in the order of the scenario.
    hosts: list[HostReport]
    #: Accelerators, in the order of the scenario.
    accelerators: NotRequired[list[AcceleratorReport]]
    #: Devices, in the order of the scenario.
    devices: list[DeviceReport]
    #: Links, by direction.
    links: list[LinkReport]
    #: The component that limits the rate. Absent if no request completed.
    bottleneck: NotRequired[Bottleneck]
    #: Latency of served requests: upper bound of each bin in nanoseconds, and number of requests.
    latency_histogram: list[tuple[float, int]]
    #: Requests completed over the window.
    time_series: TimeSeries


class SeedRun(TypedDict):
    """The run of one seed."""

    #: Seed of the run.
    seed: int
    #: Digest of the run's report.
    digest: str
    #: Whether the run was interrupted. Its values do not count then.
    partial: bool
    #: Simulated time of the whole run.
    sim_time_ns: float
    #: Length of the measured window.
    window_ns: float
    #: Requests completed in the window.
    completed: int
    #: Notes of the run.
    notes: NotRequired[list[NoteReport]]


class Quantity(TypedDict):
    """A number of the report over several seeds, with half of its 95 % confidence interval."""

    #: Path in `report.json`, such as `hosts[0].latency_ns.p99`.
    name: str
    #: Value in each run, by seed.
    values: list[float]
    #: Mean over the runs; 0 without a whole run.
    mean: float
    #: Half-width of the 95 % confidence interval of the mean (Student's t); `null` below two runs.
    ci95: float | None
    #: Smallest value.
    min: float
    #: Largest value.
    max: float


class SeedsReport(TypedDict):
    """The runs of several seeds: `seeds.json`."""

    #: Version of cxlab.
    version: str
    #: The scenario's name.
    scenario: str
    #: Hash of everything that can change the results but the seeds.
    plan_hash: str
    #: ID of all these runs together, which all files carry.
    run: str
    #: Number of seeds asked for.
    asked: int
    #: Whether the command was interrupted: runs of some seeds are missing.
    partial: bool
    #: Runs, in order of their seeds.
    runs: list[SeedRun]
    #: Numbers of the reports, with their means and intervals over the seeds.
    quantities: list[Quantity]


def notes_of(report: Report) -> list[Note]:
    """The notes of a report, which does not know their lines."""
    return [Note(note["path"], None, note["message"]) for note in report.get("notes", [])]
