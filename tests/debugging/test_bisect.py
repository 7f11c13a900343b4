"""`bisect`: finds the pass, and the function, whose change fails a check."""

import json
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import onnx_ir as ir
import pytest
from onnx import parser

import apass
from apass import PassContext, relay
from apass.adapters.onnx import private_copy
from apass.errors import UnmatchedPassNameWarning
from tests.helpers.failing_passes import add_one, failing_passes
from tests.helpers.recording import function_pass_of, module_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


def adding(amount: int, index: int) -> apass.Pass[Any]:
    """Return a pass that adds `amount` to each function."""
    return module_pass_of(lambda mod, ctx: {name: func + amount for name, func in mod.items()}, name=f"Add{index}")


async def test_bisect_finds_the_pass_in_few_attempts() -> None:
    amounts = [0] * 60 + [1] + [0] * 30 + [5] * 9
    pipeline = apass.Sequential([adding(amount, index) for index, amount in enumerate(amounts)])
    lines: list[str] = []
    checked: list[Module] = []

    async def check(mod: Module) -> bool:
        await anyio.lowlevel.checkpoint()
        checked.append(mod)
        return bool(mod["f"] == 0)

    result = await apass.bisect({"f": 0}, pipeline, check, report=lines.append)
    assert (result.number, result.total, result.checks) == (61, 100, len(checked))
    assert (result.before, result.after, result.function) == ({"f": 0}, {"f": 1}, None)
    assert result.diff == "@@ -1 +1 @@ f\n-f: 0\n+f: 1"
    assert str(result) == "the first bad pass is (61) Add60 at 0:sequential/60:Add60"
    assert lines == [
        "the untouched module: good",
        "after all 100 passes: bad",
        "after passes 1-50: good (already checked)",
        "after passes 1-75: bad",
        "after passes 1-62: bad (already checked)",
        "after passes 1-56: good (already checked)",
        "after passes 1-59: good (already checked)",
        "after passes 1-60: good (already checked)",
        "after passes 1-61: bad (already checked)",
    ]
    assert checked == [{"f": 0}, {"f": 46}, {"f": 1}]


async def test_bisect_finds_the_function_of_a_pass() -> None:
    async def double(func: int, mod: Module, ctx: Any) -> int:
        await anyio.lowlevel.checkpoint()
        return 2 * func

    pipeline = apass.Sequential([adding(1, 0), function_pass_of(double, name="Double"), adding(0, 2)])
    mod = {name: index for index, name in enumerate("abcdefgh")}
    result = await apass.bisect(mod, pipeline, lambda mod: mod["g"] <= 10)
    assert str(result) == "the first bad pass is (2) Double at 0:sequential/1:Double in function g"
    assert result.diff == "@@ -1 +1 @@ g\n-g: 7\n+g: 14"


async def test_functions_bad_only_together_are_reported() -> None:
    pipeline = function_pass_of(lambda func, mod, ctx: func + 1, name="Add")
    result = await apass.bisect({"a": 0, "b": 0, "c": 0}, pipeline, lambda mod: mod["a"] + mod["b"] < 2)
    assert str(result) == "the first bad pass is (1) Add at 0:Add in function b, together with functions before it"
    assert (result.alone, result.before, result.after) == (False, {"a": 0, "b": 0, "c": 0}, {"a": 1, "b": 1, "c": 0})


async def test_bisect_uses_the_current_context() -> None:
    late = apass.module_pass(lambda mod, ctx: {"f": ctx.opt_level}, opt_level=3, name="Late")
    never = adding(9, 9)
    async with apass.PassContext(3, disabled_pass=["Add9"]):
        result = await apass.bisect({"f": 0}, apass.Sequential([never, late]), lambda mod: mod["f"] != 3)
    assert (result.position.text, result.total) == ("0:sequential/0:Late", 1)


