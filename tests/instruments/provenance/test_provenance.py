"""`ProvenanceInstrument`: the passes that touched each function and node."""

import gc
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass import relay
from apass.executors import ProcessExecutor, ThreadExecutor
from apass.instruments import NodeHistory, Provenance, ProvenanceInstrument
from tests.helpers import file_passes, xdsl_modules

pytestmark = pytest.mark.anyio

Func = Mapping[str, Any]
Module = dict[str, Func]

NET: Module = {"main": {"conv": {"op": "Conv"}, "relu": {"op": "Relu"}}, "other": {"add": {"op": "Add"}}}


def editing(name: str, **edits: Any) -> apass.Pass[Module]:
    """Return a pass that sets entries of `main`; None removes one."""

    async def edit(func: Func, mod: Module, ctx: apass.PassContext) -> Func:
        await anyio.lowlevel.checkpoint()
        if "conv" not in func:
            return func
        return {key: value for key, value in {**func, **edits}.items() if value is not None}

    return apass.function_pass(edit, opt_level=0, name=name)


def changing(name: str, change: Callable[[Module], Module]) -> apass.Pass[Module]:
    """Return a module pass."""

    def run(mod: Module, ctx: apass.PassContext) -> Module:
        return change(mod)

    return apass.module_pass(run, opt_level=0, name=name)


async def size(mod: Module) -> int:
    return len(str(mod))


async def provenance_of(mod: Any, *passes: apass.Pass[Any]) -> Provenance:
    """Return the histories after a Sequential."""
    instrument = ProvenanceInstrument()
    async with apass.PassContext(instruments=[instrument]):
        await apass.Sequential(list(passes))(mod)
    return instrument.provenance()


def relay_module() -> Any:
    return relay.IRModule.from_expr(relay.Function([], relay.const(1.0)))


def xdsl_module() -> Any:
    return xdsl_modules.module(xdsl_modules.SUMS)


def shown(history: NodeHistory) -> list[str]:
    """Return the touches of a node as text."""
    return [f"{touch.kind} {touch.position.text}" for touch in history.touches]


async def test_broken_node_names_its_pass() -> None:
    passes = [editing("Tidy", tidy={"op": "Identity"}), editing("Break", relu={"op": "Rleu"}), editing("After", end=1)]
    found = await provenance_of(NET, *passes)
    (relu,) = found.find("relu")
    assert shown(relu) == ["changed 0:sequential/1:Break"]
    assert relu.last is not None
    assert (relu.last.pass_name, relu.last.text, relu.last.evidence) == ("Break", '{"op": "Rleu"}', "name")
    assert (relu.is_original, relu.is_removed) == (True, False)


async def test_nodes_have_whole_chains() -> None:
    passes = [editing("Make", new=1), editing("Change", new=2), editing("Remove", new=None), editing("Again", new=3)]
    found = await provenance_of(NET, *passes)
    again, removed = found.find("new")
    assert shown(again) == ["made 0:sequential/3:Again"]
    assert shown(removed) == [
        "made 0:sequential/0:Make",
        "changed 0:sequential/1:Change",
        "removed 0:sequential/2:Remove",
    ]
    assert removed.is_removed
    assert found.find("conv")[0].touches == ()
    assert found.render(removed=True) == (
        "main: from the input; changed by Make, Change, Remove, Again\n"
        "  conv  from the input\n"
        "  relu  from the input\n"
        "  new   made by Again\n"
        "  new   made by Make; changed by Change; removed by Remove\n"
        "other: from the input\n"
        "  add  from the input"
    )


async def test_renamed_node_is_found_by_former_name() -> None:
    found = await provenance_of(NET, editing("Rename", relu=None, act={"op": "Relu"}))
    (node,) = found.find("relu")
    assert node.render() == (
        "act  in main\n"
        '  {"op": "Relu"}\n'
        "  from the input\n"
        '  changed by 0:sequential/0:Rename  {"op": "Relu"}  (matched by contents, was relu)'
    )


