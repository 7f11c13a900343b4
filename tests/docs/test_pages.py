"""Checks of the pages that the strict build of the site does not make."""

import re
from importlib import import_module
from pkgutil import resolve_name

import pytest

from tests.helpers.repository import ROOT

DOCS = ROOT / "docs"
PUBLIC = (
    "apass",
    "apass.executors",
    "apass.external",
    "apass.instruments",
    "apass.service",
    "apass.stores",
    "apass.testing",
)
PAGES = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_navigation_lists_every_page_once() -> None:
    # Zensical builds a page that the navigation leaves out, and ignores an entry without a page.
    navigation = (ROOT / "mkdocs.yml").read_text().partition("nav:")[2].partition("\nmarkdown_extensions:")[0]
    assert sorted(re.findall(r"[\w/-]+\.md", navigation)) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_page_shows_existing_images(page: str) -> None:
    # Zensical checks links to pages and anchors, but not images.
    images = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (DOCS / page).read_text())
    assert [image for image in images if not (DOCS / page).parent.joinpath(image).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_page_begins_with_one_title(page: str) -> None:
    text = re.sub(r"^```.*?^```", "", (DOCS / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    included = re.fullmatch(r'--8<-- "(.+)"\n', text)
    text = (ROOT / included[1]).read_text() if included else text
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1


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
