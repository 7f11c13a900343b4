"""`describe_api`: the interface as OpenAPI 3.1, with examples."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from apass.service.http.auth import TokenScope
from apass.service.http.problems import PROBLEM
from apass.service.jobs import JobState
from apass.util.version import __version__

__all__ = ["describe_api"]

Schema = Mapping[str, Any]

JOB_ID: Final = "019a1b2c3d4e0123456789abcdef0123"
"""The id of the job in examples."""

DIGEST: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
"""The digest in examples."""


def describe_api(root: str = "") -> dict[str, Any]:
    """Return the description of the interface.

    Parameters:
        root: the path below which the application is mounted.

    """
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "apass",
            "version": __version__,
            "description": "Runs pipelines of compiler passes on models, and keeps the results.",
        },
        "servers": [{"url": root or "/"}],
        "security": [{"token": []}, {}],
        "paths": _PATHS,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": _SCHEMAS,
        },
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(properties: Mapping[str, Schema], *, optional: Sequence[str] = (), **more: Any) -> Schema:
    """Return the schema of an object with required and some optional properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
        **more,
    }


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_TEXT: Final[Schema] = {"type": "string"}
_TEXT_OR_NULL: Final[Schema] = {"type": ["string", "null"]}
_NUMBER: Final[Schema] = {"type": "number"}
_TIME_OR_NULL: Final[Schema] = {"type": ["number", "null"], "description": "Seconds since 1970."}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_FLAG: Final[Schema] = {"type": "boolean"}
_NAMES: Final[Schema] = _array(_TEXT)
_COUNTS: Final[Schema] = {"type": "object", "additionalProperties": _COUNT}
_STATE: Final[Schema] = {"type": "string", "enum": [str(state) for state in JobState]}
_BLOB: Final = _object({"digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"}, "size": _COUNT})

_FAILURE_EXAMPLE: Final[dict[str, Any]] = {
    "kind": "PassError",
    "message": "the shape is unknown",
    "notes": ["in pass 'onnx.Simplify'"],
    "pass": "onnx.Simplify",
    "function": None,
    "diagnostics": [{"level": "warning", "message": "no shape", "pass": "onnx.Simplify"}],
}

_JOB_EXAMPLE: Final[dict[str, Any]] = {
    "id": JOB_ID,
    "tenant": "alice",
    "name": "lenet.onnx",
    "state": "done",
    "kind": ".onnx",
    "result_kind": ".onnx",
    "pipeline": "default",
    "options": {
        "opt_level": 2,
        "required": [],
        "disabled": [],
        "config": {},
        "report": True,
        "functions": False,
        "texts": False,
    },
    "priority": 0,
    "created": 1764090000.25,
    "started": 1764090000.5,
    "finished": 1764090001.0,
    "deadline": None,
    "attempts": 1,
    "reused": False,
    "idempotency_key": None,
    "trace": None,
    "model": {"digest": DIGEST, "size": 1280},
    "result": {"digest": DIGEST, "size": 1024},
    "summary": {
        "before": 12,
        "after": 10,
        "changed": True,
        "changed_by": {"onnx.IdentityElimination": 2},
        "cached": {},
        "seconds": 0.05,
        "diagnostics": [],
    },
    "failure": None,
    "links": {
        "self": f"/v1/jobs/{JOB_ID}",
        "events": f"/v1/jobs/{JOB_ID}/events",
        "model": f"/v1/jobs/{JOB_ID}/model",
        "result": f"/v1/jobs/{JOB_ID}/result",
        "report": f"/v1/jobs/{JOB_ID}/report",
    },
}

_QUEUED_EXAMPLE: Final[dict[str, Any]] = {
    **_JOB_EXAMPLE,
    "state": "queued",
    "started": None,
    "finished": None,
    "attempts": 0,
    "result": None,
    "summary": None,
    "links": {**_JOB_EXAMPLE["links"], "result": None, "report": None},
}

