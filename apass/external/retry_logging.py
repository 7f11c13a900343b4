"""`quiet_retries`: keeps stamina's default retry messages off the terminal."""

import logging
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from stamina.instrumentation import RetryDetails, RetryHook, get_on_retry_hooks, set_on_retry_hooks

__all__ = ["quiet_retries"]

_LOGGER: Final = logging.getLogger("apass.external")
_LOGGER.addHandler(logging.NullHandler())  # without it, `logging` prints warnings to standard error by default


def quiet_retries() -> None:
    """Redirect stamina's default hooks to the logger `apass.external`.

    A default hook remains active only if the program has configured its logging library. Otherwise structlog would
    print to standard output, where results may go, and `logging` to standard error. Hooks set by the program are
    unchanged.
    """
    hooks = get_on_retry_hooks()
    if any(hook.__module__ in _IS_CONFIGURED for hook in hooks if hasattr(hook, "__module__")):
        set_on_retry_hooks([_redirected(hook) for hook in hooks])


def _redirected(hook: RetryHook) -> RetryHook:
    is_configured = _IS_CONFIGURED.get(getattr(hook, "__module__", ""))
    return hook if is_configured is None else partial(_call_or_log, is_configured, hook)


def _call_or_log(is_configured: Callable[[], bool], hook: RetryHook, details: RetryDetails) -> Any:
    if is_configured():
        return hook(details)
    cause = f"{type(details.caused_by).__name__}: {details.caused_by}"
    _LOGGER.warning("attempt %d failed, retrying in %.2f s: %s", details.retry_num, details.wait_for, cause)
    return None


def _is_structlog_configured() -> bool:
    structlog = sys.modules.get("structlog")
    return structlog is not None and bool(structlog.is_configured())


def _is_logging_configured() -> bool:
    return logging.getLogger("stamina").hasHandlers()


_IS_CONFIGURED: Final[Mapping[str, Callable[[], bool]]] = {
    "stamina.instrumentation._structlog": _is_structlog_configured,
    "stamina.instrumentation._logging": _is_logging_configured,
}
"""stamina's default hooks by module, each with the check for its library's setup."""
