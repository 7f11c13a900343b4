"""`reduce`: the smallest module on which a pass fails the same way, for each IR."""

import asyncio
import importlib
import json
import sys
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import anyio
import onnx_ir as ir
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st
from onnx import parser

import apass
from apass import relay
from apass.adapters.onnx import ADAPTER, load_model
from apass.instruments import ReproducerInstrument
from tests.helpers.failing_passes import FailOn, add_one, failing_passes
from tests.helpers.recording import function_pass_of, module_pass_of

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _registered() -> Generator[None]:
    with failing_passes():
        yield


async def reproducer(pass_: apass.Pass[Any], mod: Any, folder: Path) -> Path:
    """Run a failing pass, and return the folder of its reproducer."""
    instrument = ReproducerInstrument(folder)
    async with apass.PassContext(instruments=[instrument]):
        await apass.optimize_all({"m": mod}, pass_, errors="collect")
    (path,) = instrument.folders
    return path


def text(folder: Path) -> str:
    """Return the module text of a reproducer."""
    return (folder / "module.json").read_text()


async def test_reduce_removes_functions_of_a_dict(tmp_path: Path) -> None:
    folder = await reproducer(FailOn(1), {name: int(name == "k") for name in "abcdefghijklmnop"}, tmp_path)
    lines: list[str] = []
    result = await apass.reduce(folder, report=lines.append)
    assert (result.folder, result.complete) == (folder / "reduced", True)
    assert text(result.folder) == '{"k": 1}'
    assert (str(result.before), str(result.after)) == (
        "16 functions, 16 lines, 128 bytes",
        "1 function, 1 line, 8 bytes",
    )
    assert lines == ["removed 15 of 16 functions: 128 bytes before, 8 after"]
    assert (await apass.replay(result.folder)).verdict is apass.debugging.Verdict.SAME
    assert (await apass.reduce(folder, "FailOn{value=1}")).after == result.after
    again = await apass.reduce(result.folder)
    assert (again.before, again.after, again.folder) == (result.after, result.after, folder / "reduced" / "reduced")


async def test_reduce_removes_entries_within_functions(tmp_path: Path) -> None:
    def fail(func: Any, mod: Any, ctx: Any) -> Any:
        if 7 in func["numbers"]:
            raise ValueError(f"{len(func)} entries, {len(mod)} functions")
        return func

    pass_ = function_pass_of(fail)
    mod = {name: {"numbers": list(range(9)), "more": {"a": [1, 2], "b": "x"}} for name in "fgh"}
    folder = await reproducer(pass_, mod, tmp_path)
    result = await apass.reduce(folder, pass_, output=tmp_path / "small")
    (left,) = json.loads(text(tmp_path / "small")).values()
    assert left == {"numbers": [7]}
    failure = json.loads((result.folder / "reproducer.json").read_text())["failure"]
    assert failure == {"type": "builtins.ValueError", "message": "1 entries, 1 functions"}


async def test_message_pattern_and_type_define_the_failure(tmp_path: Path) -> None:
    def fail(mod: Any, ctx: Any) -> Any:
        if "b" not in mod:
            raise KeyError("b")
        raise ValueError("with c" if "c" in mod else "without it")

    pass_ = module_pass_of(fail)
    folder = await reproducer(pass_, dict.fromkeys("abcde", 0), tmp_path)
    assert text((await apass.reduce(folder, pass_)).folder) == '{"b": 0, "c": 0}'
    assert text((await apass.reduce(folder, pass_, message="with")).folder) == '{"b": 0}'


RELAY = """#[version = "0.0.5"]
def @helper(%x: Tensor[(4), float32]) {
  tanh(%x)
}

def @main(%x: Tensor[(4), float32], %y: Tensor[(4), float32], %w: Tensor[(64, 4), float32]) {
  let %a = add(%x, %y);
  %0 = @helper(%a);
  let %b = exp(%0);
  %1 = expand_dims(%a, axis=0);
  %2 = nn.dense(%1, %w, units=64);
  %3 = nn.softmax(%2);
  %4 = negative(%3);
  %5 = (%4, %b);
  %5.0
}
"""