_PASS_EXAMPLE: Final[dict[str, Any]] = {
    "name": "onnx.Inline",
    "level": 2,
    "requires": [],
    "ir": "onnx",
    "options": [
        {
            "name": "max_nodes",
            "type": "int",
            "required": False,
            "default": "100000",
            "outside": None,
            "allowed": True,
        }
    ],
    "doc": "Replace calls of model-local functions by their bodies, and remove the functions.",
    "contract": {},
    "error": None,
    "allowed": True,
}

_PLAN_EXAMPLE: Final[dict[str, Any]] = {
    "pipeline": "onnx.Inline",
    "plan": {
        "name": "sequential",
        "text": "sequential",
        "level": 0,
        "decision": "run",
        "reason": "",
        "passes": [
            {
                "name": "onnx.Inline",
                "text": "onnx.Inline",
                "level": 2,
                "decision": "skip",
                "reason": "level 2 is above 1",
                "passes": [],
            }
        ],
    },
}

_SCHEMAS: Final[Mapping[str, Schema]] = {
    "Job": _object(
        {
            "id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            "tenant": _TEXT,
            "name": {**_TEXT, "description": "A label, such as the name of a file."},
            "state": _STATE,
            "kind": {**_TEXT, "description": "The suffix of the model's file, or the class of a module."},
            "result_kind": _TEXT,
            "pipeline": {**_TEXT, "description": "The name of a pipeline, or its text."},
            "options": _object(
                {
                    "opt_level": _COUNT,
                    "required": _NAMES,
                    "disabled": _NAMES,
                    "config": {"type": "object"},
                    "report": _FLAG,
                    "functions": _FLAG,
                    "texts": _FLAG,
                }
            ),
            "priority": {"type": "integer"},
            "created": {**_NUMBER, "description": "Seconds since 1970."},
            "started": _TIME_OR_NULL,
            "finished": _TIME_OR_NULL,
            "deadline": _TIME_OR_NULL,
            "attempts": _COUNT,
            "reused": {**_FLAG, "description": "Whether the result was computed for an equal job."},
            "idempotency_key": _TEXT_OR_NULL,
            "trace": _TEXT_OR_NULL,
            "model": _BLOB,
            "result": _or_null(_BLOB),
            "summary": _or_null(_ref("Summary")),
            "failure": _or_null(_ref("Failure")),
            "links": _object(
                {
                    "self": _TEXT,
                    "events": _TEXT,
                    "model": _TEXT_OR_NULL,
                    "result": _TEXT_OR_NULL,
                    "report": _TEXT_OR_NULL,
                }
            ),
        },
        examples=[_JOB_EXAMPLE, _QUEUED_EXAMPLE],
    ),
    "JobPage": _object(
        {"jobs": _array(_ref("Job")), "next": {**_TEXT_OR_NULL, "description": "`before` of the next page."}},
        examples=[{"jobs": [_JOB_EXAMPLE], "next": JOB_ID}, {"jobs": [], "next": None}],
    ),
    "Summary": _object(
        {
            "before": {"type": ["integer", "null"], "description": "Nodes of the model."},
            "after": {"type": ["integer", "null"], "description": "Nodes of the result."},
            "changed": _FLAG,
            "changed_by": {**_COUNTS, "description": "How often each pass changed the model."},
            "cached": {**_COUNTS, "description": "How many results of each pass came from the cache."},
            "seconds": _NUMBER,
            "diagnostics": _array(_ref("Diagnostic")),
        },
        examples=[_JOB_EXAMPLE["summary"]],
    ),
    "Failure": _object(
        {
            "kind": {**_TEXT, "description": "The name of the class of the error."},
            "message": _TEXT,
            "notes": _NAMES,
            "pass": _TEXT_OR_NULL,
            "function": _TEXT_OR_NULL,
            "diagnostics": _array(_ref("Diagnostic")),
        },
        examples=[_FAILURE_EXAMPLE],
    ),
    "Diagnostic": _object(
        {
            "level": _TEXT,
            "message": _TEXT,
            "pass": _TEXT,
            "source": _TEXT,
            "line": {"type": "integer"},
            "column": {"type": "integer"},
        },
        optional=("pass", "source", "line", "column"),
        examples=_FAILURE_EXAMPLE["diagnostics"],
    ),
    "Event": {
        "type": "object",
        "description": "The `data` of a server-sent event. Further members depend on the kind.",
        "properties": {
            "id": _COUNT,
            "kind": {
                "type": "string",
                "enum": ["state", "started", "finished", "failed", "waiting", "remark", "text", "dropped"],
            },
            "time": {**_NUMBER, "description": "Seconds since 1970."},
            "job": _ref("Job"),
        },
        "required": ["kind"],
        "examples": [{"id": 1, "kind": "state", "time": 1764090000.25, "state": "queued"}],
    },
    "Problem": _object(
        {
            "type": {**_TEXT, "description": "`urn:apass:` and the name of the class of the error, or about:blank."},
            "title": _TEXT,
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": _TEXT,
            "notes": _NAMES,
            "failure": _ref("Failure"),
            "job": {**_TEXT, "description": "The id of the job."},
            "retry_after": {**_NUMBER, "description": "Seconds after which another attempt is worthwhile."},
        },
        optional=("notes", "failure", "job", "retry_after"),
        examples=[
            {
                "type": "urn:apass:QueueFullError",
                "title": "there are too many jobs",
                "status": 429,
                "detail": "10000 jobs wait, which is the limit",
                "retry_after": 1.0,
            },
            {
                "type": "urn:apass:JobFailedError",
                "title": "the job failed",
                "status": 409,
                "detail": "PassError: the shape is unknown",
                "failure": _FAILURE_EXAMPLE,
                "job": JOB_ID,
            },
        ],
    ),
    "Passes": _object({"passes": _array(_ref("Pass"))}, examples=[{"passes": [_PASS_EXAMPLE]}]),
    "Pass": _object(
        {
            "name": _TEXT,
            "level": {"type": ["integer", "null"]},
            "requires": _NAMES,
            "ir": _TEXT_OR_NULL,
            "options": _array(
                _object(
                    {
                        "name": _TEXT,
                        "type": _TEXT_OR_NULL,
                        "required": _FLAG,
                        "default": _TEXT_OR_NULL,
                        "outside": {**_TEXT_OR_NULL, "description": "What it reaches besides the module."},
                        "allowed": {**_FLAG, "description": "Whether the text of a pipeline may set it."},
                    }
                )
            ),
            "doc": _TEXT,
            "contract": {"type": "object"},
            "error": _TEXT_OR_NULL,
            "allowed": {**_FLAG, "description": "Whether the text of a pipeline may name it."},
        },
        examples=[_PASS_EXAMPLE],
    ),
    "Pipelines": _object(
        {
            "pipelines": _array(_object({"name": _TEXT, "text": _TEXT_OR_NULL, "doc": _TEXT, "passes": _NAMES})),
            "allow": {**_NAMES, "description": "The names and patterns that the text of a pipeline may contain."},
        },
        examples=[
            {
                "pipelines": [{"name": "fast", "text": "onnx.Inline", "doc": "", "passes": ["onnx.Inline"]}],
                "allow": ["onnx.*"],
            }
        ],
    ),
    "PlanRequest": _object(
        {
            "pipeline": _TEXT,
            "suffix": _TEXT,
            "opt_level": _COUNT,
            "required": _NAMES,
            "disabled": _NAMES,
            "config": {"type": "object"},
        },
        optional=("pipeline", "suffix", "opt_level", "required", "disabled", "config"),
        examples=[{"pipeline": "default", "suffix": ".onnx", "opt_level": 3, "disabled": ["onnx.Inline"]}],
    ),
    "Plan": _object({"pipeline": _TEXT_OR_NULL, "plan": _ref("PlannedPass")}, examples=[_PLAN_EXAMPLE]),
    "PlannedPass": _object(
        {
            "name": _TEXT,
            "text": _TEXT,
            "level": {"type": "integer"},
            "decision": {"type": "string", "enum": ["run", "skip", "maybe"]},
            "reason": _TEXT,
            "passes": _array(_ref("PlannedPass")),
        }
    ),
    "Status": _object(
        {
            "version": _TEXT,
            "accepts": _FLAG,
            "tenant": _TEXT,
            "scopes": _array({"type": "string", "enum": sorted(TokenScope)}),
            "jobs": {**_COUNTS, "description": "The number of visible jobs by state."},
            "limits": {"type": "object", "additionalProperties": {"type": ["number", "null"]}},
            "suffixes": _NAMES,
            "config": _array(_object({"name": _TEXT, "type": _TEXT, "default": {}, "doc": _TEXT})),
            "server": _or_null(
                _object(
                    {
                        "queued": _COUNT,
                        "running": _COUNT,
                        "workers": _COUNT,
                        "jobs": _COUNT,
                        "oldest": _NUMBER,
                        "error": _TEXT_OR_NULL,
                    }
                )
            ),
        }
    ),
    "Health": _object(
        {"status": {"type": "string", "enum": ["ok", "ready", "not ready"]}, "reason": _TEXT},
        optional=("reason",),
        examples=[{"status": "not ready", "reason": "the optimizer ends"}],
    ),
}


