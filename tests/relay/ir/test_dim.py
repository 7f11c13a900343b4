"""Arithmetic on symbolic dimensions: its laws, its normal form, and its limits."""

import pickle
from collections.abc import Callable, Mapping
from typing import Any as Anything

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from apass.relay import op
from apass.relay.errors import SerializationError
from apass.relay.ir.dim import Any, Dim, DimExpr, ShapeVar
from apass.relay.ir.expr import Var, var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.parser import parse
from apass.relay.structural.equality import structural_equal
from apass.relay.text.serialization.load import load_json
from apass.relay.text.serialization.save import save_json
from apass.relay.ty import TensorType
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import levels
from tests.relay.op.values import result_type, tensor

N, M = ShapeVar("n"), ShapeVar("m")
OPERATIONS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // (b or 1),
    "%": lambda a, b: a % (b or 1),
}


@st.composite
def expressions(draw: st.DrawFn) -> tuple[Dim, Mapping[ShapeVar, int], Dim]:
    """Draw a symbolic dimension, values of its variables, and its value."""
    values: dict[ShapeVar, int] = {N: draw(st.integers(1, 9)), M: draw(st.integers(1, 9))}
    symbolic: Dim = N
    number: Dim = values[N]
    for _ in range(draw(st.integers(0, 6))):
        operation = OPERATIONS[draw(st.sampled_from(sorted(OPERATIONS)))]
        choices: list[Dim] = [N, M, 1, 2, 3, 4, -1]
        other = draw(st.sampled_from(choices))
        other_number = values[other] if isinstance(other, ShapeVar) else other
        if operation is OPERATIONS["*"] or operation is OPERATIONS["+"]:
            pairs = [(symbolic, other), (other, symbolic)]
            first, second = draw(st.sampled_from(pairs))
            symbolic = operation(first, second)
        else:
            symbolic = operation(symbolic, other)
        number = operation(number, other_number)
    return symbolic, values, number


