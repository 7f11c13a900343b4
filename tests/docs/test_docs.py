"""The Python snippets of the documentation run and print what their page shows."""

import doctest
import linecache
import os
from importlib import import_module
from pathlib import Path

import pytest

from apass.adapters.llvm.opt import find_opt
from apass.relay.ir.op_definition import OP_ATTRS
from tests.helpers.mlir_modules import program
from tests.helpers.repository import ROOT
from tests.helpers.warm_processes import WarmProcess

pytestmark = pytest.mark.process

FILES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
PAGES = {str(file.relative_to(ROOT)): text for file in FILES if "```" in (text := file.read_text())}
EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "apass").rglob("*.py")
    if ">>>" in path.read_text()
)
"""The modules whose docstrings have examples."""

RUN = """
import sys, warnings
from pathlib import Path
from tests.helpers.docs_snippets import main
warnings.simplefilter("error")
main(Path(sys.argv[1]), sys.argv[2])
"""
"""Runs the snippets of a page."""


def op_attrs() -> dict[tuple[str, str], tuple[int, object]]:
    """Return the attributes of all operators, by the names of attribute and operator."""
    import_module("apass.relay.op")  # registers them
    return {(attr, op): value for attr, values in OP_ATTRS.items() for op, value in values.items()}


def run_snippets(page: Path, backend: str, folder: Path) -> tuple[int, str, str]:
    """Run the snippets of a page; return exit status, output and errors."""
    with WarmProcess(RUN, [page, backend], environ={**os.environ, "PYTHONPATH": str(ROOT)}, folder=folder) as process:
        out, err = process.communicate()
        return process.wait(), out, err


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_page_shows_the_output_of_its_snippets(page: str, backend: str, tmp_path: Path) -> None:
    if page == "docs/how-to/mlir.md" and program() is None:
        pytest.skip("mlir-opt is not installed")
    if page == "docs/how-to/llvm.md" and find_opt() is None:
        pytest.skip("opt is not installed")
    assert run_snippets(ROOT / page, backend, tmp_path) == (0, "", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('```python\nprint(1)\n```\n```text title="Output"\n2\n```\n', "the page shows\n2\nbut the snippet printed\n1"),
        ("```python\nprint(1)\n```\n", "the page omits the output of a snippet:\n1"),
        ("```python\nassert 1 == 2\n```\n", "AssertionError"),
        ("```pycon\n>>> 1\n2\n```\n", "a block ```pycon"),
        ('```python\nprint(0.5)\n```\n```text title="Output (times vary)"\nfive\n```\n', "the page shows\nfive"),
    ],
)
def test_wrong_page_is_reported(text: str, message: str, anyio_backend: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    status, _, error = run_snippets(page, anyio_backend, tmp_path)
    assert (status, message in error) == (1, True), error


def test_varying_output_may_have_wider_columns(anyio_backend: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    output = '```text title="Output (times vary)"\nwall ms  pass\n 31.157  Fold\n```\n'
    page.write_text(f'```python\nprint(" wall ms  pass")\nprint("2031.157  Fold")\n```\n{output}')
    assert run_snippets(page, anyio_backend, tmp_path) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_docstring_examples_pass(name: str) -> None:
    if name == "apass.adapters.mlir.passes" and program() is None:
        pytest.skip("mlir-opt is not installed")
    # Each call of `testmod` looks at all files of the cache, which other tests have filled.
    linecache.clearcache()
    module = import_module(name)
    before = op_attrs()
    assert doctest.testmod(module).failed == 0
    assert before.items() <= op_attrs().items(), "the examples change operators for all that runs after them"
