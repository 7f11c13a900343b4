"""Checks of the pages that the strict build of the site does not make."""

import json
import re
import tomllib
from importlib import import_module
from pkgutil import resolve_name
from typing import Any

import pytest

from tests.docs.code_names import unknown, unknown_to_contributors
from tests.helpers.repository import ROOT

DOCS = ROOT / "docs"
PUBLIC = (
    "apass",
    "apass.batch",
    "apass.debugging",
    "apass.executors",
    "apass.external",
    "apass.instruments",
    "apass.plugins",
    "apass.search",
    "apass.service",
    "apass.stores",
    "apass.testing",
)
PAGES = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
FOR_CONTRIBUTORS = {
    "CONTRIBUTING.md": {
        "+report-waits.added.md",
        ".venv/bin",
        "PATH",
        "area: imperative verb and object",
        "chromium-headless-shell",
        "ci",
        "import apass",
        "onnx_ir.passes.common",
        "redis-server",
        "source .venv/bin/activate",
        "stores: retry after a lock timeout",
        "test_<subject>_<does what>[_when_<condition>]",
        "timeout must be a positive number of seconds or None, got 'x'",
    },
    "README.md": {"await"},
    "RELEASING.md": {
        'git tag -a vX.Y.Z -m "apass X.Y.Z"',
        "git push origin vX.Y.Z",
        "pypi",
        "release: prepare X.Y.Z",
    },
    "SECURITY.md": set[str](),
}
"""The pages of the repository, and the code in them that is no name of its own."""


def text_of(page: str) -> str:
    """Return the text of a page, or that of the file that it includes."""
    text = (ROOT / page).read_text()
    included = re.fullmatch(r'--8<-- "(.+)"\n|<!-- notebook: (.+) -->\n', text)
    if included is None:
        return text
    text = (ROOT / (included[1] or included[2])).read_text()
    if included[1]:
        return text
    cells: list[dict[str, Any]] = json.loads(text)["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def test_navigation_lists_every_page_once() -> None:
    # Zensical builds a page that the navigation leaves out, and ignores an entry without a page.
    navigation = (ROOT / "mkdocs.yml").read_text().partition("nav:")[2].partition("\nmarkdown_extensions:")[0]
    assert sorted(re.findall(r"[\w/-]+\.md", navigation)) == PAGES


def test_pages_show_existing_images() -> None:
    # Zensical checks links to pages and anchors, but not images.
    for page in PAGES:
        images = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (DOCS / page).read_text())
        assert [image for image in images if not (DOCS / page).parent.joinpath(image).exists()] == [], page


def test_pages_begin_with_one_title() -> None:
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", text_of(f"docs/{page}"), flags=re.DOTALL | re.MULTILINE)
        assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1, page


@pytest.mark.parametrize("module", PUBLIC)
def test_api_pages_document_every_public_name(module: str) -> None:
    pages = "\n".join(page.read_text() for page in (DOCS / "reference/api").glob("*.md"))
    documented = {id(resolve_name(name)) for name in re.findall(r"^::: (\S+)$", pages, re.MULTILINE)}
    names: list[str] = import_module(module).__all__
    values = {name: resolve_name(f"{module}:{name}") for name in names}
    packages = {name for name, value in values.items() if hasattr(value, "__path__")}
    assert [name for name, value in values.items() if id(value) not in documented and name not in packages] == []


def test_glossary_defines_sorted_linked_terms() -> None:
    terms = re.findall(r"^## (.+)$", (DOCS / "reference/glossary.md").read_text(), re.MULTILINE)
    pages = "\n".join((DOCS / page).read_text() for page in PAGES)
    links = set(re.findall(r"glossary\.md#([\w-]+)", pages))
    assert terms == sorted(set(terms), key=str.lower)
    assert [term for term in terms if term.lower().replace(" ", "-") not in links] == []


@pytest.mark.parametrize("page", [*(f"docs/{page}" for page in PAGES), *FOR_CONTRIBUTORS])
def test_code_names_existing_commands_and_files(page: str) -> None:
    assert unknown(text_of(page)) == []


@pytest.mark.slow
@pytest.mark.parametrize("page", FOR_CONTRIBUTORS)
def test_code_for_contributors_is_defined(page: str) -> None:
    assert set(unknown_to_contributors((ROOT / page).read_text())) == FOR_CONTRIBUTORS[page]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("`pytest tests/nowhere -m 'slow and quick'`", ["tests/nowhere", "quick"]),
        ("`nox -s lint tests -- tests/core`", ["tests"]),
        ("`python -m tests.nothing`", ["tests.nothing"]),
        ("`apass opt --timings`", ["--timings"]),
        ("```sh\npip install -e '.[cli,gui]' && apass cache clear --forced\n```\n", ["gui", "--forced"]),
        ("`apass/core/adapters.py`", ["apass/core/adapters.py"]),
        ("the entry point `apass.adapters`, or `apass.irs`", ["apass.adapters"]),
        ("`apass.PassContexts` of `apass.core`", ["apass.PassContexts"]),
        ("`pytest tests/core/test_*.py -m slow`, `nox -s test-bare`, `apass.Sequential`", []),
    ],
)
def test_unknown_name_in_code_is_found(text: str, wrong: list[str]) -> None:
    assert [found.rpartition(": ")[2] for found in unknown(text)] == wrong


def test_unknown_name_for_contributors_is_found() -> None:
    text = "Add `Cost` of `apass/core/adapter.py` to `IRAdapter` (`apass/core/adapter.py`) with `no_such_name`."
    assert unknown_to_contributors(text) == ["no_such_name", "Cost in apass/core/adapter.py"]


def test_news_fragments_have_known_types() -> None:
    types = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
    pattern = re.compile(rf"(\d+|\+[\w-]+)\.({'|'.join(kind['directory'] for kind in types)})\.md|README\.md")
    assert [path.name for path in (ROOT / ".news").iterdir() if not pattern.fullmatch(path.name)] == []
