"""onnx_ir's passes in apass: meaning, inputs, options, logging, threads and load."""

import logging
import subprocess
import sys
import threading
from contextvars import copy_context
from typing import Any

import anyio
import numpy as np
import onnx_ir as ir
import onnx_ir.passes.common as library
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apass
from apass.adapters.onnx import ADAPTER
from apass.adapters.onnx.outputs import Status, compare, evaluate
from apass.adapters.onnx.passes import DEFAULT, TABLE, OnnxPass
from apass.adapters.onnx.traversal import SMALL_NODES, is_small
from apass.core.executor import STOPPED
from apass.instruments import RunSettings
from apass.passes.registry import pass_options
from apass.pipelines.parser import parse_pipeline
from tests.helpers.amounts import amount
from tests.helpers.onnx_models import chain, feeds, model_of, op_types, outputs, relu, run, spread, with_functions

Model = ir.Model
OWN = ["EvaluateConstants", "FuseNodes", "Simplify"]
NAMES = [f"onnx.{name}" for name in TABLE]


def test_all_onnx_ir_passes_are_registered_and_documented() -> None:
    expected = {f"onnx.{name.removesuffix('Pass')}" for name in library.__all__} | {f"onnx.{name}" for name in OWN}
    assert expected == set(NAMES)
    assert expected | {"onnx.Default"} <= set(apass.list_passes())
    for name in NAMES:
        entry, pass_ = TABLE[name.removeprefix("onnx.")], apass.get_pass(name)
        assert (pass_.info.name, pass_.info.opt_level, str(pass_)) == (name, entry.opt_level, name)
        assert entry.doc.endswith(".")
        assert name.removeprefix("onnx.") in DEFAULT or entry.caution


def test_default_passes_have_levels_by_cost() -> None:
    levels: dict[int, list[str]] = {}
    for name in DEFAULT:
        levels.setdefault(TABLE[name].opt_level, []).append(name)
    assert levels == {
        1: ["IdentityElimination", "RemoveUnusedNodes", "RemoveUnusedFunctions", "RemoveUnusedOpsets"],
        2: ["Inline", "Simplify", "DeduplicateInitializers", "CommonSubexpressionElimination", "Simplify"],
        3: ["DeduplicateHashedInitializers", "EvaluateConstants", "FuseNodes"],
    }


def test_options_are_those_of_the_class() -> None:
    assert {key: option.default for key, option in pass_options("onnx.ShapeInference").items()} == {
        "check_type": True,
        "strict_mode": True,
        "data_prop": True,
        "max_nodes": 100_000,
        "max_propagated": 2**20,
    }
    assert {name for name in NAMES if pass_options(name)} == {
        "onnx.Checker",
        "onnx.CommonSubexpressionElimination",
        "onnx.DeduplicateHashedInitializers",
        "onnx.DeduplicateInitializers",
        "onnx.EvaluateConstants",
        "onnx.FuseNodes",
        "onnx.Inline",
        "onnx.LiftConstantsToInitializers",
        "onnx.NameFix",
        "onnx.RemoveUnusedOpsets",
        "onnx.ShapeInference",
        "onnx.Simplify",
    }
    with pytest.raises(apass.errors.PassDefinitionError, match=r"option 'size_limit' .* expected int, got 'many'"):
        apass.get_pass("onnx.DeduplicateInitializers", size_limit="many")
    with pytest.raises(apass.errors.PassDefinitionError, match="no option 'limit'; did you mean 'size_limit'"):
        apass.get_pass("onnx.DeduplicateInitializers", limit=3)


def test_pipeline_text_is_read_back() -> None:
    text = "onnx.Default,onnx.LiftConstantsToInitializers{lift_all_constants=true,size_limit=2},onnx.Inline"
    pipeline = parse_pipeline(text)
    assert (str(pipeline), parse_pipeline(str(pipeline)) == pipeline) == (text, True)


