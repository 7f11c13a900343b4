"""Draws the diagrams of pages during the build, so that they need no script."""

import re
from typing import Any
from zlib import crc32

import mermaidx
from pymdownx.superfences import SuperFencesException


def draw(source: str, *_: Any, **__: Any) -> str:
    """Return a block of Mermaid as SVG; its colors are those of the page."""
    try:
        drawn = mermaidx.render(source).svg()
    except Exception as error:  # any other one makes the block a piece of code
        raise SuperFencesException(f"mermaid: {error}\n{source}") from error
    # The names in a drawing must be unique on the page. The points are for editors of drawings.
    drawn = re.sub(r' data-points="[^"]*"', "", drawn).replace("my-svg", f"diagram-{crc32(source.encode()):08x}")
    return f'<div class="diagram">{drawn}</div>'
