"""The nodes of each IR, and what passes do to them and to their locations."""

import re
from collections import Counter
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith

import apass
from apass import relay
from apass.adapters.llvm import Function, Module
from apass.adapters.mlir import MLIRModule
from apass.adapters.nodes import nodes_of
from apass.adapters.onnx import private_copy
from apass.adapters.tvm import from_script
from apass.adapters.tvm.library import tvm
from apass.instruments import LocationCheckInstrument, Provenance, ProvenanceInstrument
from apass.relay.integration.adapter import ADAPTER as RELAY
from tests.helpers import llvm_modules, onnx_models, tvm_modules, xdsl_modules
from tests.helpers.amounts import amount
from tests.helpers.mlir_modules import CALLS, NEEDS_MLIR

pytestmark = pytest.mark.anyio


async def observed(mod: Any, *passes: apass.Pass[Any] | str) -> tuple[Provenance, str]:
    """Return the histories, and the passes that lose locations, as text."""
    provenance, locations = ProvenanceInstrument(), LocationCheckInstrument()
    async with apass.PassContext(opt_level=3, instruments=[provenance, locations]):
        await apass.Sequential([apass.parse_pipeline(one) if isinstance(one, str) else one for one in passes])(mod)
    return provenance.provenance(), locations.render()


def touches(found: Provenance, name: str, function: str | None = None) -> list[str]:
    """Return the touches of the first node of a name, as `changed Pass`."""
    return [f"{touch.kind} {touch.pass_name}" for touch in found.find(name, function)[0].touches]


@apass.function_pass(opt_level=0)
def BreakOnnx(func: Any, mod: ir.Model, ctx: apass.PassContext) -> Any:
    """Change the operator of the node `second`, and insert one without a name."""
    copy = private_copy(func)
    node = next((node for node in copy if node.name == "second"), None)
    if node is None:
        return func
    node.op_type = "Tanh"
    node.metadata_props.clear()
    return copy


ONNX = "g (float[2] x) => (float[2] y) {\n  [first] a = Relu (x)\n  b = Identity (a)\n  [second] y = Relu (b)\n}"


async def test_broken_onnx_node_is_found() -> None:
    mod = onnx_models.model_of(ONNX)
    found, locations = await observed(apass.plugins.with_locations(mod), "onnx.IdentityElimination", BreakOnnx)
    assert [node.name for node in found.nodes()] == ["first", "second", "b"]
    assert touches(found, "second") == ["changed onnx.IdentityElimination", "changed BreakOnnx"]
    assert touches(found, "y") == touches(found, "second")
    assert touches(found, "b") == ["removed onnx.IdentityElimination"]
    assert found.find("second")[0].text == "y = Tanh(a)"
    assert locations == "0:sequential/1:BreakOnnx in main: lost the location of second"


def test_onnx_text_shows_attributes_and_weights() -> None:
    graph = """g (float[2] x) => (float[2] y) <float w = {3}, float[2] v = {1, 2}> {
        a = LeakyRelu <alpha = 0.5> (x)
        b = Mul (a, w)
        y = Add (b, v)
    }"""
    mod = onnx_models.model_of(graph)
    shown = [str(node) for node in nodes_of(apass.adapter_for(mod), mod.graph)]
    assert shown[0] == "w = initializer FLOAT[] 3.0"
    assert shown[1].startswith("v = initializer FLOAT[2] #")
    assert shown[2:] == ["a = LeakyRelu{alpha=0.5}(x)", "b = Mul(a, w)", "y = Add(b, v)"]


def test_onnx_names_of_branches_are_unique() -> None:
    graph = """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <
            then_branch = then () => (float[2] a) { [n] a = Relu (x) },
            else_branch = other () => (float[2] a) <float[1] b = {1}> { [b] a = Add (x, b) }
        >
    }"""
    mod = onnx_models.model_of(graph)
    nodes = nodes_of(apass.adapter_for(mod), mod.graph)
    assert [(node.name, node.text.partition(" ")[0]) for node in nodes] == [
        ("y", "If{else_branch=graph,"),
        ("n", "Relu"),
        ("b", "initializer"),
        ("a", "Add"),
    ]


