"""Recurrent networks, unrolled: one copy of the cell for each step of the sequence."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, Protocol, TypeAlias

from apass.relay import op
from apass.relay.expr import Expr
from apass.relay.frontend.onnx.convert.activation import softplus_of
from apass.relay.frontend.onnx.convert.arithmetic import bounded
from apass.relay.frontend.onnx.convert.indexing import sliced
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.make import const
from apass.relay.op import nn

__all__ = ["TABLE"]

Function: TypeAlias = Callable[[Expr], Expr]
"""An activation function."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What one direction of a recurrent layer computes with."""

    recurrent: Expr
    """The matrix that the state is multiplied by, a row for each gate of each neuron."""
    biases: Sequence[Expr] | None
    """The bias of the input and that of the state; None if there are none."""
    peepholes: Sequence[Expr] | None
    """For an LSTM: the factors that the cell is let through by, to the gates i, o, f."""
    functions: Sequence[Function]
    """The activation functions."""


class Cell(Protocol):
    """One step of a recurrent layer."""

    def __call__(self, node: Node, weights: Weights, given: Expr, states: Sequence[Expr]) -> Sequence[Expr]:
        """Return the states after a step; `given` is the input times its matrix, and the first state is the output."""
        ...


def rnn_cell(node: Node, weights: Weights, given: Expr, states: Sequence[Expr]) -> Sequence[Expr]:
    """Return the state of a plain network."""
    return [weights.functions[0](_total(weights, given, states[0]))]


def _total(weights: Weights, given: Expr, hidden: Expr) -> Expr:
    """Return what goes into the gates."""
    return reduce(op.add, weights.biases or (), op.add(given, nn.dense(hidden, weights.recurrent)))


def lstm_cell(node: Node, weights: Weights, given: Expr, states: Sequence[Expr]) -> Sequence[Expr]:
    """Return the output and the cell of a long short-term memory."""
    hidden, cell = states
    gate, candidate, show = weights.functions
    into, out, forget, new = _gates(_total(weights, given, hidden), 4)
    if weights.peepholes is not None:
        into = op.add(into, op.multiply(weights.peepholes[0], cell))
        forget = op.add(forget, op.multiply(weights.peepholes[2], cell))
    opened = gate(into)
    is_coupled = bool(node.integer("input_forget", 0))
    kept = op.subtract(node.constant(1, opened), opened) if is_coupled else gate(forget)
    made = op.add(op.multiply(kept, cell), op.multiply(opened, candidate(new)))
    if weights.peepholes is not None:
        out = op.add(out, op.multiply(weights.peepholes[1], made))
    return [op.multiply(gate(out), show(made)), made]


def _gates(total: Expr, count: int) -> list[Expr]:
    return list(op.split(total, count, axis=1))


def gru_cell(node: Node, weights: Weights, given: Expr, states: Sequence[Expr]) -> Sequence[Expr]:
    """Return the state of a gated recurrent unit."""
    hidden = states[0]
    gate, candidate = weights.functions
    size = node.integer("hidden_size")
    if weights.biases is not None:
        given = op.add(given, weights.biases[0])
    update_in, reset_in, new_in = op.split(given, 3, axis=1)
    matrices = [sliced(node, weights.recurrent, [begin], [end], [0], None) for begin, end in _thirds(size)]
    biases = None if weights.biases is None else op.split(weights.biases[1], 3, axis=0)

    def recalled(state: Expr, which: int) -> Expr:
        made = nn.dense(state, matrices[which])
        return made if biases is None else op.add(made, biases[which])

    update = gate(op.add(update_in, recalled(hidden, 0)))
    reset = gate(op.add(reset_in, recalled(hidden, 1)))
    is_linear_first = bool(node.integer("linear_before_reset", 0))
    old = op.multiply(reset, recalled(hidden, 2)) if is_linear_first else recalled(op.multiply(reset, hidden), 2)
    fresh = op.multiply(op.subtract(node.constant(1, update), update), candidate(op.add(new_in, old)))
    return [op.add(fresh, op.multiply(update, hidden))]


def _thirds(size: int) -> Iterator[tuple[int, int]]:
    return ((size * which, size * (which + 1)) for which in range(3))


