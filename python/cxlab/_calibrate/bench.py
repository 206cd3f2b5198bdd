"""The system that is calibrated, as the event engine runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cxlab._calibrate.observations import CalibrateError, Observation
from cxlab._calibrate.surrogate import FREE, INSTANT, LINE, banks
from cxlab._scenario import Scenario
from cxlab._sweep import run_many

#: The name that stands for no preset: a memory without a CXL link, as local DRAM is.
NONE = "none"
#: The name of a medium whose rate and banks are fitted.
FIXED = "fixed"
#: Requests of a run.
_REQUESTS = 20_000
#: Most requests in flight that a host, a controller or a medium has here. It holds nothing back
#: where fewer are in flight.
_MOST = 16384
#: Latency of the medium, in ns: cxlab's default of `fixed`.
MEDIUM_NS = 46
#: A rate that holds nothing back.
NO_LIMIT = "100 TB/s"
#: A link that holds nothing back and takes no time.
_NO_LINK: dict[str, Any] = {
    "bandwidth": NO_LIMIT,
    "port_delay": "0 ns",
    "propagation": "0 ns",
}


class Bench:
    """A host and a device of a preset, whose parameters are those of a vector."""

    def __init__(
        self,
        preset: str,
        host: str,
        run: Mapping[str, Any],
        pattern: str = "uniform",
        medium: str = FIXED,
    ) -> None:
        self.preset = preset
        self.host = host
        self.medium = medium
        self._dram = _dram(medium)
        self._pattern = pattern
        self._options = dict(run)
        read = Observation("idle", "idle latency", 100.0, 1.0)
        #: Idle latency without the controller's time, in ns.
        self.rest_ns = self._run([self._scenario(_free(0.0), read, 0.0)], [read])[0]

    @property
    def absent(self) -> tuple[str, ...]:
        """Names of the parameters that this system does not have."""
        return () if self._dram is None else ("medium_gb_per_s", "bank_ns")

    def links(self, percents: Sequence[float]) -> dict[float, float]:
        """What the link carries of each mix in GB/s, where nothing else holds it back.

        DRAM has no parameter that is fitted, so it holds back as the link does.
        """
        found = [Observation("peak", "", percent, 1.0) for percent in percents]
        free = _free(self.rest_ns)
        made = self._run([self._scenario(free, one, 0.0) for one in found], found)
        return dict(zip(percents, made, strict=True))

    def events(self, values: Sequence[float], found: Sequence[Observation]) -> list[float]:
        """The event engine's number for each observation."""
        controller = self.controller_ns(values[0])
        return self._run([self._scenario(values, one, controller) for one in found], found)

    def controller_ns(self, idle_ns: float) -> float:
        """The controller's time with which the idle latency is as given.

        Raises:
            CalibrateError: host, link and medium alone take longer.

        """
        left = idle_ns - self.rest_ns
        if left < 0:
            raise CalibrateError(
                f"idle latency: found {idle_ns:.1f} ns; allowed: at least {self.rest_ns:.1f} ns, "
                f"which host {self.host} and the link and medium of {self.preset} take, another "
                f"--host, or --from {NONE} for a memory without a CXL link"
            )
        return left

    def device(self, values: Sequence[float]) -> dict[str, Any]:
        """The keys of the device's table that a vector decides."""
        _, read, write, medium, bank_ns, _ = values
        # Keys of a preset's medium of the same kind stay where they are not replaced, so both
        # paths have a rate.
        memory = {
            "kind": "data-path",
            "read_bandwidth": _rate(read) if read < FREE / 2 else NO_LIMIT,
            "write_bandwidth": _rate(write) if write < FREE / 2 else NO_LIMIT,
            "medium": _fixed(medium, bank_ns) if self._dram is None else self._dram,
        }
        return {"memory": memory}

    def table(self, values: Sequence[float], controller_ns: float) -> dict[str, Any]:
        """The device's table, without its name."""
        made: dict[str, Any] = {}
        if self.preset == NONE:
            made["link"] = dict(_NO_LINK)
        else:
            made["preset"] = self.preset
        controller = {"process_time": f"{round(controller_ns * 1000)} ps", "contexts": _MOST}
        return {**made, "controller": controller, **self.device(values)}

    def issue(self) -> dict[str, Any]:
        """Keys of the host's `issue` beside the requests in flight."""
        return {"process_time": "0 ns"} if self.preset == NONE else {"preset": self.host}

    def _scenario(
        self, values: Sequence[float], one: Observation, controller_ns: float
    ) -> Scenario:
        lines = 1 if one.kind == "idle" else max(1, min(_MOST, round(values[-1])))
        issue = {**self.issue(), "outstanding": lines}
        if one.kind == "loaded":
            issue["rate"] = f"{round(one.offered * 1e9)} B/s"
        load: dict[str, Any] = {"kind": "pointer-chase", "read_ratio": 1.0}
        if one.kind != "idle":
            load = {"kind": self._pattern, "read_ratio": one.reads, "mix": "regular"}
        if load["kind"] == "stream":
            load["private"] = True
        return Scenario.from_dict(
            {
                "name": "calibrate",
                "measure": {"requests": _REQUESTS},
                "fabric": {"topology": {"kind": "direct"}},
                "hosts": [{"name": "host", "issue": issue, "workload": load}],
                "devices": [{"name": "device", **self.table(values, controller_ns)}],
            }
        )

    def _run(self, scenarios: Sequence[Scenario], found: Sequence[Observation]) -> list[float]:
        results = run_many(scenarios, description="calibrate", **self._options)
        made = []
        for one, result in zip(found, results, strict=True):
            report = result.report
            if one.kind == "peak":
                made.append(float(report["bandwidth_gb_per_s"]["total"]))
            elif report["requests"]["reads"]:
                made.append(float(report["read_latency_ns"]["mean"]))
            else:
                made.append(float(report["latency_ns"]["mean"]))
        return made


