"""The node cases of ONNX, imported and evaluated: `python -m tests.relay.frontend.node_cases` says how many agree.

Every operator has cases of its own in the onnx package, with inputs and the outputs that are right for them.
"""

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, cast

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase

from apass.relay.errors import OpNotImplementedError
from apass.relay.frontend import from_onnx
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.ndarray import Array

__all__ = ["Result", "Verdict", "check_case", "node_cases"]


CaseValue: TypeAlias = Array | list["CaseValue"]
"""A tensor, or a sequence."""


class Verdict(Enum):
    """What became of a case."""

    EQUAL = "imported, outputs equal"
    WITH_CONSTANTS = "imported with inputs that decide shapes made initializers, outputs equal"
    WRONG = "imported, outputs wrong"
    NOT_COVERED = "not covered"


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on one case."""

    name: str
    verdict: Verdict
    reason: str = ""

    @property
    def is_imported(self) -> bool:
        """Whether there is a Relay module of it."""
        return self.verdict in (Verdict.EQUAL, Verdict.WITH_CONSTANTS, Verdict.WRONG)


def node_cases() -> list[TestCase]:
    """Return all cases."""
    with warnings.catch_warnings():
        # The cases are made with numpy on the edge of its domain: infinities, and casts that overflow.
        warnings.simplefilter("ignore")
        return list(collect_testcases(None))


def check_case(case: TestCase) -> Result:
    """Import a case, evaluate it on its inputs, and compare the outputs with those that are right."""
    verdict = Verdict.EQUAL
    for given, right in case.data_sets or ():
        try:
            verdict, outputs = _outputs(case, [_plain(one) for one in given])
        except OpNotImplementedError as error:
            return Result(case.name, Verdict.NOT_COVERED, str(error))
        except Exception as error:
            return Result(case.name, Verdict.WRONG, f"{type(error).__name__}: {error}")
        difference = next(_differences(outputs, [_plain(one) for one in right], case.rtol, case.atol), "")
        if difference:
            return Result(case.name, Verdict.WRONG, difference)
    return Result(case.name, verdict)


def _plain(value: object) -> CaseValue:
    """Return a value of a case, or a result of the evaluator, as arrays and lists of them."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in cast("Sequence[object]", value)]
    return np.asarray(value)


def _outputs(case: TestCase, inputs: Sequence[CaseValue]) -> tuple[Verdict, list[CaseValue]]:
    """Return how a case was imported, and what it computes."""
    assert case.model is not None
    try:
        return Verdict.EQUAL, _evaluated(case.model, inputs)
    except OpNotImplementedError as error:
        refusal = error
    # What decides a shape is a list of numbers, most often of integers.
    for kinds in ("iub", "iubf"):
        model, rest = with_constants(case.model, inputs, kinds)
        try:
            return Verdict.WITH_CONSTANTS, _evaluated(model, rest)
        except OpNotImplementedError:
            continue
    raise refusal


def with_constants(
    model: onnx.ModelProto, inputs: Sequence[CaseValue], kinds: str
) -> tuple[onnx.ModelProto, list[CaseValue]]:
    """Return a model whose inputs without more than one dimension are initializers, and the inputs that it still has.

    `kinds` says of which kinds their elements have to be, in numpy's letters.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    rest: list[CaseValue] = []
    for info, value in zip(model.graph.input, inputs, strict=True):
        if not isinstance(value, list) and value.ndim <= 1 and value.dtype.kind in kinds:
            made.graph.initializer.append(numpy_helper.from_array(value, info.name))
        else:
            rest.append(value)
    return made, rest


def _evaluated(model: onnx.ModelProto, inputs: Sequence[CaseValue]) -> list[CaseValue]:
    mod, params = from_onnx(model)
    with np.errstate(all="ignore"):
        result = evaluate(mod, *inputs, *params.values())
    results = result if isinstance(result, tuple) and len(model.graph.output) > 1 else (result,)
    return [_plain(one) for one in results]


def _differences(made: Sequence[CaseValue], right: Sequence[CaseValue], rtol: float, atol: float) -> Iterator[str]:
    if len(made) != len(right):
        yield f"there are {len(made)} outputs, not {len(right)}"
        return
    for place, (one, other) in enumerate(zip(made, right, strict=True)):
        if isinstance(one, list) and isinstance(other, list):
            yield from _differences(one, other, rtol, atol)
        elif isinstance(one, list) or isinstance(other, list):
            yield f"output {place} is {type(one).__name__}, not {type(other).__name__}"
        elif (one.shape, one.dtype) != (other.shape, other.dtype):
            yield f"output {place} is {one.dtype}{list(one.shape)}, not {other.dtype}{list(other.shape)}"
        elif not _are_near(one, other, rtol, atol):
            yield f"output {place} is {_short(one)}, not {_short(other)}"


def _are_near(one: Array, other: Array, rtol: float, atol: float) -> bool:
    if one.dtype.kind in "biu":
        return bool(np.array_equal(one, other))
    kind = np.complex128 if one.dtype.kind == "c" else np.float64
    return bool(np.allclose(one.astype(kind), other.astype(kind), rtol=rtol, atol=atol, equal_nan=True))


def _short(array: Array) -> str:
    return str(array.reshape(-1)[:8]).replace("\n", " ")


def show(results: Sequence[Result]) -> None:
    """Print how many cases came out how, why some are not covered, and all that are wrong."""
    counts = Counter(one.verdict for one in results)
    print(f"{len(results)} cases, {sum(one.is_imported for one in results)} imported")
    for verdict in Verdict:
        print(f"{counts[verdict]:5} {verdict.value}")
    for one in results:
        if one.verdict is Verdict.WRONG:
            print(f"{one.verdict.value}: {one.name}: {one.reason}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Check all cases, or those whose names contain a word; return 1 if one is wrong."""
    parser = argparse.ArgumentParser(description="Import and evaluate the node cases of ONNX.")
    parser.add_argument("words", nargs="*", help="only cases with one of these in the name")
    parser.add_argument("--list", action="store_true", help="list the cases that are not covered, with the reasons")
    given = parser.parse_args(arguments)
    cases = [one for one in node_cases() if not given.words or any(word in one.name for word in given.words)]
    results = [check_case(one) for one in cases]
    if given.list:
        for one in results:
            if one.verdict is Verdict.NOT_COVERED:
                print(f"{one.name}: {one.reason}")
    show(results)
    return 1 if any(one.verdict is Verdict.WRONG for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
