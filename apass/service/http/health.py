"""The handlers of `/healthz`, `/readyz` and `/v1/status`."""

from collections.abc import Mapping
from typing import Any, Final

import anyio
from anyio.to_thread import run_sync
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from apass.core.config import list_configs
from apass.service.errors import JobsUnavailableError
from apass.service.http.auth import TokenScope
from apass.service.http.openapi import describe_api
from apass.service.http.records import json_response
from apass.service.http.requests import Service, check_readable, identity_of, parameters_of, require, root_of
from apass.service.jobs import JobState
from apass.service.metrics import ServiceMetrics
from apass.util.version import __version__

__all__ = ["HealthHandlers"]

PROBE_SECONDS: Final = 2.0
"""Seconds in which the store must answer."""


class HealthHandlers:
    """Handles requests about the state of the server.

    Parameters:
        service: the service.

    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._optimizer = service.optimizer

    async def live(self, request: Request) -> Response:
        """Answer, because the process and its event loop work."""
        return json_response({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Return whether the server accepts jobs."""
        reason = await self._reason()
        if reason is None:
            return json_response({"status": "ready"})
        return json_response({"status": "not ready", "reason": reason}, 503, {"retry-after": "5"})

    async def openapi(self, request: Request) -> Response:
        """Return the description of the interface."""
        parameters_of(request)
        return json_response(describe_api(root_of(request)))

    async def metrics(self, request: Request) -> Response:
        """Return the metrics of the optimizer's `ServiceMetrics`."""
        require(request, TokenScope.METRICS)
        parameters_of(request)
        metrics = next((item for item in self._optimizer.observers if isinstance(item, ServiceMetrics)), None)
        if metrics is None:
            raise HTTPException(404, "the server keeps no metrics; add ServiceMetrics to observers of its Optimizer")
        return Response(metrics.render(), 200, media_type=CONTENT_TYPE_LATEST)

    async def status(self, request: Request) -> Response:
        """Return what the server does and accepts."""
        # Every token may ask for its scopes. A program that only submits checks its token by this.
        identity, optimizer = identity_of(request), self._optimizer
        parameters_of(request)
        check_readable(optimizer)
        allowed = optimizer.limits.config
        may_read = identity.permits(TokenScope.READ)
        counts: Mapping[JobState, int] = await optimizer.store.count(identity.visible_tenant) if may_read else {}
        # Modules with config options are imported, which takes long.
        configs: Mapping[str, Mapping[str, Any]] = await run_sync(list_configs) if allowed else {}
        values: dict[str, Any] = {
            "version": __version__,
            "accepts": not optimizer.is_draining,
            "tenant": identity.tenant,
            "scopes": sorted(identity.scopes),
            "jobs": {str(state): count for state, count in counts.items()},
            "limits": optimizer.limits.as_json(),
            "suffixes": list(await optimizer.formats.suffixes()),
            "config": [
                {"name": key, "type": item["type"], "default": item["default"], "doc": item["doc"]}
                for key, item in configs.items()
                if key in allowed
            ],
            "server": None,
        }
        if identity.permits(TokenScope.ADMIN):
            status = optimizer.status()
            values["server"] = {
                "queued": status.queued,
                "running": status.running,
                "workers": status.workers,
                "jobs": status.jobs,
                "oldest": status.oldest,
                "error": status.error,
            }
        return json_response(values)

    async def _reason(self) -> str | None:
        """Return why the server accepts no jobs; None if it does."""
        optimizer = self._optimizer
        if not optimizer.is_open:
            return "the optimizer is not open"
        if optimizer.is_draining:
            return "the optimizer ends"
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
