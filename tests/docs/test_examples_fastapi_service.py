"""`examples/fastapi_service.py`: its endpoint, its page and the mounted interface."""

import re
import subprocess
import sys
from collections.abc import Iterator

import httpx
import onnx_ir as ir
import pytest

from apass.adapters.onnx import ADAPTER, count_nodes
from tests.helpers.repository import ROOT

pytestmark = [pytest.mark.network, pytest.mark.process, pytest.mark.slow]

MODEL = """
<ir_version: 10, opset_import: ["" : 20]>
agraph (float[3] x) => (float[3] y) {
    a = Identity(x)
    y = Relu(a)
}
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Start the application, and return a client of it."""
    store = tmp_path_factory.mktemp("jobs") / "jobs.db"
    command = [sys.executable, "examples/fastapi_service.py", "--port", "0", "--workers", "1", "--store", str(store)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        url = next(match[0] for line in process.stderr if (match := re.search(r"http://127\.0\.0\.1:\d+", line)))
        with httpx.Client(base_url=url, timeout=120) as client:
            yield client
    finally:
        process.terminate()
        process.communicate()


def test_endpoint_returns_smaller_model(client: httpx.Client) -> None:
    answer = client.post("/optimize", params={"name": "m.onnx"}, content=ADAPTER.dumps(ir.from_onnx_text(MODEL)))
    assert answer.status_code == 200
    assert count_nodes(ADAPTER.loads(answer.content)) == 1
    # The job is also one of the mounted interface.
    job = client.get(f"/apass/v1/jobs/{answer.headers['x-job']}").json()
    assert (job["name"], job["state"]) == ("m.onnx", "done")
    assert "<li>done: 1</li>" in client.get("/").text


@pytest.mark.parametrize(
    ("name", "pipeline", "status", "message"),
    [
        ("m.onnx", "default", 422, "not an ONNX model"),
        ("m.exe", "default", 422, "there is no format of models for the suffix '.exe'"),
        ("m.onnx", "cleanpu", 422, "did you mean 'cleanup'?"),
    ],
)
def test_endpoint_explains_failures(client: httpx.Client, name: str, pipeline: str, status: int, message: str) -> None:
    answer = client.post("/optimize", params={"name": name, "pipeline": pipeline}, content=b"no model")
    assert (answer.status_code, message in answer.text) == (status, True)
