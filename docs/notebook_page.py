"""Extension of Markdown that puts a notebook into a page when the site is built.

A line `<!-- notebook: FILE -->` becomes the text, the code and the outputs of the notebook.
"""

import json
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor


class Notebook(Extension):
    """The extension."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register the preprocessor."""
        md.preprocessors.register(Cells(md), "notebook", 40)  # before fences of code, which have 25


class Cells(Preprocessor):
    """Replaces lines that name a notebook."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines of a page."""
        return [line for named in lines for line in cells_of(named)]


def makeExtension(**_: Any) -> Extension:
    """Return the extension."""
    return Notebook()


def cells_of(line: str) -> Iterator[str]:
    """Iterate over the lines of a notebook, or the line itself if it names none."""
    match = re.fullmatch(r"<!-- notebook: (\S+) -->", line)
    if match is None:
        yield line
        return
    for cell in json.loads(Path(match[1]).read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        for block in [source] if cell["cell_type"] == "markdown" else [f"```py\n{source}\n```", *outputs_of(cell)]:
            yield from (*block.split("\n"), "")


def outputs_of(cell: dict[str, Any]) -> Iterator[str]:
    """Iterate over the outputs of a cell, each in one line of HTML."""
    for output in cell["outputs"]:
        if output["output_type"] == "error":
            html = f"<pre>{escape(output['ename'])}: {escape(output['evalue'])}</pre>"
        elif output["output_type"] == "stream":
            html = f"<pre>{escape(''.join(output['text']))}</pre>"
        else:
            data = {kind: "".join(parts) for kind, parts in output["data"].items()}
            html = data.get("text/html") or f"<pre>{escape(data['text/plain'])}</pre>"
        # The styles of the site must not reach the output, and an empty line would end the HTML in Markdown.
        inner = html.replace("\n", "&#10;")
        yield f'<div class="output"><template shadowrootmode="open">{inner}</template></div>'