@given(expressions())
def test_replaced_variables_give_the_number(drawn: tuple[Dim, Mapping[ShapeVar, int], Dim]) -> None:
    symbolic, values, number = drawn
    if isinstance(symbolic, DimExpr):
        assert set(symbolic.variables()) <= {N, M}
        assert symbolic.replaced(dict(values)) == number
        assert symbolic.replaced({}) == symbolic
    elif isinstance(symbolic, ShapeVar):
        assert values[symbolic] == number
    else:
        assert symbolic == number


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (N + 1, "n + 1"),
        (1 - N, "-n + 1"),
        (2 * N - M * 3, "2*n - 3*m"),
        (N * M * 2, "2*m*n"),
        ((N - 1) // 2 + 1, "(n + 1)//2"),
        ((N // 2 - 1) // 2, "(n + 2)//4 - 1"),
        ((4 * N + 6) // 4, "n + 1"),
        (N % 2, "n - 2*(n//2)"),
        ((N // 2) * (M // 3) - N // 2, "(m//3)*(n//2) - n//2"),
        (N // M, "n//m"),
        ((2 * N * M) // M, "2*n"),
        (N + 1 - N, "1"),
        (0 * N, "0"),
        (N * 1, "n"),
        (-N + 2 * N, "n"),
        (N + Any(), "?"),
        (3 // (Any() + 1), "?"),
    ],
)
def test_text_is_that_of_the_normal_form(dim: Dim, text: str) -> None:
    assert str(dim) == text


def test_equal_sums_are_equal() -> None:
    assert (N + 1, hash(N + 1)) == (1 + N, hash(1 + N))
    assert N + M == M + N
    assert N + 1 not in (N, N + 2, M + 1, 1, Any())
    assert TensorType((N + 1, 2)) == TensorType((1 + N, 2))
    copy = pickle.loads(pickle.dumps((N, N // 2 + 1)))
    assert copy[1] == copy[0] // 2 + 1
    with pytest.raises(AttributeError, match="does not change"):
        setattr(N + 1, "size", 3)  # noqa: B010  a type checker rejects the assignment


def test_other_operands_are_rejected() -> None:
    bad: Anything = "n"
    with pytest.raises(TypeError):
        _ = N + bad
    with pytest.raises(ZeroDivisionError, match="the dimension n is divided by 0"):
        _ = N // 0
    with pytest.raises(TypeError, match="a dimension must be an int"):
        TensorType((bad,))


def test_large_expressions_are_unknown() -> None:
    total: Dim = 0
    for index in range(100):
        total = total + ShapeVar(f"v{index}")
    assert total == Any()
    grow: list[Callable[[Dim], Dim]] = [
        lambda dim: 3 * (dim // 2) // M,
        lambda dim: dim * N,
        lambda dim: dim * 2**40,
        lambda dim: dim // 2**40,
        lambda dim: N // (dim + 1),
        lambda dim: (dim + 1) // (dim + 2),
    ]
    for operation in grow:
        dim: Dim = N
        for _ in range(levels(10_000)):
            dim = operation(dim)
            assert len(str(dim)) < 2000
        assert dim == Any()


def test_chain_of_strides_is_one_quotient() -> None:
    strided: Dim = N
    for _ in range(50):
        strided = (strided - 1) // 2 + 1
    assert isinstance(strided, DimExpr)
    assert (strided.depth, strided.size) == (1, 3)


def test_bound_variables_of_sums_are_mapped() -> None:
    def func(dim: ShapeVar, more: int) -> Function:
        x = Var("x", TensorType((dim,)))
        return Function([x], op.exp(x), TensorType((dim // 2 + more,)))

    assert structural_equal(func(N, 1), func(M, 1))
    assert not structural_equal(func(N, 1), func(N, 2))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (op.nn.pad(tensor(N, 4), ((1, 1), (0, 2))), "Tensor[(n + 2, 6), float32]"),
        (op.nn.batch_flatten(tensor(2, N, 3)), "Tensor[(2, 3*n), float32]"),
        (op.reshape(tensor(N, 3, 8), (-1, 12)), "Tensor[(2*n, 12), float32]"),
        (op.reshape(tensor(N, 3, 8), (-3, 0)), "Tensor[(3*n, 8), float32]"),
        (op.tile(tensor(N, 3), (2, 1)), "Tensor[(2*n, 3), float32]"),
        (op.nn.max_pool2d(tensor(1, 3, N, 8), (2, 2), (2, 2)), "Tensor[(1, 3, n//2, 4), float32]"),
        (op.image.resize2d(tensor(N, 3, 4, 4), (M, 2 * M)), "Tensor[(n, 3, m, 2*m), float32]"),
        (op.nn.upsampling(tensor(1, 3, N, 4), 2, 2), "Tensor[(1, 3, 2*n, 8), float32]"),
        (op.nn.space_to_depth(tensor(1, 2, N, 4), 2), "Tensor[(1, 8, n//2, 2), float32]"),
    ],
)
def test_operators_compute_with_variables(call: Var, text: str) -> None:
    assert result_type(call) == text


def test_symbolic_size_has_a_type_but_no_value() -> None:
    x = var("x", shape=(1, 1, 2, 2))
    call = op.image.resize2d(x, (N, 3))
    assert result_type(call) == "Tensor[(1, 1, n, 3), float32]"


@given(expressions())
def test_texts_keep_symbolic_dimensions(drawn: tuple[Dim, Mapping[ShapeVar, int], Dim]) -> None:
    dim = drawn[0]
    assume(not isinstance(dim, int) or dim >= 0)
    x = Var("x", TensorType((dim, N, M)))
    mod = infer_module(IRModule.from_expr(Function([x], op.exp(x))))
    for back in (parse(mod.astext()), load_json(save_json(mod))):
        assert isinstance(back, IRModule)
        assert structural_equal(back, mod)
        assert str(back["main"].params[0].type_annotation) == str(x.type_annotation)


def test_zero_divisor_in_json_raises() -> None:
    text = save_json(TensorType((N // 2,))).replace('"value": "2"', '"value": "0"')
    with pytest.raises(SerializationError, match="a dimension is divided by zero"):
        load_json(text)
