"""`check_pass`: the laws that hold for every pass."""

import os
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import Any, Final

from apass.concurrency.interleaving import seeded
from apass.core.adapter import FunctionKind, IRAdapter, ModT, adapter_for, exact_fingerprint, select_functions
from apass.core.config import ConfigValues
from apass.core.context import PassContext
from apass.core.run_settings import RunSettings
from apass.core.store import Store
from apass.core.tracebacks import hidden_assertion
from apass.errors import AdapterError, PassContextError, VerifyError
from apass.passes.base import Pass
from apass.passes.function_pass import FunctionPass
from apass.pipelines.parser import as_pass
from apass.stores.memory import MemoryStore
from apass.sync import in_event_loop, run
from apass.testing.event_loops import SEED_VARIABLE, chosen_seed, interleave
from apass.testing.running import named_modules, show_difference

__all__ = ["check_pass"]

__tracebackhide__ = hidden_assertion

RUNS: Final = 5
"""How many random orders are tried on each event loop, if the caller does not choose."""


def check_pass(
    pass_: Pass[ModT] | str,
    modules: Mapping[str, ModT] | Iterable[ModT],
    *,
    opt_level: int = 2,
    config: ConfigValues | None = None,
    runs: int = RUNS,
    seed: int | None = 0,
    backends: Iterable[str] | None = None,
    idempotent: bool = False,
) -> None:
    """Assert that the laws of passes hold for a pass on some modules.

    - The input is not changed.
    - If nothing changed, the result is the module itself.
    - The verifier accepts the result.
    - The fingerprint of the result is the same when it is computed again, and after `dumps` and `loads`.
    - What the pass claims to preserve is preserved (see `DebugInstrument(strict=True)`).
    - The result is the same in every order of bodies, on asyncio and on trio.
    - If the pass is `cacheable`, its result comes back from a store, and that of a function does not depend on the
      other functions. A pass whose bodies read other functions needs `cacheable="module"`.
    - If the pass is `idempotent`, or the argument is True, it changes nothing when it runs on its result.

    Parameters:
        pass_: the pass, or the text of a pipeline.
        modules: valid modules, with or without names. Include some that the pass changes and some that it does not.
        opt_level: the level of the context.
        config: the config options of the context.
        runs: how many random orders to try on each event loop; see `interleave`.
        seed: the seed of the first order; the others follow it. None is a random one. If the environment variable
            `APASS_SEED` is set, only its order is tried.
        backends: the event loops; asyncio, and trio if it is installed, if None.
        idempotent: whether to check that a second run changes nothing, also of a pass that does not claim it.

    Raises:
        AssertionError: if a law does not hold. The message names the law and the module, and the seed if there is one.
        PassContextError: if the caller is an async test.
        Exception: any error of the pass, with a note that names the module.

    >>> import apass
    >>> calls = []
    >>> def count(func, mod, ctx):
    ...     calls.append(func)
    ...     return func + len(calls)
    >>> Count = apass.function_pass(count, opt_level=0, name="Count")
    >>> check_pass(Count, {"two": {"f": 0, "g": 0}}, seed=1)
    Traceback (most recent call last):
        ...
    AssertionError: pass 'Count' on module 'two': the result depends on the order of bodies, or on earlier runs
    --- expected
    +++ actual
    @@ -1 +1 @@ f
    -f: 1
    +f: 3
    @@ -1 +1 @@ g
    -g: 2
    +g: 4
    (asyncio, seed 1; APASS_SEED=1 repeats this order)

    """
    if in_event_loop():
        raise PassContextError("check_pass starts event loops; call it from a plain test, which is no `async def`")
    parsed = as_pass("check_pass(pass_, modules)", pass_)
    first = chosen_seed(seed)
    seeds = [first] if os.environ.get(SEED_VARIABLE) else range(first, first + runs)
    loops = (["asyncio", "trio"] if find_spec("trio") else ["asyncio"]) if backends is None else list(backends)

    def context(**options: Any) -> PassContext:
        return PassContext(opt_level, config=config, **options)

    for name, mod in named_modules(modules):
        _require_module(mod)
        check = _Check(parsed, name, mod, context)
        try:
            check.result_is_valid(idempotent or parsed.contract.idempotent)
            check.order_makes_no_difference(loops, seeds)
            check.cache_makes_no_difference()
        except Exception as error:
            if not isinstance(error, AssertionError):
                error.add_note(f"raised while checking {check.title}")
            raise


def _require_module(mod: object) -> None:
    """Raise TypeError for what is no module, such as the functions of a single one."""
    try:
        adapter_for(mod)
    except AdapterError as error:
        message = f"modules must be a list or a mapping of modules, but it contains {mod!r} ({error})"
        raise TypeError(message) from error


