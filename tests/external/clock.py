"""A manual clock, for tests in which time must not pass by itself."""

__all__ = ["Clock"]


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now
