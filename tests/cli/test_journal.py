"""`apass opt --journal`: finished models are skipped after kills and failures."""

import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import psutil
import pytest
from onnx.external_data_helper import convert_model_to_external_data, write_external_data_tensors

from apass.adapters.onnx import load_model
from apass.batch.journal_file import JournalFile
from apass.core.context import PassContext
from apass.core.run import current_module_name
from apass.passes.decorators import module_pass
from apass.passes.registry import register_pass, unregister_pass
from tests.helpers.command_line import apass, nodes_of, process, script, write_model
from tests.helpers.folders import files

PIPELINE = "onnx.IdentityElimination,Begin"

BEGIN_PASS = """
import anyio
from apass.passes.decorators import module_pass
from apass.passes.registry import register_pass
from apass.core.run import current_module_name

@register_pass
@module_pass(opt_level=0, name="Begin")
async def begin(mod, ctx):
    print("begin", current_module_name(), flush=True)
    if current_module_name() == HELD:
        await anyio.sleep_forever()
    return mod
"""


@pytest.fixture
def begun() -> Iterator[list[str]]:
    """Register the pass Begin, which records the names of its models."""
    names: list[str] = []

    @register_pass
    @module_pass(opt_level=0, name="Begin")
    def begin(mod: ir.Model, ctx: PassContext) -> ir.Model:
        names.append(str(current_module_name()))
        if (size := len(mod.graph)) > 2:
            raise ValueError(f"{size} nodes")
        return mod

    yield names
    unregister_pass(begin.info.name)


def write_chain(path: Path, *operators: str) -> None:
    """Write a model of a chain of these operators."""
    names = ["x", *(f"v{index}" for index in range(len(operators) - 1)), "y"]
    nodes = zip(operators, names[:-1], names[1:], strict=True)
    body = "".join(f"{output} = {op}({operand}) " for op, operand, output in nodes)
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (float[2] x) => (float[2] y) {{{body}}}'
    )
    path.write_bytes(model.SerializeToString())


def lines(output: str) -> list[str]:
    """Return the rows of the table and the totals, with single spaces."""
    return [" ".join(line.split()) for line in output.splitlines() if "ok" in line or "written" in line]


@pytest.mark.process
def test_killed_command_continues_on_either_event_loop(tmp_path: Path) -> None:
    names = ["a.onnx", "b.onnx", "c.onnx"]
    for name in names:
        write_model(tmp_path / "in" / name)
    arguments = ("opt", tmp_path / "in", "-o", tmp_path / "out", "--journal", tmp_path / "run.journal", "-p", PIPELINE)
    with script(f"HELD = 'b.onnx'\n{BEGIN_PASS}", (*arguments, "--jobs", 1)) as command:
        assert [command.stdout.readline() for _ in range(2)] == ["begin a.onnx\n", "begin b.onnx\n"]
        while not (tmp_path / "out" / "a.onnx").exists():
            time.sleep(0.01)
        command.send_signal(signal.SIGKILL)
    assert files(tmp_path / "out") == ["a.onnx"]
    status, out, err = process(*arguments, "--jobs", 1, "--backend", "trio", body=f"HELD = None\n{BEGIN_PASS}")
    assert (status, err, files(tmp_path / "out")) == (0, "", names)
    assert out.splitlines()[:2] == ["begin b.onnx", "begin c.onnx"]
    assert lines(out)[-1] == "3 of 3 models written, 12 nodes before, 6 after"


SLOW_PASSES = """
import sys
import time

import apass


def first(mod, ctx):
    print("first", file=sys.stderr, flush=True)
    # The first snapshot is written a second after the pipeline has begun.
    time.sleep(1.1)
    result = mod.clone()
    result.metadata_props["first"] = "yes"
    return result


def second(mod, ctx):
    print("second", file=sys.stderr, flush=True)
    while HELD:
        time.sleep(1)
    return mod


for function in (first, second):
    apass.register_pass(apass.module_pass(function, opt_level=0))
"""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--executor", "process")])
def test_killed_pipeline_continues_after_last_pass(tmp_path: Path, options: tuple[str, ...]) -> None:
    model = write_model(tmp_path / "m.onnx")
    passes = tmp_path / "passes.py"
    arguments = ["opt", model, "-o", tmp_path / "o.onnx", "--load", passes, "-p", "first,second", *options]
    passes.write_text(f"HELD = True\n{SLOW_PASSES}")
    with script("", [*arguments, "--journal", tmp_path / "j"]) as command:
        assert command.stderr is not None
        begun = [command.stderr.readline() for _ in range(2)]
        processes = [psutil.Process(command.pid), *psutil.Process(command.pid).children(recursive=True)]
        for running in processes:
            running.kill()
    assert begun == ["first\n", "second\n"]
    passes.write_text(f"HELD = False\n{SLOW_PASSES}")
    status, out, err = process(*arguments, "--journal", tmp_path / "j")
    assert (status, err) == (0, "second\n")
    assert out.endswith("\nm.onnx: continued after 0:sequential/0:first of an earlier run\n")
    assert load_model(tmp_path / "o.onnx").metadata_props["first"] == "yes"
    assert not (tmp_path / "j.snapshots").exists()


