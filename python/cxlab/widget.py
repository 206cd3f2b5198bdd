"""The picture of a system as a widget of a notebook (``pip install 'cxlab[notebook]'``)."""

from __future__ import annotations

import json
from typing import Any

import anywidget
import traitlets

from cxlab._result import Result
from cxlab._run import Plan
from cxlab._svg import sanitised, without_style
from cxlab.page import packed, script, style

#: In a notebook, the style is that of the widget and not of the whole page.
_STYLE = (
    style("page.css").replace(":root", ".cx-widget")
    + "\n.cx-widget { padding: 4px; font: var(--cx-text); color: var(--cx-ink); }\n"
    + ".cx-widget { background: var(--cx-ground); }\n"
)


class Topology(anywidget.AnyWidget):  # type: ignore[misc]
    """The picture of a plan or of a result, which zooms and whose boxes and links can be chosen.

    ``selected`` has the names at the last click: both directions of a link, a box, or a group.
    Observe it to react to clicks, or set it to open a part from Python::

        picture = Topology(result)
        picture.observe(lambda change: print(change["new"]), names="selected")
        picture.show(cxlab.run(other))
    """

    _esm = script("widget.js")
    _css = _STYLE
    #: The picture, as SVG.
    picture = traitlets.Unicode().tag(sync=True)
    #: The report as the page has it, as JSON. Empty for a plan.
    report = traitlets.Unicode().tag(sync=True)
    #: Names of the part that is open. Empty if none is.
    selected = traitlets.List(traitlets.Unicode()).tag(sync=True)
    #: Names inside the part that is open, if it is a group.
    members = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(self, of: Plan | Result, **traits: Any) -> None:
        """Makes the widget of a plan or of a result.

        Raises:
            ValueError: the result was loaded from a folder without a picture.

        """
        super().__init__(**traits)
        self.show(of)

    def show(self, of: Plan | Result) -> None:
        """Shows another plan or result. What is selected stays.

        Raises:
            ValueError: the result was loaded from a folder without a picture.

        """
        svg = None if of.svg is None else sanitised(of.svg)
        if svg is None:
            raise ValueError("result: found no picture; allowed: a result with its topology.svg")
        with self.hold_sync():
            self.picture = without_style(svg)
            self.report = json.dumps(packed(of.report)) if isinstance(of, Result) else ""
