"""Models of onnx's test data, imported, optimized, exported, and run again.

`python -m tests.relay.backend.round_trips` checks all of them and prints how many are equal.
"""

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any, cast

import numpy as np
import onnx
from onnx.numpy_helper import to_array, to_list
from onnx.reference import ReferenceEvaluator

from apass.relay.backend import to_onnx
from apass.relay.backend.onnx.model import OPSET
from apass.relay.backend.onnx.session import with_plain_types
from apass.relay.errors import OpNotImplementedError
from apass.relay.frontend import from_onnx
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import Array
from apass.relay.transform.default import Default
from apass.relay.transform.support.run_for_tests import run_on
from examples.optimize_onnx_corpus import DATA
from tests.helpers.onnx_node_cases import node_cases
from tests.relay.frontend.node_cases import CaseValue, plain_value, value_differences, with_constants

__all__ = ["Model", "Report", "Verdict", "check_model", "models", "run_model"]

onnxruntime: Any = import_module("onnxruntime")
checker: Any = onnx.checker

TOLERANCES = {"bfloat16": 2e-2, "float16": 1e-2}
"""Relative tolerances of types of 16 bits, whose operators round differently in each engine."""

Values = list[CaseValue]


class Verdict(Enum):
    """The outcome of a round trip."""

    EQUAL = "outputs equal in both engines"
    NOT_IMPORTED = "not imported"
    NOT_EXPORTED = "imported, but not exported"
    INVALID = "exported, but the checker has errors"
    REFERENCE = "outputs wrong in the reference evaluator"
    RUNTIME = "outputs wrong in onnxruntime"
    NOT_RUN = "onnxruntime lacks an operator or type, also of the original"


@dataclass(frozen=True, slots=True)
class Model:
    """A model with inputs and the outputs of the original."""

    name: str
    proto: onnx.ModelProto
    data: Sequence[tuple[Values, Values]]
    rtol: float = 1e-3
    atol: float = 1e-5


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on one model."""

    name: str
    verdict: Verdict
    reason: str = ""


@cache
def models() -> tuple[Model, ...]:
    """Return all models of onnx's test data but the light ones."""
    return (*_generated(), *_stored())


def _generated() -> Iterator[Model]:
    for case in node_cases():
        assert case.model is not None
        data = [
            ([plain_value(value) for value in inputs], [plain_value(value) for value in outputs])
            for inputs, outputs in case.data_sets or ()
        ]
        yield Model(case.name, case.model, data, max(case.rtol, 1e-3), max(case.atol, 1e-5))


def _stored() -> Iterator[Model]:
    for path in sorted(DATA.glob("*/*/model.onnx")):
        proto = onnx.ModelProto.FromString(path.read_bytes())
        folders = sorted(path.parent.glob("test_data_set_*"))
        data = [
            tuple(
                [
                    _read(folder / f"{kind}_{index}.pb", info)
                    for index, info in enumerate(infos)
                    if (folder / f"{kind}_{index}.pb").exists()
                ]
                for kind, infos in (("input", proto.graph.input), ("output", proto.graph.output))
            )
            for folder in folders
        ]
        yield Model(f"{path.parent.parent.name}/{path.parent.name}", proto, [(pair[0], pair[1]) for pair in data])


def _read(path: Any, info: onnx.ValueInfoProto) -> CaseValue:
    if info.type.HasField("sequence_type"):
        return [np.asarray(item) for item in to_list(onnx.SequenceProto.FromString(path.read_bytes()))]
    return to_array(onnx.TensorProto.FromString(path.read_bytes()))


def check_model(model: Model) -> Report:
    """Import, optimize and export a model, and compare the outputs in both engines."""
    for inputs, expected in model.data[:1]:
        found = _imported(model.proto, inputs)
        if found is None:
            break
        mod, original, rest = found
        try:
            exported = to_onnx(run_on(Default(), mod))
        except OpNotImplementedError as error:
            return Report(model.name, Verdict.NOT_EXPORTED, str(error))
        try:
            checker.check_model(exported, full_check=True)
        except Exception as error:
            return Report(model.name, Verdict.INVALID, str(error))
        feeds = [array for value in rest for array in _flat(value)]
        wanted = [array for value in expected for array in _flat(value)]
        try:
            difference = _difference(model, _reference_outputs(exported, feeds), wanted)
        except Exception as error:
            difference = str(error)
        if difference:
            return Report(model.name, Verdict.REFERENCE, difference)
        return _run(model, exported, original, feeds, wanted)
    return Report(model.name, Verdict.NOT_IMPORTED)


