"""The OpenAPI description and its examples."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import pytest

from apass.service import Limits, Optimizer, ServiceMetrics
from apass.service.http.openapi import describe_api
from tests.helpers.http_servers import served, validate
from tests.helpers.repository import ROOT
from tests.helpers.rows import row
from tests.service.http.models import IDENTITY

API = describe_api()


def operations() -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Iterate over the methods, the paths and the descriptions of the operations."""
    for path, methods in API["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def examples(operation: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the examples of the parameters in a place."""
    schemas = {item["name"]: item["schema"] for item in operation["parameters"] if item["in"] == place}
    return {name: schema["examples"][0] for name, schema in schemas.items() if "examples" in schema}


def test_schemas_are_valid_and_accept_their_examples() -> None:
    validator: Any = import_module("jsonschema").Draft202012Validator
    members = [
        (name, member)
        for schema in API["components"]["schemas"].values()
        for name, member in schema.get("properties", {}).items()
    ]
    members += [(item["name"], item["schema"]) for _, _, each in operations() for item in each["parameters"]]
    for name, schema in members:
        with row(name):
            validator.check_schema(schema)
            for example in schema.get("examples", ()):
                validate(example, schema, API)


@pytest.mark.anyio
@pytest.mark.network
async def test_server_accepts_the_examples() -> None:
    optimizer = Optimizer({"default": "onnx.IdentityElimination"}, limits=Limits(deadline=60))
    async with served(optimizer) as client:
        job = (await client.post("/v1/jobs?suffix=onnx&wait=30", content=IDENTITY)).json()
        for method, path, operation in operations():
            if path in ("/metrics", "/v1/events"):
                continue
            content = IDENTITY if (method, path) == ("post", "/v1/jobs") else b'{"suffix": "onnx"}'
            headers = {**examples(operation, "header"), "Idempotency-Key": path, "content-type": "application/json"}
            url, query = path.replace("{id}", job["id"]), examples(operation, "query")
            answer = await client.request(method, url, params=query, headers=headers, content=content)
            assert answer.status_code < 300 or answer.status_code in (304, 409), (method, path, answer.text)


@pytest.mark.anyio
@pytest.mark.network
async def test_unknown_parameter_is_refused_everywhere() -> None:
    optimizer = Optimizer({"default": "onnx.IdentityElimination"}, observers=[ServiceMetrics()])
    async with served(optimizer) as client:
        probes = ("/healthz", "/readyz")
        for method, path, operation in operations():
            answer = await client.request(method, path.replace("{id}", "0" * 32), params={"bogus": 1})
            assert answer.status_code == (200 if path in probes else 422), (method, path)
            if path not in probes:
                has_query = any(item["in"] == "query" for item in operation["parameters"])
                expected = "parameters are " if has_query else "this path has none"
                assert answer.json()["detail"].startswith(f"there is no parameter 'bogus'; {expected}"), (method, path)


def test_reference_page_lists_all_paths() -> None:
    page = (ROOT / "docs/reference/http.md").read_text()
    table = page.partition("| Request |")[2].partition("\n\n")[0]
    for method, path, _ in operations():
        assert f"{method.upper()} {path}" in table, path
