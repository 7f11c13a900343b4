"""Arguments of `PassContext`: checks, and warnings about unmatched pass names."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import apass
from apass import PassContext
from apass.errors import UnmatchedPassNameWarning
from apass.testing import RecordingInstrument
from tests.helpers.recording import logging_pass

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"opt_level": "3"}, TypeError, "opt_level must be an int, got '3'"),
        ({"opt_level": True}, TypeError, "opt_level must be an int, got True"),
        ({"required_pass": "P"}, TypeError, "required_pass must be a list or set of names, got the string 'P'"),
        ({"disabled_pass": [1]}, TypeError, "disabled_pass must hold names of passes, got 1"),
        ({"instruments": 7}, TypeError, "instruments must be a list of instruments, got 7"),
        (
            {"instruments": [RecordingInstrument]},
            TypeError,
            "RecordingInstrument is a class; pass an instance: RecordingInstrument(...)",
        ),
        ({"instruments": ["timing"]}, TypeError, "'timing' is not an instrument"),
        ({"config": {"no.such.Option": 1}}, apass.errors.UnknownConfigError, "unknown config option 'no.such.Option'"),
        (
            {"max_concurrency": 0},
            ValueError,
            "max_concurrency must be an int of at least 1 or None, got 0",
        ),
        ({"exit_grace": -1}, ValueError, "exit_grace must be a number of seconds, 0 or more, got -1"),
        (
            {"max_concurrency": True},
            ValueError,
            "max_concurrency must be an int of at least 1 or None, got True",
        ),
        ({"exit_grace": "1"}, ValueError, "exit_grace must be a number of seconds, 0 or more, got '1'"),
        ({"deadline": "3"}, ValueError, "deadline must be a number of seconds above 0 or None, got '3'"),
        ({"disabled_pass": 3}, TypeError, "disabled_pass must be a list or set of names, got 3"),
        ({"diag_ctx": 3}, TypeError, "diag_ctx must be a DiagnosticContext, got 3"),
        ({"exit_grace": float("nan")}, ValueError, "exit_grace must be a number of seconds, 0 or more, got nan"),
    ],
)
def test_invalid_argument_raises_at_once(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        PassContext(**arguments)
    assert message in str(caught.value)


def test_repr_shows_arguments_that_differ_from_defaults() -> None:
    ctx = PassContext(3, ["B", "A"], {"C"}, [RecordingInstrument("R", [])])
    expected = "PassContext(opt_level=3, required_pass=['A', 'B'], disabled_pass=['C'], instruments=[R])"
    assert (repr(ctx), repr(PassContext())) == (expected, "PassContext(opt_level=2)")


def test_default_limits_are_256_and_10_seconds() -> None:
    assert (PassContext().max_concurrency, PassContext().exit_grace) == (256, 10.0)


# Names that match nothing.


@pytest.fixture
def registered() -> Iterator[str]:
    apass.register_pass("Registered", lambda: logging_pass([], "Registered"))
    yield "Registered"
    apass.unregister_pass("Registered")


async def test_unmatched_pass_name_warns_with_suggestion() -> None:
    with pytest.warns(UnmatchedPassNameWarning) as caught:
        async with PassContext(disabled_pass=["SwapLoosp"], required_pass=["Skew"]):
            await apass.Sequential([logging_pass([], "SwapLoops"), logging_pass([], "Skew", 9)])({})
    message = "disabled_pass names 'SwapLoosp', but no pass of that name ran or is registered"
    assert [str(warning.message) for warning in caught] == [f"{message}; did you mean 'SwapLoops'?"]


async def test_registered_pass_name_does_not_warn(registered: str) -> None:
    async with PassContext(disabled_pass=[registered], required_pass=[registered]):
        pass


@pytest.mark.process
@pytest.mark.slow
def test_passes_of_apass_are_registered_without_import() -> None:
    pytest.importorskip("onnx_ir")
    code = (
        "import anyio, apass\n"
        "async def main():\n"
        "    async with apass.PassContext(disabled_pass=['FoldConstant'], required_pass=['onnx.Checker']): pass\n"
        "anyio.run(main)\n"
        "for name in ('IdentityElimination', 'FoldConstnat'):\n"
        "    try: apass.get_pass(name)\n"
        "    except apass.errors.UnknownPassError as error: print(error)\n"
    )
    completed = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (completed.stderr, completed.stdout.splitlines()) == (
        "",
        [
            "no pass is registered under the name 'IdentityElimination'; did you mean 'onnx.IdentityElimination'?",
            "no pass is registered under the name 'FoldConstnat'; did you mean 'FoldConstant'?",
        ],
    )


async def test_body_error_suppresses_unmatched_name_warning() -> None:
    with pytest.raises(KeyError):
        async with PassContext(disabled_pass=["NoSuchPass"]):
            raise KeyError
