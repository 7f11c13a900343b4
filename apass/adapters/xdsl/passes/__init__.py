"""The passes `xdsl.*`: every pass of xDSL, and the pipeline `xdsl.Default`."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from functools import partial
from types import NoneType
from typing import Any, Final, get_args, get_type_hints

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.universe import Universe

from apass.adapters.xdsl.passes.function_passes import FUNCTION_PASSES
from apass.adapters.xdsl.passes.wrappers import PREFIX, XdslFunctionPass, XdslPass
from apass.core.outside import Outside, reviewed
from apass.errors import PassDefinitionError
from apass.passes.base import Pass
from apass.passes.registry import get_pass, provide_pass
from apass.passes.sequential import Sequential

__all__ = ["DEFAULT", "FUNCTION_PASSES", "XdslFunctionPass", "XdslPass", "provide_xdsl_pass", "wrap"]

DEFAULT: Final = ("canonicalize", "cse")
"""The passes of `xdsl.Default`."""

_PROGRAM: Final = ("mlir-opt", "executable")
"""The pass and the option that is none here: only the environment variable XDSL_MLIR_OPT names the program."""

_ARCH: Final[Mapping[str, Outside | None]] = {"arch": None}
_REVIEWS: Final[Mapping[str, Mapping[str, Outside | None]]] = {
    "apply-eqsat-pdl": {"pdl_file": Outside.FILES},
    "apply-eqsat-pdl-interp": {"pdl_interp_file": Outside.FILES},
    "apply-individual-rewrite": {"operation_name": None, "pattern_name": None},
    "apply-pdl": {"pdl_file": Outside.FILES},
    "apply-pdl-interp": {"pdl_interp_file": Outside.FILES},
    "convert-func-to-x86-func": _ARCH,
    "convert-ptr-to-x86": _ARCH,
    "convert-scf-to-x86-scf": _ARCH,
    "convert-vector-to-x86": _ARCH,
    "distribute-stencil": {"strategy": None},
    "eqsat-add-costs": {"cost_file": Outside.FILES},
    "mlir-opt": {"arguments": Outside.PROGRAMS},
    "arith-add-fastmath": {"flags": None},
    "riscv-allocate-registers": {"allocation_strategy": None},
    "transform-interpreter": {"entry_point": None},
    "x86-regalloc-legalize": _ARCH,
    "x86-set-arch": _ARCH,
}
"""What the options reach that are text, by pass; read in the sources of xDSL."""

_REACH: Final[Mapping[str, Outside]] = {"transform-interpreter": Outside.CODE}
"""The passes that reach outside with any options: the module names passes and their options."""


def wrap(library_pass: ModulePass) -> Pass[ModuleOp]:
    """Return a pass of xDSL as a pass of apass.

    It is one over functions if it is among `FUNCTION_PASSES`.
    """
    pass_ = (XdslFunctionPass if library_pass.name in FUNCTION_PASSES else XdslPass)(library_pass)
    pass_.outside = _REACH.get(library_pass.name)
    return pass_


def _options(load: Callable[[], type[ModulePass]]) -> Iterable[inspect.Parameter]:
    """Iterate over the options of a pass: the fields of its dataclass."""
    kind = load()
    types = get_type_hints(kind)
    for field in fields(kind):
        if field.init and (kind.name, field.name) != _PROGRAM:
            default, tp = _default_of(field, types[field.name]), types[field.name]
            option = inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=tp)
            yield reviewed(option, _REVIEWS.get(kind.name, {}))


def _default_of(field: Field[Any], tp: Any) -> Any:
    if field.default is not MISSING:
        return field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    # As in pipelines of xDSL.
    return None if NoneType in get_args(tp) else inspect.Parameter.empty


def _documentation(load: Callable[[], type[ModulePass]]) -> str:
    kind = load()
    # A class without its own docstring has the generated one of a dataclass, or that of its base.
    doc = inspect.cleandoc(vars(kind).get("__doc__") or "")
    return "" if doc.startswith(f"{kind.__name__}(") else doc


def _make(load: Callable[[], type[ModulePass]], **options: Any) -> Pass[ModuleOp]:
    kind = load()
    defaults = {parameter.name: parameter.default for parameter in _options(load)}
    try:
        return wrap(kind(**{**defaults, **options}))
    except (TypeError, ValueError) as error:
        raise PassDefinitionError(f"pass {PREFIX}{kind.name}: {error}") from error


def provide_xdsl_pass(name: str, load: Callable[[], type[ModulePass]]) -> None:
    """Register a pass of xDSL, which is imported when it is used."""
    provide_pass(f"{PREFIX}{name}", options=partial(_options, load), doc=partial(_documentation, load))(
        partial(_make, load)
    )


def _default() -> Sequential[ModuleOp]:
    """Simplify each operation, and merge equal ones.

    It is the default pipeline of the commands for `.mlir` files.
    """
    return Sequential([get_pass(f"{PREFIX}{name}") for name in DEFAULT], name=f"{PREFIX}Default")


provide_pass(f"{PREFIX}Default")(_default)
for _name, _load in Universe.get_multiverse().all_passes.items():
    # All of them take more than a second to import.
    provide_xdsl_pass(_name, _load)
