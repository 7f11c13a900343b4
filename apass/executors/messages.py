"""What a worker needs to know of a run once: pass, module and options of the context, as plain values for the way."""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from apass.core.adapter import IRAdapter, adapter_for, adapter_of_type, register_adapter
from apass.core.config import ConfigOption, find_option, register_config_option
from apass.core.context import PassContext
from apass.core.diagnostics import DiagnosticContext
from apass.core.info import PassInfo
from apass.core.run import Run, current_module_name, current_run
from apass.errors import AdapterError, ExecutorError
from apass.executors.pickling import dumps

__all__ = ["ContextParcel", "ModuleParcel", "RunParcel", "pack_bodies", "pack_module", "pack_pass"]


@dataclass(frozen=True, slots=True)
class ModuleParcel:
    """A module on its way."""

    adapter: IRAdapter[Any, Any]
    """What knows its IR."""
    is_pickle: bool
    """Whether the adapter could not write it, and Python's pickle did."""
    data: bytes
    """What was written."""
    facts: Any = None
    """What the adapter's `facts` say of what it does not write, if it has them."""

    def open(self) -> Any:
        """Return the module."""
        mod = pickle.loads(self.data) if self.is_pickle else self.adapter.loads(self.data)
        if self.facts is not None:
            mod = cast("Any", self.adapter).restore(mod, self.facts)
        kind = cast("Any", type(mod))
        if adapter_of_type(kind) is None:
            register_adapter(kind, self.adapter)
        return mod


def pack_module(mod: Any, adapter: IRAdapter[Any, Any] | None = None) -> ModuleParcel:
    """Return `mod` as bytes, by the adapter's `dumps`, or where that cannot (a dict of any objects) as a pickle.

    Raises:
        ExecutorError: if neither can.

    """
    adapter = adapter or adapter_for(mod)
    try:
        facts = cast("Any", adapter).facts(mod) if hasattr(adapter, "facts") else None
        return ModuleParcel(adapter, False, adapter.dumps(mod), facts)
    except AdapterError as error:
        try:
            return ModuleParcel(adapter, True, pickle.dumps(mod, pickle.HIGHEST_PROTOCOL))
        except Exception as failure:  # pickling calls what objects bring along
            reason = f"{type(failure).__name__}: {failure}"
            raise ExecutorError(f"a module cannot go to another process: {error}; nor by pickle: {reason}") from None


@dataclass(frozen=True, slots=True)
class ContextParcel:
    """The options of a context; its instruments stay where they are."""

    opt_level: int
    """Of the context."""
    required_pass: frozenset[str]
    """Of the context."""
    disabled_pass: frozenset[str]
    """Of the context."""
    config: Mapping[str, Any]
    """What was given."""
    options: Sequence[ConfigOption]
    """How the keys of `config` are registered."""
    max_concurrency: int | None
    """Of the context."""
    exit_grace: float
    """Of the context."""

    @staticmethod
    def of(ctx: PassContext) -> "ContextParcel":
        """Return what there is to know of `ctx`."""
        return ContextParcel(
            ctx.opt_level,
            ctx.required_pass,
            ctx.disabled_pass,
            dict(ctx.config),
            [find_option(key) for key in ctx.config],
            ctx.max_concurrency,
            ctx.exit_grace,
        )

    def open(self, instruments: Sequence[object], diag_ctx: DiagnosticContext) -> PassContext:
        """Return a context with these options."""
        for option in self.options:
            register_config_option(option.key, option.type, option.default, option.doc)
        return PassContext(
            self.opt_level,
            self.required_pass,
            self.disabled_pass,
            instruments,
            self.config,
            diag_ctx=diag_ctx,
            max_concurrency=self.max_concurrency,
            exit_grace=self.exit_grace,
        )


@dataclass(frozen=True, slots=True)
class RunParcel:
    """A pass to run on a module, or on its functions."""

    pass_: Any
    """The pass."""
    module: ModuleParcel
    """What it works on."""
    context: ContextParcel
    """What it runs under."""
    lineage: Sequence[PassInfo]
    """The passes at work, innermost first; what `current_run()` tells the bodies."""
    module_name: str | None
    """What `optimize_all` knows the module by."""
    by_function: bool
    """Whether it is to run on one function at a time."""
    backend: str
    """The event loop that a whole pass runs on."""

    def run(self, function: str) -> Run:
        """Return where the body for a function stands."""
        parent = None
        for info in reversed(self.lineage):
            parent = Run(info, parent, module=self.module_name)
        assert parent is not None
        return Run(parent.info, parent.parent, function, self.module_name, parent)


def pack_bodies(pass_: Any, mod: Any, ctx: PassContext) -> bytes:
    """Return what a worker needs for the bodies of a function pass; ExecutorError if something cannot go there."""
    run = current_run() or Run(pass_.info, None)
    infos = [one.info for one in run.lineage]
    return _pack(RunParcel(pass_, pack_module(mod), ContextParcel.of(ctx), infos, run.module, True, ""))


def pack_pass(pass_: Any, mod: Any, ctx: PassContext, backend: str) -> bytes:
    """Return what a worker needs to run a whole pass; ExecutorError if something cannot go there."""
    name = current_module_name()
    return _pack(RunParcel(pass_, pack_module(mod), ContextParcel.of(ctx), [pass_.info], name, False, backend))


def _pack(parcel: RunParcel) -> bytes:
    # The pass first, on its own: so the message says which part cannot go.
    dumps(parcel.pass_, f"pass {parcel.pass_.info.name!r}")
    dumps(parcel.context, "the config of the context")
    return dumps(parcel, f"the adapter {parcel.module.adapter!r}")
