"""`describe_api`: the interface as OpenAPI 3.1, from its operations and types."""

from collections.abc import Iterator, Mapping
from functools import cache
from http import HTTPStatus
from itertools import chain
from typing import Any, Final

from msgspec import Struct
from msgspec.json import schema_components
from starlette.requests import Request
from starlette.responses import Response

from apass.service import api
from apass.service.http.catalogue import CatalogueHandlers
from apass.service.http.health import HealthHandlers
from apass.service.http.jobs import JobHandlers
from apass.service.http.operations import Contents, Handlers, Operation, operations_of
from apass.service.http.requests import json_response, root_of
from apass.util.version import __version__

__all__ = ["HANDLERS", "JOB_ID", "DescriptionHandlers", "describe_api"]

JOB_ID: Final = "019a1b2c3d4e0123456789abcdef0123"
"""The id of the job in examples."""

_REFERENCE: Final = "#/components/schemas/{name}"

_HEADERS: Final[Mapping[str, tuple[str, str]]] = {
    "Idempotency-Key": ("A repeated request with the same key gets the first job.", "upload-17"),
    "traceparent": (
        "The W3C trace that the job continues.",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ),
    "If-None-Match": ("An ETag; the answer is 304 if the bytes have it.", '"9f86d081884c7d65"'),
    "Range": ("A single range of bytes.", "bytes=0-1023"),
    "Last-Event-ID": ("The id of the last event that is known, as a browser sends it.", "7"),
}
"""The descriptions and examples of the headers of requests."""


class DescriptionHandlers(Handlers):
    """Handles requests for the description of the interface."""

    @Operation("GET", "/v1/openapi.json", ["application/json"], scope=None, needs_token=False)
    async def openapi(self, request: Request, _: api.Nothing) -> Response:
        """Return this description."""
        return json_response(describe_api(root_of(request)))


HANDLERS: Final = (JobHandlers, CatalogueHandlers, HealthHandlers, DescriptionHandlers)
"""The classes of all handlers."""


def describe_api(root: str = "") -> Mapping[str, Any]:
    """Return the description of the interface.

    Parameters:
        root: the path below which the application is mounted.

    """
    return {**_description(), "servers": [{"url": root or "/"}]}


@cache
def _description() -> Mapping[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    kinds: set[type[Any]] = {api.Event, api.Problem}
    for owner in HANDLERS:
        for declared, method in operations_of(owner):
            paths.setdefault(declared.path, {})[declared.method.lower()] = _described(declared, method)
            contents = chain(declared.answer, declared.body, *declared.more.values())
            kinds.update(kind for kind in contents if not isinstance(kind, str))
    _, schemas = schema_components(sorted(kinds, key=lambda kind: kind.__name__), ref_template=_REFERENCE)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "apass",
            "version": __version__,
            "description": "Runs pipelines of compiler passes on models, and keeps the results.",
        },
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}, "schemas": schemas},
    }


def _described(declared: Operation, method: Any) -> Mapping[str, Any]:
    """Return the description of an operation."""
    answers: dict[str, Any] = {
        str(status): {"description": HTTPStatus(status).phrase, **_contents(kinds, declared)}
        for status, kinds in {200: declared.answer, **declared.more}.items()
    }
    problem = {"schema": {"$ref": _REFERENCE.format(name="Problem")}}
    answers["default"] = {"description": "An error.", "content": {api.PROBLEM: problem}}
    return {
        "operationId": method.__name__,
        "summary": method.__doc__.partition("\n")[0],
        "parameters": list(_parameters(declared)),
        "responses": answers,
        **({} if declared.needs_token else {"security": []}),
        **({"requestBody": {"required": True, **_contents(declared.body, declared)}} if declared.body else {}),
    }


def _parameters(declared: Operation) -> Iterator[Mapping[str, Any]]:
    """Iterate over the parameters of an operation."""
    if "{id}" in declared.path:
        schema = {"type": "string", "examples": [JOB_ID]}
        yield {"name": "id", "in": "path", "required": True, "schema": schema, "description": "The id of a job."}
    for name, schema in _properties(declared.query).items():
        yield {"name": name, "in": "query", "description": schema.pop("description", ""), "schema": schema}
    for name in declared.headers:
        description, example = _HEADERS[name]
        schema = {"type": "string", "examples": [example]}
        yield {"name": name, "in": "header", "description": description, "schema": schema}


def _properties(kind: type[Struct] | None) -> dict[str, dict[str, Any]]:
    """Return the schemas of the members of a type."""
    if kind is None:
        return {}
    schemas: Any = schema_components([kind], ref_template=_REFERENCE)[1]
    return dict(schemas[kind.__name__]["properties"])


def _contents(kinds: Contents, declared: Operation) -> Mapping[str, Any]:
    """Return the contents of a body or an answer."""
    contents: dict[str, Any] = {}
    for kind in kinds:
        if not isinstance(kind, str):
            contents["application/json"] = {"schema": {"$ref": _REFERENCE.format(name=kind.__name__)}}
        elif kind == "multipart/form-data":
            model = {"type": "string", "contentMediaType": "application/octet-stream"}
            properties = {"model": model, **_properties(declared.query)}
            contents[kind] = {"schema": {"type": "object", "properties": properties, "required": ["model"]}}
        else:
            contents[kind] = {"schema": {} if kind == "application/json" else {"type": "string"}}
    return {"content": contents} if contents else {}
