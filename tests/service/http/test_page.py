"""The files of the live page."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from apass.service.http.page import PAGE_POLICY, page_files

pytestmark = pytest.mark.anyio


async def test_files_are_served_with_their_types(tmp_path: Path) -> None:
    for name in ("index.html", "live.js", "live.css", "notes.md"):
        (tmp_path / name).write_text(name)
    files = page_files(tmp_path)
    assert set(files) == {"/", "/assets/live.js", "/assets/live.css"}
    app = Starlette(routes=[Route(path, file.get) for path, file in files.items()])
    transport: Any = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        page = await client.get("/")
        assert (page.text, page.headers["content-type"]) == ("index.html", "text/html; charset=utf-8")
        assert page.headers["content-security-policy"] == PAGE_POLICY
        script = await client.get("/assets/live.js")
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        known = await client.get("/", headers={"if-none-match": page.headers["etag"]})
        assert (known.status_code, known.content) == (304, b"")
        assert (await client.get("/assets/notes.md")).status_code == 404


def test_policy_of_the_page_has_no_inline_script() -> None:
    assert "unsafe" not in PAGE_POLICY
    assert "script-src 'self'" in PAGE_POLICY


def test_page_without_files_has_no_routes(tmp_path: Path) -> None:
    assert page_files(tmp_path / "missing") == {}
