"""The built assets of the pages: current, complete, and without addresses."""

import json
import re
from hashlib import sha256
from pathlib import Path

import anyio
import pytest

from tests.helpers.report_samples import recorded

PACKAGE = Path(__file__).parents[3] / "apass"
WEB = PACKAGE / "instruments" / "report" / "web"
ASSETS = {"report": PACKAGE / "instruments" / "report" / "assets", "live": PACKAGE / "service" / "http" / "assets"}
"""The folder of each page that is built from the sources."""
LIBRARIES = ("diff", "fflate", "preact")


def test_assets_were_built_from_the_current_sources() -> None:
    files = [path for path in (WEB / "src").rglob("*") if path.is_file()]
    sources = ["build.mjs", "package-lock.json", *(path.relative_to(WEB).as_posix() for path in files)]
    digest = sha256()
    for name in sorted(sources):
        digest.update(f"{name}\n".encode() + (WEB / name).read_bytes())
    recorded_digest = (WEB / "sources.sha256").read_text().strip()
    assert recorded_digest == digest.hexdigest(), "run `npm ci && npm run build` in apass/instruments/report/web"


@pytest.mark.parametrize("page", ASSETS)
def test_licenses_of_all_libraries_are_included(page: str) -> None:
    text = (ASSETS[page] / "LICENSES.txt").read_text()
    assert text.startswith(f"{page}.js contains")
    packages = json.loads((WEB / "package-lock.json").read_text())["packages"]
    for name in LIBRARIES:
        package = packages[f"node_modules/{name}"]
        assert f"\n{name} {package['version']} ({package['license']})\n" in text


def test_lock_file_has_hashes_and_no_addresses() -> None:
    packages = json.loads((WEB / "package-lock.json").read_text())["packages"]
    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert [name for name, package in packages.items() if name and "integrity" not in package] == []


def test_page_has_no_external_references() -> None:
    page = anyio.run(recorded, 2).render()
    assert re.findall(r'(?:src|href)="([^"]*)"', page.partition("<script")[0]) == ["data:,"]
    assert "default-src 'none'" in page
    assert page.count("</script>") == 3
    assert "<script>alert" not in page
