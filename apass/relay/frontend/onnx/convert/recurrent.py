"""Recurrent layers, unrolled: one copy of the cell for each step."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, Protocol, TypeAlias

from apass.relay import op
from apass.relay.frontend.onnx.convert.activation import softplus_of
from apass.relay.frontend.onnx.convert.arithmetic import bounded
from apass.relay.frontend.onnx.convert.indexing import sliced
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.ir.expr import Expr, const
from apass.relay.op import nn

__all__ = ["TABLE"]

Function: TypeAlias = Callable[[Expr], Expr]
"""An activation function."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights and activation functions of one direction of a recurrent layer."""

    recurrent: Expr
    """The recurrence matrix, one row for each gate of each neuron."""
    biases: Sequence[Expr] | None
    """The biases of the input and of the state, or None."""
    peepholes: Sequence[Expr] | None
    """The peephole weights of an LSTM for the gates i, o and f, or None."""
    functions: Sequence[Function]
    """The activation functions."""


class Cell(Protocol):
    """One step of a recurrent layer."""

    def __call__(self, node: Node, weights: Weights, inputs: Expr, states: Sequence[Expr]) -> Sequence[Expr]:
        """Return the states after a step; the first is the output.

        `inputs` are the inputs multiplied by the input matrix.
        """
        ...


def rnn_cell(node: Node, weights: Weights, inputs: Expr, states: Sequence[Expr]) -> Sequence[Expr]:
    """Return the state of a simple recurrent network."""
    return [weights.functions[0](_total(weights, inputs, states[0]))]


def _total(weights: Weights, inputs: Expr, hidden: Expr) -> Expr:
    """Return the pre-activation of all gates."""
    return reduce(op.add, weights.biases or (), op.add(inputs, nn.dense(hidden, weights.recurrent)))


def lstm_cell(node: Node, weights: Weights, inputs: Expr, states: Sequence[Expr]) -> Sequence[Expr]:
    """Return the output and the cell state of an LSTM."""
    hidden, cell = states
    gate, cell_input, cell_output = weights.functions
    gates: list[Expr] = list(op.split(_total(weights, inputs, hidden), 4, axis=1))
    i, o, f, c = gates
    if weights.peepholes is not None:
        i = op.add(i, op.multiply(weights.peepholes[0], cell))
        f = op.add(f, op.multiply(weights.peepholes[2], cell))
    input_gate = gate(i)
    is_coupled = bool(node.integer("input_forget", 0))
    forget_gate = op.subtract(node.constant(1, input_gate), input_gate) if is_coupled else gate(f)
    new_cell = op.add(op.multiply(forget_gate, cell), op.multiply(input_gate, cell_input(c)))
    if weights.peepholes is not None:
        o = op.add(o, op.multiply(weights.peepholes[1], new_cell))
    return [op.multiply(gate(o), cell_output(new_cell)), new_cell]


def gru_cell(node: Node, weights: Weights, inputs: Expr, states: Sequence[Expr]) -> Sequence[Expr]:
    """Return the state of a GRU."""
    hidden = states[0]
    gate, candidate = weights.functions
    size = node.integer("hidden_size")
    if weights.biases is not None:
        inputs = op.add(inputs, weights.biases[0])
    update_in, reset_in, new_in = op.split(inputs, 3, axis=1)
    matrices = [sliced(node, weights.recurrent, [begin], [end], [0], None) for begin, end in _thirds(size)]
    biases = None if weights.biases is None else op.split(weights.biases[1], 3, axis=0)

    def recurrence(state: Expr, gate_index: int) -> Expr:
        total = nn.dense(state, matrices[gate_index])
        return total if biases is None else op.add(total, biases[gate_index])

    update = gate(op.add(update_in, recurrence(hidden, 0)))
    reset = gate(op.add(reset_in, recurrence(hidden, 1)))
    is_linear_first = bool(node.integer("linear_before_reset", 0))
    old = op.multiply(reset, recurrence(hidden, 2)) if is_linear_first else recurrence(op.multiply(reset, hidden), 2)
    new = op.multiply(op.subtract(node.constant(1, update), update), candidate(op.add(new_in, old)))
    return [op.add(new, op.multiply(update, hidden))]


def _thirds(size: int) -> Iterator[tuple[int, int]]:
    return ((size * index, size * (index + 1)) for index in range(3))


