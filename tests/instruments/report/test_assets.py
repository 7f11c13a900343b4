"""What is ready made for the page: made of the sources that stand beside it, complete, and without an address."""

import json
import re
from hashlib import sha256
from pathlib import Path

import anyio

from tests.instruments.report.samples import recorded

REPORT = Path(__file__).parent.parent.parent.parent / "apass" / "report"
WEB = REPORT / "web"
ASSETS = REPORT / "assets"
LIBRARIES = ("diff", "fflate", "preact")


def test_the_assets_were_made_of_the_sources_as_they_are() -> None:
    sources = ["build.mjs", "package-lock.json", *(f"src/{path.name}" for path in (WEB / "src").iterdir())]
    digest = sha256()
    for name in sorted(sources):
        digest.update(f"{name}\n".encode() + (WEB / name).read_bytes())
    made_of = (ASSETS / "sources.sha256").read_text().strip()
    assert made_of == digest.hexdigest(), "run `npm ci && npm run build` in apass/report/web"


def test_every_library_in_the_page_has_its_licence_beside_it() -> None:
    text = (ASSETS / "LICENSES.txt").read_text()
    packages = json.loads((WEB / "package-lock.json").read_text())["packages"]
    for name in LIBRARIES:
        about = packages[f"node_modules/{name}"]
        assert f"\n{name} {about['version']} ({about['license']})\n" in text


def test_the_lock_names_versions_and_hashes_and_no_place() -> None:
    packages = json.loads((WEB / "package-lock.json").read_text())["packages"]
    assert [name for name, about in packages.items() if "resolved" in about] == []
    assert [name for name, about in packages.items() if name and "integrity" not in about] == []


def test_a_page_refers_to_nothing_outside() -> None:
    page = anyio.run(recorded, 2).render()
    assert re.findall(r'(?:src|href)="([^"]*)"', page.partition("<script")[0]) == ["data:,"]
    assert "default-src 'none'" in page
    assert page.count("</script>") == 3
    assert "<script>alert" not in page
