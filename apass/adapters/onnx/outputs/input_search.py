"""`InputSearch`: inputs with which a model runs, found by trial."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import onnx

from apass.adapters.onnx.outputs.branches import Conditions
from apass.adapters.onnx.outputs.input_sizes import candidate_sizes
from apass.adapters.onnx.outputs.inputs import declared_inputs, random_values

__all__ = ["InputSearch"]

MAX_ELEMENTS: Final = 2**24
"""Maximum number of elements of an input, except for the first candidate."""


class InputSearch:
    """Candidates for the inputs of a model.

    Parameters:
        model: the model.
        shapes: shapes of inputs by name, in place of the declared ones.
        seed: seed of the random values.

    Raises:
        ValueError: if the type or the shape of an input is not supported, or `shapes` do not fit the model.

    """

    seconds: float = 20.0
    """After so many seconds no further candidate is tried."""

    def __init__(self, model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], seed: int) -> None:
        self._model = model
        self._infos = declared_inputs(model, shapes)
        self._seed = seed
        self._more = candidate_sizes(model, self._infos)
        self._known = [next(self._more)]
        self._first = self._values(self._known[0], narrow=False)
        self._accepted: Mapping[str, Any] | None = None

    def accept(self, inputs: Mapping[str, Any]) -> None:
        """Let later candidates begin with inputs with which the model runs."""
        self._accepted = inputs

    @cached_property
    def conditions(self) -> Conditions:
        """The conditions of the If nodes of the model."""
        return Conditions(self._model)

    def candidates(self, replaced: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Iterate over inputs, the likely ones first, with `replaced` in place of some.

        If integers of few bits are no indices, they vary more than those of the later candidates.
        """
        if self._accepted is not None:
            yield _with_numbers(self._accepted, replaced)
        yield {**self._first, **replaced}
        # Sequences have no dtype.
        kinds = {name: getattr(getattr(value, "dtype", None), "kind", "") for name, value in self._first.items()}
        integers = [name for name, kind in kinds.items() if kind in ("i", "u")]
        if integers:
            yield {**self._values(self._known[0], narrow=True), **replaced}
        for number in (1, 0) if integers else ():
            # A duration must not be 0, and an index not exceed the length of what it indexes.
            yield {**self._first, **{name: np.full_like(self._first[name], number) for name in integers}, **replaced}
        for sizes in self._sizes():
            try:
                values = random_values(self._model, self._infos, sizes, self._seed, narrow=True, limit=MAX_ELEMENTS)
            except ValueError:  # the inputs would be too large
                continue
            yield _with_numbers(values, replaced)

    def _sizes(self) -> Iterator[Mapping[str, int]]:
        """Iterate over the sizes of the dynamic dimensions, which are searched once."""
        yield from self._known
        for sizes in self._more:
            self._known.append(sizes)
            yield sizes

    def _values(self, sizes: Mapping[str, int], *, narrow: bool) -> dict[str, Any]:
        return random_values(self._model, self._infos, sizes, self._seed, narrow=narrow)


def _with_numbers(values: Mapping[str, Any], replaced: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs in which some have another number everywhere, but the same shape."""
    return {**values, **{name: np.full_like(values[name], number.flat[0]) for name, number in replaced.items()}}
