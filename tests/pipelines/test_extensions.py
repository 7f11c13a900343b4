"""Extensions of pipelines: places, origins, identity, packages and mistakes."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import apass
from apass import PassContext, Sequential, extend_pipeline, get_pass, optimize_all, parse_pipeline, relay
from apass.core import pipeline_extensions
from apass.errors import JournalError, PassDefinitionError, PassRegistrationError, PluginError, UnknownPassError
from apass.executors.pickling import dumps, loads
from apass.stores import MemoryStore
from tests.helpers.distributions import write_distribution

Module = dict[str, str]
FILE = str(Path(__file__).relative_to(Path.cwd())) if Path(__file__).is_relative_to(Path.cwd()) else __file__


class Append(apass.ModulePass[Module], opt_level=1, cacheable=True):
    """Append a text to every function."""

    suffix: str = "x"

    def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        return {name: func + self.suffix for name, func in mod.items()}


def registered(name: str) -> None:
    """Register a pass that appends the last letter of its name."""

    def make() -> Append:
        return Append(name[-1])

    apass.register_pass(name, make)


NAMES = [f"ext.{letter}" for letter in "ABCXYZ"]


@pytest.fixture(autouse=True)
def pipelines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Register the passes, the pipeline `ext.Default`, and `ext.Outer` around it."""
    monkeypatch.setattr(pipeline_extensions, "_REGISTERED", [])

    def default() -> Sequential[Module]:
        return Sequential([get_pass(f"ext.{letter}") for letter in "ABBC"], name="ext.Default")

    def outer(last: str = "Z") -> Sequential[Module]:
        return Sequential([get_pass("ext.Default"), get_pass(f"ext.{last}")], name="ext.Outer")

    def renamed() -> Sequential[Module]:
        return Sequential([Append()], name="ext.Other")

    for name in NAMES:
        registered(name)
    apass.register_pass("ext.Renamed", renamed)
    apass.register_pass("ext.Default", default)
    apass.register_pass("ext.Outer", outer)
    yield
    for name in [*NAMES, "ext.Default", "ext.Outer", "ext.Renamed"]:
        apass.unregister_pass(name)


def order(text: str = "ext.Default") -> str:
    """Return the letters of the passes that run, in order."""
    result: Module = apass.run(parse_pipeline(text), {"f": ""})
    return result["f"]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, None, "ABBCX"),
        ("ext.A", None, "XABBC"),
        ("ext.B", None, "AXBBC"),
        (None, "ext.B", "ABBXC"),
        (None, "ext.C", "ABBCX"),
        ("ext.B", "ext.A", "AXBBC"),
        ("ext.C", "ext.A", "AXBBC"),
    ],
)
def test_extension_adds_pass_at_place(before: str | None, after: str | None, expected: str) -> None:
    extend_pipeline("ext.Default", "ext.X", before=before, after=after)
    assert order() == order("Sequential(ext.Default)") == expected
    assert apass.run(get_pass("ext.Default"), {"f": ""}) == {"f": expected}


def test_extensions_of_one_place_keep_order() -> None:
    extend_pipeline("ext.Default", "ext.X", after="ext.A")
    extend_pipeline("ext.Default", "ext.Y,ext.Y", after="ext.A")
    extend_pipeline("ext.Default", "ext.Z", before="ext.B")
    extend_pipeline("ext.Default", "ext.X")
    extend_pipeline("ext.Default", "ext.Y")
    assert order() == "AXYYZBBCXY"


def test_extension_may_name_added_pass() -> None:
    extend_pipeline("ext.Default", "ext.X", after="ext.A")
    extend_pipeline("ext.Default", "ext.Y", before="ext.X")
    extend_pipeline("ext.Default", "ext.Z", after="ext.X")
    assert order() == "AYXZBBC"


def test_sequential_with_options_stays_one_element() -> None:
    extend_pipeline("ext.Default", "Sequential{name=mine,opt_level=3}(ext.X,ext.Y)", after="ext.C")
    assert (order(), get_pass("ext.Default").children()[-1].info.name) == ("ABBC", "mine")


def test_pipeline_inside_of_other_is_extended() -> None:
    extend_pipeline("ext.Default", "ext.X")
    assert (order("ext.Outer"), order("ext.Outer{last=Y}"), order("ext.Outer{extensions=false}")) == (
        "ABBCXZ",
        "ABBCXY",
        "ABBCZ",
    )
    assert str(get_pass("ext.Outer")) == (
        "Sequential{name=ext.Outer}(Sequential{name=ext.Default}(ext.A,ext.B,ext.B,ext.C,ext.X),ext.Z)"
    )


