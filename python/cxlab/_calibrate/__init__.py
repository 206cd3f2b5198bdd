"""``cxlab calibrate``: a device from what MLC printed on hardware.

Six parameters are fitted: the idle latency as a sum, the rates of the controller's read and write
paths, rate and busy time of the medium's banks, and the requests that the host has in flight. The
form of the fit has no events (:mod:`cxlab._calibrate.surrogate`). The event engine corrects it
until both agree, so the numbers beside the measured ones are the engine's. The analytic form of the
whole system is not used, because for a host and a device a run of the engine is as fast.

DRAM by commands is one of a few media that are tried, and has no parameter of its own.

What is left out: more than one host or device, switches, tails, and latencies
between 80 and 97 % of the peak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TypeAlias, cast

from cxlab._calibrate.bench import FIXED, NONE, Bench
from cxlab._calibrate.fit import fit
from cxlab._calibrate.observations import CalibrateError, Observation, joined, of, split
from cxlab._calibrate.result import Calibration
from cxlab._mlc import Mlc

#: A measurement: a log of Intel MLC, a folder that ``cxlab mlc`` wrote, or what they hold.
Source: TypeAlias = Mlc | str | PathLike[str]

__all__ = ["CalibrateError", "Calibration", "calibrate"]

#: Most parts by which a bandwidth may be above what the link carries, and from which on a note says
#: so.
_MOST_OVER = 1.1
_OVER = 1.02


def calibrate(
    sources: Sequence[Source] | Source,
    preset: str,
    *,
    host: str = "sapphire-rapids",
    memory: str | None = None,
    medium: str | Sequence[str] = FIXED,
    hold_out: Sequence[str] = (),
    noise: float = 0.02,
    workers: int | None = None,
    cache: str | PathLike[str] | bool = True,
    progress: bool | None = None,
) -> Calibration:
    """Fits a device to measurements, and judges it by those that were left out.

    Args:
        sources: logs of Intel MLC, folders that ``cxlab mlc`` wrote, or :class:`cxlab.Mlc`.
        preset: the device's preset, whose link is kept; or ``"none"`` for a memory without a CXL
            link, such as local DRAM.
        host: preset of the host (``hosts[].issue``).
        memory: node of MLC's matrices whose idle latency and read bandwidth are fitted.
        medium: ``"fixed"``, whose rate and banks are fitted, or DRAM as ``"DDR5-4800BN:2:2"``
            (grade, channels, ranks). Of several, the one is taken that Akaike's criterion prefers
            by the numbers that are fitted.
        hold_out: beginnings of labels of further numbers that judge the fit.
        noise: least standard deviation of a number, as a part of it. 0.001 to 0.5.
        workers: number of local processes.
        cache: whether, or where, to keep finished runs, as in :func:`cxlab.run_many`.
        progress: False for no progress bar; None for one if standard error is a terminal.

    Raises:
        CalibrateError: the measurements have too few numbers, contradict each other, or have
            numbers that the preset cannot have.
        ResultError: a file is no measurement.
        ScenarioError: the preset or the host is unknown.

    """
    if not 0.001 <= noise <= 0.5:
        raise CalibrateError(f"noise: found {noise:g}; allowed: 0.001 to 0.5")
    alone = isinstance(sources, Mlc | str | PathLike)
    given = [sources] if alone else list(cast("Sequence[Mlc | Path]", sources))
    if not given:
        raise CalibrateError("sources: found none; allowed: at least one measurement")
    read = [one if isinstance(one, Mlc) else _read(Path(cast("str", one))) for one in given]
    parts = [of(one, memory) for one in read]
    found = split(joined([part for part, _ in parts]), hold_out)
    options = {"workers": workers, "cache": cache, "progress": progress}
    made = []
    refused: list[CalibrateError] = []
    for one in [medium] if isinstance(medium, str) else medium:
        bench = Bench(preset, host, options, _pattern(read), one)
        try:
            made.append(_with_bench(bench, found, noise))
        except CalibrateError as error:
            refused.append(error)
    if not made:
        raise refused[0] if refused else CalibrateError("medium: found none; allowed: at least one")
    made.sort(key=lambda one: one.fit.criterion)
    return replace(
        made[0],
        sources=tuple(one.name for one in read),
        media=tuple(
            {
                "medium": one.medium,
                "criterion": one.fit.criterion,
                "fit_percent": one.error("fit"),
                "held_out_percent": one.error("held out"),
            }
            for one in made
        ),
        notes=(
            *(note for _, some in parts for note in some),
            *made[0].notes,
            *(f"a medium that was tried is left out: {error}" for error in refused),
        ),
    )


def _with_bench(bench: Bench, found: Sequence[Observation], noise: float) -> Calibration:
    """Fits the device of a bench, which has one medium."""
    bench.controller_ns(min(one.value for one in found if one.kind == "idle"))
    links = bench.links(sorted({one.read_percent for one in found}))
    for each in found:
        _check_link(each, links[each.read_percent], bench)
    fitted = fit(found, links, noise, bench.events, bench.absent)
    idle_ns = fitted.values[0]
    return Calibration(
        sources=(),
        preset=bench.preset,
        host=NONE if bench.preset == NONE else bench.host,
        found=tuple(found),
        fit=fitted,
        rest_ns=bench.rest_ns,
        device={"name": "device", **bench.table(fitted.values, bench.controller_ns(idle_ns))},
        medium=bench.medium,
        notes=tuple(
            f"{one.label}: {one.value:.2f} GB/s is more than the link carries, "
            f"{links[one.read_percent]:.2f} GB/s"
            for one in found
            if one.kind == "peak" and one.value > _OVER * links[one.read_percent]
        ),
    )


def _check_link(one: Observation, link: float, bench: Bench) -> None:
    """Refuses a bandwidth that the preset's link, or a medium without parameters, cannot carry."""
    rate = one.value if one.kind == "peak" else one.offered
    if rate > _MOST_OVER * link:
        part = "link" if bench.medium == FIXED else f"link, or {bench.medium},"
        raise CalibrateError(
            f"{one.source}: {one.label}: found {rate:.2f} GB/s; allowed: at most {link:.2f} GB/s, "
            f"which the {part} of {bench.preset} carries, or another --from; --from {NONE} is for "
            "memory without a CXL link"
        )


def _pattern(read: Sequence[Mlc]) -> str:
    """The workload that loads: MLC's threads together are random at the memory."""
    patterns = {one.settings.get("pattern", "random") for one in read}
    return "stream" if patterns == {"sequential"} else "uniform"


def _read(path: Path) -> Mlc:
    """A folder of ``cxlab mlc``, or a log of MLC."""
    return Mlc.read(path) if path.is_dir() else Mlc.from_log(path)