async def test_bisect_raises_when_nothing_can_be_found() -> None:
    pipeline = apass.Sequential([add_one])
    with pytest.raises(apass.errors.BisectError, match="the untouched module is bad before any pass"):
        await apass.bisect({"f": 1}, pipeline, lambda mod: mod["f"] == 2)
    with pytest.raises(apass.errors.BisectError, match="the module is good after all 1 passes; the check must fail"):
        await apass.bisect({"f": 1}, pipeline, lambda mod: True)
    forgetful: Any = dict[str, Any]().get
    with pytest.raises(apass.errors.BisectError, match="the check returned None; it must return whether"):
        await apass.bisect({"f": 1}, pipeline, lambda mod: forgetful("f"))
    with pytest.raises(
        apass.errors.BisectError, match=r"a pass raised KeyError: 'g'; .* or apass opt --reproducer DIR$"
    ):
        await apass.bisect({"f": 1}, module_pass_of(lambda mod, ctx: mod["g"]), lambda mod: True)
    async with apass.PassContext(required_pass=["add_one"]):
        with pytest.raises(apass.errors.BisectError, match="which bisect cannot skip: add_one"):
            await apass.bisect({"f": 1}, pipeline, lambda mod: mod["f"] == 1)


async def test_relay_module_is_bisected() -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) {\n  add(%x, add(1f, 2f))\n}\n'
    mod = await relay.transform.InferType()(relay.parse(text))
    names = (relay.transform.DeadCodeElimination, relay.transform.FoldConstant, relay.transform.DeadCodeElimination)
    pipeline = apass.Sequential([make() for make in names])
    result = await apass.bisect(mod, pipeline, lambda mod: "1f" in str(mod))
    assert str(result).startswith("the first bad pass is (2) FoldConstant at 0:sequential/1:FoldConstant")


@pytest.mark.process
async def test_check_may_run_a_process(tmp_path: Path) -> None:
    path = tmp_path / "m.json"

    async def check(mod: Module) -> bool:
        await anyio.Path(path).write_text(json.dumps(mod))
        code = "import json, sys; sys.exit(json.load(open(sys.argv[1]))['g'] > 5)"
        done = await anyio.run_process([sys.executable, "-I", "-S", "-c", code, str(path)], check=False)
        return done.returncode == 0

    pipeline = apass.Sequential([function_pass_of(lambda func, mod, ctx: func + 1, name=f"P{n}") for n in range(6)])
    result = await apass.bisect({"f": 9, "g": 1, "h": 9}, pipeline, check)
    assert str(result) == "the first bad pass is (5) P4 at 0:sequential/4:P4 in function g"


async def test_bisect_finds_the_function_of_an_onnx_model() -> None:
    def negate(func: Any, mod: Any, ctx: Any) -> Any:
        copy = private_copy(func)
        for node in copy:
            node.op_type = "Neg" if node.op_type == "Relu" else node.op_type
        return copy

    model = ir.from_proto(
        parser.parse_model(
            """
            <ir_version: 9, opset_import: ["": 18, "my": 1]>
            g (float[2] x) => (float[2] y) { a = my.One (x) b = my.Two (a) y = Relu (b) }
            <domain: "my", opset_import: ["": 18]> One (a) => (b) { b = Relu (a) }
            <domain: "my", opset_import: ["": 18]> Two (a) => (b) { b = Relu (a) }
            """
        )
    )

    def check(mod: ir.Model) -> bool:
        return next(iter(mod.functions["my", "Two", ""])).op_type == "Relu"

    pipeline = apass.Sequential([apass.get_pass("onnx.Checker"), function_pass_of(negate, name="Negate")])
    result = await apass.bisect(model, pipeline, check)
    assert (result.function, result.alone, result.number) == ("my::Two", True, 2)
    assert [next(iter(func)).op_type for func in result.after.functions.values()] == ["Relu", "Neg"]


