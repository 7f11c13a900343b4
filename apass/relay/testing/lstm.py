"""Long short-term memory, unrolled over a number of steps.

Each cell is a function.

Hochreiter and Schmidhuber, 1997.
"""

from apass.relay.ir.expr import Call, Expr, Let, Tuple, TupleGetItem, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.ty import TensorType, TupleType, Type
from apass.relay.ir.variables import free_vars
from apass.relay.op.elementwise.arithmetic import add, multiply
from apass.relay.op.elementwise.math import sigmoid
from apass.relay.op.elementwise.trigonometry import tanh
from apass.relay.op.shape.create import zeros
from apass.relay.op.shape.join import split
from apass.relay.testing import layers
from apass.relay.testing.init import create_workload

__all__ = ["get_net", "get_workload", "lstm_cell"]


class _Lets:
    """A builder of a chain of Lets."""

    def __init__(self) -> None:
        self.bindings: list[tuple[Var, Expr]] = []

    def let(self, name: str, ty: Type, value: Expr) -> Var:
        """Bind a value to a new variable and return the variable."""
        var = Var(name, ty)
        self.bindings.append((var, value))
        return var

    def around(self, body: Expr) -> Expr:
        """Return the chain of Lets with `body` at its end."""
        for var, value in reversed(self.bindings):
            body = Let(var, value, body)
        return body


def lstm_cell(num_hidden: int, batch_size: int = 1, dtype: str = "float32", name: str = "") -> Function:
    """Return an LSTM cell as a function.

    Its parameters are the input, the two states, and weight and bias for input and state.
    It returns the output and the tuple of new states.
    """
    state = TensorType((batch_size, num_hidden), dtype)
    gates = TensorType((batch_size, 4 * num_hidden), dtype)
    weight, bias = TensorType((4 * num_hidden, num_hidden), dtype), TensorType((4 * num_hidden,), dtype)
    inputs, states = Var("inputs", state), Var("states", TupleType([state, state]))
    i2h_weight, i2h_bias = Var("i2h_weight", weight), Var("i2h_bias", bias)
    h2h_weight, h2h_bias = Var("h2h_weight", weight), Var("h2h_bias", bias)
    lets, width = _Lets(), 4 * num_hidden
    from_input = layers.dense_add_bias(inputs, i2h_weight, i2h_bias, width, name=f"{name}i2h")
    i2h = lets.let("i2h", gates, from_input)
    from_state = layers.dense_add_bias(TupleGetItem(states, 0), h2h_weight, h2h_bias, width, name=f"{name}h2h")
    h2h = lets.let("h2h", gates, from_state)
    both = lets.let("gates", gates, add(i2h, h2h))
    result = _output(lets, both, TupleGetItem(states, 1), state)
    params = [inputs, states, i2h_weight, i2h_bias, h2h_weight, h2h_bias]
    return Function(params, lets.around(result), _cell_type(state))


def _cell_type(state: TensorType) -> TupleType:
    return TupleType([state, TupleType([state, state])])


def _output(lets: _Lets, gates: Expr, memory: Expr, state: TensorType) -> Var:
    """Return the output and new states, computed from the gates and the old memory."""
    sliced = lets.let("slice_gates", TupleType([state] * 4), split(gates, 4, axis=1).astuple())
    in_gate = lets.let("in_gate", state, sigmoid(TupleGetItem(sliced, 0)))
    forget_gate = lets.let("forget_gate", state, sigmoid(TupleGetItem(sliced, 1)))
    in_transform = lets.let("in_transform", state, tanh(TupleGetItem(sliced, 2)))
    out_gate = lets.let("out_gate", state, sigmoid(TupleGetItem(sliced, 3)))
    memory = add(multiply(forget_gate, memory), multiply(in_gate, in_transform))
    next_c = lets.let("next_c", state, memory)
    next_h = lets.let("next_h", state, multiply(out_gate, tanh(next_c)))
    return lets.let("ret", _cell_type(state), Tuple([next_h, Tuple([next_h, next_c])]))


def get_net(iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32") -> Function:
    """Return a network that runs one cell for each input and returns the last output.

    Each input is a parameter named `data`. Step 3 has the parameters `i2h_3_weight`, `h2h_3_bias`, ...

    Raises:
        ValueError: if `iterations` is less than 1.

    """
    if iterations < 1:
        raise ValueError(f"iterations must be at least 1, got {iterations}")
    state = TensorType((batch_size, num_hidden), dtype)
    kinds = {
        "weight": TensorType((4 * num_hidden, num_hidden), dtype),
        "bias": TensorType((4 * num_hidden,), dtype),
    }
    lets, pair = _Lets(), TupleType([state, state])
    zero = lets.let("zeros", state, zeros((batch_size, num_hidden), dtype))
    out, states = zero, lets.let("init_states", pair, Tuple([zero, zero]))
    for step in range(iterations):
        weights = [Var(f"{source}_{step}_{kind}", ty) for source in ("i2h", "h2h") for kind, ty in kinds.items()]
        cell = lstm_cell(num_hidden, batch_size, dtype, f"lstm_{step}")
        call = lets.let(f"call_{step}", _cell_type(state), Call(cell, [Var("data", state), states, *weights]))
        out = lets.let(f"out_{step}", state, TupleGetItem(call, 0))
        states = lets.let(f"states_{step}", pair, TupleGetItem(call, 1))
    body = lets.around(out)
    return Function(free_vars(body), body, state)


def get_workload(
    iterations: int = 1, num_hidden: int = 16, batch_size: int = 1, dtype: str = "float32"
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a typed module, and its parameters.

    Raises:
        ValueError: if `iterations` is less than 1.

    """
    return create_workload(get_net(iterations, num_hidden, batch_size, dtype))