def test_onnx_location_is_that_of_exporter() -> None:
    mod = onnx_models.model_of(ONNX)
    next(iter(mod.graph)).metadata_props["pkg.torch.onnx.stack_trace"] = "net.py:7"
    located = [node.location for node in nodes_of(apass.adapter_for(mod), apass.plugins.with_locations(mod).graph)]
    assert located == ["net.py:7", "apass:1", "apass:2"]


def net() -> relay.IRModule:
    x = relay.var("x", shape=(2,), dtype="float32")
    y = relay.add(relay.add(relay.const(np.float32(1)), relay.const(np.float32(2))), x)
    return relay.IRModule.from_expr(relay.Function([x], relay.exp(relay.tanh(y))))


@apass.function_pass(opt_level=0)
def BreakRelay(func: relay.Function, mod: relay.IRModule, ctx: apass.PassContext) -> relay.Function:
    """Replace the hyperbolic tangent by a sigmoid."""

    class Replace(relay.ExprMutator):
        def visit_call(self, call: relay.Call) -> relay.Expr:
            new = super().visit_call(call)
            assert isinstance(new, relay.Call)
            return relay.sigmoid(new.args[0]) if new.op is relay.op.get("tanh") else new

    result = Replace().visit(func)
    assert isinstance(result, relay.Function)
    return result


async def test_broken_relay_node_is_found() -> None:
    mod = apass.plugins.with_locations(net())
    found, locations = await observed(mod, "FoldConstant", BreakRelay, "InferType")
    assert touches(found, "sigmoid#0") == ["made BreakRelay"]
    assert touches(found, "tanh#0") == ["removed BreakRelay"]
    assert touches(found, "exp#0") == ["changed BreakRelay"]
    # The folded addition has left its location to the constant.
    constant = found.find("constant#0")[0]
    assert [(touch.kind, touch.pass_name, touch.evidence) for touch in constant.touches] == [
        ("changed", "FoldConstant", "location")
    ]
    # So the other addition still has the same operand, although its number is another one.
    assert touches(found, "add#0") == []
    assert "BreakRelay in main: made without location sigmoid#0" in locations


@given(
    RELAY.strategy(),
    st.sampled_from(
        ["FoldConstant", "ToANormalForm", "EliminateCommonSubexpr", "SimplifyExpr", "FuseOps", "ToGraphNormalForm"]
    ),
)
@settings(max_examples=amount(40))
def test_touches_explain_changes_of_relay(mod: relay.IRModule, name: str) -> None:
    instrument = ProvenanceInstrument()
    result = apass.run(
        apass.parse_pipeline(name), mod, context=apass.PassContext(opt_level=3, instruments=[instrument])
    )
    adapter = apass.adapter_for(mod)
    for function, func in adapter.functions(result):
        before, after = nodes_of(adapter, adapter.get(mod, function)), nodes_of(adapter, func)
        nodes = list(instrument.provenance().nodes(function))
        live = [node for node in nodes if not node.is_removed]
        assert [node.name for node in live] == [node.name for node in after]
        kinds = Counter(touch.kind for node in nodes for touch in node.touches)
        assert kinds["made"] - kinds["removed"] == len(after) - len(before)
        # What no pass has touched was there before.
        untouched = Counter(item.text for item, node in zip(after, live, strict=True) if not node.touches)
        assert untouched <= Counter(item.text for item in before)


def test_relay_nodes_are_named_by_let() -> None:
    x, y = relay.var("x", shape=(2,), dtype="float32"), relay.var("y")
    func = relay.Function([x], relay.Let(y, relay.exp(x), relay.nn.softmax(y, axis=0)))
    assert list(map(str, nodes_of(apass.adapter_for(net()), func))) == [
        "%y = exp(%x)",
        "nn.softmax#0 = nn.softmax{axis=0}(%y)",
        "let#0 = let %y(%y, nn.softmax#0)",
    ]