def _run(
    model: Model, exported: onnx.ModelProto, original: onnx.ModelProto, feeds: Sequence[Array], wanted: Sequence[Array]
) -> Report:
    """Compare the outputs in onnxruntime."""
    try:
        outputs = run_model(with_plain_types(exported), feeds)
    except Exception as error:
        try:
            run_model(with_plain_types(original), feeds)
        except Exception:
            return Report(model.name, Verdict.NOT_RUN, str(error))
        return Report(model.name, Verdict.RUNTIME, str(error))
    difference = _difference(model, _with_types(outputs, wanted), wanted)
    return Report(model.name, Verdict.RUNTIME if difference else Verdict.EQUAL, difference)


def _with_types(outputs: Sequence[Array], wanted: Sequence[Array]) -> list[Array]:
    """Return outputs that were cast to 32 bits for numpy in the types of the model."""
    exotic = [onnx.helper.np_dtype_to_tensor_dtype(array.dtype) > onnx.TensorProto.BFLOAT16 - 1 for array in wanted]
    pairs = zip(outputs, wanted, exotic, strict=True)
    return [array.astype(like.dtype) if is_exotic else array for array, like, is_exotic in pairs]


def _imported(proto: onnx.ModelProto, inputs: Values) -> tuple[IRModule, onnx.ModelProto, Values] | None:
    """Return the module, the imported model and its inputs; None without an import."""
    for kinds in ("", "iub", "iubf"):
        try:
            original, rest = with_constants(proto, inputs, kinds) if kinds else (proto, inputs)
            mod, _ = from_onnx(original, freeze_params=True)
        except (OpNotImplementedError, ValueError):
            continue
        opsets = {entry.domain: entry.version for entry in proto.opset_import}
        main = mod["main"].with_attr(OPSET, opsets.get("", opsets.get("ai.onnx", 1)))
        return mod.with_functions({"main": main}), original, rest
    return None


def _flat(value: CaseValue) -> list[Array]:
    return [array for item in value for array in _flat(item)] if isinstance(value, list) else [value]


def _difference(model: Model, outputs: Sequence[Array], wanted: Sequence[Array]) -> str:
    rtol = max([model.rtol, *(TOLERANCES.get(array.dtype.name, 0.0) for array in wanted)])
    atol = max([model.atol, *(TOLERANCES.get(array.dtype.name, 0.0) / 10 for array in wanted)])
    return next(value_differences(list(outputs), list(wanted), rtol, atol), "")


def run_model(proto: onnx.ModelProto, feeds: Sequence[Array]) -> list[Array]:
    """Return the outputs of a model in onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    dtypes = [onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type) for info in proto.graph.input]
    weights = {tensor.name for tensor in proto.graph.initializer}
    names = [info.name for info in proto.graph.input if info.name not in weights]
    fed = {name: array.astype(dtype) for name, array, dtype in zip(names, feeds, dtypes, strict=False)}
    return [np.asarray(output) for output in session.run(None, fed)]


def _reference_outputs(proto: onnx.ModelProto, feeds: Sequence[Array]) -> list[Array]:
    names = [info.name for info in proto.graph.input]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = cast("Any", ReferenceEvaluator(proto)).run(None, dict(zip(names, feeds, strict=True)))
    return [np.asarray(output) for output in outputs]


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the selected models; return 1 if one is wrong or not exported."""
    parser = argparse.ArgumentParser(description="Export the models of onnx's test data again.")
    parser.add_argument("words", nargs="*", help="check only models whose names contain one of these words")
    options = parser.parse_args(arguments)
    chosen = [model for model in models() if not options.words or any(word in model.name for word in options.words)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reports = [check_model(model) for model in chosen]
    for report in reports:
        if report.verdict not in (Verdict.EQUAL, Verdict.NOT_IMPORTED):
            print(f"{report.name}: {report.verdict.value}: {report.reason:.200}")
    for verdict, count in Counter(report.verdict for report in reports).items():
        print(f"{count:5} {verdict.value}")
    bad = (Verdict.REFERENCE, Verdict.RUNTIME, Verdict.NOT_EXPORTED, Verdict.INVALID)
    return 1 if any(report.verdict in bad for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
