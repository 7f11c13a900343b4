"""Jobs over HTTP: submit, read, cancel, remove, retry."""

import json
from typing import Any

import anyio
import httpx
import onnx
import pytest

import apass
from apass.service import JobOptions, Limits, Optimizer
from tests.helpers.http_servers import served
from tests.helpers.rows import row
from tests.service.http.models import IDENTITY, OPTIMIZED, RELU, Gate, Params, named
from tests.service.job_stores import FaultyStore

pytestmark = [pytest.mark.anyio, pytest.mark.network]

ONNX: Params = {"suffix": "onnx"}


def onnx_optimizer(**options: Any) -> Optimizer:
    pipelines = {"default": "onnx.IdentityElimination", **options.pop("pipelines", {})}
    return Optimizer(pipelines, **options)


def gated(gate: Gate, **options: Any) -> Optimizer:
    return onnx_optimizer(pipelines={"gate": gate.pass_}, **options)


async def test_finished_job_has_the_optimized_model() -> None:
    async with served(onnx_optimizer()) as client:
        answer = await client.post("/v1/jobs", params={**ONNX, "wait": 30}, content=IDENTITY)
        job = answer.json()
        assert (answer.status_code, job["state"], job["kind"]) == (200, "done", ".onnx")
        assert answer.headers["location"] == job["links"]["self"] == f"/v1/jobs/{job['id']}"
        result = await client.get(job["links"]["result"])
        assert len(onnx.load_from_string(result.content).graph.node) == OPTIMIZED
        assert result.headers["etag"] == f'"{job["result"]["digest"]}"'
        assert (await client.get(job["links"]["model"])).content == IDENTITY
        assert "<title>model.onnx</title>" in (await client.get(job["links"]["report"])).text
        assert (await client.get(job["links"]["self"])).json() == job
        # A form has the parameters, too.
        fields = {"opt_level": "3", "required": "onnx.Inline,onnx.Simplify", "report": "false", "wait": "30"}
        fields["name"] = "ключ.onnx"
        job = (await client.post("/v1/jobs", files={"model": ("net.onnx", IDENTITY)}, data=fields)).json()
        assert (job["name"], job["state"], job["links"]["report"]) == ("ключ.onnx", "done", None)
        assert (job["options"]["opt_level"], job["options"]["required"]) == (3, ["onnx.Inline", "onnx.Simplify"])
        assert (await client.get(job["links"]["model"])).content == IDENTITY


async def test_submission_is_accepted_before_it_runs() -> None:
    gate = Gate()
    async with served(gated(gate)) as client:
        answer = await client.post("/v1/jobs", params={**ONNX, "pipeline": "gate"}, content=RELU)
        path = answer.headers["location"]
        assert (answer.status_code, answer.json()["state"] in ("queued", "running")) == (202, True)
        waiting = await client.get(path, params={"wait": 0.01})
        assert (waiting.status_code, waiting.json()["finished"]) == (200, None)
        for part in ("result", "report"):
            answer = await client.get(f"{path}/{part}")
            assert (answer.status_code, answer.json()["type"]) == (409, "urn:apass:NoResultError")
        assert (await client.get(f"{path}/report", params={"wait": 0.01})).status_code == 409
        await gate.entered.wait()
        answers: dict[str, httpx.Response] = {}

        async def read(part: str) -> None:
            answers[part] = await client.get(f"{path}{part}", params={"wait": 30})

        async with anyio.create_task_group() as group:
            for part in ("", "/result", "/report"):
                group.start_soon(read, part)
            await client.get("/healthz")
            gate.opened.set()
        assert (answers[""].json()["state"], answers["/result"].content) == ("done", RELU)
        assert (answers["/report"].status_code, "<title>model.onnx</title>" in answers["/report"].text) == (200, True)


async def test_wait_of_submission_may_end_before_job() -> None:
    gate = Gate()
    async with served(gated(gate), max_wait=0.01) as client:
        params: Params = {**ONNX, "pipeline": "gate", "wait": 1e9}
        assert (await client.post("/v1/jobs", params=params, content=RELU)).status_code == 202
        gate.opened.set()
    gate = Gate()
    async with served(gated(gate)) as client:
        params = {**ONNX, "pipeline": "gate", "wait": 30}
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/v1/jobs", params=params, content=RELU, timeout=httpx.Timeout(10, read=0.1))
        await gate.entered.wait()
        gate.opened.set()
        (job,) = (await client.get("/v1/jobs")).json()["jobs"]
        assert (await client.get(job["links"]["self"], params={"wait": 30})).json()["state"] == "done"


