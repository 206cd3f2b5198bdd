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
    message: str


class Bandwidth(TypedDict):
    """Rates of 64-byte lines, GB/s."""

    total: float
    read: float
    write: float


class Latency(TypedDict):
    """A latency distribution, ns. Percentiles are upper bounds (0.1 %, or 0.128 ns)."""

    mean: float
    min: float
    p50: float
    p90: float
    p99: float
    p999: float
    max: float


class UnservedLatency(TypedDict):
    """Latency of the requests that completed without being served, by their outcome."""

    denied: NotRequired[Latency]
    timed_out: NotRequired[Latency]
    cut_off: NotRequired[Latency]


class HostCi95(TypedDict):
    """Half-widths of 95 % confidence intervals; None means a value without an interval."""

    #: Why a value here has no interval, unless the report's ``ci95`` says so of all.
    reason: NotRequired[str]
    total_gb_per_s: float | None
    read_gb_per_s: float | None
    write_gb_per_s: float | None
    latency_ns: float | None
    in_flight: float | None


class DeviceCi95(TypedDict):
    """Half-widths of 95 % confidence intervals; None means a value without an interval."""

    reason: NotRequired[str]
    total_gb_per_s: float | None
    read_gb_per_s: float | None
    write_gb_per_s: float | None


class LinkCi95(TypedDict):
    """Half-widths of 95 % confidence intervals; None means a value without an interval."""

    reason: NotRequired[str]
    utilization: float | None
    efficiency: float | None
    #: Rate of the lines' bytes over the window.
    payload_gb_per_s: float | None


class HopsCi95(TypedDict):
    """Half-widths of 95 % confidence intervals; None means a value without an interval."""

    reason: NotRequired[str]
    mean_ns: float | None
    queue_ns: float | None


class Ci95(HostCi95):
    """Half-widths of 95 % confidence intervals of the report's own rates and means."""

    #: Number of batches of equal simulated time from which they are computed.
    batches: int
    batch_ns: float
    read_latency_ns: float | None
    stages_ns: dict[str, float | None]


class Denied(TypedDict):
    """Requests to memory that a host did not have."""

    reads: int
    writes: int


class FailedRequests(TypedDict):
    """Requests without a response."""

    timed_out_reads: int
    #: These writes may have taken effect, or may do so later.
    timed_out_writes: int
    cut_off_reads: int
    cut_off_writes: int


class FailuresReport(TypedDict):
    """Effects of failures on messages, from the beginning of the run."""

    #: Number of failures and repairs.
    changes: int
    #: Number of routing changes, and of those that waited for virtual channels to drain.
    routing_changes: int
    delayed_routing_changes: int
    longest_routing_delay_ns: float
    lost_messages: int
    #: Lost messages whose virtual channel a later routing state took.
    discarded_messages: int
    late_answers: int
    timed_out: int


class CommandReport(TypedDict):
    """A command of the fabric manager. Times count from the start of the workloads."""

    #: Name of the command in the specification.
    command: str
    opcode: str
    #: Target of the command.
    of: str
    issued_ns: float
    #: Completion time. Absent if the run ended before.
    done_ns: NotRequired[float]
    response: NotRequired[str]


class PoolReport(TypedDict):
    """A pooled region, up to the end of the run. Means are over time."""

    region: str
    policy: str
    capacity_gib: float
    demands: int
    refused: int
    needed_gib: float
    held_gib: float
    #: Memory beyond what hosts needed.
    idle_gib: float
    unmet_gib: float
    #: Memory that no host had while some host lacked memory.
    stranded_gib: float
    most_free_runs: int
    most_extents: int


class Requests(TypedDict):
    """Requests in the window."""

    issued: int
    completed: int
    reads: int
    writes: int
    cache_hits: int
    writebacks: int
    #: Requests that devices denied, if hosts gain or lose memory.
    denied: NotRequired[Denied]
    #: Requests that failed, if the scenario has failures.
    failed: NotRequired[FailedRequests]
    in_flight: int
    per_wall_second: float


class ThrottleReport(TypedDict):
    """Actions of a host's throttle in the window."""

    faster: int
    slower: int
    #: Share of the periods in which the host issued nearly all requests that its rate allowed.
    held: float
    #: Allowed rate at the end. Absent if there is no limit.
    rate_gb_per_s: NotRequired[float]


class DeviceLoad(TypedDict):
    """Number of a device's responses by the load that they reported (DevLoad)."""

    light: int
    optimal: int
    moderate: int
    severe: int


class ByHops(TypedDict):
    """Requests that crossed this many links."""

    hops: int
    count: int
    mean_ns: float
    queue_ns: float
    ci95: HopsCi95


