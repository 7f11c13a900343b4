"""Executes the notebook of the documentation.

`python -m tests.docs.notebook` executes it again and stores the outputs. `docs/notebook_page.py` puts it into its page.
"""

import re
import tempfile
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


def comparable(notebook: Any) -> list[object]:
    """Return the sources and outputs of a notebook, without times and reports."""
    return [(cell.source, [_masked(_shown(output)) for output in cell.get("outputs", ())]) for cell in notebook.cells]


def _shown(output: Any) -> str:
    """Return what an output shows."""
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}"
    return str(
        output.text if output.output_type == "stream" else output.data.get("text/html") or output.data["text/plain"]
    )


def _masked(html: str) -> str:
    # The time of hooks has a row of its own if it is long.
    html = re.sub(r"<tr>(?:(?!<tr>).)*\(hooks of instruments\).*?</tr>", "", html)
    html = re.sub(r'srcdoc="[^"]*"|\d+(\.\d+)?', "", html)
    # Concurrent modules start in any order.
    return "".join(sorted(re.split(r"(?=<tr>)|(?=</tbody>)", html)))


if __name__ == "__main__":
    _format.write(executed(), NOTEBOOK)
