"""`IRAdapter`: the runner's interface to an IR, looked up by the type of a module."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextvars import copy_context
from functools import partial
from itertools import takewhile
from typing import Any, Final, Literal, Protocol, TypeVar, cast

from apass.concurrency.limits import usable_cores
from apass.concurrency.thread_batches import ThreadBatches, call_all
from apass.core.executor import in_executor
from apass.errors import AdapterError, MissingExtraError
from apass.loading.entry_points import Offer, plugins
from apass.util.delta_debugging import Shrinking
from apass.util.imported_names import find_imported
from apass.util.interactive import definition_in_session
from apass.util.text import shorten

__all__ = [
    "FuncT",
    "FunctionKind",
    "IRAdapter",
    "ModT",
    "OptionalMethods",
    "adapter_by_name",
    "adapter_by_suffix",
    "adapter_for",
    "commit",
    "exact_fingerprint",
    "extract_into",
    "facts_of",
    "load_with_facts",
    "never_modules",
    "offer_for",
    "register_adapter",
    "run_in_thread_if_safe",
    "select_functions",
    "source_of",
    "suffix_of",
    "text_parts",
    "type_name",
]

ModT = TypeVar("ModT")
"""The type of a module."""
FuncT = TypeVar("FuncT")
"""The type of a function of a module."""

R = TypeVar("R")

FunctionKind = Literal["function", "prim_func"]
"""A FunctionPass visits functions of the first kind, a PrimFuncPass functions of the second."""


class IRAdapter(Protocol[ModT, FuncT]):
    """The runner's interface to an IR.

    It is a Protocol, so that the package of an IR can provide it without importing apass. No method may change its
    arguments, because the runner treats modules as values. `OptionalMethods` lists further methods.

    For example, for modules that are dicts of functions by name, `functions(mod)` is `mod.items()`, and
    `replace(mod, updates)` is `{**mod, **updates}`.
    """

    @property
    def thread_safe(self) -> bool:
        """Whether worker threads may read modules of this IR while the event loop runs."""
        ...

    def functions(self, mod: ModT) -> Iterable[tuple[str, FuncT]]:
        """Iterate over names and functions, in the order of the module."""
        ...

    def get(self, mod: ModT, name: str) -> FuncT:
        """Return one function.

        Raises:
            KeyError: if the module has no function of that name.

        """
        ...

    def kind(self, func: FuncT) -> FunctionKind:
        """Return which kind of pass visits the function."""
        ...

    def replace(self, mod: ModT, updates: Mapping[str, FuncT]) -> ModT:
        """Return `mod` with the functions of `updates` in place of its own."""
        ...

    def skips(self, func: FuncT) -> bool:
        """Return whether the function has a true `SkipOptimization` attribute."""
        ...

    def fingerprint(self, x: ModT | FuncT) -> str:
        """Return a text that is equal for equal contents."""
        ...

    def equal(self, a: ModT | FuncT, b: ModT | FuncT) -> bool:
        """Return whether two modules, or two functions, are structurally equal."""
        ...

    def to_text(self, x: ModT | FuncT) -> str:
        """Return the text of a module or of a function, for people.

        People compare the texts of a module before and after a pass. The text of a function should therefore not
        depend on other functions of its module.
        """
        ...

    def verify(self, mod: ModT) -> None:
        """Check the rules of the IR.

        Raises:
            VerifyError: if the module breaks a rule; the message names it.

        """
        ...

    def dumps(self, mod: ModT) -> bytes:
        """Return the module as bytes for another process; not a pickle, which runs code."""
        ...

    def loads(self, data: bytes) -> ModT:
        """Return the module from which `dumps` created `data`."""
        ...

    def isolate(self, mod: ModT, names: Iterable[str]) -> ModT:
        """Return a private module with copies of the named functions.

        A pass of another library may change it in place.
        """
        ...

    def extract(self, sub: ModT, names: Iterable[str]) -> Mapping[str, FuncT]:
        """Return the named functions of a module that `isolate` created, for `replace`."""
        ...


class OptionalMethods(Protocol[ModT, FuncT]):
    """Further methods of an `IRAdapter`; the runner uses those that exist."""

    @property
    def suffix(self) -> str:
        """The file name extension for the output of `dumps`; `".bin"` if absent."""
        ...

    def select(self, mod: ModT, kind: FunctionKind) -> tuple[list[str], list[FuncT]]:
        """Return the names and functions of one kind, without those to skip.

        It is worth its lines if a module can answer this faster than function by function.
        """
        ...

    def is_small(self, mod: ModT) -> bool:
        """Return whether each method takes at most a few milliseconds for the module.

        The event loop then calls them itself: a call in a thread takes longer. Without this method, threads handle all
        modules of a thread-safe IR.
        """
        ...

    def facts(self, mod: ModT) -> object:
        """Return facts that `dumps` omits, such as inferred types, as JSON values."""
        ...

    def restore(self, mod: ModT, facts: Any) -> ModT:
        """Return a module from `loads` with its `facts`."""
        ...

    def exact_fingerprint(self, x: ModT | FuncT) -> str:
        """Return a text that is equal only if results show no difference.

        It is needed if `fingerprint` ignores something that results show, such as the names of variables.
        """
        ...

    def adopt(self, sub: ModT, mod: ModT) -> ModT:
        """Return `sub` with the objects that it shares replaced by the ones of `mod`.

        `sub` was read from bytes. The method is needed if functions refer to objects of their module.
        """
        ...

    def commit(self, sub: ModT) -> ModT:
        """Return the contents of a changed module from `isolate` as another object.

        `sub` is not used as a module any more, so both may share everything. Later passes may change the contents
        again, through `sub` or the result, as long as only the runner holds them. Without this method, consecutive
        passes in place make a copy each.
        """
        ...

    def text_parts(self, mod: ModT, names: Iterable[str]) -> tuple[str, Mapping[str, str]]:
        """Return the text outside of functions, and the text of each named function.

        The text of a function must not depend on other functions: numbers of values start anew in each. Without this
        method, diffs use the text of a module from `isolate` for each function.
        """
        ...

    def shrinkings(self, mod: ModT) -> Iterable[Shrinking[ModT]]:
        """Iterate over ways to make the module smaller, for `apass.reduce`."""
        ...

    def nodes(self, func: FuncT) -> Iterable[Any]:
        """Iterate over the `Node` values of a function, definitions before uses.

        They are for `ProvenanceInstrument` and `apass blame`. Nodes of nested regions and graphs follow their owner.
        """
        ...

    def with_locations(self, mod: ModT) -> ModT:
        """Return a module in which each node without a location has one of its own.

        It is for `LocationCheckInstrument`. The module must be valid, and otherwise equal.
        """
        ...

    def with_names(self, mod: ModT) -> ModT:
        """Return a module whose nodes keep their names in passes.

        It is for `apass blame`, on an IR whose library numbers nodes anew.
        """
        ...

    def sources(self, mod: ModT) -> Mapping[str, str]:
        """Return the texts that the spans of the module point into, by source name.

        Diagnostics about the module show lines of them.
        """
        ...

    def strategy(self) -> Any:
        """Return a Hypothesis strategy for valid modules, for `apass.testing.strategies`."""
        ...


_IRS: Final = "apass.irs"

_REGISTERED: Final[dict[type, IRAdapter[Any, Any]]] = {}
_FOUND: Final[dict[type, IRAdapter[Any, Any] | None]] = {}
_DEFINITIONS: Final[dict[type, str | None]] = {}
"""What defines each registered adapter in a notebook or another interactive session."""
_NEVER_MODULES: Final[dict[type, str]] = {}
"""Classes of apass whose objects a caller may confuse with a module."""


def register_adapter(module_type: type[ModT], adapter: IRAdapter[ModT, Any]) -> None:
    """Use `adapter` for modules of `module_type` and its subclasses.

    A package offers its adapter by an entry point of the group `apass.irs`. An entry point is named after the class
    (`my_ir.module.Module`) or the top-level package (`my_ir`), and names an adapter object or an `IRPlugin`
    (`my_ir.apass_adapter:ADAPTER`); it is loaded for the first module of that type.

    In a notebook or at a prompt, an adapter whose class has the same name replaces the earlier one.

    Raises:
        AdapterError: if the type already has another adapter, or the adapter lacks a method.

    """
    _check_adapter(module_type, adapter)
    definition = definition_in_session(adapter)
    known = _REGISTERED.get(module_type, adapter)
    is_repeated = definition is not None and _DEFINITIONS.get(module_type) == definition
    if known is not adapter and not is_repeated:
        raise AdapterError(f"modules of type {module_type.__qualname__} already have the adapter {known!r}")
    _REGISTERED[module_type], _DEFINITIONS[module_type] = adapter, definition
    # Subclasses may have been looked up before.
    _FOUND.clear()


def _check_adapter(module_type: object, adapter: object) -> None:
    """Raise AdapterError if an adapter lacks a method of `IRAdapter`."""
    if not isinstance(module_type, type):
        raise AdapterError(f"register_adapter takes the type of modules first, got {module_type!r}")
    name = module_type.__qualname__
    if isinstance(adapter, type):
        kind = adapter.__qualname__
        raise AdapterError(f"register_adapter takes an adapter object, but {kind} is a class; write {kind}()")
    missing = [method for method in _METHODS if not hasattr(adapter, method)]
    if missing:
        raise AdapterError(
            f"the adapter {adapter!r} for modules of type {name} lacks {', '.join(missing)}; "
            f"derive it from apass.plugins.BaseAdapter, which needs only functions and replace"
        )


_METHODS: Final = tuple(key for key in vars(IRAdapter) if not key.startswith("_"))
"""The attributes that an adapter must have."""


def adapter_for(mod: ModT) -> IRAdapter[ModT, Any]:
    """Return the adapter for a module, by its type.

    Raises:
        AdapterError: if there is none; the message shows how to provide one.
        MissingExtraError: if the adapter needs a library that is not installed.

    """
    adapter = adapter_of_type(type(mod))
    if adapter is None:
        # `pass_(ctx, mod)` is the most frequent mistake, and "no adapter for PassContext" would not explain it.
        for never, noun in _NEVER_MODULES.items():
            if isinstance(mod, never):
                raise AdapterError(
                    f"expected a module, got {noun}: {shorten(repr(mod))}; check the order of the arguments"
                )
        kind = f"{type(mod).__module__}.{type(mod).__qualname__}"
        known = sorted(name for name in plugins(_IRS) if not name.startswith(".") and ":" not in name)
        raise AdapterError(
            f"no IR adapter for modules of type {kind}; known types are {', '.join(known)}; "
            f"add one with apass.register_adapter({type(mod).__qualname__}, ...) or the entry point group {_IRS!r}"
        )
    return adapter


def never_modules(kind: type, noun: str) -> None:
    """Let `adapter_for` call objects of a class by `noun` in its error."""
    _NEVER_MODULES[kind] = noun


def adapter_of_type(module_type: type) -> IRAdapter[Any, Any] | None:
    """Return the adapter for modules of a type, None if there is none."""
    if module_type not in _FOUND:
        _FOUND[module_type] = _look_up(module_type)
    return _FOUND[module_type]


def type_name(mod: object) -> str:
    """Return the name of a module's type, for `adapter_by_name` in any process."""
    return f"{type(mod).__module__}:{type(mod).__qualname__}"