class LittlesLaw(TypedDict):
    """Mean requests in flight, against rate times latency."""

    in_flight: float
    rate_times_latency: float


class PhaseReport(TypedDict):
    """Statistics of a phase of a core's program."""

    name: str
    operations: int
    steps: int
    time_ns: float
    operations_per_second: float
    bandwidth_gb_per_s: float
    load_latency_ns: float


class CoreReport(TypedDict):
    """Statistics of a core's program."""

    loads: int
    stores: int
    flushes: int
    flushes_dirty: int
    hits: list[int]
    merged: int
    misses: int
    #: Lines that its prefetcher requested, if it has one.
    prefetches: NotRequired[int]
    phases: list[PhaseReport]
    #: Statistics of the host's own memory.
    memory: NotRequired[dict[str, float]]


class ThreadPhaseReport(TypedDict):
    """Statistics of a component's threads in a phase of their kernel."""

    name: str
    operations: int
    steps: int
    time_ns: float
    operations_per_second: float
    on_memory: int
    on_cxl: int
    from_own: int
    from_cxl: int
    bytes: int
    #: Time with at least one memory operation in flight.
    busy_ns: float
    bandwidth_gb_per_s: float
    #: Latency of memory operations.
    latency_ns: Latency


class Accesses(TypedDict):
    """Accesses of enumeration."""

    config_reads: int
    config_writes: int
    memory_reads: int
    memory_writes: int


class EnumerationPhase(TypedDict):
    """A phase of a host's enumeration."""

    name: str
    duration_ns: float
    accesses: Accesses


class EnumerationReport(TypedDict):
    """A host's enumeration."""

    duration_ns: float
    functions: int
    devices: int
    accesses: Accesses
    phases: list[EnumerationPhase]


class HostReport(TypedDict):
    """Measurements of a host."""

    name: str
    issued: int
    completed: int
    reads: int
    writes: int
    cache_hits: int
    #: Requests that devices denied, if hosts gain or lose memory.
    denied: NotRequired[Denied]
    #: Requests that failed, if the scenario has failures.
    failed: NotRequired[FailedRequests]
    #: Actions of its throttle, if it has one.
    throttle: NotRequired[ThrottleReport]
    bandwidth_gb_per_s: Bandwidth
    #: Latency of served requests.
    latency_ns: Latency
    #: Latency of requests that were not served, if there are any.
    unserved_latency_ns: NotRequired[UnservedLatency]
    #: Latency of all requests, served or not, if some were not served.
    all_latency_ns: NotRequired[Latency]
    in_flight: float
    ci95: HostCi95
    #: Its enumeration, if the run begins with one.
    enumeration: NotRequired[EnumerationReport]
    #: Statistics of its program, if it has a core.
    core: NotRequired[CoreReport]
    #: Statistics of its threads and its caches, if it has a processor.
    phases: NotRequired[list[ThreadPhaseReport]]
    processor: NotRequired[dict[str, float]]


class AcceleratorReport(TypedDict):
    """Measurements of an accelerator."""

    name: str
    issued: int
    completed: int
    reads: int
    writes: int
    cache_hits: int
    bandwidth_gb_per_s: Bandwidth
    latency_ns: Latency
    in_flight: float
    ci95: HostCi95
    phases: list[ThreadPhaseReport]
    accelerator: dict[str, float]


class Wait(TypedDict):
    """Wait of messages at a place in ns, over all messages that pass it."""

    mean: float
    #: An upper bound: the end of a bin that is at most 12.5 % wide.
    p99: float
    max: float


class Bottleneck(TypedDict):
    """The component that limits a run, by measured utilization and waits."""

    #: A link's direction, a device, or `hosts`.
    name: str
    #: `wire`, `credits`, `medium`, `contexts`, `outstanding` or `pace`.
    limit: str
    #: Number of other wires that are as busy.
    alike: int
    #: Utilization of the wire, if the bottleneck is a link.
    busy: NotRequired[float]
    wait_ns: float
    #: Share of all requests' latency that is spent in this wait.
    share: float
    #: The bottleneck in a sentence.
    text: str


class DeviceReport(TypedDict):
    """Measurements of a device."""

    name: str
    reads: int
    writes: int
    #: Requests that it denied in addition, if hosts gain or lose memory.
    denied: NotRequired[Denied]
    #: Load that it reported, if it has QoS telemetry.
    load: NotRequired[DeviceLoad]
    bandwidth_gb_per_s: Bandwidth
    #: Wait before the media accept a request.
    wait_ns: Wait
    #: The part of the mean that is for the media. The rest is for a context.
    medium_wait_ns: float
    ci95: DeviceCi95
    #: Statistics of its DCOH and snoop filter, if it keeps its memory coherent.
    coherence: NotRequired[dict[str, float]]
    #: Statistics of its media.
    medium: NotRequired[dict[str, float]]