class _Check:
    """The checks of one pass on one module."""

    def __init__(self, pass_: Pass[Any], name: str, mod: Any, context: Callable[..., PassContext]) -> None:
        self.pass_ = pass_
        self.mod = mod
        self.context = context
        self.adapter: IRAdapter[Any, Any] = adapter_for(mod)
        self.before = exact_fingerprint(self.adapter, mod)
        self.expected: Any = None
        self.title = f"pass {pass_.info.name!r} on module {name!r}"

    def fail(self, law: str, *details: str) -> AssertionError:
        return AssertionError("\n".join([f"{self.title}: {law}", *details]))

    def exact(self, mod: Any) -> str:
        return exact_fingerprint(adapter_for(mod), mod)

    def run(self, mod: Any, backend: str = "asyncio", **options: Any) -> Any:
        result = run(self.pass_, mod, backend=backend, context=self.context(**options))
        if exact_fingerprint(self.adapter, self.mod) != self.before:
            raise self.fail("the pass changed its input; return a new module, or make an InPlacePass of it")
        return result

    def result_is_valid(self, idempotent: bool) -> None:
        """Check the result of one run, and keep it for comparisons."""
        self.verify(self.mod, "the module is invalid before the pass")
        try:
            # Without time slices: on a slow machine, the order of bodies would be another one.
            with seeded(None):
                self.expected = result = self.run(self.mod, instruments=[RunSettings(strict=True)])
        except VerifyError as error:
            raise self.fail(f"a claim of the pass does not hold: {error}") from error
        if result is not self.mod and self.is_copy(result):
            raise self.fail("nothing changed, but the result is a copy; return the module itself")
        self.verify(result, "the result is invalid")
        self.fingerprint_is_stable(result)
        if idempotent:
            again = self.run(result)
            if again is not result and not adapter_for(again).equal(again, result):
                raise self.fail("a second run changes the result again", show_difference(result, again))

    def is_copy(self, result: Any) -> bool:
        """Return whether a result has nothing new."""
        if type(result) is not type(self.mod) or self.exact(result) != self.before:
            return False
        # A fingerprint may ignore which nodes are shared; a pass that merges nodes does change the module.
        return self.adapter.to_text(result) == self.adapter.to_text(self.mod)

    def verify(self, mod: Any, law: str) -> None:
        try:
            adapter_for(mod).verify(mod)
        except VerifyError as error:
            raise self.fail(f"{law}: {error}") from error

    def fingerprint_is_stable(self, result: Any) -> None:
        adapter = adapter_for(result)
        if adapter.fingerprint(result) != adapter.fingerprint(result):
            raise self.fail("the fingerprint of the result is another one each time")
        try:
            self.adapter.dumps(self.mod)
        except AdapterError:
            return  # modules like this one cannot be written at all
        try:
            loaded = adapter.loads(adapter.dumps(result))
        except AdapterError as error:
            raise self.fail(f"the result cannot be written, while the input can: {error}") from error
        if adapter.fingerprint(loaded) != adapter.fingerprint(result):
            law = "the result is another module after `dumps` and `loads`"
            raise self.fail(law, show_difference(result, loaded))

    def order_makes_no_difference(self, backends: Iterable[str], seeds: Iterable[int]) -> None:
        """Compare with runs in random orders."""
        for backend in backends:
            if backend != "asyncio":
                self.runs_on(backend)
            for seed in seeds:
                repeat = f"({backend}, seed {seed}; {SEED_VARIABLE}={seed} repeats this order)"
                try:
                    with interleave(seed):
                        actual = self.run(self.mod, backend)
                except AssertionError:
                    raise
                except Exception as error:
                    how = f"it fails on {backend} in some orders of bodies, or in later runs"
                    law = f"{how}: {type(error).__name__}: {error}"
                    raise self.fail(law, repeat) from error
                self.compare(actual, "the result depends on the order of bodies, or on earlier runs", repeat)

    def runs_on(self, backend: str) -> None:
        """Check that a pass that runs on asyncio does not fail on another event loop."""
        try:
            self.run(self.mod, backend)
        except AssertionError:
            raise
        except Exception as error:
            law = f"it fails on {backend}, but not on asyncio: {type(error).__name__}: {error}"
            raise self.fail(law, "(use anyio in place of asyncio, or check_pass(backends=['asyncio']))") from error

    def compare(self, actual: Any, law: str, *details: str) -> None:
        if self.exact(actual) != self.exact(self.expected):
            raise self.fail(law, show_difference(self.expected, actual), *details)

    def cache_makes_no_difference(self) -> None:
        """Check the claims of a cacheable pass."""
        if not self.pass_.caching.cacheable:
            return
        store: Store = MemoryStore()
        for law in ("the result is another one with a store", "the result from a store is another one"):
            result = self.run(self.mod, store=store)
            if not adapter_for(result).equal(result, self.expected):
                raise self.fail(law, show_difference(self.expected, result))
        pass_: Any = self.pass_
        if self.pass_.caching.cacheable is True and isinstance(self.pass_, FunctionPass):
            self.functions_are_independent(pass_.kind)

    def functions_are_independent(self, kind: FunctionKind) -> None:
        """Compare with runs on modules of one function each."""
        claim = "the pass is cacheable by function, so results must not depend on other functions"
        advice = 'declare cacheable="module"'
        for name in select_functions(self.adapter, self.mod, kind)[0]:
            alone = self.adapter.isolate(self.mod, [name])
            try:
                result = self.run(alone)
            except Exception as error:
                law = f"{claim}; but it fails for {name!r} alone with {type(error).__name__}: {error}; {advice}"
                raise self.fail(law) from error
            expected = self.adapter.isolate(self.expected, [name])
            if self.exact(self.adapter.isolate(result, [name])) != self.exact(expected):
                law = f"{claim}; but {name!r} alone has another one; {advice}"
                raise self.fail(law, show_difference(expected, result))