def _fixed(medium: float, bank_ns: float) -> dict[str, Any]:
    """A `fixed` medium with a rate in GB/s, and banks that are busy for so many ns."""
    fixed: dict[str, Any] = {"kind": "fixed", "latency": f"{MEDIUM_NS} ns", "queue": _MOST}
    number = banks(medium, bank_ns) if medium < FREE / 2 else 1
    # A medium with both banks and a bandwidth would let lines wait for their bank in order of
    # arrival, so it has one of them.
    cycle = round(1000 * number * LINE / medium) if number > 1 else 0
    fixed.update(banks=number, bank_cycle=f"{cycle} ps")
    if number == 1 and medium < FREE / 2:
        fixed["bandwidth"] = _rate(medium)
    return fixed


def _dram(medium: str) -> dict[str, Any] | None:
    """The table of a medium `GRADE:CHANNELS` or `GRADE:CHANNELS:RANKS`; None for `fixed`."""
    if medium == FIXED:
        return None
    grade, *numbers = medium.split(":")
    if len(numbers) not in (1, 2) or not all(one.isdecimal() and int(one) for one in numbers):
        raise CalibrateError(
            f"medium: found {medium}; allowed: {FIXED}, or GRADE:CHANNELS or GRADE:CHANNELS:RANKS "
            "as in DDR5-4800BN:2:2"
        )
    names = ("channels", "ranks")
    counts = {name: int(one) for name, one in zip(names, numbers, strict=False)}
    return {"kind": "dram", "grade": grade, **counts}


def _free(idle_ns: float) -> tuple[float, ...]:
    """A vector whose limits hold nothing back."""
    return (idle_ns, FREE, FREE, FREE, INSTANT, FREE)


def _rate(gb_per_s: float) -> str:
    return f"{round(gb_per_s * 1e9)} B/s"