async def test_functions_have_chains() -> None:
    add = changing("Add", lambda mod: {**mod, "helper": {"x": 1}})
    drop = changing("Drop", lambda mod: {name: func for name, func in mod.items() if name != "helper"})
    found = await provenance_of(NET, add, drop, add)
    kinds = [(touch.kind, touch.pass_name) for touch in found.function("helper").touches]
    assert kinds == [("made", "Add"), ("removed", "Drop"), ("made", "Add")]
    assert [node.is_removed for node in found.find("x")] == [False, True]
    assert found.function("other").touches == ()


async def test_pass_that_copies_touches_nothing() -> None:
    copy = changing("Copy", lambda mod: {name: dict(func) for name, func in mod.items()})
    found = await provenance_of(NET, copy)
    assert all(not part.touches and not any(node.touches for node in part.nodes) for part in found.functions)


async def test_only_taken_branch_is_recorded() -> None:
    race = apass.Race([editing("Short", alone=1), editing("Long", conv={"op": "Other"}, more=2)], key=size)
    found = await provenance_of(NET, race)
    names = {touch.pass_name for node in found.nodes() for touch in node.touches}
    assert names == {"Short"}


async def test_later_run_continues_the_chain() -> None:
    instrument = ProvenanceInstrument()
    async with apass.PassContext(instruments=[instrument]):
        first = await editing("First", a=1)(NET)
        await editing("Second", a=2)(first)
        await editing("Other", b=1)(NET)
    continued, other = instrument.modules.values()
    assert shown(continued.find("a")[0]) == ["made 0:First", "changed 1:Second"]
    assert (other.module, shown(other.find("b")[0])) == ("(unnamed 3)", ["made 2:Other"])


async def test_failed_run_keeps_the_chain() -> None:
    def fail(mod: Module, ctx: apass.PassContext) -> Module:
        raise ValueError("no")

    instrument = ProvenanceInstrument()
    async with apass.PassContext(instruments=[instrument]):
        with pytest.raises(ValueError, match="no"):
            await apass.Sequential([editing("Make", a=1), apass.module_pass(fail, opt_level=0)])(NET)
    assert shown(instrument.provenance().find("a")[0]) == ["made 0:sequential/0:Make"]


@pytest.mark.parametrize("make", [relay_module, xdsl_module], ids=lambda make: make.__name__)
async def test_instrument_does_not_keep_modules_alive(make: Callable[[], Any]) -> None:
    instrument = ProvenanceInstrument()
    mod = make()
    references = [weakref.ref(mod)]

    def copy(mod: Any, ctx: apass.PassContext) -> Any:
        adapter = apass.adapter_for(mod)
        result = adapter.isolate(mod, [name for name, _ in adapter.functions(mod)])
        references.append(weakref.ref(result))
        return result

    async with apass.PassContext(instruments=[instrument]):
        await apass.Sequential([apass.module_pass(copy, opt_level=0)] * 3)(mod)
    del mod
    # A worker thread refers to its last call until it has deleted its variables, or the next call begins.
    await anyio.to_thread.run_sync(bool)
    gc.collect()
    assert [reference() for reference in references] == [None] * 4
    assert len(instrument.modules) == 1


async def test_conversion_makes_all_nodes() -> None:
    def convert(mod: Module, ctx: apass.PassContext) -> Any:
        return relay.IRModule.from_expr(relay.Function([], relay.const(1.0)))

    found = await provenance_of(NET, apass.module_pass(convert, opt_level=0, name="Convert"))
    assert [(node.name, node.is_removed) for node in found.nodes("main")] == [
        ("constant#0", False),
        ("conv", True),
        ("relu", True),
    ]


async def test_unknown_names_suggest_near_ones() -> None:
    found = await provenance_of(NET, editing("Make", a=1))
    with pytest.raises(apass.errors.UnknownNodeError, match="has no node 'rleu'; did you mean 'relu'"):
        found.find("rleu")
    with pytest.raises(apass.errors.UnknownNodeError, match="has no function 'mian'; did you mean 'main'"):
        found.find("relu", "mian")
    instrument = ProvenanceInstrument()
    with pytest.raises(apass.errors.UnknownNodeError, match="no pass has ended"):
        instrument.provenance()


