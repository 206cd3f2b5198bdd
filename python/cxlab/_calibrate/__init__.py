"""``cxlab calibrate``: a device from what MLC printed on hardware.

Six parameters are fitted: the idle latency as a sum, the rates of the controller's read and write
paths, the rate of the medium and the time for which a line keeps a bank busy, and the requests
that the host has in flight. The form of the fit has no events
(:mod:`cxlab._calibrate.surrogate`). The event engine corrects it until both agree, so the numbers
beside the measured ones are the engine's. The analytic form of the whole system is not used,
because a run of the engine takes no longer for a host and a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TypeAlias, cast

from cxlab._calibrate.confirm import NONE, Bench
from cxlab._calibrate.fit import fit
from cxlab._calibrate.observations import CalibrateError, Observation, of, split
from cxlab._calibrate.result import Calibration, notes
from cxlab._mlc import Mlc

#: A measurement: a log of Intel MLC, a folder that ``cxlab mlc`` wrote, or what they hold.
Source: TypeAlias = Mlc | str | PathLike[str]

__all__ = ["CalibrateError", "Calibration", "calibrate"]

#: Most parts by which a peak may be above what the link carries.
_MOST_OVER = 1.1


def calibrate(
    sources: Sequence[Source] | Source,
    preset: str,
    *,
    host: str = "sapphire-rapids",
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
            link, of which everything is fitted.
        host: preset of the host (``hosts[].issue``).
        hold_out: beginnings of labels of further numbers that judge the fit.
        noise: least standard deviation of a number, as a part of it. 0.001 to 0.5.
        workers: number of local processes.
        cache: whether, or where, to keep finished runs, as in :func:`cxlab.run_many`.
        progress: False for no progress bar; None for one if standard error is a terminal.

    Raises:
        CalibrateError: the measurements have too few numbers, or numbers that the preset cannot
            have.
        ScenarioError: the preset or the host is unknown.

    """
    if not 0.001 <= noise <= 0.5:
        raise CalibrateError(f"noise: found {noise:g}; allowed: 0.001 to 0.5")
    alone = isinstance(sources, Mlc | str | PathLike)
    given = [sources] if alone else list(cast("Sequence[Mlc | Path]", sources))
    read = [one if isinstance(one, Mlc) else _read(Path(cast("str", one))) for one in given]
    found: list[Observation] = []
    for one in read:
        known = {(each.kind, each.label) for each in found}
        found += [each for each in of(one) if (each.kind, each.label) not in known]
    found = split(found, hold_out)
    bench = Bench(preset, host, {"workers": workers, "cache": cache, "progress": progress})
    links = bench.links(sorted({one.read_percent for one in found}))
    for each in found:
        if each.kind == "peak" and each.value > _MOST_OVER * links[each.read_percent]:
            raise CalibrateError(
                f"{each.label}: found {each.value:.2f} GB/s; allowed: at most "
                f"{links[each.read_percent]:.2f} GB/s, which the link of {preset} carries, or "
                "another --from"
            )
    bench.controller_ns(next(one.value for one in found if one.kind == "idle"))
    fitted = fit(found, links, noise, bench.events)
    return Calibration(
        sources=tuple(one.name for one in read),
        preset=preset,
        host="none" if preset == NONE else host,
        found=tuple(found),
        fit=fitted,
        device=bench.device(fitted.values, bench.controller_ns(fitted.values[0])),
        notes=notes(found, links),
    )


def _read(path: Path) -> Mlc:
    """A folder of ``cxlab mlc``, or a log of MLC."""
    return Mlc.read(path) if path.is_dir() else Mlc.from_log(path)
