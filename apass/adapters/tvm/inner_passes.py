"""A pass of TVM as a whole, with hooks around the passes that it runs inside."""

import threading
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from time import perf_counter
from typing import Any, Final

import anyio
from anyio import from_thread, to_thread

from apass.adapters.tvm.adapter import ADAPTER
from apass.adapters.tvm.ambient import captured
from apass.adapters.tvm.execution import call, exclusively, mirrored, released, slot
from apass.adapters.tvm.library import IRModule, tvm
from apass.concurrency.limits import NO_LIMIT
from apass.core.context import PassContext, expect_pass_names, waiting_for
from apass.core.pass_info import PassInfo
from apass.errors import AdapterError
from apass.passes.base import ModulePass, Pass
from apass.runner.changes import without_changes

__all__ = ["Call", "current_call", "run_whole_pass"]


async def run_whole_pass(target: Any, mod: IRModule, ctx: PassContext, *, exclusive: bool) -> IRModule:
    """Return the result of a pass of TVM; `mod` if it is equal.

    The pass runs in a worker thread, unless the module is small and the pass not exclusive.

    The hooks of the instruments are called around each pass that TVM runs inside, such as those of a Sequential in C++.
    Each of these is a pass of its own for the runner. A cancelled call waits for the pass that runs, and starts no
    other.

    Parameters:
        target: the pass, a `tvm.transform.Pass`.
        mod: the module.
        ctx: the context that TVM's own context is made from.
        exclusive: whether no other exclusive pass may run at the same time, in any thread.

    Raises:
        AdapterError: for any error of TVM.
        Exception: an error of a hook.

    """
    # TVM itself selects the passes inside of the pass.
    expect_pass_names(ctx.disabled_pass | ctx.required_pass)
    with captured(str(target.info.name), ctx):
        # An exclusive pass may call Python code that blocks, and may have to wait for another thread.
        if not exclusive and ADAPTER.is_small(mod) and (result := _run_here(target, mod, ctx)) is not None:
            return result
        async with slot(exclusive):
            return await Call(target, mod, ctx, exclusive=exclusive).run()


def _run_here(target: Any, mod: IRModule, ctx: PassContext) -> IRModule | None:
    """Return the result of a pass that runs in this thread.

    Return None if instruments are to see passes inside of it: their hooks may await.
    """
    started: list[str] = []
    try:
        with mirrored(ctx, [_LISTER(started)] if ctx.instruments else []):
            result = call(target, mod)
    except AdapterError:
        if len(started) > 1:
            return None
        raise
    if len(started) > 1:
        return None
    return mod if ADAPTER.equal(result, mod) else result


def current_call() -> "Call | None":
    """Return the call that this thread works for; None in another thread."""
    return _CALL.get()


