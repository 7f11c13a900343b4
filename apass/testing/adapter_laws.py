"""`check_adapter`: the laws that hold for every adapter."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, product
from typing import Any, Final

from apass.adapters.nodes import Node, has_locations, nodes_of
from apass.core.adapter import (
    FuncT,
    FunctionKind,
    IRAdapter,
    ModT,
    commit,
    exact_fingerprint,
    extract_into,
    facts_of,
    load_with_facts,
    select_functions,
    suffix_of,
    text_parts,
)
from apass.errors import VerifyError
from apass.testing.running import named_modules, shrinkings_of

__all__ = ["check_adapter"]

METHODS: Final = tuple(name for name in vars(IRAdapter) if not name.startswith("_") and name != "thread_safe")
"""The methods of an `IRAdapter`."""

KINDS: Final[tuple[FunctionKind, ...]] = ("function", "prim_func")

SOME: Final = 10
"""How many functions of a module, and parts of each kind, are checked one by one.

The time grows with the square of their number.
"""


def check_adapter(
    adapter: IRAdapter[ModT, FuncT],
    modules: Mapping[str, ModT] | Iterable[ModT],
    *,
    mutate: Callable[[ModT], object] | None = None,
) -> None:
    """Assert that the laws of adapters hold for some modules.

    `IRAdapter` and `OptionalMethods` state the laws. The checks cover each method that the adapter has:

    - No method changes its arguments, and each returns the same again.
    - `functions`, `get`, `kind`, `skips` and `select` agree.
    - `equal` and `fingerprint` agree, on modules and on functions. Modules with equal exact fingerprints are equal.
    - `replace` keeps the order and the other functions.
    - `loads` restores what `dumps` wrote, with `restore` what `facts` returned. The bytes are no pickle.
    - `isolate` returns the named functions, and `extract` returns them from it, also after `dumps` and `loads`.
      Changes of a private module do not reach the module.
    - `text_parts` returns a text for each function that does not depend on the others.
    - `shrinkings` removes the parts, and keeps the module if none is removed.
    - `nodes` returns nodes with unique names, the same for a private copy. `with_locations` changes only locations.

    Parameters:
        adapter: the adapter.
        modules: valid modules, with or without names; different ones, with and without functions.
        mutate: changes a private module in place, as passes of the IR's own library do. Without it, the copies that
            `isolate` makes are not tested for independence.

    Raises:
        AssertionError: if a law does not hold. The message names the law, the method and the module.
        Exception: any error of the adapter, with a note that names the law and the module.

    >>> import apass
    >>> class Upper(type(apass.adapter_for({}))):
    ...     def loads(self, data):
    ...         return {name.upper(): func for name, func in super().loads(data).items()}
    >>> check_adapter(Upper(), [{"f": 1}])
    Traceback (most recent call last):
        ...
    AssertionError: adapter Upper on module '0': loads(dumps(mod)) must have the functions ['f'], got ['F']

    """
    missing = [name for name in METHODS if not callable(getattr(adapter, name, None))]
    kind = type(adapter).__qualname__
    if missing:
        raise AssertionError(f"adapter {kind}: the methods {', '.join(missing)} of IRAdapter are missing")
    if not isinstance(getattr(adapter, "thread_safe", None), bool):
        raise AssertionError(f"adapter {kind}: thread_safe must be True or False")
    checks = [
        _Check(adapter, f"adapter {kind} on module {name!r}", mod, mutate) for name, mod in named_modules(modules)
    ]
    for check in checks:
        check.every_law()
    for check, other in product(checks, checks):
        check.equality_agrees("mod", check.mod, other.mod)
    for check, other in product(checks, checks):
        for (name, func), (_, another) in product(check.some_functions(), other.some_functions()):
            check.equality_agrees(f"the function {name!r}", func, another)
        check.replacement_is_used(dict(other.some_functions()))


class _Check:
    """The checks of an adapter on one module."""

    def __init__(self, adapter: Any, title: str, mod: Any, mutate: Callable[[Any], object] | None) -> None:
        self.adapter = adapter
        self.title = title
        self.mod = mod
        self.mutate = mutate
        self.functions: dict[str, Any] = {}

    def some_functions(self) -> list[tuple[str, Any]]:
        return list(islice(self.functions.items(), SOME))

    def every_law(self) -> None:
        laws = [
            self.functions_have_names,
            self.functions_are_classified,
            self.texts_are_stable,
            self.module_is_valid,
            self.bytes_restore_the_module,
            self.replacement_keeps_the_rest,
            self.private_modules_hold_functions,
            self.private_modules_are_independent,
            self.parts_are_independent,
            self.shrinkings_remove_parts,
            self.nodes_have_unique_names,
        ]
        before = exact_fingerprint(self.adapter, self.mod)
        for law in laws:
            try:
                law()
                after = exact_fingerprint(self.adapter, self.mod)
            except Exception as error:
                if not isinstance(error, AssertionError):
                    error.add_note(f"raised while checking {self.title}: {law.__name__.replace('_', ' ')}")
                raise
            self.require(after == before, "no method may change its arguments, but the module has changed")

    def require(self, holds: bool, law: str) -> None:
        if not holds:
            raise AssertionError(f"{self.title}: {law}")

    def same(self, what: str, result: Any, expected: Any) -> None:
        """Check that a module equals another, with the functions in the same order."""
        names = [[name for name, _ in self.adapter.functions(mod)] for mod in (expected, result)]
        self.require(names[0] == names[1], f"{what} must have the functions {names[0]}, got {names[1]}")
        self.require(self.adapter.equal(result, expected), f"{what} must equal the module")
        prints = [self.adapter.fingerprint(mod) for mod in (expected, result)]
        self.require(prints[0] == prints[1], f"{what} equals the module, but has another fingerprint")

    def functions_have_names(self) -> None:
        pairs = list(self.adapter.functions(self.mod))
        self.functions = dict(pairs)
        names = [name for name, _ in pairs]
        self.require(all(isinstance(name, str) for name in names), f"functions() must yield texts as names: {names}")
        self.require(len(self.functions) == len(pairs), f"functions() yields a name twice: {names}")
        again = [name for name, _ in self.adapter.functions(self.mod)]
        self.require(again == names, f"functions() yields {names} and then {again}")
        for name, func in pairs:
            self.require(self.adapter.equal(self.adapter.get(self.mod, name), func), f"get(mod, {name!r}) is another")
        unknown = "no function has this name"
        try:
            self.adapter.get(self.mod, unknown)
        except KeyError:
            return
        raise AssertionError(f"{self.title}: get(mod, {unknown!r}) must raise a KeyError")

    def functions_are_classified(self) -> None:
        for name, func in self.functions.items():
            kind, skips = self.adapter.kind(func), self.adapter.skips(func)
            law = f"kind() of {name!r} must be 'function' or 'prim_func', got {kind!r}"
            self.require(kind in KINDS, law)
            self.require(isinstance(skips, bool), f"skips() of {name!r} must be True or False, got {skips!r}")
        for kind in KINDS:
            chosen = [
                name
                for name, func in self.functions.items()
                if self.adapter.kind(func) == kind and not self.adapter.skips(func)
            ]
            names, funcs = select_functions(self.adapter, self.mod, kind)
            agrees = names == chosen and all(map(self.adapter.equal, funcs, (self.functions[name] for name in names)))
            self.require(agrees, f"select(mod, {kind!r}) must return the functions {chosen}, got {names}")
        is_small = getattr(self.adapter, "is_small", None)
        self.require(is_small is None or isinstance(is_small(self.mod), bool), "is_small() must return True or False")

    def texts_are_stable(self) -> None:
        for x in (self.mod, *self.functions.values()):
            for method in ("fingerprint", "exact_fingerprint", "to_text"):
                compute = getattr(self.adapter, method, None)
                if compute is not None:
                    first = compute(x)
                    self.require(isinstance(first, str), f"{method}() must return a text, got {first!r}")
                    self.require(compute(x) == first, f"{method}() returns another text each time")

    def equality_agrees(self, what: str, a: Any, b: Any) -> None:
        """Check that equality and fingerprints agree on two modules or functions."""
        is_equal = self.adapter.equal(a, b)
        prints = [self.adapter.fingerprint(x) for x in (a, b)]
        exact = [exact_fingerprint(self.adapter, x) for x in (a, b)]
        self.require(is_equal == self.adapter.equal(b, a), f"equal({what}, other) depends on the order")
        self.require(is_equal or a is not b, f"{what} must equal itself")
        law = f"equal({what}, other) is {is_equal}, unlike the comparison of their fingerprints"
        self.require(is_equal == (prints[0] == prints[1]), law)
        self.require(is_equal or exact[0] != exact[1], f"{what} differs, but the exact fingerprint does not")

    def module_is_valid(self) -> None:
        try:
            self.adapter.verify(self.mod)
        except VerifyError as error:
            raise AssertionError(f"{self.title}: verify() must accept the module: {error}") from error

    def replacement_keeps_the_rest(self) -> None:
        in_reverse = dict(reversed(list(self.functions.items())))
        self.same("replace(mod, {})", self.adapter.replace(self.mod, {}), self.mod)
        self.same("replace(mod, of all functions)", self.adapter.replace(self.mod, self.functions), self.mod)
        self.same("replace(mod, in reverse order)", self.adapter.replace(self.mod, in_reverse), self.mod)
        for name, func in self.some_functions():
            result = self.adapter.replace(self.mod, {name: func})
            self.same(f"replace(mod, of {name!r} by itself)", result, self.mod)
            self.adapter.verify(result)

    def replacement_is_used(self, others: Mapping[str, Any]) -> None:
        """Check the replacement of functions by those of another module."""
        before = exact_fingerprint(self.adapter, self.mod)
        for name in self.functions.keys() & others.keys():
            result = self.adapter.replace(self.mod, {name: others[name]})
            what = f"replace(mod, of {name!r} by another)"
            found = self.adapter.get(result, name)
            self.require(self.adapter.equal(found, others[name]), f"{what} must return the new function")
            kept = [(key, func) for key, func in self.functions.items() if key != name]
            keeps = all(self.adapter.equal(self.adapter.get(result, key), func) for key, func in kept)
            self.require(keeps, f"{what} must keep the others")
        self.require(exact_fingerprint(self.adapter, self.mod) == before, "replace() must not change its arguments")

    def bytes_restore_the_module(self) -> None:
        suffix = suffix_of(self.adapter)
        self.require(suffix.startswith("."), f"suffix must start with a dot, got {suffix!r}")
        data = self.adapter.dumps(self.mod)
        self.require(isinstance(data, bytes), f"dumps() must return bytes, got {type(data).__qualname__}")
        self.require(
            not (data[:1] == b"\x80" and data[-1:] == b"."),
            "dumps() must not return a pickle, because loading one runs code",
        )
        self.require(self.adapter.dumps(self.mod) == data, "dumps() returns other bytes each time")
        self.same("loads(dumps(mod))", self.adapter.loads(data), self.mod)
        facts = facts_of(self.adapter, self.mod)
        self.require(json.loads(json.dumps(facts)) == facts, f"facts() must return JSON values, got {facts!r}")
        restored = load_with_facts(self.adapter, data, facts)
        self.same("the module from dumps() and facts()", restored, self.mod)
        law = "the module from dumps() and facts() has other facts"
        self.require(facts_of(self.adapter, restored) == facts, law)

    def private_modules_hold_functions(self) -> None:
        names = list(self.functions)
        for chosen in [[], names, *([name] for name, _ in self.some_functions())]:
            private = self.adapter.isolate(self.mod, chosen)
            # There may be others: an ONNX model always has a main graph.
            found = [name for name, _ in self.adapter.functions(private) if name in chosen]
            self.require(found == chosen, f"isolate(mod, {chosen}) must have these functions, got {found}")
            from_bytes = self.adapter.loads(self.adapter.dumps(private))
            for what, extracted in (
                (f"extract(isolate(mod, {chosen}))", self.adapter.extract(private, chosen)),
                (f"extract(loads(dumps(isolate(mod, {chosen}))))", self._adopted(from_bytes, chosen)),
            ):
                self.require(set(extracted) == set(chosen), f"{what} must return these functions, got {set(extracted)}")
                result = self.adapter.replace(self.mod, extracted)
                self.same(f"the module with {what}", result, self.mod)
                self.adapter.verify(result)

    def _adopted(self, sub: Any, names: list[str]) -> Mapping[str, Any]:
        return extract_into(self.adapter, sub, names, self.mod)

    def private_modules_are_independent(self) -> None:
        names = list(self.functions)
        # Not compared with its argument, which may be empty: an operation of MLIR belongs to one module only.
        committed = commit(self.adapter, self.adapter.isolate(self.mod, names))
        self.same("commit(isolate(mod, all names))", committed, self.adapter.isolate(self.mod, names))
        if self.mutate is None or not names:
            return
        private = self.adapter.isolate(self.mod, names)
        before = exact_fingerprint(self.adapter, private)
        self.mutate(private)
        law = "mutate() must change the private module, but the exact fingerprint is the same"
        self.require(exact_fingerprint(self.adapter, private) != before, law)

    def parts_are_independent(self) -> None:
        names = list(self.functions)
        outside, texts = text_parts(self.adapter, self.mod, names)
        self.require(isinstance(outside, str), f"text_parts() must return a text first, got {outside!r}")
        self.require(list(texts) == names, f"text_parts() must return the texts of {names}, got {list(texts)}")
        for name in names[:SOME]:
            alone = text_parts(self.adapter, self.adapter.isolate(self.mod, [name]), [name])[1][name]
            self.require(alone == texts[name], f"the text_parts() of {name!r} depend on other functions")

    def shrinkings_remove_parts(self) -> None:
        for shrinking in shrinkings_of(self.adapter, self.mod):
            kind = f"the shrinking of {shrinking.what}"
            self.require(shrinking.count >= 0, f"{kind} has {shrinking.count} parts")
            self.same(f"{kind} without removed parts", shrinking.without(frozenset()), self.mod)
            for index in range(min(shrinking.count, SOME)):
                for result in _attempt(lambda: shrinking.without(frozenset({index})), self):  # noqa: B023  called at once
                    self.adapter.to_text(result)

    def nodes_have_unique_names(self) -> None:
        for name, func in self.some_functions():
            nodes = nodes_of(self.adapter, func)
            self.require(
                all(isinstance(node, Node) for node in nodes), f"nodes() of {name!r} must be apass.plugins.Node values"
            )
            names = Counter(node.name for node in nodes)
            twice = [node for node, count in names.items() if count > 1]
            self.require(not twice, f"nodes() of {name!r} must have unique names, but several are named {twice}")
            private = self.adapter.get(self.adapter.isolate(self.mod, [name]), name)
            is_same = _contents(nodes) == _contents(nodes_of(self.adapter, private))
            self.require(is_same, f"the nodes() of {name!r} must be the same for a private copy")
        if has_locations(self.adapter):
            located = self.adapter.with_locations(self.mod)
            for name, func in self.some_functions():
                nodes = nodes_of(self.adapter, self.adapter.get(located, name))
                is_same = _contents(nodes) == _contents(nodes_of(self.adapter, func))
                self.require(is_same, f"with_locations() must keep the nodes() of {name!r}")


def _contents(nodes: Iterable[Node]) -> list[tuple[object, ...]]:
    """Return nodes without what is of one module: their objects and locations."""
    return [(node.name, node.text, node.operands, node.results, node.is_named) for node in nodes]


def _attempt(remove: Callable[[], Any], check: _Check) -> Iterator[Any]:
    """Yield the smaller module; nothing if the part cannot be removed."""
    try:
        result = remove()
    except Exception:
        return
    is_equal = exact_fingerprint(check.adapter, result) == exact_fingerprint(check.adapter, check.mod)
    check.require(not is_equal, "a shrinking that removes a part returns an equal module")
    yield result
