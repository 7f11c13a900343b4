"""The service: jobs in async applications, and a server over HTTP."""

from typing import TYPE_CHECKING

from apass.util.lazy_names import lazy_names

if TYPE_CHECKING:
    from apass.service.client import Client
    from apass.service.errors import (
        AccessError,
        IdempotencyError,
        InvalidJobError,
        JobCancelledError,
        JobFailedError,
        JobsUnavailableError,
        ModelTooLargeError,
        NoResultError,
        OptimizerClosedError,
        QueueFullError,
        ServerUnavailableError,
        ServiceError,
        StoreTakenError,
        UnknownJobError,
    )
    from apass.service.http.app import create_app
    from apass.service.http.auth import Identity, Token, Tokens, TokenScope, new_token
    from apass.service.job import Job, JobEvents
    from apass.service.job_news import JobNews
    from apass.service.job_store import JobPage, JobQuery, JobStore
    from apass.service.jobs import JobEvent, JobFailure, JobOptions, JobRecord, JobState, JobSummary
    from apass.service.limits import Limits
    from apass.service.memory_jobs import MemoryJobStore
    from apass.service.metrics import ServiceMetrics
    from apass.service.optimizer import JobObserver, Optimizer, OptimizerStatus
    from apass.service.remote_job import RemoteEvents, RemoteJob, RemoteJobs
    from apass.service.sql_jobs import SqlJobStore
    from apass.service.tracing import ServiceTracing
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "apass.service.client": ["Client"],
            "apass.service.errors": [
                "AccessError",
                "IdempotencyError",
                "InvalidJobError",
                "JobCancelledError",
                "JobFailedError",
                "JobsUnavailableError",
                "ModelTooLargeError",
                "NoResultError",
                "OptimizerClosedError",
                "QueueFullError",
                "ServerUnavailableError",
                "ServiceError",
                "StoreTakenError",
                "UnknownJobError",
            ],
            "apass.service.http.app": ["create_app"],
            "apass.service.http.auth": ["Identity", "Token", "TokenScope", "Tokens", "new_token"],
            "apass.service.job": ["Job", "JobEvents"],
            "apass.service.job_news": ["JobNews"],
            "apass.service.job_store": ["JobPage", "JobQuery", "JobStore"],
            "apass.service.jobs": ["JobEvent", "JobFailure", "JobOptions", "JobRecord", "JobState", "JobSummary"],
            "apass.service.limits": ["Limits"],
            "apass.service.memory_jobs": ["MemoryJobStore"],
            "apass.service.metrics": ["ServiceMetrics"],
            "apass.service.optimizer": ["JobObserver", "Optimizer", "OptimizerStatus"],
            "apass.service.remote_job": ["RemoteEvents", "RemoteJob", "RemoteJobs"],
            "apass.service.sql_jobs": ["SqlJobStore"],
            "apass.service.tracing": ["ServiceTracing"],
        },
    )

__all__ = [
    "AccessError",
    "Client",
    "IdempotencyError",
    "Identity",
    "InvalidJobError",
    "Job",
    "JobCancelledError",
    "JobEvent",
    "JobEvents",
    "JobFailedError",
    "JobFailure",
    "JobNews",
    "JobObserver",
    "JobOptions",
    "JobPage",
    "JobQuery",
    "JobRecord",
    "JobState",
    "JobStore",
    "JobSummary",
    "JobsUnavailableError",
    "Limits",
    "MemoryJobStore",
    "ModelTooLargeError",
    "NoResultError",
    "Optimizer",
    "OptimizerClosedError",
    "OptimizerStatus",
    "QueueFullError",
    "RemoteEvents",
    "RemoteJob",
    "RemoteJobs",
    "ServerUnavailableError",
    "ServiceError",
    "ServiceMetrics",
    "ServiceTracing",
    "SqlJobStore",
    "StoreTakenError",
    "Token",
    "TokenScope",
    "Tokens",
    "UnknownJobError",
    "create_app",
    "new_token",
]