def _query(name: str, schema: Schema, description: str, example: Any = None) -> dict[str, Any]:
    parameter = {"name": name, "in": "query", "schema": schema, "description": description}
    return parameter if example is None else {**parameter, "example": example}


def _header(name: str, description: str, example: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "schema": _TEXT, "description": description, "example": example}


def _json(name: str, description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": _ref(name)}}}


def _bytes(description: str, content_type: str = "application/octet-stream") -> dict[str, Any]:
    return {"description": description, "content": {content_type: {"schema": {"type": "string"}}}}


def _problems(*statuses: int) -> dict[str, Any]:
    meaning = {
        400: "The request is malformed.",
        404: "There is no such job.",
        408: "The body did not arrive in time.",
        409: "The job has not ended, or has no such result.",
        413: "The model is too large.",
        415: "The content type or the encoding is not supported.",
        416: "The range is out of bounds.",
        422: "A parameter or the job is invalid, or the job has failed.",
        429: "The queue is full.",
        503: "The server ends, or its store fails.",
        507: "The disk is full.",
    }
    content = {PROBLEM: {"schema": _ref("Problem")}}
    own = {str(status): {"description": meaning[status], "content": content} for status in statuses}
    access = {
        "401": {"description": "There is no valid token.", "content": content},
        "403": {"description": "The request is not allowed.", "content": content},
        "500": {"description": "The server has a bug.", "content": content},
    }
    return own | access


_WAIT: Final = _query("wait", {"type": "number", "minimum": 0}, "Seconds to wait for the end of the job.", 30)
_JOB_PATH: Final[Schema] = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": _TEXT,
    "description": "The id of a job.",
    "example": JOB_ID,
}
_KEY: Final = _header("Idempotency-Key", "A repeated request with the same key gets the first job.", "upload-17")
_TRACE: Final = _header(
    "traceparent", "The W3C trace that the job continues.", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)

