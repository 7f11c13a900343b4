"""`IRPlugin`: all that the tools need to know about an IR, as one object."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from pathlib import Path
from typing import Any, Final, Generic, cast

from anyio import CapacityLimiter, to_thread

from apass.concurrency.coroutines import is_async
from apass.core.adapter import IRAdapter, ModT, adapter_for, adapter_of_type, offer_for, register_adapter, suffix_of
from apass.errors import AdapterError, InputError, PluginError
from apass.loading.entry_points import Offer, plugins
from apass.util.files import Prepared
from apass.util.identity_cache import IdentityCache
from apass.util.interactive import definition_in_session
from apass.util.paired_times import PairedTimes

__all__ = [
    "Comparison",
    "GivenInputs",
    "IRPlugin",
    "Measures",
    "Proof",
    "checked_plugin",
    "compare_outputs",
    "data_suffix",
    "file_suffix",
    "ir_names",
    "ir_of_type",
    "irs_of_suffix",
    "known_suffixes",
    "plugin_for",
    "plugin_for_suffix",
    "plugin_for_type",
    "prove_equal",
    "register_plugin",
    "require_plugin",
]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing the outputs of a model before and after.

    >>> Comparison.unverified("no function takes numbers")
    Comparison(changed=None, text='outputs not verified: no function takes numbers')
    """

    changed: bool | None
    """Whether the meaning of the model has changed; None if that could not be verified."""
    text: str
    """A short description, which begins with `outputs equal`, `outputs changed` or `outputs not verified`."""

    @classmethod
    def same(cls, detail: str = "") -> "Comparison":
        """Return the result for equal outputs."""
        return cls(False, _sentence("outputs equal", detail))

    @classmethod
    def different(cls, detail: str) -> "Comparison":
        """Return the result for outputs that differ, or that only the module before has."""
        return cls(True, _sentence("outputs changed", detail))

    @classmethod
    def unverified(cls, detail: str) -> "Comparison":
        """Return the result for outputs that could not be compared."""
        return cls(None, _sentence("outputs not verified", detail))


def _sentence(start: str, detail: str) -> str:
    return f"{start}: {detail}" if detail else start


@dataclass(frozen=True, slots=True)
class GivenInputs:
    """The inputs of a comparison that the user chooses."""

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Shapes of inputs by name; the values are random."""
    values: Mapping[str, Any] | None = None
    """The arrays of all inputs, by name; None for random ones."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a search for a proof that two modules are equivalent."""

    equal: bool | None
    """True if it is proved, False if there is a counterexample, None if neither was found."""
    text: str
    """A short description: the counterexample, or the reason why nothing was found."""
    proved: tuple[str, ...] = ()
    """The functions that are proved, if the IR proves functions and others are not."""


