"""`Limits`: what an optimizer accepts, keeps and does at once."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from apass.util.checks import is_count, is_seconds

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of an `Optimizer`. None is no limit.

    Raises:
        ValueError: if a value is neither positive nor None.

    """

    running: int | None = None
    """Jobs that run at once; by default 64 in the event loop, and the number of workers of an executor."""
    queued: int | None = 10_000
    """Jobs that wait."""
    tenant_running: int | None = None
    """Jobs of one tenant that run at once."""
    tenant_queued: int | None = None
    """Jobs of one tenant that wait."""
    tenant_rate: float | None = None
    """Jobs per second that a tenant may submit, with bursts of as many."""
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    """The share of a tenant relative to the others; 1 by default."""
    model_bytes: int | None = 2**28
    """Bytes of a model."""
    memory_bytes: int | None = None
    """Bytes of memory that the jobs which run at once are expected to need. A job that needs more runs alone."""
    pipeline_length: int | None = 10_000
    """Characters of the text of a pipeline."""
    deadline: float | None = None
    """Seconds that a job has from its acceptance to its end, if it names none."""
    max_deadline: float | None = None
    """The longest deadline that a job may name."""
    attempts: int = 5
    """How often a job is started, if its attempts do not end because a worker or the server is lost."""
    max_age: float | None = 7 * 86_400.0
    """Seconds for which a job is kept after its end."""
    stored_bytes: int | None = 10 * 2**30
    """Bytes of all models, results and reports. Of the jobs that have ended, the oldest are removed first."""
    events: int = 2_000
    """Events that are kept of each job; the oldest are dropped."""
    config: frozenset[str] = frozenset()
    """The config options that a job may set."""
    drain: float = 10.0
    """Seconds that running jobs have when the optimizer ends. They are then cancelled, and kept by a durable store."""

    def __post_init__(self) -> None:
        """Check the values."""
        for item in fields(self):
            value: Any = getattr(self, item.name)
            if value is None:
                continue
            if item.type in (int, int | None) and not is_count(value):
                raise ValueError(f"limits: {item.name} must be a positive int or None, got {value!r}")
            if item.type in (float, float | None) and not is_seconds(value):
                raise ValueError(f"limits: {item.name} must be a positive number or None, got {value!r}")
        if self.deadline is not None and self.max_deadline is not None and self.deadline > self.max_deadline:
            raise ValueError(
                f"limits: deadline must be at most max_deadline, got {self.deadline!r} and {self.max_deadline!r}"
            )
        config: Collection[object] = self.config
        is_set = isinstance(config, Collection) and not isinstance(config, str)
        if not is_set or not all(isinstance(name, str) for name in config):
            raise ValueError(f"limits: config must be a set of names, got {config!r}")
        weights: Any = self.weights
        if not isinstance(weights, Mapping):
            raise ValueError(f"limits: weights must be a mapping of tenants to numbers, got {weights!r}")
        for tenant, weight in self.weights.items():
            if not is_seconds(weight):
                raise ValueError(f"limits: the weight of tenant {tenant!r} must be a positive number, got {weight!r}")
        object.__setattr__(self, "weights", MappingProxyType(dict(self.weights)))
        object.__setattr__(self, "config", frozenset(self.config))

    def as_json(self) -> dict[str, Any]:
        """Return the limits that a client may see, as values of JSON."""
        hidden = ("weights", "config")
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name not in hidden}
