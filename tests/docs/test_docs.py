"""Every Python snippet of the documentation runs, on every event loop, and prints what its page says."""

import doctest
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import apass
from tests.architecture.test_layers import ROWS

ROOT = Path(__file__).parent.parent.parent
FILES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
PAGES = [str(file.relative_to(ROOT)) for file in FILES if "```" in file.read_text()]
MODULES = [found.name for found in walk_packages(apass.__path__, "apass.") if not found.name.endswith("__main__")]


def run_snippets(page: Path, backend: str, folder: Path) -> tuple[int, str, str]:
    """Run the snippets of a page in an interpreter of their own; return its exit status and what it wrote."""
    command = [sys.executable, "-W", "error", "-m", "tests.helpers.docs_snippets", str(page), backend]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("page", PAGES)
def test_the_snippets_of_a_page_do_what_the_page_says(page: str, anyio_backend: str, tmp_path: Path) -> None:
    assert run_snippets(ROOT / page, anyio_backend, tmp_path) == (0, "", "")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('```python\nprint(1)\n```\n```text title="Output"\n2\n```\n', "the page says\n2\nand the snippet printed\n1"),
        ("```python\nprint(1)\n```\n", "a snippet printed what the page does not say:\n1"),
        ("```python\nassert 1 == 2\n```\n", "AssertionError"),
        ("```pycon\n>>> 1\n2\n```\n", "a block ```pycon"),
        ('```python\nprint(0.5)\n```\n```text title="Output (times vary)"\nfive\n```\n', "the page says\nfive"),
    ],
)
def test_a_page_that_is_wrong_is_found_out(text: str, complaint: str, anyio_backend: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    status, _, error = run_snippets(page, anyio_backend, tmp_path)
    assert (status, complaint in error) == (1, True), error


def test_a_number_that_is_longer_than_the_one_on_the_page_may_make_its_column_wider(
    anyio_backend: str, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    said = '```text title="Output (times vary)"\nwall ms  pass\n 31.157  Fold\n```\n'
    page.write_text(f'```python\nprint(" wall ms  pass")\nprint("2031.157  Fold")\n```\n{said}')
    assert run_snippets(page, anyio_backend, tmp_path) == (0, "", "")


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_are_true(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0


def test_the_table_of_layers_in_the_design_is_the_one_that_is_checked() -> None:
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|", (ROOT / "docs/explanation/architecture.md").read_text(), re.MULTILINE)
    assert [(number, names.replace("`", "").strip()) for number, names in rows] == [
        (str(number), names) for number, names in enumerate(ROWS)
    ]