def test_only_changed_or_missing_files_are_redone(
    tmp_path: Path, begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("a", "b", "c", "d"):
        write_model(tmp_path / f"{name}.onnx")
    arguments = ("opt", tmp_path / "?.onnx", "-p", PIPELINE, "--journal", tmp_path / "run.journal")
    first = lines(apass(*arguments).stdout)
    begun.clear()
    write_model(tmp_path / "b.onnx", identities=5)
    (tmp_path / "c.opt.onnx").unlink()
    (tmp_path / "d.opt.onnx").write_bytes((tmp_path / "d.onnx").read_bytes())
    second = apass(*arguments)
    assert (second.exit_code, sorted(begun)) == (0, ["b.onnx", "c.onnx", "d.onnx"])
    changed = " onnx.IdentityElimination"
    assert [line.rpartition("ok")[2] for line in lines(second.stdout)[:-1]] == [
        " by an earlier run",
        changed,
        changed,
        changed,
    ]
    assert first[-1] == "4 of 4 models written, 16 nodes before, 8 after"
    assert lines(second.stdout)[-1] == "4 of 4 models written, 19 nodes before, 8 after"
    assert {tuple(nodes_of(path)) for path in tmp_path.glob("*.opt.onnx")} == {("Relu", "Neg")}


def test_failures_are_retried(tmp_path: Path, begun: list[str]) -> None:
    write_model(tmp_path / "a.onnx")
    write_chain(tmp_path / "b.onnx", "Abs", "Abs", "Abs")
    arguments = ("opt", tmp_path / "?.onnx", "-p", PIPELINE, "--journal", tmp_path / "run.journal")
    assert [apass(*arguments).exit_code for _ in range(2)] == [1, 1]
    assert begun.count("a.onnx") == 1
    assert begun.count("b.onnx") == 2


def test_in_place_entry_without_result_is_ignored(
    tmp_path: Path, begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_model(tmp_path / "a.onnx")
    arguments = ("opt", path, "--in-place", "-p", PIPELINE, "--journal", tmp_path / "run.journal")

    def fail(self: Path, target: Path) -> None:
        raise OSError(5, "the plug was pulled")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", fail)
        assert apass(*arguments).exit_code == 1
    assert nodes_of(path) == ["Relu", "Identity", "Identity", "Neg"]
    assert [apass(*arguments).exit_code for _ in range(3)] == [0, 0, 0]
    assert (begun, nodes_of(path)) == (["a.onnx", "a.onnx"], ["Relu", "Neg"])


def test_model_with_changed_external_data_is_redone(tmp_path: Path, begun: list[str]) -> None:
    header = '<ir_version: 9, opset_import: ["": 18]>'
    text = f"{header} g (float[2000] x) => (float[2000] y) {{ y = Add(x, w) }}"
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(2000, dtype=np.float32), "w"))
    convert_model_to_external_data(model, location="weights.bin", size_threshold=0)
    write_external_data_tensors(model, str(tmp_path))
    (tmp_path / "a.onnx").write_bytes(model.SerializeToString())
    arguments = ("opt", tmp_path / "a.onnx", "-p", PIPELINE, "--journal", tmp_path / "run.journal")
    assert [apass(*arguments).exit_code for _ in range(2)] == [0, 0]
    assert begun == ["a.onnx"]
    data = bytearray((tmp_path / "weights.bin").read_bytes())
    data[7] ^= 1
    (tmp_path / "weights.bin").write_bytes(data)
    assert apass(*arguments).exit_code == 0
    (tmp_path / "a.opt.onnx.data").unlink()
    assert apass(*arguments).exit_code == 0
    assert begun == ["a.onnx"] * 3


def test_journal_of_another_command_is_rejected(tmp_path: Path, begun: list[str]) -> None:
    path = write_model(tmp_path / "a.onnx")
    arguments = ("opt", path, "--journal", tmp_path / "run.journal")
    assert apass(*arguments, "-p", PIPELINE).exit_code == 0
    result = apass(*arguments, "-p", "Begin", "--verify-outputs", "-O", 3)
    assert result.exit_code == 2
    journal = f"{tmp_path}/run.journal"
    start = f"apass: the journal '{journal}' belongs to another run: pipeline 'onnx.IdentityElimination,Begin', "
    assert result.stderr.startswith(f"{start}not 'Begin'; versions of passes ")
    assert result.stderr.endswith(
        "; opt_level 2, not 3; --verify-outputs none, not 'end'; use the pipeline and options of that run, use "
        "another journal, or delete this one to start over\n"
    )
    assert begun == ["a.onnx"]


def test_damaged_journal_is_one_line_of_warning(tmp_path: Path) -> None:
    path, journal = write_model(tmp_path / "a.onnx"), tmp_path / "run.journal"
    assert apass("opt", path, "--journal", journal).exit_code == 0
    journal.write_bytes(journal.read_bytes()[:-9])
    result = apass("opt", path, "--journal", journal)
    assert (result.exit_code, lines(result.stdout)[-1]) == (0, "1 of 1 models written, 4 nodes before, 2 after")
    assert result.stderr.startswith(f"apass: warning: the journal '{journal}' is damaged from byte ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("field", "value"), [("targets", None), ("sources", {"a": 7}), ("finished", {"x": 1}), ("finished", [])]
)
def test_odd_record_fails_the_model_with_its_place(tmp_path: Path, field: str, value: object) -> None:
    write_model(tmp_path / "a.onnx", identities=2)
    command = ("opt", tmp_path / "a.onnx", "-o", tmp_path / "out", "--journal", tmp_path / "run.journal")
    assert apass(*command).exit_code == 0
    with closing(JournalFile(tmp_path / "run.journal")) as file:
        heads = [dict(record.head) for record in file]
    (tmp_path / "run.journal").unlink()
    with closing(JournalFile(tmp_path / "run.journal")) as file:
        assert list(file) == []
        for head in (heads[0], {**heads[1], field: value}):
            file.append(head)
    result = apass(*command)
    assert result.exit_code == 1
    assert "does not describe a finished model" in " ".join(result.output.split())
