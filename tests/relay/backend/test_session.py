"""`create_executor("onnxruntime")`: functions run with onnxruntime."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from apass import relay
from apass.errors import MissingExtraError
from apass.relay.backend.onnx import session
from apass.relay.backend.onnx.session import OnnxRuntimeExecutor
from apass.relay.errors import EvaluationError, OpNotImplementedError
from apass.relay.expr import GlobalVar, Tuple
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference, random_arguments
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray

X, Y = var("x", shape=(2,)), var("y", shape=(2,))
ONE_TWO = np.array([1, 2], "float32")
SUM = Function([X, Y], relay.add(X, relay.multiply(Y, Y)))


def call(func: object, *args: object, **params: object) -> Any:
    assert callable(func)
    return func(*args, **params)


def test_function_is_called_as_with_other_executors() -> None:
    func = relay.create_executor("onnxruntime", IRModule.from_expr(SUM)).evaluate()
    results = [call(func, ONE_TWO, ONE_TWO), call(func, ONE_TWO, y=[1.0, 2.0])]
    assert [(type(result), result.numpy().tolist()) for result in results] == [(NDArray, [2.0, 6.0])] * 2


def test_params_expressions_and_bindings_are_evaluated() -> None:
    mod = IRModule.from_expr(SUM)
    executor = relay.create_executor("onnxruntime", mod, params={"y": ONE_TWO})
    assert call(executor.evaluate(), ONE_TWO).numpy().tolist() == [2, 6]
    assert call(executor.evaluate(GlobalVar("main")), ONE_TWO).numpy().tolist() == [2, 6]
    bound: Any = executor.evaluate(relay.add(X, const(1.0)), {X: ONE_TWO})
    assert bound.numpy().tolist() == [2, 3]


def test_result_has_the_tuples_of_its_type() -> None:
    func = Function([X], Tuple([Tuple([relay.exp(X)]), relay.argmax(X)]))
    (first,), second = call(relay.create_executor("onnxruntime").evaluate(func), ONE_TWO)
    np.testing.assert_allclose(first, np.exp(ONE_TWO), rtol=1e-6)
    assert (second.dtype, int(second)) == (np.int32, 1)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float16"])
def test_types_that_onnxruntime_does_not_exchange_are_kept(dtype: str) -> None:
    data = var("x", shape=(2,), dtype=dtype)
    func = relay.create_executor("onnxruntime").evaluate(Function([data], relay.add(data, data)))
    result = call(func, ONE_TWO.astype(np.dtype(dtype)))
    assert (result.dtype, result.astype("float32").tolist()) == (np.dtype(dtype), [2, 4])
    assert ml_dtypes.bfloat16 is not None


def test_session_is_loaded_once_until_module_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[object] = []
    make = session.Session.of

    def counted(model: Any) -> session.Session:
        loaded.append(model)
        return make(model)

    monkeypatch.setattr(session.Session, "of", counted)
    mod = IRModule({"twice": Function([Y], relay.add(Y, Y))})
    mod["main"] = Function([X], mod.get_global_var("twice")(X))
    executor = relay.create_executor("onnxruntime", mod)
    results = [call(executor.evaluate(), ONE_TWO) for _ in range(3)]
    mod["twice"] = Function([Y], relay.multiply(Y, Y))
    results.append(call(executor.evaluate(), ONE_TWO))
    assert [result.numpy().tolist() for result in results] == [[2, 4], [2, 4], [2, 4], [1, 4]]
    assert len(loaded) == 2


@pytest.mark.parametrize(
    ("args", "params", "message"),
    [
        ((ONE_TWO,), {}, "no argument for y"),
        ((ONE_TWO, ONE_TWO, ONE_TWO), {}, "requires 2 arguments, got 3"),
        ((np.ones(3, "float32"), ONE_TWO), {}, r"argument x must be of type Tensor\[\(2\), float32\]"),
        ((ONE_TWO,), {"z": 1}, "'z' is not a remaining parameter"),
    ],
)
def test_wrong_arguments_are_errors(args: tuple[Any, ...], params: dict[str, Any], message: str) -> None:
    func = relay.create_executor("onnxruntime", IRModule.from_expr(SUM)).evaluate()
    with pytest.raises(EvaluationError, match=message):
        call(func, *args, **params)


def test_function_without_onnx_form_is_an_error() -> None:
    func = relay.create_executor("onnxruntime").evaluate(Function([X], relay.op.debug(X)))
    with pytest.raises(OpNotImplementedError, match="to_onnx has no form for 1 operators: debug"):
        call(func, ONE_TWO)


def test_program_that_onnxruntime_lacks_is_an_error() -> None:
    data = var("x", shape=(2,), dtype="float64")
    func = relay.create_executor("onnxruntime").evaluate(Function([data], relay.tan(data)))
    with pytest.raises(EvaluationError, match=r"onnxruntime cannot load the program: .*NOT_IMPLEMENTED"):
        call(func, ONE_TWO.astype("float64"))


def test_missing_onnxruntime_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(session, "import_module", fail)
    with pytest.raises(MissingExtraError, match=r"needs onnxruntime .*: pip install 'apass\[onnx,runtime\]'"):
        OnnxRuntimeExecutor(IRModule())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mlp", {"image_shape": (1, 8, 8)}),
        ("lenet", {"image_shape": (1, 28, 28)}),
        ("mobilenet", {"image_shape": (3, 32, 32)}),
        ("resnet", {"num_layers": 18, "image_shape": (3, 32, 32)}),
        ("squeezenet", {"image_shape": (3, 64, 64)}),
        ("dqn", {}),
        ("dcgan", {}),
    ],
)
def test_networks_have_outputs_of_the_evaluator(name: str, options: dict[str, Any]) -> None:
    get_workload: Any = getattr(relay.testing, name).get_workload
    mod, params = get_workload(batch_size=1, **options)
    args = random_arguments(Function(mod["main"].params[:1], mod["main"].body))
    results = [call(relay.create_executor(kind, mod).evaluate(), *args, **params) for kind in ("debug", "onnxruntime")]
    assert difference(*results) == ""