async def test_relay_is_reduced_to_the_failing_call(tmp_path: Path) -> None:
    def fail(func: Any, mod: Any, ctx: Any) -> Any:
        if "nn.softmax" in str(func):
            raise NotImplementedError(f"softmax in {len(str(func).splitlines())} lines")
        return func

    pass_ = function_pass_of(fail)
    mod = await relay.transform.InferType()(relay.parse(RELAY))
    folder = await reproducer(pass_, mod, tmp_path)
    result = await apass.reduce(folder, pass_)
    assert (result.folder / "module.relay").read_text() == (
        '#[version = "0.0.5"]\n'
        "def @main() -> Tensor[(1, 64), float32] {\n"
        '  %0 = zeros(shape=[1, 64], dtype="float32") /* ty=Tensor[(1, 64), float32] */;\n'
        "  nn.softmax(%0) /* ty=Tensor[(1, 64), float32] */\n"
        "}\n"
    )
    assert str(result.after).startswith("1 function, 5 lines, ")


async def test_on_try_receives_the_smallest_size(tmp_path: Path) -> None:
    def fail(mod: Any, ctx: Any) -> Any:
        if "f3" in mod:
            raise ValueError("no f3")
        return mod

    pass_ = module_pass_of(fail)
    folder = await reproducer(pass_, {f"f{n}": n for n in range(8)}, tmp_path)
    calls: list[tuple[int, int]] = []
    result = await apass.reduce(folder, pass_, on_try=lambda tries, size: calls.append((tries, size.file_size)))
    assert calls[-1] == (result.tries, result.after.file_size)
    assert [tries for tries, _ in calls] == sorted(tries for tries, _ in calls)
    assert [size for _, size in calls] == sorted((size for _, size in calls), reverse=True)


def model(nodes: str) -> ir.Model:
    """Return a model with two functions, one of which is called."""
    original = parser.parse_model(
        f"""
        <ir_version: 9, opset_import: ["": 18, "my": 1]>
        g (float[2] x, float[2] unused) => (float[2] y, float[2] z)
        <float[2] w = {{1.0, 2.0}}, float[2] v = {{3.0, 4.0}}> {{ {nodes} }}
        <domain: "my", opset_import: ["": 18]> Twice (a) => (b) {{ b = Add (a, a) }}
        <domain: "my", opset_import: ["": 18]> Never (a) => (b) {{ b = Neg (a) }}
        """
    )
    return ir.from_proto(original)


async def test_onnx_loses_nodes_values_and_functions(tmp_path: Path) -> None:
    def fail(mod: Any, ctx: Any) -> Any:
        kinds = [node.op_type for node in mod.graph]
        if "Mul" in kinds:
            raise ValueError(f"Mul among {len(kinds)} nodes")
        return mod

    pass_ = module_pass_of(fail)
    nodes = "a = Relu (x) b = Twice <> (a) c = Mul (b, w) d = Add (c, v) y = Neg (d) z = Sigmoid (a)"
    folder = await reproducer(pass_, model(nodes.replace("Twice <>", "my.Twice")), tmp_path)
    result = await apass.reduce(folder, pass_)
    left = load_model(result.folder / "module.onnx")
    assert [node.op_type for node in left.graph] == ["Mul"]
    assert (len(left.graph.outputs), len(left.functions), list(left.graph.initializers)) == (0, 0, [])
    assert result.after.lines < result.before.lines


async def test_inferred_types_permit_removing_needed_nodes(tmp_path: Path) -> None:
    folder = await reproducer(
        apass.get_pass("onnx.Checker"), model("a = Relu (x) y = Ngg (a) z = Sigmoid (a)"), tmp_path
    )
    result = await apass.reduce(folder, timeout=60)
    left = load_model(result.folder / "module.onnx")
    assert ([node.op_type for node in left.graph], [str(value.type) for value in left.graph.inputs]) == (
        ["Ngg"],
        ["FLOAT"],
    )


