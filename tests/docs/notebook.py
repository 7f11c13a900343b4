"""Executes the notebook of the documentation and makes a page of it.

`python -m tests.docs.notebook` executes the notebook again and stores the outputs.
Then `python -m tests.docs.generated` writes the page.
"""

import re
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, Final

import nbformat

from tests.helpers.notebooks import execute

TUTORIALS: Final = Path(__file__).parents[2] / "docs/tutorials"
NOTEBOOK: Final = TUTORIALS / "notebook.ipynb"
METADATA: Final = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}

_format: Any = nbformat  # its functions have no types


def read() -> Any:
    """Return the notebook."""
    return _format.read(NOTEBOOK, as_version=4)


def executed() -> Any:
    """Return the notebook with new outputs, without what depends on the machine."""
    notebook = read()
    with tempfile.TemporaryDirectory() as folder:
        execute(notebook, Path(folder))
    for number, cell in enumerate(notebook.cells, 1):
        cell.id, cell.metadata = f"cell-{number}", {}
    notebook.metadata = METADATA
    return notebook


def page(notice: str) -> str:
    """Return the notebook as a page: text, code, and the outputs as HTML."""
    parts: list[str] = []
    for cell in read().cells:
        parts += [cell.source] if cell.cell_type == "markdown" else [f"```py\n{cell.source}\n```", *_outputs(cell)]
    return "\n\n".join([notice, *parts]) + "\n"


def comparable(notebook: Any) -> list[object]:
    """Return the sources and outputs of a notebook, without times and reports."""
    return [(cell.source, [_masked(output) for output in _outputs(cell)]) for cell in notebook.cells]


def _outputs(cell: Any) -> Iterator[str]:
    """Iterate over the outputs of a cell, each in one line of HTML."""
    for output in cell.get("outputs", ()):
        if output.output_type == "error":
            html = f"<pre>{escape(f'{output.ename}: {output.evalue}')}</pre>"
        elif output.output_type == "stream":
            html = f"<pre>{escape(output.text)}</pre>"
        else:
            html = output.data.get("text/html") or f"<pre>{escape(output.data['text/plain'])}</pre>"
        # The styles of the site must not reach the output, and an empty line would end the HTML in Markdown.
        inner = html.replace("\n", "&#10;")
        yield f'<div class="output"><template shadowrootmode="open">{inner}</template></div>'


def _masked(html: str) -> str:
    # The time of hooks has a row of its own if it is long.
    html = re.sub(r"<tr>(?:(?!<tr>).)*\(hooks of instruments\).*?</tr>", "", html)
    html = re.sub(r'srcdoc="[^"]*"|\d+(\.\d+)?', "", html)
    # Concurrent modules start in any order.
    return "".join(sorted(re.split(r"(?=<tr>)|(?=</tbody>)", html)))


if __name__ == "__main__":
    _format.write(executed(), NOTEBOOK)
