"""The node test cases of ONNX, imported and evaluated.

`python -m tests.relay.frontend.node_cases` prints how many pass. The onnx package has cases for every operator, with
inputs and expected outputs.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, cast

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase

from apass.relay.errors import OpNotImplementedError
from apass.relay.frontend import from_onnx
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.ndarray import Array
from tests.helpers.onnx_node_cases import node_cases

__all__ = [
    "CaseValue",
    "Result",
    "Verdict",
    "check_case",
    "plain_value",
    "value_differences",
    "with_constants",
]


CaseValue: TypeAlias = Array | list["CaseValue"]
"""A tensor, or a sequence."""


class Verdict(Enum):
    """The outcome of a case."""

    EQUAL = "imported, outputs equal"
    WITH_CONSTANTS = "imported with shape inputs as initializers, outputs equal"
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
        """Whether the import succeeded."""
        return self.verdict in (Verdict.EQUAL, Verdict.WITH_CONSTANTS, Verdict.WRONG)


def check_case(case: TestCase) -> Result:
    """Import a case, evaluate it, and compare the outputs with the expected ones."""
    verdict = Verdict.EQUAL
    for inputs, expected in case.data_sets or ():
        try:
            verdict, outputs = _outputs(case, [plain_value(value) for value in inputs])
        except OpNotImplementedError as error:
            return Result(case.name, Verdict.NOT_COVERED, str(error))
        except Exception as error:
            return Result(case.name, Verdict.WRONG, f"{type(error).__name__}: {error}")
        difference = next(
            value_differences(outputs, [plain_value(value) for value in expected], case.rtol, case.atol), ""
        )
        if difference:
            return Result(case.name, Verdict.WRONG, difference)
    return Result(case.name, verdict)


def plain_value(value: object) -> CaseValue:
    """Return a value of a case or of the evaluator as arrays and lists of arrays."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list | tuple):
        return [plain_value(element) for element in cast("Sequence[object]", value)]
    return np.asarray(value)


def _outputs(case: TestCase, inputs: Sequence[CaseValue]) -> tuple[Verdict, list[CaseValue]]:
    """Return the outcome of the import and the computed outputs."""
    assert case.model is not None
    try:
        return Verdict.EQUAL, _evaluate(case.model, inputs)
    except OpNotImplementedError as error:
        import_error = error
    # Inputs that determine shapes are vectors, usually of integers. Try them as initializers.
    for kinds in ("iub", "iubf"):
        model, rest = with_constants(case.model, inputs, kinds)
        try:
            return Verdict.WITH_CONSTANTS, _evaluate(model, rest)
        except OpNotImplementedError:
            continue
    raise import_error


def with_constants(
    model: onnx.ModelProto, inputs: Sequence[CaseValue], kinds: str
) -> tuple[onnx.ModelProto, list[CaseValue]]:
    """Return a model with scalar and vector inputs as initializers, and other inputs.

    `kinds` are the kinds of element types that are converted, as numpy's letters.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    rest: list[CaseValue] = []
    for info, value in zip(model.graph.input, inputs, strict=True):
        if not isinstance(value, list) and value.ndim <= 1 and value.dtype.kind in kinds:
            result.graph.initializer.append(numpy_helper.from_array(value, info.name))
        else:
            rest.append(value)
    return result, rest


def _evaluate(model: onnx.ModelProto, inputs: Sequence[CaseValue]) -> list[CaseValue]:
    mod, params = from_onnx(model)
    with np.errstate(all="ignore"):
        result = evaluate(mod, *inputs, *params.values())
    results = result if isinstance(result, tuple) and len(model.graph.output) > 1 else (result,)
    return [plain_value(value) for value in results]


def value_differences(
    outputs: Sequence[CaseValue], expected: Sequence[CaseValue], rtol: float, atol: float
) -> Iterator[str]:
    if len(outputs) != len(expected):
        yield f"there are {len(outputs)} outputs, not {len(expected)}"
        return
    for index, (left, right) in enumerate(zip(outputs, expected, strict=True)):
        if isinstance(left, list) and isinstance(right, list):
            yield from value_differences(left, right, rtol, atol)
        elif isinstance(left, list) or isinstance(right, list):
            yield f"output {index} is {type(left).__name__}, not {type(right).__name__}"
        elif (left.shape, left.dtype) != (right.shape, right.dtype):
            yield f"output {index} is {left.dtype}{list(left.shape)}, not {right.dtype}{list(right.shape)}"
        elif not _are_near(left, right, rtol, atol):
            yield f"output {index} is {_short(left)}, not {_short(right)}"


def _are_near(left: Array, right: Array, rtol: float, atol: float) -> bool:
    if left.dtype.kind in "biu":
        return bool(np.array_equal(left, right))
    kind = np.complex128 if left.dtype.kind == "c" else np.float64
    return bool(np.allclose(left.astype(kind), right.astype(kind), rtol=rtol, atol=atol, equal_nan=True))


def _short(array: Array) -> str:
    return str(array.reshape(-1)[:8]).replace("\n", " ")


def show(results: Sequence[Result]) -> None:
    """Print the number of cases for each verdict, and all wrong cases."""
    counts = Counter(result.verdict for result in results)
    print(f"{len(results)} cases, {sum(result.is_imported for result in results)} imported")
    for verdict in Verdict:
        print(f"{counts[verdict]:5} {verdict.value}")
    for result in results:
        if result.verdict is Verdict.WRONG:
            print(f"{result.verdict.value}: {result.name}: {result.reason}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the selected cases; return 1 if an output is wrong."""
    parser = argparse.ArgumentParser(description="Import and evaluate the node cases of ONNX.")
    parser.add_argument("words", nargs="*", help="check only cases whose names contain one of these words")
    parser.add_argument("--list", action="store_true", help="list the cases that are not covered, with reasons")
    options = parser.parse_args(arguments)
    cases = [case for case in node_cases() if not options.words or any(word in case.name for word in options.words)]
    results = [check_case(case) for case in cases]
    if options.list:
        for result in results:
            if result.verdict is Verdict.NOT_COVERED:
                print(f"{result.name}: {result.reason}")
    show(results)
    return 1 if any(result.verdict is Verdict.WRONG for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