INNER = """
<ir_version: 10, opset_import: ["": 21, "my": 1]>
g (float[4] x, bool c) => (float[4] y) {
    a = my.Deep (x)
    y = If (c) <then_branch = yes () => (float[4] r) { p = Relu (a) q = Tanh (p) r = Neg (q) },
                else_branch = no () => (float[4] s) { t = Sigmoid (a) s = my.Deep (t) }>
}
<domain: "my", opset_import: ["": 21]>
Deep (u) => (w) { k = Constant <value: tensor = float {2}> () m = Mul (u, k) n = Exp (m) e = Erf (n) w = Sqrt (e) }
"""


async def test_onnx_loses_nodes_of_functions_and_subgraphs(tmp_path: Path) -> None:
    def kinds(nodes: Any) -> list[str]:
        return sorted(node.op_type for node in nodes)

    def fail(mod: Any, ctx: Any) -> Any:
        inner = [kind for function in mod.functions.values() for kind in kinds(function)]
        if "Erf" in inner and "Tanh" in kinds(mod.graph.all_nodes()):
            raise ValueError("Erf and Tanh")
        return mod

    pass_ = module_pass_of(fail)
    folder = await reproducer(pass_, ir.from_proto(parser.parse_model(INNER)), tmp_path)
    result = await apass.reduce(folder, pass_)
    left = load_model(result.folder / "module.onnx")
    assert [kinds(function) for function in left.functions.values()] == [["Erf"]]
    assert kinds(left.graph.all_nodes()) == ["Identity", "If", "Tanh"]


@pytest.mark.parametrize(
    ("number", "kind"),
    list(enumerate(["Relu", "Tanh", "Neg", "Sigmoid", "Deep", "Constant", "Mul", "Exp", "Erf", "Sqrt"])),
)
def test_each_inner_node_alone_is_valid(number: int, kind: str) -> None:
    original = ir.from_proto(parser.parse_model(INNER))
    shrinking = next(
        shrinking for shrinking in ADAPTER.shrinkings(original) if shrinking.what == "nodes of functions and subgraphs"
    )
    assert shrinking.count == 10
    before = ADAPTER.to_text(original)
    left = shrinking.without(frozenset(range(10)) - {number})
    ADAPTER.verify(left)
    assert ADAPTER.to_text(original) == before
    nodes = [*left.graph.all_nodes(), *(node for function in left.functions.values() for node in function)]
    assert sorted(node.op_type for node in nodes if node.op_type != "Identity") == sorted(["Deep", "If", kind])


CRASHING = """
import os
import apass

@apass.register_pass
@apass.module_pass(opt_level=0)
async def Crash(mod, ctx):
    if "keep" not in mod:
        os._exit(3)
    raise ValueError("bad")
"""


@pytest.mark.process
@pytest.mark.slow
async def test_isolated_pass_may_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "crashing.py").write_text(CRASHING)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    crash: Any = importlib.import_module("crashing").Crash
    try:
        folder = await reproducer(crash, {"a": 1, "keep": 2}, tmp_path / "r")
        result = await apass.reduce(folder, isolate=True, timeout=120)
    finally:
        apass.unregister_pass("Crash")
        del sys.modules["crashing"]
    assert text(result.folder) == '{"keep": 2}'
    assert result.complete


@pytest.mark.usefixtures("idle_clock")
async def test_search_ends_at_its_timeout(tmp_path: Path) -> None:
    folder = await reproducer(FailOn(1), {"f": 1, "g": 2}, tmp_path)
    slow = module_pass_of(lambda mod, ctx: _fail_then_wait(mod))
    result = await apass.reduce(folder, slow, timeout=1.5)
    assert (result.complete, result.tries, text(result.folder)) == (False, 2, '{"f": 1, "g": 2}')


async def test_first_attempt_ends_at_the_timeout(tmp_path: Path) -> None:
    folder = await reproducer(FailOn(1), {"f": 1, "g": 2}, tmp_path)
    endless = module_pass_of(lambda mod, ctx: anyio.sleep_forever())
    with pytest.raises(apass.errors.ReproducerError, match="cannot reduce: the first attempt did not end in 0 s"):
        await apass.reduce(folder, endless, timeout=0)


