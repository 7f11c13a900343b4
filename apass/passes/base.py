"""`Pass`, the base class of all passes, and `ModulePass`."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import Field, field
from functools import partial
from inspect import unwrap
from itertools import chain
from reprlib import repr as shortened
from types import FunctionType
from typing import Any, Final, Generic, NoReturn, Unpack, cast, dataclass_transform
from weakref import WeakKeyDictionary

from apass.concurrency.coroutines import is_async
from apass.core.adapter import ModT, never_modules
from apass.core.analysis import Analysis
from apass.core.analysis_manager import with_analyses
from apass.core.context import SCOPE, PassContext, current_scope
from apass.core.declarations import GROUP_OF, Caching, Contract, Execution
from apass.core.displayed import Displayed
from apass.core.executor import executor_in_force, opens_passes
from apass.core.named_callables import value_text
from apass.core.pass_factories import add_factory, takes_passes
from apass.core.pass_info import PassInfo
from apass.core.pass_setup import PassSetup
from apass.core.properties import Property, find_property
from apass.core.run import RUN, RunCursor, enter_module, leave_module
from apass.core.tracebacks import hidden_in_pytest, hide_runner_frames
from apass.errors import PassDefinitionError
from apass.passes.class_definition import define_options, options_of_constructor, set_class_keywords, set_declared
from apass.passes.draft import Draft, offer_draft, withdraw_draft
from apass.passes.options import BodyOptions, PassOptions, Requirements
from apass.runner.cache_keys import key_of, own_version, short_text
from apass.runner.contract import note_ensured
from apass.runner.error_policy import OnError, with_error_policy, with_limits
from apass.runner.execute import execute
from apass.util.checks import check_type
from apass.util.fingerprint import fingerprint_value
from apass.util.text import shorten

__all__ = ["ModulePass", "OnError", "Pass", "is_enabled", "is_selected", "not_a_pass"]

__tracebackhide__ = hidden_in_pytest


class Pass(Displayed, ABC, Generic[ModT]):
    """A transformation of modules: `await pass_(mod)` returns a module.

    A pass never modifies its input. It holds no state of a run, so one object may run on many modules at once.
    """

    info: PassInfo
    """The metadata: level, name, requirements. A subclass sets it on the class or on `self`."""

    analyses: tuple[Analysis[Any], ...] = ()
    """The analyses that are computed before the pass runs, for `ctx.got`."""

    # What is in these three is declared by its own name: as a keyword, in the body of a class, or on `self`.
    contract: Contract = Contract()
    """What the pass requires and ensures, of modules and of the order of passes."""
    caching: Caching = Caching()
    """Whether and how the results are kept in a store."""
    execution: Execution = Execution()
    """How the pass is executed, and on which modules."""

    spec: tuple[str, Mapping[str, object]] | None = None
    """The registered name and the options of the pass, if known; `str()` and `==` use them."""
    has_setup: bool = False
    """Whether the pass, or one inside it, has an `open` of its own."""
    has_open: bool = False
    """Whether the pass has an `open` of its own."""
    is_bare: bool = True
    """Whether the class declares nothing that needs a layer around `transform`: no contract and no `open`."""

    registered_name: str | None = None
    """The name that the pass itself, or its class, is registered under; None if it is not."""
    declared_name: str | None = None
    """The name that `info` had before the registration under another one; None if it is the same."""

    def __init_subclass__(
        cls,
        *,
        opt_level: int | None = None,
        name: str | None = None,
        required: Requirements = None,
        register: bool | None = None,
        init: bool = True,
        kw_only: bool = False,
        **options: Unpack[PassOptions],
    ) -> None:
        """Define a class of passes by the keywords of its class statement.

        Annotated attributes of the class become its options, as in a dataclass, unless it has its own `__init__`.

        Parameters:
            opt_level: the level in `info`; omitted if the class sets `info` itself, or is abstract.
            name: the name in `info`, by default of the class. The class is registered under it.
            required: names of registered passes, and analyses, which the pass requires.
            register: whether the class is registered, by default if it has a `name`.
            init: False if a base class provides the constructor.
            kw_only: whether options are given by keyword only.
            **options: the attributes of `PassOptions`.

        Raises:
            PassDefinitionError: if `info` is not a PassInfo, a keyword is invalid, or the method that transforms has
                other parameters.
            PassRegistrationError: if the class cannot be registered under its name.

        """
        super().__init_subclass__()
        set_class_keywords(cls, opt_level, name, required, options)
        info = cls.__dict__.get("info")
        if info is not None and not isinstance(info, PassInfo | property):
            raise PassDefinitionError(f"{cls.__name__}.info must be a PassInfo(opt_level=..., name=...), got {info!r}")
        if issubclass(cls, BodyOptions):
            define_options(cls, init=init, kw_only=kw_only, not_fields=_NOT_OPTIONS)
        if isinstance(info, PassInfo):
            note_ensured(info.name, cls.contract.ensures)
        base: Any = Pass
        cls.has_open = cls.open is not base.open
        cls.has_setup = cls.has_setup or cls.has_open
        cls.is_bare = not (cls.has_open or cls.contract.is_checked)
        if register or (register is None and name is not None):
            add_factory(cls.info.name, cls)
            # A combinator has a name of its own: disabling `Repeat` must not disable every Repeat.
            if not takes_passes(cls):
                cls.registered_name = cls.info.name

    def __setattr__(self, name: str, value: object) -> None:
        set_declared(self, name, value)

    async def __call__(self, mod: ModT, ctx: PassContext | None = None, *, donate: bool = False) -> ModT:
        """Run the pass on `mod` in the current `PassContext`, and return the new module.

        If `ctx` is another context, it is entered and left, as by `run`.

        With `donate`, the caller gives `mod` up: passes that work in place may change it, which saves a copy. Do not
        use `mod` after the call, not even if it failed; only `result is mod` still means that nothing changed.

        The hooks of the context's instruments are called. The pass runs regardless of its level and of `disabled_pass`,
        and its requirements are not resolved: only a Sequential does that.

        Raises:
            TypeError: if `mod` is None.
            PassResultError: if the pass does not return a module.
            Exception: any error of the pass or of a hook, with a note that gives the location.

        """
        if mod is None or not isinstance(getattr(self, "info", None), PassInfo):
            raise _call_error(self)
        try:
            if donate or (ctx is not None and ctx is not PassContext.current()):
                return await self.run(mod, ctx, donate=donate)
            # Without a call in the usual case: a context is entered.
            scope, caller = SCOPE.get() or current_scope(), RUN.get()
            if isinstance(caller, RunCursor):
                caller = caller.parent if caller.item is None else caller.run()
            cursor = RunCursor(caller)
            cursor.item = self
            if scope.records_passes:
                scope.record_pass(self)
            if cursor.parent is not None:
                with cursor:
                    return await execute(self, mod, scope, cursor)
            RUN.set(cursor)
            scheduler = scope.state.scheduler
            is_slice_over = scheduler.enter()
            try:
                if is_slice_over:
                    await scheduler.yield_to_loop()
                if self.has_setup:
                    async with PassSetup(self.passes_to_open(scope.ctx), scope.ctx):
                        return await execute(self, mod, scope, cursor)
                return await execute(self, mod, scope, cursor)
            finally:
                scheduler.leave()
                # The run of a cursor without an item is its parent, here None. This saves a tenth of the time of a
                # call, as setting a contextvar is slow.
                cursor.item = cursor.mod = None
        except BaseException as error:
            hide_runner_frames(error)
            raise

    async def run(
        self, mod: ModT, ctx: PassContext | None = None, *, name: str | None = None, donate: bool = False
    ) -> ModT:
        """Run the pass on `mod` in a context, and return the new module.

        It is the same as a call, and also names the module.

        Parameters:
            mod: the module.
            ctx: the context, which is entered and left; None for the current one.
            name: the name of the module in messages, reports and traces; None for none.
            donate: see `__call__`.

        Raises:
            TypeError: if `ctx` is not a PassContext.
            Exception: any error of the call, or of entering and leaving the context.

        >>> import anyio
        >>> from apass.passes.decorators import module_pass
        >>> level = module_pass(lambda mod, ctx: {"level": ctx.opt_level}, opt_level=0, name="Level")
        >>> async def main():
        ...     return await level.run({}, name="a", ctx=PassContext(opt_level=3))
        >>> anyio.run(main)
        {'level': 3}

        """
        token = None if name is None else enter_module(name)
        try:
            if ctx is not None:
                check_type("ctx", ctx, PassContext)
            async with ctx or nullcontext():
                if donate:
                    offer_draft(self, Draft(mod, mod))
                return await self(mod)
        except BaseException as error:
            hide_runner_frames(error)
            raise
        finally:
            if donate:
                withdraw_draft()
            if token is not None:
                leave_module(token)

    @abstractmethod
    def transform(self, mod: ModT, ctx: PassContext) -> ModT | Awaitable[ModT]:
        """Return the new module; may be `async def`. The runner calls this."""

    def open(self, ctx: PassContext) -> AbstractAsyncContextManager[Any] | AsyncIterator[Any]:
        """Open what the pass needs during a run, such as a client or a solver.

        By default it opens nothing. Override it by `async def open(self, ctx)` with one `yield`, or by a method that
        returns an async context manager. Bodies get the value by `ctx.opened(self.open)`.

        It is opened once for a run, before the first pass, and closed after the last one, on every path. All functions
        and all modules of the run share the value. A run is a call of a pass, of `optimize_all` or of
        `optimize_stream`. If a pass is only required by name, or called by another pass, a run is one execution of it.
        In an executor, each worker opens its own for each batch of functions; threads share the program's.
        """
        return nullcontext()

    def opens_here(self, ctx: PassContext) -> bool:
        """Return whether the program opens the pass.

        Otherwise the workers do in which its bodies run.
        """
        return True

    def passes_to_open(self, ctx: PassContext) -> "Iterator[Pass[ModT]]":
        """Iterate over the passes to open before a run.

        These are the pass and those inside it that are enabled.
        """
        if self.has_open and self.opens_here(ctx):
            yield self
        for child in chain.from_iterable(self.branches()):
            if child.has_setup and is_enabled(child, ctx):
                yield from child.passes_to_open(ctx)

    @property
    def all_names(self) -> tuple[str, ...]:
        """The names by which a context and instruments select the pass.

        These are the name with which it was defined, and the registered name if it is another one.
        """
        # A subclass of a registered class is another pass.
        own, of_class = vars(self), vars(type(self))
        registered = own.get("registered_name") or of_class.get("registered_name")
        declared = own.get("declared_name") or of_class.get("declared_name") or self.info.name
        return (declared,) if registered in (None, declared) else (declared, registered)

    def children(self) -> Sequence["Pass[ModT]"]:
        """Return the passes inside the pass in its text; none unless it is a combinator.

        The text of a registered pipeline, such as `onnx.Default`, is its name.
        """
        return ()

    def branches(self) -> Sequence[Sequence["Pass[ModT]"]]:
        """Return the lists of contained passes; none unless it is a combinator.

        A run of the pass runs the passes of one list, in order.
        """
        return ()

    def is_limited(self) -> bool:
        """Return whether something applies to this pass alone.

        This is a timeout, an error policy, an analysis or a property.
        """
        has_policy = isinstance(self, BodyOptions) and (self.timeout is not None or self.on_error != "raise")
        return has_policy or bool(self.analyses) or self.contract.is_checked

    def merged_with(self, following: Sequence["Pass[ModT]"]) -> "Pass[ModT] | None":
        """Return one pass in place of this and the `following` ones, or None.

        A Sequential asks the first of consecutive passes that have `merges`, if no instrument and no store is in force
        and none of them `is_limited`.
        If the merged pass fails, the Sequential runs the passes one by one, so that the error names the one that fails.
        """
        return None

    def runs_as_whole(self) -> bool:
        """Return whether a deadline applies to the whole pass rather than to its parts."""
        return not any(self.branches())

    def cache_key(self, ctx: PassContext) -> str | None:
        """Return the cache key without the input; None if not cached as a whole."""
        return self.own_cache_key(ctx) if self.caching.cacheable else None

    def own_cache_key(self, ctx: PassContext) -> str | None:
        """Return a text made of name, definition, version, options, code and config.

        Return None, with a StoreWarning, if something that the pass depends on has no fingerprint.
        """
        name, options = self.spec or (self.info.name, self._options())
        definition = f"{self.__module__}.{getattr(self, '__qualname__', type(self).__qualname__)}"
        state = (options, self._code(), self.analyses, self._checks())
        return key_of(f"{name} of {definition}", self.caching.version, state, ctx, self.caching.config_keys)

    def key_parts(self, ctx: PassContext) -> Mapping[str, str]:
        """Return the parts of the cache key as short texts by name, for explanations.

        A pass that contains others has none, as its key consists of theirs.
        """
        if any(self.branches()):
            return {}
        name, options = self.spec or (self.info.name, self._options())
        listed = cast("Mapping[object, object]", options) if isinstance(options, Mapping) else {"options": options}
        keys = self.caching.config_keys
        config = dict(ctx.config) if keys is None else {str(key): ctx.config[key] for key in keys}
        return {
            "version of apass": own_version(),
            "name": name,
            "definition": f"{self.__module__}.{getattr(self, '__qualname__', type(self).__qualname__)}",
            "version": self.caching.version,
            **{f"option {key}": short_text(value) for key, value in listed.items()},
            "code": fingerprint_value(self._code()),
            "analyses": fingerprint_value(self.analyses),
            "contract": fingerprint_value(self._checks()),
            "opt_level": str(ctx.opt_level),
            **{f"config {key}": short_text(value) for key, value in config.items()},
        }

    def __fingerprint__(self) -> object:
        """Return what results depend on, for a pass that another pass uses."""
        options = self.spec or (self.info.name, self._options())
        return options, self.caching.version, self._code(), self.analyses, self._checks(), self.children()

    def _options(self) -> object:
        """Return what distinguishes passes of one class without a `spec`: the attributes."""
        return object.__getstate__(self)

    def _code(self) -> object:
        """Return the code of the pass, as a value that has a fingerprint."""
        return type(self), _class_code(type(self))

    def _checks(self) -> tuple[list[Property], list[Property]]:
        """Return the properties that the pass requires and ensures."""
        if self.is_bare:
            return [], []
        # A stored result has passed these checks; they are part of its key.
        contract = self.contract
        return [find_property(item) for item in contract.requires], [find_property(item) for item in contract.ensures]

    def text(self) -> str:
        """Return the pass as an element of a pipeline's text.

        The form is `Name{option=value}(children)`.

        Raises:
            TypeError: if an option is unknown, or its value cannot be written as text.

        """
        name, options = self.spec or (self.info.name, options_of_constructor(self))
        values = ",".join(f"{key}={value_text(value)}" for key, value in options.items())
        inner = ",".join(child.text() for child in self.children())
        return name + (f"{{{values}}}" if values else "") + (f"({inner})" if inner else "")

    def __str__(self) -> str:
        """Return the text from which `parse_pipeline` restores the pass."""
        return self.text()

    def __repr__(self) -> str:
        options: Mapping[str, object] = {} if self.spec is None else self.spec[1]
        if self.spec is None:
            with suppress(TypeError):
                options = options_of_constructor(self)
        others = {key: value for key, value in options.items() if key not in ("name", "opt_level", "required")}
        shown = "".join(f" {key}={shortened(value)}" for key, value in others.items())
        return f"<{type(self).__name__} {self.info.name} opt_level={self.info.opt_level}{shown}>"

    def __block__(self) -> object:
        # The blocks take long to import, and most programs show no pass.
        from apass.passes.tree import pass_tree

        return pass_tree(self, combines=False)

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same `spec`, info and children, or are one object."""
        if self is other:
            return True
        if not isinstance(other, Pass) or self.spec is None:
            return False
        return (self.spec, self.info, self.children()) == (other.spec, other.info, other.children())

    def __hash__(self) -> int:
        return id(self) if self.spec is None else hash(self.spec[0])


