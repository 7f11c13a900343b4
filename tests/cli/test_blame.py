"""`apass blame`: a pass that breaks a node is found from a clean start."""

import json
from pathlib import Path

import pytest

from tests.helpers.command_line import run_in as run
from tests.helpers.mlir_modules import CALLS, NEEDS_MLIR

pytestmark = pytest.mark.process

PASSES = """
import apass
from apass import relay

@apass.register_pass("my.Break")
@apass.function_pass(opt_level=0)
class Break(relay.ExprMutator):
    "Subtract where the function multiplies."
    def __init__(self):
        super().__init__()

    def transform_function(self, func, mod, ctx):
        return self.visit(func)

    def visit_call(self, call):
        new = super().visit_call(call)
        return relay.subtract(*new.args) if new.op is relay.op.get("multiply") else new
"""
FAIL = """
import asyncio
import apass

@apass.register_pass("my.Fail")
@apass.module_pass(opt_level=0, name="my.Fail")
def fail(mod, ctx):
    "Fail."
    raise ValueError("no")

@apass.register_pass("my.Exit")
@apass.module_pass(opt_level=0, name="my.Exit")
def leave(mod, ctx):
    "End the process."
    raise SystemExit(3)

@apass.register_pass("my.Await")
@apass.module_pass(opt_level=0, name="my.Await")
async def cancelled(mod, ctx):
    "Await a future that was cancelled."
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future
"""
PROGRAM = """#[version = "0.0.5"]
def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] {
  let %y = exp(%x);
  let %z = multiply(%y, %x);
  tanh(%z)
}
def @other(%x: float32) -> float32 {
  %x
}
"""


def blame(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Run the command on a model in a folder."""
    (folder / "passes.py").write_text(PASSES)
    (folder / "model.relay").write_text(PROGRAM)
    pipeline = ("-p", "InferType,my.Break,InferType", "--load", "passes.py")
    return run(folder, "blame", "model.relay", *pipeline, *arguments)


@pytest.mark.slow
def test_broken_node_names_its_pass(backend: str, tmp_path: Path) -> None:
    status, output, errors = blame(tmp_path, "--node", "%z", "--backend", backend)
    assert (status, errors) == (0, "")
    assert output == (
        "%z  in main\n"
        "  %z = subtract(%y, %x)\n"
        "  from the input\n"
        "  changed by 0:sequential/1:my.Break  %z = subtract(%y, %x)  (matched by name)\n"
    )


@pytest.mark.slow
def test_all_nodes_are_listed(tmp_path: Path) -> None:
    status, output, _ = blame(tmp_path)
    assert (status, output.splitlines()) == (
        0,
        [
            "main: from the input; changed by my.Break, InferType",
            "  %y      from the input",
            "  %z      from the input; changed by my.Break",
            "  tanh#0  from the input",
            "  let#0   from the input",
            "  let#1   from the input",
            "other: from the input",
        ],
    )
    status, output, _ = blame(tmp_path, "--function", "main", "--output-format", "json")
    item = json.loads(output)
    assert (status, item["name"], [touch["pass"] for touch in item["touches"]]) == (
        0,
        "main",
        ["my.Break", "InferType"],
    )


def test_unknown_name_suggests_near_ones(tmp_path: Path) -> None:
    status, output, errors = blame(tmp_path, "--node", "%zz")
    assert (status, output) == (2, "")
    assert errors == "apass: module 'model.relay' has no node '%zz'; did you mean '%z'?\n"
    status, _, errors = blame(tmp_path, "--node", "%z", "--function", "mein")
    assert (status, errors) == (2, "apass: module 'model.relay' has no function 'mein'; did you mean 'main'?\n")


def test_failure_shows_the_nodes_until_then(tmp_path: Path) -> None:
    (tmp_path / "fail.py").write_text(FAIL)
    status, output, errors = blame(tmp_path, "--load", "fail.py", "-p", "my.Break,my.Fail", "--node", "%z")
    assert (status, "changed by 0:sequential/0:my.Break" in output) == (1, True)
    assert errors == (
        "failed model.relay: in pass 'sequential > my.Fail', module 'model.relay'\n"
        "    ValueError: no\n    at fail.py:9\n"
    )


def test_pass_that_exits_has_failed(tmp_path: Path) -> None:
    (tmp_path / "fail.py").write_text(FAIL)
    status, output, errors = blame(tmp_path, "--load", "fail.py", "-p", "my.Break,my.Exit", "--node", "%z")
    assert (status, "changed by 0:sequential/0:my.Break" in output) == (1, True)
    assert "PassExitedError: the pass exited with 3; a pass that fails must raise an exception" in errors


def test_foreign_cancellation_has_failed(tmp_path: Path) -> None:
    (tmp_path / "fail.py").write_text(FAIL)
    status, output, errors = blame(tmp_path, "--load", "fail.py", "-p", "my.Break,my.Await", "--node", "%z")
    assert (status, "changed by 0:sequential/0:my.Break" in output) == (1, True)
    message = "PassCancelledError: the pass awaited something that was cancelled outside the run"
    assert errors.endswith(f"{message}\n    at fail.py:23\n")


def test_lost_locations_have_exit_status(tmp_path: Path) -> None:
    status, output, errors = blame(tmp_path, "--check-locations")
    assert (status, output, errors) == (
        1,
        "model.relay: 0:sequential/1:my.Break in main: lost the location of %z\n",
        "",
    )
    status, output, _ = blame(tmp_path, "--check-locations", "--disable", "my.Break")
    assert (status, output) == (0, "no pass lost or invented a location\n")


def test_location_check_rejects_other_choices(tmp_path: Path) -> None:
    status, output, errors = blame(tmp_path, "--check-locations", "--function", "mein")
    assert (status, output) == (2, "")
    assert errors == "apass: module 'model.relay' has no function 'mein'; did you mean 'main'?\n"
    status, output, errors = blame(tmp_path, "--check-locations", "--node", "%z")
    assert (status, output) == (2, "")
    assert errors == "apass: --node shows histories, and --check-locations shows none; give one of them\n"


@NEEDS_MLIR
def test_operations_of_mlir_have_their_names(tmp_path: Path) -> None:
    (tmp_path / "calls.mlir").write_text(CALLS)
    status, output, _ = run(tmp_path, "blame", "calls.mlir", "-p", "mlir.canonicalize,mlir.inline", "--node", "%sum")
    last = "  removed by 0:sequential/0:mlir.canonicalize  %sum = arith.addi %arg0, %zero : i32"
    assert (status, output.splitlines()[-1]) == (0, last)
    status, output, _ = run(tmp_path, "blame", "calls.mlir", "-p", "mlir.strip-debuginfo", "--check-locations")
    assert (status, "in g: lost the location of return#0" in output) == (1, True)
