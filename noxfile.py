"""Sessions of nox, one for each check: `nox -l` lists them."""

from pathlib import Path

import nox

nox.needs_version = ">=2025.5.1"
nox.options.sessions = ["lint", "type", "test", "docs"]
nox.options.reuse_existing_virtualenvs = True

BARE = ("tests/util", "tests/core", "tests/runner", "tests/passes", "tests/batch")
"""Folders of tests that need no extra."""
NEED_EXTRAS = (
    "tests/batch/test_journal.py",
    "tests/batch/test_journal_results.py",
    "tests/batch/test_old_journals.py",
    "tests/core/test_config.py",
    "tests/core/test_diagnostic_rendering.py",
    "tests/core/test_preserved_analyses.py",
    "tests/passes/test_entry_points.py",
    "tests/passes/test_registry.py",
    "tests/runner/test_cache_options.py",
    "tests/runner/test_result_cache.py",
    "tests/util/test_fingerprint.py",
)
"""Files in these folders that use Relay, ONNX or numpy."""
PYTEST = ("pytest", "-n", "auto", "--dist", "loadfile")


@nox.session
def fmt(session: nox.Session) -> None:
    """Format the code, and fix what ruff can fix."""
    session.install("-e", ".[lint]")
    session.run("ruff", "format", ".")
    session.run("ruff", "check", "--fix", ".")


@nox.session
def lint(session: nox.Session) -> None:
    """Check the code with ruff and the spelling with codespell; change nothing."""
    session.install("-e", ".[lint]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("codespell")


@nox.session(name="type")
def check_types(session: nox.Session) -> None:
    """Check the types with mypy and pyright, both strict."""
    session.install("-e", ".[lint,test]")
    session.run("mypy")
    session.run("pyright")


@nox.session
def verifytypes(session: nox.Session) -> None:
    """Report the public names without a complete type."""
    # Pyright looks for an installed package, not for an editable one.
    session.install(".[lint,test]")
    # In the root of the repository pyright takes the folder apass for local code and finds no package.
    session.chdir(session.create_tmp())
    session.run("pyright", "--verifytypes", "apass", "--ignoreexternal")


@nox.session
def test(session: nox.Session) -> None:
    """Run the quick tests, or all tests of the rooms that are named.

    `nox -s test -- runner core` runs those of two rooms. Other arguments go to pytest.
    """
    session.install("-e", ".[test]")
    rooms = [argument for argument in session.posargs if Path("tests", argument).is_dir()]
    others = [argument for argument in session.posargs if argument not in rooms]
    chosen = [str(Path("tests", room)) for room in rooms] or ["-m", "not slow"]
    session.run(*PYTEST, *chosen, *others)


@nox.session(name="test-slow")
def test_slow(session: nox.Session) -> None:
    """Run all tests, the slow ones too; arguments go to pytest."""
    session.install("-e", ".[test]")
    session.run(*PYTEST, *session.posargs)


@nox.session(name="test-trio")
def test_trio(session: nox.Session) -> None:
    """Run all tests on the other event loop; arguments go to pytest."""
    session.install("-e", ".[test]")
    session.run(*PYTEST, "--loop", "trio", *session.posargs)


@nox.session(name="test-deep")
def test_deep(session: nox.Session) -> None:
    """Run all tests with all examples, jobs and models.

    It takes an hour or more. Arguments go to pytest.
    """
    session.install("-e", ".[test]")
    session.run(*PYTEST, "--hypothesis-profile=deep", "--loop", "both", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Break random lines, and report those that no test notices.

    `nox -s mutants -- --mutants 20 runner` breaks twenty lines of a room.
    """
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.mutants", *session.posargs)


@nox.session(name="test-bare")
def test_bare(session: nox.Session) -> None:
    """Import apass without extras, and run the tests that need none."""
    session.install(".")
    session.run("python", "-P", "-c", "import apass")
    # The tests themselves use trio, as the second event loop of each async test.
    session.install("hypothesis>=6.130", "pytest>=8.4", "trio>=0.31")
    session.run("pytest", *BARE, *(f"--ignore={file}" for file in NEED_EXTRAS), *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site into `site/`; a broken link is an error."""
    session.install("-e", ".[docs]")
    session.run("zensical", "build", "--strict", "--clean", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks; arguments go to `python -m benchmarks`."""
    session.install("-e", ".[bench]")
    session.run("python", "-m", "benchmarks", *session.posargs)
