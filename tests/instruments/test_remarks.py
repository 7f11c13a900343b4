"""`RemarksInstrument`: the selection and order of remarks, and their YAML form."""

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
    """Loads the tag of a document together with its mapping."""


def _tagged(loader: Any, suffix: str, node: Any) -> dict[str, Any]:
    return {"": suffix, **loader.construct_mapping(node, deep=True)}


Loader.add_multi_constructor("!", _tagged)  # pyright: ignore[reportUnknownMemberType]  the stub names no types


def load(text: str) -> list[dict[str, Any]]:
    """Return the documents of a stream, each with its tag under the key `""`."""
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


def test_yaml_equals_that_of_llvm() -> None:
    span = Span("a b.relay", 3, 3, 5, 9)
    missed = Remark.missed("TooBig", "120 nodes, at most 100", span, nodes=120, limit=100, share=0.5, is_root=True)
    run = apass.Run(apass.PassInfo(opt_level=0, name="FuseOps", required=()), None, function="main", module="net.relay")
    assert render_remarks([missed.made_by(run), Remark.passed("No", "")]) == GOLDEN


ARGS = st.dictionaries(
    st.text(min_size=1), st.text() | st.integers() | st.booleans() | st.floats(allow_nan=False), max_size=4
)


@given(st.text(), st.text(), st.text(), ARGS)
def test_pyyaml_reads_rendered_remarks(name: str, message: str, source: str, args: dict[str, Any]) -> None:
    remark = Remark(apass.RemarkKind.ANALYSIS, name, message, Span(source, 1, 1, 2, 3), args)
    [document] = load(render_remarks([remark]))
    assert (document[""], document["Name"]) == ("Analysis", name)
    assert document["DebugLoc"] == {"File": source, "Line": 1, "Column": 2}
    pairs = [pair for item in document["Args"] for pair in item.items()]
    values = {key: value for key, value in pairs if key in args}
    assert "String" in args or values == args
    extra = "".join(str(value) for value in args.values())
    text = "".join(str(value) for _, value in pairs)
    assert text.startswith(message) or not message
    assert len(text) <= len(message) + len(extra)


def test_pyyaml_reads_extreme_floats() -> None:
    values = {"small": 1e-300, "large": 1e300, "inf": math.inf, "minus": -math.inf}
    [document] = load(render_remarks([Remark(apass.RemarkKind.PASSED, "Numbers", "", args=values)]))
    assert {key: value for item in document["Args"] for key, value in item.items()} == values
    [document] = load(render_remarks([Remark.passed("Number", "", value=math.nan)]))
    assert math.isnan(document["Args"][0]["value"])


@pytest.mark.anyio
async def test_remarks_are_sorted_by_module_pipeline_and_function(anyio_backend: str) -> None:
    remarks = RemarksInstrument()
    async with apass.PassContext(instruments=[remarks]):
        await PIPELINE({"b": 4, "a": 3})
    assert [(item.pass_name, item.function, item.message) for item in remarks.remarks] == [
        ("Halve", "a", "3 is odd"),
        ("Halve", "b", "4 is even"),
        ("Halve", "b", "half of it is 2"),
        ("FailOnNines", None, "2 functions"),
        ("Halve", "a", "3 is odd"),
        ("Halve", "b", "2 is even"),
        ("Halve", "b", "half of it is 1"),
    ]


def test_only_remarks_of_matching_passes_are_kept() -> None:
    remarks = RemarksInstrument("^Fail")
    apass.run(PIPELINE, {"a": 4}, context=apass.PassContext(instruments=[remarks]))
    assert [item.name for item in remarks.remarks] == ["Size"]


def test_remarks_beyond_the_limit_are_counted() -> None:
    remarks = RemarksInstrument(limit=2)
    apass.run(PIPELINE, {"a": 4}, context=apass.PassContext(instruments=[remarks]))
    assert ([item.name for item in remarks.remarks], remarks.dropped) == (["Halved", "Half"], 3)


def test_remark_outside_of_any_pass_is_kept() -> None:
    remarks = RemarksInstrument()
    apass.PassContext(instruments=[remarks]).remark(Remark.passed("Outside", "no pass"))
    assert [(item.pass_name, item.message) for item in remarks.remarks] == [(None, "no pass")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"passes": "("},
            r"passes must be a regular expression for pass names, got '\(': missing \), unterminated subpattern",
        ),
        ({"limit": 0}, "limit must be at least 1, got 0"),
    ],
)
def test_invalid_arguments_raise_value_error(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RemarksInstrument(**arguments)


@pytest.mark.anyio
async def test_write_creates_the_file_and_its_folder(tmp_path: Path, anyio_backend: str) -> None:
    remarks = RemarksInstrument()
    async with apass.PassContext(instruments=[remarks]):
        await Halve({"f": 4})
    await remarks.write(tmp_path / "new" / "remarks.yaml")
    assert (tmp_path / "new" / "remarks.yaml").read_text() == remarks.render()


def test_argument_matches_only_whole_words_of_message() -> None:
    document = yaml.safe_load(render_remarks([Remark.passed("Cut", "f10 and g1: 1 of 10", left=1)]).partition("\n")[2])
    assert document["Args"] == [{"String": "f10 and g1: "}, {"left": 1}, {"String": " of 10"}]
    document = yaml.safe_load(render_remarks([Remark.passed("Cut", "10 a1", left=1)]).partition("\n")[2])
    assert document["Args"] == [{"String": "10 a1"}, {"left": 1}]


@pytest.mark.anyio
async def test_remarks_of_a_pass_keep_their_order() -> None:
    @apass.module_pass(opt_level=0)
    def Say(mod: Module, ctx: apass.PassContext) -> Module:
        for name in "zayb":
            ctx.remark(Remark.passed(name, name))
        return mod

    remarks = RemarksInstrument()
    async with apass.PassContext(instruments=[remarks]):
        await Say({"f": 1})
    assert [item.name for item in remarks.remarks] == list("zayb")


def test_only_chosen_kinds_are_kept() -> None:
    @apass.module_pass(opt_level=0)
    def Report(mod: Module, ctx: apass.PassContext) -> Module:
        for make in (Remark.passed, Remark.missed, Remark.analysis):
            ctx.remark(make("Name", "text"))
        return mod

    chosen: tuple[Any, ...] = (["missed"], [apass.RemarkKind.MISSED, "analysis"], None)
    for kinds in chosen:
        instrument = RemarksInstrument(kinds=kinds)
        apass.run(Report, {"f": 1}, context=apass.PassContext(instruments=[instrument]))
        expected = ["passed", "missed", "analysis"] if kinds is None else ["missed", "analysis"][: len(kinds)]
        assert [remark.kind.value for remark in instrument.remarks] == expected


def test_unknown_kind_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^unknown kind of remarks 'mised'; did you mean 'missed'\?$"):
        RemarksInstrument(kinds=["mised"])
    with pytest.raises(ValueError, match=r"^kinds must be a list of kinds, got 'missed'; write \['missed'\]$"):
        RemarksInstrument(kinds="missed")
