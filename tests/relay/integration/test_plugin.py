"""The `IRPlugin` of Relay: the comparison of outputs."""

from apass import relay
from apass.core.ir_plugin import IRPlugin
from apass.plugins import Comparison
from apass.relay.integration.plugin import PLUGIN
from tests.helpers.rows import row


def compared(before: str, after: str, params: str = "%x: Tensor[(4), float32]") -> Comparison:
    """Return the comparison of two bodies."""
    mods = [relay.parse(f'#[version = "0.0.5"]\ndef @main({params}) {{ {body} }}\n') for body in (before, after)]
    plugin: IRPlugin[relay.IRModule] = PLUGIN
    assert plugin.compare_outputs is not None
    comparison = plugin.compare_outputs(*mods)
    assert isinstance(comparison, Comparison)
    return comparison


def test_other_inputs_are_tried_if_results_show_little() -> None:
    # With numbers around 0, both results are 0 everywhere.
    found = compared("nn.relu(subtract(%x, 50f))", "nn.relu(subtract(add(%x, %x), 50f))")
    assert found.changed
    assert found.text.startswith("outputs changed: with large inputs, the result differs by up to ")
    assert compared("nn.relu(subtract(%x, 50f))", "nn.relu(add(-50f, %x))") == Comparison(False, "outputs equal")
    # 100 is no index.
    taken = 'take(%x, cast(multiply(abs(%x), 0.9f), dtype="int32"), mode="fast")'
    assert not compared(f"zeros_like({taken})", f"zeros_like({taken})").changed
    # Integers are drawn anew.
    assert compared("sum(%n)", "sum(%n)", "%n: Tensor[(4), int32]") == Comparison(False, "outputs equal")


def test_results_that_never_vary_show_little() -> None:
    rows = {
        "multiply(%x, 0f)": "the result has the same value 0 in all elements",
        "exp(subtract(%x, %x))": "the result has the same value 1 in all elements",
        "sqrt(subtract(-1f, abs(%x)))": "the result has the same value nan in all elements",
        "(%x, strided_slice(%x, begin=[0], end=[0], strides=[1]))": "the result.1 has no elements",
    }
    for body, reason in rows.items():
        with row(body):
            comparison = compared(body, body)
            assert not comparison.changed
            assert comparison.text.startswith(f"outputs equal: {reason}")
            assert comparison.text.endswith(", which shows little")
    # Without parameters there is one result, which shows all.
    assert (
        compared('zeros(shape=[2], dtype="float32")', 'zeros(shape=[2], dtype="float32")', "").text == "outputs equal"
    )
