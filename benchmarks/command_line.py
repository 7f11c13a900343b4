"""Time and memory of `apass opt` on many models, beside a bare loop over passes.

python -m benchmarks.command_line [--rounds 5]

Both run as whole processes, start-up included. The loop reads each model, runs the passes and writes the result; it
neither checks models nor flushes files to disk. Memory is that of the main process.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import copytree
from time import perf_counter

import onnx
from onnx.backend.test.case.node import collect_testcases

from benchmarks.area import Benchmark, main
from benchmarks.measure import cached_bytecode, record, record_rounds

TEST_DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"

PASSES = (
    "IdentityElimination",
    "DeduplicateInitializers",
    "CommonSubexpressionElimination",
    "RemoveUnusedNodes",
    "RemoveUnusedFunctions",
    "RemoveUnusedOpsets",
)
"""Passes of onnx_ir."""

LOOP = """
import sys
from pathlib import Path
import onnx_ir
{setup}
source, target = map(Path, sys.argv[1:])
for path in sorted(source.rglob("*.onnx")):
    result = target / path.relative_to(source)
    result.parent.mkdir(parents=True, exist_ok=True)
    model = onnx_ir.load(path)
    {work}
    onnx_ir.save(model, result)
"""
"""A program that runs passes on all models of a folder."""

OF_ONNX_IR = LOOP.format(
    setup="import onnx_ir.passes.common as common\n"
    f"passes = onnx_ir.passes.Sequential(*(getattr(common, f'{{name}}Pass')() for name in {PASSES}))",
    work="model = passes(model).model",
)
OF_ONNXSCRIPT = LOOP.format(
    setup="from contextlib import suppress\nfrom onnxscript import optimizer",
    # It fails on one of the models.
    work="with suppress(Exception): optimizer.optimize(model)",
)
OF_TVM = """
import sys
from pathlib import Path
import tvm
from tvm.relax import transform
names = ("CanonicalizeBindings", "EliminateCommonSubexpr", "DeadCodeElimination")
sequence = tvm.transform.Sequential([getattr(transform, name)() for name in names])
source, target = map(Path, sys.argv[1:])
target.mkdir()
for path in sorted(source.glob("*.relax")):
    (target / path.name).write_text(tvm.ir.save_json(sequence(tvm.ir.load_json(path.read_text()))))
"""
"""A program that runs the passes of `tvm.Default` on all modules of a folder."""

ONLY_FILES = LOOP.format(setup="", work="pass")


def measured(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Run a command; return its seconds, and its peak memory in bytes."""
    start = perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return perf_counter() - start, usage.ru_maxrss * 1024.0


def compare(name: str, options: Sequence[str], loop: str, source: Path, bound: float | None, rounds: int) -> None:
    """Run `apass opt` and a loop alternately, and record their time and memory."""
    apass = str(Path(sysconfig.get_path("scripts")) / "apass")
    times: list[tuple[float, float]] = []
    memory: list[tuple[float, float]] = []
    with cached_bytecode() as environment:
        for index in range(rounds + 1):
            with tempfile.TemporaryDirectory() as folder:
                ours = measured([apass, "opt", str(source), "-o", f"{folder}/ours", *options], environment)
                other = measured([sys.executable, "-c", loop, str(source), f"{folder}/loop"], environment)
            if index:  # the first round fills the caches
                times.append((ours[0], other[0]))
                memory.append((ours[1], other[1]))
    peer = "a bare loop"
    record_rounds(name, [our for our, _ in times], [other for _, other in times], bound, peer)
    if bound is not None:
        most, least = max(our for our, _ in memory), min(other for _, other in memory)
        record(f"{name}, peak memory", most / 2**20, least / 2**20, 1.5, peer, unit="MiB")


def six_passes(rounds: int) -> None:
    """Compare six passes of onnx_ir with a loop over the same."""
    pipeline = ",".join(f"onnx.{name}" for name in PASSES)
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "files"
        copytree(TEST_DATA, files, ignore=lambda _, names: [name for name in names if name.endswith(".pb")])
        in_loop, all_cores = ["-p", pipeline, "--executor", "inline"], ["-p", pipeline]
        compare("apass opt, six passes, 149 models", in_loop, OF_ONNX_IR, files, 1.2, rounds)
        compare("apass opt, six passes, 149 models, all cores", all_cores, OF_ONNX_IR, files, None, rounds)
        compare("apass opt, empty pipeline, 149 models", ["-p", "Sequential"], ONLY_FILES, files, None, rounds)
        nodes = node_cases(Path(folder) / "nodes")
        compare("apass opt, six passes, 1884 small models", in_loop, OF_ONNX_IR, nodes, 1.3, rounds)
        compare("apass opt, six passes, 1884 small models, all cores", all_cores, OF_ONNX_IR, nodes, 0.75, rounds)


def default_pipeline(rounds: int) -> None:
    """Compare `onnx.Default` with a loop over the optimizer of onnxscript."""
    with tempfile.TemporaryDirectory() as folder:
        nodes = node_cases(Path(folder) / "nodes")
        compare("apass opt, onnx.Default, 1884 small models", [], OF_ONNXSCRIPT, nodes, 1.2, rounds)


def modules_of_tvm(rounds: int) -> None:
    """Compare `tvm.Default` on small modules with a loop over its passes."""
    # TVM takes a second to import.
    from apass.adapters.tvm import ADAPTER
    from benchmarks.tvm_passes import small_modules

    modules = list(small_modules().values())
    with tempfile.TemporaryDirectory() as folder:
        for index, mod in enumerate(modules):
            Path(folder, f"{index}.relax").write_bytes(ADAPTER.dumps(mod))
        name = f"apass opt, tvm.Default, {len(modules)} small modules"
        compare(name, ["-p", "tvm.Default"], OF_TVM, Path(folder), 3.0, rounds)


def node_cases(folder: Path) -> Path:
    """Write the models of onnx's tests of single operators to a folder."""
    folder.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        if case.model is not None:
            (folder / f"{case.name}.onnx").write_bytes(case.model.SerializeToString())
    return folder


BENCHMARKS = (
    Benchmark(six_passes, rounds=5),
    Benchmark(default_pipeline, rounds=5, needs=("onnxscript",)),
    Benchmark(modules_of_tvm, rounds=5, needs=("tvm",)),
)

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