def test_options_are_passed_to_the_class() -> None:
    model = model_of("g () => (int64[1] x) { c = Constant <value: tensor = int64[1] {3}> () x = Neg(c) }")
    assert op_types(run("onnx.LiftConstantsToInitializers", model)) == ["Constant", "Neg"]
    assert op_types(run("onnx.LiftConstantsToInitializers", model, size_limit=1)) == ["Neg"]
    assert list(run("onnx.LiftConstantsToInitializers", model, size_limit=1).graph.initializers) == ["c"]


EVALUATOR_ERRORS = {
    "onnx.AddDefaultAttributes": "round_mode",
    "onnx.LiftSubgraphInitializersToMainGraph": "Unable to find input",
}
"""Errors of the reference evaluator, not of the pass. `TABLE` documents them too."""


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("name", [*NAMES, "onnx.Default"])
async def test_passes_keep_meaning_and_inputs_of_real_models(name: str) -> None:
    cases = {case.name: case for case in spread()}
    before = {key: ADAPTER.fingerprint(case.model) for key, case in cases.items()}
    async with apass.PassContext(opt_level=3):
        models = {key: case.model for key, case in cases.items()}
        outcomes = await apass.optimize_all(models, apass.get_pass(name), errors="collect")
    assert {key: ADAPTER.fingerprint(case.model) for key, case in cases.items()} == before
    for key, outcome in outcomes.items():
        if outcome.error is not None:
            assert "IR version 3" in str(outcome.error), key
        if outcome.module is None or outcome.module is cases[key].model:
            continue
        assert ADAPTER.fingerprint(outcome.module) != before[key], key
        ADAPTER.verify(outcome.module)
        versions = cases[key].model, outcome.module
        first, second = (evaluate(ADAPTER.dumps(model), feeds(cases[key])) for model in versions)
        verdict = compare(first, second)
        excused = name in EVALUATOR_ERRORS and EVALUATOR_ERRORS[name] in verdict.reason
        assert excused or not verdict.changed, (key, verdict)