def adapter_by_name(name: str) -> IRAdapter[Any, Any] | None:
    """Return the adapter for a type by its `type_name`; None if there is none.

    The name may come from an untrusted file, so no module is imported because of it. It is looked up in two places:

    - among the entry points, by the name itself. If a package moves a class, an entry point of the old name keeps
      files readable that contain it.
    - in the modules that are already imported, for the types that `register_adapter` knows.
    """
    # Entry points are named by the installed packages, so the file cannot make any other module load.
    module, _, qualname = name.partition(":")
    adapter = _offered(f"{module}.{qualname}")
    if adapter is not None:
        return adapter
    kind = find_imported(name)
    return adapter_of_type(kind) if isinstance(kind, type) else None


def adapter_by_suffix(suffix: str) -> IRAdapter[Any, Any] | None:
    """Return the adapter whose files have a suffix; None if there is none.

    `suffix` is in lower case. Registered adapters come first, then entry points. If the library of an adapter
    is missing, the adapter is left out.

    Each search may import libraries. Classes that are imported already come first, to import few of them.
    """
    for adapter in _REGISTERED.values():
        if suffix_of(adapter).lower() == suffix:
            return adapter
    offers = plugins(_IRS)
    for name in sorted(offers, key=lambda name: (name.rpartition(".")[0] or name) not in sys.modules):
        offer = offers[name]
        try:
            adapter = _adapter_of(offer)
        except MissingExtraError:
            continue
        if suffix_of(adapter).lower() == suffix:
            return adapter
    return None