@pytest.mark.usefixtures("idle_clock")
async def test_attempt_without_end_does_not_count(tmp_path: Path) -> None:
    folder = await reproducer(FailOn(1), {"f": 1, "g": 2, "h": 3}, tmp_path)
    slow = module_pass_of(lambda mod, ctx: _fail_then_wait(mod))
    result = await apass.reduce(folder, slow)
    assert (result.complete, text(result.folder)) == (True, '{"g": 2, "h": 3}')


async def _fail_then_wait(mod: Any) -> Any:
    if len(mod) < 2:
        await anyio.sleep_forever()
    raise ValueError("cannot do 1")


@apass.register_pass("reduce.Main")
@apass.module_pass(opt_level=0, name="reduce.Main")
def defined_in_a_program(mod: Any, ctx: Any) -> Any:
    raise ValueError("always")


@pytest.mark.slow
async def test_isolated_pass_of_a_program_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defined_in_a_program, "__module__", "__main__")
    folder = await reproducer(defined_in_a_program, {"f": 1}, tmp_path)
    with pytest.raises(
        apass.errors.ReproducerError, match="the passes cannot run in a worker process: no pass is registered"
    ):
        await apass.reduce(folder, isolate=True)


@pytest.mark.slow
async def test_irreducible_reproducers_raise(tmp_path: Path) -> None:
    folder = await reproducer(FailOn(1), {"f": 1}, tmp_path)
    with pytest.raises(
        apass.errors.ReproducerError,
        match="cannot reduce: the pass does not fail any more; the recorded failure is ValueE",
    ):
        await apass.reduce(folder, add_one)
    with pytest.raises(apass.errors.ReproducerError, match=r"message must be a regular expression, got '\('"):
        await apass.reduce(folder, message="(")
    with pytest.raises(
        apass.errors.ReproducerError, match="the passes cannot run in a worker process: no pass is registered"
    ):
        await apass.reduce(folder, add_one, isolate=True)
    with pytest.raises(ValueError, match="keep must be 'module', 'pipeline' or None, got 'all'"):
        await apass.reduce(folder, keep=cast("Any", "all"))


@pytest.fixture
def arithmetic() -> Iterator[None]:
    """Register passes that change the numbers of a dict."""
    passes: dict[str, Callable[[str, int], int]] = {
        "AddOne": lambda name, value: value + 1,
        "Double": lambda name, value: 2 * value,
        "BreakG": lambda name, value: -1 if name == "g" and value > 9 else value,
    }
    for name, change in passes.items():
        body = partial(_changed, change)
        apass.register_pass(function_pass_of(body, name=name))
    yield
    for name in passes:
        apass.unregister_pass(name)


def _changed(change: Callable[[str, int], int], func: int, mod: dict[str, int], ctx: Any) -> int:
    name = next(name for name, value in mod.items() if value is func)
    return change(name, func)


def has_no_negative(before: dict[str, int], after: dict[str, int]) -> bool:
    return all(value >= 0 for value in after.values())


NUMBERS = {name: 1000 + index for index, name in enumerate("abcdefghij")}
LONG = "AddOne,Repeat{times=2}(Double,BreakG),AddOne,Double"


@pytest.mark.usefixtures("arithmetic")
@pytest.mark.parametrize("jobs", [1, 3])
async def test_wrong_result_reduces_module_and_pipeline(tmp_path: Path, jobs: int) -> None:
    lines: list[str] = []
    output = tmp_path / "small"
    found = await apass.reduce_module(NUMBERS, LONG, output, check=has_no_negative, jobs=jobs, report=lines.append)
    assert (found.pipeline, text(found.folder), found.complete) == ("BreakG", '{"g": 1006}', True)
    assert str(found.before).startswith("5 passes, 10 functions")
    assert str(found.after) == "1 function, 1 line, 11 bytes"
    assert lines[0] == "removed 4 of 6 passes: 110 bytes before, 110 after"
    assert (await apass.replay(output, check=has_no_negative)).verdict is apass.debugging.Verdict.SAME
    assert (await apass.replay(output)).verdict is apass.debugging.Verdict.NONE


