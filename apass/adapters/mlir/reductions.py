"""Parts of an MLIR module that `reduce` can remove."""

from collections.abc import Iterator

from apass.adapters.mlir.module import MLIRModule
from apass.adapters.mlir.structure import Operation, declaration
from apass.util.delta_debugging import Shrinking

__all__ = ["shrinkings"]


def shrinkings(mod: MLIRModule) -> Iterator[Shrinking[MLIRModule]]:
    """Iterate over the kinds of removable parts.

    - Top-level operations.
    - Bodies of functions, which become declarations.
    """
    parts = mod.structure.parts
    operations = [index for index, part in enumerate(parts) if part.name]

    def without_operations(removed: frozenset[int]) -> MLIRModule:
        gone = {operations[number] for number in removed}
        return mod.with_parts(tuple(part for index, part in enumerate(parts) if index not in gone))

    yield Shrinking("operations of the module", len(operations), without_operations)
    bodies = [index for index, part in enumerate(parts) if part.symbol is not None and part.name == "func.func"]

    def without_bodies(removed: frozenset[int]) -> MLIRModule:
        gone = {bodies[number] for number in removed}
        return mod.with_parts(
            tuple(
                Operation(declaration(part), part.name) if index in gone else part for index, part in enumerate(parts)
            )
        )

    yield Shrinking("bodies of functions", len(bodies), without_bodies)
