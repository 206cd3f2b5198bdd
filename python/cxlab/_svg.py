"""Sanitises pictures of untrusted folders: only the elements of cxlab's own pictures are kept."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

#: Elements of cxlab's pictures. All others are removed, such as scripts, links and other styles
#: than the colours of dark pages.
_ELEMENTS = frozenset(
    [
        "svg",
        "g",
        "path",
        "rect",
        "circle",
        "ellipse",
        "line",
        "polyline",
        "polygon",
        "text",
        "tspan",
        "title",
        "desc",
    ]
)
_ATTRIBUTES = frozenset(
    [
        "viewBox",
        "width",
        "height",
        "x",
        "y",
        "x1",
        "y1",
        "x2",
        "y2",
        "cx",
        "cy",
        "r",
        "rx",
        "ry",
        "d",
        "points",
        "dx",
        "dy",
        "fill",
        "stroke",
        "opacity",
        "fill-opacity",
        "stroke-opacity",
        "stroke-width",
        "stroke-linecap",
        "stroke-linejoin",
        "stroke-dasharray",
        "font-family",
        "font-size",
        "font-weight",
        "text-anchor",
        "dominant-baseline",
        "transform",
        "class",
        "role",
        "aria-label",
    ]
)
#: Deepest element that is kept. Elements of cxlab's pictures are at most three deep.
_DEEPEST = 16
_SVG = "{http://www.w3.org/2000/svg}"
#: The style sheet of cxlab's pictures: colours of classes on dark pages.
_DARK = re.compile(
    r"@media \(prefers-color-scheme:dark\)"
    r"\{(?:\.cx-[a-z]{1,16}\{(?:fill|stroke):#[0-9a-f]{6}\}){1,64}\}"
)


def sanitised(svg: str) -> str | None:
    """A picture reduced to the elements of cxlab's own, or None if the text is no picture."""
    from xml.etree import ElementTree

    if "<!" in re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL):
        return None
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError:
        return None
    if root.tag != f"{_SVG}svg":
        return None
    return _kept(root) + ("\n" if svg.endswith("\n") else "")


def without_style(svg: str) -> str:
    """A sanitised picture without its colours for dark pages."""
    return re.sub(r"<style>[^<]*</style>\n?", "", svg)


def _is_dark(style: Element) -> bool:
    return len(style) == 0 and not style.attrib and bool(_DARK.fullmatch(style.text or ""))


def _kept(element: Element, depth: int = 0) -> str:
    name = element.tag.removeprefix(_SVG)
    written = ' xmlns="http://www.w3.org/2000/svg"' if name == "svg" else ""
    for key, value in element.attrib.items():
        if key in _ATTRIBUTES and "url" not in value.lower():
            written += f' {key}="{html.escape(value)}"'
    inner = html.escape(element.text or "", quote=False)
    for child in element:
        # The tag of a comment is no text.
        tag = child.tag.removeprefix(_SVG) if isinstance(child.tag, str) else ""
        known = tag in _ELEMENTS or (tag == "style" and _is_dark(child))
        if known and depth < _DEEPEST:
            inner += _kept(child, depth + 1)
        inner += html.escape(child.tail or "", quote=False)
    return f"<{name}{written}>{inner}</{name}>" if inner else f"<{name}{written}/>"
