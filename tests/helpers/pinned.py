"""Two IRs with adapters that record threads; one of them is not thread-safe."""

import threading
from typing import Any

from apass import PassContext, function_pass, module_pass, register_adapter
from apass.adapters.mapping import DictAdapter


class Pinned(dict[str, Any]):
    """Functions by name."""


class PinnedAdapter(DictAdapter):
    """An adapter that records the threads of its calls."""

    thread_safe = False

    def __init__(self) -> None:
        self.threads: dict[str, set[int]] = {}

    def record(self, method: str) -> None:
        """Record the thread of a call."""
        self.threads.setdefault(method, set()).add(threading.get_ident())

    def fingerprint(self, x: Any) -> str:
        """Record the call, and call the base class."""
        self.record("fingerprint")
        return super().fingerprint(x)

    def exact_fingerprint(self, x: Any) -> str:
        """Record the call, and call the base class."""
        self.record("exact_fingerprint")
        return super().exact_fingerprint(x)

    def verify(self, mod: Any) -> None:
        """Record the call, and call the base class."""
        self.record("verify")
        super().verify(mod)

    def to_text(self, x: Any) -> str:
        """Record the call, and call the base class."""
        self.record("to_text")
        return super().to_text(x)

    def dumps(self, mod: Any) -> bytes:
        """Record the call, and call the base class."""
        self.record("dumps")
        return super().dumps(mod)

    def loads(self, data: bytes) -> Pinned:
        """Record the call, and return a `Pinned`."""
        self.record("loads")
        return Pinned(super().loads(data))

    def __reduce__(self) -> str:
        return "ADAPTER"


ADAPTER = PinnedAdapter()


register_adapter(Pinned, ADAPTER)


class Sized(Pinned):
    """Functions by name; thread-safe, and small if there are at most two."""


class SizedAdapter(PinnedAdapter):
    """An adapter that records the threads of its calls."""

    thread_safe = True

    def is_small(self, mod: Sized) -> bool:
        """Return whether the module has at most two functions."""
        return len(mod) <= 2

    def loads(self, data: bytes) -> Sized:
        """Record the call, and return a `Sized`."""
        return Sized(super().loads(data))

    def __reduce__(self) -> str:
        return "SIZED"


SIZED = SizedAdapter()


register_adapter(Sized, SIZED)


@module_pass(opt_level=0, cacheable=True)
def Add(mod: Pinned, ctx: PassContext) -> Pinned:
    """Add a function."""
    return type(mod)({**mod, "g": 2})


@function_pass(opt_level=0)
def Grow(func: int, mod: Pinned, ctx: PassContext) -> int:
    """Add one."""
    return func + 1