async def test_kind_of_the_model_is_found() -> None:
    rows: dict[str, tuple[dict[str, str], dict[str, str]]] = {
        "suffix": ({"suffix": ".ONNX"}, {"content-type": "application/x-mlir"}),
        "type": ({}, {"content-type": "application/onnx"}),
        "type before name": ({"name": "net.mlir"}, {"content-type": "application/x-onnx; version=1"}),
        "name": ({"name": "NET.ONNX"}, {"content-type": "application/octet-stream"}),
        "disposition": ({}, {"content-disposition": 'attachment; filename="a b.onnx"'}),
    }
    async with served(onnx_optimizer(reuse=False)) as client:
        for name, (params, headers) in rows.items():
            with row(name):
                query = {**params, "wait": "30"}
                answer = await client.post("/v1/jobs", params=query, content=IDENTITY, headers=headers)
                assert (answer.json()["kind"], answer.json()["state"]) == (".onnx", "done")


async def test_result_is_returned_at_once_if_accepted() -> None:
    async with served(onnx_optimizer()) as client:
        headers = {"accept": "application/octet-stream"}
        params: Params = {"name": "net.onnx", "wait": 30}
        answer = await client.post("/v1/jobs", params=params, content=IDENTITY, headers=headers)
        assert len(onnx.load_from_string(answer.content).graph.node) == OPTIMIZED
        assert answer.headers["content-type"] == "application/onnx"
        assert answer.headers["content-disposition"] == 'attachment; filename="net.onnx"'
        assert (await client.get(answer.headers["location"])).json()["state"] == "done"
        failed = await client.post("/v1/jobs", params=params, content=b"junk", headers=headers)
        assert (failed.status_code, failed.json()["type"]) == (422, "urn:apass:JobFailedError")
        job = (await client.get(failed.headers["location"])).json()
        assert (job["state"], job["id"]) == ("failed", failed.json()["job"])
        again = await client.post(f"{job['links']['self']}/retry", params={"wait": 30}, headers=headers)
        assert again.status_code == 422
        assert again.headers["location"] == f"/v1/jobs/{again.json()['job']}" != job["links"]["self"]
        # The conditions of a request for a file have no meaning here.
        for header, value in (("range", "bytes=99999-"), ("range", "bytes=0-1"), ("if-none-match", "*")):
            answer = await client.post("/v1/jobs", params=params, content=IDENTITY, headers={**headers, header: value})
            assert answer.status_code == 200
            assert len(onnx.load_from_string(answer.content).graph.node) == OPTIMIZED


async def test_fresh_result_needs_no_reading() -> None:
    store = FaultyStore()
    store.before.add("read")
    async with served(onnx_optimizer(store=store)) as client:
        headers = {"accept": "application/octet-stream"}
        for name, model in (("changed", IDENTITY), ("unchanged", RELU)):
            with row(name):
                answer = await client.post("/v1/jobs", params={**ONNX, "wait": 30}, headers=headers, content=model)
                assert answer.status_code == 200
                assert len(onnx.load_from_string(answer.content).graph.node) == OPTIMIZED
                # A later request reads the store.
                path = answer.headers["location"]
                assert (await client.get(f"{path}/result")).status_code == 503


async def test_options_are_those_of_the_request() -> None:
    gate = Gate()
    async with served(gated(gate, limits=Limits(config=frozenset({"onnx.depth"})))) as client:
        query = (
            "pipeline=gate&priority=-7&deadline=60&disabled=Gate&disabled=If,Repeat&functions=1&texts=true"
            "&name=x.onnx&to=onnx"
        )
        trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        job = (await client.post(f"/v1/jobs?{query}", content=RELU, headers={"traceparent": trace})).json()
        same: Any = {"opt_level": 2, "required": [], "config": {}, "report": True, "functions": True, "texts": True}
        assert job["options"] == {**same, "disabled": ["Gate", "If", "Repeat"]}
        assert (job["priority"], job["trace"], job["result_kind"]) == (-7, trace, ".onnx")
        assert job["deadline"] == pytest.approx(job["created"] + 60)
        other = await client.post("/v1/jobs?name=x.onnx", content=RELU, headers={"traceparent": "00-junk"})
        assert other.json()["trace"] is None
        gate.opened.set()


