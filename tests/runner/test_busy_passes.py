"""`BusyPasses`: passes that never suspend fail at the line that runs."""

import re
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from apass import PassContext, Sequential, function_pass, module_pass
from apass.core.context import limited_to
from apass.core.deadline import TimeLimit
from apass.core.places import place_of_error
from apass.errors import PassCancelledError, PassTimeoutError
from apass.runner.busy_passes import BusyPasses, running_code

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no timer signals"),
]

Module = dict[str, int]


@pytest.fixture(autouse=True)
def _free_alarm() -> Iterator[None]:
    """Free the signal, which limits the time of a test."""
    handler, timer = signal.signal(signal.SIGALRM, signal.SIG_DFL), signal.setitimer(signal.ITIMER_REAL, 0)
    yield
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, *timer)


@function_pass(opt_level=0)
def Busy(func: int, mod: Module, ctx: PassContext) -> int:
    while func == 0:
        pass
    return func


def is_default() -> bool:
    return signal.getsignal(signal.SIGALRM) is signal.SIG_DFL and signal.getitimer(signal.ITIMER_REAL) == (0, 0)


async def test_busy_body_fails_at_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, left = TimeLimit(0.05, ends=1000.0), 30.0
    monkeypatch.setattr("apass.core.deadline.monotonic", lambda: limit.ends - left)

    @function_pass(opt_level=0)
    def Late(func: int, mod: Module, ctx: PassContext) -> int:
        nonlocal left
        # The time passes in the second body, however long the machine has stalled before.
        left = 0.0 if func == 0 else left
        while func == 0:
            pass
        return func

    with BusyPasses().watched(0.05), limited_to(limit):
        with pytest.raises(PassTimeoutError, match=r"the body of pass 'Late' took longer than .*, 0\.05 s") as caught:
            await Sequential([Late])({"f": 1, "g": 0})
        assert not is_default()
    assert caught.value.__notes__ == ["in pass 'sequential > Late', function 'g'"]
    place = place_of_error(caught.value)
    assert place is not None
    assert place.file == __file__
    assert is_default()


async def test_lost_signal_is_followed_by_another() -> None:
    def lose(_number: int, _frame: Any) -> None:
        """Do nothing instead of the first look."""
        signal.signal(signal.SIGALRM, look)

    with BusyPasses().watched(0.05), limited_to(TimeLimit.from_now(0.05)):
        look = signal.signal(signal.SIGALRM, lose)
        with pytest.raises(PassTimeoutError, match="pass 'Busy' took longer"):
            await Sequential([Busy])({"g": 0})


async def test_interrupted_busy_body_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apass.runner.busy_passes.PATIENCE", 0.01)
    busy = BusyPasses()

    @module_pass(opt_level=0)
    def Interrupt(mod: Module, ctx: PassContext) -> Module:
        busy.interrupt()
        return mod

    with busy.watched(), pytest.raises(PassCancelledError, match="the body of pass 'Busy' was interrupted by a signal"):
        await Sequential([Interrupt, Busy])({"f": 0})


async def test_pass_within_its_limit_is_unchanged() -> None:
    seen = 0

    @function_pass(opt_level=0)
    def Look(func: int, mod: Module, ctx: PassContext) -> int:
        nonlocal seen
        # The first look is at once, the next ones are long after.
        while signal.getitimer(signal.ITIMER_REAL)[0] < 1:
            seen += 1
        return func

    with BusyPasses().watched(0.01), limited_to(TimeLimit.from_now(600)):
        assert await Look({"f": 1}) == {"f": 1}
    assert seen


async def test_time_limit_names_the_waiting_line(idle_clock: None) -> None:
    @module_pass(opt_level=0)
    async def Wait(mod: Module, ctx: PassContext) -> Module:
        await anyio.sleep_forever()
        return mod

    with limited_to(TimeLimit.from_now(10)), pytest.raises(PassTimeoutError, match="pass 'Wait' took") as caught:
        await Sequential([Wait])({"f": 1})
    place = place_of_error(caught.value)
    assert place is not None
    assert place.file == __file__


async def test_late_pass_is_named_not_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = TimeLimit.from_now(600)

    @module_pass(opt_level=0)
    def Late(mod: Module, ctx: PassContext) -> Module:
        # The time passes here, however long the machine has stalled before.
        monkeypatch.setattr("apass.core.deadline.monotonic", lambda: limit.ends)
        return mod

    with limited_to(limit):
        with pytest.raises(PassTimeoutError, match="pass 'Late' took longer"):
            await Sequential([Late, Busy])({"f": 1})
        with pytest.raises(PassTimeoutError, match="pass 'Late' did not begin"):
            await Late({"f": 1})


async def test_other_threads_and_handlers_are_left_alone() -> None:
    def watch() -> None:
        with BusyPasses().watched(1):
            assert is_default()

    thread = threading.Thread(target=watch)
    thread.start()
    thread.join()

    def own(_number: int, _frame: Any) -> None:
        pass

    signal.signal(signal.SIGALRM, own)
    try:
        with BusyPasses().watched(1):
            assert signal.getsignal(signal.SIGALRM) is own
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


async def test_running_code_names_pass_and_line() -> None:
    found: list[str] = []

    @function_pass(opt_level=0, name="Shown")
    def show(func: int, mod: Module, ctx: PassContext) -> int:
        thread = threading.Thread(target=lambda: found.extend(running_code()))
        thread.start()
        thread.join()
        return func

    await Sequential([show])({"f": 1})
    expected = re.compile(r"in pass 'sequential > Shown', function 'f', at .*test_busy_passes\.py:\d+")
    assert any(map(expected.fullmatch, found)), found