OPS = ["Relu", "Neg", "Identity", "Identity", "Add", "Mul", "local.f", "local.h", "If"]
FUNCTIONS = (
    "f (p) => (q, r) { q = Neg(p) r = Identity(p) }",
    "h (p) => (q, p) { t, u = local.f(p) q = Mul(t, u) }",
)


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Draw a model of operators on vectors.

    It has equal nodes, unused nodes, identities, weights, calls and subgraphs.
    """
    values = ["a", "b", *(f"w{index}" for index in range(draw(st.integers(0, 3))))]
    weights = " ".join(f"float[2] {name} = {{{draw(st.integers(-1, 1))}, 2}}," for name in values[2:])
    lines: list[str] = []
    for index in range(draw(st.integers(1, 8))):
        op, left, right = draw(st.sampled_from(OPS)), draw(st.sampled_from(values)), draw(st.sampled_from(values))
        names = [f"v{index}"]
        if op == "If":
            line = (
                f"v{index} = If(c) <then_branch = y{index} () => (float[2] y{index}) {{ t{index} = Identity({left}) "
                f"y{index} = Identity(t{index}) }}, else_branch = n{index} () => (float[2] z{index}) "
                f"{{ z{index} = Neg({right}) }}>"
            )
        elif op.startswith("local."):
            names.append(f"u{index}")
            line = f"v{index}, u{index} = {op}({left})"
        else:
            line = f"v{index} = {op}({left}{f', {right}' if op in ('Add', 'Mul') else ''})"
        lines.append(line)
        values += names
    computed = [name for name in values if name[0] in "vu"]
    graph_outputs = draw(st.lists(st.sampled_from(computed), min_size=1, max_size=4, unique=True))
    results = ", ".join(f"float[2] {name}" for name in graph_outputs)
    head = f"g (float[2] a, float[2] b, bool c) => ({results})" + (f" <{weights.rstrip(',')}>" if weights else "")
    return model_of(f"{head} {{ {' '.join(lines)} }}", *FUNCTIONS)


DEFAULT_PASSES = [f"onnx.{name}" for name in DEFAULT]
FORM_PASSES = [
    "onnx.NameFix",
    "onnx.OutputFix",
    "onnx.ShapeInference",
    "onnx.AddDefaultAttributes",
    "onnx.TopologicalSort",
]


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(60))
@given(data=st.data())
def test_any_pipeline_keeps_meaning_and_interface(backend: str, data: st.DataObject) -> None:
    model = data.draw(models())
    names = data.draw(
        st.lists(st.sampled_from([*DEFAULT_PASSES, *FORM_PASSES, "onnx.Default"]), min_size=1, max_size=6)
    )
    before = ADAPTER.fingerprint(model)
    result = apass.run(
        apass.Sequential([apass.get_pass(name) for name in names]),
        model,
        backend=backend,
        context=apass.PassContext(opt_level=3),
    )
    assert ADAPTER.fingerprint(model) == before
    ADAPTER.verify(result)
    assert [value.name for value in result.graph.outputs] == [value.name for value in model.graph.outputs]
    inputs = [np.array([1, -2], np.float32), np.array([3, 0.5], np.float32), np.array(data.draw(st.booleans()))]
    first, second = (evaluate(ADAPTER.dumps(version), inputs) for version in (model, result))
    assert compare(first, second).status is Status.EQUAL, (first.error, second.error)


def test_default_pipeline_keeps_only_used_parts() -> None:
    model = model_of(
        """g (float[4] a) => (float[4] x, float[4] y) <float[4] w = {1, 2, 3, 4}, float[4] v = {1, 2, 3, 4}> {
            i = Identity(a) p = local.f(i) q = local.f(i) dead = Relu(a) s = Add(p, w) t = Add(q, v) x = Mul(s, t)
            m, mask = Dropout(x) y = Identity(m)
        }""",
        "f (p) => (q) { q = Neg(p) }",
        "h (p) => (q) { q = Relu(p) }",
    )
    model.opset_imports["unused"] = 1
    result = run("onnx.Default", model)
    assert op_types(result) == ["Sub", "Mul", "Dropout"]
    assert (len(result.graph.initializers), len(result.functions), list(result.opset_imports)) == (1, 0, [""])
    assert outputs(result, np.ones(4, np.float32)) == outputs(model, np.ones(4, np.float32))
    assert run("onnx.Default", result) is result


@pytest.mark.parametrize(("opt_level", "calls"), [(1, 2), (2, 0)])
def test_default_pipeline_inlines_from_level_2(opt_level: int, calls: int) -> None:
    result = apass.run(apass.get_pass("onnx.Default"), with_functions(), context=apass.PassContext(opt_level=opt_level))
    assert sum(node.domain == "local" for node in result.graph) == calls


@pytest.mark.parametrize("name", ["onnx.Default", *(name for name in NAMES if name != "onnx.NameFix")])
def test_unchanged_model_is_returned_itself(name: str) -> None:
    model = relu()
    model.graph[0].name = "node"
    assert run(name, model) is model


def test_checker_accepts_only_valid_models() -> None:
    model = relu()
    assert run("onnx.Checker", model) is model
    with pytest.raises(Exception, match="No Op registered for Rellu") as caught:
        run("onnx.Checker", model_of("g (float[4] a) => (float[4] x) { x = Rellu(a) }"))
    assert "in pass 'onnx.Checker'" in caught.value.__notes__


MISTYPED = "g (float[4] a, int64[4] b) => (float[4] x) { x = Add(a, b) }"


@pytest.mark.anyio
async def test_logged_error_becomes_a_warning_diagnostic(capfd: pytest.CaptureFixture[str]) -> None:
    model = model_of(MISTYPED)
    async with apass.PassContext() as ctx:
        results = await apass.optimize_all({"m": model, "n": relu()}, apass.get_pass("onnx.ShapeInference"))
    assert results["m"] is model
    (warning,) = ctx.diag_ctx.diagnostics
    assert warning.message.startswith("pass 'onnx.ShapeInference': Shape inference failed: InferenceError: ")
    assert (warning.level.name, warning.pass_name, warning.module) == ("WARNING", "onnx.ShapeInference", "m")
    assert capfd.readouterr() == ("", "")


@pytest.mark.process
@pytest.mark.slow
def test_log_is_printed_only_outside_of_apass() -> None:
    code = f"""
