"""Health, status and metrics of a server."""

from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from apass.service import (
    JobRecord,
    JobsUnavailableError,
    Limits,
    Optimizer,
    ServiceMetrics,
    Tokens,
    create_app,
    new_token,
)
from apass.service.http import health as health_module
from tests.helpers.http_servers import served
from tests.helpers.rows import row
from tests.service.http.models import IDENTITY, RELU, Gate, Params
from tests.service.job_stores import FaultyStore

pytestmark = [pytest.mark.anyio, pytest.mark.network]


class SlowStore(FaultyStore):
    """A store that waits on demand."""

    is_slow = False

    async def find(self, job_id: str) -> JobRecord | None:
        if self.is_slow:
            await anyio.sleep_forever()
        return await super().find(job_id)


async def test_standby_is_alive_and_unready(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    second = Optimizer(store=path, standby=True)
    async with Optimizer(store=path) as first, served(second) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"status": "not ready", "reason": "standby"})
        for refused in (
            await client.get("/v1/jobs"),
            await client.get("/v1/status"),
            await client.post("/v1/jobs", params={"suffix": "onnx"}, content=RELU),
        ):
            assert (refused.status_code, refused.json()["type"]) == (503, "urn:apass:OptimizerClosedError")
            assert "is a standby: another process uses the store of the jobs" in refused.json()["detail"]
        await first.drain()
        await first.store.close()
        await second.wait_active()
        assert (await client.get("/readyz")).json() == {"status": "ready"}
        assert (await client.get("/v1/jobs")).json()["jobs"] == []


async def test_failing_store_makes_the_server_unready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "PROBE_SECONDS", 0.05)
    store = SlowStore()
    optimizer = Optimizer({"default": "onnx.IdentityElimination"}, store=store)
    async with served(optimizer) as client:
        assert (await client.get("/readyz")).json() == {"status": "ready"}
        store.is_slow = True
        assert "has not answered" in (await client.get("/readyz")).json()["reason"]
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        store.is_slow = False
        store.before = {"add", "find"}
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert answer.json() == {"status": "not ready", "reason": "find fails"}
        refused = await client.post("/v1/jobs", params={"suffix": "onnx"}, content=RELU)
        assert (refused.status_code, refused.json()["retry_after"]) == (503, 5.0)
        store.error = partial(JobsUnavailableError, is_full=True)
        full = await client.post("/v1/jobs", params={"suffix": "onnx"}, content=RELU)
        assert (full.status_code, full.json()["status"]) == (507, 507)
        # The optimizer knows of it, and tries the store again.
        assert (await client.get("/readyz")).json()["reason"] == "add fails"
        store.before = set()
        while optimizer.status().error is not None:
            await anyio.lowlevel.checkpoint()
        assert (await client.get("/readyz")).status_code == 200


async def test_draining_server_accepts_no_jobs() -> None:
    gate = Gate()
    optimizer = Optimizer({"gate": gate.pass_}, limits=Limits(drain=30))
    async with served(optimizer) as client:
        params: Params = {"suffix": "onnx", "pipeline": "gate"}
        job = (await client.post("/v1/jobs", params=params, content=RELU)).json()
        await gate.entered.wait()
        async with anyio.create_task_group() as group:
            group.start_soon(optimizer.drain)
            await anyio.lowlevel.checkpoint()
            assert (await client.get("/readyz")).json()["reason"] == "the optimizer ends"
            refused = await client.post("/v1/jobs", params=params, content=IDENTITY)
            assert (refused.status_code, refused.json()["type"]) == (503, "urn:apass:OptimizerClosedError")
            assert refused.headers["retry-after"] == "5"
            status = (await client.get("/v1/status")).json()
            assert (status["accepts"], status["server"]["running"]) == (False, 1)
            gate.opened.set()
            # What was accepted can still be read.
            assert (await client.get(job["links"]["self"], params={"wait": 30})).json()["state"] == "done"


async def test_status_says_what_is_accepted() -> None:
    limits = Limits(model_bytes=1000, config=frozenset({"relay.FuseOps.max_depth"}))
    async with served(Optimizer(limits=limits)) as client:
        status = (await client.get("/v1/status")).json()
        assert (status["limits"]["model_bytes"], status["limits"]["deadline"]) == (1000, None)
        assert ".onnx" in status["suffixes"]
        (option,) = status["config"]
        assert (option["name"], option["type"]) == ("relay.FuseOps.max_depth", "int")


async def test_metrics_need_an_observer_and_a_token() -> None:
    secret, token = new_token("root", ["metrics", "submit"])
    headers = {"authorization": f"Bearer {secret}"}
    async with served(Optimizer(), auth=Tokens([token])) as client:
        missing = await client.get("/metrics", headers=headers)
        detail = "the server keeps no metrics; add ServiceMetrics to observers of its Optimizer"
        assert (missing.status_code, missing.json()["detail"]) == (404, detail)
    optimizer = Optimizer({"default": "onnx.IdentityElimination"}, observers=[ServiceMetrics()])
    async with served(optimizer, auth=Tokens([token])) as client:
        params: Params = {"suffix": "onnx", "wait": 30}
        await client.post("/v1/jobs", params=params, content=IDENTITY, headers=headers)
        answer = await client.get("/metrics", headers=headers)
        assert answer.headers["content-type"].startswith("text/plain; version=")
        assert "apass_jobs_accepted_total 1.0" in answer.text
        assert (await client.get("/metrics")).status_code == 401


def test_invalid_option_is_refused() -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"hosts": "localhost"}, r"write \['localhost'\]"),
        ({"body_seconds": 0}, "body_seconds must be a positive number of seconds, got 0"),
        ({"heartbeat": None}, "heartbeat must be a positive number"),
        ({"auth": "x"}, "must be an Authenticator"),
        ({"page": 3}, "page must be"),
        ({"allow_remote": "no"}, "allow_remote must be"),
        ({"upload_folder": "folder"}, "upload_folder must be"),
        ({"hosts": 5}, "hosts must be"),
    ]
    for options, message in rows:
        with row(options), pytest.raises((TypeError, ValueError), match=message):
            create_app(Optimizer(), **options)


async def test_two_applications_share_an_optimizer() -> None:
    secret, token = new_token("alice")
    optimizer = Optimizer({"default": "onnx.IdentityElimination"})
    async with optimizer, served(optimizer) as local, served(optimizer, auth=Tokens([token])) as remote:
        headers = {"authorization": f"Bearer {secret}"}
        job = (await remote.post("/v1/jobs?suffix=onnx", content=RELU, headers=headers)).json()
        assert (await local.get(job["links"]["self"])).json()["tenant"] == "alice"
