"""The handlers of `/v1/passes`, `/v1/pipelines` and `/v1/plan`."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from inspect import cleandoc
from pathlib import Path
from re import split
from typing import Any, Final, cast

import anyio
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response

from apass.batch.formats import format_of, suffixes
from apass.core.context import PassContext
from apass.core.pass_factories import find_factory, known_names
from apass.errors import ApassError, MissingExtraError, PluginError, UnknownPassError, did_you_mean
from apass.loading.entry_points import plugins
from apass.passes.base import Pass
from apass.passes.descriptions import describe_pass
from apass.passes.registry import pass_documentation
from apass.pipelines.parser import parse_pipeline
from apass.pipelines.plan import plan
from apass.service import api
from apass.service.errors import InvalidJobError
from apass.service.http.operations import Handlers, Operation
from apass.service.http.parameters import decode_object, read_object
from apass.service.http.problems import BadRequestError, InvalidParameterError, UnsupportedMediaTypeError
from apass.service.http.requests import Service, check_readable, json_response
from apass.service.http.uploads import BodyReader
from apass.service.job_request import context_of
from apass.service.jobs import JobOptions

__all__ = ["CatalogueHandlers", "allowed_names"]

MAX_JSON: Final = 1 << 18
"""Bytes of a body of JSON."""

DEFAULT_DOC: Final = "The default pipeline of the IR of the model."


class CatalogueHandlers(Handlers):
    """Handles requests about passes and pipelines."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._passes: api.Passes | None = None
        self._lock = anyio.Lock()

    @Operation("GET", "/v1/passes", [api.Passes])
    async def passes(self, request: Request, _: api.Nothing) -> Response:
        """Return the passes that pipelines contain or may contain."""
        async with self._lock:
            if self._passes is None:
                # Plug-ins are imported, which takes long. They do not change while the process runs.
                self._passes = await run_sync(self._describe_passes)
        return json_response(self._passes)

    @Operation("GET", "/v1/pipelines", [api.Pipelines])
    async def pipelines(self, request: Request, _: api.Nothing) -> Response:
        """Return the named pipelines."""
        pipelines = self._optimizer.pipelines
        described = await run_sync(lambda: tuple(_describe(name, item) for name, item in pipelines.named.items()))
        return json_response(api.Pipelines(described, tuple(pipelines.allow)))

    @Operation("POST", "/v1/plan", [api.Plan], body=[api.PlanRequest])
    async def plan(self, request: Request, _: api.Nothing) -> Response:
        """Return which passes of a pipeline run."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise UnsupportedMediaTypeError("the body must be JSON; send Content-Type: application/json")
        reader = BodyReader(request, MAX_JSON, self._service.body_seconds)
        body = b"".join([chunk async for chunk in reader])
        try:
            values = decode_object(body, "the body")
        except InvalidParameterError as error:
            raise BadRequestError(f'{error}; send for example {{"pipeline": "default"}}') from error
        query = read_object(values, api.PlanRequest)
        options = JobOptions(
            opt_level=query.opt_level,
            required_pass=query.required,
            disabled_pass=query.disabled,
            config=query.config,
        )
        context = context_of(options, self._optimizer.limits)
        check_readable(self._optimizer)
        self._optimizer.check_open()
        pipeline = (await self._optimizer.pipelines.find(query.pipeline)).pass_
        kind = f".{query.suffix.lower().removeprefix('.')}"
        await self._optimizer.pipelines.check_options(query.pipeline, kind, kind, options)
        return json_response(await run_sync(partial(_plan, pipeline, query.suffix, context)))

    def _describe_passes(self) -> api.Passes:
        """Return the descriptions of passes; runs in a thread."""
        allowed = set(allowed_names(self._optimizer.pipelines.allow))
        contained: dict[str, Pass[Any]] = {}
        for pipeline in self._optimizer.pipelines.named.values():
            contained |= _contained(pipeline)
        described: list[Any] = []
        for name in sorted({*allowed, *contained}):
            try:
                values = describe_pass(name)
                if name in contained and values["error"] is not None:
                    raise UnknownPassError(name)
            except UnknownPassError:
                values = _unregistered(name, contained[name])
            allow = self._optimizer.pipelines.allow
            for option in values["options"]:
                own = f"{name}{{{option['name']}}}"
                option["allowed"] = name in allowed and (option["outside"] is None or own in allow)
            is_allowed = name in allowed and ("outside" not in values["contract"] or name in allow)
            described.append({**values, "allowed": is_allowed})
        return api.Passes(tuple(described))


def allowed_names(allow: Iterable[str]) -> Iterator[str]:
    """Iterate over the names of allowed passes, and import their plug-ins."""
    for element in allow:
        pattern = element.partition("{")[0]  # without the name of an option
        if not set("*?[") & set(pattern):
            try:
                find_factory(pattern)
            except ApassError:
                continue  # the name of a callable, or of a pass whose library is missing
            yield pattern
            continue
        for other, offer in plugins("apass.pass_modules").items():
            if _may_overlap(pattern, other):
                try:
                    offer.load()
                except (MissingExtraError, PluginError):
                    continue  # its library is not installed
        yield from (name for name in known_names() if fnmatchcase(name, pattern))


def _may_overlap(pattern: str, other: str) -> bool:
    """Return whether a name may match both patterns.

    >>> [_may_overlap("onnx.*", other) for other in ("onnx.*", "onnx.nodes", "*", "onnxslim.*", "tvm.*")]
    [True, True, True, False, False]
    """
    one, two = (split(r"[*?[]", text, maxsplit=1)[0] for text in (pattern, other))
    return one.startswith(two) or two.startswith(one)


def _contained(pipeline: Pass[Any] | str) -> dict[str, Pass[Any]]:
    """Return the passes in a pipeline by name.

    Of the combinators, only those with a registered name are included.
    """
    result: dict[str, Pass[Any]] = {}
    stack = [parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline]
    while stack:
        pass_ = stack.pop()
        branches = pass_.branches()
        stack += [item for branch in branches for item in branch]
        if not branches or len(pass_.all_names) > 1:
            result[pass_.all_names[-1]] = pass_
    return result


def _unregistered(name: str, pass_: Pass[Any]) -> dict[str, Any]:
    """Return the description of a pass that only an object of the application has."""
    return {
        "name": name,
        "level": pass_.info.opt_level,
        "requires": list(pass_.info.required),
        "ir": None,
        "options": [],
        "doc": cleandoc(type(pass_).__doc__ or ""),
        "contract": {},
        "error": None,
    }


def _describe(name: str, pipeline: Pass[Any] | str) -> api.Pipeline:
    """Return the description of a named pipeline; runs in a thread."""
    if not pipeline:
        return {"name": name, "text": "", "doc": DEFAULT_DOC, "passes": []}
    pass_ = parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    doc = pass_documentation(pass_.registered_name) if pass_.registered_name is not None else ""
    return {"name": name, "text": _text(pass_), "doc": doc, "passes": sorted(_contained(pass_))}


def _plan(pipeline: Pass[Any] | None, suffix: str, context: PassContext) -> api.Plan:
    """Return the plan of a pipeline; runs in a thread."""
    try:
        if pipeline is None:
            kind = f".{suffix.lower().removeprefix('.')}"
            if kind not in suffixes():
                near = did_you_mean(kind, suffixes()) or f"; suffixes are {', '.join(suffixes())}"
                reason = "this is the default pipeline of an IR; add the suffix of a model"
                raise InvalidParameterError(
                    f"there is no format of models for the suffix {kind!r}{near}" if suffix else f"{reason}{near}"
                )
            pipeline = parse_pipeline(format_of(Path(f"model{kind}")).default_pipeline)
        return api.Plan(_text(pipeline), cast("api.PlannedPass", plan(pipeline, context).as_json()))
    except InvalidParameterError:
        raise
    except ApassError as error:
        raise InvalidJobError(str(error)) from error


def _text(pass_: Pass[Any]) -> str | None:
    """Return the text of a pipeline; None if a pass is not registered."""
    try:
        return str(pass_)
    except ApassError:
        return None