_SUBMIT_PARAMETERS: Final = [
    _query("pipeline", _TEXT, "The name of a pipeline, or its text if the server allows it.", "default"),
    _query("name", _TEXT, "A label.", "lenet.onnx"),
    _query("suffix", _TEXT, "The format of the model.", "onnx"),
    _query("to", _TEXT, "The format of the result.", "onnx"),
    _query("priority", {"type": "integer", "minimum": -1000, "maximum": 1000}, "Greater ones run first.", 1),
    _query("deadline", {"type": "number", "exclusiveMinimum": 0}, "Seconds until the job must end.", 30),
    _query("opt_level", {"type": "integer", "minimum": 0, "maximum": 1000}, "The level of the context.", 3),
    _query("required", _NAMES, "Passes that run whatever their level.", ["onnx.Inline"]),
    _query("disabled", _NAMES, "Passes that do not run.", ["onnx.Simplify"]),
    _query("config", _TEXT, "Config options as an object of JSON.", "{}"),
    _query("report", _FLAG, "Whether the report is recorded.", True),
    _query("functions", _FLAG, "Whether there are events about functions.", True),
    _query("texts", _FLAG, "Whether there are events with the text of the model around each pass.", True),
    _WAIT,
]

_FORM: Final[Schema] = {
    "type": "object",
    "properties": {
        "model": {"type": "string", "contentMediaType": "application/octet-stream"},
        **{item["name"]: item["schema"] for item in _SUBMIT_PARAMETERS},
    },
    "required": ["model"],
}