def _look_up(module_type: type) -> IRAdapter[Any, Any] | None:
    # The most derived class wins, whether it is registered or an entry point.
    for base in module_type.__mro__:
        if base in _REGISTERED:
            return _REGISTERED[base]
        adapter = _offered(f"{base.__module__}.{base.__qualname__}")
        if adapter is not None:
            return adapter
    return None


def _offered(full_name: str) -> IRAdapter[Any, Any] | None:
    """Return the adapter that an entry point offers for a class or its package."""
    offer = offer_for(full_name)
    return None if offer is None else _adapter_of(offer)


def offer_for(full_name: str) -> Offer | None:
    """Return the entry point of a class or of its package; None if there is none."""
    offers = plugins(_IRS)
    return offers.get(full_name) or offers.get(full_name.partition(".")[0])


def _adapter_of(offer: Offer) -> IRAdapter[Any, Any]:
    """Return the adapter that an entry point offers: an `IRPlugin`, or an adapter."""
    found = offer.load()
    return cast("IRAdapter[Any, Any]", getattr(found, "adapter", found))


def select_functions(adapter: IRAdapter[ModT, FuncT], mod: ModT, kind: FunctionKind) -> tuple[list[str], list[FuncT]]:
    """Return the names and functions of one kind, without those to skip."""
    select = getattr(adapter, "select", None)
    if select is not None:
        return cast("tuple[list[str], list[FuncT]]", select(mod, kind))
    functions = list(adapter.functions(mod))
    # `replace` takes functions by name: the result of one would silently replace the other.
    if len({name for name, _ in functions}) < len(functions):
        twice, _ = Counter(name for name, _ in functions).most_common(1)[0]
        raise AdapterError(
            f"the module has several functions named {twice!r}; the adapter {type(adapter).__name__} must give each "
            f"function its own name, or leave it out"
        )
    chosen = [(n, f) for n, f in functions if adapter.kind(f) == kind and not adapter.skips(f)]
    return [name for name, _ in chosen], [func for _, func in chosen]


