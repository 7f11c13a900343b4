"""The examples of TVM's pages on passes run as written, apart from `await`."""

from typing import Any

import pytest

from apass import relay
from apass.relay import transform

pytestmark = pytest.mark.anyio

TVM: Any = relay
"""In the place of the module `tvm`, which has `IRModule`."""


@relay.transform.module_pass(opt_level=2)
def add_abs(mod: relay.IRModule, ctx: transform.PassContext) -> relay.IRModule:
    """Add a function; the first example of the page on the pass infrastructure."""
    tp = relay.TensorType((10,), "float32")
    x = relay.var("x", tp)
    gv = relay.GlobalVar("abs")
    func = relay.Function([x], relay.abs(x))
    new_mod = TVM.IRModule({gv: func})
    new_mod.update(mod)
    result: relay.IRModule = new_mod
    return result


@relay.transform.function_pass(opt_level=1)
class ReplaceFunc:
    """Replaces every function; the second example of that page."""

    def __init__(self, new_func: relay.Function) -> None:
        self.new_func = new_func

    def transform_function(
        self, func: relay.Function, mod: relay.IRModule, ctx: transform.PassContext
    ) -> relay.Function:
        return self.new_func


async def test_module_pass_adds_function() -> None:
    assert isinstance(add_abs, transform.ModulePass)
    assert add_abs.info.opt_level == 2
    mod = await add_abs(relay.IRModule())
    assert [gvar.name_hint for gvar in mod.get_global_vars()] == ["abs"]


async def test_function_pass_replaces_every_function() -> None:
    x = relay.var("x", shape=(10, 20))
    f1 = relay.Function([x], x)
    f2 = relay.Function([x], relay.log(x))
    fpass: Any = ReplaceFunc(f1)
    assert isinstance(fpass, transform.FunctionPass)
    res_mod = await fpass(relay.IRModule({"main": f2, "other": f2}))
    for gvar in res_mod.get_global_vars():
        assert relay.structural_equal(res_mod[gvar].body, res_mod[gvar].params[0], map_free_vars=True)
        assert res_mod[gvar].ret_type == relay.TensorType((10, 20))


async def test_sequential_folds_and_normalizes() -> None:
    x = relay.var("x", shape=(2,))
    total = relay.add(relay.const(1.0), relay.const(2.0))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.multiply(x, total)))
    seq = transform.Sequential([relay.transform.FoldConstant(), relay.transform.ToANormalForm()])
    new_mod = await seq(mod)
    assert (
        new_mod.astext()
        == """#[version = "0.0.5"]
def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] {
  let %x1 = 3f;
  let %x2 = multiply(%x, %x1);
  %x2
}
"""
    )


async def test_printed_ir_and_context_have_names_of_tvm() -> None:
    async with transform.PassContext(opt_level=3, disabled_pass=["FoldConstant"]):
        assert transform.PassContext.current().opt_level == 3
        mod = await transform.Sequential([transform.FoldConstant(), transform.PrintIR()])(relay.IRModule())
    assert not mod.functions
    assert transform.PassInfo(2, "name", []) == transform.PassInfo(opt_level=2, name="name", required=[])
