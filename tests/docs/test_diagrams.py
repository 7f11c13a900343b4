"""Diagrams become drawings when the site is built."""

import re
import subprocess
import sys

import pytest

from tests.helpers.repository import ROOT

pytestmark = [pytest.mark.process, pytest.mark.slow]


def draw(source: str) -> tuple[int, str, str]:
    """Draw a diagram; return exit status, drawing and errors."""
    pytest.importorskip("mermaidx")
    # A process of its own: the interpreter of the drawings reports leaks when the process ends.
    code = "import sys; from docs.diagrams import draw; print(draw(sys.stdin.read(), 'mermaid'))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, input=source, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_names_in_drawings_are_unique() -> None:
    names = [set(re.findall(r' id="([^"]+)"', draw(f"flowchart LR\n  a --> {name}\n")[1])) for name in "bc"]
    assert (min(map(len, names)) > 0, names[0] & names[1]) == (True, set())


def test_drawing_loads_nothing() -> None:
    page = (ROOT / "docs/explanation/service.md").read_text()
    status, drawing, errors = draw(re.findall(r"^```mermaid\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0])
    assert (status, "cancelled" in drawing) == (0, True), errors
    assert re.findall(r'<script|@import|url\((?!#)|(?:href|src)="(?!#)', drawing) == []


def test_wrong_diagram_fails_the_build() -> None:
    # Zensical shows a block as code after any other error.
    status, _, errors = draw("flowchart LR\n  a --> --> b[\n")
    assert (status, "SuperFencesException: mermaid: " in errors) == (1, True), errors
