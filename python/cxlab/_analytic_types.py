"""Types of the report of ``cxlab run --mode analytic``."""

from typing import NotRequired, TypedDict

from cxlab._types import Bandwidth, NoteReport


class ErrorClasses(TypedDict):
    """Largest expected errors against the event engine, such as `10 %`, and their reason."""

    #: Class of the bandwidth.
    bandwidth: str
    #: Class of the latency, of stages and of `by_hops`.
    latency: str
    #: Reason for the worse of the two classes.
    why: str


class AnalyticLatency(TypedDict):
    """A mean latency and its part without load, ns."""

    #: Mean over all requests.
    mean: float
    #: Mean if no request waited: the sum of the constant stages.
    unloaded: float


class AnalyticHops(TypedDict):
    """Requests that crossed this many links."""

    #: Links between host and device.
    hops: int
    #: Share of all requests.
    share: float
    #: Mean latency of these requests.
    mean_ns: float
    #: Mean time in queues.
    queue_ns: float


class AnalyticHost(TypedDict):
    """Rates and latency of a host."""

    #: Name of the host.
    name: str
    #: Payload of its requests.
    bandwidth_gb_per_s: Bandwidth
    #: Latency of its requests.
    latency_ns: AnalyticLatency
    #: Mean number of requests in flight.
    in_flight: float
    #: Error classes of these numbers; `latency` is that of its pairs, too.
    error_class: ErrorClasses
    #: Limit of its rate: its own `pace`, or its requests in `flight`.
    limit: str


class AnalyticDevice(TypedDict):
    """Rates of a device."""

    #: Name of the device.
    name: str
    #: Payload of the requests that the device serves.
    bandwidth_gb_per_s: Bandwidth
    #: Error class of its rates: the worst of those of its hosts.
    error_class: str
    #: Fraction of the media's capacity that is used.
    utilization: float
    #: Mean wait for the media.
    wait_ns: float


class AnalyticLink(TypedDict):
    """Rates of one direction of a link."""

    #: Name of the link: its ends joined by `--`.
    name: str
    #: Direction: from `->` to, or `<->` for both directions of a half-duplex link.
    direction: str
    #: Error class of its rates: the worst of those of the hosts that use it.
    error_class: str
    #: Fraction of the time in which the wire is busy.
    utilization: float
    #: Fraction of the rate that wire and credits allow. It is less than `utilization` if flits
    #: leave with empty slots.
    used: float
    #: Payload (64-byte lines) as a fraction of all bytes sent.
    efficiency: float
    #: Rate of payload.
    payload_gb_per_s: float
    #: Mean wait before the transmitter accepts a message.
    wait_ns: float
    #: Rate of the wire.
    rate_gb_per_s: float


class PairLatency(TypedDict):
    """Latency between a host and a device."""

    #: Name of the host.
    host: str
    #: Name of the device.
    device: str
    #: Whether the requests are writes.
    write: bool
    #: Latency of a request alone in the system.
    unloaded_ns: float
    #: Mean latency under the load of the scenario.
    mean_ns: float


class AnalyticBottleneck(TypedDict):
    """The link or device with the largest used fraction of its capacity."""

    #: A link's direction, or a device.
    name: str
    #: Fraction of its capacity that is used.
    used: float


class Corrected(TypedDict):
    """Relative error against the second of two short event runs."""

    #: Error before the correction.
    before: float
    #: Error after the correction.
    after: float


class Calibration(TypedDict):
    """Correction by two short event runs (`--calibrate`)."""

    #: Requests that the first run measured, after a warm-up of as many. The second run has twice
    #: as many of both.
    requests: int
    #: Events of both runs.
    events: int
    #: Real time of both runs.
    wall_seconds: float
    #: Error of the bandwidth of all hosts.
    bandwidth: Corrected
    #: Error of the mean latency of all hosts.
    latency: Corrected
    #: Largest error of a host's bandwidths and latencies.
    furthest_host: Corrected


class AnalyticReport(TypedDict):
    """Report of `cxlab run --mode analytic`: `report.json` without what only a run has."""

    #: Version of cxlab.
    version: str
    #: Kind of the report: `analytic`.
    mode: str
    #: The scenario's name.
    scenario: str
    #: Hash of everything that can change the result but the seed.
    plan_hash: str
    #: ID of the computation, which all of its files carry.
    run: str
    #: Seed of the workloads.
    seed: int
    #: Error classes of the numbers of all hosts together.
    error_class: ErrorClasses
    #: Requests of all hosts in a nanosecond.
    requests_per_ns: float
    #: Rates of 64-byte lines, in GB/s (10^9 bytes per second).
    bandwidth_gb_per_s: Bandwidth
    #: Latency of all requests.
    latency_ns: AnalyticLatency
    #: Latency of reads.
    read_latency_ns: AnalyticLatency
    #: Mean time of each latency stage; the stages sum to the mean latency. `credits` is 0 unless
    #: event runs correct the form: a wait for credits is in the queue of its output.
    stages_ns: dict[str, float]
    #: Latency by number of links crossed.
    by_hops: list[AnalyticHops]
    #: Mean number of requests in flight of all hosts.
    in_flight: float
    #: Hosts, in the order of the scenario.
    hosts: list[AnalyticHost]
    #: Devices, in the order of the scenario.
    devices: list[AnalyticDevice]
    #: Links, by direction.
    links: list[AnalyticLink]
    #: Pairs of host and device with traffic: the first 4,096.
    pairs: list[PairLatency]
    #: The component with the largest used fraction; None without traffic.
    bottleneck: AnalyticBottleneck | None
    #: Whether the fixed point was reached: to 10^-7, or to 1 % in the last half of the rounds.
    settled: bool
    #: Correction by event runs, if it was asked for.
    calibration: NotRequired[Calibration]
    #: Assumptions and limits that users should know.
    notes: list[NoteReport]