def _missing(pass_: object, name: str) -> NoReturn:
    """Raise AttributeError, with the place of what is declared."""
    hint = f"; it is in `{GROUP_OF[name]}`: pass_.{GROUP_OF[name]}.{name}" if name in GROUP_OF else ""
    raise AttributeError(f"{type(pass_).__name__!r} object has no attribute {name!r}{hint}")


# Not in the class, where type checkers would accept any attribute because of it. `TYPE_CHECKING` would hide it from
# them, but hides imports from the test of layers as well.
cast("Any", Pass).__getattr__ = _missing

never_modules(Pass, "a pass")


def is_enabled(pass_: Pass[Any], ctx: PassContext) -> bool:
    """Return whether a Sequential runs a pass, by its level and names."""
    return is_selected(pass_.info.opt_level, pass_.all_names, ctx)


def is_selected(opt_level: int, names: Collection[str], ctx: PassContext) -> bool:
    """Return whether a Sequential runs a pass of a level with these names."""
    in_level = opt_level <= ctx.opt_level or not ctx.required_pass.isdisjoint(names)
    return in_level and ctx.disabled_pass.isdisjoint(names)


_NOT_OPTIONS: Final = frozenset(Pass.__annotations__) | GROUP_OF.keys() | {"kind"}
"""Attributes of passes. An annotation does not make an option of them."""


