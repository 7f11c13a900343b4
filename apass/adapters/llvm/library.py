"""The calls of llvmlite: reading, printing, checking, and running passes.

Each call uses an LLVM context of its own, so calls share nothing but the lock of llvmlite.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Any, Final, NoReturn

from apass.adapters.llvm.skeleton import defined_names
from apass.errors import AdapterError, MissingExtraError, VerifyError

__all__ = [
    "HAS_LLVMLITE",
    "MAGIC",
    "TUNING",
    "VERSION",
    "bitcode",
    "check",
    "llvm",
    "parse",
    "printed",
    "reading_error",
    "run_on_functions",
    "run_on_module",
    "target_machine",
    "text_of",
    "without_predecessors",
]


class _Missing:
    """The library that is not installed: each use raises MissingExtraError."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        raise MissingExtraError(f"this needs llvmlite ({self._reason}): pip install 'apass[llvm]'")


def _import() -> Any:
    try:
        return import_module("llvmlite.binding")
    except ImportError as error:
        # Modules can be read, and passes run, by the program opt alone.
        return _Missing(str(error))


llvm: Final[Any] = _import()
"""The module `llvmlite.binding`."""

HAS_LLVMLITE: Final = not isinstance(llvm, _Missing)
"""Whether llvmlite is installed."""

VERSION: Final = (
    f"llvmlite {version('llvmlite')}, LLVM {'.'.join(map(str, llvm.llvm_version_info))}" if HAS_LLVMLITE else ""
)
"""The versions of the library, for cache keys."""

TUNING: Final[Mapping[str, type]] = {
    "loop_interleaving": bool,
    "loop_vectorization": bool,
    "slp_vectorization": bool,
    "loop_unrolling": bool,
}
"""The tuning options of pipelines, and their types."""

_PREDECESSORS: Final = re.compile(r'^((?:"[^"]*"|[-A-Za-z0-9$._]+):) +; preds = .*$', re.MULTILINE)

MAGIC: Final = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
"""The first bytes of bitcode, plain or in a wrapper."""

_PLACE: Final = re.compile(r"<string>:(\d+):(\d+): error: (.*)")


def parse(source: str | bytes, *, verified: bool = True) -> Any:
    """Return the `ModuleRef` of a text or of bitcode, in a context of its own.

    Parameters:
        source: the text, or bitcode.
        verified: whether LLVM's verifier checks the module. Its passes may crash on an invalid one.

    Raises:
        AdapterError: if LLVM cannot read the module; for a text with line and column.
        VerifyError: if it breaks a rule.

    """
    context = llvm.create_context()
    try:
        ref = llvm.parse_assembly(source, context) if isinstance(source, str) else llvm.parse_bitcode(source, context)
    except RuntimeError as error:
        raise AdapterError(reading_error(source, str(error))) from None
    if verified:
        check(ref)
    return ref


def reading_error(source: str | bytes, message: str) -> str:
    """Return the text of the error for a message of LLVM's parser."""
    match = _PLACE.search(message)
    if match is None:
        kind = "bitcode" if isinstance(source, bytes) and source.startswith(MAGIC) else "LLVM IR"
        return f"this is no {kind} that LLVM reads: {' '.join(message.split())}"
    line, column, reason = match.groups()
    lines = source.splitlines() if isinstance(source, str) else source.decode(errors="replace").splitlines()
    quoted = lines[int(line) - 1 : int(line)]
    shown = f": {quoted[0].strip()[:120]}" if quoted else ""
    return f"this is no LLVM IR that LLVM reads: line {line}, column {column}: {reason}{shown}"


def check(ref: Any) -> None:
    """Check a module with LLVM's verifier.

    Raises:
        VerifyError: if it breaks a rule.

    """
    try:
        ref.verify()
    except RuntimeError as error:
        raise VerifyError(f"not a valid LLVM module: {' '.join(str(error).split())}") from None


def printed(source: str | bytes, *, verified: bool = False) -> str:
    """Return the text that LLVM prints for a module; see `text_of`."""
    return text_of(parse(source, verified=verified))


def text_of(ref: Any) -> str:
    """Return the text that LLVM prints for a module, `without_predecessors`."""
    return without_predecessors(str(ref))


def without_predecessors(text: str) -> str:
    """Return a text without LLVM's comments on the predecessors of blocks.

    Their order is that of uses in memory, so equal modules may show different ones.
    """
    return _PREDECESSORS.sub(r"\1", text)


def bitcode(text: str) -> bytes:
    """Return the bitcode of a module."""
    data: bytes = parse(text, verified=False).as_bitcode()
    return data


def run_on_module(
    text: str, add: Callable[[Any, Any], Any], level: int, tuning: Mapping[str, Any], attributes: Iterable[str] = ()
) -> tuple[str, str]:
    """Run a pass or a pipeline on a module; return its texts before and after.

    Parameters:
        text: the module.
        add: returns the pass manager. It receives a function that creates an empty one, and the pass builder.
        level: the level of optimization for speed, 0 to 3.
        tuning: values of `TUNING`.
        attributes: attributes that functions get first. Those with `optnone` or `optdebug` do not, because LLVM
            allows none of `optsize` and `minsize` beside them.

    Raises:
        AdapterError: if LLVM knows no target of the module's triple.
        VerifyError: if the module is invalid.

    """
    ref = parse(text)
    before = text_of(ref)
    for function in list(ref.functions) if attributes else []:
        words = {word for group in function.attributes for word in group.split()}
        if not function.is_declaration and words.isdisjoint((b"optnone", b"optdebug")):
            for attribute in attributes:
                function.add_function_attribute(attribute)
    builder = _builder(ref, level, tuning)
    add(llvm.create_new_module_pass_manager, builder).run(ref, builder)
    return before, text_of(ref)


def run_on_functions(
    text: str,
    names: Iterable[str],
    add: Callable[[Any, Any], Any],
    level: int = 2,
    tuning: Mapping[str, Any] | None = None,
) -> str:
    """Run a pass on some functions of a module, in order; return its text.

    Parameters are those of `run_on_module`.
    """
    ref = parse(text)
    builder = _builder(ref, level, tuning or {})
    manager = add(llvm.create_new_function_pass_manager, builder)
    chosen = set(names)
    # In the order of the text, because llvmlite knows neither the numbers of functions without a name nor the escapes
    # of names.
    definitions = [function for function in ref.functions if not function.is_declaration]
    for function, name in zip(definitions, defined_names(text), strict=True):
        if name in chosen:
            manager.run(function, builder)
    return text_of(ref)


def _builder(ref: Any, level: int, tuning: Mapping[str, Any]) -> Any:
    options = llvm.create_pipeline_tuning_options(level)
    for name, value in tuning.items():
        setattr(options, name, value)
    return llvm.create_pass_builder(target_machine(ref.triple), options)


@cache
def target_machine(triple: str) -> Any:
    """Return the machine of a triple; None for "".

    It has no features of this computer, so results are the same everywhere.

    Raises:
        AdapterError: if LLVM knows no such target.

    """
    if not triple:
        return None
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError:
        raise AdapterError(
            f"LLVM has no target for the triple {triple[:80]!r} of the module; write one such as "
            "'x86_64-unknown-linux-gnu', or none"
        ) from None
    return target.create_target_machine(cpu="", features="", opt=2, reloc="pic")
