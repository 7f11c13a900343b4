"""The recording instrument, and the comparison of traces."""

import anyio
import pytest

import apass
from apass.testing import FUNCTION_HOOKS, PASS_HOOKS, RecordingInstrument, assert_trace, run_pass

Module = dict[str, int]


@apass.function_pass(opt_level=0)
def Double(func: int, mod: Module, ctx: apass.PassContext) -> int:
    """Double the function."""
    return 2 * func


@apass.function_pass(opt_level=0)
def Fail(func: int, mod: Module, ctx: apass.PassContext) -> int:
    """Fail."""
    raise KeyError(func)


def test_pass_hooks_are_recorded_by_default() -> None:
    recorder = RecordingInstrument()
    assert run_pass(apass.Sequential([Double], name="All"), {"f": 1}, instruments=[recorder]) == {"f": 2}
    assert_trace(
        recorder,
        """
        enter_pass_ctx
        should_run All
        run_before_pass All
        should_run Double
        run_before_pass Double
        run_after_pass Double
        run_after_pass All
        exit_pass_ctx
        """,
    )


def test_function_hooks_are_recorded_if_chosen() -> None:
    recorder = RecordingInstrument(hooks=FUNCTION_HOOKS)
    run_pass(Double, {"f": 1, "g": 2}, instruments=[recorder])
    with pytest.raises(KeyError):
        run_pass(Fail, {"f": 1}, instruments=[recorder])
    assert recorder.log == [
        *(f"{hook} Double {name}" for name in "fg" for hook in FUNCTION_HOOKS[:2]),
        "run_before_function Fail f",
        "run_after_function_failed Fail f",
    ]


def test_recorder_skips_and_fails_on_request() -> None:
    log: list[str] = []
    first = RecordingInstrument("A", log, skips=["Double"], hooks=["should_run"])
    second = RecordingInstrument("B", log, fails=["run_before_pass Fail"], hooks=PASS_HOOKS[2:])
    mod = {"f": 1}
    assert run_pass(Double, mod, instruments=[first, second]) is mod
    with pytest.raises(ValueError, match=r"^B.run_before_pass Fail"):
        run_pass(Fail, mod, instruments=[first, second])
    assert log == [
        "A.should_run Double",
        "B.should_run Double",
        "A.should_run Fail",
        "B.should_run Fail",
        "B.run_before_pass Fail",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run_befor_pass Fold", "no hook 'run_befor_pass' is recorded; did you mean 'run_before_pass'?"),
        ("run_before_pass", "the line of run_before_pass has the name of a pass after it; write the line as in `log`"),
        ("exit_pass_ctx Fold", "the line of exit_pass_ctx has no pass; write the line as in `log`"),
    ],
)
def test_unknown_line_to_fail_is_rejected(line: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the message is compared
        RecordingInstrument(fails=[line])
    assert str(caught.value) == f"fails has {line!r}, but {message}"


def test_unknown_hook_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"got \['run_befor_pass'\]$"):
        RecordingInstrument(hooks=["run_befor_pass"])


def test_cancelled_pass_is_recorded_as_failed(anyio_backend: str) -> None:
    async def main(recorder: RecordingInstrument) -> None:
        async def wait(mod: Module, ctx: apass.PassContext) -> Module:
            await anyio.sleep_forever()
            return mod

        async with apass.PassContext(instruments=[recorder]):
            with anyio.move_on_after(0):
                await apass.module_pass(wait, opt_level=0, name="Wait")({})

    recorder = RecordingInstrument(hooks=["run_before_pass", "run_after_pass_failed"])
    anyio.run(main, recorder, backend=anyio_backend)
    assert_trace(recorder, ["run_before_pass Wait", "run_after_pass_failed Wait"])


def test_wrong_trace_is_shown_as_whole_diff() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_trace([*"abcdefgh"], [*"abcdxfgh"])
    assert str(caught.value).splitlines() == [
        "the trace is not as expected",
        "--- expected",
        "+++ actual",
        "@@ -1,8 +1,8 @@",
        *(" a", " b", " c", " d", "-x", "+e", " f", " g", " h"),
    ]


def test_skips_may_be_one_name() -> None:
    assert run_pass(Double, {"f": 1}, instruments=[RecordingInstrument(skips="DoubleAll")]) == {"f": 2}
    assert run_pass(Double, {"f": 1}, instruments=[RecordingInstrument(skips="Double")]) == {"f": 1}
