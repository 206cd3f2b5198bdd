"""The types of what a run reports: those of `report.json`."""

from dataclasses import dataclass
from typing import Literal, NotRequired, TypeAlias, TypedDict

#: What a scenario can hold: the values of TOML that cxlab knows.
Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value]"
#: A table of a scenario.
Table: TypeAlias = dict[str, Value]
#: Threads at most, or as many as there are processors.
Threads: TypeAlias = "int | Literal['auto']"


@dataclass(frozen=True)
class Note:
    """What a careful user would want to know of a scenario or a run."""

    #: Path in the scenario, such as ``hosts[0].issue``; empty for the whole system.
    path: str
    #: Line of the scenario's file where that is known.
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
    """Latency of the requests that completed without being served, by how they ended."""

    denied: NotRequired[Latency]
    timed_out: NotRequired[Latency]
    cut_off: NotRequired[Latency]


class HostCi95(TypedDict):
    """Half-widths of 95 % confidence intervals; None is a value without an interval."""

    #: Why a value here has no interval, where the report's ``ci95`` does not say so of all.
    reason: NotRequired[str]
    total_gbps: float | None
    read_gbps: float | None
    write_gbps: float | None
    latency_ns: float | None
    in_flight: float | None


class DeviceCi95(TypedDict):
    """Half-widths of 95 % confidence intervals; None is a value without an interval."""

    reason: NotRequired[str]
    total_gbps: float | None
    read_gbps: float | None
    write_gbps: float | None


class LinkCi95(TypedDict):
    """Half-widths of 95 % confidence intervals; None is a value without an interval."""

    reason: NotRequired[str]
    utilization: float | None
    efficiency: float | None
    #: Of the bytes of lines over the window.
    payload_gbps: float | None


class HopsCi95(TypedDict):
    """Half-widths of 95 % confidence intervals; None is a value without an interval."""

    reason: NotRequired[str]
    mean_ns: float | None
    queue_ns: float | None


class Ci95(HostCi95):
    """Half-widths of 95 % confidence intervals of the report's own rates and means."""

    #: Batches of equal simulated time that they are computed from.
    batches: int
    batch_ns: float
    read_latency_ns: float | None
    stages_ns: dict[str, float | None]


class Denied(TypedDict):
    """Requests to memory that a host did not have."""

    reads: int
    writes: int


class FailedRequests(TypedDict):
    """Requests that nothing answered."""

    timed_out_reads: int
    #: They may have been made, or may be yet.
    timed_out_writes: int
    cut_off_reads: int
    cut_off_writes: int


class FailuresReport(TypedDict):
    """What failures have done to messages, from the beginning of the run."""

    #: Failures and repairs.
    changes: int
    #: Changes of the routing, and those among them that waited for virtual channels to drain.
    routing_changes: int
    delayed_routing_changes: int
    longest_routing_delay_ns: float
    lost_messages: int
    #: Those among them whose virtual channel a later routing state took.
    discarded_messages: int
    late_answers: int
    timed_out: int


class CommandReport(TypedDict):
    """A command of the fabric manager. Times count from when the workloads begin."""

    #: Its name in the specification.
    command: str
    opcode: str
    #: What it is about.
    of: str
    issued_ns: float
    #: When what it asked for was done; absent where the run ended before.
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
    #: Beyond what hosts needed.
    idle_gib: float
    unmet_gib: float
    #: What nobody had while some host did not have what it needed.
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
    #: Those that devices denied, where what hosts have of them changes.
    denied: NotRequired[Denied]
    #: Those that failed, where something fails.
    failed: NotRequired[FailedRequests]
    in_flight: int
    per_wall_second: float


class ThrottleReport(TypedDict):
    """What a host's throttle did in the window."""

    faster: int
    slower: int
    #: The part of the periods in which it issued nearly all that its rate allowed.
    held: float
    #: The rate allowed at the end; none where there is no limit.
    rate_gbps: NotRequired[float]


