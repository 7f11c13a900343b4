"""`apass stress`: a data race of two bodies, found from a clean start."""

import shlex
from pathlib import Path

import pytest

from tests.helpers.command_line import run_in as run

pytestmark = [pytest.mark.process, pytest.mark.slow]

PASSES = """
import apass
from anyio.lowlevel import checkpoint

@apass.register_pass("my.Fold")
@apass.module_pass(opt_level=1)
async def Fold(mod, ctx):
    "Folds in the functions that call add, and counts them in a shared cell."
    cell = [0]

    @apass.function_pass(opt_level=1)
    async def Count(func, mod, ctx):
        if len(func.params) != 2:
            await checkpoint()
            return func
        before = cell[0]
        await checkpoint()
        cell[0] = before + 1
        return func

    await Count(mod)
    if cell[0] != 2:
        raise ValueError(f"counted {cell[0]} of 2 functions")
    return mod
"""
PROGRAM = '#[version = "0.0.5"]\n' + "".join(
    f"def @{name}({', '.join(f'%x{index}: float32' for index in range(count))}) -> float32 {{\n  %x0\n}}\n"
    for name, count in {"main": 1, "left": 2, "middle": 3, "right": 2, "last": 1}.items()
)


def test_race_of_two_bodies_is_found_and_repeated(backend: str, tmp_path: Path) -> None:
    (tmp_path / "passes.py").write_text(PASSES)
    (tmp_path / "model.relay").write_text(PROGRAM)
    load, pipeline = ("--load", "passes.py"), ("-p", "my.Fold", "--backend", backend)
    status, output, errors = run(tmp_path, *load, "stress", "model.relay", *pipeline)
    assert (status, errors) == (1, ""), output
    lines = output.splitlines()
    expected = (
        "pass my.Fold at model.relay: 0:sequential/0:my.Fold depends on the order of the bodies of left and right"
    )
    assert lines[0].partition(": ")[2] == expected
    assert lines[2:4] == ["-no failure", "+ValueError: counted 1 of 2 functions"]
    command = shlex.split(lines[-1].removeprefix("to repeat it: "))
    assert command[-2] == "--schedule"
    for _ in range(2):
        status, output, _ = run(tmp_path, *command[1:], "-o", "out.relay", "--reproducer", "failed")
        assert (status, "ValueError: counted 1 of 2 functions" in output) == (1, True), output
    folder = min((tmp_path / "failed" / "model.relay").iterdir())
    status, output, errors = run(tmp_path, *load, "replay", str(folder))
    assert (status, "fails the same way" in output) == (1, True), output + errors
    status, output, errors = run(tmp_path, *load, "stress", "model.relay", "-p", "InferType", "--seeds", "5")
    assert (status, output) == (0, "the results of 5 interleavings are equal\n"), errors
    status, _, errors = run(tmp_path, *load, "opt", "model.relay", "--schedule", "x")
    assert (status, errors) == (2, "apass: --schedule must be SEED or SEED:FUNCTION,FUNCTION, got 'x'\n")


RANDOM = """
import apass, random

@apass.register_pass("my.Shuffle")
@apass.module_pass(opt_level=1)
def Shuffle(mod, ctx):
    return {**mod, "f": random.random()}
"""


def test_random_pass_is_reported_without_a_schedule(tmp_path: Path) -> None:
    (tmp_path / "passes.py").write_text(RANDOM)
    (tmp_path / "model.json").write_text('{"f": 0.5}')
    status, output, errors = run(tmp_path, "--load", "passes.py", "stress", "model.json", "-p", "my.Shuffle")
    assert (status, errors, "to repeat it" in output) == (1, "", False), output
    expected = "pass my.Shuffle at model.json: 0:sequential/0:my.Shuffle is not deterministic: "
    assert output.startswith(expected)