@pytest.mark.usefixtures("arithmetic")
@pytest.mark.parametrize(
    ("keep", "pipeline", "functions"), [("module", "BreakG", 10), ("pipeline", f"Sequential({LONG})", 1)]
)
async def test_kept_part_is_unchanged(tmp_path: Path, keep: Any, pipeline: str, functions: int) -> None:
    found = await apass.reduce_module(NUMBERS, LONG, tmp_path / "small", check=has_no_negative, keep=keep)
    assert (found.pipeline, found.after.functions) == (pipeline, functions)


@pytest.mark.usefixtures("arithmetic")
async def test_needed_first_pass_is_applied_to_module(tmp_path: Path) -> None:
    lines: list[str] = []
    output = tmp_path / "small"
    found = await apass.reduce_module(
        {"f": 1, "g": 4}, "AddOne,Double,AddOne,BreakG", output, check=has_no_negative, report=lines.append
    )
    assert (found.pipeline, text(found.folder)) == ("BreakG", '{"g": 10}')
    assert "replaced the module by the result of the first 2 of 3 passes" in lines


@pytest.mark.usefixtures("arithmetic")
async def test_check_must_accept_original(tmp_path: Path) -> None:
    with pytest.raises(apass.errors.ReproducerError, match="the check rejects the module before any pass"):
        await apass.reduce_module({"g": 10}, "BreakG", tmp_path / "small", check=lambda before, after: False)
    with pytest.raises(apass.errors.ReproducerError, match="the check returned None; it must return whether"):
        await apass.reduce_module({"g": 10}, "BreakG", tmp_path / "small", check=cast("Any", print))


@pytest.mark.usefixtures("arithmetic")
async def test_exception_of_check_is_the_failure(tmp_path: Path) -> None:
    async def check(before: dict[str, int], after: dict[str, int]) -> bool:
        await checkpoint()
        if "g" not in after:
            raise KeyError("g")
        if min(after.values()) < 0:
            raise ArithmeticError("negative")
        return True

    found = await apass.reduce_module(NUMBERS, "Double,BreakG", tmp_path / "small", check=check)
    assert (found.pipeline, text(found.folder)) == ("BreakG", '{"g": 1006}')
    assert apass.read_reproducer(found.folder).failure == apass.debugging.Failure(
        type="builtins.ArithmeticError", message="negative"
    )


@pytest.mark.usefixtures("arithmetic")
async def test_interrupted_search_goes_on(tmp_path: Path) -> None:
    class EndError(BaseException):
        """Ends a search like a signal."""

    def interrupt(tries: int, size: object) -> None:
        if tries == 12:
            raise EndError

    search = partial(apass.reduce_module, NUMBERS, LONG, check=has_no_negative)
    whole = await search(tmp_path / "whole")
    tried = tmp_path / "t.tried"
    with pytest.raises(EndError):
        await search(tmp_path / "small", tried=tried, on_try=interrupt)
    lines: list[str] = []
    found = await search(tmp_path / "small", tried=tried, report=lines.append)
    assert lines[0] == "11 attempts are known from an interrupted search"
    assert text(found.folder) == text(whole.folder)
    # The first attempt is made again, because its failure is the one to keep.
    assert found.tries == whole.tries - 11
    assert not tried.exists()


