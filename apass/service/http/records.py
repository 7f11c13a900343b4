"""Jobs and their events as values of JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from starlette.responses import Response

from apass.batch.formats import suffixes
from apass.service.jobs import JobFailure, JobRecord, JobState

__all__ = ["failure_json", "job_json", "json_response"]


def job_json(record: JobRecord, root: str = "", *, may_read: bool = True) -> dict[str, Any]:
    """Return a job as values of JSON. Times are in seconds since 1970.

    Parameters:
        record: the job.
        root: the path below which the application is mounted, for the links.
        may_read: whether the receiver may read jobs. Otherwise, what the job has computed is left out.

    """
    if not may_read:
        record = replace(record, result_digest=None, report_digest=None, summary=None, failure=None)
    path = f"{root}/v1/jobs/{record.id}"
    has_result = record.state is JobState.DONE and record.result_digest is not None
    return {
        "id": record.id,
        "tenant": record.tenant,
        "name": record.name,
        "state": str(record.state),
        "kind": record.kind,
        "result_kind": record.result_kind,
        "pipeline": record.pipeline,
        "options": {
            "opt_level": record.options.opt_level,
            "required": list(record.options.required_pass),
            "disabled": list(record.options.disabled_pass),
            "config": dict(record.options.config),
            "report": record.options.report,
            "functions": record.options.functions,
            "texts": record.options.texts,
        },
        "priority": record.priority,
        "created": record.created,
        "started": record.started,
        "finished": record.finished,
        "deadline": record.deadline,
        "attempts": record.attempts,
        "reused": record.reused,
        "idempotency_key": record.idempotency_key,
        "trace": record.trace,
        "model": {"digest": record.model_digest, "size": record.model_size},
        "result": {"digest": record.result_digest, "size": record.result_size} if has_result else None,
        "summary": None if record.summary is None else asdict(record.summary),
        "failure": None if record.failure is None else failure_json(record.failure),
        "links": {
            "self": path,
            "events": f"{path}/events",
            "model": f"{path}/model" if may_read and record.kind in suffixes() else None,
            "result": f"{path}/result" if has_result and record.result_kind in suffixes() else None,
            "report": f"{path}/report" if record.report_digest is not None else None,
        },
    }


def failure_json(failure: JobFailure) -> dict[str, Any]:
    """Return the failure of a job as values of JSON."""
    return {
        "kind": failure.kind,
        "message": failure.message,
        "notes": list(failure.notes),
        "pass": failure.pass_name,
        "function": failure.function,
        "diagnostics": [dict(item) for item in failure.diagnostics],
    }


def json_response(values: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer with JSON."""
    return Response(json.dumps(values, separators=(",", ":")), status, headers, "application/json")