def test_relay_spans_keep_types_and_meaning() -> None:
    mod = relay.transform.InferType()
    typed = apass.run(mod, net())
    located = apass.plugins.with_locations(typed)
    assert apass.adapter_for(typed).equal(typed, located)
    assert located["main"].checked_type_ is not None
    assert all(node.location for node in nodes_of(apass.adapter_for(typed), located["main"]))


async def test_xdsl_passes_are_found() -> None:
    mod = apass.plugins.with_locations(xdsl_modules.module(xdsl_modules.SUMS))
    found, locations = await observed(mod, "xdsl.canonicalize", "xdsl.cse")
    assert touches(found, "%zero") == ["removed xdsl.canonicalize"]
    assert touches(found, "%z") == ["changed xdsl.canonicalize", "removed xdsl.cse"]
    assert touches(found, "%sum") == ["changed xdsl.cse"]
    assert found.find("func.return#0")[0].touches == ()
    assert locations == "no pass lost or invented a location"


@apass.function_pass(opt_level=0)
def BreakXdsl(func: Any, mod: Any, ctx: apass.PassContext) -> Any:
    """Multiply where the function adds, with an operation without name and location."""
    copy = func.clone()
    for op in list(copy.walk()):
        if isinstance(op, arith.AddiOp) and op.result.name_hint == "sum":
            new, block = arith.MuliOp(op.lhs, op.rhs), op.parent
            assert block is not None
            block.insert_op_before(new, op)
            op.result.replace_all_uses_with(new.result)
            block.erase_op(op)
            new.result.name_hint = None
    return copy


async def test_broken_xdsl_operation_is_found() -> None:
    mod = apass.plugins.with_locations(xdsl_modules.module(xdsl_modules.SUMS))
    found, locations = await observed(mod, BreakXdsl)
    assert touches(found, "arith.muli#0") == ["made BreakXdsl"]
    assert touches(found, "%sum") == ["removed BreakXdsl"]
    assert touches(found, "func.return#0") == ["changed BreakXdsl"]
    assert locations == "0:sequential/0:BreakXdsl in sums: made without location arith.muli#0"


@NEEDS_MLIR
@pytest.mark.process
async def test_mlir_passes_are_found() -> None:
    mod = apass.plugins.with_names(MLIRModule(CALLS, "calls.mlir"))
    found, locations = await observed(mod, "mlir.canonicalize", "mlir.inline")
    assert [touches(found, name) for name in ("%zero", "%sum")] == [["removed mlir.canonicalize"]] * 2
    assert touches(found, "%y") == ["changed mlir.canonicalize", "removed mlir.inline"]
    assert touches(found, "return#0", "f") == ["changed mlir.inline"]
    # A function that no pass changes has no touches, whatever the layout of the file.
    assert touches(found, "return#0", "g") == []
    assert found.function("g").touches == ()
    assert locations == "no pass lost or invented a location"


@apass.module_pass(opt_level=0)
def BreakMlir(mod: Any, ctx: apass.PassContext) -> Any:
    """Multiply where a function adds, without a location."""
    return MLIRModule(re.sub(r"arith\.addi (.*) loc\(.*\)", r"arith.muli \1 loc(unknown)", mod.text))


@NEEDS_MLIR
@pytest.mark.process
async def test_broken_mlir_operation_is_found() -> None:
    mod = apass.plugins.with_names(MLIRModule(CALLS, "calls.mlir"))
    found, locations = await observed(mod, BreakMlir)
    assert touches(found, "arith.muli#0") == ["made BreakMlir"]
    assert touches(found, "%sum") == ["removed BreakMlir"]
    assert touches(found, "%y") == ["changed BreakMlir"]
    assert locations == "0:sequential/0:BreakMlir in f: made without location arith.muli#0"