async def test_invalid_request_is_refused() -> None:
    submissions: list[tuple[Any, str]] = [
        ({}, "the kind of the model is unknown"),
        ({"suffix": "onx"}, "did you mean '.onnx'?"),
        ({**ONNX, "pipelin": "x"}, "there is no parameter 'pipelin'; did you mean 'pipeline'?"),
        ({**ONNX, "pipeline": "onnx.Inline"}, "there is no pipeline 'onnx.Inline'; pipelines are default"),
        ({**ONNX, "opt_level": "two"}, "opt_level must be `int`, got 'two'"),
        ({**ONNX, "opt_level": "1_0"}, "opt_level must be `int`"),
        ({**ONNX, "priority": "1001"}, "priority must be `int` <= 1000, got '1001'"),
        ({**ONNX, "deadline": "0"}, "deadline must be `float` > 0.0, got '0'"),
        ({**ONNX, "deadline": "-3"}, "deadline must be `float` > 0.0, got '-3'"),
        ({**ONNX, "deadline": "nan"}, "deadline must be `float` > 0.0, got 'nan'"),
        ({**ONNX, "wait": "-1"}, "wait must be `float` >= 0.0, got '-1'"),
        ({**ONNX, "report": "maybe"}, "report must be `bool`, got 'maybe'"),
        ({**ONNX, "config": "[1]"}, "config must be an object of JSON"),
        ({**ONNX, "config": '{"a": NaN}'}, "config must be an object of JSON"),
        ({**ONNX, "config": "[" * 20_000}, "config must be an object of JSON"),
        ({**ONNX, "config": '{"os.path": 1}'}, "the config option 'os.path' is not allowed here"),
        ({**ONNX, "to": "exe"}, "there is no format of models for the suffix '.exe'"),
        ({**ONNX, "name": "a\x00b"}, "name must not contain a null character"),
        ([("suffix", "onnx"), ("suffix", "mlir")], "suffix is given several times"),
    ]
    lists: list[tuple[Any, str]] = [
        ({"limit": 201}, "limit must be `int` <= 200, got '201'"),
        ({"limit": 0}, "limit must be `int` >= 1, got '0'"),
        ({"state": "ended"}, "state must be one of queued, running, done, failed, cancelled, got"),
        ({"before": "a\x00"}, "before must not contain a null character"),
        ({"before": "zzz"}, "before must be `str` matching regex '^[0-9a-f]{32}$', got 'zzz'"),
        ({"before": ""}, "before must be `str` matching regex"),
        ({"sort": "name"}, "there is no parameter 'sort'"),
    ]
    async with served(onnx_optimizer()) as client:
        for method, rows in (("POST", submissions), ("GET", lists)):
            for params, message in rows:
                with row(message):
                    answer = await client.request(method, "/v1/jobs", params=params, content=RELU)
                    assert (answer.status_code, message in answer.json()["detail"]) == (422, True), answer.json()
        assert (await client.get("/v1/jobs")).json() == {"jobs": [], "next": None}
        missing = await client.get("/v2/jobs")
        assert (missing.status_code, missing.json()["title"]) == (404, "not found")
        wrong = await client.put("/v1/jobs", content=b"x")
        assert (wrong.status_code, wrong.json()["title"]) == (405, "method not allowed")
        assert set(wrong.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}
        assert (await client.get("/v1/jobs/")).json() == {"jobs": [], "next": None}


async def test_repeated_request_gets_the_first_job() -> None:
    async with served(onnx_optimizer()) as client:
        headers = {"idempotency-key": "upload-17"}
        first = await client.post("/v1/jobs", params=ONNX, content=IDENTITY, headers=headers)
        again = await client.post("/v1/jobs", params={**ONNX, "wait": 30}, content=IDENTITY, headers=headers)
        assert first.json()["id"] == again.json()["id"]
        other = await client.post("/v1/jobs", params=ONNX, content=RELU, headers=headers)
        assert (other.status_code, other.json()["type"]) == (422, "urn:apass:IdempotencyError")
        assert len((await client.get("/v1/jobs")).json()["jobs"]) == 1
        long = await client.post("/v1/jobs", params=ONNX, content=RELU, headers={"idempotency-key": "x" * 301})
        assert long.status_code == 400


async def test_full_queue_refuses_at_once() -> None:
    gate = Gate()
    limits = Limits(running=1, queued=1)
    async with served(gated(gate, limits=limits)) as client:
        params: Params = {**ONNX, "pipeline": "gate"}
        await client.post("/v1/jobs", params=params, content=named("a"))
        await gate.entered.wait()
        assert (await client.post("/v1/jobs", params=params, content=named("b"))).status_code == 202
        # A batch may be prepared while another one runs.
        answers = [await client.post("/v1/jobs", params=params, content=named(f"c{index}")) for index in range(3)]
        full = answers[-1]
        assert (full.status_code, full.headers["retry-after"]) == (429, "1")
        assert full.json()["detail"] == "1 jobs wait, which is the limit"
        gate.opened.set()


