"""Calling to the end: order, errors, shielding, the seconds of grace, and groups that stay flat."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from apass import PassTimeoutError
from apass.concurrency.shielding import call_to_the_end, combine
from tests.helpers.idle_clock import idle_clock

pytestmark = pytest.mark.anyio


def plain(log: list[str], name: str, fails: bool = False) -> Callable[[], Any]:
    def call() -> str:
        log.append(name)
        if fails:
            raise ValueError(name)
        return "what a call gives back does not matter"

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


KINDS = pytest.mark.parametrize("kind", [plain, suspending])


@KINDS
async def test_calls_are_made_in_order_and_each_error_is_returned(kind: Callable[..., Callable[[], Any]]) -> None:
    log: list[str] = []
    calls = [(name, kind(log, name, name in "bd")) for name in "abcd"]
    errors = await call_to_the_end(calls, grace=1, cancelled=False)
    assert (log, [str(error) for error in errors]) == (["a", "b", "c", "d"], ["b", "d"])


@KINDS
async def test_the_calls_after_an_error_are_left_out_where_asked(kind: Callable[..., Callable[[], Any]]) -> None:
    log: list[str] = []
    calls = [(name, kind(log, name, name in "bd")) for name in "abcd"]
    errors = await call_to_the_end(calls, grace=1, cancelled=False, stop_at_error=True)
    assert (log, [str(error) for error in errors]) == (["a", "b"], ["b"])


async def test_plain_and_suspending_calls_mix() -> None:
    log: list[str] = []
    kinds = [plain, suspending, plain, suspending]
    errors = await call_to_the_end(
        [(str(n), kind(log, str(n), True)) for n, kind in enumerate(kinds)], grace=1, cancelled=False
    )
    assert (log, [str(error) for error in errors]) == (["0", "1", "2", "3"],) * 2


async def test_a_cancellation_interrupts_no_call_and_goes_on_afterwards() -> None:
    log: list[str] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        await call_to_the_end([(name, suspending(log, name)) for name in "abc"], grace=60, cancelled=False)
        await checkpoint()
        log.append("not reached")
    assert (log, scope.cancelled_caught) == (["a", "b", "c"], True)


async def test_what_was_raised_takes_precedence_over_a_cancellation() -> None:
    log: list[str] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        errors = await call_to_the_end([(n, suspending(log, n, n == "a")) for n in "ab"], grace=60, cancelled=False)
        assert [str(error) for error in errors] == ["a"]
    assert log == ["a", "b"]


@idle_clock
@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_a_call_over_the_grace_after_a_cancellation_is_reported_by_name(when: str) -> None:
    log: list[str] = []
    calls = [("first", suspending(log, "a")), ("second", hanging(log, "b")), ("third", suspending(log, "c"))]
    with anyio.CancelScope() as scope:
        scope.cancel()
        errors = await call_to_the_end(calls, grace=0.2, cancelled=when == "before")
        assert [(type(error), str(error)) for error in errors] == [
            (PassTimeoutError, "second did not end within 0.2 s of a cancellation")
        ]
    assert log == ["a", "b"]


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_call_that_hides_that_it_was_over_the_grace_is_reported_all_the_same(cancelled: bool) -> None:
    async def hide() -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.05)

    with anyio.CancelScope() as scope:
        scope.cancel()
        errors = await call_to_the_end([("it", hide)], grace=0.01, cancelled=cancelled)
        assert [str(error) for error in errors] == ["it did not end within 0.01 s of a cancellation"]


async def test_without_a_cancellation_a_call_has_all_the_time_it_needs() -> None:
    log: list[str] = []

    async def slow() -> None:
        await anyio.sleep(0.03)
        log.append("done")

    assert await call_to_the_end([("slow", slow)], grace=0.001, cancelled=False) == []
    assert log == ["done"]


# Combining.


def test_one_error_stays_itself() -> None:
    error, group = ValueError(1), ExceptionGroup("own", [ValueError(1), KeyError(2)])
    assert (combine("several", [error]) is error, combine("several", [group]) is group) == (True, True)


def test_several_errors_become_one_flat_group_of_the_leaves() -> None:
    a, b, c, d = (ValueError(n) for n in range(4))
    group = combine("several", [a, ExceptionGroup("x", [b, ExceptionGroup("y", [c])]), d])
    assert isinstance(group, ExceptionGroup)
    assert (group.args[0], tuple(group.args[1])) == ("several", (a, b, c, d))


def test_the_notes_of_a_group_that_is_taken_apart_stay_with_its_leaves() -> None:
    inner = ExceptionGroup("x", [ValueError(1)])
    inner.add_note("where it was")
    combine("several", [KeyError(0), inner])
    assert inner.exceptions[0].__notes__ == ["where it was"]


def test_the_same_error_twice_is_one() -> None:
    error = ValueError(1)
    assert combine("several", [error, error]) is error


def test_a_group_with_what_is_no_exception_is_a_base_group() -> None:
    group = combine("several", [ValueError(1), KeyboardInterrupt()])
    assert type(group) is BaseExceptionGroup


class StopError(BaseException):
    """No Exception."""


@KINDS
async def test_what_is_no_exception_does_not_keep_the_others_from_being_made(
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
    assert await call_to_the_end(calls, grace=1, cancelled=False) == [stop]
    assert log == ["a", "b"]
