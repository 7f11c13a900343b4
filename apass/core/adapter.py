"""`IRAdapter`: what the runner must know of an IR, looked up by a module's type; for authors of adapters."""

from collections.abc import Callable, Iterable, Mapping
from pkgutil import resolve_name
from typing import Any, Final, Literal, Protocol, TypeVar, cast

from anyio.to_thread import run_sync

from apass.core.plugins import plugins
from apass.errors import AdapterError

__all__ = [
    "FuncT",
    "FunctionKind",
    "IRAdapter",
    "ModT",
    "adapter_by_name",
    "adapter_for",
    "exact_fingerprint",
    "extract_into",
    "register_adapter",
    "run_in_thread_if_safe",
    "select_functions",
    "type_name",
]

ModT = TypeVar("ModT")
"""The type of a module."""
FuncT = TypeVar("FuncT")
"""The type of a function of a module."""

R = TypeVar("R")

FunctionKind = Literal["function", "prim_func"]
"""What visits a function: a FunctionPass the first kind, a PrimFuncPass the second."""


class IRAdapter(Protocol[ModT, FuncT]):
    """What the runner asks about an IR. A Protocol, so that an IR's own package can provide it without importing apass.

    Modules are values to the runner: no method may change what it is given.
    """

    @property
    def thread_safe(self) -> bool:
        """Whether modules of this IR may be worked on in a worker thread while others run in the loop."""
        ...

    def functions(self, mod: ModT) -> Iterable[tuple[str, FuncT]]:
        """Go over the functions by name, in the module's own order."""
        ...

    def get(self, mod: ModT, name: str) -> FuncT:
        """Return one function; KeyError if there is none of that name."""
        ...

    def kind(self, func: FuncT) -> FunctionKind:
        """Say which sort of pass visits the function."""
        ...

    def replace(self, mod: ModT, updates: Mapping[str, FuncT]) -> ModT:
        """Return a module with `updates` in the places of the functions of those names, and all else as in `mod`."""
        ...

    def skips(self, func: FuncT) -> bool:
        """Tell whether the function carries a true `SkipOptimization` attribute."""
        ...

    def fingerprint(self, x: ModT | FuncT) -> str:
        """Return a text that is equal for equal contents."""
        ...

    def equal(self, a: ModT | FuncT, b: ModT | FuncT) -> bool:
        """Tell whether two modules, or two functions, are structurally the same."""
        ...

    def to_text(self, x: ModT | FuncT) -> str:
        """Return the text that a person reads."""
        ...

    def verify(self, mod: ModT) -> None:
        """Return if the module keeps the rules of its IR; VerifyError, saying which is broken, if not."""
        ...

    def dumps(self, mod: ModT) -> bytes:
        """Return the module as bytes for another process; never a pickle."""
        ...

    def loads(self, data: bytes) -> ModT:
        """Return the module that `dumps` made `data` from."""
        ...

    def isolate(self, mod: ModT, names: Iterable[str]) -> ModT:
        """Return a private module with copies of the named functions, for a foreign pass that changes it in place."""
        ...

    def extract(self, sub: ModT, names: Iterable[str]) -> Mapping[str, FuncT]:
        """Return the named functions of a module that `isolate` made, to be given to `replace`."""
        ...


_ADAPTERS: Final = "apass.adapters"

_REGISTERED: Final[dict[type, IRAdapter[Any, Any]]] = {}
_FOUND: Final[dict[type, IRAdapter[Any, Any] | None]] = {}


def register_adapter(module_type: type[ModT], adapter: IRAdapter[ModT, Any]) -> None:
    """Use `adapter` for modules of `module_type` and its subclasses. Packages use the entry point `apass.adapters`.

    An entry point is named after the class (`my_ir.module.Module`) or the top-level package (`my_ir`) and names an
    adapter object (`my_ir.apass_adapter:ADAPTER`); it is loaded when the first module of that type arrives.

    Raises:
        AdapterError: if the type already has another adapter.

    """
    known = _REGISTERED.setdefault(module_type, adapter)
    if known is not adapter:
        raise AdapterError(f"modules of type {module_type.__qualname__} already have the adapter {known!r}")
    _FOUND.clear()


