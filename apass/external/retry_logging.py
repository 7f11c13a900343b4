"""`quiet_retries`: attempts after the first leave no line on the terminal of a program that has set up no logging."""

import logging
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from stamina.instrumentation import RetryDetails, RetryHook, get_on_retry_hooks, set_on_retry_hooks

__all__ = ["quiet_retries"]

_LOGGER: Final = logging.getLogger("apass.external")
_LOGGER.addHandler(logging.NullHandler())  # nothing goes to standard error where nobody has set up logging


def quiet_retries() -> None:
    """Have stamina's own loggers speak only where somebody has set up what they speak through.

    structlog that nobody has configured prints to standard output, where results may go; `logging` prints warnings to
    standard error. Instead such lines go to the logger `apass.external`. Hooks that a program has set stay as they are.
    """
    hooks = get_on_retry_hooks()
    if any(hook.__module__ in _IS_HEARD for hook in hooks if hasattr(hook, "__module__")):
        set_on_retry_hooks([_listened_to(hook) for hook in hooks])


def _listened_to(hook: RetryHook) -> RetryHook:
    is_heard = _IS_HEARD.get(getattr(hook, "__module__", ""))
    return hook if is_heard is None else partial(_tell, is_heard, hook)


def _tell(is_heard: Callable[[], bool], hook: RetryHook, details: RetryDetails) -> Any:
    if is_heard():
        return hook(details)
    cause = f"{type(details.caused_by).__name__}: {details.caused_by}"
    _LOGGER.warning("attempt %d failed, the next is in %.2f s: %s", details.retry_num, details.wait_for, cause)
    return None


def _is_structlog_configured() -> bool:
    structlog = sys.modules.get("structlog")
    return structlog is not None and bool(structlog.is_configured())


def _is_logging_set_up() -> bool:
    return logging.getLogger("stamina").hasHandlers()


_IS_HEARD: Final[Mapping[str, Callable[[], bool]]] = {
    "stamina.instrumentation._structlog": _is_structlog_configured,
    "stamina.instrumentation._logging": _is_logging_set_up,
}
"""The modules of stamina whose hooks are there by default, and what tells whether anybody set them up."""
