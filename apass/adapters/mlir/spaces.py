"""Named spaces of pipelines for MLIR, over which a search goes."""

from collections.abc import Mapping
from typing import Final

from apass.adapters.mlir.catalogue import catalogue_of
from apass.adapters.mlir.passes import PREFIX
from apass.adapters.programs import MLIR_OPT
from apass.passes.registry import pass_options

__all__ = ["passes"]

LONGEST: Final = 12
"""Maximum number of passes in a sequence."""

CHOSEN: Final[Mapping[str, Mapping[str, str]]] = {
    "arith-unsigned-when-equivalent": {},
    "canonicalize": {"max_iterations": "=?1..10", "region_simplify": "=?", "top_down": "=?"},
    "control-flow-sink": {},
    "cse": {},
    "fold-memref-alias-ops": {},
    "fold-tensor-subset-ops": {},
    "inline": {"inlining_threshold": "=?1..1024:log", "max_iterations": "=?1..4"},
    "int-range-optimizations": {},
    "loop-invariant-code-motion": {},
    "loop-invariant-subset-hoisting": {},
    "mem2reg": {"region_simplify": "=?"},
    "remove-dead-values": {"canonicalize": "=?"},
    "sccp": {},
    "sroa": {},
    "symbol-dce": {},
    # Those that follow look at the operations of a few dialects.
    "affine-loop-fusion": {"maximal": "=?", "mode": "=?"},
    "affine-loop-invariant-code-motion": {},
    "affine-loop-normalize": {"promote_single_iter": "=?"},
    "affine-loop-unroll": {"unroll_factor": "=?2..8"},
    "affine-scalrep": {},
    "affine-simplify-min-max": {},
    "affine-simplify-structures": {},
    "linalg-fuse-elementwise-ops": {},
    "linalg-inline-scalar-operands": {},
    "math-sincos-fusion": {},
    "scf-for-loop-canonicalization": {},
    "scf-for-loop-peeling": {"peel_front": "=?", "skip_partial": "=?"},
    "scf-for-loop-range-folding": {},
}
"""The passes of `passes`, with the values of some options."""


def passes() -> str:
    """Return the space of sequences of passes that lower nothing.

    They keep the meaning of a module. The space has those passes and options that the installed `mlir-opt` has.

    Raises:
        MissingExtraError: if there is no `mlir-opt`.
        AdapterError: if the program lists no passes.

    """
    known = {entry.name for entry in catalogue_of(MLIR_OPT.find()).passes}
    texts = [f"{PREFIX}{name}{_holes(name, chosen)}" for name, chosen in CHOSEN.items() if name in known]
    return f"?{{1..{LONGEST}}}({'|'.join(texts)})"


def _holes(name: str, chosen: Mapping[str, str]) -> str:
    """Return the options of a pass that the program has; "" if there are none."""
    known = pass_options(f"{PREFIX}{name}")
    holes = ",".join(f"{key}{value}" for key, value in chosen.items() if key in known)
    return f"{{{holes}}}" if holes else ""