import apass, logging
import onnx_ir as ir
from onnx.parser import parse_model
from onnx_ir.passes.common import ShapeInferencePass
model = ir.from_proto(parse_model('<ir_version: 10, opset_import: ["": 21]> ' + {MISTYPED!r}))
apass.run(apass.get_pass("onnx.ShapeInference"), model)
print("outside", flush=True)
ShapeInferencePass()(model)
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (process.stdout, process.stderr.count("Shape inference failed"), process.stderr.count("Traceback")) == (
        "outside\n",
        1,
        1,
    )


def test_configured_logging_receives_records(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "onnx_ir"):
        run("onnx.ShapeInference", model_of(MISTYPED))
    assert [record.name for record in caplog.records] == ["onnx_ir.passes.common.shape_inference"]


@pytest.mark.parametrize(
    ("length", "in_worker"), [(SMALL_NODES, False), (SMALL_NODES + 1, False), (SMALL_NODES + 1, True)]
)
def test_large_models_run_in_a_thread(length: int, in_worker: bool) -> None:
    threads: list[int] = []

    def criteria(function: ir.Function) -> bool:
        threads.append(threading.get_ident())
        return True

    model = with_functions()
    model.graph = chain(length - 4).graph
    model.graph.append(ir.node("f", domain="local", inputs=[model.graph.outputs[0]]))
    assert is_small(model) is (length <= SMALL_NODES)
    context = copy_context()
    if in_worker:
        context.run(STOPPED.set, bool)
    context.run(run, "onnx.Inline", model, criteria=criteria)
    assert len(set(threads)) == 1
    assert (threads[0] == threading.get_ident()) is (length <= SMALL_NODES or in_worker)


@pytest.mark.parametrize("count", [2**20, 2**20 + 1])
def test_models_with_large_weights_are_not_small(count: int) -> None:
    weights = ir.tensor(np.zeros(count, np.float32), name="w")
    with_initializer, with_constant = relu(), relu()
    with_initializer.graph.register_initializer(ir.Value(name="w", const_value=weights))
    with_constant.graph.append(ir.node("Constant", [], {"value": weights}))
    assert [is_small(with_initializer), is_small(with_constant)] == [count == 2**20] * 2


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_cancelled_pass_waits_for_its_thread() -> None:
    entered, resume, done = threading.Event(), threading.Event(), threading.Event()

    def criteria(function: ir.Function) -> bool:
        entered.set()
        assert resume.wait(60)
        done.set()
        return True

    model = with_functions()
    model.graph = chain(100).graph
    model.graph.append(ir.node("f", domain="local", inputs=[model.graph.outputs[0]]))
    async with anyio.create_task_group() as group:
        group.start_soon(apass.get_pass("onnx.Inline", criteria=criteria), model)
        await anyio.to_thread.run_sync(entered.wait)
        group.cancel_scope.cancel()
        resume.set()
    assert done.is_set()


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_cancelled_pass_skips_its_later_steps() -> None:
    entered, resume, read = threading.Event(), threading.Event(), threading.Event()

    class Waits(ir.passes.InPlacePass):
        """Returns a changed model when the test lets it."""

        def call(self, model: Model) -> ir.passes.PassResult:
            entered.set()
            assert resume.wait(60)
            return ir.passes.PassResult(model, modified=True)

    def data() -> ir.Tensor[Any]:
        read.set()
        return ir.Tensor(np.ones(1, np.float32))

    model = chain(100)
    tensor = ir.LazyTensor(data, dtype=ir.DataType.FLOAT, shape=ir.Shape([1]), name="w")
    model.graph.register_initializer(ir.Value(name="w", const_value=tensor))
    async with anyio.create_task_group() as group:
        group.start_soon(OnnxPass(Waits, apass.PassInfo(0, "onnx.Waits"), {}), model)
        await anyio.to_thread.run_sync(entered.wait)
        group.cancel_scope.cancel()
        resume.set()
    # The comparison with the input would read the data.
    assert not read.is_set()