@dataclass(frozen=True, slots=True)
class Layer:
    """A kind of recurrent layer."""

    cell: Cell
    """The computation of one step."""
    functions: tuple[str, ...]
    """The default activation functions of one direction."""
    states: int
    """The number of states; their initial values are inputs from index 5."""

    def __call__(self, node: Node) -> Sequence[Expr]:
        """Return the outputs of all steps, and the final states."""
        if "clip" in node.attributes:
            raise node.unsupported("attribute 'clip' is not supported")
        is_batch_first = bool(node.integer("layout", 0))
        sequence = op.transpose(node[0], axes=(1, 0, 2)) if is_batch_first else node[0]
        directions = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[
            node.text("direction", "forward").lower()
        ]
        runs = [
            self._run(node, sequence, index, len(directions), is_reverse) for index, is_reverse in enumerate(directions)
        ]
        outputs = op.stack([op.stack(steps, axis=0) for steps, _ in runs], axis=1)
        final = [op.stack([states[index] for _, states in runs], axis=0) for index in range(self.states)]
        if not is_batch_first:
            return [outputs, *final]
        return [op.transpose(outputs, axes=(2, 0, 1, 3)), *(op.transpose(state, axes=(1, 0, 2)) for state in final)]

    def _run(
        self, node: Node, sequence: Expr, direction: int, directions: int, is_reverse: bool
    ) -> tuple[list[Expr], Sequence[Expr]]:
        """Return the outputs of all steps and the final states of one direction."""
        length, batch, _ = node.static_shape(sequence)
        weights = self._weights(node, direction, directions)
        inputs = nn.dense(sequence, _part(node, node[1], direction))
        states = [self._initial(node, 5 + index, direction, batch) for index in range(self.states)]
        lengths = node.get(4)
        outputs: list[Expr] = []
        for step in reversed(range(length)) if is_reverse else range(length):
            new = self.cell(node, weights, _part(node, inputs, step), states)
            output = new[0]
            if lengths is not None and not _are_full(node, lengths, length):
                # After the end of a sequence, the output is 0 and the states stay.
                is_active = op.expand_dims(op.less(node.constant(step, lengths), lengths), axis=1)
                output = op.where(is_active, output, node.constant(0, output))
                new = [op.where(is_active, after, before) for after, before in zip(new, states, strict=True)]
            outputs.append(output)
            states = list(new)
        return outputs[::-1] if is_reverse else outputs, states

    def _weights(self, node: Node, direction: int, directions: int) -> Weights:
        bias, peephole = node.get(3), node.get(7)
        halves = None if bias is None else op.split(_part(node, bias, direction), 2, axis=0)
        thirds = None if peephole is None else op.split(_part(node, peephole, direction), 3, axis=0)
        return Weights(
            _part(node, node[2], direction),
            None if halves is None else list(halves),
            None if thirds is None else list(thirds),
            self._functions(node, direction, directions),
        )

    def _initial(self, node: Node, index: int, direction: int, batch: int) -> Expr:
        state = node.get(index)
        if state is None:
            zero = const(0, node.dtype(node[0]))
            return op.full(zero, (batch, node.static_dim(node[2], 2)), node.dtype(node[0]))
        if node.integer("layout", 0):
            state = op.transpose(state, axes=(1, 0, 2))
        return _part(node, state, direction)

    def _functions(self, node: Node, direction: int, directions: int) -> Sequence[Function]:
        """Return the activation functions of a direction.

        The attributes `activation_alpha` and `activation_beta` list the constants in the order of their use.
        """
        names = node.texts("activations") or self.functions * directions
        alphas, betas = (iter(node.numbers(name) or ()) for name in ("activation_alpha", "activation_beta"))
        functions = [_activation(node, name.lower(), alphas, betas) for name in names]
        count = len(self.functions)
        return functions[direction * count : (direction + 1) * count]


def _part(node: Node, data: Expr, index: int) -> Expr:
    """Return one entry of the first axis."""
    return op.squeeze(sliced(node, data, [index], [index + 1], [0], None), axis=[0])


def _are_full(node: Node, lengths: Expr, length: int) -> bool:
    """Return whether all sequences are known to have the full length."""
    value = node.constant_value(lengths)
    return value is not None and bool((value == length).all())


DEFAULTS: Final[dict[str, tuple[float | None, float | None]]] = {
    "affine": (1.0, 0.0),
    "leakyrelu": (0.01, None),
    "thresholdedrelu": (1.0, None),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, None),
}
"""The default constants alpha and beta of activation functions that have them."""


def _activation(node: Node, name: str, alphas: Iterator[float], betas: Iterator[float]) -> Function:
    """Return an activation function by its lower-case name."""
    alpha, beta = DEFAULTS.get(name, (None, None))
    a = 0.0 if alpha is None else next(alphas, alpha)
    b = 0.0 if beta is None else next(betas, beta)
    functions: dict[str, Function] = {
        "relu": nn.relu,
        "tanh": op.tanh,
        "sigmoid": op.sigmoid,
        "affine": lambda x: op.add(op.multiply(node.constant(a, x), x), node.constant(b, x)),
        "leakyrelu": lambda x: nn.leaky_relu(x, a),
        "thresholdedrelu": lambda x: op.where(op.less(x, node.constant(a, x)), node.constant(0, x), x),
        "scaledtanh": lambda x: op.multiply(node.constant(a, x), op.tanh(op.multiply(node.constant(b, x), x))),
        "hardsigmoid": lambda x: bounded(
            node, op.add(op.multiply(node.constant(a, x), x), node.constant(b, x)), 0.0, 1.0
        ),
        "elu": lambda x: op.add(
            nn.relu(x),
            op.multiply(
                node.constant(a, x),
                op.subtract(op.exp(op.minimum(x, node.constant(0, x))), node.constant(1, x)),
            ),
        ),
        "softsign": lambda x: op.divide(x, op.add(node.constant(1, x), op.abs(x))),
        "softplus": lambda x: softplus_of(node, x),
    }
    if name not in functions:
        raise node.unsupported(f"activation function {name!r} is not defined by ONNX")
    return functions[name]


TABLE: Final[Table] = {
    ("", "GRU", 1): Layer(gru_cell, ("Sigmoid", "Tanh"), 1),
    ("", "LSTM", 1): Layer(lstm_cell, ("Sigmoid", "Tanh", "Tanh"), 2),
    ("", "RNN", 1): Layer(rnn_cell, ("Tanh",), 1),
}
"""The converters of this module."""