@dataclass(frozen=True, slots=True)
class Measures:
    """What `apass opt --compare` shows of a model besides its nodes."""

    bytes: int
    """Size of its file with the weights."""
    latency: float | None
    """Seconds of one run; None if it was not measured."""
    reason: str = ""
    """The reason why it was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IRPlugin(Generic[ModT]):
    """An IR for every tool: adapter, files, default pipeline, outputs.

    Only the adapter is required. With `suffixes`, the commands read and write files of the IR. For example,
    `IRPlugin(adapter=ADAPTER, module_type=Program, suffixes=(".mine",))` is enough for `apass opt program.mine`.

    Register it with `register_plugin`, in a file for `--load` for example. A package declares it as an entry point of
    the group `apass.irs`, once for the class of modules (`my_ir.program.Program`) or the top-level package (`my_ir`),
    and once for each suffix (`.mine`). It is then imported when the first such module or file is used.

    An IR has a name, which prefixes the names of its passes and its suffixes: `llvm:.ll`, `mlir:.mlir`. Without such an
    entry point, the name is the suffix without its dot. Several IRs may share a suffix. One of them declares the suffix
    itself too, and is the default. The first pass of a pipeline with such a prefix chooses the IR. The names of passes
    that convert one IR to another contain both: `mlir.FromLLVM`, `mlir.ToLLVM`.

    A package need not import apass to declare an adapter alone: the entry point of a class may name an adapter.
    """

    adapter: IRAdapter[ModT, Any]
    """The interface to modules. Its optional method `shrinkings` is used by `apass reduce`."""
    module_type: type[ModT] | None = None
    """The class of modules, for `register_plugin`; an entry point names it."""
    suffixes: tuple[str, ...] = ()
    """The suffixes of model files, each with its dot. Upper and lower case are the same."""
    load: Callable[[Path], ModT] | None = None
    """Reads a module from a file, and raises any exception if that fails; by default `adapter.loads` of the bytes."""
    load_bytes: Callable[[bytes, str], ModT] | None = None
    """Reads a module from the bytes of a file with one of `suffixes`, given a name for messages.

    With it, `adapter.dumps` returns the bytes of such a file, and a service needs no temporary files. A model that
    refers to other files is an error.
    """
    save: Callable[[ModT, Path], object] | None = None
    """Writes a module to a file; by default the bytes of `adapter.dumps`.

    The path leads to an empty temporary file beside the final one, which it replaces at the end.
    """
    default_pipeline: str = ""
    """The pipeline of the commands if none is given."""
    size: Callable[[ModT], int] | None = None
    """Returns the number of nodes of a module; by default the number of its functions."""
    compare_outputs: Callable[[ModT, ModT], Comparison | Awaitable[Comparison]] | None = None
    """Runs a module before and after on the same inputs, and compares the outputs, for `--verify-outputs`.

    A plain function is called in a worker thread if the adapter is thread-safe.
    """
    compare_outputs_on: Callable[[ModT, ModT, GivenInputs], Comparison | Awaitable[Comparison]] | None = None
    """Compares the outputs for inputs that the user gives, for `--input-shape` and `--inputs`; by default an error.

    It raises InputError for inputs that do not fit the module.
    """
    prove_equal: Callable[[ModT, ModT], Awaitable[Proof]] | None = None
    """Searches for a proof that two modules compute the same for all inputs, for `--verify-outputs=prove`."""
    measure: Callable[[Sequence[ModT]], Sequence[Measures] | Awaitable[Sequence[Measures]]] | None = None
    """Returns the measures of modules that have the same inputs, for `--compare`; None if there are none."""
    compare_times: Callable[[ModT, ModT], Awaitable[PairedTimes]] | None = None
    """Runs two modules alternately in the measurement lane, and returns the times, for the objective `latency`."""
    companions: Callable[[Path], list[Path]] | None = None
    """Returns the further files that belong to a model file, such as external weights; by default none."""
    save_files: Callable[[ModT, Path, Prepared | None], None] | None = None
    """Writes a module to several files, in place of `save`.

    All files are written under temporary names, then given to the last argument if it is not None, then renamed.
    """
    separator: str = ""
    """The line between the modules in one file, for `--split-input-file`; empty if a file contains one module."""
    text_suffix: str = ""
    """The suffix with which `load` and the function that saves use a text, for an editor; by default the first one."""
    copies_unchanged: bool = True
    """Whether the file of a module that does not change is copied.

    False for text, which `save` prints without the comments of the file. A file with `text_suffix` is never copied.
    """

    def __post_init__(self) -> None:
        """Check the suffixes.

        Raises:
            AdapterError: if a suffix has no dot.

        """
        if isinstance(self.suffixes, str):
            raise AdapterError(f"suffixes must be a tuple, got {self.suffixes!r}; write ({self.suffixes!r},)")
        # `Path.suffix` decides about files, so it decides here as well: `.tar.gz` has the suffix `.gz`.
        for suffix in filter(None, (*self.suffixes, self.text_suffix)):
            if not isinstance(suffix, str) or Path(f"model{suffix}").suffix != suffix:
                raise AdapterError(f"a suffix of model files must begin with a dot, such as '.onnx', got {suffix!r}")

    def read(self, path: Path) -> ModT:
        """Return the module in a file."""
        return self.adapter.loads(path.read_bytes()) if self.load is None else self.load(path)

    def write(self, mod: ModT, path: Path) -> None:
        """Write a module to a new file."""
        if self.save_files is not None:
            self.save_files(mod, path, None)
        elif self.save is not None:
            path.touch()
            self.save(mod, path)
        else:
            path.write_bytes(self.adapter.dumps(mod))


_IRS: Final = "apass.irs"

_REGISTERED: Final[dict[str, IRPlugin[Any]]] = {}
"""The registered plug-ins, by suffix in lower case."""

_BY_SUFFIX: Final[IdentityCache[Mapping[str, Offer]]] = IdentityCache(held=2)
"""The default plug-ins of entry points. Each job asks for them."""


def file_suffix(path: Path) -> str:
    """Return the suffix of a model file in lower case.

    Files, formats and plug-ins are matched by it.

    >>> file_suffix(Path("M.ONNX"))
    '.onnx'
    """
    return path.suffix.lower()


def register_plugin(plugin: IRPlugin[ModT]) -> IRPlugin[ModT]:
    """Register the adapter and the suffixes of a plug-in; return the plug-in.

    In a notebook or at a prompt, a plug-in for the same class of modules replaces the earlier one.

    Raises:
        AdapterError: if the plug-in has no `module_type`, if the type has another adapter, or if another plug-in or an
            installed package has one of the suffixes.

    """
    if not isinstance(plugin, IRPlugin):
        raise AdapterError(f"register_plugin takes an IRPlugin, got {plugin!r}")
    if plugin.module_type is None:
        raise AdapterError("register_plugin needs the class of modules; write IRPlugin(module_type=..., ...)")
    for suffix in plugin.suffixes:
        other, offer = _REGISTERED.get(suffix.lower()), _offers().get(suffix.lower())
        is_repeated = other is plugin or definition_in_session(plugin.adapter) is not None
        # A module may register the plug-in that its package offers.
        is_offered_elsewhere = offer is not None and offer.module != type(plugin.adapter).__module__
        if (other is not None and not is_repeated) or is_offered_elsewhere:
            raise AdapterError(f"files with the suffix {suffix!r} already have a plug-in; use another suffix")
    # After the checks of all suffixes, so that an error leaves nothing registered.
    register_adapter(plugin.module_type, plugin.adapter)
    for suffix in plugin.suffixes:
        _REGISTERED[suffix.lower()] = plugin
    return plugin


def known_suffixes() -> Iterator[str]:
    """Iterate over the suffixes of model files, sorted and in lower case.

    No plug-in is imported.
    """
    yield from sorted({*_REGISTERED, *_offers()})


def _offers() -> Mapping[str, Offer]:
    """Return the default plug-ins of entry points, by suffix in lower case."""
    declared = plugins(_IRS)
    offers = _BY_SUFFIX.get(declared)
    if offers is None:
        named = {suffix: offer for _, suffix, offer in reversed([*_named_offers()])}  # the first one is the default
        offers = named | {name.lower(): offer for name, offer in declared.items() if name.startswith(".")}
        _BY_SUFFIX.keep(declared, offers)
    return offers


def _named_offers() -> Iterator[tuple[str, str, Offer]]:
    """Iterate over names of IRs with suffixes in lower case and their plug-ins."""
    for name, offer in plugins(_IRS).items():
        ir, colon, suffix = name.partition(":")
        if colon:
            yield ir, suffix.lower(), offer


def ir_names() -> frozenset[str]:
    """Return the names of the IRs that have files.

    Nothing is imported.
    """
    named = [(ir, suffix) for ir, suffix, _ in _named_offers()]
    others = {*known_suffixes()}.difference(suffix for _, suffix in named)
    return frozenset([*(ir for ir, _ in named), *(suffix.removeprefix(".") for suffix in others)])


def irs_of_suffix(suffix: str) -> tuple[str, ...]:
    """Return the names of the IRs that share a suffix, the default one first.

    The suffix is in lower case. Nothing is imported.

    Raises:
        PluginError: if several packages declare the suffix.

    """
    named = {ir: offer for ir, shared, offer in _named_offers() if shared == suffix}
    default = None if suffix in _REGISTERED else _offers().get(suffix)
    first = [ir for ir, offer in named.items() if default is not None and offer.value == default.value]
    return tuple(dict.fromkeys([*(first or [suffix.removeprefix(".")]), *named]))


def ir_of_type(kind: type[Any]) -> str | None:
    """Return the name of the IR of a class of modules; None if it has none.

    Nothing is imported.
    """
    for suffix, plugin in _REGISTERED.items():
        if plugin.module_type is kind:
            return irs_of_suffix(suffix)[0]
    offers = (offer_for(f"{base.__module__}.{base.__qualname__}") for base in kind.__mro__)
    found = next((offer for offer in offers if offer is not None), None)
    if found is None:
        return None
    named = (ir for ir, _, offer in _named_offers() if offer.value == found.value)
    plain = (suffix.removeprefix(".") for suffix, offer in _offers().items() if offer.value == found.value)
    return next(named, None) or next(plain, None)


def plugin_for_suffix(suffix: str, ir: str | None = None) -> IRPlugin[Any]:
    """Return the plug-in of a suffix in lower case.

    Parameters:
        suffix: the suffix.
        ir: one of `irs_of_suffix`; None for the default one.

    Raises:
        KeyError: if there is none.
        MissingExtraError: if its library is not installed.
        PluginError: if an entry point names something else.

    """
    offer = _offer_of(suffix, ir)
    return _REGISTERED[suffix] if offer is None else checked_plugin(offer.load(), offer.value)


def _offer_of(suffix: str, ir: str | None) -> Offer | None:
    """Return the entry point of a suffix; None if a plug-in is registered for it."""
    for name, shared, offer in _named_offers():
        if (name, shared) == (ir, suffix):
            return offer
    return None if suffix in _REGISTERED else _offers()[suffix]


def require_plugin(suffix: str, ir: str | None = None) -> None:
    """Check that the libraries of a suffix are installed.

    See `plugin_for_suffix` for the parameters, and `Offer.require` for what is imported.

    Raises:
        KeyError: if there is no plug-in.
        MissingExtraError: if a library is not installed.
        PluginError: if the plug-in cannot be imported.

    """
    offer = _offer_of(suffix, ir)
    if offer is not None:
        offer.require()


def plugin_for(mod: ModT) -> IRPlugin[ModT]:
    """Return the plug-in of a module.

    If only the adapter is known, the plug-in consists of this adapter.
    """
    return _plugin_of(type(mod), adapter_for(mod))


def data_suffix(mod: Any) -> str:
    """Return the suffix of a file with the bytes that the adapter of a module writes.

    If the adapter has none and writes text, it is the suffix of the model files of its plug-in.
    """
    plugin = plugin_for(mod)
    adapter: Any = plugin.adapter
    is_file = plugin.load_bytes is not None or (hasattr(adapter, "reads_text") and adapter.reads_text())
    return plugin.suffixes[0] if is_file and plugin.suffixes and not hasattr(adapter, "suffix") else suffix_of(adapter)


def plugin_for_type(kind: type[ModT]) -> IRPlugin[ModT]:
    """Return the plug-in of a class of modules; see `plugin_for`.

    Raises:
        AdapterError: if the class has no adapter.

    """
    adapter = adapter_of_type(kind)
    if adapter is None:
        raise AdapterError(f"no IR adapter for modules of type {kind.__qualname__}; add one with register_adapter")
    return _plugin_of(kind, adapter)


def _plugin_of(kind: type[ModT], adapter: IRAdapter[ModT, Any]) -> IRPlugin[ModT]:
    for registered in _REGISTERED.values():
        if registered.adapter is adapter:
            return registered
    for base in kind.__mro__:
        offer = offer_for(f"{base.__module__}.{base.__qualname__}")
        offered = None if offer is None else offer.load()
        # An entry point may offer an adapter alone.
        if getattr(offered, "adapter", None) is adapter:
            return cast("IRPlugin[ModT]", offered)
    return IRPlugin(adapter=adapter)


async def compare_outputs(
    plugin: IRPlugin[Any],
    before: Any,
    after: Any,
    limiter: CapacityLimiter | None = None,
    *,
    given: GivenInputs | None = None,
) -> Comparison:
    """Run two modules of one IR on the same inputs, and compare their outputs.

    Parameters:
        plugin: the plug-in of the modules.
        before: the module before.
        after: the module after.
        limiter: limits the threads that call a plain function of the plug-in; None is the limit of anyio.
        given: the inputs that the user chooses; None for random ones.

    Raises:
        InputError: if `given` does not fit the module, or the IR takes no such inputs.

    """
    compare: Callable[..., Any] | None = plugin.compare_outputs if given is None else plugin.compare_outputs_on
    arguments = (before, after) if given is None else (before, after, given)
    if compare is None and given is not None:
        suffix = plugin.suffixes[0] if plugin.suffixes else type(plugin.adapter).__qualname__
        raise InputError(f"the inputs of {suffix} modules cannot be given; leave out --input-shape and --inputs")
    if compare is None:
        return Comparison.unverified("the IR plug-in cannot compare them")
    if plugin.adapter.thread_safe and not is_async(compare):
        # It may run a model for minutes, and other modules go on meanwhile.
        result: Any = await to_thread.run_sync(compare, *arguments, limiter=limiter)
    else:
        result = compare(*arguments)
    comparison: Comparison = await result if isawaitable(result) else result
    return comparison


async def prove_equal(plugin: IRPlugin[Any], before: Any, after: Any) -> Proof:
    """Search for a proof that two modules of one IR are equivalent."""
    if plugin.prove_equal is None:
        return Proof(None, "the IR plug-in has no proofs")
    return await plugin.prove_equal(before, after)


def checked_plugin(value: Any, source: str) -> IRPlugin[Any]:
    """Return the plug-in that an entry point names.

    Raises:
        PluginError: if it names something else.

    """
    kind: Any = IRPlugin  # otherwise a type checker narrows `value` to a plug-in of unknown modules
    if not isinstance(value, kind):
        raise PluginError(f"the entry point {source!r} names {value!r}, which is not an apass.IRPlugin")
    plugin: IRPlugin[Any] = value
    return plugin