LLVM = """
define i32 @f(i32 %a, i32 %b) {
entry:
  %x = mul i32 %a, 8
  %0 = add i32 %x, 0
  %1 = add i32 %0, %b
  switch i32 %1, label %end [
    i32 1, label %one
  ]
one:
  call void @g(i32 %1)
  br label %end
end:
  ret i32 %1
}
declare void @g(i32)
"""


@apass.function_pass(opt_level=0)
def BreakLLVM(func: Function, mod: Module, ctx: apass.PassContext) -> Function:
    """Subtract where the function adds."""
    return func.with_definition(func.definition.replace("= add", "= sub"))


async def test_broken_llvm_instruction_is_found() -> None:
    mod = apass.plugins.with_locations(Module.parse(LLVM))
    found, locations = await observed(mod, "llvm.instcombine", BreakLLVM)
    assert touches(found, "%x") == ["changed llvm.instcombine"]
    assert touches(found, "%0") == ["changed llvm.instcombine", "changed BreakLLVM"]
    assert found.find("%0")[0].text == "%0 = sub i32 %x, %b"
    assert [node.is_removed for node in found.find("%0")] == [False, True]
    assert locations == "no pass lost or invented a location"


async def test_lost_llvm_location_is_found() -> None:
    @apass.function_pass(opt_level=0)
    def Lose(func: Function, mod: Module, ctx: apass.PassContext) -> Function:
        lines = func.definition.splitlines()
        lines[2] = lines[2].partition(", !dbg")[0]
        return func.with_definition("\n".join(lines))

    _, locations = await observed(apass.plugins.with_locations(Module.parse(LLVM)), Lose)
    assert locations == "0:sequential/0:Lose in f: lost the location of %x"


@pytest.mark.parametrize("name", sorted(llvm_modules.TEXTS))
def test_llvm_locations_keep_module_valid(name: str) -> None:
    mod = llvm_modules.module(name)
    located = apass.plugins.with_locations(mod)
    adapter = apass.adapter_for(mod)
    adapter.verify(located)
    if mod.skeleton.has_debug_info:
        assert located is mod
    else:
        for func in located.functions.values():
            assert all(node.location.startswith("apass:") for node in nodes_of(adapter, func))


async def test_tvm_bindings_and_blocks_are_found() -> None:
    found, locations = await observed(tvm_modules.shared(), "tvm.relax.EliminateCommonSubexpr", "tvm.relax.LegalizeOps")
    assert touches(found, "c", "first")[-1] == "changed tvm.relax.LegalizeOps"
    assert touches(found, "b", "first") == ["changed tvm.relax.EliminateCommonSubexpr"]
    assert touches(found, "T_add")[0] == "made tvm.relax.LegalizeOps"
    assert "tvm.relax.LegalizeOps in first: lost the location of" in locations


async def test_tvm_calls_have_artificial_locations() -> None:
    legalized = await apass.parse_pipeline("tvm.relax.LegalizeOps")(tvm_modules.shared())
    located = apass.plugins.with_locations(legalized)
    adapter = apass.adapter_for(located)
    assert adapter.equal(legalized, located)
    adapter.verify(located)
    nodes = nodes_of(adapter, located["first"])
    assert [node.location for node in nodes] == ["apass:1:1", "apass:2:1", "apass:3:1", "apass:4:1"]
    assert apass.plugins.with_locations(located) is located


def test_dicts_have_no_artificial_locations() -> None:
    with pytest.raises(apass.errors.AdapterError, match="does not define nodes and with_locations"):
        apass.plugins.with_locations({"f": 1})


def test_shared_tvm_nodes_are_equal() -> None:
    func = from_script(tvm_modules.shared().script())["first"]
    adapter = apass.adapter_for(tvm.IRModule({}))
    assert [node.identity for node in nodes_of(adapter, func)] == [node.identity for node in nodes_of(adapter, func)]
