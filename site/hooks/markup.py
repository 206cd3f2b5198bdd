"""Text that Markdown and HTML show as it is."""

from __future__ import annotations


def escape(text: str) -> str:
    """Text that Markdown and HTML show as it is."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def cell(text: str) -> str:
    """Text of a cell of a table."""
    return escape(text).replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")
