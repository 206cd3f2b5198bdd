"""A calibration as tables on the terminal, and as the device's table."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from cxlab._calibrate.bench import FIXED, MEDIUM_NS
from cxlab._calibrate.fit import COVERAGE, WORTH
from cxlab._calibrate.judge import ALIKE
from cxlab._calibrate.result import NOT_PROMISED

if TYPE_CHECKING:
    from cxlab._calibrate.result import Calibration

_WIDTH = 100


def table(made: Calibration) -> str:
    """Parameters, numbers, correlations, and what is not promised."""
    judged = made.fit.judged
    beside = "no CXL link" if made.without_link else f"{made.preset}, host {made.host}"
    joint = f"{100 * COVERAGE:.0f} % interval"
    lines = [f"calibrated from {', '.join(made.sources)} on {beside}", ""]
    if len(made.media) > 1:
        lines.append(f"  {'medium':<24}{'criterion':>10}{'fit':>9}{'held out':>12}")
        lines += [
            f"  {one['medium']:<24}{one['criterion']:>10.1f}{one['fit_percent']:>7.1f} %"
            f"{one['held_out_percent']:>10.1f} %"
            for one in made.media
        ]
        best, *others = made.media
        near = [one["medium"] for one in others if one["criterion"] < best["criterion"] + WORTH]
        alike = f"; the numbers hardly tell it from {', '.join(near)}" if near else ""
        lines += ["", f"  taken: {made.medium}{alike}", ""]
    lines.append(f"  {'parameter':<17}{'value':>9}  {'unit':<7}{joint:<20}status")
    for row in made.parameters.to_dict("records"):
        lines.append(f"  {row['parameter']:<17}{_value(row)}  {row['status']}")
    source = "residuals" if judged.from_residuals else "stated"
    lines += [
        "",
        f"  intervals are joint, for a noise of {100 * judged.noise:.1f} % ({source})",
        f"  idle latency: {made.rest_ns:.1f} ns of host, link and medium, and "
        f"{made.fit.values[0] - made.rest_ns:.1f} ns of the controller, which has what they leave",
        "",
        f"  {'number':<28}{'measured':>10}{'form':>9}{'events':>9}  unit     off  part",
    ]
    for row in made.numbers.to_dict("records"):
        lines.append(
            f"  {row['number']:<28}{row['measured']:>10.4g}{row['form']:>9.4g}"
            f"{row['simulated']:>9.4g}  {row['unit']:<5}{row['off_percent']:>+6.1f} %  "
            f"{row['part']}"
        )
    held = made.error("held out")
    judged_by = "nothing is held out, so nothing judges this fit"
    held_out = judged_by if math.isnan(held) else f"held out {held:.1f} %"
    lines += ["", f"  root mean square: fit {made.error('fit'):.1f} %; {held_out}", ""]
    lines += _correlations(made) + _apart(made)
    lines += [f"  note: {note}" for note in made.notes]
    return "\n".join(lines) + "\n" + _promise(made)


def _promise(made: Calibration) -> str:
    text = (
        f"Not promised: {', '.join(NOT_PROMISED)}. One host's idle latency is a sum: it cannot "
        "tell the times of host, link, controller and medium apart."
    )
    if made.without_link:
        text += (
            " Without a CXL link the table is a stand-in for local memory, and says nothing of a "
            "CXL device."
        )
    return textwrap.fill(text, _WIDTH) + "\n"


def _value(row: dict[Any, Any]) -> str:
    """A parameter's value with its interval, or its bound."""
    if math.isnan(row["value"]):
        bound = f"at least {row['low']:.4g}" if row["low"] else ""
        if math.isfinite(row["high"]):
            bound = f"at most {row['high']:.4g}"
        return f"{'-':>9}  {row['unit']:<7}{bound:<20}"
    interval = f"{row['low']:.4g} to {row['high']:.4g}"
    return f"{row['value']:>9.4g}  {row['unit']:<7}{interval:<20}"


def _correlations(made: Calibration) -> list[str]:
    """The lower half of the matrix."""
    judged = made.fit.judged
    if len(judged.names) < 2:
        return []
    lines = ["  correlation      " + "".join(f"{name[:11]:>12}" for name in judged.names[:-1])]
    for at, name in enumerate(judged.names[1:], 1):
        cells = "".join(f"{judged.correlations[at][to]:>+12.2f}" for to in range(at))
        lines.append(f"  {name:<17}{cells}")
    return [*lines, ""]


def _apart(made: Calibration) -> list[str]:
    """What the numbers do not tell apart."""
    judged = made.fit.judged
    lines = [
        f"  hard to tell apart: {one} and {other} (correlation above {ALIKE})"
        for one, other in judged.alike
    ]
    for exponents in judged.weak:
        parts = [f"{name}^{part:+.2f}" for name, part in exponents.items() if abs(part) > 0.2]
        lines.append(f"  hardly known: {' * '.join(parts)}")
    for names in made.fit.others:
        here = [name for name in judged.names if name not in names]
        there = [name for name in names if name not in judged.names]
        lines.append(f"  fits as well: {' and '.join(there)} instead of {' and '.join(here)}")
    free = [row["parameter"] for row in made.parameters.to_dict("records") if _free(row)]
    if free:
        lines.append(f"  not told, so without effect in the device: {', '.join(free)}")
    return [*lines, ""] if lines else []


def _free(row: dict[Any, Any]) -> bool:
    return str(row["status"]) == "no limit seen"


def toml(made: Calibration) -> str:
    """The device's table, with interval and source of each fitted key."""
    import tomli_w

    held = made.error("held out")
    comments = [
        f"Calibrated by cxlab from {', '.join(made.sources)}.",
        f"Root mean square deviation: fit {made.error('fit'):.1f} %, held out "
        + ("nothing." if math.isnan(held) else f"{held:.1f} %."),
        f"Fitted, with joint {100 * COVERAGE:.0f} % intervals:",
    ]
    for row in made.parameters.to_dict("records"):
        value = " ".join(_value(row).split())
        comments.append(f"  {row['parameter']} ({row['what']}): {value}, {row['status']}.")
    comments.append(
        f"process_time is the idle latency less {made.rest_ns:.1f} ns of host "
        + ("" if made.without_link else f"{made.host}, ")
        + "link and medium."
    )
    if made.medium == FIXED:
        comments.append(f"Assumed: a latency of {MEDIUM_NS} ns of the medium.")
    else:
        comments.append(f"Of the media that were tried, {made.medium} fits best.")
    comments.append("Assumed: queues (contexts, queue) that hold nothing back.")
    if made.outstanding is not None:
        comments.append(f"Beside it: hosts[].issue.outstanding = {made.outstanding}.")
    comments.append(f"Not promised: {', '.join(NOT_PROMISED)}.")
    text = tomli_w.dumps({"devices": [made.device]})
    return "".join(f"# {line}\n" for line in comments) + text