class LinkReport(TypedDict):
    """Traffic of one direction of a link."""

    name: str
    direction: str
    #: Name of the link class that it belongs to, if any.
    link_class: NotRequired[str]
    utilization: float
    efficiency: float
    bytes: int
    payload_bytes: int
    flits: int
    retries: int
    rate_gb_per_s: float
    messages: int
    #: Wait before the transmitter accepts a message.
    wait_ns: Wait
    #: The part of the mean that is for credits. The rest is for the wire.
    credit_wait_ns: float
    ci95: LinkCi95


class TimeSeries(TypedDict):
    """Requests completed over the time of the measurement, in bins of equal width."""

    bin_ns: float
    reads: list[int]
    writes: list[int]
    #: Of these, requests that devices denied. Absent if there are none.
    denied_reads: NotRequired[list[int]]
    denied_writes: NotRequired[list[int]]
    #: Of these, requests without a response. Absent if there are none.
    failed_reads: NotRequired[list[int]]
    failed_writes: NotRequired[list[int]]
    #: Latency of served requests.
    latency_ns: list[float]


class NoteReport(TypedDict):
    """A note for users: its place in the scenario, and its text."""

    path: str
    message: str


class SamplingReport(TypedDict):
    """What a sampled run simulated in detail and what it skipped, in requests."""

    units: int
    requests: int
    warmed: int
    detailed: int
    measured: int
    measured_fraction: float
    #: Estimate of the simulated time of all ``requests``.
    time_ns: NotRequired[float]
    time_ci95_ns: float | None


class Report(TypedDict):
    """Report of a run. The Rust documentation of `cxlab_system::report` describes every field."""

    version: str
    #: Version of the names in the report: 2.
    format: int
    scenario: str
    plan_hash: str
    seed: int
    #: ID of the run, which all of its files carry.
    run: NotRequired[str]
    digest: str
    partial: bool
    #: The plug-in fault that interrupted the run, if any.
    fault: NotRequired[str]
    notes: NotRequired[list[NoteReport]]
    #: Start of the workloads, if hosts enumerate before.
    enumeration_ns: NotRequired[float]
    warmup_ns: float
    #: Latest end of the transient, if the run found its warm-up itself.
    settled_ns: NotRequired[float]
    sim_time_ns: float
    window_ns: float
    #: How the run was sampled, if it was. All other values are of its measured windows.
    sampling: NotRequired[SamplingReport]
    wall_seconds: float
    events: int
    events_per_second: float
    requests: Requests
    bandwidth_gb_per_s: Bandwidth
    #: Latency of served requests. Stages, histogram and `by_hops` are of served requests too.
    latency_ns: Latency
    read_latency_ns: Latency
    #: Latency of requests that were not served, if there are any.
    unserved_latency_ns: NotRequired[UnservedLatency]
    #: Latency of all requests, served or not, if some were not served.
    all_latency_ns: NotRequired[Latency]
    stages_ns: dict[str, float]
    by_hops: list[ByHops]
    #: Effects of failures on messages, if the scenario has failures.
    failures: NotRequired[FailuresReport]
    #: Commands of the fabric manager up to the end of the run.
    commands: NotRequired[list[CommandReport]]
    pools: NotRequired[list[PoolReport]]
    littles_law: LittlesLaw
    ci95: Ci95
    hosts: list[HostReport]
    accelerators: NotRequired[list[AcceleratorReport]]
    devices: list[DeviceReport]
    links: list[LinkReport]
    #: The component that limits the rate. Absent if no request completed.
    bottleneck: NotRequired[Bottleneck]
    latency_histogram: list[tuple[float, int]]
    time_series: TimeSeries


class SeedRun(TypedDict):
    """The run of one seed."""

    seed: int
    digest: str
    partial: bool
    sim_time_ns: float
    window_ns: float
    completed: int
    notes: NotRequired[list[NoteReport]]


class Quantity(TypedDict):
    """A number of the report over several seeds, with half of its 95 % confidence interval."""

    name: str
    values: list[float]
    mean: float
    ci95: float | None
    min: float
    max: float


class SeedsReport(TypedDict):
    """The runs of several seeds: `seeds.json`."""

    version: str
    scenario: str
    plan_hash: str
    #: ID of all these runs together, which all files carry.
    run: str
    asked: int
    partial: bool
    runs: list[SeedRun]
    quantities: list[Quantity]
