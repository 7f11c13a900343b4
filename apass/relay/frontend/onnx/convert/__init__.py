"""The converters of operators by topic, and their lookup."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

from apass.relay.frontend.onnx.convert import (
    activation,
    arithmetic,
    cast,
    control,
    conv,
    create,
    einsum,
    indexing,
    logic,
    matmul,
    norm,
    pool,
    quantize,
    recurrent,
    reduce,
    reshape,
    resize,
    sampling,
    scatter,
    sequence,
    signal,
)
from apass.relay.frontend.onnx.node import Converter, Table

__all__ = ["CONVERTERS", "TOPICS", "find_converter"]

TOPICS: Final[Sequence[Table]] = (
    activation.TABLE,
    arithmetic.TABLE,
    cast.TABLE,
    control.TABLE,
    conv.TABLE,
    create.TABLE,
    einsum.TABLE,
    indexing.TABLE,
    logic.TABLE,
    matmul.TABLE,
    norm.TABLE,
    pool.TABLE,
    quantize.TABLE,
    recurrent.TABLE,
    reduce.TABLE,
    reshape.TABLE,
    resize.TABLE,
    sampling.TABLE,
    scatter.TABLE,
    sequence.TABLE,
    signal.TABLE,
)
"""The tables of all topics."""

CONVERTERS: Final[Table] = dict(chain.from_iterable(table.items() for table in TOPICS))
"""All converters by domain, operator, and first operator set version."""


def _versions() -> Mapping[tuple[str, str], list[int]]:
    versions: dict[tuple[str, str], list[int]] = {}
    for domain, op_type, since in sorted(CONVERTERS):
        versions.setdefault((domain, op_type), []).append(since)
    return versions


_VERSIONS: Final = _versions()


def find_converter(domain: str, op_type: str, version: int) -> Converter | None:
    """Return the converter of an operator for an operator set version, or None."""
    versions = _VERSIONS.get((domain, op_type), ())
    since = max((candidate for candidate in versions if candidate <= version), default=None)
    return None if since is None else CONVERTERS[domain, op_type, since]
