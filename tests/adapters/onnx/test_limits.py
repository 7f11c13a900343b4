"""Models that grow exponentially in passes, and the options that limit them."""

import onnx_ir as ir
import pytest

import apass
from apass.adapters.onnx import ADAPTER
from apass.adapters.onnx.passes.limits import limited_options
from apass.adapters.onnx.traversal import is_small
from tests.helpers.onnx_models import chain, model_of, op_types, run, with_functions


def doubling(depth: int) -> ir.Model:
    """Return a model with functions that each call the next one twice."""
    bodies = [f"f{i} (p) => (q) {{ r = local.f{i + 1}(p) q = local.f{i + 1}(r) }}" for i in range(depth)]
    return model_of(
        "g (float[4] a) => (float[4] x) { x = local.f0(a) }", *bodies, f"f{depth} (p) => (q) {{ q = Neg(p) }}"
    )


@pytest.mark.parametrize("name", ["onnx.Inline", "onnx.ShapeInference", "onnx.Default"])
def test_exponential_calls_are_an_error(name: str) -> None:
    model = doubling(40)
    with pytest.raises(apass.errors.AdapterError, match=r"expand to 3,\d+,\d+,\d+,\d+ nodes, but onnx.* max_nodes"):
        run(name, model)


def test_exponential_calls_do_not_slow_other_work() -> None:
    model = ADAPTER.loads(ADAPTER.dumps(doubling(90)))
    assert is_small(doubling(20))
    ADAPTER.verify(model)
    assert len(list(ADAPTER.shrinkings(model))) == 6
    for name in ("RemoveUnusedFunctions", "NameFix", "IdentityElimination"):
        ADAPTER.fingerprint(run(f"onnx.{name}", model))


def test_limit_of_calls_is_an_option() -> None:
    model = doubling(3)
    assert len(run("onnx.Inline", model, max_nodes=22).graph) == 8
    with pytest.raises(apass.errors.AdapterError, match=r"expand to 22 nodes, but onnx\.Inline allows 21; raise"):
        run("onnx.Inline", model, max_nodes=21)
    assert str(apass.parse_pipeline("onnx.Inline{max_nodes=21}")) == "onnx.Inline{max_nodes=21}"


def test_long_graph_without_calls_has_no_limit() -> None:
    assert len(run("onnx.Inline", with_functions(), max_nodes=5).graph) == 4
    assert op_types(run("onnx.Inline", chain(3), max_nodes=0)) == ["Relu"] * 3


ENDS = "g () => (int64[M] y) {{ {0} y = Neg(x) }}"
GROWING = {
    "a constant Range": "s = Constant <value_int = 0> () e = Constant <value_int = {n}> () "
    "d = Constant <value_int = 1> () x = Range(s, e, d)",
    "Concat of a value with itself": "v0 = Constant <value_ints = [1]> () "
    + " ".join(f"v{i + 1} = Concat <axis = 0> (v{i}, v{i})" for i in range(50))
    + " x = Identity(v50)",
    "an unknown Range": "s = Constant <value_int = 0> () c = Constant <value_int = 9> () "
    "e = Mul(c, c) x = Range(s, e, c)",
    "a Range that does not end": "s = Constant <value_int = 0> () e = Constant <value_int = 9> () x = Range(s, e, s)",
}


@pytest.mark.anyio
@pytest.mark.parametrize("case", GROWING)
async def test_growing_values_are_not_propagated(case: str) -> None:
    model = model_of(ENDS.format(GROWING[case].format(n=2**62)))
    async with apass.PassContext() as ctx:
        result = await apass.get_pass("onnx.ShapeInference", strict_mode=False)(model)
    messages = [diagnostic.message for diagnostic in ctx.diag_ctx.diagnostics]
    assert "data propagation is off" in messages[0]
    assert "max_propagated (1,048,576); raise this option" in messages[0]
    assert result.graph[-1].outputs[0].dtype is ir.DataType.INT64


SMALL = {
    "a short Range": GROWING["a constant Range"].format(n=9),
    "Concat of shapes": "c = Constant <value_ints = [1, 2]> () s = Shape(c) x = Concat <axis = 0> (s, c)",
}


@pytest.mark.anyio
@pytest.mark.parametrize("case", SMALL)
async def test_small_values_are_propagated(case: str) -> None:
    model = model_of(ENDS.format(SMALL[case]))
    async with apass.PassContext() as ctx:
        await apass.get_pass("onnx.ShapeInference")(model)
        assert not ctx.diag_ctx.diagnostics
        await apass.get_pass("onnx.ShapeInference", max_propagated=2)(model)
    assert len(ctx.diag_ctx.diagnostics) == 1


HUGE = {
    "ConstantOfShape": "x = ConstantOfShape(s)",
    "Expand": "x = Expand(w, s)",
    "Tile": "x = Tile(w, s)",
}


@pytest.mark.parametrize("name", ["onnx.Default", "onnx.ShapeInference", "onnx.LiftConstantsToInitializers"])
@pytest.mark.parametrize("operator", HUGE)
def test_huge_results_are_not_computed(operator: str, name: str) -> None:
    size = 2**40
    inputs = f"<int64[2] s = {{{size}, {size}}}, float[1,1] w = {{1}}>"
    model = model_of(f"g () => (float[M, N] x) {inputs} {{ {HUGE[operator]} }}")
    assert len(ADAPTER.dumps(run(name, model))) < 1000


def test_constant_without_value_has_unknown_size() -> None:
    model = model_of("g () => (float[M] y) { x = Constant <value_int = 1> () y = Range(x, x, x) }")
    model.graph[0].attributes.clear()
    options, warnings = limited_options("ShapeInference", model, {})
    assert (options["data_prop"], len(warnings)) == (False, 1)


def test_limits_do_not_change_the_model() -> None:
    model = model_of("g () => (float[M] y) { x = Constant <value = int64 {1}> () y = Range(x, x, x) }")
    tensor = model.graph[0].attributes["value"].as_tensor()
    name = tensor.name
    limited_options("ShapeInference", model, {})
    assert tensor.name == name != "x"
