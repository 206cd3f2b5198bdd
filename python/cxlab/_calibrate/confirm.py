"""The system that is calibrated, as the event engine runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cxlab._calibrate.fit import FREE, NO_BANK
from cxlab._calibrate.observations import CalibrateError, Observation
from cxlab._calibrate.surrogate import LINES
from cxlab._scenario import Scenario
from cxlab._sweep import run_many

#: The name that stands for no preset: a memory of which nothing is known, behind a link that holds
#: nothing back.
NONE = "none"
#: Requests of a run.
_REQUESTS = 20_000
#: Most requests in flight that a host has where they hold nothing back.
_MOST = 4096
#: Requests in the device and its medium. Writes that fill the medium complete early, so it has to
#: be full before a run's warm-up ends.
_QUEUE = 1024
#: Most banks of a medium.
_BANKS = 65536
#: Latency of the medium, in ns: cxlab's default of `fixed`.
_MEDIUM_NS = 46
_FAST: dict[str, Any] = {
    "generation": "7",
    "lanes": 16,
    "port_delay": "0 ns",
    "propagation": "2 ps",
    "fec_delay": "0 ns",
    "bandwidth": "20 TB/s",
}


class Bench:
    """A host and a device of a preset, whose parameters are those of a vector."""

    def __init__(self, preset: str, host: str, run: Mapping[str, Any]) -> None:
        self.preset = preset
        self.host = host
        self._run_options = dict(run)
        free = (0.0, FREE, FREE, FREE, NO_BANK, FREE)
        read = Observation("idle", "idle latency", 100.0, 1.0)
        #: Idle latency without the controller's time, in ns.
        self.rest_ns = self._run([self._scenario(free, read, 0.0)], [read])[0]

    def links(self, percents: Sequence[float]) -> dict[float, float]:
        """What the link carries of each mix in GB/s, where nothing else holds it back."""
        free = (self.rest_ns, FREE, FREE, FREE, NO_BANK, FREE)
        found = [Observation("peak", "", percent, 1.0) for percent in percents]
        scenarios = [self._scenario(free, one, 0.0) for one in found]
        return dict(zip(percents, self._run(scenarios, found), strict=True))

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

    def device(self, values: Sequence[float], controller_ns: float) -> dict[str, Any]:
        """The keys of the device's table that the vector decides."""
        _, read, write, medium, bank, _ = values
        memory: dict[str, Any] = {"kind": "fixed", "latency": f"{_MEDIUM_NS} ns", "queue": _QUEUE}
        # Banks that are each busy for that long carry the medium's rate together.
        banks = min(_BANKS, round(medium * bank / 64))
        if medium < FREE / 2 and banks > 1:
            cycle = f"{round(banks * 64 / medium * 1000)} ps"
            memory |= {"banks": banks, "bank_cycle": cycle}
        elif medium < FREE / 2:
            memory["bandwidth"] = _rate(medium)
        paths = {"read_bandwidth": read, "write_bandwidth": write}
        rates = {name: _rate(rate) for name, rate in paths.items() if rate < FREE / 2}
        if rates:
            memory = {"kind": "data-path", **rates, "medium": memory}
        controller = {"process_time": f"{round(controller_ns * 1000)} ps", "contexts": _QUEUE}
        return {"controller": controller, "memory": memory}

    def _scenario(
        self, values: Sequence[float], one: Observation, controller_ns: float
    ) -> Scenario:
        lines = 1 if one.kind == "idle" else max(1, min(_MOST, round(values[LINES])))
        issue: dict[str, Any] = {"outstanding": lines}
        link: dict[str, Any] = {"preset": "gen5-x8"}
        device: dict[str, Any] = {"name": "device", **self.device(values, controller_ns)}
        if self.preset == NONE:
            issue["process_time"] = "0 ns"
            link = _FAST
        else:
            issue["preset"] = self.host
            device["preset"] = self.preset
        if one.kind == "loaded":
            issue["rate"] = f"{round(one.offered * 1e9)} B/s"
        kind = "pointer-chase" if one.kind == "idle" else "uniform"
        return Scenario.from_dict(
            {
                "name": "calibrate",
                "measure": {"requests": _REQUESTS},
                "fabric": {"topology": {"kind": "direct"}, "link": link},
                "hosts": [
                    {
                        "name": "host",
                        "issue": issue,
                        "workload": {"kind": kind, "read_ratio": one.reads, "mix": "regular"},
                    }
                ],
                "devices": [device],
            }
        )

    def _run(self, scenarios: Sequence[Scenario], found: Sequence[Observation]) -> list[float]:
        results = run_many(scenarios, description="calibrate", **self._run_options)
        made = []
        for one, result in zip(found, results, strict=True):
            report = result.report
            if one.kind == "peak":
                made.append(float(report["bandwidth_gb_per_s"]["total"]))
                continue
            some = "read_latency_ns" if report["requests"]["reads"] else "latency_ns"
            made.append(float(report[some]["mean"]))  # type: ignore[literal-required]
        return made


def _rate(gb_per_s: float) -> str:
    return f"{round(gb_per_s * 1e9)} B/s"