async def test_adapter_without_nodes_has_functions() -> None:
    def increase(func: int, mod: Any, ctx: apass.PassContext) -> int:
        return func + 1

    found = await provenance_of({"f": 1}, apass.function_pass(increase, opt_level=0, name="Inc"))
    assert found.render() == "f: from the input; changed by Inc"
    with pytest.raises(apass.errors.UnknownNodeError, match="its adapter lists functions only"):
        found.find("x")


@pytest.mark.parametrize("executor", [ThreadExecutor(workers=2), ProcessExecutor(workers=2)], ids=["thread", "process"])
async def test_workers_record_the_same(executor: Any) -> None:
    modules = {f"m{index}": {"f": {"a": index, "b": 2}, "g": {"c": 3}} for index in range(4)}
    inline, remote = ProvenanceInstrument(), ProvenanceInstrument()
    async with apass.PassContext(instruments=[inline]):
        await apass.optimize_all(modules, file_passes.SetEntry)
    async with apass.PassContext(instruments=[remote]):
        await apass.optimize_all(modules, file_passes.SetEntry, executor=executor)
    assert remote.modules == inline.modules
    assert shown(inline.provenance("m0").find("a")[0]) == ["changed 0:SetEntry"]


async def test_json_has_every_touch() -> None:
    found = await provenance_of(NET, editing("Make", a=1))
    entry, *_ = (node for node in found.as_json()["functions"][0]["nodes"] if node["name"] == "a")
    assert entry["touches"] == [{"kind": "made", "pass": "Make", "path": "0:sequential/0:Make", "text": "1"}]


functions = st.dictionaries(st.sampled_from("abcde"), st.integers(0, 2))


@given(st.lists(st.dictionaries(st.sampled_from("fg"), functions, max_size=2), min_size=1, max_size=6))
def test_last_touch_explains_each_difference(modules: list[dict[str, Any]]) -> None:
    # The passes return the modules one after the other, so the histories follow from the modules alone.
    def returning(result: dict[str, Any], index: int) -> apass.Pass[Any]:
        return changing(f"P{index}", lambda mod: result)

    passes = [returning(result, index) for index, result in enumerate(modules[1:])]
    instrument = ProvenanceInstrument()
    apass.run(apass.Sequential(passes), modules[0], context=apass.PassContext(instruments=[instrument]))
    found = instrument.provenance()
    for name in {name for mod in modules for name in mod}:
        states = [None if name not in mod else list(mod[name].items()) for mod in modules]
        differences = [index for index in range(len(passes)) if states[index] != states[index + 1]]
        assert [touch.position.order[-1] for touch in found.function(name).touches] == differences
        current = list(found.nodes(name, removed=False))
        assert [(node.name, node.text) for node in current] == [(key, str(value)) for key, value in states[-1] or ()]
        for node in current:
            values = [dict(state or ()).get(node.name) for state in states]
            last = max((index for index in range(len(passes)) if values[index] != values[index + 1]), default=None)
            assert (node.last and node.last.position.order[-1]) == last


async def test_line_breaks_in_names_are_escaped() -> None:
    found = await provenance_of({"a\nb": {"x\n  y  made by Fake": "z\n"}}, editing("Edit", new=1))
    assert found.render() == "a\\nb: from the input\n  x\\n  y  made by Fake  from the input"
    assert found.find("x\n  y  made by Fake")[0].render() == (
        'x\\n  y  made by Fake  in a\\nb\n  "z\\n"\n  from the input'
    )


async def test_function_made_again_is_not_removed() -> None:
    convert = changing("Convert", lambda mod: relay_module())
    found = await provenance_of({"main": {"x": 1}}, convert)
    assert found.render() == "main: made by Convert\n  constant#0  made by Convert"
