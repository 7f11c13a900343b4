"""Execution of notebooks in a real kernel."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

_format: Any = nbformat  # its functions have no types


def execute(notebook: Any, folder: Path) -> None:
    """Execute all cells of a notebook in a folder; errors become outputs."""
    # Sockets of the file system, which other users of this machine cannot reach. Their paths must be short.
    with TemporaryDirectory() as sockets:
        manager = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{sockets}/kernel")
        client = NotebookClient(notebook, km=manager, timeout=120, allow_errors=True)
        client.execute(cleanup_kc=True, cwd=str(folder))


def outputs_of(folder: Path, *cells: str) -> list[Mapping[str, str]]:
    """Return the last output of each cell by type: `text/plain`, `text/html`, `error`."""
    notebook = _format.v4.new_notebook(cells=[_format.v4.new_code_cell(cell) for cell in cells])
    execute(notebook, folder)
    return [_output(cell.outputs[-1]) if cell.outputs else {} for cell in notebook.cells]


def _output(output: Any) -> Mapping[str, str]:
    if output.output_type == "error":
        return {"error": f"{output.ename}: {output.evalue}"}
    return {"text/plain": output.text} if output.output_type == "stream" else dict(output.data)
