"""`check_adapter`: each law finds the adapter that breaks it."""

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from apass.adapters.mapping import ADAPTER, DictAdapter
from apass.errors import VerifyError
from apass.plugins import BaseAdapter
from apass.testing import check_adapter
from apass.util.delta_debugging import Shrinking

Module = dict[str, Any]
MODULES: list[Module] = [{"f": [1], "g": {"x": 2}}, {"f": [2]}, {}]
NUMBERS = count()


def reject(mod: Module) -> None:
    """Reject each module."""
    raise VerifyError("no")


def forget(mod: Module) -> bytes:
    """Return the module as bytes, and change it."""
    data = ADAPTER.dumps(mod)
    mod.clear()
    return data


def no_shrinking(mod: Module) -> Iterator[Shrinking[Module]]:
    """Yield a shrinking that removes nothing."""
    yield Shrinking("parts", 1, lambda removed: mod)


def eager_shrinking(mod: Module) -> Iterator[Shrinking[Module]]:
    """Yield a shrinking that always removes a function."""
    yield Shrinking("parts", len(mod), lambda removed: dict(list(mod.items())[1:]))


Broken = Callable[[Any], Any] | Callable[[Any, Any], Any] | str

BROKEN: list[tuple[str, Broken, str]] = [
    ("functions", lambda mod: [*mod.items()] * 2, "functions() yields a name twice: ['f', 'g', 'f', 'g']"),
    ("functions", lambda mod: [(0, 1), (1, 2)], "functions() must yield texts as names: [0, 1]"),
    ("get", lambda mod, name: mod.get(name), "get(mod, 'no function has this name') must raise a KeyError"),
    ("get", lambda mod, name: mod["f"], "get(mod, 'g') is another"),
    ("kind", lambda func: "method", "kind() of 'f' must be 'function' or 'prim_func', got 'method'"),
    ("skips", lambda func: None, "skips() of 'f' must be True or False, got None"),
    ("select", lambda mod, kind: ([], []), "select(mod, 'function') must return the functions ['f', 'g'], got []"),
    ("is_small", lambda mod: 1, "is_small() must return True or False"),
    ("fingerprint", lambda x: str(next(NUMBERS)), "fingerprint() returns another text each time"),
    ("fingerprint", lambda x: "same", "equal(mod, other) is False, unlike the comparison of their fingerprints"),
    ("exact_fingerprint", lambda x: str(len(x)), "mutate() must change the private module"),
    ("equal", lambda a, b: len(str(a)) <= len(str(b)), "equal(mod, other) depends on the order"),
    ("to_text", lambda x: None, "to_text() must return a text, got None"),
    ("verify", reject, "verify() must accept the module: no"),
    ("dumps", forget, "dumps() returns other bytes each time"),
    ("kind", lambda func: func.clear() or "function", "no method may change its arguments, but the module has"),
    ("replace", lambda mod, updates: dict(mod), "replace(mod, of 'f' by another) must return the new function"),
    ("replace", lambda mod, updates: updates, "replace(mod, {}) must have the functions ['f', 'g'], got []"),
    ("suffix", "json", "suffix must start with a dot, got 'json'"),
    ("dumps", lambda mod: str(mod), "dumps() must return bytes, got str"),
    ("dumps", lambda mod: pickle.dumps(mod), "dumps() must not return a pickle, because loading one runs code"),
    ("loads", lambda data: {}, "loads(dumps(mod)) must have the functions ['f', 'g'], got []"),
    ("loads", lambda data: {"f": 1, "g": 2}, "loads(dumps(mod)) must equal the module"),
    ("facts", lambda mod: (1,), "facts() must return JSON values, got (1,)"),
    ("isolate", lambda mod, names: {}, "isolate(mod, ['f', 'g']) must have these functions, got []"),
    ("extract", lambda sub, names: {}, "extract(isolate(mod, ['f', 'g'])) must return these functions, got set()"),
    ("adopt", lambda sub, mod: dict.fromkeys(sub), "with extract(loads(dumps(isolate(mod, ['f', 'g'])))) must"),
    ("commit", lambda sub: {}, "commit(isolate(mod, all names)) must have the functions ['f', 'g'], got []"),
    ("isolate", lambda mod, names: {name: mod[name] for name in names}, "no method may change its arguments"),
    ("text_parts", lambda mod, names: ("", {}), "text_parts() must return the texts of ['f', 'g'], got []"),
    ("text_parts", lambda mod, names: ("", dict.fromkeys(names, str(mod))), "the text_parts() of 'f' depend on"),
    ("shrinkings", no_shrinking, "a shrinking that removes a part returns an equal module"),
    ("shrinkings", eager_shrinking, "the shrinking of parts without removed parts must have the functions"),
]  # fmt: skip
"""Methods, what they are replaced by, and the law that then fails."""


@pytest.mark.parametrize(("method", "broken", "message"), BROKEN)
def test_broken_law_is_named(method: str, broken: Broken, message: str) -> None:
    adapter: Any = DictAdapter()
    setattr(adapter, method, broken)
    with pytest.raises(AssertionError) as caught:
        check_adapter(adapter, [dict(mod) for mod in MODULES], mutate=lambda mod: mod["f"].append(0) if mod else None)
    assert str(caught.value).startswith("adapter DictAdapter on module '")
    assert message in str(caught.value)


@dataclass(frozen=True)
class Program:
    """A module of a small IR."""

    functions: tuple[tuple[str, int], ...]


class ProgramAdapter(BaseAdapter[Program, int]):
    """An adapter with the two required methods."""

    def functions(self, mod: Program) -> tuple[tuple[str, int], ...]:
        """Return the pairs."""
        return mod.functions

    def replace(self, mod: Program, updates: Mapping[str, int]) -> Program:
        """Return a program with other functions."""
        return Program(tuple((name, updates.get(name, func)) for name, func in mod.functions))


def test_base_adapter_holds_all_laws() -> None:
    check_adapter(ProgramAdapter(), [Program((("f", 1), ("g", 2))), Program((("f", 2),)), Program(())])


def test_missing_methods_are_listed() -> None:
    adapter: Any = object()
    with pytest.raises(AssertionError, match=r"the methods functions, get, kind, .*extract of IRAdapter are missing"):
        check_adapter(adapter, [{}])
    adapter = DictAdapter()
    adapter.thread_safe = None
    with pytest.raises(AssertionError, match="thread_safe must be True or False"):
        check_adapter(adapter, [{}])


def test_mutation_without_effect_is_reported() -> None:
    with pytest.raises(AssertionError, match=r"mutate\(\) must change the private module"):
        check_adapter(ADAPTER, [{"f": 1}], mutate=lambda mod: None)


def test_error_of_adapter_names_the_law() -> None:
    with pytest.raises(Exception, match="cannot be written as JSON") as caught:
        check_adapter(ADAPTER, {"sets": {"f": {1}}})
    note = "raised while checking adapter DictAdapter on module 'sets': bytes restore the module"
    assert caught.value.__notes__ == [note]
