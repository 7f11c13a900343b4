"""`HonestChangeInstrument`: catches passes that change in place what they were given."""

from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from anyio.to_thread import run_sync

from apass.core.adapter import adapter_for
from apass.core.info import PassInfo
from apass.core.instrument import pass_instrument
from apass.core.run import Run, current_run
from apass.errors import VerifyError

__all__ = ["HonestChangeInstrument"]

_Prints = tuple[str, dict[str, str]]
"""The fingerprint of a module, and those of its functions by name."""


@pass_instrument
class HonestChangeInstrument:
    """Compares the fingerprint of each pass's input before the pass and after it; costly, for tests of passes.

    A pass must leave the module that it is given as it was, and return another one or, if nothing changed, the same. So
    two wrongs are caught: a pass that changed its input, and one that says by returning its input that nothing changed
    when something did. The pass ends with a VerifyError that names it and, for a function pass, the functions.
    What an IR's fingerprint does not see (`IRAdapter.fingerprint`) is not caught.

    >>> import apass
    >>> def clear(mod, ctx):
    ...     mod.clear()
    ...     return mod
    >>> context = apass.PassContext(instruments=[HonestChangeInstrument()])
    >>> try:
    ...     apass.run(apass.module_pass(clear, opt_level=0, name="Clear"), {"f": 8}, context=context)
    ... except apass.VerifyError as error:
    ...     print(error)
    pass 'Clear' changed in place the module that it was given ('f'), and returned it as if nothing had changed

    """

    def __init__(self) -> None:
        self._inputs: WeakKeyDictionary[Run, tuple[Any, _Prints]] = WeakKeyDictionary()
        self._lock = Lock()

    async def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Take the fingerprint of the input."""
        run = current_run()
        if run is not None:
            prints = await _fingerprints(mod)
            with self._lock:
                self._inputs[run] = (mod, prints)

    async def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Compare it."""
        run = current_run()
        if run is None:
            return
        with self._lock:
            known = self._inputs.pop(run, None)
        if known is None:
            return
        given, before = known
        after = await _fingerprints(given)
        if after == before:
            return
        which = ", ".join(map(repr, _changed(before, after))) or "outside of its functions"
        returned = "returned it as if nothing had changed" if mod is given else "returned another one"
        raise VerifyError(f"pass {info.name!r} changed in place the module that it was given ({which}), and {returned}")

    def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> None:
        """Forget the input."""
        run = current_run()
        if run is not None:
            with self._lock:
                self._inputs.pop(run, None)


async def _fingerprints(mod: Any) -> _Prints:
    return await run_sync(_take, mod) if adapter_for(mod).thread_safe else _take(mod)


def _take(mod: Any) -> _Prints:
    adapter = adapter_for(mod)
    return adapter.fingerprint(mod), {name: adapter.fingerprint(func) for name, func in adapter.functions(mod)}


def _changed(before: _Prints, after: _Prints) -> list[str]:
    """Return the names of functions that were changed, added or removed."""
    one, other = before[1], after[1]
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]
