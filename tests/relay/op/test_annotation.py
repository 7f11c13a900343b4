"""Annotations and the operator debug, which compute nothing."""

import pytest

import apass
from apass.relay import op
from apass.relay.errors import EvaluationError
from apass.relay.expr import Call, Expr, Let, RefCreate, RefRead, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.parser import parse
from apass.relay.structural.equality import structural_equal
from apass.relay.type_inference.infer import infer_expr, infer_module
from tests.helpers.amounts import levels
from tests.relay.op.values import lists, numbers, tensor, values


def test_annotations_keep_the_value() -> None:
    data = numbers([1, 2])
    annotated = [
        op.annotation.stop_fusion(data),
        op.annotation.on_device(data, "cpu"),
        op.device_copy(data, "cpu", 2),
        op.annotation.checkpoint(data),
        op.annotation.cast_hint(data, "int8"),
        op.annotation.bitpack_start(data),
        op.annotation.bitpack_end(data),
    ]
    assert [lists(call) for call in annotated] == [[1, 2]] * 7
    assert {str(infer_expr(call).checked_type) for call in annotated} == {"Tensor[(2), int32]"}


def test_checkpoint_keeps_tuples_and_cells() -> None:
    value = evaluate(op.annotation.checkpoint(Tuple([const(1), Tuple([const(2)])])))
    assert value == (1, (2,))
    cell = Var("cell")
    program = Let(cell, op.annotation.checkpoint(RefCreate(const(3))), RefRead(cell))
    assert evaluate(program) == 3


def test_checkpoint_keeps_deep_tuple() -> None:
    value: Expr = const(1)
    for _ in range(levels(10_000)):
        value = Tuple([value])
    result: Expr = op.annotation.checkpoint(value)
    for _ in range(levels(10_000)):
        result = TupleGetItem(result, 0)
    assert evaluate(result) == 1


def test_region_marks_keep_any_value() -> None:
    data, function = numbers([1, 2]), Function([], numbers(3))
    assert lists(op.annotation.compiler_end(op.annotation.compiler_begin(data, "a"), "a")) == [1, 2]
    assert lists(Call(op.annotation.compiler_begin(function, "a"), [])) == 3
    cell = op.annotation.compiler_begin(RefCreate(op.annotation.compiler_end(data, "a")), "b")
    assert lists(RefRead(cell)) == [1, 2]
    first, unit = values(op.annotation.compiler_begin(Tuple([data, Tuple([data])]), "a"))
    assert (first.tolist(), unit.tolist()) == ([1, 2], [[1, 2]])


def test_compiler_of_returns_only_the_named_mark() -> None:
    begin = op.annotation.compiler_begin(tensor(2), "dnnl")
    assert str(begin).splitlines()[-1] == 'annotation.compiler_begin(%x, compiler="dnnl")'
    marks = ("annotation.compiler_begin", "annotation.compiler_end")
    assert [op.annotation.compiler_of(begin, mark) for mark in marks] == ["dnnl", None]
    assert op.annotation.compiler_of(tensor(2), marks[0]) is None


def test_device_names_become_numbers() -> None:
    call = op.annotation.on_device(tensor(2), "cuda", is_fixed=True)
    assert isinstance(call, Call)
    assert dict(call.attrs.items() if call.attrs else ()) == {"device_type": 2, "is_fixed": True}
    with pytest.raises(ValueError, match="unknown device 'cdua'; did you mean 'cuda'"):
        op.device_copy(tensor(2), "cpu", "cdua")


def test_text_of_annotations_is_that_of_tvm() -> None:
    x = var("x", "float32")
    hint = op.annotation.cast_hint(op.annotation.checkpoint(x), "int8")
    text = IRModule.from_expr(Function([x], hint)).astext()
    assert '%0 = annotation.checkpoint(%x);\n  annotation.cast_hint(%0, dtype="int8")' in text
    assert structural_equal(parse(text), infer_module(parse(text)))


def test_function_on_device_sets_attributes() -> None:
    x, y = var("x", "float32"), var("y", "float32")
    func = op.annotation.function_on_device(Function([x, y], x), ["cpu", 2], "cuda")
    assert dict(func.attrs.items()) == {"param_device_types": (1, 2), "result_device_type": 2}
    mod = infer_module(IRModule.from_expr(func))
    assert "fn" not in str(mod)
    assert "param_device_types=[1, 2], result_device_type=2) -> float32" in str(mod)
    assert structural_equal(parse(mod.astext()), mod)


def test_function_on_invalid_devices_stays() -> None:
    func = Function([var("x")], const(1))
    assert op.annotation.function_on_device(func, [-1], -1) is func
    with pytest.raises(ValueError, match="one device for each of the 1 parameters, got 0"):
        op.annotation.function_on_device(func, [], "cpu")


def test_debug_calls_function_with_value() -> None:
    seen: list[object] = []
    first, second = op.debug(const(1), seen.append), op.op.debug(Tuple([const(2)]), seen.append)
    assert evaluate(Tuple([first, second, first])) == (1, (2,), 1)
    assert seen == [1, (2,)]
    names = [call.attrs["debug_func"] for call in (first, second) if call.attrs is not None]
    assert len(set(names)) == 2
    assert str(names[0]).startswith("debugger_func")


def test_debug_prints_value_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert lists(op.debug(numbers([1, 2]))) == [1, 2]
    assert capsys.readouterr().out == "debug: int32[2]\n[1 2]\n"


def test_debug_call_is_not_computed_by_passes() -> None:
    seen: list[object] = []
    mod = IRModule.from_expr(Function([], Let(Var("unused"), op.debug(const(1), seen.append), const(2))))
    for name in ("FoldConstant", "DeadCodeElimination", "PartialEvaluate"):
        mod = apass.run(apass.get_pass(name), mod)
    assert seen == []
    assert any(isinstance(node, Call) for node in post_order(mod["main"]))
    assert evaluate(mod) == 2
    assert seen == [1]


def test_unknown_debug_function_is_error() -> None:
    mod = parse('#[version = "0.0.5"]\ndef @main() { debug(1, debug_func="other") }')
    with pytest.raises(EvaluationError, match="there is no debug function 'other'"):
        evaluate(mod)
