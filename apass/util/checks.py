"""What a caller gave, checked: counts and seconds, for which Python takes True and text for too long."""

__all__ = ["is_count", "is_seconds"]


def is_count(value: object) -> bool:
    """Tell whether `value` is an int of at least 1.

    >>> [is_count(value) for value in (1, 0, True, 2.0, "3", None)]
    [True, False, False, False, False, False]
    """
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def is_seconds(value: object) -> bool:
    """Tell whether `value` is a number above 0, infinity included.

    >>> [is_seconds(value) for value in (1, 0.5, float("inf"), 0, True, float("nan"), "3")]
    [True, True, True, False, False, False, False]
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
