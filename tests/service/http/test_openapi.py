"""The OpenAPI description agrees with the routes, and its examples are valid."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, cast

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from apass.service import Limits, Optimizer, ServiceMetrics, create_app
from apass.service.http import jobs as jobs_module
from apass.service.http.openapi import JOB_ID, describe_api
from tests.helpers.http_servers import client_of, served, serving, validate
from tests.helpers.repository import ROOT
from tests.service.http.models import IDENTITY

API = describe_api()


def routes() -> set[tuple[str, str]]:
    """Return the methods and paths of an application."""
    app: Any = create_app(Optimizer(), page=False)
    # It is within the middleware.
    while not isinstance(app, Starlette):
        app = app._app
    return {
        (method.lower(), route.path)
        for route in app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }


def operations() -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Iterate over the methods, the paths and the descriptions of the operations."""
    for path, methods in API["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def test_description_has_the_routes_of_the_application() -> None:
    assert {(method, path) for method, path, _ in operations()} == routes()


def test_operation_ids_are_unique() -> None:
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(ids)) == len(ids)


def test_parameters_of_a_submission_are_described() -> None:
    parameters = API["paths"]["/v1/jobs"]["post"]["parameters"]
    described = tuple(item["name"] for item in parameters if item["in"] == "query")
    assert described == jobs_module.SUBMIT_PARAMETERS


def test_references_have_a_schema() -> None:
    found = set(references(API))
    assert found == set(API["components"]["schemas"]) - {"Event"}


def references(value: object) -> Iterator[str]:
    """Iterate over the names of the schemas that are referred to."""
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[str, object]", value).items():
            if key == "$ref":
                yield str(item).rpartition("/")[2]
            yield from references(item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from references(item)


@pytest.mark.parametrize("name", sorted(API["components"]["schemas"]))
def test_schema_is_valid_and_accepts_its_examples(name: str) -> None:
    schema = API["components"]["schemas"][name]
    jsonschema: Any = import_module("jsonschema")
    jsonschema.Draft202012Validator.check_schema(schema)
    for example in schema.get("examples", ()):
        validate(example, schema, API)


def test_examples_of_parameters_agree_with_their_schemas() -> None:
    for _, _, operation in operations():
        for parameter in operation.get("parameters", ()):
            if "example" in parameter:
                validate(parameter["example"], parameter["schema"], API)


def test_schema_rejects_a_wrong_answer() -> None:
    schema = API["components"]["schemas"]["Job"]
    jsonschema: Any = import_module("jsonschema")
    for change in ({"state": "ended"}, {"created": "today"}, {"more": 1}, {"model": None}):
        with pytest.raises(jsonschema.ValidationError):
            validate({**schema["examples"][0], **change}, schema, API)


@pytest.mark.anyio
@pytest.mark.network
async def test_server_accepts_the_examples() -> None:
    optimizer = Optimizer({"default": "onnx.IdentityElimination"}, limits=Limits(deadline=60))
    async with served(optimizer) as client:
        job = (await client.post("/v1/jobs?suffix=onnx&wait=30", content=IDENTITY)).json()
        for method, path, operation in operations():
            if path in ("/metrics", "/v1/events"):
                continue
            answer = await ask(client, method, path.replace("{id}", job["id"]), operation, job["id"])
            assert answer.status_code < 300 or answer.status_code in (304, 409), (method, path, answer.text)


@pytest.mark.anyio
@pytest.mark.network
async def test_unknown_parameter_is_refused_everywhere() -> None:
    optimizer = Optimizer({"default": "onnx.IdentityElimination"}, observers=[ServiceMetrics()])
    async with served(optimizer) as client:
        job = (await client.post("/v1/jobs?suffix=onnx&wait=30", content=IDENTITY)).json()
        probes = ("/healthz", "/readyz")
        for method, path, operation in operations():
            options: dict[str, Any] = {"json": {}} if path == "/v1/plan" else {}
            answer = await client.request(method, path.replace("{id}", job["id"]), params={"bogus": 1}, **options)
            assert answer.status_code == (200 if path in probes else 422), (method, path)
            if path not in probes:
                known = [item["name"] for item in operation.get("parameters", ()) if item["in"] == "query"]
                expected = "parameters are " if known else "this path has none"
                assert answer.json()["detail"].startswith(f"there is no parameter 'bogus'; {expected}"), (method, path)


async def ask(
    client: httpx.AsyncClient, method: str, path: str, operation: Mapping[str, Any], job_id: str
) -> httpx.Response:
    """Send a request with the examples of an operation."""
    parameters = operation.get("parameters", ())
    query = {item["name"]: item["example"] for item in parameters if item["in"] == "query" and "example" in item}
    query = {key: job_id if value == JOB_ID else value for key, value in query.items() if key != "remove"}
    headers = {item["name"]: item["example"] for item in parameters if item["in"] == "header" and "example" in item}
    if path == "/v1/plan":
        name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        return await client.post(path, json=API["components"]["schemas"][name]["examples"][0])
    content = IDENTITY if (method, path) == ("post", "/v1/jobs") else b""
    return await client.request(method, path, params=query, headers=headers, content=content)


@pytest.mark.anyio
@pytest.mark.network
async def test_description_is_served() -> None:
    async with serving(create_app(Optimizer())) as address, client_of(address) as client:
        assert (await client.get("/v1/openapi.json")).json() == describe_api()


def test_reference_page_lists_all_paths() -> None:
    page = (ROOT / "docs/reference/http.md").read_text()
    table = page.partition("| Request |")[2].partition("\n\n")[0]
    for method, path, _ in operations():
        assert f"{method.upper()} {path}" in table, path