@dataclass(frozen=True, slots=True)
class Layer:
    """A kind of recurrent layer."""

    cell: Cell
    """One step of it."""
    functions: tuple[str, ...]
    """The activation functions of one direction, unless a node names others."""
    states: int
    """How many states it has; the initial ones are inputs from number 5 on."""

    def __call__(self, node: Node) -> Sequence[Expr]:
        """Return the outputs of all steps, and the last states."""
        if "clip" in node.attributes:
            raise node.unsupported("it clips what goes into its activation functions")
        is_batch_first = bool(node.integer("layout", 0))
        sequence = op.transpose(node[0], axes=(1, 0, 2)) if is_batch_first else node[0]
        ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[
            node.text("direction", "forward").lower()
        ]
        runs = [self._run(node, sequence, place, len(ways), is_reverse) for place, is_reverse in enumerate(ways)]
        outputs = op.stack([op.stack(steps, axis=0) for steps, _ in runs], axis=1)
        lasts = [op.stack([states[which] for _, states in runs], axis=0) for which in range(self.states)]
        if not is_batch_first:
            return [outputs, *lasts]
        return [op.transpose(outputs, axes=(2, 0, 1, 3)), *(op.transpose(one, axes=(1, 0, 2)) for one in lasts)]

    def _run(
        self, node: Node, sequence: Expr, place: int, ways: int, is_reverse: bool
    ) -> tuple[list[Expr], Sequence[Expr]]:
        """Return the outputs of all steps and the last states of one direction."""
        length, batch, _ = node.static_shape(sequence)
        weights = self._weights(node, place, ways)
        given = nn.dense(sequence, _part(node, node[1], place))
        states = [self._initial(node, 5 + which, place, batch) for which in range(self.states)]
        lengths = node.get(4)
        outputs: list[Expr] = []
        for step in reversed(range(length)) if is_reverse else range(length):
            new = self.cell(node, weights, _part(node, given, step), states)
            output = new[0]
            if lengths is not None and not _lasts(node, lengths, length):
                is_on = op.expand_dims(op.less(node.constant(step, lengths), lengths), axis=1)
                output = op.where(is_on, output, node.constant(0, output))
                new = [op.where(is_on, after, before) for after, before in zip(new, states, strict=True)]
            outputs.append(output)
            states = list(new)
        return outputs[::-1] if is_reverse else outputs, states

    def _weights(self, node: Node, place: int, ways: int) -> Weights:
        bias, peephole = node.get(3), node.get(7)
        halves = None if bias is None else op.split(_part(node, bias, place), 2, axis=0)
        thirds = None if peephole is None else op.split(_part(node, peephole, place), 3, axis=0)
        return Weights(
            _part(node, node[2], place),
            None if halves is None else list(halves),
            None if thirds is None else list(thirds),
            self._functions(node, place, ways),
        )

    def _initial(self, node: Node, index: int, place: int, batch: int) -> Expr:
        given = node.get(index)
        if given is None:
            zero = const(0, node.dtype(node[0]))
            return op.full(zero, (batch, node.static_dim(node[2], 2)), node.dtype(node[0]))
        if node.integer("layout", 0):
            given = op.transpose(given, axes=(1, 0, 2))
        return _part(node, given, place)

    def _functions(self, node: Node, place: int, ways: int) -> Sequence[Function]:
        """Return the activation functions of a direction; their numbers are listed in the order of their use."""
        names = node.texts("activations") or self.functions * ways
        alphas, betas = (iter(node.numbers(name) or ()) for name in ("activation_alpha", "activation_beta"))
        made = [_activation(node, name.lower(), alphas, betas) for name in names]
        count = len(self.functions)
        return made[place * count : (place + 1) * count]


def _part(node: Node, data: Expr, place: int) -> Expr:
    """Return one entry of the first axis."""
    return op.squeeze(sliced(node, data, [place], [place + 1], [0], None), axis=[0])


def _lasts(node: Node, lengths: Expr, length: int) -> bool:
    """Tell whether it is known that all sequences are as long as they can be."""
    known = node.known(lengths)
    return known is not None and bool((known == length).all())


DEFAULTS: Final[dict[str, tuple[float | None, float | None]]] = {
    "affine": (1.0, 0.0),
    "leakyrelu": (0.01, None),
    "thresholdedrelu": (1.0, None),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, None),
}
"""The numbers alpha and beta of those functions that have them."""


def _activation(node: Node, name: str, alphas: Iterator[float], betas: Iterator[float]) -> Function:
    """Return an activation function by its name in small letters."""
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
        raise node.unsupported(f"its activation function {name!r} is not one that ONNX defines")
    return functions[name]


TABLE: Final[Table] = {
    ("", "GRU", 1): Layer(gru_cell, ("Sigmoid", "Tanh"), 1),
    ("", "LSTM", 1): Layer(lstm_cell, ("Sigmoid", "Tanh", "Tanh"), 2),
    ("", "RNN", 1): Layer(rnn_cell, ("Tanh",), 1),
}
"""The converters of this module."""
