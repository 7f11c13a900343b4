"""`Contract`, `Caching` and `Execution`: what a pass declares.

A class of passes declares by keywords or in its body, for example. What it declares is read in the three groups:

>>> import apass
>>> class Fold(apass.ModulePass[dict[str, int]], opt_level=1, cacheable=True):
...     runs_after = ["Simplify"]
...     def transform_module(self, mod, ctx):
...         return mod
>>> Fold.caching.cacheable, Fold.contract.runs_after
(True, ('Simplify',))
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from apass.core.analysis_manager import Preserves
from apass.core.config import ConfigKey
from apass.core.outside import Outside
from apass.core.properties import Property

__all__ = ["GROUP_OF", "Caching", "Contract", "Execution"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What a pass requires and ensures, of modules and of the order of passes.

    For example, a pass with `requires=["relay.anf"]` takes modules in A-normal form only, and one with
    `runs_before=["FuseOps"]` must come before the pass of that name.
    """

    requires: tuple[str | Property, ...] = ()
    """The properties that a module must have, which is checked before the pass (see `register_property`)."""
    ensures: tuple[str | Property, ...] = ()
    """The properties that the result has, which is checked after the pass."""
    idempotent: bool = False
    """Whether the pass changes nothing in its own result, or in a module that has all properties in `ensures`.

    If another pass requires it and the module already satisfies it, a Sequential skips it.
    """
    preserves: Preserves = frozenset()
    """The analyses whose results remain valid after the pass; none by default."""
    runs_after: tuple[str, ...] = ()
    """Names of passes and pipelines. If the pipeline contains passes of a name, at least one must come first."""
    runs_before: tuple[str, ...] = ()
    """Names of passes and pipelines. The mirror image of `runs_after`."""

    @property
    def is_checked(self) -> bool:
        """Whether the runner checks something around the work of the pass."""
        return bool(self.requires or self.ensures or self.idempotent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caching:
    """Whether and how the results of a pass are kept in a store.

    For example, the results of a pass with `cacheable=True` and `config_keys=["relay.FuseOps.max_depth"]` are looked up
    by input, options and that config option.
    """

    cacheable: bool | Literal["module"] = False
    """Whether the result may be cached.

    It must then depend only on the input, the options and the config. For a function pass, True caches the result of
    each function. `"module"` caches the whole module, for bodies that use the rest of the module.
    """
    version: str = "1"
    """The version of the pass for cached results; change it when the pass produces different results.

    Cached results depend on the code and the defaults of a decorated function or class of passes. A change of anything
    else needs a new version: a global variable, a function or library that the pass calls, and an analysis that
    `required` does not name.
    """
    config_keys: tuple[ConfigKey, ...] | None = None
    """The config options that the result depends on; None is all options that are set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How a pass is executed, and on which modules.

    For example, a pass of LLVM has `native=True`, and one that converts ONNX to Relay has a `result_type`.
    """

    native: bool = False
    """Whether the pass calls native code in this process, which may end it, as a segmentation fault does.

    A ReproducerInstrument then writes the input before the pass runs.
    """
    outside: Outside | None = None
    """What the pass reaches besides the module, with any options; a text names it then only where it is allowed."""
    in_program: bool = False
    """Whether a process of another program does the work, so that a ProcessExecutor would only add one process more."""
    changes_in_place: bool = False
    """Whether the pass takes a draft: a private module that it may change (see `InPlacePass`)."""
    merges: bool = False
    """Whether `merged_with` may return a pass: the work of several passes costs less together."""
    in_order: bool = False
    """Whether the pass runs its only branch, one pass after another, if an instrument is in force.

    Bisection and resumption then treat it as they treat a Sequential.
    """
    runs_alone: bool = True
    """Whether the pass can be named by itself; False for a step of another compiler's pass.

    If such a step fails, the reproducer is of the pass around it.
    """
    module_type: type[Any] | None = None
    """The class of modules that the pass takes, if that is known; the first such pass chooses how files are read."""
    result_type: type[Any] | None = None
    """The class of modules that the pass returns, if it converts to another IR; None if it keeps the IR."""


_GROUPS: Final = {"contract": Contract, "caching": Caching, "execution": Execution}

GROUP_OF: Final[Mapping[str, str]] = {field.name: group for group, kind in _GROUPS.items() for field in fields(kind)}
"""The attribute of a pass that holds what is declared by a name."""