@pytest.mark.anyio
async def test_shared_copies_change_no_result() -> None:
    passes = [apass.get_pass(f"onnx.{name}") for name in DEFAULT]
    pipeline = apass.Sequential(passes)
    async with apass.PassContext(opt_level=3):
        for case in spread():
            model = case.model
            before = alone = ADAPTER.loads(ADAPTER.dumps(model))
            for pass_ in passes:
                alone = await pass_(alone)
            shared = await pipeline(before)
            assert (shared is before) == (alone is before)
            donated = await pipeline(ADAPTER.loads(ADAPTER.dumps(model)), donate=True)
            assert ADAPTER.fingerprint(before) == ADAPTER.fingerprint(model), case.name
            assert len({ADAPTER.fingerprint(result) for result in (alone, shared, donated)}) == 1, case.name


@pytest.mark.anyio
@pytest.mark.parametrize("name", NAMES)
async def test_passes_report_their_changes(name: str) -> None:
    async with apass.PassContext(instruments=[RunSettings(strict=True)], diag_ctx=apass.DiagnosticContext()):
        pass_ = apass.get_pass(name)
        for case in spread()[::3]:
            model = case.model
            try:
                result = await pass_(model)
            except (apass.errors.AdapterError, apass.errors.VerifyError):
                continue
            assert (result is model) == ADAPTER.equal(result, model), case.name


@pytest.mark.anyio
@pytest.mark.parametrize(
    "graph",
    [
        "g (float[1, 1, 4] a) => (float[N] y) { y, m = Dropout(a) }",
        "g (float[1, 4] a, float[4] s) => (float[N] y) { y = BatchNormalization <training_mode=0> (a, s, s, s, s) }",
        "g (float[4] a) => (float[4] y) { y = Clip(a, , ) }",
    ],
)
async def test_unreported_removals_are_results(graph: str) -> None:
    model = model_of(graph)
    result = await apass.get_pass("onnx.RemoveUnusedNodes")(model)
    assert result is not model
    assert not ADAPTER.equal(result, model)


@pytest.mark.anyio
async def test_doc_string_of_a_node_is_cleared() -> None:
    model = relu()
    model.graph[0].doc_string = "text"
    result = await apass.get_pass("onnx.ClearMetadataAndDocString")(model)
    assert (model.graph[0].doc_string, result.graph[0].doc_string) == ("text", None)


@pytest.mark.anyio
async def test_concurrent_models_have_the_sequential_results() -> None:
    real = [case.model for case in spread()]
    models = [*real, *(chain(length) for length in range(50, 90, 2))][:100]
    assert len(models) in (100, len(real) + 20)
    pipeline = apass.get_pass("onnx.Default")
    async with apass.PassContext(opt_level=3):
        concurrent = await apass.optimize_all(models, pipeline)
        sequential = [await pipeline(model) for model in models]
    assert list(map(ADAPTER.fingerprint, concurrent)) == list(map(ADAPTER.fingerprint, sequential))
    assert [result is model for result, model in zip(concurrent, models, strict=True)] == [
        result is model for result, model in zip(sequential, models, strict=True)
    ]


def test_passes_of_one_name_are_equal() -> None:
    first, second = (apass.get_pass("onnx.Inline") for _ in range(2))
    assert (first == second, first is second) == (True, False)
