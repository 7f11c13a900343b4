"""Passes whose registered name differs from that in `info`."""

from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

import apass
from apass import If, PassContext, PassInfo, Race, Repeat, Sequential, parse_pipeline
from apass.instruments import PrintIRAfter, PrintIRFailed
from apass.stores import MemoryStore
from tests.helpers.recording import module_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, int]


def add_one(mod: Module, ctx: Any) -> Module:
    return {name: func + 1 for name, func in mod.items()}


class Added(apass.ModulePass[Module]):
    """A class of passes."""

    info = PassInfo(opt_level=1, name="Added")

    def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        return add_one(mod, ctx)


class Chosen(apass.ModulePass[Module], opt_level=0):
    """A class with an option."""

    size: int = 1

    def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        raise ValueError("no")


def made() -> apass.Pass[Any]:
    return module_pass_of(add_one, 1, "Made")


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    apass.register_pass("names.Boom", BOOM)
    apass.register_pass("names.Added")(Added)
    apass.register_pass("names.Chosen", Chosen)
    apass.register_pass("names.Made", made)
    yield
    for name in ("names.Boom", "names.Added", "names.Chosen", "names.Made"):
        apass.unregister_pass(name)


BOOM = module_pass_of(add_one, 1, "Boom")

WAYS: dict[str, Callable[[], tuple[apass.Pass[Any], tuple[str, str]]]] = {
    "pass": lambda: (BOOM, ("Boom", "names.Boom")),
    "pass by name": lambda: (parse_pipeline("names.Boom"), ("Boom", "names.Boom")),
    "class": lambda: (Added(), ("Added", "names.Added")),
    "class by name": lambda: (apass.get_pass("names.Added"), ("Added", "names.Added")),
    "factory by name": lambda: (apass.get_pass("names.Made"), ("Made", "names.Made")),
}


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("way", WAYS)
async def test_either_name_disables_and_requires(way: str, number: int) -> None:
    pass_, names = WAYS[way]()
    pipeline = Sequential([pass_])
    async with PassContext(opt_level=3, disabled_pass=[names[number]]) as ctx:
        assert await pipeline({"f": 1}) == {"f": 1}
        assert "skip" in str(apass.plan(pipeline, ctx))
    async with PassContext(opt_level=0, required_pass=[names[number]]) as ctx:
        assert await pipeline({"f": 1}) == {"f": 2}
        assert "skip" not in str(apass.plan(pipeline, ctx))
    async with PassContext(opt_level=0):
        assert await pipeline({"f": 1}) == {"f": 1}


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("way", WAYS)
async def test_either_name_selects_what_to_print(way: str, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    pass_, names = WAYS[way]()
    async with PassContext(opt_level=3, instruments=[PrintIRAfter([names[number]])]):
        await Sequential([pass_])({"f": 1})
    captured = capsys.readouterr()
    assert names[0] in captured.out + captured.err


async def test_pass_made_by_name_is_called_by_it() -> None:
    texts = ["names.Boom", "names.Added", "names.Made", "names.Chosen", "names.Chosen{size=2}"]
    passes = [apass.parse_pipeline(text).children()[0] for text in texts]
    assert [pass_.info.name for pass_ in passes] == [text.partition("{")[0] for text in texts]
    assert [pass_.all_names[0] for pass_ in passes] == ["Boom", "Added", "Made", "Chosen", "Chosen"]
    assert [str(pass_) for pass_ in passes] == texts
    assert (BOOM.info.name, Chosen().info.name) == ("Boom", "Chosen")
    with pytest.raises(ValueError, match="no") as caught:
        await Sequential([passes[-1]])({"f": 1})
    assert caught.value.__notes__ == ["in pass 'sequential > names.Chosen'"]


async def test_subclass_of_registered_class_is_another_pass() -> None:
    class Derived(Added):
        info = PassInfo(opt_level=1, name="Derived")

    assert Derived().all_names == ("Derived",)
    async with PassContext(disabled_pass=["names.Added"]):
        assert await Sequential([Derived()])({"f": 1}) == {"f": 2}


@pytest.mark.parametrize("kind", ["Sequential", "Repeat", "Race", "If"])
async def test_kind_of_combinator_does_not_select_named_one(kind: str) -> None:
    make: dict[str, Any] = {
        "Sequential": lambda: Sequential([Added()], name="own"),
        "Repeat": lambda: Repeat([Added()], times=1, name="own"),
        "Race": lambda: Race([Added()], name="own"),
        "If": lambda: If(bool, [Added()], name="own"),
    }
    async with PassContext(disabled_pass=[kind]):
        assert await Sequential([make[kind]()])({"f": 1}) == {"f": 2}
    async with PassContext(disabled_pass=["own"]):
        assert await Sequential([make[kind]()])({"f": 1}) == {"f": 1}


async def test_pass_of_nested_context_matches_outer_names() -> None:
    unregistered = module_pass_of(add_one, 0, "Unregistered")
    # `filterwarnings = error` makes a wrong UnmatchedPassNameWarning an error.
    async with PassContext(disabled_pass=["Unregistered"]), PassContext():
        assert await Sequential([unregistered])({"f": 1}) == {"f": 2}


@pytest.fixture
def failing_pipeline() -> Iterator[apass.Pass[Module]]:
    """Register a pipeline of a pass that fails, and yield the pipeline."""

    def fail(mod: Module, ctx: PassContext) -> Module:
        raise ValueError("no")

    passes = [apass.module_pass(fail, opt_level=0, name="Fail")]
    apass.register_pass("test_registered_names.Pipeline", lambda: Sequential(passes, name="Pipeline"))
    yield apass.get_pass("test_registered_names.Pipeline")
    apass.unregister_pass("test_registered_names.Pipeline")


async def test_registered_pipeline_is_no_pass_of_its_own(
    failing_pipeline: apass.Pass[Module], capsys: pytest.CaptureFixture[str]
) -> None:
    assert (str(failing_pipeline), failing_pipeline.runs_as_whole()) == ("test_registered_names.Pipeline", False)
    ctx = PassContext(instruments=[PrintIRFailed()], store=MemoryStore())
    with pytest.raises(ValueError, match="no"):
        await failing_pipeline.run({"f": 1}, ctx=ctx)
    assert capsys.readouterr().out == "Print IR of failed pass: Fail\nf: 1\n\n"


async def test_pass_of_registered_pipeline_exceeds_a_deadline(idle_clock: None) -> None:
    async def wait(mod: Module, ctx: PassContext) -> Module:
        await anyio.sleep_forever()
        return mod

    passes = [apass.module_pass(wait, opt_level=0, name="Wait")]
    apass.register_pass("test_registered_names.Waiting", lambda: Sequential(passes, name="Waiting"))
    pipeline: apass.Pass[Module] = apass.get_pass("test_registered_names.Waiting")
    apass.unregister_pass("test_registered_names.Waiting")
    with pytest.raises(apass.errors.BudgetExceededError, match="pass 'Wait' ran out of the budget"):
        await pipeline.run({"f": 1}, ctx=PassContext(deadline=10))