@dataclass_transform(eq_default=False, field_specifiers=(field, Field))
class ModulePass(BodyOptions, Pass[ModT]):
    """A pass over the whole module, which may add and remove functions.

    Create one with `module_pass`, or derive a class. The class statement takes the keywords of `module_pass`, and
    `register=True`. Its annotated attributes are the options of the pass, as in a dataclass. Source: TVM's
    `ModulePass`.

    >>> import anyio
    >>> class Prefix(ModulePass[dict[str, str]], opt_level=1):
    ...     prefix: str = "my_"
    ...     async def transform_module(self, mod, ctx):
    ...         return {self.prefix + name: func for name, func in mod.items()}
    >>> anyio.run(Prefix("our_"), {"f": "x"})
    {'our_f': 'x'}

    """

    @abstractmethod
    def transform_module(self, mod: ModT, ctx: PassContext) -> ModT | Awaitable[ModT]:
        """Return the new module, or `mod` itself if nothing changed. May be `async def`."""

    @property
    def pass_func(self) -> Callable[[ModT, PassContext], ModT | Awaitable[ModT]]:
        """The function of the pass, or its `transform_module`, under TVM's name."""
        return self.transform_module

    def transform(self, mod: ModT, ctx: PassContext) -> ModT | Awaitable[ModT]:
        """Call `transform_module`, after computing the results of `analyses`."""
        if self.timeout is None and self.on_error == "raise" and self.executor is None:
            result: ModT | Awaitable[ModT] = self.body()(mod, ctx)
            return result
        executor = None if self.executor is None else executor_in_force(self.executor)
        if executor is None:
            work, timeout = self.body(), self.timeout
        else:
            # The executor itself limits the time of a body, because time in its queue must not count.
            work, timeout = partial(executor.transform, self), None
        deadline = current_scope().deadline
        if timeout is not None or self.on_error != "raise":
            work = with_limits(work, self.info.name, timeout, deadline)
        if self.on_error != "raise":
            work = with_error_policy(work, self.info, self.on_error, deadline)
        guarded: Awaitable[ModT] = work(mod, ctx)
        return guarded

    def opens_here(self, ctx: PassContext) -> bool:
        """Return whether the body can use what this event loop opens."""
        executor = None if self.executor is None else executor_in_force(self.executor)
        # An async body gets an event loop of its own in any executor.
        return executor is None or not (is_async(self.transform_module) or opens_passes(executor))

    def body(self) -> Callable[[ModT, PassContext], Any]:
        """Return `transform_module`, which gets the results of `analyses`; for executors."""
        return with_analyses(self.transform_module, self.analyses) if self.analyses else self.transform_module


