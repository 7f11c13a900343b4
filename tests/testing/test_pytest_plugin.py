"""The pytest plugin, in nested runs of pytest."""

import re

import pytest

from tests.helpers.repository import ROOT

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.process

CONFTEST = """
import apass

@apass.register_pass("testing.DropZero")
@apass.function_pass(opt_level=0, name="testing.DropZero")
def DropZero(func, mod, ctx):
    return func.removesuffix(" + 0")
"""
EXTRAS = ("filecheck", "hypothesis", "lark", "numpy", "onnx", "onnx_ir", "rich", "trio", "typer")
GOOD = '-- pipeline --\ntesting.DropZero,\n  Sequential\n-- input.json --\n{"f": "x + 0"}\n-- output --\nf: x\n'
WRONG = GOOD.replace("f: x", "f: y")
MODEL = "// RUN: FoldConstant\n// CHECK: 6f\ndef @main() { multiply(2f, 3f) }\n"


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make nested runs short: they do not import the plugin of hypothesis."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")


@pytest.fixture
def cases(pytester: pytest.Pytester) -> pytest.Pytester:
    """Return a project with two cases and a model."""
    pytester.makeconftest(CONFTEST)
    folder = pytester.mkdir("cases")
    for name, text in {"good.case": GOOD, "wrong.case": WRONG, "model.relay": MODEL, "notes.txt": "RUN: P"}.items():
        (folder / name).write_text(text)
    (folder / "broken.onnx").write_bytes(b"\xff RUN: P")
    return pytester


@pytest.mark.slow
def test_cases_are_collected_on_request(cases: pytest.Pytester) -> None:
    cases.runpytest_subprocess("cases").assert_outcomes()
    result = cases.runpytest_subprocess("--apass", "cases", "-v")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "cases/good.case::testing.DropZero, Sequential PASSED*",
            "cases/model.relay::FoldConstant PASSED*",
            "cases/wrong.case::testing.DropZero, Sequential FAILED*",
            "*wrong.case has another output; run pytest with --apass-update if the actual output is right",
            "--- expected",
            "+++ actual",
            "@@ -1 +1 @@",
            "-f: y",
            "+f: x",
        ]
    )
    assert "Traceback" not in result.stdout.str()


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--apass", "--update"], ["--apass-update"]], ids=["short", "long"])
def test_update_rewrites_wrong_outputs(options: list[str], cases: pytest.Pytester) -> None:
    result = cases.runpytest_subprocess("cases", *options)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["updated *wrong.case"])
    result.stdout.no_fnmatch_line("updated *good.case")
    texts = [(cases.path / "cases" / name).read_text() for name in ("good.case", "wrong.case")]
    assert texts == [GOOD, GOOD]
    cases.runpytest_subprocess("cases", "--apass", "-n", "2").assert_outcomes(passed=3)


@pytest.mark.slow
def test_malformed_case_is_collection_error(pytester: pytest.Pytester) -> None:
    (pytester.path / "bad.case").write_text("-- pipeline --\n")
    result = pytester.runpytest_subprocess("--apass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*bad.case has no section 'input'; begin one with a line `-- input --`"])


@pytest.mark.slow
def test_unknown_pass_suggests_a_name(cases: pytest.Pytester) -> None:
    (cases.path / "cases" / "typo.case").write_text(GOOD.replace("DropZero", "DropZeros"))
    result = cases.runpytest_subprocess("--apass", "cases/typo.case")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*did you mean 'testing.DropZero'?*"])


@pytest.mark.slow
def test_error_of_pass_shows_its_traceback(cases: pytest.Pytester) -> None:
    (cases.path / "cases" / "number.case").write_text(GOOD.replace('"x + 0"', "1"))
    result = cases.runpytest_subprocess("--apass", "cases/number.case")
    result.stdout.fnmatch_lines(
        [
            "Traceback (most recent call last):",
            '  File "*conftest.py", line 6, in DropZero',
            "AttributeError: 'int' object has no attribute 'removesuffix'",
            "in pass 'sequential > testing.DropZero', function 'f'",
        ]
    )
    result.stdout.no_fnmatch_line("*_hookexec*")


