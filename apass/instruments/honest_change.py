"""`HonestChangeInstrument`: detects passes that change their input in place."""

from collections.abc import Callable
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from anyio.to_thread import run_sync

from apass.core.adapter import adapter_for
from apass.core.instrument import pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.run import Run, current_run
from apass.errors import VerifyError

__all__ = ["HonestChangeInstrument"]

_Prints = tuple[str, dict[str, str]]
"""The fingerprint of a module, and those of its functions by name."""


@pass_instrument
class HonestChangeInstrument:
    """Compares the fingerprint of each pass's input before and after the pass.

    This is expensive, and meant for tests of passes. A pass must not change its input. It must return another module,
    or its input if nothing changed. The instrument detects passes that change their input, whether they return it (and
    so report that nothing changed) or another module. The pass ends with a VerifyError that names the pass and the
    changed functions. Changes that the IR's fingerprint ignores (`IRAdapter.fingerprint`) are not detected.

    >>> import apass
    >>> def clear(mod, ctx):
    ...     mod.clear()
    ...     return mod
    >>> context = apass.PassContext(instruments=[HonestChangeInstrument()])
    >>> try:
    ...     apass.run(apass.module_pass(clear, opt_level=0, name="Clear"), {"f": 8}, context=context)
    ... except apass.errors.VerifyError as error:
    ...     print(error)
    pass 'Clear' changed its input in place ('f'), and returned it as if nothing had changed

    """

    def __init__(self) -> None:
        self._inputs: WeakKeyDictionary[Run, tuple[Any, _Prints]] = WeakKeyDictionary()
        self._lock = Lock()

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return HonestChangeInstrument

    async def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Take the fingerprint of the input."""
        run = current_run()
        if run is not None:
            prints = await _fingerprints(mod)
            with self._lock:
                self._inputs[run] = (mod, prints)

    async def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Compare the fingerprints.

        Raises:
            VerifyError: if the pass changed its input in place.

        """
        run = current_run()
        if run is None:
            return
        with self._lock:
            entry = self._inputs.pop(run, None)
        if entry is None:
            return
        original, before = entry
        after = await _fingerprints(original)
        if after == before:
            return
        which = ", ".join(map(repr, _changed(before, after))) or "outside of its functions"
        returned = "returned it as if nothing had changed" if mod is original else "returned another module"
        raise VerifyError(f"pass {info.name!r} changed its input in place ({which}), and {returned}")

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
    old, new = before[1], after[1]
    return [name for name in {**old, **new} if old.get(name) != new.get(name)]
