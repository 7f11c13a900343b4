"""The pages of the built site begin with their title and a readable introduction."""

import html
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.helpers.repository import ROOT

pytestmark = [pytest.mark.process, pytest.mark.slow]

WORDS = 6
"""A run of this many words that an introduction has twice was pasted twice."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Build the site without its API, and return the articles of its pages."""
    pytest.importorskip("zensical")
    # Zensical reads and writes within the folder of its configuration only.
    folder = tmp_path_factory.mktemp("site")
    for name in ("docs", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "CHANGELOG.md", folder)
    # The documentation of the API takes half of the time, and its pages begin before it.
    settings = re.sub(
        r"^  - mkdocstrings:.*?(?=^\S)", "", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE | re.DOTALL
    )
    (folder / "mkdocs.yml").write_text(settings)
    command = [sys.executable, "-m", "zensical", "build"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {str(page.relative_to(folder / "site")): article(page) for page in (folder / "site").rglob("*.html")}


def article(page: Path) -> str:
    """Return the article of a page, without its anchor and comments."""
    found = re.search(r"<article[^>]*>(.*)</article>", page.read_text(), re.DOTALL)
    assert found is not None, page
    return re.sub(r'<a id="__skip".*?</a>|<!--.*?-->', "", found[1], flags=re.DOTALL).strip()


def introduction(text: str) -> str:
    """Return the text before the first section or name of the API."""
    paragraphs = re.findall(r"<p>(.*?)</p>", re.split("<h2|<p>:::", text)[0], re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", " ".join(paragraphs))).split())


def repeated(text: str) -> list[str]:
    """Return the runs of `WORDS` words that a text has more than once."""
    words = text.split()
    runs = Counter(" ".join(words[start : start + WORDS]) for start in range(len(words) - WORDS + 1))
    return [run for run, count in runs.items() if count > 1]


def test_built_pages_begin_with_their_title(site: Mapping[str, str]) -> None:
    assert len(site) > len(list((ROOT / "docs").rglob("*.md")))  # with the page of unknown addresses
    assert [page for page, text in site.items() if not text.startswith("<h1")] == []


def test_built_introductions_repeat_no_phrase(site: Mapping[str, str]) -> None:
    assert {page: runs for page, text in site.items() if (runs := repeated(introduction(text)))} == {}


def test_repeated_phrase_is_found() -> None:
    text = "For mistakes in a pass, see here. For mistakes in a pass, see here."
    assert repeated(text)[0] == "For mistakes in a pass, see"
    assert (
        introduction("<h1>Title</h1>\n<p>A <em>b</em>\nc.</p><p>D &amp; e.</p><h2>F</h2><p>G.</p>") == "A b c. D & e."
    )