def test_option_creates_unextended_pipeline() -> None:
    plain = str(get_pass("ext.Default"))
    extend_pipeline("ext.Default", "ext.X")
    assert [order("ext.Default{extensions=false}"), order("ext.Default{extensions=true}")] == ["ABBC", "ABBCX"]
    assert [plain, str(get_pass("ext.Default", extensions=False))] == ["ext.Default", "ext.Default{extensions=false}"]
    text = "ext.Outer{last=Y,extensions=false}"
    assert str(parse_pipeline(text).passes[0]) == text


def test_pass_that_is_no_pipeline_lacks_option() -> None:
    with pytest.raises(PassDefinitionError, match=r"pass 'ext.A' has no option 'extensions'; it is not a pipeline"):
        get_pass("ext.A", extensions=False)
    with pytest.raises(PassDefinitionError, match=r"option 'extensions' of pass .*: expected bool, got 'x'"):
        get_pass("ext.Default", extensions="x")


def test_plan_shows_what_added_passes() -> None:
    extend_pipeline("ext.Default", "ext.X", after="ext.A")
    extend_pipeline("ext.Default", "Sequential{name=late,opt_level=3}", before="ext.X")
    assert [" ".join(line.split()) for line in str(apass.plan(get_pass("ext.Default"))).splitlines()] == [
        "run ext.Default",
        "run ext.A",
        f"skip late level 3 is above 2; added by {FILE}",
        f"run ext.X added by {FILE}",
        "run ext.B",
        "run ext.B",
        "run ext.C",
    ]


def test_names_select_extended_pipeline() -> None:
    extend_pipeline("ext.Default", "ext.X")
    pass_ = get_pass("ext.Default")
    assert (pass_.all_names, pass_.info.name) == (("ext.Default",), "ext.Default")


def test_text_and_pickle_contain_added_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, plain_data = get_pass("ext.Default"), dumps(get_pass("ext.Default"), "a pass")
    extend_pipeline("ext.Default", "ext.X", after="ext.A")
    text, data = str(get_pass("ext.Default")), dumps(get_pass("ext.Default"), "a pass")
    assert text == "Sequential{name=ext.Default}(ext.A,ext.X,ext.B,ext.B,ext.C)"
    # A worker creates what it received, whatever extensions it has itself.
    extend_pipeline("ext.Default", "ext.Y")
    assert (str(parse_pipeline(text)), str(loads(data)), loads(plain_data)) == (text, text, plain)
    monkeypatch.setattr(pipeline_extensions, "_REGISTERED", [])
    assert (str(parse_pipeline(text)), str(loads(data)), loads(plain_data)) == (text, text, plain)


def test_pickle_keeps_registered_name() -> None:
    extend_pipeline("ext.Renamed", "ext.X")
    extend_pipeline("ext.Outer", "ext.Renamed")
    for pass_ in (get_pass("ext.Renamed"), get_pass("ext.Outer").children()[-1]):
        assert loads(dumps(pass_, "a pass")).all_names == pass_.all_names == ("ext.Other", "ext.Renamed")


@pytest.mark.process
@pytest.mark.anyio
@pytest.mark.parametrize("name", ["ext.Renamed", "ext.Other"])
async def test_name_disables_extended_pipeline_in_worker(name: str) -> None:
    extend_pipeline("ext.Renamed", "Sequential{name=added}")
    async with PassContext(disabled_pass=[name]):
        for executor in (None, "process"):
            assert await optimize_all([{"f": ""}], "ext.Renamed,Sequential", executor=executor) == [{"f": ""}]


