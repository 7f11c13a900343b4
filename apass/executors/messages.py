"""Messages to workers: the pass, the module and the context's options of a run."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from apass.core.adapter import (
    IRAdapter,
    adapter_for,
    adapter_of_type,
    facts_of,
    load_with_facts,
    register_adapter,
)
from apass.core.config import ConfigOption, adopt_option, find_option
from apass.core.context import PassContext
from apass.core.diagnostic_context import DiagnosticContext
from apass.core.instrument import instrument_name
from apass.core.pass_info import PassInfo
from apass.core.run import Run, current_module_name, current_run
from apass.core.run_settings import RunSettings
from apass.core.store import SharedStore, Store
from apass.errors import AdapterError, ExecutorError
from apass.executors.instrument_twins import Delegates
from apass.executors.pickling import dumps, pickled
from apass.runner.changes import CHANGES

__all__ = [
    "CallMessage",
    "ContextMessage",
    "ModuleMessage",
    "RunMessage",
    "pack_bodies",
    "pack_call",
    "pack_module",
    "pack_pass",
    "store_for_worker",
]


@dataclass(frozen=True, slots=True)
class ModuleMessage:
    """A serialized module."""

    adapter: IRAdapter[Any, Any]
    """The adapter of the module's IR."""
    is_pickle: bool
    """Whether `data` is a pickle, because the adapter cannot serialize the module."""
    data: bytes
    """The serialized module."""
    facts: Any = None
    """What the adapter's optional `facts` method returns: information that `dumps` omits."""

    def open(self) -> Any:
        """Deserialize the module, and register its adapter if necessary."""
        mod = pickle.loads(self.data) if self.is_pickle else load_with_facts(self.adapter, self.data, self.facts)
        kind = cast("Any", type(mod))
        if adapter_of_type(kind) is None:
            register_adapter(kind, self.adapter)
        return mod


def pack_module(mod: Any, adapter: IRAdapter[Any, Any] | None = None) -> ModuleMessage:
    """Serialize `mod` with its adapter.

    If the adapter cannot serialize it (a dict of arbitrary objects), use pickle.

    Raises:
        ExecutorError: if the module cannot be serialized by either.

    """
    adapter = adapter or adapter_for(mod)
    try:
        return ModuleMessage(adapter, False, adapter.dumps(mod), facts_of(adapter, mod))
    except AdapterError as error:
        try:
            return ModuleMessage(adapter, True, pickled(mod))
        except Exception as failure:  # objects may define how they are pickled, and raise any exception
            reason = f"{type(failure).__name__}: {failure}"
            raise ExecutorError(f"a module cannot be sent to another process: {error}; pickle: {reason}") from None


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """The options of a context, without its instruments."""

    opt_level: int
    """The optimization level of the context."""
    required_pass: frozenset[str]
    """Names of the required passes."""
    disabled_pass: frozenset[str]
    """Names of the disabled passes."""
    config: Mapping[str, Any]
    """The config values that the caller set."""
    options: Sequence[ConfigOption[Any]]
    """The registered options of the keys of `config`."""
    max_concurrency: int | None
    """The concurrency limit of the context."""
    exit_grace: float
    """The exit grace of the context, in seconds."""
    settings: RunSettings
    """What the instruments of the context change of the runner; a worker reads recorded answers again."""

    @staticmethod
    def of(ctx: PassContext) -> "ContextMessage":
        """Return the options of `ctx`."""
        return ContextMessage(
            ctx.opt_level,
            ctx.required_pass,
            ctx.disabled_pass,
            dict(ctx.config),
            [find_option(key) for key in ctx.config],
            ctx.max_concurrency,
            ctx.exit_grace,
            ctx.run_settings,
        )

    def open(
        self, instruments: Sequence[object], diag_ctx: DiagnosticContext, store: Store | None = None
    ) -> PassContext:
        """Return a context with these options; adopt its config options."""
        for option in self.options:
            adopt_option(option)
        if self.settings != RunSettings():
            # The twins of instruments may have some of them.
            missing = self.settings.without(RunSettings.of(instruments))
            instruments = [*instruments, missing]
        return PassContext(
            self.opt_level,
            self.required_pass,
            self.disabled_pass,
            instruments,
            self.config,
            diag_ctx=diag_ctx,
            max_concurrency=self.max_concurrency,
            exit_grace=self.exit_grace,
            store=store,
        )


