"""`apass.util.text`."""

import asyncio
import re

import pytest

import apass
from apass.executors.remote_errors import failure_of
from apass.instruments import ReportInstrument
from apass.instruments.report.record import RunStatus
from apass.instruments.support.outcomes import ending_text
from apass.util.text import raising_line, short_reason, text_of_error


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_error_without_text_keeps_its_type() -> None:
    text = "(no text: its __str__ raised RuntimeError)"
    assert text_of_error(MuteError()) == text
    assert ending_text(MuteError()) == f"MuteError: {text}"
    assert f"MuteError: {text}" in failure_of(MuteError()).summary


def test_error_without_message_shows_its_line() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        raise ZeroDivisionError
    line = raising_line(caught.value)
    assert re.fullmatch(r"raise ZeroDivisionError \(line \d+ of tests/util/test_text\.py\)", line)
    assert short_reason(caught.value) == f"ZeroDivisionError: {line}"
    assert (short_reason(ValueError()), raising_line(ValueError())) == ("ValueError", "")


def test_reason_is_one_line_of_limited_length() -> None:
    assert short_reason(MuteError()) == "MuteError: (no text: its __str__ raised RuntimeError)"
    assert short_reason(ValueError("a\nb")) == "ValueError: a b"
    assert short_reason(ValueError("a\nb"), "a") == "ValueError: a"
    assert short_reason(ValueError("abc"), limit=2) == "ValueError: ab..."


class Panic(BaseException):
    """An error that is no Exception."""


def test_error_that_is_no_exception_is_no_cancellation() -> None:
    assert ending_text(Panic("no")) == "Panic: no"
    assert ending_text(asyncio.CancelledError("no")) == ending_text(GeneratorExit()) == "cancelled"


@pytest.mark.anyio
async def test_report_shows_an_error_without_text() -> None:
    @apass.module_pass(opt_level=0, name="Raise")
    def raise_error(mod: dict[str, str], ctx: apass.PassContext) -> dict[str, str]:
        raise MuteError

    report = ReportInstrument()
    with pytest.raises(MuteError) as caught:
        async with apass.PassContext(instruments=[report]):
            await raise_error({"f": "x"})
    # No hook has failed because of it.
    assert [note[:7] for note in caught.value.__notes__] == ["in pass"]


@pytest.mark.anyio
async def test_report_shows_errors_of_a_group() -> None:
    @apass.module_pass(opt_level=0, name="Raise")
    def raise_error(mod: dict[str, str], ctx: apass.PassContext) -> dict[str, str]:
        raise BaseExceptionGroup("group", [Panic("no")])

    report = ReportInstrument("model")
    with pytest.raises(BaseExceptionGroup):
        async with apass.PassContext(instruments=[report]):
            await raise_error({"f": "x"})
    (run,) = report.record().runs
    assert run.status is RunStatus.FAILED
    assert run.failure is not None
    assert run.failure.notes[-1] == "error in the group: Panic: no"