@pytest.mark.anyio
async def test_journal_refuses_run_with_other_extensions(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    await optimize_all([{"f": ""}], "ext.Default", journal=path)
    extend_pipeline("ext.Default", "ext.X")
    with pytest.raises(JournalError, match=r"pipeline 'Sequential.ext.Default.', not '.*ext.C,ext.X"):
        await optimize_all([{"f": ""}], "ext.Default", journal=path)


@pytest.mark.anyio
async def test_store_distinguishes_extended_pipelines() -> None:
    async with PassContext(store=MemoryStore()):
        plain = await parse_pipeline("ext.Default")({"f": ""})
        extend_pipeline("ext.Default", "ext.X")
        assert (plain, await parse_pipeline("ext.Default")({"f": ""})) == ({"f": "ABBC"}, {"f": "ABBCX"})
        assert await parse_pipeline("ext.Default{extensions=false}")({"f": ""}) == plain


def test_same_extension_again_has_no_effect() -> None:
    first = extend_pipeline("ext.Default", "ext.X", after="ext.A")
    extend_pipeline("ext.Default", "ext.Y", after="ext.A")
    assert extend_pipeline("ext.Default", "ext.X", after="ext.A") == first
    assert order() == "AXYBBC"


def test_cell_executed_again_replaces_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    session: dict[str, Any] = {"__name__": "__main__", "extend_pipeline": extend_pipeline}
    for place in ("after='ext.A'", "after='ext.A'", "before='ext.C'"):
        exec(f"extend_pipeline('ext.Default', 'ext.X', {place})", session)
    assert order() == "ABBXC"
    assert str(apass.plan(get_pass("ext.Default"))).count("added by this session") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ext.Default", "ext.X", None, "ext.D"), "the pipeline has no pass 'ext.D'; did you mean 'ext."),
        (("ext.Default", "ext.X", "ext.A", "ext.C"), "pass 'ext.A' runs before pass 'ext.C'; leave one of them out"),
        (("ext.Default", "ext.X", "ext.B", "ext.B"), "pass 'ext.B' runs before pass 'ext.B'; leave one of them out"),
        (("ext.Default", "ext.Nope", None, None), "no pass is registered under the name 'ext.Nope'"),
        (("ext.Default", "ext.X(", None, None), "expected the name of a pass, got the end of the text"),
        (("ext.Default", "ext.Default", None, None), "write ext.Default{extensions=false} for the pipeline without"),
    ],
)
def test_mistake_names_the_extension(arguments: tuple[Any, ...], message: str) -> None:
    pipeline, text, before, after = arguments
    extend_pipeline(pipeline, text, before=before, after=after)
    with pytest.raises(PassDefinitionError) as caught:
        get_pass("ext.Default")
    assert str(caught.value).startswith(f"the extension of 'ext.Default' by {FILE} ({text!r}")
    assert message in str(caught.value)
    assert order("ext.Default{extensions=false}") == "ABBC"


@pytest.fixture
def first() -> Iterator[str]:
    @apass.register_pass
    @apass.module_pass(opt_level=0, name="ext.First", runs_before=["Append"])
    def pass_(mod: Module, ctx: PassContext) -> Module:
        return mod

    yield pass_.info.name
    apass.unregister_pass(pass_.info.name)


@pytest.mark.parametrize("use", [get_pass, parse_pipeline, partial(apass.run, mod={})])
def test_forbidden_order_names_the_extension(use: Callable[[str], Any], first: str) -> None:
    extend_pipeline("ext.Default", first, after="ext.C")
    with pytest.raises(apass.errors.PassOrderError, match=f"; the pipeline has passes added by {FILE}"):
        use("ext.Default")


def test_forbidden_order_inside_of_extension(first: str) -> None:
    extend_pipeline("ext.Default", f"ext.A,{first}")
    with pytest.raises(apass.errors.PassOrderError, match=f"the extension of .* by {FILE} .* cannot be applied: pass"):
        get_pass("ext.Default")


def test_only_pipeline_can_be_extended() -> None:
    extend_pipeline("ext.A", "ext.X")
    with pytest.raises(PassDefinitionError, match=r"'ext.A' is of class Append, expected a plain Sequential; register"):
        get_pass("ext.A")


def test_subclass_of_sequential_cannot_be_extended() -> None:
    class Loud(Sequential[Module]):
        def __init__(self) -> None:
            super().__init__([Append()], name="ext.Loud")

    apass.register_pass("ext.Loud", Loud)
    try:
        assert type(get_pass("ext.Loud", extensions=False)) is Loud
        extend_pipeline("ext.Loud", "ext.X")
        with pytest.raises(PassDefinitionError, match=r"'ext.Loud' is of class Loud, expected a plain Sequential"):
            get_pass("ext.Loud")
    finally:
        apass.unregister_pass("ext.Loud")


def test_unknown_pipeline_is_an_error() -> None:
    extend_pipeline("ext.Defaults", "ext.X")
    with pytest.raises(UnknownPassError, match=r"'ext.Defaults' by .*; did you mean 'ext.Default'\?"):
        get_pass("ext.Default")


@pytest.mark.parametrize(
    "arguments", [("", "ext.X"), ("ext.Default", ""), ("ext.Default", 3), ("a", "b", ""), ("a", "b", 3)]
)
def test_extension_rejects_wrong_arguments(arguments: Any) -> None:
    with pytest.raises(PassRegistrationError, match="of an extension must be"):
        apass.plugins.PipelineExtension(*arguments)


