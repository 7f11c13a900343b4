"""`apass bisect` and `--opt-bisect-limit`, with real commands as checks."""

import os
import shlex
import sys
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from apass.adapters.onnx import load_model
from apass.batch.formats import format_of
from apass.cli.check_command import CheckCommand
from tests.helpers.command_line import TEST_DATA, apass, nodes_of, write_model
from tests.helpers.folders import files

pytestmark = pytest.mark.process

HAS_IDENTITY = (
    f'{shlex.quote(sys.executable)} -c \'import sys; sys.exit(b"Identity" not in open(sys.argv[1], "rb").read())\''
)
RELAY = """#[version = "0.0.5"]
def @main(%x: Tensor[(2), float32]) {
  %0 = add(1f, 2f);
  add(%x, %0)
}
"""


def test_bisect_finds_the_pass_and_shows_the_diff(tmp_path: Path, backend: str) -> None:
    model = write_model(tmp_path / "m.onnx")
    pipeline = "onnx.RemoveUnusedNodes,onnx.Checker,onnx.IdentityElimination,onnx.RemoveUnusedOpsets"
    arguments = ["bisect", model, "-p", pipeline, "--check", HAS_IDENTITY, "-o", tmp_path / "out", "--backend", backend]
    result = apass(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "the untouched module: good\n"
        "after all 4 passes: bad\n"
        "after passes 1-2: good (already checked)\n"
        "after passes 1-3: bad (already checked)\n"
        "the first bad pass is (3) onnx.IdentityElimination at m.onnx: 0:sequential/2:onnx.IdentityElimination\n"
        "@@ -1,6 +1,4 @@ main\n g (float[2] x) => (float[2] y) {\n    v0 = Relu (x)\n"
        "-   v1 = Identity (v0)\n-   v2 = Identity (v1)\n-   y = Neg (v2)\n+   y = Neg (v0)\n }\n"
        f"model before this pass: {tmp_path / 'out' / 'm.before.onnx'}\n"
        f"model after this pass: {tmp_path / 'out' / 'm.after.onnx'}\n"
        "to stop after this pass: apass opt --opt-bisect-limit 3 ...\n"
    )
    assert [nodes_of(tmp_path / "out" / f"m.{word}.onnx") for word in ("before", "after")] == [
        ["Relu", "Identity", "Identity", "Neg"],
        ["Relu", "Neg"],
    ]


def test_bisect_replaces_placeholder_in_the_command(tmp_path: Path) -> None:
    (tmp_path / "m.relay").write_text(RELAY)
    result = apass("bisect", tmp_path / "m.relay", "-O", 3, "--check", "grep -q 1f {} -s")
    assert (result.exit_code, result.stderr) == (0, "")
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("the first bad")]
    assert line.split(" at ")[0].endswith(") FoldConstant")
    assert line.endswith(" in function main")


def test_bisect_of_a_good_result_fails(tmp_path: Path) -> None:
    model = TEST_DATA / "light" / "light_squeezenet.onnx"
    nodes = len(list(load_model(model).graph))
    code = f"import sys,onnx; sys.exit(len(onnx.load(sys.argv[1]).graph.node) < {nodes // 2})"
    result = apass("bisect", model, "--check", f"{sys.executable} -c {shlex.quote(code)}")
    assert (result.exit_code, result.stderr) == (2, "apass: " + NOTHING)


NOTHING = "the module is good after all 9 passes; the check must fail on the optimized module\n"


def test_bisect_errors_are_one_line(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    messages = {
        "false": "the untouched module is bad before any pass; correct the check or the module\n",
        "true": NOTHING,
        "'": 'cannot parse --check "\'": No closing quotation; quote it as for a shell\n',
        "": "--check is empty; expected a command, such as 'python check.py {}'\n",
        "no-such-command": "cannot run the check: [Errno 2] No such file or directory: 'no-such-command'\n",
        "sh -c 'no-such-command 2>/dev/null' {}": (
            "cannot run the check: sh -c 'no-such-command 2>/dev/null' PATH exited with status 127: \n"
        ),
    }
    for command, message in messages.items():
        result = apass("bisect", model, "--check", command)
        shown = " ".join("PATH" if word.endswith("/m.onnx") else word for word in result.stderr.split(" "))
        assert (command, result.exit_code, shown) == (command, 2, f"apass: {message}")
    result = apass("bisect", tmp_path / "n.onnx", "--check", "true")
    assert (result.exit_code, result.stderr) == (
        2,
        f"apass: no such file: '{tmp_path / 'n.onnx'}'; did you mean 'm.onnx'?\n",
    )


def test_check_timeout_kills_the_check(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    result = apass("bisect", model, "--check", "sh -c 'sleep 1000'", "--check-timeout", 0.05)
    assert (result.exit_code, result.stdout, result.stderr) == (
        2,
        "the check was killed after 0.05 s; the model counts as bad\nthe untouched module: bad\n",
        "apass: the untouched module is bad before any pass; correct the check or the module\n",
    )


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_cancelled_check_kills_its_children(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    script = f"sleep 1000 & echo $! > {shlex.quote(str(fifo))}; wait"
    check = CheckCommand(["sh", "-c", script], format_of(model), "n.onnx", None)
    child = -1
    async with anyio.create_task_group() as group:
        group.start_soon(check, None, load_model(model))
        child = os.pidfd_open(int(await anyio.Path(fifo).read_text()))
        group.cancel_scope.cancel()
    with closing(os.fdopen(child)), anyio.fail_after(60):
        await anyio.wait_readable(child)


def test_opt_bisect_skips_passes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_model(tmp_path / f"{name}.onnx")
    pipeline = "onnx.RemoveUnusedNodes,onnx.IdentityElimination"
    for options, nodes in ((["--opt-bisect-limit", 1], 4), (["--opt-bisect", "2"], 2)):
        result = apass("opt", tmp_path, "-o", tmp_path / "out", "-p", pipeline, *options)
        assert result.exit_code == 0
        runs = ["running", "NOT running"] if nodes == 4 else ["NOT running", "running"]
        assert sorted(result.stderr.splitlines(), key=lambda line: (line.rsplit(" ")[-1], line.split("(")[1])) == [
            f"BISECT: {word} pass ({number}) {name} on {model}.onnx"
            for model in "ab"
            for number, (word, name) in enumerate(zip(runs, pipeline.split(","), strict=True), 1)
        ]
        assert [len(nodes_of(tmp_path / "out" / f"{model}.onnx")) for model in "ab"] == [nodes, nodes]
    assert files(tmp_path / "out") == ["a.onnx", "b.onnx"]


def test_invalid_intervals_are_rejected(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    result = apass("opt", model, "--opt-bisect", "3-")
    assert (result.exit_code, result.stderr) == (
        2,
        "apass: --opt-bisect: intervals must be numbers such as 3-7,9, got '3-'\n",
    )
    result = apass("opt", model, "--opt-bisect", "3", "--opt-bisect-limit", 1)
    assert (result.exit_code, result.stderr) == (
        2,
        "apass: --opt-bisect-limit and --opt-bisect cannot be used together\n",
    )
