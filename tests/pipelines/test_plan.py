"""`plan`: agreement with the runner, and the reasons for skipped passes."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apass
from apass.core.run import current_run
from apass.pipelines.plan import Decision, plan
from tests.helpers.amounts import amount
from tests.helpers.pipeline_text import registered as registered_texts
from tests.helpers.recording import logging_pass

Path = tuple[str, ...]


@dataclass(frozen=True)
class Leaf:
    """A pass that changes nothing."""

    name: str
    level: int
    required: tuple[str, ...] = ()

    def make(self) -> apass.Pass[Any]:
        return apass.module_pass(lambda mod, ctx: mod, self.level, self.name, self.required)


@dataclass(frozen=True)
class Row:
    """A Sequential, or a Repeat, which needs one round where nothing changes."""

    name: str
    level: int
    required: tuple[str, ...]
    passes: "tuple[Leaf | Row, ...]"
    repeats: bool

    def make(self) -> apass.Pass[Any]:
        passes = [one.make() for one in self.passes]
        if self.repeats and passes:
            return apass.Repeat(passes, opt_level=self.level, name=self.name, required=self.required)
        return apass.Sequential(passes, self.level, self.name, self.required)


REGISTERED = ("R0", "R1", "R2", "R3")
NAMES = ("A", "B", *REGISTERED)
LEVELS = st.integers(0, 4)
REQUIRED = st.lists(st.sampled_from(REGISTERED), max_size=2).map(tuple)
LEAVES = st.builds(Leaf, st.sampled_from(NAMES), LEVELS, REQUIRED)


def rows(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Row]:
    """Return pipelines of `inner`."""
    passes = st.lists(inner, max_size=4).map(tuple)
    return st.builds(Row, st.sampled_from(("S", "T")), LEVELS, REQUIRED, passes, st.booleans())


PIPELINES = rows(st.recursive(LEAVES, rows, max_leaves=8))
TABLES = st.tuples(*[st.one_of(st.builds(Leaf, st.just(name), LEVELS, REQUIRED), PIPELINES) for name in REGISTERED])


@apass.pass_instrument
class Paths:
    """Notes each pass that begins."""

    def __init__(self) -> None:
        self.found: list[Path] = []

    def run_before_pass(self, mod: Any, info: apass.PassInfo) -> None:
        run = current_run()
        assert run is not None
        self.found.append(run.path)


@contextmanager
def registered(table: Iterable[tuple[str, Leaf | Row]]) -> Generator[None]:
    """Register passes by name, and none of them any more at the end."""
    names: list[str] = []
    try:
        for name, one in table:
            apass.register_pass(name, one.make())
            names.append(name)
        yield
    finally:
        for name in names:
            apass.unregister_pass(name)


def ran(pass_: apass.Pass[Any], names: Sequence[str], disabled: Iterable[str], level: int) -> list[Path] | str:
    """Return the passes that a real run runs, or the error of it."""
    paths = Paths()
    context = apass.PassContext(level, required_pass=names, disabled_pass=disabled, instruments=[paths])
    try:
        apass.run(pass_, {"f": 1}, context=context)
    except apass.errors.CyclicRequirementError as error:
        return str(error)
    return paths.found


def planned(pass_: apass.Pass[Any], names: Sequence[str], disabled: Iterable[str], level: int) -> list[Path] | str:
    """Return the passes that the plan says to run, or the error of it."""
    try:
        return list(plan(pass_, apass.PassContext(level, required_pass=names, disabled_pass=disabled)).running())
    except apass.errors.CyclicRequirementError as error:
        return str(error)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::apass.errors.UnmatchedPassNameWarning")
@given(PIPELINES, TABLES, st.lists(st.sampled_from(NAMES)), st.lists(st.sampled_from(NAMES)), LEVELS)
@settings(max_examples=amount(100))
def test_plan_matches_the_run(
    pipeline: Row, table: tuple[Leaf | Row, ...], required: list[str], disabled: list[str], level: int
) -> None:
    with registered(zip(REGISTERED, table, strict=True)):
        pass_ = pipeline.make()
        assert planned(pass_, required, disabled, level) == ran(pass_, required, disabled, level)


def test_plan_gives_reasons_for_skipped_passes() -> None:
    with registered([("Types", Leaf("Types", 9)), ("Fold", Leaf("Fold", 3, ("Types",)))]):
        passes = [Leaf("Fold", 2, ("Fold2",)), Leaf("Late", 3), Leaf("Forced", 3), Leaf("Off", 0)]
        with registered([("Fold2", Leaf("Fold2", 1, ("Types",)))]):
            context = apass.PassContext(2, required_pass=["Forced"], disabled_pass=["Off", "Types"])
            text = str(plan(apass.Sequential([one.make() for one in passes]), context))
    assert text == (
        "run    sequential\n"
        "run      Types     required by Fold2, although disabled\n"
        "run      Fold2     required by Fold\n"
        "run      Fold\n"
        "skip     Late      level 3 is above 2\n"
        "run      Forced    required by the context\n"
        "skip     Off       disabled"
    )


def test_children_of_a_skipped_pass_have_reasons() -> None:
    inner = "Repeat(Sequential{name=a}),If{predicate=is_large,otherwise=(Sequential{name=c})}(Sequential{name=b})"
    with registered_texts():
        pipeline = apass.parse_pipeline(f"Sequential{{name=Outer,opt_level=3}}({inner})")
    assert str(plan(apass.Sequential([pipeline]), apass.PassContext(2))) == (
        "run    sequential\n"
        "skip     Outer                     level 3 is above 2\n"
        "skip       Repeat                  Outer is skipped\n"
        "skip         a                     Repeat is skipped\n"
        "skip       If{predicate=is_large}  Outer is skipped\n"
        "skip         b                     If is skipped\n"
        "skip         c                     If is skipped"
    )


def test_module_dependent_decisions_are_marked() -> None:
    a, b, late = logging_pass([], "A"), logging_pass([], "B"), logging_pass([], "Late", 3)
    pipeline = apass.Sequential(
        [
            apass.If(bool, [a], otherwise=[b, late]),
            apass.Race([a, b]),
            apass.Race([a], key=len),
            apass.Repeat([a]),
            apass.Repeat([a], times=3),
            apass.Repeat([a], times=1),
        ]
    )
    found = plan(pipeline, apass.PassContext())
    rounds = "after the first round, until one changes nothing, decided at run time; at most"
    assert str(found) == (
        "run    sequential\n"
        "run      If{predicate=bool}  decided at run time by its predicate\n"
        "maybe      A                 if its predicate holds\n"
        "maybe      B                 if its predicate does not hold\n"
        "skip       Late              level 3 is above 2\n"
        "run      Race                decided at run time: the first to finish\n"
        "maybe      A                 an alternative\n"
        "maybe      B                 an alternative\n"
        "run      Race{key=len}       decided at run time: the smallest key\n"
        "maybe      A                 an alternative\n"
        f"run      Repeat              {rounds} 100 rounds\n"
        "run        A\n"
        f"run      Repeat{{times=3}}     {rounds} 3 rounds\n"
        "run        A\n"
        "run      Repeat{times=1}     one round\n"
        "run        A"
    )
    assert [found.children[0].decision, *(one.decision for one in found.children[0].children)] == [
        Decision.RUN,
        Decision.MAYBE,
        Decision.MAYBE,
        Decision.SKIP,
    ]


def test_rounds_and_attempts_are_marked() -> None:
    a, late = logging_pass([], "A"), logging_pass([], "Late", 3)
    pipeline = apass.Sequential([apass.First([a, late]), apass.While(bool, [a], 1), apass.MinimumPoint([a], len)])
    assert str(plan(pipeline, apass.PassContext())) == (
        "run    sequential\n"
        "run      First                          decided at run time: the first to succeed\n"
        "maybe      A                            an alternative\n"
        "skip       Late                         level 3 is above 2\n"
        "run      While{predicate=bool,times=1}  while its predicate holds, decided at run time; at most 1 round\n"
        "maybe      A                            if its predicate holds\n"
        "run      MinimumPoint{key=len}          after the first round, until the key gets no smaller, decided at run "
        "time; at most 100 rounds\n"
        "run        A"
    )


def test_deciding_instruments_are_named() -> None:
    @apass.pass_instrument
    class Never:
        def should_run(self, mod: Any, info: apass.PassInfo) -> bool:
            raise AssertionError

    pipeline = apass.Sequential([logging_pass([], "A"), logging_pass([], "B", 3)])
    context = apass.PassContext(required_pass=["B", "sequential"], instruments=[Never()])
    assert str(plan(pipeline, context)) == (
        "run    sequential\nmaybe    A         decided by Never\nrun      B         required by the context"
    )


def test_plan_raises_for_invalid_requirements() -> None:
    cycle = [("R0", Leaf("R0", 0, ("R1",))), ("R1", Leaf("R1", 0, ("R0",)))]
    with registered(cycle), pytest.raises(apass.errors.CyclicRequirementError, match="cycle: R1 > R0 > R1; remove one"):
        plan(apass.Sequential([Leaf("A", 0, ("R1",)).make()]))
    with pytest.raises(apass.errors.UnknownPassError, match="no pass is registered under the name 'Nowhere'"):
        plan(apass.Sequential([Leaf("A", 0, ("Nowhere",)).make()]))


def test_plan_detects_cycles_by_registered_name() -> None:
    pipeline = apass.Sequential([Leaf("A", 0, ("R0",)).make()])
    with registered([("R0", Leaf("Other", 0, ("R0",)))]):
        for ask in (planned, ran):
            cycle = "the required passes form a cycle: R0 > R0; remove one `required` from it"
            assert ask(pipeline, (), (), 2) == cycle


@pytest.mark.anyio
async def test_plan_uses_the_current_context() -> None:
    pipeline = apass.Sequential([Leaf("A", 3).make()])
    async with apass.PassContext(3):
        inside = list(plan(pipeline).running())
    assert (inside, list(plan(pipeline).running())) == ([("sequential",), ("sequential", "A")], [("sequential",)])


def test_plan_shows_options_and_registered_names() -> None:
    class Tune(apass.ModulePass[Any], opt_level=0):
        size: int = 4

        def transform_module(self, mod: Any, ctx: apass.PassContext) -> Any:
            return mod

    apass.register_pass("planned.Tune", Tune)
    try:
        pipeline = apass.parse_pipeline(f"planned.Tune{{size={10**70}}},planned.Tune,Repeat{{times=2}}(planned.Tune)")
    finally:
        apass.unregister_pass("planned.Tune")
    lines = str(plan(pipeline, apass.PassContext())).splitlines()
    rounds = "after the first round, until one changes nothing, decided at run time; at most 2 rounds"
    assert lines[1:4] == [
        f"run      planned.Tune{{size=1{'0' * 54}...}}",
        "run      planned.Tune",
        f"run      {'Repeat{times=2}':<46}  {rounds}",
    ]


def test_plan_takes_the_text_of_a_pipeline() -> None:
    text = "Repeat{times=2}(Sequential)"
    assert plan(text) == plan(apass.parse_pipeline(text))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [[apass.Sequential[Any]()]],
            r"plan\(pass_, ctx\) takes .* as pass_, got \[<Sequential .*; .* write apass.Sequential",
        ),
        ([apass.PassContext(), apass.Sequential[Any]()], r"plan\(pass_, ctx\) takes .* as pass_, got PassContext"),
        (["Sequential", 3], r"the ctx must be of type PassContext \| None, got 3"),
    ],
)
def test_plan_rejects_misplaced_arguments(arguments: list[Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        plan(*arguments)
