"""`bisect`: the pass, and the function, whose effect makes a check fail."""

import json
import random
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import onnx_ir as ir
import pytest
from onnx import parser

import apass
from apass import relay
from apass.adapters.onnx import private_copy
from tests.helpers.failing_passes import add_one
from tests.helpers.recording import function_pass_of, module_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


def adding(amount: int, place: int) -> apass.Pass[Any]:
    """Return a pass that adds to each function."""
    return module_pass_of(lambda mod, ctx: {name: func + amount for name, func in mod.items()}, name=f"Add{place}")


async def test_the_first_pass_that_makes_the_module_bad_is_found_in_few_tries() -> None:
    amounts = [0] * 60 + [1] + [0] * 30 + [5] * 9
    pipeline = apass.Sequential([adding(amount, place) for place, amount in enumerate(amounts)])
    lines: list[str] = []
    asked: list[Module] = []

    async def check(mod: Module) -> bool:
        await anyio.lowlevel.checkpoint()
        asked.append(mod)
        return bool(mod["f"] == 0)

    found = await apass.bisect({"f": 0}, pipeline, check, report=lines.append)
    assert (found.number, found.total, found.checks) == (61, 100, len(asked))
    assert (found.before, found.after, found.function) == ({"f": 0}, {"f": 1}, None)
    assert found.diff == "@@ -1 +1 @@\n-f: 0\n+f: 1"
    assert str(found) == "the first bad pass is (61) Add60 at 0:sequential/60:Add60"
    assert lines == [
        "the untouched module: good",
        "after all 100 passes: bad",
        "after passes 1-50: good, as one like it was",
        "after passes 1-75: bad",
        "after passes 1-62: bad, as one like it was",
        "after passes 1-56: good, as one like it was",
        "after passes 1-59: good, as one like it was",
        "after passes 1-60: good, as one like it was",
        "after passes 1-61: bad, as one like it was",
    ]
    assert asked == [{"f": 0}, {"f": 46}, {"f": 1}]


async def test_of_a_function_pass_the_function_is_found() -> None:
    async def double(func: int, mod: Module, ctx: Any) -> int:
        await anyio.lowlevel.checkpoint()
        return 2 * func

    pipeline = apass.Sequential([adding(1, 0), function_pass_of(double, name="Double"), adding(0, 2)])
    mod = {name: place for place, name in enumerate("abcdefgh")}
    found = await apass.bisect(mod, pipeline, lambda mod: mod["g"] <= 10)
    assert str(found) == "the first bad pass is (2) Double at 0:sequential/1:Double in function g"
    assert found.diff == "@@ -4,5 +4,5 @@\n d: 4\n e: 5\n f: 6\n-g: 7\n+g: 14\n h: 8"


async def test_functions_that_are_bad_only_together_are_said_to_be() -> None:
    pipeline = function_pass_of(lambda func, mod, ctx: func + 1, name="Add")
    found = await apass.bisect({"a": 0, "b": 0, "c": 0}, pipeline, lambda mod: mod["a"] + mod["b"] < 2)
    assert str(found) == "the first bad pass is (1) Add at 0:Add in function b, together with functions before it"
    assert (found.alone, found.before, found.after) == (False, {"a": 0, "b": 0, "c": 0}, {"a": 1, "b": 1, "c": 0})


async def test_the_context_is_the_current_one() -> None:
    late = apass.module_pass(lambda mod, ctx: {"f": ctx.opt_level}, opt_level=3, name="Late")
    never = adding(9, 9)
    async with apass.PassContext(3, disabled_pass=["Add9"]):
        found = await apass.bisect({"f": 0}, apass.Sequential([never, late]), lambda mod: mod["f"] != 3)
    assert (found.position.text, found.total) == ("0:sequential/0:Late", 1)


