"""Costs of modules of LLVM: instructions, size of the code, times of programs."""

import shutil
import subprocess
from pathlib import Path

import pytest

import apass
from apass.adapters.llvm import Module
from apass.adapters.llvm.costs import compare_times, instructions, text_bytes
from apass.errors import AdapterError, HelperError, SearchError
from apass.search import search
from apass.search.named_objectives import find_objective

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.process,
    pytest.mark.skipif(shutil.which("clang-22") is None, reason="needs clang-22"),
]

SOURCE = """
#include <stdio.h>
static int twice(int n) { int unused[8]; for (int i = 0; i < 8; i++) unused[i] = n; return 2 * n; }
int main(void) {
  unsigned sum = 0;
  for (int i = 0; i < %d; i++) sum += twice(i) ^ (sum >> 3);
  printf("%%u\\n", sum);
  return %d;
}
"""


def compiled(folder: Path, steps: int = 1000, status: int = 0) -> Module:
    source = folder / "main.c"
    source.write_text(SOURCE % (steps, status))
    options = ["-O0", "-Xclang", "-disable-O0-optnone", "-S", "-emit-llvm", "-o", "-"]
    done = subprocess.run(["clang-22", *options, str(source)], capture_output=True, check=True, timeout=120)
    return Module.unread(done.stdout)


async def test_passes_lower_the_costs(tmp_path: Path) -> None:
    before = compiled(tmp_path)
    after = await apass.parse_pipeline("llvm:default<Oz>")(before)
    assert instructions(after) < instructions(before)
    assert 0 < await text_bytes(after) < await text_bytes(before)


async def test_faster_program_is_found(tmp_path: Path) -> None:
    before = compiled(tmp_path, steps=3_000_000)
    times = await compare_times(before, await apass.parse_pipeline("llvm:default<O2>")(before))
    assert times.verdict == "faster"
    assert times.ratio < 0.8


async def test_errors_of_programs(tmp_path: Path) -> None:
    mod = compiled(tmp_path)
    with pytest.raises(HelperError, match="status 3"):
        await compare_times(mod, compiled(tmp_path, status=3))
    library = Module.parse("define i32 @f() {\n  ret i32 3\n}\n")
    with pytest.raises(AdapterError, match="clang failed"):
        await compare_times(library, library)


async def test_baseline_that_cannot_run_is_an_error() -> None:
    library = Module.parse("define i32 @f() {\n  ret i32 3\n}\n")
    with pytest.raises(SearchError, match="which is the baseline, has no value to compare with: AdapterError: clang"):
        await search({"f": library}, "?(llvm.sroa|llvm.gvn)", "latency", verify_outputs=False, budget=2)


@pytest.mark.slow
async def test_search_by_latency(tmp_path: Path) -> None:
    mod = compiled(tmp_path, steps=3_000_000)
    space = "?(llvm.default{level=O2}|llvm.strip|llvm.no-op-module)"
    async with search({"main": mod}, space, find_objective(["latency"]), verify_outputs=False, budget=3) as running:
        trials = {trial.pipeline: trial async for trial in running}
        result = await running.finish()
    found = result.modules["main"]
    assert found.pipeline == "llvm.default{level=O2}"
    assert found.values["latency"] < 0.8
    details = trials["llvm.default{level=O2}"].details
    assert details["interval"][0] <= details["ratio"] <= details["interval"][1]
    assert details["rounds"] >= 6
    assert details["noise"] >= 0
    # An equal module is not measured again.
    assert trials["llvm.no-op-module"].source == "equal"
