"""The files of the live page, without a browser."""

import re
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from apass.service import Optimizer, create_app
from apass.service.http.auth import Tokens, new_token

pytestmark = pytest.mark.anyio

ADDRESSES = re.compile(r'(?:src|href|data-report)="([^"]*)"')


def client_of(app: object, path: str = "/") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1{path}")


async def test_page_and_its_files_need_no_token() -> None:
    _, token = new_token("alice")
    async with client_of(create_app(Optimizer(), auth=Tokens([token]))) as client:
        page = await client.get("/")
        assert (page.status_code, page.headers["cache-control"]) == (200, "no-store")
        paths = [path for path in ADDRESSES.findall(page.text) if path.startswith("assets/")]
        assert len(paths) == 3
        for path in paths:
            answer = await client.get(path)
            assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")
            assert answer.headers["content-type"].startswith(("text/javascript", "text/css", "text/html"))
            assert (await client.get(path, headers={"if-none-match": answer.headers["etag"]})).status_code == 304
        assert (await client.get("/v1/jobs")).status_code == 401


async def test_policy_allows_no_inline_code() -> None:
    async with client_of(create_app(Optimizer())) as client:
        page = await client.get("/")
        policy = page.headers["content-security-policy"]
        assert ("default-src 'none'" in policy, "frame-ancestors 'none'" in policy, "unsafe" in policy) == (
            True,
            True,
            False,
        )
        assert re.findall(r"<script(?! src=)|<style|\son\w+=|style=", page.text) == []
        frame = await client.get(re.findall(r'data-report="([^"]*)"', page.text)[0])
        assert frame.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'")
        for path in ADDRESSES.findall(frame.text):
            answer = await client.get(f"/assets/{path}")
            assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
        answer = await client.get("/assets/live.js", headers={"accept-encoding": "br, gzip;q=0.5"})
        assert answer.headers["content-encoding"] == "gzip"


async def test_addresses_are_relative_to_the_mount() -> None:
    app = Starlette(routes=[Mount("/tools/apass", create_app(Optimizer()))])
    async with client_of(app, "/tools/apass/") as client:
        page = await client.get("")
        for path in ADDRESSES.findall(page.text):
            if path.startswith("assets/"):
                assert (await client.get(path)).status_code == 200
    # A page without a slash at its end is redirected.
    service: Any = create_app(Optimizer())

    async def mount(scope: Scope, receive: Receive, send: Send) -> None:
        # As Litestar does it.
        await service({**scope, "path": "/", "raw_path": b"/tools/apass"}, receive, send)

    async with client_of(mount) as client:
        answer = await client.get("/tools/apass")
        assert (answer.status_code, answer.headers["location"]) == (307, "./apass/")
    async with client_of(create_app(Optimizer(), page=False)) as client:
        assert (await client.get("/")).status_code == 404