def install(folder: Path, package: str, code: str, point: str = "") -> None:
    """Write a distribution whose module has `EXTENSIONS`."""
    write_distribution(folder, package, f"[apass.pipeline_extensions]\n{point or package} = {package}:EXTENSIONS\n")
    (folder / f"{package}.py").write_text(f"from apass.plugins import PipelineExtension as E\nEXTENSIONS = {code}\n")


def test_packages_extend_in_order_of_names(packages: Path) -> None:
    install(packages, "ext_two", "E('ext.Default', 'ext.Y', after='ext.A')")
    install(packages, "ext_one", "[E('ext.Default', 'ext.X', after='ext.A'), E('ext.Outer', 'ext.X')]")
    extend_pipeline("ext.Default", "ext.Z", after="ext.A")
    assert (order(), order("ext.Outer")) == ("AXYZBBC", "AXYZBBCZX")
    planned = str(apass.plan(get_pass("ext.Default")))
    assert [line.partition("added by ")[2] for line in planned.splitlines()[2:5]] == [
        "ext_one 1.0",
        "ext_two 1.0",
        FILE,
    ]


def test_packages_with_one_name_are_an_error(packages: Path) -> None:
    install(packages, "ext_three", "[]", point="same")
    install(packages, "ext_four", "[]", point="same")
    with pytest.raises(PluginError, match=r"ext_four 1.0 and ext_three 1.0 both declare 'same'"):
        get_pass("ext.Default")


@pytest.mark.parametrize(
    ("package", "code", "message"),
    [
        ("ext_eight", "[E('ext.Default', 'ext.X', after='ext.D')]", "by ext_eight 1.0 ('ext.X' after 'ext.D')"),
        ("ext_nine", "[E('ext.Defaults', 'ext.X')]", "'ext.Defaults' by ext_nine 1.0 ('ext.X' at the end)"),
    ],
)
def test_mistake_of_package_names_it(packages: Path, package: str, code: str, message: str) -> None:
    install(packages, package, code)
    with pytest.raises(apass.ApassError) as caught:
        get_pass("ext.Default")
    assert message in str(caught.value)
    # Single passes do not depend on extensions.
    assert (order("ext.A"), order("ext.Default{extensions=false}")) == ("A", "ABBC")


@pytest.mark.parametrize(
    ("package", "code", "message"),
    [
        ("ext_five", "3", "'ext_five:EXTENSIONS' of ext_five 1.0: TypeError: it names 3, expected an apass.pl"),
        (
            "ext_six",
            "[E('a', 'b'), 'c']",
            "it names 'c', expected an apass.plugins.PipelineExtension or a list of these",
        ),
        ("ext_seven", "1 / 0", "ZeroDivisionError: division by zero; fix or uninstall ext_seven 1.0"),
        ("ext_ten", "None\nimport no_such_module", "No module named 'no_such_module'; fix or uninstall ext_ten 1.0"),
    ],
)
def test_broken_package_leaves_pipelines_usable(packages: Path, package: str, code: str, message: str) -> None:
    install(packages, "ext_eleven", "E('ext.Default', 'ext.X')")
    install(packages, package, code)
    with pytest.warns(apass.errors.PluginWarning) as caught:
        assert order() == "ABBCX"
    assert message in str(caught[0].message)
    assert order("ext.A") == "A"


@pytest.mark.parametrize(("name", "anchor"), [("onnx.Default", "onnx.Simplify"), ("relay.Default", "FoldConstant")])
def test_default_pipelines_of_irs_are_extended(name: str, anchor: str) -> None:
    plain: Any = get_pass(name)
    extend_pipeline(name, "ext.X", after=anchor)
    names = [pass_.all_names[-1] for pass_ in get_pass(name).children()]
    before = [pass_.all_names[-1] for pass_ in plain.passes]
    last = len(before) - before[::-1].index(anchor)
    assert names == [*before[:last], "ext.X", *before[last:]]


def test_pipeline_of_direct_call_is_extended_once() -> None:
    extend_pipeline("relay.Default", "ext.X", after="FoldConstant")
    extend_pipeline("FoldScaleAxis", "ext.Y")
    direct, by_name = relay.transform.Default(), get_pass("relay.Default")
    assert str(direct) == str(by_name)
    assert [str(direct).count(name) for name in ("ext.X", "ext.Y")] == [1, 1]
    assert direct.all_names == by_name.all_names
    assert "ext." not in str(get_pass("relay.Default", extensions=False))
