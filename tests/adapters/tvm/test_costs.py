"""Times of modules of TVM, measured by compiling and running them."""

import pytest

from apass.adapters.tvm import IRModule, from_script
from apass.adapters.tvm.costs import compare_times
from apass.adapters.tvm.library import tvm
from apass.core.ir_plugin import plugin_for
from apass.errors import AdapterError
from tests.helpers.rows import row
from tests.helpers.tvm_modules import HEAD, shared

pytestmark = [pytest.mark.process, pytest.mark.anyio]


def of_tir(length: str = "64", times: int = 1, dtype: str = "float32") -> IRModule:
    """Return a module with one TIR function, which adds numbers several times."""
    return from_script(f"""{HEAD}
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def add(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, ({length},), "{dtype}")
        B = T.match_buffer(b, ({length},), "{dtype}")
        for i, k in T.grid({length}, {times}):
            with T.sblock("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = A[vi]
                B[vi] = B[vi] * B[vi] + A[vi]
""")


def of_relax(kernel: str) -> IRModule:
    """Return a module with a Relax function that calls a TIR function."""
    return from_script(f"""{HEAD}
@I.ir_module
class Module:
    @T.prim_func(s_tir=True, private=True)
    def kernel(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        T.evaluate({kernel})

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        r = R.call_tir(cls.kernel, (x,), out_ty=R.Tensor((4,), "float32"))
        return r
""")


async def test_longer_loop_is_slower() -> None:
    times = await compare_times(of_tir(), of_tir(times=1000))
    assert times.verdict == "slower"
    assert times.ratio > 2


@pytest.mark.slow
async def test_few_runs_of_a_slow_module_decide() -> None:
    times = await compare_times(of_tir(times=1_000_000), of_tir())
    assert times.rounds >= 6
    assert times.verdict == "faster"


async def test_public_functions_of_relax_are_called() -> None:
    compare = plugin_for(shared()).compare_times
    assert compare is not None
    times = await compare(shared(), shared())
    assert times.rounds >= 3
    calls = of_relax("0")
    assert (await compare(calls, calls)).rounds >= 3


NOT_RUN = {
    "the module has no public function to run": (tvm.IRModule({}), tvm.IRModule({})),
    "parameter 'A' of 'add' is no buffer of static shape": (of_tir("n"), of_tir("n")),
    "there are no random values of type bfloat16": (of_tir(dtype="bfloat16"), of_tir(dtype="bfloat16")),
    "TVM cannot compile and run the module after: ": (of_tir(), of_tir("32")),
    "TVM crashed: the process that runs the modules ended": (
        of_relax("0"),
        of_relax('T.call_extern("int32", "abort")'),
    ),
}
"""Modules before and after, by the message of the error."""


async def test_module_that_cannot_run_has_no_times() -> None:
    for message, (before, after) in NOT_RUN.items():
        with row(message), pytest.raises(AdapterError) as caught:
            await compare_times(before, after)
        assert str(caught.value).startswith(message)
