"""Programs whose types or cases are exponentially larger than their text."""

import pytest

import apass
from apass import relay
from apass.relay.errors import ParseError, TextLimitError, TypeInferenceError
from apass.relay.integration.adapter import ADAPTER
from apass.relay.text.parsing.reader import read_module
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import levels

DEPTH = 50


def pairs(value: str, first: int = 0) -> str:
    """Return graph variables: a pair of `value`, and pairs of the variable before."""
    operands = [value, *(f"%{first + index}" for index in range(DEPTH))]
    return " ".join(f"%{first + index} = ({operand}, {operand});" for index, operand in enumerate(operands[:-1]))


LETS = "let %p = fn[A](%a: A) -> (A, A) { (%a, %a) };" + "".join(
    f" let %y{index} = %p(%{'x' if not index else f'y{index - 1}'});" for index in range(DEPTH)
)
BRANCHES = f"if (True) {{ {pairs('%x')} %49 }} else {{ {pairs('%x', 100)} %149 }}"
CALLS = "".join(f"def @f{index}(%x: float32) {{ (@f{index + 1}(%x), @f{index + 1}(%x)) }}\n" for index in range(DEPTH))
PROGRAMS = {
    "tuples": f"def @main(%x: float32) {{ {pairs('%x')} %49 }}",
    "generic function": f"def @main(%x: float32) {{ {LETS} %y{DEPTH - 1} }}",
    "branches": f"def @main(%x: float32) {{ {BRANCHES} }}",
    "functions": f"{CALLS}def @f{DEPTH}(%x: float32) {{ %x }}",
    "reference": f"def @main(%x: float32) {{ {pairs('%x')} let %r = ref(%49); ref_write(%r, %49); ref_read(%r) }}",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_types_that_share_parts_take_linear_time(text: str) -> None:
    mod = infer_module(read_module(text))
    assert relay.structural_hash(mod) == relay.structural_hash(infer_module(read_module(text)))
    ADAPTER.verify(mod)
    assert len(ADAPTER.to_text(mod)) < 10_000_000
    assert isinstance(apass.run(apass.parse_pipeline("relay.Default"), mod), relay.IRModule)
    with pytest.raises(TextLimitError, match=r"more than 2000000 characters: .*call `astext"):
        mod.astext()


def test_error_with_a_large_type_is_short() -> None:
    mod = read_module(f"def @main(%x: float32) {{ {pairs('%x')} add(%49, %49) }}")
    with pytest.raises(TypeInferenceError) as caught:
        infer_module(mod)
    assert len(str(caught.value)) < 10_000
    assert len(str(infer_module(read_module(PROGRAMS["tuples"]))["main"].ret_type)) < 2_000_000


def test_exponential_number_of_cases_is_an_error() -> None:
    clause = f"({'T, ' * 40}) => {{1}}"
    text = f"type B {{ T, F, }} def @main(%x: ({'B, ' * 40})) {{ match (%x) {{ {clause} }} }}"
    with pytest.raises(TypeInferenceError, match="more than 10000 cases to check; write `match\\?`"):
        infer_module(read_module(text))
    infer_module(read_module(text.replace("match", "match?")))


def test_type_parameters_in_scope_are_limited() -> None:
    signature = "".join(f"fn[A{index}](A{index}) -> " for index in range(1001))
    with pytest.raises(ParseError, match=r"TextLimits\.type_params"):
        read_module(f"def @main(%x: {signature}int32) {{ 1 }}")
    params = ", ".join(f"A{index}" for index in range(1000))
    read_module(f"def @main[{params}](%x: A0) {{ %x }} def @other[{params}](%x: A0) {{ %x }}")


def test_types_nested_deeply_round_trip() -> None:
    depth = levels(100_000)
    mod = read_module(f"def @main(%x: {'fn(' * depth}int32{') -> (int32,)' * depth}) {{ %x }}")
    assert ADAPTER.equal(ADAPTER.loads(ADAPTER.dumps(mod)), mod)