_CLASS_CODE: Final[WeakKeyDictionary[type, str]] = WeakKeyDictionary()
"""The fingerprints of the code of classes."""


def _class_code(kind: type[Any]) -> str:
    """Return a fingerprint of the functions of a class and its bases.

    Those of apass are left out. `fingerprint_value` identifies a class that can be imported by its name.
    """
    code = _CLASS_CODE.get(kind)
    if code is None:
        bases = [base for base in kind.__mro__ if base.__module__.partition(".")[0] not in ("apass", "builtins")]
        functions = [function for base in bases for member in vars(base).values() for function in _functions_of(member)]
        code = _CLASS_CODE[kind] = fingerprint_value(
            [(function.__code__, function.__defaults__, function.__kwdefaults__) for function in functions]
        )
    return code


def _functions_of(member: object) -> Iterator[FunctionType]:
    """Iterate over the functions of a member of a class."""
    parts = (member.fget, member.fset) if isinstance(member, property) else (getattr(member, "__func__", member),)
    # Without the wrapper that checks contracts.
    yield from (unwrap(part) for part in parts if isinstance(part, FunctionType))


def _call_error(pass_: Pass[Any]) -> Exception:
    """Return the error for a pass without `info`, or one that was called with None."""
    name = type(pass_).__name__
    if not isinstance(getattr(pass_, "info", None), PassInfo):
        return PassDefinitionError(f"{name} has no `info`; set it to PassInfo(opt_level=..., name={name!r})")
    return TypeError(f"pass {pass_.info.name!r} was called with None, not a module; check the code that made it")


def not_a_pass(expected: str, value: object) -> TypeError:
    """Return the error for a value in place of a pass or of passes.

    Parameters:
        expected: the start of the message: the caller, and what it takes.
        value: what the caller received.

    """
    if isinstance(value, type):
        kind = "a class of passes" if issubclass(value, Pass) else "a class"
        return TypeError(f"{expected}, but {value.__name__} is {kind}; write {value.__name__}()")
    return TypeError(f"{expected}, got {shorten(repr(value))}{_hint(value)}")


def _hint(value: object) -> str:
    """Return how to get passes from a value, or nothing."""
    if isinstance(value, Pass):
        return "; put it into a list"
    if isinstance(value, str):
        return "; create passes from text with apass.get_pass or apass.parse_pipeline"
    if isinstance(value, list | tuple):
        return "; for several passes, write apass.Sequential([...])"
    # By its name: only the adapter of TVM imports it.
    if any((base.__module__, base.__name__) == ("tvm.ir.transform", "Pass") for base in type(value).__mro__):
        return "; it is a pass of TVM, write apass.from_tvm(pass_)"
    return "; create a pass from it with module_pass or function_pass" if callable(value) else ""