@pytest.mark.slow
def test_missing_library_shows_only_the_message(cases: pytest.Pytester) -> None:
    cases.makeconftest("import sys\nsys.modules['lark'] = None")
    result = cases.runpytest_subprocess("--apass", "cases/model.relay")
    result.stdout.fnmatch_lines(["Relay needs lark: pip install 'apass?relay?'"])
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.slow
def test_update_option_of_a_conftest_wins(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('def pytest_addoption(parser):\n    parser.addoption("--update", action="store_true")')
    (pytester.path / "wrong.case").write_text('-- pipeline --\n-- input.json --\n{"f": "x"}\n-- output --\nf: y\n')
    pytester.makepyfile("def test_update(request):\n    assert request.config.option.update")
    pytester.runpytest_subprocess("--update").assert_outcomes(passed=1)
    pytester.runpytest_subprocess("--apass", "--update").assert_outcomes(passed=1, failed=1)


@pytest.mark.slow
def test_plugin_can_be_disabled(cases: pytest.Pytester) -> None:
    cases.makepyfile("def test_nothing(): pass")
    cases.runpytest_subprocess("-p", "no:apass").assert_outcomes(passed=1)


@pytest.mark.slow
def test_unused_plugin_imports_no_library(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_modules():
            loaded = {name for name in sys.modules if name.startswith("apass.")}
            assert loaded <= {
                "apass.util", "apass.util.lazy_names", "apass.testing", "apass.testing.pytest_plugin",
            }, loaded
            assert not {"filecheck", "hypothesis", "numpy", "onnx", "trio"} & set(sys.modules)
        """
    )
    blocked = ["-p", "no:hypothesispytest", "-p", "no:anyio", "-p", "no:xdist"]
    pytester.runpytest_subprocess(*blocked).assert_outcomes(passed=1)


@pytest.mark.slow
def test_plugin_works_without_extras(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_nothing(): pass")
    (pytester.path / "one.case").write_text('-- pipeline --\n-- input.json --\n{"f": "x"}\n-- output --\nf: x\n')
    pytester.makeconftest(f"import sys\nsys.modules.update(dict.fromkeys({EXTRAS}))")
    pytester.runpytest_subprocess("--apass", "-p", "no:hypothesispytest").assert_outcomes(passed=2)


@pytest.mark.slow
def test_idle_clock_fixture_runs_on_both_backends(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import anyio, pytest

        pytestmark = pytest.mark.anyio

        async def test_hour(idle_clock):
            start = anyio.current_time()
            await anyio.sleep(3600)
            assert anyio.current_time() - start == 3600

        async def test_real(anyio_backend):
            assert anyio_backend in ("asyncio", "trio")
        """
    )
    assert pytester.runpytest_subprocess().parseoutcomes() == {"passed": 4}


@pytest.mark.slow
def test_page_of_the_kit_runs_in_pytest(pytester: pytest.Pytester) -> None:
    page = (ROOT / "docs/how-to/test_passes.md").read_text()
    python = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    case, model = re.findall(r"^```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    pytester.makepyfile("\n".join(python))
    for name, text in {"zero.case": case, "fold.relay": model}.items():
        (pytester.mkdir(name.partition(".")[0]) / name).write_text(text)
    result = pytester.runpytest_subprocess("--apass", "-p", "no:xdist")
    assert result.parseoutcomes() == {"passed": 9}


@pytest.mark.slow
def test_failed_assertion_shows_the_test_only(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import apass\nfrom apass.testing import assert_rewrites, assert_trace, check_pass\n"
        "keep = apass.module_pass(lambda mod, ctx: dict(mod), opt_level=0, name='Keep')\n"
        "def test_rewrite():\n    assert_rewrites(keep, {'f': 1}, {'f': 2})\n"
        "def test_trace():\n    assert_trace([], 'a')\n"
        "def test_laws():\n    check_pass(keep, [{'f': 1}])\n"
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=3)
    assert not re.findall(r"apass/\w+/\w+\.py:", result.stdout.str())
