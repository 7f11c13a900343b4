"""Text cases of the Relay passes, in the form of `helpers.relay.pass_cases`."""

import difflib
from pathlib import Path

import anyio
import pytest

import apass
import apass.relay.transform
from apass.core.pass_factories import find_factory
from apass.relay.errors import TypeInferenceError
from apass.relay.ir.module import IRModule
from apass.relay.parser import fromtext
from apass.relay.structural.equality import structural_equal
from apass.relay.type_inference.infer import infer_module
from tests.helpers.relay.pass_cases import CASES, EXPECTED, case_hooks, cases_below, options_of, settings_of


def replay(before: Path) -> str:
    """Run a case; return the difference from the expected program, or an empty text."""
    text = before.read_text(encoding="utf-8")
    after = before.with_name(before.name.removesuffix(".relay") + EXPECTED)
    settings = settings_of(text)
    pass_ = apass.get_pass(before.parent.name, **options_of(settings.get("options", "")))
    mod, expected = fromtext(text, before.name), fromtext(after.read_text(encoding="utf-8"), after.name)
    with_types = settings.get("with") == "InferType"
    with case_hooks():
        actual = run_at(int(settings.get("level", "2")), pass_, infer_module(mod) if with_types else mod)
    return difference(typed(actual), typed(expected))


def typed(mod: IRModule) -> IRModule:
    """Return a module typed; the same module if it is ill-typed."""
    try:
        return infer_module(mod)
    except TypeInferenceError:
        return mod


def run_at(level: int, pass_: apass.Pass[IRModule], mod: IRModule) -> IRModule:
    """Run a pass in a context of the given level."""

    async def main() -> IRModule:
        async with apass.PassContext(opt_level=level):
            return await pass_(mod)

    return anyio.run(main)


def difference(actual: IRModule, expected: IRModule) -> str:
    """Return a diff of the texts of two modules; empty if they are structurally equal."""
    if structural_equal(actual, expected):
        return ""
    texts = expected.astext().splitlines(), actual.astext().splitlines()
    lines = list(difflib.unified_diff(texts[0], texts[1], "expected", "actual", lineterm=""))
    return "\n".join(lines) or f"the texts are equal, but not the structure:\n{actual.astext()}"


def relay_passes() -> list[str]:
    """Return the names of the Relay passes."""
    package = apass.relay.transform.__name__
    return [name for name in apass.list_passes() if getattr(find_factory(name), "__module__", "").startswith(package)]


@pytest.mark.parametrize("before", cases_below(CASES), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_pass_returns_expected_program(before: Path) -> None:
    assert not (diff := replay(before)), diff


def test_every_relay_pass_has_case() -> None:
    with_cases = {path.parent.name for path in cases_below(CASES)}
    assert [name for name in relay_passes() if name not in with_cases] == []


def test_every_case_has_both_programs_and_pass() -> None:
    halves = {path.name.removesuffix(EXPECTED) + ".relay" for path in CASES.glob(f"*/*{EXPECTED}")}
    assert {path.name for path in cases_below(CASES)} == halves
    assert {path.parent.name for path in cases_below(CASES)} <= set(apass.list_passes())


BEFORE = """#[version = "0.0.5"]
// with: InferType
def @main(%x: float32) { add(%x, 1f) }
"""


def test_replay_of_matching_case_returns_no_difference(tmp_path: Path) -> None:
    case = tmp_path / "InferType" / "sum.relay"
    case.parent.mkdir()
    case.write_text(BEFORE)
    case.with_name("sum.expected.relay").write_text(
        '#[version = "0.0.5"]\ndef @main(%y: float32) -> float32 { add(%y, 1f) }\n'
    )
    assert replay(case) == ""


def test_replay_of_failing_case_returns_diff(tmp_path: Path) -> None:
    case = tmp_path / "InferType" / "sum.relay"
    case.parent.mkdir()
    case.write_text(BEFORE)
    case.with_name("sum.expected.relay").write_text(
        '#[version = "0.0.5"]\ndef @main(%x: float32) -> float32 { add(%x, 2f) }\n'
    )
    assert replay(case).splitlines() == [
        "--- expected",
        "+++ actual",
        "@@ -1,4 +1,4 @@",
        ' #[version = "0.0.5"]',
        " def @main(%x: float32) -> float32 {",
        "-  add(%x, 2f /* ty=float32 */) /* ty=float32 */",
        "+  add(%x, 1f /* ty=float32 */) /* ty=float32 */",
        " }",
    ]


def test_options_are_parsed_like_call_arguments() -> None:
    settings = settings_of('// options: level=2, names=["a", "b"]\ndef @main() { 1 }')
    assert options_of(settings["options"]) == {"level": 2, "names": ["a", "b"]}
