"""Argument checks for counts, durations and types.

The checks reject `bool`, which is a subclass of `int`, and `str`.
"""

from types import UnionType

__all__ = ["check_methods", "check_type", "is_count", "is_seconds"]


def is_count(value: object) -> bool:
    """Return whether `value` is an int of at least 1.

    >>> [is_count(value) for value in (1, 0, True, 2.0, "3", None)]
    [True, False, False, False, False, False]
    """
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def is_seconds(value: object) -> bool:
    """Return whether `value` is a positive number, including infinity.

    >>> [is_seconds(value) for value in (1, 0.5, float("inf"), 0, True, float("nan"), "3")]
    [True, True, True, False, False, False, False]
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def check_type(what: str, value: object, kind: type | UnionType) -> None:
    """Raise TypeError, with `what` in the message, if `value` is not of type `kind`.

    >>> check_type("name", 3, str | None)
    Traceback (most recent call last):
        ...
    TypeError: the name must be of type str | None, got 3
    """
    if not isinstance(value, kind):
        names = [member.__name__ for member in (kind.__args__ if isinstance(kind, UnionType) else (kind,))]
        expected = " | ".join(names).replace("NoneType", "None")
        raise TypeError(f"the {what} must be of type {expected}, got {value!r}")


def check_methods(what: str, value: object, kind: str, *methods: str) -> None:
    """Raise TypeError if an object lacks methods of the protocol `kind`.

    >>> check_methods("observer", 5, "a JobObserver", "on_event", "run")
    Traceback (most recent call last):
        ...
    TypeError: the observer must be a JobObserver with the methods on_event and run, got 5
    """
    if isinstance(value, type) or not all(callable(getattr(value, name, None)) for name in methods):
        names = " and ".join(methods)
        raise TypeError(f"the {what} must be {kind} with the method{'s' * (len(methods) > 1)} {names}, got {value!r}")
