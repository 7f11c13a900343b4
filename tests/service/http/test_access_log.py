"""The log of requests, read from its logger."""

import json
import logging
from typing import Any

import pytest

from apass.service import Optimizer, Tokens, new_token
from apass.service.http.access_log import LOGGER
from tests.helpers.http_servers import raw_client, served, until
from tests.service.models import model_of

pytestmark = [pytest.mark.anyio, pytest.mark.network]

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    records = [record for record in caplog.records if record.name == LOGGER.name]
    lines = [json.loads(record.getMessage()) for record in records]
    assert lines == [vars(record)["fields"] for record in records]
    return lines


async def test_request_is_one_line_of_json(caplog: pytest.LogCaptureFixture) -> None:
    secret, token = new_token("ada")
    headers = {"Authorization": f"Bearer {secret}", "traceparent": TRACE}
    with caplog.at_level(logging.INFO, LOGGER.name):
        async with served(Optimizer(), auth=Tokens([token])) as client:
            answer = await client.post("/v1/jobs?name=m.onnx&wait=20", content=model_of(1), headers=headers)
            job_id = answer.json()["id"]
            await client.get(f"/v1/jobs/{job_id}/result", headers=headers)
            await client.get("/v1/jobs?q=secret")
            await until(lambda: len(logged(caplog)) == 3)
    first, second, third = logged(caplog)
    assert first.pop("seconds") > 0
    assert first.pop("time") > 1e9
    assert first.pop("bytes") == len(answer.content)
    whole = {"method": "POST", "path": "/v1/jobs", "status": 200, "client": "127.0.0.1", "tenant": "ada"}
    assert first == {**whole, "job": job_id, "trace": TRACE}
    assert (second["job"], second["status"], second["tenant"]) == (job_id, 200, "ada")
    # The query is not logged, nor is there a tenant without a token.
    assert (third["path"], third["status"], third.get("tenant")) == ("/v1/jobs", 401, None)


async def test_aborted_request_is_marked_unless_disabled(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER.name):
        async with served(Optimizer()) as client:
            host = client.base_url.netloc.decode()
            async with raw_client(client) as raw:
                await raw.send(f"POST /v1/jobs HTTP/1.1\nHost: {host}\nContent-Length: 100", b"half")
            await until(lambda: bool(logged(caplog)))
    (line,) = logged(caplog)
    assert line["aborted"] is True
    assert "status" not in line
    caplog.clear()
    with caplog.at_level(logging.WARNING, LOGGER.name):
        async with served(Optimizer()) as client:
            assert (await client.get("/healthz")).status_code == 200
    assert logged(caplog) == []
