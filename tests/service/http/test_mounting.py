"""The application within other applications, and under each server."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from litestar import Litestar, asgi, get
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from apass.service import Optimizer, create_app
from apass.service.http.openapi import describe_api
from tests.helpers.http_servers import client_of, served
from tests.helpers.servers import http_server
from tests.service.http.models import IDENTITY, Params

pytestmark = [pytest.mark.anyio, pytest.mark.network]

SUBMIT: Params = {"name": "net.onnx", "wait": 30}


def onnx_optimizer() -> Optimizer:
    return Optimizer({"default": "onnx.IdentityElimination"})


async def check_mounted(app: Any, server: str | None = None) -> None:
    """Serve an application with the service at `/apass`, and its own page at `/own`."""
    async with http_server(app, server=server) as address, httpx.AsyncClient(base_url=address, timeout=30) as own:
        assert (await own.get("/own")).text == "own page"
        async with client_of(f"{address}/apass") as client:
            answer = await client.post("/v1/jobs", params=SUBMIT, content=IDENTITY)
            job = answer.json()
            assert (answer.status_code, job["state"]) == (200, "done"), job
            assert answer.headers["location"] == job["links"]["self"] == f"/apass/v1/jobs/{job['id']}"
            assert (await own.get(job["links"]["result"])).status_code == 200
            assert (await client.get("/readyz")).json() == {"status": "ready"}
            events = await own.get(job["links"]["events"])
            assert "event: state" in events.text
            unknown = await client.get("/v1/nothing")
            assert unknown.json()["detail"] == (
                "there is no path '/apass/v1/nothing'; those of the service begin with /apass/v1/, "
                "and GET /apass/v1/openapi.json describes all"
            )
            assert unknown.status_code == 404
            described = (await client.get("/v1/openapi.json")).json()
            assert described == {**json.loads(json.dumps(describe_api())), "servers": [{"url": "/apass"}]}


def opens(optimizer: Optimizer) -> Any:
    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[None]:
        async with optimizer:
            yield

    return lifespan


async def own_page(_: Request) -> PlainTextResponse:
    return PlainTextResponse("own page")


@pytest.mark.parametrize("server", [None, "hypercorn"])
async def test_application_is_served_by_itself(server: str | None) -> None:
    optimizer = onnx_optimizer()
    async with served(optimizer, server=server) as client:
        assert (await client.post("/v1/jobs", params=SUBMIT, content=IDENTITY)).json()["state"] == "done"
        assert optimizer.is_open
    assert not optimizer.is_open
    # One that is open before stays open.
    async with optimizer:
        async with served(optimizer) as client:
            assert (await client.get("/readyz")).status_code == 200
        assert optimizer.is_open


@pytest.mark.parametrize("server", [None, "hypercorn"])
async def test_starlette_mounts_the_application(server: str | None) -> None:
    optimizer = onnx_optimizer()
    routes = [Route("/own", own_page), Mount("/apass", create_app(optimizer))]
    await check_mounted(Starlette(routes=routes, lifespan=opens(optimizer)), server)


async def test_litestar_mounts_the_application() -> None:
    optimizer = onnx_optimizer()

    @get("/own", media_type="text/plain", sync_to_thread=False)
    def own() -> str:
        return "own page"

    service = asgi("/apass", is_mount=True, copy_scope=True)(create_app(optimizer))
    await check_mounted(Litestar([own, service], lifespan=[lambda _: optimizer], openapi_config=None))


async def test_mounted_application_names_the_missing_lifespan() -> None:
    optimizer = onnx_optimizer()
    app = Starlette(routes=[Mount("/apass", create_app(optimizer))])
    async with http_server(app) as address, client_of(f"{address}/apass") as client:
        for answer in (
            await client.post("/v1/jobs", params=SUBMIT, content=IDENTITY),
            await client.get(f"/v1/jobs/{'0' * 32}"),
            await client.get("/v1/status"),
            await client.get("/v1/events"),
            await client.get("/v1/jobs"),
            await client.post("/v1/plan", json={}),
        ):
            problem = answer.json()
            assert (answer.status_code, problem["type"]) == (503, "urn:apass:OptimizerClosedError")
            assert "must write `async with optimizer:` in its own lifespan" in problem["detail"]
        assert (await client.get("/readyz")).json()["reason"] == "the optimizer is not open"
        assert (await client.get("/healthz")).status_code == 200
