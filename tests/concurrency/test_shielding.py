"""`run_shielded` and `flatten_errors`."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from apass.concurrency.shielding import flatten_errors, run_shielded
from apass.errors import PassTimeoutError

pytestmark = pytest.mark.anyio


def plain(log: list[str], name: str, fails: bool = False) -> Callable[[], Any]:
    def call() -> str:
        log.append(name)
        if fails:
            raise ValueError(name)
        return "an ignored result"

    return call


def suspending(log: list[str], name: str, fails: bool = False) -> Callable[[], Any]:
    async def call() -> None:
        for _ in range(3):
            await checkpoint()
        plain(log, name, fails)()

    return call


def hanging(log: list[str], name: str) -> Callable[[], Any]:
    async def call() -> None:
        log.append(name)
        await anyio.sleep_forever()

    return call


async def caught_cancellation() -> BaseException:
    """Return a cancellation, as the block of an `async with` receives it."""
    caught: list[BaseException] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await checkpoint()
        except anyio.get_cancelled_exc_class() as error:
            caught.append(error)
            raise
    return caught[0]


KINDS = pytest.mark.parametrize("kind", [plain, suspending])


@KINDS
async def test_calls_run_in_order_and_return_errors(kind: Callable[..., Callable[[], Any]]) -> None:
    log: list[str] = []
    calls = [(name, kind(log, name, name in "bd")) for name in "abcd"]
    errors = await run_shielded(calls, grace=1)
    assert (log, [str(error) for error in errors]) == (["a", "b", "c", "d"], ["b", "d"])


@KINDS
async def test_stop_at_error_skips_the_remaining_calls(kind: Callable[..., Callable[[], Any]]) -> None:
    log: list[str] = []
    calls = [(name, kind(log, name, name in "bd")) for name in "abcd"]
    errors = await run_shielded(calls, grace=1, stop_at_error=True)
    assert (log, [str(error) for error in errors]) == (["a", "b"], ["b"])


async def test_plain_and_suspending_calls_can_alternate() -> None:
    log: list[str] = []
    kinds = [plain, suspending, plain, suspending]
    errors = await run_shielded([(str(n), kind(log, str(n), True)) for n, kind in enumerate(kinds)], grace=1)
    assert (log, [str(error) for error in errors]) == (["0", "1", "2", "3"],) * 2


async def test_cancellation_is_raised_after_the_calls() -> None:
    log: list[str] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        await run_shielded([(name, suspending(log, name)) for name in "abc"], grace=60)
        await checkpoint()
        log.append("not reached")
    assert (log, scope.cancelled_caught) == (["a", "b", "c"], True)


async def test_errors_are_returned_despite_a_cancellation() -> None:
    log: list[str] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        errors = await run_shielded([(n, suspending(log, n, n == "a")) for n in "ab"], grace=60)
        assert [str(error) for error in errors] == ["a"]
    assert log == ["a", "b"]


@pytest.mark.usefixtures("idle_clock")
@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_call_that_exceeds_the_grace_is_named(when: str) -> None:
    log: list[str] = []
    calls = [("first", suspending(log, "a")), ("second", hanging(log, "b")), ("third", suspending(log, "c"))]
    error = await caught_cancellation() if when == "before" else None
    with anyio.CancelScope() as scope:
        scope.cancel()
        errors = await run_shielded(calls, grace=0.2, error=error)
        assert [(type(error), str(error)) for error in errors] == [
            (PassTimeoutError, "second did not end within 0.2 s of a cancellation")
        ]
    assert log == ["a", "b"]


@pytest.mark.usefixtures("idle_clock")
@pytest.mark.parametrize("cancelled", [True, False])
async def test_shielded_call_that_exceeds_the_grace_is_reported(cancelled: bool) -> None:
    async def hide() -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.05)

    error = await caught_cancellation() if cancelled else None
    with anyio.CancelScope() as scope:
        scope.cancel()
        errors = await run_shielded([("it", hide)], grace=0.01, error=error)
        assert [str(error) for error in errors] == ["it did not end within 0.01 s of a cancellation"]


@pytest.mark.usefixtures("idle_clock")
async def test_grace_does_not_apply_without_a_cancellation() -> None:
    log: list[str] = []

    async def slow() -> None:
        await anyio.sleep(0.03)
        log.append("done")

    assert await run_shielded([("slow", slow)], grace=0.001) == []
    assert log == ["done"]


# flatten_errors.


def test_single_error_is_returned_unchanged() -> None:
    error, group = ValueError(1), ExceptionGroup("single", [ValueError(1), KeyError(2)])
    assert (flatten_errors("several", [error]) is error, flatten_errors("several", [group]) is group) == (True, True)


def test_several_errors_become_one_flat_group() -> None:
    a, b, c, d = (ValueError(n) for n in range(4))
    group = flatten_errors("several", [a, ExceptionGroup("x", [b, ExceptionGroup("y", [c])]), d])
    assert isinstance(group, ExceptionGroup)
    assert (group.args[0], tuple(group.args[1])) == ("several", (a, b, c, d))


def test_notes_of_a_group_move_to_its_leaves() -> None:
    inner = ExceptionGroup("x", [ValueError(1)])
    inner.add_note("in module 'm'")
    flatten_errors("several", [KeyError(0), inner])
    assert inner.exceptions[0].__notes__ == ["in module 'm'"]


def test_repeated_error_is_returned_once() -> None:
    error = ValueError(1)
    assert flatten_errors("several", [error, error]) is error


def test_base_exception_makes_a_base_group() -> None:
    group = flatten_errors("several", [ValueError(1), KeyboardInterrupt()])
    assert type(group) is BaseExceptionGroup


class StopError(BaseException):
    """A BaseException that is not an Exception."""


@KINDS
async def test_base_exception_does_not_stop_the_other_calls(
    kind: Callable[..., Callable[[], Any]],
) -> None:
    log: list[str] = []
    stop = StopError()

    def raise_now() -> None:
        raise stop

    async def raise_later() -> None:
        await checkpoint()
        raise stop

    calls = [("stop", raise_now if kind is plain else raise_later), ("a", kind(log, "a")), ("b", plain(log, "b"))]
    assert await run_shielded(calls, grace=1) == [stop]
    assert log == ["a", "b"]


async def test_call_that_raises_cancellation_skips_nothing() -> None:
    log: list[str] = []
    error = await caught_cancellation()

    async def raise_it() -> None:
        await checkpoint()
        raise error

    assert await run_shielded([("a", raise_it), ("b", suspending(log, "b"))], grace=1) == [error]
    assert log == ["b"]


# Native cancellation.


def test_error_of_a_call_outlives_native_cancellation() -> None:
    async def main() -> list[str]:
        log: list[str] = []
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        errors = await run_shielded([(name, suspending(log, name, name == "a")) for name in "ab"], grace=60)
        # The cancellation is not lost: it is raised at the next suspension.
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(60)
        return [*log, *map(str, errors), str(task.cancelling())]

    assert asyncio.run(main()) == ["a", "b", "a", "1"]


def test_cancellation_is_not_repeated_after_its_timeout() -> None:
    async def main() -> list[BaseException]:
        log: list[str] = []
        timeout = asyncio.timeout(None)
        async with timeout:
            timeout.reschedule(0)
            errors = await run_shielded([("a", suspending(log, "a", fails=True))], grace=60)
        await asyncio.sleep(0.001)
        return errors

    assert [str(error) for error in asyncio.run(main())] == ["a"]


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_grace_applies_after_native_cancellation(when: str) -> None:
    async def main() -> list[str]:
        task = asyncio.current_task()
        assert task is not None
        error = None
        if when == "before":
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await asyncio.sleep(0)
            error = caught.value
        else:
            asyncio.get_running_loop().call_soon(task.cancel)
        return [str(late) for late in await run_shielded([("it", hanging([], "a"))], grace=0.001, error=error)]

    assert asyncio.run(main()) == ["it did not end within 0.001 s of a cancellation"]