@dataclass(frozen=True, slots=True)
class _Started:
    """TVM asks whether an inner pass shall run; the reply is a bool."""

    mod: IRModule
    info: PassInfo
    depth: int
    """How many inner passes have started and not ended."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """TVM has run an inner pass."""

    mod: IRModule
    depth: int
    """The `depth` of its start."""


@dataclass(frozen=True, slots=True)
class _Nested:
    """TVM runs a pass of apass; the reply is its result."""

    pass_: Pass[IRModule]
    mod: IRModule


@dataclass(frozen=True, slots=True)
class _Returned:
    """The call in the thread has ended."""

    result: IRModule | None
    error: Exception | None


class _CallEndedError(AdapterError):
    """The reply of a call that has ended, such as that of a failed hook."""


class _InnerFailedError(AdapterError):
    """An inner pass failed, and the pass that called it went on.

    Parameters:
        name: the name of the inner pass.
        message: the next message of the thread.

    """

    def __init__(self, name: str, message: object) -> None:
        super().__init__(f"pass {name!r} failed inside of another pass of TVM, which handled the error")
        self.message = message


class Call:
    """A call of a pass in a thread, which reports the passes inside it.

    If there are instruments, the thread sends a message before and after each inner pass, and waits for the reply. The
    event loop runs an `_InnerPass` for each of them. The body of an inner pass answers the messages about the passes
    inside of it, so passes are nested in the runner as they are in the thread.
    """

    def __init__(self, target: Any, mod: IRModule, ctx: PassContext, *, exclusive: bool) -> None:
        self._target = target
        self._mod = mod
        self._ctx = ctx
        self._exclusive = exclusive
        self._has_ended = False
        """Whether the call was cancelled, or a hook failed: the thread then starts no other pass."""
        self._accepted: set[int] = set()
        """The depths of the inner passes whose bodies were reached: all instruments agreed."""
        self._send, self._receive = anyio.create_memory_object_stream[Any](1)
        self._reply, self._replied = anyio.create_memory_object_stream[Any](1)

    async def run(self) -> IRModule:
        """Run the pass, and return its result."""
        failure: Exception | None = None
        result: IRModule = None
        # What changed the module is this pass, with and without instruments that see the inner ones.
        with without_changes():
            async with anyio.create_task_group() as threads:
                threads.start_soon(self._run_thread)
                try:
                    result = await self.answer(None, 0)
                except Exception as error:
                    # Raised below: a task group would wrap it.
                    failure = error
                finally:
                    # The next message of the thread fails, and ends the call.
                    self._has_ended = True
                    for stream in (self._send, self._receive, self._reply, self._replied):
                        stream.close()
        if failure is not None:
            raise failure
        return result

    def check_running(self) -> None:
        """Raise an error in the thread if the call has ended."""
        if self._has_ended:
            raise _CallEndedError("the call of the pass has ended")

    def report(self, message: _Started | _Ended) -> bool:
        """Send a message about an inner pass from the thread, and return the reply."""
        reply: bool = self._ask_loop(message)
        return reply

    def run_nested(self, pass_: Pass[IRModule], mod: IRModule) -> IRModule:
        """Return the result of a pass of apass that TVM runs in the thread.

        If the pass fails, its error ends the call.
        """
        return self._ask_loop(_Nested(pass_, mod))

    async def answer(self, name: str | None, depth: int) -> IRModule:
        """Answer messages until an inner pass has ended, and return its module.

        Parameters:
            name: the name of the inner pass; None for the call itself.
            depth: how many passes have started, with the inner pass.

        """
        message: Any = await self._receive.receive()
        while True:
            if isinstance(message, _Returned):
                if message.error is not None:
                    raise message.error
                if name is not None:
                    raise _InnerFailedError(name, message)
                return message.result
            if isinstance(message, _Nested):
                # Its hooks are those of the inner pass that TVM has for it.
                run = partial(message.pass_.transform, ctx=self._ctx) if self._ctx.instruments else message.pass_
                result = run(message.mod)
                await self._reply.send(await result if isawaitable(result) else result)
                message = await self._receive.receive()
                continue
            if message.depth < depth:
                assert name is not None, "the depth of a call is 0"
                if isinstance(message, _Ended) and message.depth == depth - 1:
                    return message.mod
                raise _InnerFailedError(name, message)
            assert isinstance(message, _Started), "an inner pass ends after it has started"
            inner = _InnerPass(message.info, self, depth + 1)
            self._accepted.discard(depth + 1)
            try:
                await inner(message.mod)
            except _InnerFailedError as error:
                message = error.message
                continue
            await self._reply.send(depth + 1 in self._accepted)
            message = await self._receive.receive()

    async def accept(self, depth: int) -> None:
        """Let the thread run the inner pass that it asked about."""
        self._accepted.add(depth)
        await self._reply.send(True)

    async def _run_thread(self) -> None:
        # The thread is never abandoned: a cancellation closes the streams, and the thread ends at its next message.
        with anyio.CancelScope(shield=True):
            try:
                with waiting_for("a worker thread"):
                    returned = _Returned(await to_thread.run_sync(self._work, limiter=NO_LIMIT.here()), None)
            except Exception as error:
                returned = _Returned(None, error)
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._send.send_nowait(returned)

    def _work(self) -> IRModule:
        _CALL.set(self)
        start = perf_counter()
        try:
            with (
                exclusively(self._exclusive),
                mirrored(self._ctx, [(_OBSERVER if self._ctx.instruments else _STOPPER)(self)]),
            ):
                # A pass in Python may change its argument in place.
                result = call(self._target, self._mod.clone())
            # Most passes of TVM return a new object, also if nothing changed.
            return self._mod if ADAPTER.equal(result, self._mod) else result
        finally:
            self._ctx.report_work(f"thread {threading.get_native_id()}", start, perf_counter())

    def _ask_loop(self, message: _Started | _Ended | _Nested) -> Any:
        # Hooks, and passes of apass inside of the pass, may run exclusive passes.
        with released(self._exclusive):
            return from_thread.run(self._ask, message)

    async def _ask(self, message: _Started | _Ended | _Nested) -> Any:
        try:
            await self._send.send(message)
            return await self._replied.receive()
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream):
            raise _CallEndedError("the call of the pass has ended") from None


_CALL: ContextVar["Call | None"] = ContextVar("apass_tvm_call", default=None)
"""In a thread: the call that it works for."""


class _InnerPass(ModulePass[IRModule]):
    """A pass that TVM runs inside of another one; its body waits for its end."""

    runs_alone = False

    def __init__(self, info: PassInfo, call: Call, depth: int) -> None:
        self.info = info
        self._call = call
        self._depth = depth

    async def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Let TVM run the pass, and return its result."""
        await self._call.accept(self._depth)
        return await self._call.answer(self.info.name, self._depth)