_SUBMITTED: Final = {
    "200": {
        "description": "The job has ended within `wait`; the result, if it is accepted as application/octet-stream.",
        "content": {
            "application/json": {"schema": _ref("Job")},
            "application/octet-stream": {"schema": {"type": "string"}},
        },
    },
    "202": {
        "description": "The job is accepted.",
        "headers": {"Location": {"schema": _TEXT, "description": "The path of the job."}},
        "content": {"application/json": {"schema": _ref("Job")}},
    },
}

_RESULT_HEADERS: Final = [
    _header("If-None-Match", "An ETag; the answer is 304 if the bytes have it.", f'"{DIGEST}"'),
    _header("Range", "A single range of bytes.", "bytes=0-1023"),
]

_BLOB_ANSWERS: Final = {
    "200": _bytes("The bytes, with an ETag."),
    "206": _bytes("The range of bytes."),
    "304": {"description": "The client has these bytes."},
}

_EVENTS: Final = {
    "description": "Server-sent events, whose data is an Event.",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}

_PATHS: Final[Mapping[str, Mapping[str, Any]]] = {
    "/v1/jobs": {
        "post": {
            "operationId": "submit",
            "summary": "Accept a job.",
            "parameters": [*_SUBMIT_PARAMETERS, _KEY, _TRACE],
            "requestBody": {
                "required": True,
                "description": "The bytes of the model, whose format the content type may name, or a form.",
                "content": {
                    "application/octet-stream": {"schema": {"type": "string"}},
                    "application/onnx": {"schema": {"type": "string"}},
                    "multipart/form-data": {"schema": _FORM},
                },
            },
            "responses": _SUBMITTED | _problems(400, 408, 409, 413, 415, 422, 429, 503, 507),
        },
        "get": {
            "operationId": "list",
            "summary": "Return a page of jobs, the latest first.",
            "parameters": [
                _query("state", _array(_STATE), "Only jobs in these states.", ["queued", "running"]),
                _query("q", _TEXT, "A part of the name or the pipeline, or the beginning of the id.", "lenet"),
                _query("limit", {"type": "integer", "minimum": 1, "maximum": 200}, "Jobs of the page.", 20),
                _query("before", _TEXT, "`next` of the page before.", JOB_ID),
                _query("tenant", _TEXT, "Only jobs of this tenant; needs the scope admin.", "alice"),
            ],
            "responses": {"200": _json("JobPage", "A page of jobs.")} | _problems(422, 503),
        },
    },
    "/v1/jobs/{id}": {
        "get": {
            "operationId": "find",
            "summary": "Return a job.",
            "parameters": [_JOB_PATH, _WAIT],
            "responses": {"200": _json("Job", "The job.")} | _problems(404, 422, 503),
        },
        "delete": {
            "operationId": "cancel",
            "summary": "Cancel a job, or remove one that has ended.",
            "parameters": [_JOB_PATH, _query("remove", _FLAG, "Whether to remove a job that has ended.", True)],
            "responses": {
                "200": _json("Job", "The job, which has ended."),
                "202": _json("Job", "The job, which another server has to cancel."),
                "204": {"description": "The job is removed."},
            }
            | _problems(404, 409, 422, 503, 507),
        },
    },
    "/v1/jobs/{id}/result": {
        "get": {
            "operationId": "result",
            "summary": "Return the bytes of the result.",
            "parameters": [_JOB_PATH, _WAIT, *_RESULT_HEADERS],
            "responses": _BLOB_ANSWERS | _problems(404, 409, 416, 422, 503),
        },
    },
    "/v1/jobs/{id}/model": {
        "get": {
            "operationId": "model",
            "summary": "Return the bytes of the model.",
            "parameters": [_JOB_PATH, *_RESULT_HEADERS],
            "responses": _BLOB_ANSWERS | _problems(404, 409, 416, 422, 503),
        },
    },
    "/v1/jobs/{id}/report": {
        "get": {
            "operationId": "report",
            "summary": "Return the report as an HTML page.",
            "parameters": [_JOB_PATH, _WAIT],
            "responses": {"200": _bytes("The page.", "text/html")} | _problems(404, 409, 422, 503),
        },
    },
    "/v1/jobs/{id}/events": {
        "get": {
            "operationId": "events",
            "summary": "Send the events of a job until its end.",
            "parameters": [
                _JOB_PATH,
                _query("after", _COUNT, "The id of the last event that is known.", 7),
                _header("Last-Event-ID", "The same, as a browser sends it.", "7"),
            ],
            "responses": {"200": _EVENTS, "204": {"description": "The job has ended, and all events are known."}}
            | _problems(404, 422, 503),
        },
    },
    "/v1/jobs/{id}/retry": {
        "post": {
            "operationId": "retry",
            "summary": "Submit the model of a job again.",
            "parameters": [_JOB_PATH, _WAIT, {**_KEY, "example": "retry-17"}, _TRACE],
            "responses": _SUBMITTED | _problems(404, 409, 422, 429, 503, 507),
        },
    },
    "/v1/events": {
        "get": {
            "operationId": "news",
            "summary": "Send the events of all visible jobs.",
            "parameters": [_query("kinds", _NAMES, "The kinds of events; `state` by default.", ["state"])],
            "responses": {"200": _EVENTS} | _problems(422, 503),
        },
    },
    "/v1/passes": {
        "get": {
            "operationId": "passes",
            "summary": "Return the passes that pipelines contain or may contain.",
            "responses": {"200": _json("Passes", "The passes.")} | _problems(422),
        },
    },
    "/v1/pipelines": {
        "get": {
            "operationId": "pipelines",
            "summary": "Return the named pipelines.",
            "responses": {"200": _json("Pipelines", "The pipelines.")} | _problems(422),
        },
    },
    "/v1/plan": {
        "post": {
            "operationId": "plan",
            "summary": "Return which passes of a pipeline run.",
            "requestBody": {"required": True, "content": {"application/json": {"schema": _ref("PlanRequest")}}},
            "responses": {"200": _json("Plan", "The plan.")} | _problems(400, 408, 413, 415, 422, 503),
        },
    },
    "/v1/status": {
        "get": {
            "operationId": "status",
            "summary": "Return what the server does and accepts.",
            "responses": {"200": _json("Status", "The status.")} | _problems(422, 503),
        },
    },
    "/v1/openapi.json": {
        "get": {
            "operationId": "openapi",
            "summary": "Return this description.",
            "security": [],
            "responses": {
                "200": {"description": "The description.", "content": {"application/json": {"schema": {}}}},
                **{status: _problems(422)[status] for status in ("403", "422")},
            },
        },
    },
    "/healthz": {
        "get": {
            "operationId": "live",
            "summary": "Return whether the process and its event loop work.",
            "security": [],
            "responses": {"200": _json("Health", "They work.")},
        },
    },
    "/readyz": {
        "get": {
            "operationId": "ready",
            "summary": "Return whether the server accepts jobs.",
            "security": [],
            "responses": {"200": _json("Health", "It does."), "503": _json("Health", "It does not.")},
        },
    },
    "/metrics": {
        "get": {
            "operationId": "metrics",
            "summary": "Return the metrics for Prometheus.",
            "responses": {"200": _bytes("The metrics.", "text/plain")} | _problems(404, 422),
        },
    },
}
