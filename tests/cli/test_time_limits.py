"""`--deadline` and `--timeout`: models whose passes take too long."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from apass import PassContext, PassInfo, current_module_name, register_pass, unregister_pass
from apass.passes.base import ModulePass
from tests.helpers.command_line import apass, write_model


class Wait(ModulePass[Any]):
    """Waits forever for models named `slow.onnx`."""

    info = PassInfo(opt_level=0, name="Wait")

    async def transform_module(self, mod: Any, ctx: PassContext) -> Any:
        if current_module_name() == "slow.onnx":
            await anyio.sleep_forever()
        return mod


@pytest.fixture(autouse=True)
def wait_pass() -> Iterator[None]:
    register_pass("tests.Wait", Wait)
    yield
    unregister_pass("tests.Wait")


def models(folder: Path) -> list[str]:
    """Write two models, and return their paths."""
    return [str(write_model(folder / f"{name}.onnx")) for name in ("fast", "slow")]


@pytest.mark.slow
def test_timeout_fails_slow_model_only(tmp_path: Path) -> None:
    options = ("-p", "tests.Wait", "--timeout", "3", "--reproducer", tmp_path / "failed")
    result = apass("opt", *models(tmp_path), *options)
    where = "failed slow.onnx: in pass 'sequential > tests.Wait', module 'slow.onnx'"
    message = "PassTimeoutError: pass 'tests.Wait' took longer than the time limit of the module, 3 s"
    assert (result.exit_code, f"{where}\n    {message}" in result.stdout) == (1, True), result.stdout
    assert re.search(r"^    at .*test_time_limits\.py:\d+$", result.stdout, re.MULTILINE)
    assert (tmp_path / "failed" / "slow.onnx" / "0_tests.Wait" / "reproducer.json").exists()
    assert [(tmp_path / f"{name}.opt.onnx").exists() for name in ("fast", "slow")] == [True, False]


def test_deadline_fails_slow_model(tmp_path: Path) -> None:
    result = apass("opt", models(tmp_path)[1], "-p", "tests.Wait", "--deadline", "0.1")
    assert (result.exit_code, "ran out of the budget of 0.1 s" in result.stdout + result.stderr) == (1, True)
    assert not (tmp_path / "slow.opt.onnx").exists()


@pytest.mark.parametrize("option", ["--timeout", "--deadline"])
@pytest.mark.parametrize("value", ["0", "-1", "nan"])
def test_invalid_limit_is_misuse(tmp_path: Path, option: str, value: str) -> None:
    result = apass("opt", *models(tmp_path), option, value)
    shown = repr(float(value))
    assert (result.exit_code, result.stderr) == (
        2,
        f"apass: {option} must be a positive number of seconds, got {shown}\n",
    )
