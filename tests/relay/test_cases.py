"""Every pass of Relay has its cases: a program before and after, as text, below `tests/cases/<name of the pass>/`.

`<case>.relay` is the program before, `<case>.expected.relay` the program after. Lines at the top of the first may say
`// with: InferType`, so that the pass sees types (both are given types, where they have any, to be compared), and
`// options: key=value, ...`, with values as in Python, for the options of the pass, and `// level: 3` for the level of
the context that it runs in.
"""

import ast
import difflib
import re
from pathlib import Path

import anyio
import pytest

import apass
import apass.relay.transform
from apass.core.pass_factories import find_factory
from apass.relay.dataflow_pattern import is_op, wildcard
from apass.relay.errors import TypeInferenceError
from apass.relay.ir.module import IRModule
from apass.relay.op.contrib.register import PatternEntry, register_pattern_table
from apass.relay.parser import fromtext
from apass.relay.structural.equality import structural_equal
from apass.relay.type_inference.infer import infer_module


@register_pattern_table("tests.cases")
def patterns() -> list[PatternEntry]:
    """Return the patterns that cases can name as the table `tests.cases`."""
    return [("tests.dense_relu", is_op("nn.relu")(is_op("nn.dense")(wildcard(), wildcard())))]


CASES = Path(__file__).parent.parent / "cases"
EXPECTED = ".expected.relay"
SETTING = re.compile(r"^// (with|options|level): *(.*)$", re.MULTILINE)


def cases_below(root: Path) -> list[Path]:
    """Return the programs before."""
    return sorted(path for path in root.glob("*/*.relay") if not path.name.endswith(EXPECTED))


def settings_of(text: str) -> dict[str, str]:
    """Return what the lines at the top of a case say."""
    head = text[: text.index("def ")] if "def " in text else text
    return dict(SETTING.findall(head))


def options_of(text: str) -> dict[str, object]:
    """Return the options that are written as in a call of Python."""
    call = ast.parse(f"made({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}


def replay(before: Path) -> str:
    """Run a case; return the difference between what the pass makes and what is expected, nothing if there is none."""
    text = before.read_text(encoding="utf-8")
    after = before.with_name(before.name.removesuffix(".relay") + EXPECTED)
    settings = settings_of(text)
    pass_ = apass.get_pass(before.parent.name, **options_of(settings.get("options", "")))
    mod, expected = fromtext(text, before.name), fromtext(after.read_text(encoding="utf-8"), after.name)
    with_types = settings.get("with") == "InferType"
    made = run_at(int(settings.get("level", "2")), pass_, infer_module(mod) if with_types else mod)
    return difference(typed(made), typed(expected))


def typed(mod: IRModule) -> IRModule:
    """Return a module with types, itself if it has none."""
    try:
        return infer_module(mod)
    except TypeInferenceError:
        return mod


def run_at(level: int, pass_: apass.Pass[IRModule], mod: IRModule) -> IRModule:
    """Run a pass in a context of the level."""

    async def main() -> IRModule:
        async with apass.PassContext(opt_level=level):
            return await pass_(mod)

    return anyio.run(main)


def difference(made: IRModule, expected: IRModule) -> str:
    """Return a diff of the texts of two modules, nothing if they are structurally equal."""
    if structural_equal(made, expected):
        return ""
    texts = expected.astext().splitlines(), made.astext().splitlines()
    lines = list(difflib.unified_diff(texts[0], texts[1], "expected", "made", lineterm=""))
    return "\n".join(lines) or f"the texts are alike, but not the structure:\n{made.astext()}"


def relay_passes() -> list[str]:
    """Return the names of the passes of Relay."""
    own = apass.relay.transform.__name__
    return [name for name in apass.list_passes() if getattr(find_factory(name), "__module__", "").startswith(own)]


@pytest.mark.parametrize("before", cases_below(CASES), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_pass_makes_of_a_program_what_is_expected(before: Path) -> None:
    assert not (found := replay(before)), found


def test_every_pass_of_relay_has_a_case() -> None:
    with_cases = {path.parent.name for path in cases_below(CASES)}
    assert [name for name in relay_passes() if name not in with_cases] == []


def test_every_case_has_both_programs_and_belongs_to_a_pass() -> None:
    halves = {path.name.removesuffix(EXPECTED) + ".relay" for path in CASES.glob(f"*/*{EXPECTED}")}
    assert {path.name for path in cases_below(CASES)} == halves
    assert {path.parent.name for path in cases_below(CASES)} <= set(apass.list_passes())


BEFORE = """#[version = "0.0.5"]
// with: InferType
def @main(%x: float32) { add(%x, 1f) }
"""


def test_a_case_that_fits_shows_no_difference(tmp_path: Path) -> None:
    case = tmp_path / "InferType" / "sum.relay"
    case.parent.mkdir()
    case.write_text(BEFORE)
    case.with_name("sum.expected.relay").write_text(
        '#[version = "0.0.5"]\ndef @main(%y: float32) -> float32 { add(%y, 1f) }\n'
    )
    assert replay(case) == ""


def test_a_case_that_does_not_fit_shows_a_diff(tmp_path: Path) -> None:
    case = tmp_path / "InferType" / "sum.relay"
    case.parent.mkdir()
    case.write_text(BEFORE)
    case.with_name("sum.expected.relay").write_text(
        '#[version = "0.0.5"]\ndef @main(%x: float32) -> float32 { add(%x, 2f) }\n'
    )
    assert replay(case).splitlines() == [
        "--- expected",
        "+++ made",
        "@@ -1,4 +1,4 @@",
        ' #[version = "0.0.5"]',
        " def @main(%x: float32) -> float32 {",
        "-  add(%x, 2f /* ty=float32 */) /* ty=float32 */",
        "+  add(%x, 1f /* ty=float32 */) /* ty=float32 */",
        " }",
    ]


def test_options_are_read_as_in_a_call() -> None:
    settings = settings_of('// options: level=2, names=["a", "b"]\ndef @main() { 1 }')
    assert options_of(settings["options"]) == {"level": 2, "names": ["a", "b"]}
