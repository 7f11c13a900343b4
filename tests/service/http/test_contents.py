"""The bytes of models and results: caching, ranges, names of files, expiry."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random

import httpx
import pytest

from apass.service import MemoryJobStore, Optimizer
from apass.service.http.contents import file_name
from tests.helpers.http_servers import served
from tests.helpers.rows import row
from tests.service.http.models import IDENTITY

pytestmark = [pytest.mark.anyio, pytest.mark.network]

LARGE = Random(0).randbytes(2_500_000)
"""A body of three chunks of the store, which is no model."""


@asynccontextmanager
async def model_path() -> AsyncGenerator[tuple[httpx.AsyncClient, str]]:
    """Serve an optimizer with one job; yield a client, and the path of its model."""
    async with served(Optimizer({"default": "onnx.IdentityElimination"})) as client:
        job = (await client.post("/v1/jobs", params={"name": "net.onnx", "wait": 30}, content=LARGE)).json()
        yield client, job["links"]["model"]


async def test_content_has_a_length_and_a_tag() -> None:
    async with model_path() as (client, path):
        whole, head = await client.get(path), await client.head(path)
        assert (whole.content, whole.headers["content-length"]) == (LARGE, str(len(LARGE)))
        assert whole.headers["cache-control"] == "no-store"
        same = ("etag", "content-length", "content-type", "content-disposition", "accept-ranges")
        assert {name: head.headers[name] for name in same} == {name: whole.headers[name] for name in same}
        assert head.content == b""
        tag = head.headers["etag"]
        for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            answer = await client.get(path, headers={"if-none-match": known})
            assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
        assert (await client.get(path, headers={"if-none-match": '"other"'})).status_code == 200
        # A range of another version would be a mixture.
        assert (await client.get(path, headers={"range": "bytes=0-1", "if-range": tag})).status_code == 206
        assert (await client.get(path, headers={"range": "bytes=0-1", "if-range": '"x"'})).status_code == 200


async def test_range_of_content_is_returned() -> None:
    rows = [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=1048570-1048580", 1_048_570, 1_048_581),
        ("bytes=1048576-", 1_048_576, 2_500_000),
        ("bytes=2400000-99999999", 2_400_000, 2_500_000),
        ("bytes=-5", 2_499_995, 2_500_000),
        ("bytes=-99999999", 0, 2_500_000),
    ]
    async with model_path() as (client, path):
        for header, first, end in rows:
            with row(header):
                answer = await client.get(path, headers={"range": header})
                assert (answer.status_code, answer.content) == (206, LARGE[first:end])
                assert answer.headers["content-range"] == f"bytes {first}-{end - 1}/2500000"
                assert answer.headers["content-length"] == str(end - first)
        for header in ("bytes=2500000-", "bytes=-0"):
            with row(header):
                answer = await client.get(path, headers={"range": header})
                assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */2500000")
                assert answer.headers["content-type"] == "application/problem+json"
                problem = answer.json()
                assert problem["detail"] == f"net.onnx has 2,500,000 bytes, and none in the range {header!r}"
                assert problem["job"] in path
                assert (await client.head(path, headers={"range": header})).status_code == 416
        # A malformed one is ignored.
        for header in ("bytes=", "bytes=-", "bytes=5-2", "bytes=0-1,5-6", "lines=1-2", "bytes=a-b"):
            with row(header):
                answer = await client.get(path, headers={"range": header})
                assert (answer.status_code, answer.content) == (200, LARGE)


class ForgetfulStore(MemoryJobStore):
    """A store that has lost all blobs, although it knows the jobs."""

    has_forgotten = False

    async def read(self, digest: str, index: int) -> bytes:
        if self.has_forgotten:
            raise KeyError(digest)
        return await super().read(digest, index)


async def test_expired_content_is_a_conflict() -> None:
    store = ForgetfulStore()
    async with served(Optimizer({"default": "onnx.IdentityElimination"}, store=store)) as client:
        job = (await client.post("/v1/jobs", params={"name": "net.onnx", "wait": 30}, content=IDENTITY)).json()
        store.has_forgotten = True
        for part in ("result", "model", "report"):
            answer = await client.get(job["links"][part])
            assert (answer.status_code, answer.json()["type"]) == (409, "urn:apass:NoResultError")
        assert (await client.post(f"{job['links']['self']}/retry")).status_code == 409


def test_file_has_the_suffix_of_its_kind() -> None:
    rows = [
        ("net.onnx", ".mlir", "net.mlir"),
        ("net.v2", ".onnx", "net.v2.onnx"),
        ("/a/b.onnx", ".onnx", "b.onnx"),
        ("..", ".onnx", "model.onnx"),
        ("", ".onnx", "model.onnx"),
        ("a\nb.onnx", ".onnx", "a\\nb.onnx"),
        ("net", "builtins:dict", "net"),
    ]
    for name, kind, expected in rows:
        assert file_name(name, kind) == expected
