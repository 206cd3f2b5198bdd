"""The pages of the notebooks, with the outputs that site/notebooks.py has written."""

from __future__ import annotations

import base64
import html
import json
import os
from pathlib import Path
from typing import Any

#: The kind of output that a widget is.
WIDGETS = "application/vnd.jupyter.widget-view+json"
#: What the site says where a notebook has a widget.
WIDGET = "*The picture as a widget: it zooms and opens what is clicked, in the notebook alone.*"


def notebooks() -> list[Path]:
    """The notebooks with outputs; none if the Python package was not built for the site."""
    folder = os.environ.get("CXLAB_NOTEBOOKS")
    return sorted(Path(folder).glob("*.ipynb")) if folder else []


def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and the pictures that it shows by their names."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            name = f"{path.stem}-{len(pictures)}"
            parts.append(shown(output, name, pictures))
    return "\n\n".join(parts) + "\n", pictures


def shown(output: dict[str, Any], name: str, pictures: dict[str, bytes]) -> str:
    """An output of a cell as Markdown. Its picture, if it is one, is added under the name."""
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text']).rstrip()}\n```"
    data = {kind: "".join(text) for kind, text in output.get("data", {}).items() if kind != WIDGETS}
    if WIDGETS in output.get("data", {}):
        return WIDGET
    if "image/png" in data:
        pictures[f"{name}.png"] = base64.b64decode(data["image/png"])
        return f"![A figure of the cell above]({name}.png)"
    if "image/svg+xml" in data:
        pictures[f"{name}.svg"] = data["image/svg+xml"].encode()
        return f"![A figure of the cell above]({name}.svg)"
    if "text/html" in data:
        # Without blank lines, Markdown takes it as one piece of HTML.
        lines = (line for line in data["text/html"].splitlines() if line.strip())
        return '<div class="notebook-output">' + "\n".join(lines) + "</div>"
    text = html.escape(data.get("text/plain", "").rstrip(), quote=False)
    return f'<pre class="notebook-output">{text}</pre>' if text else ""
