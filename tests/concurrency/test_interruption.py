"""`is_interruption`."""

import signal
from collections.abc import Generator
from functools import partial
from threading import Thread
from typing import Any

import pytest

from apass.concurrency.interruption import is_interruption

Handler = Any


@pytest.fixture
def restored() -> Generator[None]:
    """Restore the handler of Ctrl-C."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt(_label: str, _number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def ignore(_number: int, _frame: object) -> None:
    """Do nothing."""


class Loop:
    def interrupt(self, _number: int, _frame: object) -> None:
        raise KeyboardInterrupt


HANDLERS: list[Handler] = [partial(interrupt, "label"), partial(Loop().interrupt), signal.default_int_handler]


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("handler", HANDLERS)
def test_exception_of_signal_handler_is_interruption(handler: Handler) -> None:
    signal.signal(signal.SIGINT, handler)
    with pytest.raises(KeyboardInterrupt) as caught:
        signal.raise_signal(signal.SIGINT)
    assert is_interruption(caught.value)
    assert is_interruption(BaseExceptionGroup("outer", [BaseExceptionGroup("inner", [OSError(), caught.value])]))


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("handler", [*HANDLERS[:2], signal.SIG_IGN, ignore])
def test_raised_keyboard_interrupt_is_no_interruption(handler: Handler) -> None:
    signal.signal(signal.SIGINT, handler)
    with pytest.raises(KeyboardInterrupt) as caught:
        raise KeyboardInterrupt
    assert not is_interruption(caught.value)
    assert not is_interruption(BaseExceptionGroup("group", [SystemExit(), caught.value]))


@pytest.mark.usefixtures("restored")
def test_default_handler_interrupts_main_thread_only() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    answers: list[bool] = []
    thread = Thread(target=lambda: answers.append(is_interruption(KeyboardInterrupt())))
    thread.start()
    thread.join()
    assert answers == [False]
    assert is_interruption(KeyboardInterrupt())
