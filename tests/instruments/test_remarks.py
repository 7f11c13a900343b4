"""`RemarksInstrument`: what is kept, in which order, and the YAML, which another library reads back."""

import math
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass import Remark, Span
from apass.instruments import RemarksInstrument, render_remarks

Module = dict[str, int]

GOLDEN = """\
--- !Missed
Pass:            FuseOps
Name:            TooBig
DebugLoc:        { File: "a b.relay", Line: 3, Column: 5 }
Function:        main
Module:          net.relay
Args:
  - nodes:           120
  - String:          " nodes, at most "
  - limit:           100
  - share:           0.5
  - is_root:         true
...
--- !Passed
Name:            "No"
Args:            []
...
"""


class Loader(yaml.SafeLoader):
    """Reads the tag of a document along with its mapping."""


def _tagged(loader: Any, suffix: str, node: Any) -> dict[str, Any]:
    return {"": suffix, **loader.construct_mapping(node, deep=True)}


Loader.add_multi_constructor("!", _tagged)  # pyright: ignore[reportUnknownMemberType]  the stub names no types


def load(text: str) -> list[dict[str, Any]]:
    """Return the documents of a stream, each with its tag under the empty key."""
    return list(yaml.load_all(text, Loader))


@apass.function_pass(opt_level=0)
async def Halve(func: int, mod: Module, ctx: apass.PassContext) -> int:
    await anyio.lowlevel.checkpoint()
    if func % 2:
        ctx.remark(Remark.missed("Odd", f"{func} is odd", value=func))
        return func
    ctx.remark(Remark.passed("Halved", f"{func} is even", value=func))
    ctx.remark(Remark.analysis("Half", f"half of it is {func // 2}", half=func // 2))
    return func // 2


@apass.module_pass(opt_level=0)
def FailOnNines(mod: Module, ctx: apass.PassContext) -> Module:
    ctx.remark(Remark.analysis("Size", f"{len(mod)} functions"))
    if any(value % 10 == 9 for value in mod.values()):
        raise ValueError("a nine")
    return mod


PIPELINE = apass.Sequential([Halve, FailOnNines, Halve])


def test_the_yaml_is_that_of_llvm() -> None:
    span = Span("a b.relay", 3, 5, 3, 9)
    missed = Remark.missed("TooBig", "120 nodes, at most 100", span, nodes=120, limit=100, share=0.5, is_root=True)
    run = apass.Run(apass.PassInfo(opt_level=0, name="FuseOps", required=()), None, function="main", module="net.relay")
    assert render_remarks([missed.made_by(run), Remark.passed("No", "")]) == GOLDEN


ARGS = st.dictionaries(
    st.text(min_size=1), st.text() | st.integers() | st.booleans() | st.floats(allow_nan=False), max_size=4
)


@given(st.text(), st.text(), st.text(), ARGS)
def test_another_library_reads_back_what_was_written(
    name: str, message: str, source: str, args: dict[str, Any]
) -> None:
    remark = Remark(apass.RemarkKind.ANALYSIS, name, message, Span(source, 1, 2, 1, 3), args)
    [document] = load(render_remarks([remark]))
    assert (document[""], document["Name"]) == ("Analysis", name)
    assert document["DebugLoc"] == {"File": source, "Line": 1, "Column": 2}
    pairs = [pair for one in document["Args"] for pair in one.items()]
    values = {key: value for key, value in pairs if key in args}
    assert "String" in args or values == args
    extra = "".join(str(value) for value in args.values())
    said = "".join(str(value) for _, value in pairs)
    assert said.startswith(message) or not message
    assert len(said) <= len(message) + len(extra)


def test_numbers_that_yaml_writes_in_its_own_way_are_read_back() -> None:
    values = {"small": 1e-300, "large": 1e300, "inf": math.inf, "minus": -math.inf}
    [document] = load(render_remarks([Remark(apass.RemarkKind.PASSED, "Numbers", "", args=values)]))
    assert {key: value for one in document["Args"] for key, value in one.items()} == values
    [document] = load(render_remarks([Remark.passed("Number", "", value=math.nan)]))
    assert math.isnan(document["Args"][0]["value"])


@pytest.mark.anyio
async def test_many_modules_at_once_say_the_same_as_one_after_the_other(anyio_backend: str) -> None:
    modules = {f"m{n}": {f"f{k}": 7 * n + k for k in range(4)} for n in range(200)}
    texts: list[str] = []
    for limit in (1, None):
        remarks = RemarksInstrument()
        async with apass.PassContext(instruments=[remarks]):
            outcomes = await apass.optimize_all(modules, PIPELINE, limit=limit, errors="collect")
        failed = sum(one.error is not None for one in outcomes.values())
        assert 0 < failed < len(modules)
        texts.append(remarks.render())
    assert texts[0] == texts[1]
    documents = load(texts[0])
    assert {one["Module"] for one in documents} == set(modules)
    assert {one["Pass"] for one in documents} == {"Halve", "FailOnNines"}


@pytest.mark.anyio
async def test_remarks_stand_in_the_order_of_module_pipeline_and_function(anyio_backend: str) -> None:
    remarks = RemarksInstrument()
    async with apass.PassContext(instruments=[remarks]):
        await PIPELINE({"b": 4, "a": 3})
    assert [(one.pass_name, one.function, one.message) for one in remarks.remarks] == [
        ("Halve", "a", "3 is odd"),
        ("Halve", "b", "4 is even"),
        ("Halve", "b", "half of it is 2"),
        ("FailOnNines", None, "2 functions"),
        ("Halve", "a", "3 is odd"),
        ("Halve", "b", "2 is even"),
        ("Halve", "b", "half of it is 1"),
    ]


def test_only_passes_whose_name_matches_are_listened_to() -> None:
    remarks = RemarksInstrument("^Fail")
    apass.run(PIPELINE, {"a": 4}, context=apass.PassContext(instruments=[remarks]))
    assert [one.name for one in remarks.remarks] == ["Size"]


def test_no_more_than_the_limit_is_kept_and_the_rest_is_counted() -> None:
    remarks = RemarksInstrument(limit=2)
    apass.run(PIPELINE, {"a": 4}, context=apass.PassContext(instruments=[remarks]))
    assert ([one.name for one in remarks.remarks], remarks.dropped) == (["Halved", "Half"], 3)


def test_a_remark_made_outside_of_any_pass_is_kept() -> None:
    remarks = RemarksInstrument()
    apass.PassContext(instruments=[remarks]).remark(Remark.passed("Said", "by nobody"))
    assert [(one.pass_name, one.message) for one in remarks.remarks] == [(None, "by nobody")]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"passes": "("}, r"'\(' is no regular expression for names of passes: missing \), unterminated subpattern"),
        ({"limit": 0}, "limit must be at least 1, not 0"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        RemarksInstrument(**arguments)


@pytest.mark.anyio
async def test_they_are_written_to_a_file(tmp_path: Path, anyio_backend: str) -> None:
    remarks = RemarksInstrument()
    async with apass.PassContext(instruments=[remarks]):
        await Halve({"f": 4})
    await remarks.write(tmp_path / "new" / "remarks.yaml")
    assert (tmp_path / "new" / "remarks.yaml").read_text() == remarks.render()


def test_a_value_in_a_message_is_found_only_where_it_stands_by_itself() -> None:
    told = yaml.safe_load(render_remarks([Remark.passed("Cut", "f10 and g1: 1 of 10", left=1)]).partition("\n")[2])
    assert told["Args"] == [{"String": "f10 and g1: "}, {"left": 1}, {"String": " of 10"}]
    told = yaml.safe_load(render_remarks([Remark.passed("Cut", "10 a1", left=1)]).partition("\n")[2])
    assert told["Args"] == [{"String": "10 a1"}, {"left": 1}]


@pytest.mark.anyio
async def test_what_is_said_at_one_place_stays_in_the_order_in_which_it_was_said() -> None:
    @apass.module_pass(opt_level=0)
    def Say(mod: Module, ctx: apass.PassContext) -> Module:
        for name in "zayb":
            ctx.remark(Remark.passed(name, name))
        return mod

    remarks = RemarksInstrument()
    async with apass.PassContext(instruments=[remarks]):
        await Say({"f": 1})
    assert [one.name for one in remarks.remarks] == list("zayb")