def adapter_for(mod: ModT) -> IRAdapter[ModT, Any]:
    """Return the adapter for a module, by its type.

    Raises:
        AdapterError: if there is none; it says how to provide one.
        MissingExtraError: if the adapter needs a library that is not installed.

    """
    adapter = adapter_of_type(type(mod))
    if adapter is None:
        kind = f"{type(mod).__module__}.{type(mod).__qualname__}"
        raise AdapterError(
            f"no IR adapter for modules of type {kind}; known are {', '.join(sorted(plugins(_ADAPTERS)))}; provide one "
            f"with apass.register_adapter({type(mod).__qualname__}, ...) or the entry point group 'apass.adapters'"
        )
    return adapter


def adapter_of_type(module_type: type) -> IRAdapter[Any, Any] | None:
    """Return the adapter for modules of a type, None if there is none."""
    if module_type not in _FOUND:
        _FOUND[module_type] = _look_up(module_type)
    return _FOUND[module_type]


def type_name(mod: object) -> str:
    """Return the name of a module's type, by which `adapter_by_name` finds its adapter, in another process too."""
    return f"{type(mod).__module__}:{type(mod).__qualname__}"


def adapter_by_name(name: str) -> IRAdapter[Any, Any] | None:
    """Return the adapter for modules of a type, by the name that `type_name` gave it; None if no adapter is known.

    Entry points are looked up by the name itself. So a package that moves a class keeps its old name readable by one
    more entry point, and files written before can still be read.
    """
    module, _, qualname = name.partition(":")
    adapter = _offered(f"{module}.{qualname}")
    if adapter is not None:
        return adapter
    try:
        return adapter_of_type(resolve_name(name))
    except (ImportError, AttributeError, ValueError):
        return None


def _look_up(module_type: type) -> IRAdapter[Any, Any] | None:
    for base in module_type.__mro__:
        if base in _REGISTERED:
            return _REGISTERED[base]
        adapter = _offered(f"{base.__module__}.{base.__qualname__}")
        if adapter is not None:
            return adapter
    return None


def _offered(full_name: str) -> IRAdapter[Any, Any] | None:
    """Return the adapter that an entry point offers for a class, or for its top-level package."""
    for name in (full_name, full_name.partition(".")[0]):
        if name in plugins(_ADAPTERS):
            return cast("IRAdapter[Any, Any]", plugins(_ADAPTERS)[name].load())
    return None


def select_functions(adapter: IRAdapter[ModT, FuncT], mod: ModT, kind: FunctionKind) -> tuple[list[str], list[FuncT]]:
    """Return the names and the functions that a pass over `kind` visits: that kind, without those to be skipped.

    An adapter that can tell for a whole module faster than function by function may have a `select(mod, kind)`.
    """
    select = getattr(adapter, "select", None)
    if select is not None:
        return cast("tuple[list[str], list[FuncT]]", select(mod, kind))
    chosen = [(n, f) for n, f in adapter.functions(mod) if adapter.kind(f) == kind and not adapter.skips(f)]
    return [name for name, _ in chosen], [func for _, func in chosen]


def exact_fingerprint(adapter: IRAdapter[ModT, FuncT], x: ModT | FuncT) -> str:
    """Return a text that is equal for what is equal in all that a pass could make a difference of, names and order too.

    An adapter whose `fingerprint` leaves something out that its results show has an `exact_fingerprint(x)`.
    """
    exact = getattr(adapter, "exact_fingerprint", adapter.fingerprint)
    return cast("str", exact(x))


def extract_into(adapter: IRAdapter[ModT, FuncT], sub: ModT, names: Iterable[str], mod: ModT) -> Mapping[str, FuncT]:
    """Return the named functions of `sub`, which was read from bytes, to be put into `mod`.

    An adapter whose functions refer to objects of their module has an `adopt(sub, mod)`, which gives `sub` with those
    of `mod` in their places.
    """
    adopt = getattr(adapter, "adopt", None)
    return adapter.extract(sub if adopt is None else cast("ModT", adopt(sub, mod)), names)


async def run_in_thread_if_safe(adapter: IRAdapter[Any, Any], work: Callable[[], R]) -> R:
    """Return what `work` gives: in a worker thread, unless modules of this IR may not be worked on there."""
    return await run_sync(work) if adapter.thread_safe else work()