class DeviceLoad(TypedDict):
    """Answers of a device by the load that they told (DevLoad)."""

    light: int
    optimal: int
    moderate: int
    severe: int


class ByHops(TypedDict):
    """Requests that crossed so many links."""

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
    """What a phase of a core's program did."""

    name: str
    operations: int
    steps: int
    time_ns: float
    operations_per_second: float
    bandwidth_gbps: float
    load_latency_ns: float


class CoreReport(TypedDict):
    """What a core's program did."""

    loads: int
    stores: int
    flushes: int
    flushes_dirty: int
    hits: list[int]
    merged: int
    misses: int
    #: Lines that its prefetcher asked memory for, where it has one.
    prefetches: NotRequired[int]
    phases: list[PhaseReport]
    #: What the medium of the host's own memory kept about itself.
    memory: NotRequired[dict[str, float]]


class ThreadPhaseReport(TypedDict):
    """What the threads of a component did in a phase of their kernel."""

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
    #: Time with an operation on memory under way.
    busy_ns: float
    bandwidth_gbps: float
    #: Of such operations.
    latency_ns: Latency


class Accesses(TypedDict):
    """Accesses of enumeration."""

    config_reads: int
    config_writes: int
    memory_reads: int
    memory_writes: int


class EnumerationPhase(TypedDict):
    """What a phase of a host's enumeration was."""

    name: str
    duration_ns: float
    accesses: Accesses


class EnumerationReport(TypedDict):
    """What a host's enumeration was."""

    duration_ns: float
    functions: int
    devices: int
    accesses: Accesses
    phases: list[EnumerationPhase]


class HostReport(TypedDict):
    """What a host measured."""

    name: str
    issued: int
    completed: int
    reads: int
    writes: int
    cache_hits: int
    #: Those that devices denied, where what hosts have of them changes.
    denied: NotRequired[Denied]
    #: Those that failed, where something fails.
    failed: NotRequired[FailedRequests]
    #: What its throttle did, where it has one.
    throttle: NotRequired[ThrottleReport]
    bandwidth_gbps: Bandwidth
    #: Of served requests.
    latency_ns: Latency
    #: Of those that were not served, where there are any.
    unserved_latency_ns: NotRequired[UnservedLatency]
    #: Of all requests, served or not, where some were not served.
    all_latency_ns: NotRequired[Latency]
    in_flight: float
    ci95: HostCi95
    #: What its enumeration was, where the run begins with one.
    enumeration: NotRequired[EnumerationReport]
    #: What its program did, where it has a core.
    core: NotRequired[CoreReport]
    #: What its threads did, and what its caches counted, where it has a processor.
    phases: NotRequired[list[ThreadPhaseReport]]
    processor: NotRequired[dict[str, float]]


class AcceleratorReport(TypedDict):
    """What an accelerator measured."""

    name: str
    issued: int
    completed: int
    reads: int
    writes: int
    cache_hits: int
    bandwidth_gbps: Bandwidth
    latency_ns: Latency
    in_flight: float
    ci95: HostCi95
    phases: list[ThreadPhaseReport]
    accelerator: dict[str, float]


class Wait(TypedDict):
    """How long messages wait at a place, ns, over all that pass it."""

    mean: float
    #: An upper bound: the end of a bin that is at most 12.5 % wide.
    p99: float
    max: float


class Bottleneck(TypedDict):
    """What limits a run, by measured utilization and waits."""

    #: A link's direction, a device, or `hosts`.
    name: str
    #: `wire`, `credits`, `medium`, `contexts`, `outstanding` or `pace`.
    limit: str
    #: Other wires that are as busy.
    alike: int
    #: How busy the wire was, where it is a link.
    busy: NotRequired[float]
    wait_ns: float
    #: The part of all requests' latency that is spent in that wait.
    share: float
    #: All of that in a sentence.
    text: str


