"""`parse_pipeline(allow=...)`, and that a text imports nothing by name."""

import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Annotated, Any

import pytest

import apass
from apass import parse_pipeline
from apass.errors import PassNotAllowedError
from tests.helpers.distributions import write_distribution
from tests.helpers.pipeline_text import registered


@pytest.fixture(autouse=True)
def _registered() -> Generator[None]:
    with registered():
        yield


@pytest.mark.parametrize(
    ("text", "allow"),
    [
        ("Tune", ["Tune"]),
        ("Tune,Repeat(Tune)", ["Repeat", "Tu*"]),
        ("If{predicate=is_large,otherwise=(Tune)}(Tune)", ["If", "is_*", "Tune"]),
        ("Tune{device=is_large}", ["Tune"]),
        ("Sequential{name=Other}", ("Sequential",)),
        ("", []),
    ],
)
def test_allowed_names_are_accepted(text: str, allow: list[str]) -> None:
    assert parse_pipeline(text, allow=allow) == parse_pipeline(text)


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("Tune,FoldConstant", "the pass 'FoldConstant' is not allowed here; allowed are: If, Repeat, Tune", 5),
        ("Repeat(Race(Tune))", "the pass 'Race' is not allowed here; allowed are", 7),
        ("If{predicate=is_large}(Tune)", "the callable 'is_large' is not allowed here; allowed are", 13),
        ("If{predicate=size_of,otherwise=(Race(Tune))}(Tune)", "the callable 'size_of' is not allowed here", 13),
        ("Repaet(Tune)", "the pass 'Repaet' is not allowed here; did you mean 'Repeat'?", 0),
    ],
)
def test_other_names_are_rejected(text: str, message: str, position: int) -> None:
    with pytest.raises(PassNotAllowedError) as caught:
        parse_pipeline(text, allow=["If", "Repeat", "Tune"])
    assert str(caught.value).startswith(message)
    assert (caught.value.text, caught.value.position) == (text, position)


def test_empty_list_allows_nothing() -> None:
    with pytest.raises(PassNotAllowedError, match=r"^the pass 'Tune' is not allowed here; nothing is allowed"):
        parse_pipeline("Tune", allow=[])


@pytest.mark.parametrize("allow", ["Tune", [3], [None, "Tune"]])
def test_invalid_allow_list_raises(allow: Any) -> None:
    with pytest.raises(TypeError, match=r"^allow must be a list of names or patterns, "):
        parse_pipeline("Tune", allow=allow)


def test_rejected_pass_imports_no_plug_in(packages: Path) -> None:
    write_distribution(packages, "hostile", "[apass.passes]\nhostile = hostile:go\n")
    (packages / "hostile.py").write_text("raise RuntimeError('imported')")
    with pytest.raises(PassNotAllowedError, match=r"^the pass 'hostile' is not allowed"):
        parse_pipeline("hostile", allow=["Tune"])


@pytest.mark.parametrize(
    "text",
    [
        "If{predicate=hostile:go}(Tune)",
        "If{predicate=hostile}(Tune)",
        "If{predicate=hostile.go}(Tune)",
        'If{predicate="hostile:go"}(Tune)',
        "Race{key=hostile:go}(Tune)",
        "hostile:go",
        "hostile.go",
    ],
)
def test_text_imports_no_module(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "hostile.py").write_text("raise RuntimeError('imported')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(apass.errors.PipelineSyntaxError, match="hostile"):
        parse_pipeline(text)


def reading(path: Path, *, count: int = 1) -> apass.Pass[Any]:
    return apass.PrintIR(str(path))


def asking(
    url: Annotated[str, apass.plugins.Outside.NETWORK] = "",
    inner: Annotated[list[str], apass.plugins.Outside.CODE] | None = None,
) -> apass.Pass[Any]:
    return apass.PrintIR(url)


def around(passes: list[apass.Pass[Any]]) -> apass.Pass[Any]:
    result: Any = apass.Sequential(passes)
    result.outside = apass.plugins.Outside.PROGRAMS
    made: apass.Pass[Any] = result
    return made


@apass.module_pass(opt_level=0, outside=apass.plugins.Outside.PROGRAMS)
def Compile(mod: Any, ctx: apass.PassContext) -> Any:
    return mod


@pytest.fixture
def _reaching() -> Generator[None]:
    factories: dict[str, Callable[..., Any]] = {
        "t.Read": reading,
        "t.Ask": asking,
        "t.Compile": Compile,
        "t.Around": around,
        "t.All": lambda: apass.Sequential([apass.Sequential([Compile])]),
    }
    for name, factory in factories.items():
        apass.register_pass(name, factory)
    yield
    for name in factories:
        apass.unregister_pass(name)


@pytest.mark.usefixtures("_reaching")
def test_what_reaches_outside_needs_its_own_name() -> None:
    rows = [
        ("t.Read{path=a}", "option 'path' of pass 't.Read' reads or writes files", "t.Read{path}", 7),
        ("Repeat(t.Ask{url=a})", "option 'url' of pass 't.Ask' uses the network", "t.Ask{url}", 13),
        ("t.Ask{inner=[a]}", "option 'inner' of pass 't.Ask' names passes or code", "t.Ask{inner}", 6),
        ("If{predicate=is_large,otherwise=(t.Compile)}(Tune)", "the pass 't.Compile' runs programs", "t.Compile", 33),
        ("Repeat(t.Compile)", "the pass 't.Compile' runs programs", "t.Compile", 7),
        ("t.All", "the pass 'Compile' in 't.All' runs programs", "t.All", 0),
        ("t.Around(Tune)", "the pass 't.Around' runs programs", "t.Around", 0),
    ]
    for text, message, name, position in rows:
        for allow in (["*"], ["t.*", "Repeat", "If", "is_large", "Tune"]):
            with pytest.raises(PassNotAllowedError) as caught:
                parse_pipeline(text, allow=allow)
            expected = f"{message}, which is not allowed here; name {name!r} to allow it"
            assert (caught.value.message, caught.value.name, caught.value.position) == (expected, name, position)
        assert parse_pipeline(text, allow=["*", name]) == parse_pipeline(text)


@pytest.mark.usefixtures("_reaching")
def test_allowed_option_allows_its_pass_only() -> None:
    assert parse_pipeline("t.Read{path=a,count=2}", allow=["t.Read{path}"])
    assert parse_pipeline("t.Ask", allow=["t.*"])
    for allow in (["t.Ask"], ["t.Read{path}"], ["t.Ask{inner}"], ["t.Asking{url}", "t.Ask"]):
        with pytest.raises(PassNotAllowedError, match=r"t\.Ask"):
            parse_pipeline("t.Ask{url=a}", allow=allow)


def test_pattern_of_an_option_is_an_error() -> None:
    for element in ("t.*{path}", "t.Read{*}", "t.Read{path", "*{path}", "t.Read{}", "t.Read{path}{b}"):
        with pytest.raises(ValueError, match=r"^allow names an option as in 'xdsl.apply-pdl\{pdl_file\}'"):
            parse_pipeline("", allow=[element])


def test_invalid_declaration_is_an_error() -> None:
    with pytest.raises(
        apass.errors.PassDefinitionError, match=r"^outside must be a member of apass\.plugins\.Outside or None"
    ):
        apass.module_pass(opt_level=0, outside="files")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
