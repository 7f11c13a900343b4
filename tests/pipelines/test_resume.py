"""What is left of a pipeline after one of its passes."""

from typing import Any

import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass import Position, parse_pipeline, rest_of
from apass.core.position import PositionTracker
from apass.core.run import current_run
from apass.instruments.support.change_tracker import ChangeTracker

Module = dict[str, int]


@apass.register_pass("resume.Add")
def _add(amount: int = 1, level: int = 0) -> apass.Pass[Module]:
    async def add(func: int, mod: Module, ctx: apass.PassContext) -> int:
        await anyio.lowlevel.checkpoint()
        return min(func + amount, 60)

    return apass.function_pass(add, opt_level=level, name="resume.Add")


@apass.register_pass("resume.Double")
def _double() -> apass.Pass[Module]:
    def double(mod: Module, ctx: apass.PassContext) -> Module:
        return {name: min(2 * value, 60) for name, value in mod.items()}

    return apass.module_pass(double, opt_level=0, name="resume.Double", required=["resume.Add"])


@apass.register_callable("resume.is_even")
def is_even(mod: Module) -> bool:
    return mod["f"] % 2 == 0


@apass.pass_instrument
class Keeper:
    """Keeps what each run of a pass returned, by its position."""

    def __init__(self) -> None:
        self.numbering = PositionTracker()
        self.kept: dict[str, Module] = {}

    def run_before_pass(self, mod: Module, info: apass.PassInfo) -> None:
        run = current_run()
        assert run is not None
        self.numbering.begin(run)

    def run_after_pass(self, mod: Module, info: apass.PassInfo) -> None:
        run = current_run()
        assert run is not None
        position = self.numbering.position(run)
        assert position is not None
        self.kept[position.text] = mod


leaves = st.sampled_from(
    ["resume.Add", "resume.Add{amount=3}", "resume.Double", "resume.Add{level=3}", "Sequential{name=empty}"]
)


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    rows = st.lists(inner, min_size=1, max_size=3).map(",".join)
    return st.one_of(
        rows.map("Sequential({})".format),
        rows.map("Repeat{{times=3}}({})".format),
        rows.map("Repeat({})".format),
        rows.map("While{{predicate=resume.is_even,times=3}}({})".format),
        st.tuples(rows, rows).map(lambda pair: f"If{{predicate=resume.is_even,otherwise=({pair[1]})}}({pair[0]})"),
    )


pipelines = st.lists(st.recursive(leaves, _combined, max_leaves=6), min_size=1, max_size=3).map(",".join)


@given(pipelines, st.integers(0, 9), st.data())
def test_resuming_anywhere_gives_the_full_result(text: str, start: int, data: st.DataObject) -> None:
    pipeline: apass.Pass[Module] = parse_pipeline(text)
    keeper = Keeper()
    mod = {"f": start, "g": 2 * start + 1}
    try:
        whole = apass.run(pipeline, mod, context=apass.PassContext(instruments=[keeper]))
    except apass.errors.PipelineCycleError:
        return
    position = data.draw(st.sampled_from(sorted(keeper.kept)))
    rest = rest_of(pipeline, Position.parse(position), apass.PassContext())
    assert apass.run(rest, keeper.kept[position]) == whole


@pytest.mark.parametrize(
    ("position", "message"),
    [
        ("0:other", "cannot resume after '0:other': the outermost pass of the pipeline is 'sequential'"),
        (
            "0:sequential/1:Rac",
            (
                "cannot resume after '0:sequential/1:Rac': the pipeline has no pass 'Rac' as number 1 there; "
                "did you mean 'Race'?"
            ),
        ),
        (
            "0:sequential/1:Race@1/0:resume.Add",
            (
                "cannot resume after '0:sequential/1:Race@1/0:resume.Add': it is in an alternative of pass 'Race'; "
                "resume from the file of the pass that contains it"
            ),
        ),
        (
            "0:sequential/0:resume.Add@f/0:X",
            (
                "cannot resume after '0:sequential/0:resume.Add@f/0:X': it is in the body of 'f' of pass "
                "'resume.Add'; resume from the file of the pass that contains it"
            ),
        ),
    ],
)
def test_resume_error_gives_the_reason(position: str, message: str) -> None:
    pipeline: apass.Pass[Module] = parse_pipeline("resume.Add,Race(resume.Add,resume.Add)")
    with pytest.raises(apass.errors.ResumeError) as caught:
        rest_of(pipeline, Position.parse(position), apass.PassContext())
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["", "x", "0:", "a:b", "0:a/b"])
def test_invalid_position_text_raises(text: str) -> None:
    if text == "0:a/b":
        assert Position.parse(text).steps == ((0, "a/b", None),)
        return
    with pytest.raises(ValueError, match="invalid position"):
        Position.parse(text)


def test_tracker_releases_ended_runs() -> None:
    tracker = ChangeTracker()
    run = apass.Run(apass.PassInfo(0, "P"), None)
    tracker.begin(run, {})
    tracker.fail(run)
    assert tracker.input(run) is None


def test_rest_of_takes_the_text_of_a_pipeline() -> None:
    text, first = "resume.Add,resume.Double", Position(None, ((0, "sequential", None), (0, "resume.Add", None)))
    assert str(rest_of(text, first)) == "resume.Double"


def test_rest_of_rejects_text_as_position() -> None:
    position: Any = "0:sequential/0:resume.Add"
    with pytest.raises(TypeError, match="the position must be of type Position, got '0:sequential"):
        rest_of("resume.Add", position)