@pytest.mark.usefixtures("arithmetic")
async def test_false_outcomes_of_a_stranger_are_found(tmp_path: Path) -> None:
    tried = tmp_path / "t.tried"
    search = partial(apass.reduce_module, NUMBERS, "BreakG", tmp_path / "small", check=has_no_negative, tried=tried)
    with pytest.raises(ZeroDivisionError):
        await search(on_try=lambda tries, size: 1 // (tries - 9))
    tried.write_text(tried.read_text().replace("false", "true"))
    with pytest.raises(
        apass.errors.ReproducerError, match="the outcomes of the interrupted search do not hold any more"
    ):
        await search()
    assert text((await search()).folder) == '{"g": 1006}'


@given(
    st.dictionaries(st.sampled_from("fgh"), st.integers(0, 20), min_size=1),
    st.lists(st.sampled_from(["AddOne", "Double", "BreakG", "Repeat{times=2}(Double)"]), min_size=1, max_size=5),
)
@pytest.mark.usefixtures("arithmetic")
def test_reduced_pipeline_still_fails(mod: dict[str, int], names: list[str]) -> None:
    pipeline = apass.parse_pipeline(",".join(names))
    is_wrong = not has_no_negative(mod, anyio.run(pipeline, mod))
    with TemporaryDirectory() as folder:
        search = partial(apass.reduce_module, mod, pipeline, Path(folder) / "r", check=has_no_negative)
        if not is_wrong:
            with pytest.raises(apass.errors.ReproducerError, match="the check accepts the result"):
                anyio.run(search)
            return
        found = anyio.run(search)
        small = json.loads(text(found.folder))
        assert found.pipeline is not None
        result = anyio.run(apass.parse_pipeline(found.pipeline), small)
        assert not has_no_negative(small, result)
        assert (found.pipeline, set(small)) == ("BreakG", {"g"})


@pytest.mark.parametrize("output", [".", "", "/", "x/.."])
async def test_output_without_name_is_rejected(tmp_path: Path, output: str) -> None:
    folder = await reproducer(FailOn(1), {"f": 1}, tmp_path)
    for call in (partial(apass.reduce, folder, output=output), partial(apass.reduce_module, {"f": 1}, add_one, output)):
        with pytest.raises(apass.errors.ReproducerError, match="output must be the path of a new folder"):
            await call()


async def test_pattern_that_does_not_match_is_named(tmp_path: Path) -> None:
    with pytest.raises(apass.errors.ReproducerError, match="does not match the pattern: ValueError: "):
        await apass.reduce_module({"f": 1}, FailOn(1), tmp_path / "small", message="something else")


async def test_exit_of_a_pass_is_reduced(tmp_path: Path) -> None:
    def body(mod: Any, ctx: Any) -> Any:
        if "g" in mod:
            sys.exit(3)
        return mod

    pass_ = module_pass_of(body, name="Exit")
    result = await apass.reduce_module({"f": 1, "g": 2}, pass_, tmp_path / "small")
    assert text(result.folder) == '{"g": 2}'
    replayed = await apass.replay(result.folder, pass_)
    assert replayed.verdict is apass.debugging.Verdict.SAME
    assert str(replayed.error) == "the pass exited with 3; a pass that fails must raise an exception"


async def test_required_pass_of_a_higher_level_is_reduced(tmp_path: Path) -> None:
    """A pass runs regardless of its level if another requires it."""

    def fail(mod: Any, ctx: Any) -> Any:
        raise ValueError("always")

    apass.register_pass(module_pass_of(fail, 3, "Required"))
    try:
        first = module_pass_of(lambda mod, ctx: mod, name="First", required=["Required"])
        folder = await reproducer(apass.Sequential([first]), {"f": 1, "g": 2}, tmp_path)
        result = await apass.reduce(folder)
    finally:
        apass.unregister_pass("Required")
    assert (result.pipeline, result.after.functions) == ("Required", 0)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.both_loops
async def test_awaited_cancellation_is_reduced(tmp_path: Path) -> None:
    async def body(mod: Any, ctx: Any) -> Any:
        if "g" in mod:
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future
        return mod

    result = await apass.reduce_module({"f": 1, "g": 2}, module_pass_of(body, name="Await"), tmp_path / "small", jobs=2)
    assert text(result.folder) == '{"g": 2}'


@pytest.mark.parametrize("jobs", [0, -1, True, 1.5])
async def test_number_of_jobs_is_positive(tmp_path: Path, jobs: Any) -> None:
    with pytest.raises(ValueError, match="jobs must be a positive number of attempts, got "):
        await apass.reduce_module({"f": 1}, FailOn(1), tmp_path / "small", jobs=jobs)
