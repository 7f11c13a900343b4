"""Formats of models that the server cannot read or write."""

from pathlib import Path

import pytest

from apass.service import InvalidJobError, Optimizer
from apass.service.job_formats import JobFormats
from tests.helpers.distributions import write_distribution
from tests.helpers.http_servers import served
from tests.helpers.rows import row
from tests.service.http.models import IDENTITY, RELU, Params

pytestmark = [pytest.mark.anyio, pytest.mark.network]

PLUGIN = """\
from apass.errors import MissingExtraError
raise MissingExtraError("models of toys need toylib: pip install 'toys[toy]'")
"""


@pytest.fixture
def package(packages: Path) -> None:
    """Install a package with an IR, without the library of its extra."""
    points = "[apass.irs]\n.toy = toys.toy.plugin:PLUGIN\n[apass.pass_modules]\ntoy.FromONNX = toys.toy.plugin\n"
    write_distribution(packages, "toys", points, requires="toylib; extra == 'toy'")
    folder = packages / "toys" / "toy"
    folder.mkdir(parents=True)
    (folder / "plugin.py").write_text(PLUGIN)


@pytest.mark.usefixtures("package")
async def test_format_without_its_library_is_refused() -> None:
    rows: dict[str, Params] = {"model": {"suffix": "toy"}, "result": {"suffix": "onnx", "to": "toy"}}
    async with served(Optimizer()) as client:
        suffixes = (await client.get("/v1/status")).json()["suffixes"]
        assert (".toy" in suffixes, ".onnx" in suffixes) == (False, True)
        for name, params in rows.items():
            with row(name):
                answer = await client.post("/v1/jobs", params=params, content=IDENTITY)
                problem = answer.json()
                assert (answer.status_code, problem["type"]) == (422, "urn:apass:InvalidJobError")
                assert problem["detail"].startswith("the service has no library for ")
                assert problem["detail"].endswith(" files: models of toys need toylib: pip install 'toys[toy]'")
        assert (await client.get("/v1/jobs")).json()["jobs"] == []


@pytest.mark.parametrize("pipeline", ["default", "onnx.IdentityElimination"])
async def test_conversion_must_be_possible_and_allowed(pipeline: str) -> None:
    params: Params = {"suffix": "onnx", "pipeline": pipeline}
    rows = {
        "json": "model.onnx cannot be converted to a .json file",
        "relax": "results need the pass 'tvm.FromONNX', which is not allowed here",
    }
    async with served(Optimizer(allow=["onnx.*"])) as client:
        for to, message in rows.items():
            answer = await client.post("/v1/jobs", params={**params, "to": to}, content=RELU)
            assert (answer.status_code, message in answer.json()["detail"]) == (422, True)
        assert (await client.get("/v1/jobs")).json()["jobs"] == []
    async with served(Optimizer(allow=["onnx.*", "tvm.FromONNX"])) as client:
        answer = await client.post("/v1/jobs", params={**params, "to": "relax", "wait": "60"}, content=RELU)
        assert (answer.json()["state"], answer.json()["result_kind"]) == ("done", ".relax"), answer.text


async def test_format_of_a_converted_model_is_checked() -> None:
    async with served(Optimizer({"lower": "mlir.FromLLVM"})) as client:
        answer = await client.post("/v1/jobs", params={"suffix": "ll", "pipeline": "lower"}, content=b"; nothing")
        message = "the pipeline returns a model for .mlir files, which cannot be written as .ll"
        assert (answer.status_code, message in answer.json()["detail"]) == (422, True), answer.text
        params: Params = {"suffix": "ll", "to": "mlir", "pipeline": "lower"}
        assert (await client.post("/v1/jobs", params=params, content=b"; nothing")).status_code == 202


@pytest.mark.usefixtures("package")
async def test_libraries_of_other_machines_are_unknown() -> None:
    formats = JobFormats(is_local=False)
    assert ".toy" in await formats.suffixes()
    await formats.check("default", None, ".toy", ".toy")
    with pytest.raises(InvalidJobError, match=r"model\.toy cannot be converted to a \.onnx file"):
        await formats.check("default", None, ".toy", ".onnx")