class _Observer:
    """The hooks for TVM that send the messages of a `Call`."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._started: list[str] = []
        """The names of the passes that run, with that of the call itself."""
        self._is_accepted = False

    def should_run(self, mod: IRModule, info: Any) -> bool:
        """Ask whether the pass shall run."""
        self._is_accepted = not self._started or self._ask(mod, info)
        return self._is_accepted

    def run_before_pass(self, mod: IRModule, info: Any) -> None:
        """Record the start of the pass."""
        # TVM does not call `should_run` for the passes in `required_pass`.
        if self._started and not self._is_accepted:
            self._ask(mod, info)
        self._is_accepted = False
        self._started.append(str(info.name))

    def run_after_pass(self, mod: IRModule, info: Any) -> None:
        """Send the result of the pass."""
        # A pass that failed has no call of this hook, even if its caller handles the error.
        while self._started.pop() != info.name:
            pass
        if self._started:
            self._call.report(_Ended(mod, len(self._started) - 1))

    def _ask(self, mod: IRModule, info: Any) -> bool:
        name = str(info.name)
        return self._call.report(_Started(mod, PassInfo(int(info.opt_level), name), len(self._started) - 1))


class _Stopper:
    """The hook for TVM that starts no pass inside of a `Call` that has ended."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def run_before_pass(self, mod: IRModule, info: Any) -> None:
        """Raise an error if the call has ended."""
        self._call.check_running()


class _Lister:
    """The hook for TVM that lists the passes that start."""

    def __init__(self, started: list[str]) -> None:
        self._started = started

    def run_before_pass(self, mod: IRModule, info: Any) -> None:
        """Add the name of the pass."""
        self._started.append(str(info.name))


_OBSERVER: Final[Any] = tvm.instrument.pass_instrument(_Observer)
_STOPPER: Final[Any] = tvm.instrument.pass_instrument(_Stopper)
_LISTER: Final[Any] = tvm.instrument.pass_instrument(_Lister)
"""The classes of TVM's instruments with these hooks."""