async def test_concurrent_bisections_equal_sequential_ones() -> None:
    rng = random.Random(5)

    async def step(func: int, mod: Module, ctx: Any) -> int:
        for _ in range(func % 3):
            await anyio.lowlevel.checkpoint()
        return func * 3 % 101

    pipeline: apass.Pass[Any] = apass.Sequential([function_pass_of(step, name=f"Step{index}") for index in range(6)])
    modules = {f"m{index}": {name: rng.randrange(1, 101) for name in "fgh"} for index in range(200)}
    limits = {name: rng.randrange(40, 101) for name in modules}
    answers: dict[str, str] = {}

    async def find(name: str) -> None:
        async def check(mod: Module) -> bool:
            await anyio.lowlevel.checkpoint()
            return bool(max(mod.values()) < limits[name])

        try:
            answers[name] = str(await apass.bisect(modules[name], pipeline, check))
        except apass.errors.BisectError as error:
            answers[name] = str(error)

    for name in modules:
        await find(name)
    sequential_answers, answers = answers, {}
    async with anyio.create_task_group() as tasks:
        for name in modules:
            tasks.start_soon(find, name)
    assert answers == sequential_answers
    assert len(set(sequential_answers.values())) > 10


apass.register_config_option("bisecting.amount", int, default=0)


async def test_options_of_the_context_apply_to_attempts() -> None:
    def add(mod: Module, ctx: PassContext) -> Module:
        return {"f": mod["f"] + ctx.config["bisecting.amount"]}

    pipeline = apass.Sequential([module_pass_of(add, name=f"Add{index}") for index in range(4)])
    async with PassContext(config={"bisecting.amount": 3}):
        result = await apass.bisect({"f": 0}, pipeline, lambda mod: mod["f"] < 7)
    assert (result.number, result.before, result.after) == (3, {"f": 6}, {"f": 9})


async def test_max_concurrency_applies_to_attempts() -> None:
    limits_seen: set[float | None] = set()

    async def look(func: int, mod: Module, ctx: PassContext) -> int:
        limits_seen.add(ctx.max_concurrency)
        return func + 1

    async with PassContext(max_concurrency=3):
        await apass.bisect({"f": 0}, function_pass_of(look, name="Look"), lambda mod: mod["f"] == 0)
    assert limits_seen == {3}


async def test_unmatched_name_is_warned_of_once() -> None:
    pipeline = apass.Sequential([module_pass_of(lambda mod, ctx: {"f": mod["f"] + 1}, name="Add") for _ in range(8)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnmatchedPassNameWarning)
        async with PassContext(disabled_pass=["Nowhere"]):
            await apass.bisect({"f": 0}, pipeline, lambda mod: mod["f"] < 5)
    assert len(caught) == 1


async def test_single_changed_function_needs_no_check() -> None:
    async def grow(func: int, mod: Module, ctx: PassContext) -> int:
        return func + 1 if func == 5 else func

    lines: list[str] = []
    mod = {"a": 1000, "b": 5, "c": 2000}
    result = await apass.bisect(
        mod, function_pass_of(grow, name="Grow"), lambda mod: mod["b"] == 5, report=lines.append
    )
    assert (result.function, result.alone, result.after) == ("b", True, {"a": 1000, "b": 6, "c": 2000})
    assert lines == ["the untouched module: good", "after all 1 passes: bad"]


async def test_attempt_with_one_pass_is_reported_in_singular() -> None:
    passes = [module_pass_of(lambda mod, ctx: {"f": mod["f"] + 1}, name="Add") for _ in range(2)]
    lines: list[str] = []
    await apass.bisect({"f": 0}, apass.Sequential(passes), lambda mod: mod["f"] < 2, report=lines.append)
    assert lines[2:] == ["after pass 1: good"]


async def test_bisect_takes_the_text_of_a_pipeline() -> None:
    with failing_passes():
        found = await apass.bisect({"f": 1}, "add_one", lambda mod: mod["f"] < 2)
    assert str(found) == "the first bad pass is (1) add_one at 0:sequential/0:add_one"


async def test_bisect_names_the_order_of_arguments() -> None:
    mod: Any = {"f": 1}
    with pytest.raises(TypeError, match=r"^bisect\(mod, pass_, check\) takes .* as pass_, got {'f': 1}$"):
        await apass.bisect(add_one, mod, lambda mod: True)


async def test_exit_of_a_pass_is_an_error() -> None:
    @apass.module_pass(opt_level=0)
    def leave(mod: dict[str, int], ctx: apass.PassContext) -> dict[str, int]:
        sys.exit(3)

    with pytest.raises(apass.errors.BisectError, match="a pass raised SystemExit: 3; "):
        await apass.bisect({"f": 1}, leave, lambda mod: True)
