"""The handlers of `/healthz`, `/readyz`, `/metrics` and `/v1/status`."""

from collections.abc import Mapping
from typing import Any, Final

import anyio
from anyio.to_thread import run_sync
from msgspec import convert
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from apass.core.config import list_configs
from apass.service import api
from apass.service.errors import JobsUnavailableError
from apass.service.http.auth import TokenScope
from apass.service.http.operations import Handlers, Operation
from apass.service.http.requests import check_readable, identity_of, json_response
from apass.service.metrics import ServiceMetrics
from apass.util.version import __version__

__all__ = ["HealthHandlers"]

PROBE_SECONDS: Final = 2.0
"""Seconds in which the store must answer."""


class HealthHandlers(Handlers):
    """Handles requests about the state of the server."""

    @Operation("GET", "/healthz", [api.Health], query=None, scope=None, needs_token=False)
    async def live(self, request: Request, _: api.Nothing) -> Response:
        """Return whether the process and its event loop work."""
        return json_response(api.Health("ok"))

    @Operation("GET", "/readyz", [api.Health], query=None, scope=None, needs_token=False, more={503: [api.Health]})
    async def ready(self, request: Request, _: api.Nothing) -> Response:
        """Return whether the server accepts jobs."""
        reason = await self._reason()
        if reason is None:
            return json_response(api.Health("ready"))
        return json_response(api.Health("not ready", reason), 503, {"retry-after": "5"})

    @Operation("GET", "/metrics", ["text/plain"], scope=TokenScope.METRICS)
    async def metrics(self, request: Request, _: api.Nothing) -> Response:
        """Return the metrics for Prometheus, those of `ServiceMetrics`."""
        metrics = next((item for item in self._optimizer.observers if isinstance(item, ServiceMetrics)), None)
        if metrics is None:
            raise HTTPException(404, "the server keeps no metrics; add ServiceMetrics to observers of its Optimizer")
        return Response(metrics.render(), 200, media_type=CONTENT_TYPE_LATEST)

    # Every token may ask for its scopes. A program that only submits checks its token by this.
    @Operation("GET", "/v1/status", [api.Status], scope=None)
    async def status(self, request: Request, _: api.Nothing) -> Response:
        """Return what the server does and accepts."""
        identity, optimizer = identity_of(request), self._optimizer
        check_readable(optimizer)
        allowed = optimizer.limits.config
        may_read = identity.permits(TokenScope.READ)
        # Modules with config options are imported, which takes long.
        configs: Mapping[str, Any] = await run_sync(list_configs) if allowed else {}
        is_admin = identity.permits(TokenScope.ADMIN)
        return json_response(
            api.Status(
                version=__version__,
                accepts=not optimizer.is_draining,
                tenant=identity.tenant,
                scopes=sorted(identity.scopes),
                jobs=dict(await optimizer.store.count(identity.visible_tenant)) if may_read else {},
                limits=optimizer.limits.as_json(),
                suffixes=tuple(await optimizer.formats.suffixes()),
                config=[
                    {"name": key, "type": item["type"], "default": item["default"], "doc": item["doc"]}
                    for key, item in configs.items()
                    if key in allowed
                ],
                server=convert(optimizer.status(), api.Load, from_attributes=True) if is_admin else None,
            )
        )

    async def _reason(self) -> str | None:
        """Return why the server accepts no jobs; None if it does."""
        optimizer = self._optimizer
        if not optimizer.is_open:
            return "the optimizer is not open"
        if optimizer.is_standby:
            return "standby"
        if optimizer.is_draining:
            return "the optimizer ends" if optimizer.failure is None else str(optimizer.failure)
        status = optimizer.status()
        if status.error is not None:
            return status.error
        try:
            with anyio.fail_after(PROBE_SECONDS):
                await optimizer.store.find("0" * 32)
        except TimeoutError:
            return f"the store of the jobs has not answered for {PROBE_SECONDS:g} s"
        except JobsUnavailableError as error:
            return str(error)
        return None