async def test_there_must_be_something_to_find() -> None:
    pipeline = apass.Sequential([add_one])
    with pytest.raises(apass.BisectError, match="the untouched module is bad: no pass is to blame"):
        await apass.bisect({"f": 1}, pipeline, lambda mod: mod["f"] == 2)
    with pytest.raises(apass.BisectError, match="the module is good after all 1 passes: there is nothing to find"):
        await apass.bisect({"f": 1}, pipeline, lambda mod: True)
    forgetful: Any = dict[str, Any]().get
    with pytest.raises(apass.BisectError, match="the check returned None; return whether"):
        await apass.bisect({"f": 1}, pipeline, lambda mod: forgetful("f"))
    with pytest.raises(apass.BisectError, match="a pass fails, so there is no module to check: KeyError: 'g'"):
        await apass.bisect({"f": 1}, module_pass_of(lambda mod, ctx: mod["g"]), lambda mod: True)
    async with apass.PassContext(required_pass=["add_one"]):
        with pytest.raises(apass.BisectError, match="cannot be left out, because the context requires them: add_one"):
            await apass.bisect({"f": 1}, pipeline, lambda mod: mod["f"] == 1)


async def test_relay_is_bisected_by_what_it_computes() -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) {\n  add(%x, add(1f, 2f))\n}\n'
    mod = await relay.transform.InferType()(relay.parse(text))
    names = (relay.transform.DeadCodeElimination, relay.transform.FoldConstant, relay.transform.DeadCodeElimination)
    pipeline = apass.Sequential([make() for make in names])
    found = await apass.bisect(mod, pipeline, lambda mod: "1f" in str(mod))
    assert str(found).startswith("the first bad pass is (2) FoldConstant at 0:sequential/1:FoldConstant")


async def test_a_check_may_be_a_process(tmp_path: Path) -> None:
    place = tmp_path / "m.json"

    async def check(mod: Module) -> bool:
        await anyio.Path(place).write_text(json.dumps(mod))
        code = "import json, sys; sys.exit(json.load(open(sys.argv[1]))['g'] > 5)"
        done = await anyio.run_process([sys.executable, "-I", "-S", "-c", code, str(place)], check=False)
        return done.returncode == 0

    pipeline = apass.Sequential([function_pass_of(lambda func, mod, ctx: func + 1, name=f"P{n}") for n in range(6)])
    found = await apass.bisect({"f": 9, "g": 1, "h": 9}, pipeline, check)
    assert str(found) == "the first bad pass is (5) P4 at 0:sequential/4:P4 in function g"


async def test_of_an_onnx_model_the_function_is_found() -> None:
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
    found = await apass.bisect(model, pipeline, check)
    assert (found.function, found.alone, found.number) == ("my::Two", True, 2)
    assert [next(iter(func)).op_type for func in found.after.functions.values()] == ["Relu", "Neg"]


async def test_two_hundred_modules_at_once_have_the_answers_that_they_have_one_by_one() -> None:
    dice = random.Random(5)

    async def step(func: int, mod: Module, ctx: Any) -> int:
        for _ in range(func % 3):
            await anyio.lowlevel.checkpoint()
        return func * 3 % 101

    pipeline: apass.Pass[Any] = apass.Sequential([function_pass_of(step, name=f"Step{place}") for place in range(6)])
    modules = {f"m{index}": {name: dice.randrange(1, 101) for name in "fgh"} for index in range(200)}
    limits = {name: dice.randrange(40, 101) for name in modules}
    answers: dict[str, str] = {}

    async def find(name: str) -> None:
        async def check(mod: Module) -> bool:
            await anyio.lowlevel.checkpoint()
            return bool(max(mod.values()) < limits[name])

        try:
            answers[name] = str(await apass.bisect(modules[name], pipeline, check))
        except apass.BisectError as error:
            answers[name] = str(error)

    for name in modules:
        await find(name)
    one_by_one, answers = answers, {}
    async with anyio.create_task_group() as tasks:
        for name in modules:
            tasks.start_soon(find, name)
    assert answers == one_by_one
    assert len(set(one_by_one.values())) > 10