class DeviceReport(TypedDict):
    """What a device measured."""

    name: str
    reads: int
    writes: int
    #: What it denied beside those, where what hosts have of it changes.
    denied: NotRequired[Denied]
    #: What it told of its load, where it does.
    load: NotRequired[DeviceLoad]
    bandwidth_gbps: Bandwidth
    #: Before the medium takes a request.
    wait_ns: Wait
    #: The part of the mean that is for the medium; the rest is for a context.
    medium_wait_ns: float
    ci95: DeviceCi95
    #: What its DCOH and snoop filter did, where it keeps its memory coherent.
    coherence: NotRequired[dict[str, float]]
    #: What its medium kept about itself.
    medium: NotRequired[dict[str, float]]


class LinkReport(TypedDict):
    """What a direction of a link carried."""

    name: str
    direction: str
    #: The named link that it is one of, where it is one.
    link_class: NotRequired[str]
    utilization: float
    efficiency: float
    bytes: int
    payload_bytes: int
    flits: int
    retries: int
    rate_gbps: float
    messages: int
    #: Before the transmitter takes a message.
    wait_ns: Wait
    #: The part of the mean that is for credits; the rest is for the wire.
    credit_wait_ns: float
    ci95: LinkCi95


class TimeSeries(TypedDict):
    """Requests completed over the time of the measurement, in bins of equal width."""

    bin_ns: float
    reads: list[int]
    writes: list[int]
    #: Those of them that devices denied; none where there were none.
    denied_reads: NotRequired[list[int]]
    denied_writes: NotRequired[list[int]]
    #: Those of them that nothing answered; none where there were none.
    failed_reads: NotRequired[list[int]]
    failed_writes: NotRequired[list[int]]
    #: Of those that were served.
    latency_ns: list[float]


class NoteReport(TypedDict):
    """What a careful user would want to know: where in the scenario, and what."""

    path: str
    message: str


class SamplingReport(TypedDict):
    """What a sampled run simulated in detail, and what it passed over; in requests."""

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
    """What a run measured; the Rust documentation of `cxlab_system::report` has every field."""

    version: str
    scenario: str
    plan_hash: str
    seed: int
    #: The run's ID, which all files of it carry.
    run: NotRequired[str]
    digest: str
    partial: bool
    #: What interrupted the run, where that was a plug-in that cannot go on.
    fault: NotRequired[str]
    notes: NotRequired[list[NoteReport]]
    #: When the workloads began, where hosts enumerate before that.
    enumeration_ns: NotRequired[float]
    warmup_ns: float
    #: When the transient had ended at the latest, where the run found its warm-up itself.
    settled_ns: NotRequired[float]
    sim_time_ns: float
    window_ns: float
    #: How the run was sampled, where it was: all other values are of its measured windows.
    sampling: NotRequired[SamplingReport]
    wall_seconds: float
    events: int
    events_per_second: float
    requests: Requests
    bandwidth_gbps: Bandwidth
    #: Of served requests, as are stages, histogram and `by_hops`.
    latency_ns: Latency
    read_latency_ns: Latency
    #: Of those that were not served, where there are any.
    unserved_latency_ns: NotRequired[UnservedLatency]
    #: Of all requests, served or not, where some were not served.
    all_latency_ns: NotRequired[Latency]
    stages_ns: dict[str, float]
    by_hops: list[ByHops]
    #: What failures have done to messages, where something fails.
    failures: NotRequired[FailuresReport]
    #: The commands of the fabric manager up to the end of the run.
    commands: NotRequired[list[CommandReport]]
    pools: NotRequired[list[PoolReport]]
    littles_law: LittlesLaw
    ci95: Ci95
    hosts: list[HostReport]
    accelerators: NotRequired[list[AcceleratorReport]]
    devices: list[DeviceReport]
    links: list[LinkReport]
    #: What limits the rate; none where nothing completed.
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
    #: The ID of all of them together, which all files carry.
    run: str
    asked: int
    partial: bool
    runs: list[SeedRun]
    quantities: list[Quantity]
