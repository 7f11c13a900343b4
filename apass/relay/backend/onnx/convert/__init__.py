"""The converters of Relay operators by topic, and the table of all."""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from apass.relay.backend.onnx.convert import (
    conv,
    create,
    elementwise,
    indexing,
    matmul,
    network,
    pool,
    positions,
    reduce,
    resize,
    shape,
)
from apass.relay.backend.onnx.site import Table

__all__ = ["CONVERTERS", "TOPICS"]

TOPICS: Final[Sequence[Table]] = (
    conv.TABLE,
    create.TABLE,
    elementwise.TABLE,
    indexing.TABLE,
    matmul.TABLE,
    network.TABLE,
    pool.TABLE,
    positions.TABLE,
    reduce.TABLE,
    resize.TABLE,
    shape.TABLE,
)
"""The tables of all topics."""

CONVERTERS: Final[Table] = dict(chain.from_iterable(table.items() for table in TOPICS))
"""All converters by the name of the Relay operator."""
