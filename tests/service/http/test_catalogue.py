"""Passes, pipelines and plans over HTTP."""

from typing import Any

import pytest

import apass
from apass import PassContext
from apass.service import Optimizer
from tests.helpers.http_servers import served
from tests.helpers.rows import row

pytestmark = [pytest.mark.anyio, pytest.mark.network]


Pipelines = dict[str, apass.Pass[Any] | str]


@apass.module_pass(opt_level=3, name="ServiceOnly", required=["PrintIR"])
async def service_only(mod: Any, ctx: PassContext) -> Any:
    """Return the module."""
    return mod


async def test_allowed_passes_have_options_and_documentation() -> None:
    async with served(Optimizer({}, allow=["onnx.I*", "Repeat", "onnx.latency", "no.Such"])) as client:
        passes = {item["name"]: item for item in (await client.get("/v1/passes")).json()["passes"]}
        assert {"Repeat", "onnx.Inline", "onnx.IdentityElimination"} <= set(passes)
        assert all(name == "Repeat" or name.startswith("onnx.I") for name in passes)
        assert all(item["allowed"] and item["doc"] and item["error"] is None for item in passes.values())
        times = next(item for item in passes["Repeat"]["options"] if item["name"] == "times")
        shown = {"name": "times", "type": "int | None", "required": False, "default": "none"}
        assert times == {**shown, "outside": None, "allowed": True}
        assert (passes["onnx.Inline"]["ir"], passes["onnx.Inline"]["level"]) == ("onnx", 2)
        assert (await client.get("/v1/passes")).json()["passes"] == list(passes.values())


async def test_outside_options_are_allowed_by_name() -> None:
    async with served(Optimizer({}, allow=["tvm.To*", "xdsl.*", "xdsl.apply-pdl{pdl_file}"])) as client:
        passes = {item["name"]: item for item in (await client.get("/v1/passes")).json()["passes"]}
        options = {
            f"{name}{{{option['name']}}}": (option["outside"], option["allowed"])
            for name, item in passes.items()
            for option in item["options"]
        }
        assert options["xdsl.apply-pdl{pdl_file}"] == ("files", True)
        assert options["xdsl.apply-pdl-interp{pdl_interp_file}"] == ("files", False)
        assert options["xdsl.mlir-opt{arguments}"] == ("programs", False)
        assert options["xdsl.mlir-opt{generic}"] == (None, True)
        assert (options["tvm.ToLLVM{target}"], passes["tvm.ToLLVM"]["allowed"]) == (("files", False), True)
        interpreter = passes["xdsl.transform-interpreter"]
        assert (interpreter["contract"], interpreter["allowed"]) == ({"outside": "code"}, False)


async def test_only_passes_of_named_pipelines_are_listed() -> None:
    pipelines: Pipelines = {"text": "Repeat(onnx.Inline)", "object": apass.Sequential([service_only]), "default": ""}
    async with served(Optimizer(pipelines)) as client:
        passes = {item["name"]: item for item in (await client.get("/v1/passes")).json()["passes"]}
        assert (set(passes), passes["onnx.Inline"]["allowed"]) == ({"ServiceOnly", "onnx.Inline"}, False)
        own = passes["ServiceOnly"]
        assert (own["level"], own["requires"], own["options"]) == (3, ["PrintIR"], [])
    async with served(Optimizer()) as client:
        assert (await client.get("/v1/passes")).json() == {"passes": []}


async def test_pipelines_have_text_and_documentation() -> None:
    pipelines: Pipelines = {
        "default": "",
        "text": "onnx.Inline,Repeat{times=2}(onnx.Simplify)",
        "object": apass.Sequential([service_only]),
    }
    async with served(Optimizer(pipelines, allow=["onnx.*"])) as client:
        answer = (await client.get("/v1/pipelines")).json()
        default, text, own = answer["pipelines"]
        assert (default["text"], default["passes"], answer["allow"]) == ("", [], ["onnx.*"])
        assert default["doc"] == "The default pipeline of the IR of the model."
        assert text["text"] == "onnx.Inline,Repeat{times=2}(onnx.Simplify)"
        assert text["passes"] == ["onnx.Inline", "onnx.Simplify"]
        assert (own["name"], own["text"], own["passes"]) == ("object", "ServiceOnly", ["ServiceOnly"])


async def test_plan_decides_each_pass() -> None:
    async with served(Optimizer({"two": "onnx.Inline,onnx.IdentityElimination"}, allow=["onnx.*"])) as client:
        body = {"pipeline": "two", "opt_level": 1, "disabled": ["onnx.IdentityElimination"]}
        plan = (await client.post("/v1/plan", json=body)).json()["plan"]
        assert [(item["name"], item["decision"], item["reason"]) for item in plan["passes"]] == [
            ("onnx.Inline", "skip", "level 2 is above 1"),
            ("onnx.IdentityElimination", "skip", "disabled"),
        ]
        body = {"pipeline": "onnx.Inline", "opt_level": 1, "required": ["onnx.Inline"]}
        (only,) = (await client.post("/v1/plan", json=body)).json()["plan"]["passes"]
        assert only["decision"] == "run"
    # The default pipeline depends on the format.
    async with served(Optimizer()) as client:
        answer = (await client.post("/v1/plan", json={"suffix": "ONNX"})).json()
        assert answer["pipeline"] == "Sequential(onnx.Default)"
        for suffix, message in (
            ({}, "add the suffix of a model; suffixes are .bc, .json"),
            ({"suffix": "exe"}, "there is no format of models for the suffix '.exe'; did you mean '.relax'?"),
        ):
            refused = await client.post("/v1/plan", json=suffix)
            assert (refused.status_code, message in refused.json()["detail"]) == (422, True)


async def test_invalid_plan_is_refused() -> None:
    rows = [
        (b"{", 400, "the body must be an object of JSON"),
        (b'{"a":' + b"[" * 100_000, 400, "the body must be an object of JSON"),
        (b"[]", 400, "the body must be an object of JSON"),
        (b'{"pipline": "x"}', 422, "there is no parameter 'pipline'; did you mean 'pipeline'?"),
        (b'{"pipeline": 1}', 422, "pipeline must be `str`, got '1'"),
        (b'{"pipeline": "no"}', 422, "there is no pipeline 'no'"),
        (b'{"opt_level": true}', 422, "opt_level must be `int`, got 'True'"),
        (b'{"opt_level": 1001}', 422, "opt_level must be `int` <= 1000"),
        (b'{"required": "onnx.Inline"}', 422, "required must be `array`"),
        (b'{"required": [1]}', 422, "required must be `str`"),
        (b'{"pipeline": "two", "disabled": ["onnx.Inlin"]}', 422, "did you mean 'onnx.Inline'?"),
        (b'{"config": {"onnx.depth": 1}}', 422, "the config option 'onnx.depth' is not allowed here"),
        (b'{"a": "' + b"x" * 300_000 + b'"}', 413, "the body has more than 262,144 bytes"),
    ]
    async with served(Optimizer({"two": "onnx.Inline"})) as client:
        for body, status, message in rows:
            with row(body[:40]):
                answer = await client.post("/v1/plan", content=body, headers={"content-type": "application/json"})
                assert (answer.status_code, message in answer.json()["detail"]) == (status, True), answer.text
        answer = await client.post("/v1/plan", content=b"{}", headers={"content-type": "text/plain"})
        assert answer.status_code == 415
