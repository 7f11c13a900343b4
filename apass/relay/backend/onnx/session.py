"""`OnnxRuntimeExecutor`: runs functions with onnxruntime."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias, cast

import numpy as np
from onnx import ModelProto, TensorProto, helper

from apass.errors import MissingExtraError
from apass.relay.backend.onnx import onnx
from apass.relay.backend.onnx.element_types import elem_type
from apass.relay.backend.onnx.model import export_model, tensor_bytes
from apass.relay.errors import EvaluationError
from apass.relay.interpreter.evaluate import named_args
from apass.relay.interpreter.executor import Executor
from apass.relay.interpreter.values import Value, is_array, to_value
from apass.relay.ir.expr import Expr, GlobalVar
from apass.relay.ir.function import Function
from apass.relay.ir.map import Map
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import Array, NDArray
from apass.relay.ir.ty import FuncType, TensorType, TupleType, Type
from apass.relay.type_inference.infer import infer_function

__all__ = ["OnnxRuntimeExecutor", "Session", "with_plain_types"]

_LARGEST_MESSAGE: Final = 1 << 31
"""The size in bytes that a model in memory cannot reach."""

_PLAIN: Final = frozenset(
    elem_type(dtype)
    for dtype in (
        *("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64"),
    )
)
"""The element types that onnxruntime exchanges with numpy."""

Output: TypeAlias = NDArray | tuple["Output", ...]
"""The result of a function."""


def _runtime() -> Any:
    """Return the module onnxruntime.

    Raises:
        MissingExtraError: if it is not installed.

    """
    try:
        return import_module("onnxruntime")
    except ImportError as error:
        raise MissingExtraError(
            f"the executor 'onnxruntime' needs onnxruntime ({error}): pip install 'apass[onnx,runtime]'"
        ) from error


def with_plain_types(model: ModelProto) -> ModelProto:
    """Return a model whose inputs and outputs have types that numpy has.

    A model that has only such types is returned as it is. Floats of 8 bits, bfloat16 and integers of 4 bits are cast
    from and to 32-bit floats, which is exact.
    """
    if not any(map(_is_exotic, (*model.graph.input, *model.graph.output))):
        return model
    result = ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    before = [_cast_of(info, f"{info.name}_float", info.name) for info in graph.input if _is_exotic(info)]
    after = [_cast_of(info, info.name, f"{info.name}_float") for info in graph.output if _is_exotic(info)]
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    for info in [*graph.input, *graph.output]:
        if _is_exotic(info):
            info.name, info.type.tensor_type.elem_type = f"{info.name}_float", TensorProto.FLOAT
    return result


def _is_exotic(info: Any) -> bool:
    return info.type.tensor_type.elem_type not in _PLAIN


def _cast_of(info: Any, source: str, target: str) -> Any:
    is_input = target == info.name
    to = info.type.tensor_type.elem_type if is_input else TensorProto.FLOAT
    return helper.make_node("Cast", [source], [target], to=to)


@dataclass(frozen=True, slots=True)
class Session:
    """A function that onnxruntime has loaded."""

    runtime: Any
    """The session of onnxruntime."""
    names: Sequence[str]
    """The names of the inputs, in order."""
    dtypes: Sequence[np.dtype[Any]]
    """The element types that the inputs are fed with."""

    @classmethod
    def of(cls, model: ModelProto) -> "Session":
        """Load a model.

        Raises:
            MissingExtraError: if onnxruntime is not installed.
            EvaluationError: if onnxruntime cannot load it.

        """
        runtime = _runtime()
        plain = with_plain_types(model)
        options = runtime.SessionOptions()
        # Warnings on models are of no use to the caller; errors are raised.
        options.log_severity_level = 3
        try:
            session = _loaded(runtime, plain, options)
        except Exception as error:  # onnxruntime has no common class of its errors
            raise EvaluationError(f"onnxruntime cannot load the program: {error}") from error
        infos = plain.graph.input
        dtypes = [helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type) for info in infos]
        return cls(session, [info.name for info in infos], dtypes)

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the outputs for the inputs, in order.

        Raises:
            EvaluationError: if the execution fails.

        """
        fed = zip(self.names, arrays, self.dtypes, strict=True)
        try:
            outputs: list[Array] = self.runtime.run(
                None, {name: array.astype(dtype, copy=False) for name, array, dtype in fed}
            )
        except Exception as error:
            raise EvaluationError(f"onnxruntime cannot run the program: {error}") from error
        return outputs


def _loaded(runtime: Any, model: ModelProto, options: Any) -> Any:
    providers = ["CPUExecutionProvider"]
    if tensor_bytes(model) < _LARGEST_MESSAGE:
        return runtime.InferenceSession(model.SerializeToString(), options, providers=providers)
    save = cast("Any", onnx).save_model
    with TemporaryDirectory(prefix="apass-") as folder:
        path = Path(folder) / "model.onnx"
        save(model, str(path), save_as_external_data=True)
        return runtime.InferenceSession(str(path), options, providers=providers)


class OnnxRuntimeExecutor(Executor):
    """An executor that exports functions to ONNX, and runs them with onnxruntime.

    Each function is exported when it is first called.
    """

    def __init__(self, mod: IRModule) -> None:
        """Use the functions of `mod`, including functions added later.

        Raises:
            MissingExtraError: if onnxruntime is not installed.

        """
        super().__init__(mod)
        _runtime()
        self._sessions: dict[Function, tuple[Session, FuncType]] = {}
        self._functions: Map[GlobalVar, Expr] = Map({})

    def _run(self, func: Function, args: tuple[object, ...], params: dict[str, object]) -> object:
        session, ty = self._session(func)
        values = [*args, *named_args(func, len(args), params)]
        if len(values) != len(ty.arg_types):
            raise EvaluationError(f"the function requires {len(ty.arg_types)} arguments, got {len(values)}")
        given = zip(values, ty.arg_types, func.params, strict=True)
        checked = [to_value(value, arg_type, f"argument {param.name_hint!r}") for value, arg_type, param in given]
        outputs = session.run([array for value in checked for array in _arrays(value)])
        return _packed(ty.ret_type, iter(outputs))

    def _session(self, func: Function) -> tuple[Session, FuncType]:
        """Return the session of a function; the same one if the module has not changed."""
        functions = self.mod.functions
        if functions != self._functions:
            self._functions = functions
            self._sessions.clear()
        if func not in self._sessions:
            typed = infer_function(func, self.mod)
            ty = typed.checked_type
            assert isinstance(ty, FuncType), "a typed function has the type of a function"
            main = self.mod.with_functions({"main": typed})
            self._sessions[func] = (Session.of(export_model(main, {}, "main", None, None, None)), ty)
        return self._sessions[func]


def _arrays(value: Value) -> Iterator[Array]:
    """Iterate over the arrays of an argument."""
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, tuple):
            stack += reversed(part)
        elif is_array(part):
            yield part
        else:
            raise EvaluationError(f"an argument must be an array or a tuple of arrays, got {part!r}")


def _packed(ty: Type, outputs: Iterator[Array]) -> Output:
    """Return the value of a type whose arrays are the next ones."""
    done: list[Output] = []
    work: list[Type | int] = [ty]  # a number: join that many of the last values
    while work:
        item = work.pop()
        if isinstance(item, int):
            fields = tuple(done[len(done) - item :])
            del done[len(done) - item :]
            done.append(fields)
        elif isinstance(item, TupleType):
            work += (len(item.fields), *reversed(item.fields))
        elif isinstance(item, TensorType):
            done.append(NDArray.of(next(outputs).astype(np.dtype(item.dtype), copy=False)))
    return done[0]
