"""Bodies of requests: large, slow, broken off, malformed."""

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import httpx
import pytest

from apass.service import Limits, Optimizer
from apass.service.http import security as security_module
from tests.helpers.full_disk import tiny_disk
from tests.helpers.http_servers import RawClient, raw_client, served, until
from tests.helpers.rows import row
from tests.service.http.models import IDENTITY

pytestmark = [pytest.mark.anyio, pytest.mark.network]

LIMIT = 3_000_000
"""The limit of a model in these tests: more than what is kept in memory."""


@asynccontextmanager
async def limited(folder: Path | None, body_seconds: float = 60.0) -> AsyncGenerator[httpx.AsyncClient]:
    """Serve an optimizer with a limit of models, and write large ones to a folder."""
    optimizer = Optimizer({"default": "onnx.IdentityElimination"}, limits=Limits(model_bytes=LIMIT))
    async with served(optimizer, upload_folder=folder, body_seconds=body_seconds) as client:
        yield client


def head(*headers: str) -> str:
    return "\n".join(("POST /v1/jobs?suffix=onnx&wait=30 HTTP/1.1", "Host: localhost", *headers))


def folder_contents(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


async def nothing_is_left(client: httpx.AsyncClient, folder: Path) -> None:
    """Wait until there is no temporary file, and check that there is no job."""
    await until(lambda: not any(folder.iterdir()))
    assert (await client.get("/v1/jobs")).json()["jobs"] == []


async def test_large_body_is_written_to_a_file(tmp_path: Path) -> None:
    model = b"x" * LIMIT
    async with limited(tmp_path) as client, raw_client(client) as raw:
        await raw.send(head(f"Content-Length: {LIMIT}"), model[: LIMIT // 2])
        # The rest is in memory until the next write.
        await until(lambda: sum(file.stat().st_size for file in tmp_path.iterdir()) >= LIMIT // 4)
        await raw.stream.send(model[LIMIT // 2 :])
        status, headers, _ = await raw.answer()
        assert (status, folder_contents(tmp_path)) == (200, [])
        assert (await client.get(f"{headers['location']}/model")).content == model
        model = b"\r\n--x\r\n" * (LIMIT // 7)
        job = (await client.post("/v1/jobs", files={"model": ("a.onnx", model)}, data={"wait": "30"})).json()
        assert (await client.get(job["links"]["model"])).content == model
        assert folder_contents(tmp_path) == []


async def test_temporary_file_is_in_folder_of_optimizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with limited(None) as client, raw_client(client) as raw:
        await raw.send(head(f"Content-Length: {LIMIT}"), b"x" * (LIMIT // 2))
        await until(lambda: any(tmp_path.glob("apass-service-*/apass-upload-*.part")))
        assert len(folder_contents(tmp_path)) == 1
    assert folder_contents(tmp_path) == []


async def test_half_a_body_stores_nothing(tmp_path: Path) -> None:
    rows = {
        "small": (head("Content-Length: 100"), b"x" * 99),
        "large": (head("Content-Length: 2500000"), b"x" * 2_499_999),
        "form": (form_head(5_000_000), form_part("model", FILE) + b"x" * 2_000_000),
    }
    async with limited(tmp_path) as client:
        for name, (start, body) in rows.items():
            with row(name):
                async with raw_client(client) as raw:
                    await raw.send(start, body)
                await nothing_is_left(client, tmp_path)


async def test_slow_body_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security_module, "LINGER_SECONDS", 0.1)
    async with limited(tmp_path, body_seconds=0.1) as client:
        async with raw_client(client) as raw:
            await raw.send(head("Content-Length: 100"), b"slow")
            problem = await raw.problem()
            assert (problem["status"], problem["type"]) == (408, "urn:apass:SlowRequestError")
            assert problem["detail"].startswith("4 bytes of the body arrived")
            assert await raw.is_closed()
        await nothing_is_left(client, tmp_path)


async def test_declared_size_is_refused_before_the_body(tmp_path: Path) -> None:
    async with limited(tmp_path) as client:
        # A client that expects an interim answer need not send the body.
        for more in ((), ("Expect: 100-continue",)):
            async with raw_client(client) as raw:
                await raw.send(head(f"Content-Length: {LIMIT + 1}", *more))
                problem = await raw.problem()
                assert (problem["status"], problem["type"]) == (413, "urn:apass:ModelTooLargeError")
                assert problem["detail"] == "the body has more than 3,000,000 bytes, which is the limit"
                assert not more or await raw.is_closed()


async def test_body_without_size_is_refused_on_the_way(tmp_path: Path) -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    async with limited(tmp_path) as client:
        async with raw_client(client) as raw:
            await raw.send(head("Transfer-Encoding: chunked"))
            # The answer arrives although the client does not stop.
            async with anyio.create_task_group() as group:
                group.start_soon(send_endlessly, raw, chunk)
                assert (await raw.problem())["status"] == 413
                group.cancel_scope.cancel()
        await nothing_is_left(client, tmp_path)


async def send_endlessly(raw: RawClient, data: bytes) -> None:
    with suppress(anyio.BrokenResourceError):
        while True:
            await raw.stream.send(data)


async def test_chunked_body_is_accepted(tmp_path: Path) -> None:
    async def chunks() -> AsyncGenerator[bytes]:
        for byte in IDENTITY:
            yield bytes([byte])

    async with limited(tmp_path) as client:
        answer = await client.post("/v1/jobs", params={"suffix": "onnx", "wait": 30}, content=chunks())
        assert answer.json()["state"] == "done"


async def test_empty_and_compressed_models_are_refused(tmp_path: Path) -> None:
    async with limited(tmp_path) as client:
        for body in (b"", form_part("model", FILE) + END):
            with row(body):
                headers = {"content-type": "multipart/form-data; boundary=x"} if body else {}
                answer = await client.post("/v1/jobs", params={"suffix": "onnx"}, content=body, headers=headers)
                assert (answer.status_code, "the model has no bytes" in answer.json()["detail"]) == (400, True)
        headers = {"content-encoding": "gzip"}
        answer = await client.post("/v1/jobs", params={"suffix": "onnx"}, content=b"x", headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (415, "urn:apass:UnsupportedMediaTypeError")


def form_head(size: int, boundary: str = "; boundary=x") -> str:
    return head(f"Content-Type: multipart/form-data{boundary}", f"Content-Length: {size}")


def form_part(name: str, more: str = "") -> bytes:
    return f'--x\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode()


END = b"\r\n--x--\r\n"

FILE = '; filename="a.onnx"'
"""The parameter that makes a part a file."""


async def test_malformed_form_is_refused(tmp_path: Path) -> None:
    no_file = "the form has no file named 'model'"
    fields = b"".join(form_part(f"f{index}") + b"1\r\n" for index in range(101))
    rows = {
        "junk": (b"junk", "the form cannot be parsed"),
        "no end": (form_part("name") + b"abc", no_file),
        "no model": (form_part("name") + b"a.onnx" + END, no_file),
        "no file": (form_part("model") + b"a.onnx" + END, no_file),
        "two models": (form_part("model", FILE) + b"a\r\n" + form_part("model", FILE) + b"b" + END, "Too many files"),
        "other file": (form_part("other", FILE) + b"b" + END, no_file),
        "long field": (form_part("name") + b"x" * 300_000 + END, "Part exceeded maximum size of 64KB"),
        "many fields": (fields, "Too many fields"),
        "many headers": (b"--x\r\n" + b"A: b\r\n" * 1_000 + b"\r\n", "the form cannot be parsed"),
        "no boundary": (b"", "Missing boundary"),
        "long boundary": (b"--x--\r\n", "the form cannot be parsed"),
    }
    boundaries = {"no boundary": "", "long boundary": "; boundary=" + "x" * 300}
    async with limited(tmp_path) as client:
        for name, (body, message) in rows.items():
            with row(name):
                async with raw_client(client) as raw:
                    await raw.send(form_head(len(body), boundaries.get(name, "; boundary=x")), body)
                    problem = await raw.problem()
                assert (problem["status"], message in problem["detail"]) == (400, True), problem
                await nothing_is_left(client, tmp_path)
        answer = await client.post("/v1/jobs", files={"model": ("a.onnx", IDENTITY)}, data={"pipelines": "x"})
        assert (answer.status_code, "did you mean 'pipeline'?" in answer.json()["detail"]) == (422, True)
        await nothing_is_left(client, tmp_path)


async def test_hostile_file_name_is_only_a_label(tmp_path: Path) -> None:
    rows = [
        ("../../etc/passwd.onnx", "passwd.onnx"),
        ("C:\\models\\net.onnx", "net.onnx"),
        ("a\x1b[2Jb.onnx", "a\\x1b[2Jb.onnx"),
        ("a" * 1000 + ".onnx", "a" * 195 + ".onnx"),
        ("ключ \u202e.onnx", "ключ \\u202e.onnx"),
        ("", "model.onnx"),
        ("..", ".."),
    ]
    headers = {"content-type": "multipart/form-data; boundary=x"}
    params = {"suffix": "onnx", "wait": "30"}
    async with limited(tmp_path) as client:
        for file_name, name in rows:
            with row(file_name):
                quoted = file_name.replace("\\", "\\\\")
                body = form_part("model", f'; filename="{quoted}"') + IDENTITY + END
                answer = await client.post("/v1/jobs", params=params, content=body, headers=headers)
                assert (answer.json()["name"], answer.json()["state"]) == (name, "done")
                shown = await client.get(answer.json()["links"]["result"])
                assert (shown.status_code, "\n" in shown.headers["content-disposition"]) == (200, False)
                assert folder_contents(tmp_path) == []
        name = 'a"\r\nSet-Cookie: x=1\r\n\r\n.onnx'
        answer = await client.post("/v1/jobs", params={"name": name, "wait": 30}, content=IDENTITY)
        for path in (answer.json()["links"]["result"], answer.json()["links"]["model"]):
            shown = await client.get(path)
            assert (shown.status_code, "set-cookie" in shown.headers) == (200, False)
            assert shown.headers["content-disposition"] == (
                'attachment; filename="a__r_nSet-Cookie_ x_1_r_n_r_n.onnx"; '
                "filename*=UTF-8''a%22%5Cr%5CnSet-Cookie%3A%20x%3D1%5Cr%5Cn%5Cr%5Cn.onnx"
            )


async def test_missing_upload_folder_is_unavailable(tmp_path: Path) -> None:
    async with limited(tmp_path / "missing") as client:
        answer = await client.post("/v1/jobs", params={"suffix": "onnx"}, content=b"x" * 2_000_000)
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:apass:JobsUnavailableError")
        assert (await client.get("/healthz")).status_code == 200


@pytest.mark.process
async def test_full_disk_has_its_own_status(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", 1_024) as folder:
        async with limited(folder) as client:
            answer = await client.post("/v1/jobs", params={"suffix": "onnx"}, content=b"x" * 2_500_000)
            assert (answer.status_code, "retry-after" in answer.headers) == (507, True)
            assert folder_contents(folder) == []
            small = await client.post("/v1/jobs", params={"suffix": "onnx", "wait": 30}, content=IDENTITY)
            assert small.json()["state"] == "done"