@dataclass(frozen=True, slots=True)
class RunMessage:
    """A pass, with the module or functions that it runs on."""

    pass_: Any
    """The pass."""
    module: ModuleMessage
    """The module that the pass runs on."""
    context: ContextMessage
    """The options of the context."""
    lineage: Sequence[PassInfo]
    """The active passes, innermost first. Bodies get them from `current_run()`."""
    module_name: str | None
    """The module's key in `optimize_all`."""
    by_function: bool
    """Whether the pass runs on one function at a time."""
    backend: str
    """The event loop for a whole pass, and for the `open` of a pass, `asyncio` or `trio`."""
    instruments: Sequence[Callable[[], object]] = ()
    """Create the twins of the context's instruments, for a whole pass."""
    store: Callable[[], SharedStore] | None = None
    """Creates the store of the context, for a whole pass."""
    logs_changes: bool = False
    """Whether the passes that change the module are recorded, for a whole pass."""

    def run(self, function: str) -> Run:
        """Return the run of the body for a function."""
        run = _run_of(self.lineage, self.module_name)
        assert run is not None, "a body runs within a pass"
        return run.body(function)


@dataclass(frozen=True, slots=True)
class CallMessage:
    """A plain function, with what it sees of its caller."""

    function: Callable[..., Any]
    """The function."""
    context: ContextMessage
    """The options of the caller's context."""
    lineage: Sequence[PassInfo]
    """The active passes of the caller, innermost first; empty outside of any pass."""
    body: str | None
    """The function whose body calls, or None."""
    module_name: str | None
    """The module's key in `optimize_all`."""

    def run(self) -> Run | None:
        """Return the run of the caller; None outside of any pass."""
        run = _run_of(self.lineage, self.module_name)
        return run if run is None or self.body is None else run.body(self.body)


def _run_of(lineage: Sequence[PassInfo], module_name: str | None) -> Run | None:
    run = None
    for info in reversed(lineage):
        run = Run(info, run, module=module_name)
    return run


def pack_bodies(pass_: Any, mod: Any, ctx: PassContext, backend: str) -> bytes:
    """Serialize what a worker needs to run the bodies of a function pass.

    Raises:
        ExecutorError: if the pass, the module or the config cannot be serialized.

    """
    run = current_run() or Run(pass_.info, None)
    infos = [active.info for active in run.lineage]
    return _pack(RunMessage(pass_, pack_module(mod), ContextMessage.of(ctx), infos, run.module, True, backend))


def pack_pass(pass_: Any, mod: Any, ctx: PassContext, delegates: Delegates, backend: str) -> bytes:
    """Serialize what a worker needs to run a whole pass.

    Raises:
        ExecutorError: if the pass, the module, the config or an instrument cannot be serialized.

    """
    for original, factory in zip(delegates.originals, delegates.factories, strict=True):
        dumps(factory, f"the twin of instrument {instrument_name(original)!r}")
    module, name = pack_module(mod), current_module_name()
    context = ContextMessage.of(ctx)
    factories, store = delegates.factories, store_for_worker(ctx)
    dumps(store, f"the store {ctx.store!r}")
    logs = CHANGES.get() is not None
    return _pack(RunMessage(pass_, module, context, [pass_.info], name, False, backend, factories, store, logs))


def store_for_worker(ctx: PassContext) -> Callable[[], SharedStore] | None:
    """Return what creates the store of a context in a worker.

    Return None if the context has no store, or no other process can use it.
    """
    return ctx.store.for_worker() if isinstance(ctx.store, SharedStore) else None


def pack_call(function: Callable[..., Any], label: str) -> bytes:
    """Serialize what a worker needs to call a plain function in the current context.

    Raises:
        ExecutorError: if the function or the config cannot be serialized. The message calls the function `label`.

    """
    run = current_run()
    infos = [] if run is None else [active.info for active in run.lineage]
    ctx = ContextMessage.of(PassContext.current())
    dumps(function, label)
    dumps(ctx, "the config of the context")
    return dumps(CallMessage(function, ctx, infos, run and run.function, current_module_name()), label)


def _pack(message: RunMessage) -> bytes:
    # Serialize the parts separately first, so that the error names the part that failed.
    dumps(message.pass_, f"pass {message.pass_.info.name!r}")
    dumps(message.context, "the config of the context")
    return dumps(message, f"the adapter {message.module.adapter!r}")