async def test_failed_job_has_its_reason() -> None:
    @apass.module_pass(opt_level=0, name="Fail")
    async def fail(mod: Any, ctx: Any) -> Any:
        raise ValueError("the shape is odd")

    async with served(onnx_optimizer(pipelines={"fail": fail})) as client:
        answer = await client.post("/v1/jobs", params={"name": "bad.onnx", "wait": 30}, content=IDENTITY[:-9])
        job = answer.json()
        assert (answer.status_code, job["state"], job["failure"]["kind"]) == (200, "failed", "AdapterError")
        assert job["failure"]["message"].startswith("bad.onnx: not an ONNX model")
        result = await client.get(f"/v1/jobs/{job['id']}/result")
        assert (result.status_code, result.json()["failure"]) == (409, job["failure"])
        assert result.json()["job"] == job["id"]
        # The error of a pass names it.
        failure = (await client.post("/v1/jobs", params={**ONNX, "pipeline": "fail", "wait": 30}, content=RELU)).json()
        values = [failure["failure"][name] for name in ("kind", "message", "pass")]
        assert values == ["ValueError", "the shape is odd", "Fail"]


async def test_running_job_is_cancelled() -> None:
    gate = Gate()
    async with served(gated(gate)) as client:
        job = (await client.post("/v1/jobs", params={**ONNX, "pipeline": "gate"}, content=RELU)).json()
        await gate.entered.wait()
        path = job["links"]["self"]
        running = await client.delete(path, params={"remove": "true"})
        assert (running.status_code, "has not ended" in running.json()["detail"]) == (409, True)
        cancelled = await client.delete(path)
        assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
        assert (await client.delete(path)).json()["state"] == "cancelled"
        result = await client.get(f"{path}/result")
        assert (result.status_code, result.json()["type"]) == (409, "urn:apass:JobCancelledError")
        assert (await client.delete(path, params={"remove": "true"})).status_code == 204
        assert (await client.get(path)).status_code == 404


async def test_unknown_job_is_not_found() -> None:
    async with served(onnx_optimizer()) as client:
        for job_id in ("0" * 32, "x", "a%00b", "..%2f..", "%F0%9F%92%A9" * 100):
            with row(job_id):
                for part in ("", "/result", "/model", "/report", "/events"):
                    answer = await client.get(f"/v1/jobs/{job_id}{part}")
                    assert answer.status_code == 404
                    assert answer.json()["title"] in ("there is no such job", "not found")
                assert (await client.delete(f"/v1/jobs/{job_id}")).status_code == 404


async def test_retry_runs_a_failed_job_again() -> None:
    async with served(onnx_optimizer()) as client:
        params: Params = {"name": "bad.onnx", "wait": 30, "opt_level": 1, "deadline": 60}
        failed = (await client.post("/v1/jobs", params=params, content=b"junk")).json()
        answer = await client.post(f"{failed['links']['self']}/retry", params={"wait": 30})
        again = answer.json()
        assert answer.headers["location"] == again["links"]["self"] != failed["links"]["self"]
        same = ("name", "kind", "pipeline", "options", "model", "failure", "state")
        assert {key: again[key] for key in same} == {key: failed[key] for key in same}
        assert again["deadline"] - again["created"] == pytest.approx(60)
        # A large model is streamed.
        large = b"x" * 2_500_000
        job = (await client.post("/v1/jobs", params={**ONNX, "wait": 30}, content=large)).json()
        again = (await client.post(f"{job['links']['self']}/retry", params={"wait": 30})).json()
        assert (again["model"], again["state"]) == (job["model"], "failed")
        assert (await client.get(again["links"]["model"])).content == large


async def test_module_of_a_program_has_no_file() -> None:
    optimizer = Optimizer({"nothing": "Sequential"})
    async with optimizer, served(optimizer) as client:
        job = await optimizer.submit({"f": 1}, pipeline="nothing", options=JobOptions(report=False))
        await job.result()
        shown = (await client.get(f"/v1/jobs/{job.id}")).json()
        assert (shown["kind"], shown["links"]["model"], shown["links"]["result"]) == ("builtins:dict", None, None)
        retried = await client.post(f"/v1/jobs/{job.id}/retry")
        assert (retried.status_code, "'builtins:dict'" in retried.json()["detail"]) == (422, True)
        assert json.loads((await client.get(f"/v1/jobs/{job.id}/model")).content) == {"f": 1}