def exact_fingerprint(adapter: IRAdapter[ModT, FuncT], x: ModT | FuncT) -> str:
    """Return a text that is equal only if no pass could see a difference.

    Names and order count too.
    """
    exact = getattr(adapter, "exact_fingerprint", adapter.fingerprint)
    return cast("str", exact(x))


def suffix_of(adapter: IRAdapter[Any, Any]) -> str:
    """Return the file name extension for the output of `dumps`."""
    return cast("str", getattr(adapter, "suffix", ".bin"))


def source_of(mod: object, source_name: str) -> str | None:
    """Return the text of a source of a module; None if it is not known."""
    sources = getattr(adapter_of_type(type(mod)), "sources", None)
    return None if sources is None else cast("Mapping[str, str]", sources(mod)).get(source_name)


def facts_of(adapter: IRAdapter[ModT, Any], mod: ModT) -> object:
    """Return the facts about `mod` that `dumps` omits, as JSON values, or None."""
    facts = getattr(adapter, "facts", None)
    return None if facts is None else facts(mod)


def load_with_facts(adapter: IRAdapter[ModT, Any], data: bytes, facts: object) -> ModT:
    """Return the module that `dumps` and `facts_of` were called with."""
    mod = adapter.loads(data)
    return mod if facts is None else cast("OptionalMethods[ModT, Any]", adapter).restore(mod, facts)


def commit(adapter: IRAdapter[ModT, Any], sub: ModT) -> ModT:
    """Return the contents of a changed private module as another object."""
    method = getattr(adapter, "commit", None)
    if method is not None:
        return cast("ModT", method(sub))
    return adapter.isolate(sub, [name for name, _ in adapter.functions(sub)])


def extract_into(adapter: IRAdapter[ModT, FuncT], sub: ModT, names: Iterable[str], mod: ModT) -> Mapping[str, FuncT]:
    """Return the named functions of `sub`, which was read from bytes, for `mod`."""
    adopt = getattr(adapter, "adopt", None)
    return adapter.extract(sub if adopt is None else cast("ModT", adopt(sub, mod)), names)


def text_parts(adapter: IRAdapter[ModT, Any], mod: ModT, names: Iterable[str]) -> tuple[str, Mapping[str, str]]:
    """Return the text outside of functions, and the text of each named function.

    The text of a function does not depend on other functions, so an unchanged function has an unchanged text.
    """
    parts = getattr(adapter, "text_parts", None)
    if parts is not None:
        return cast("tuple[str, Mapping[str, str]]", parts(mod, names))
    # The text of a module with one function repeats what is outside of functions; only the rest is the function's.
    outside = adapter.to_text(adapter.isolate(mod, ()))
    return outside, {name: _without_head(adapter.to_text(adapter.isolate(mod, [name])), outside) for name in names}


def _without_head(text: str, head: str) -> str:
    """Return `text` without the lines that are also at the start of `head`."""
    lines = text.splitlines(keepends=True)
    common = takewhile(lambda pair: pair[0] == pair[1], zip(lines, head.splitlines(keepends=True), strict=False))
    return "".join(lines[sum(1 for _ in common) :])


async def run_in_thread_if_safe(adapter: IRAdapter[ModT, Any], mod: ModT | None, work: Callable[[], R]) -> R:
    """Call `work`, in a thread if the IR is thread-safe and the module not small.

    An executor has its own thread or process, and needs no further one.

    Parameters:
        adapter: the adapter of the module.
        mod: the module; None if there is none yet.
        work: calls methods of the adapter.

    """
    is_small = getattr(adapter, "is_small", None)
    if in_executor() or not adapter.thread_safe or (mod is not None and is_small is not None and is_small(mod)):
        return work()
    # The thread needs the current run and context: adapters may emit diagnostics.
    return cast("R", await _CALLS.run(partial(copy_context().run, work)))


_CALLS: Final = ThreadBatches(call_all, threads=usable_cores(), size=32)
"""The calls of adapters for concurrent modules.

Several threads, because the digest of large weights releases the GIL.
"""
