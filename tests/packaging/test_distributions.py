"""The wheel and the source distribution, without the repository.

They are built once. `APASS_DISTRIBUTIONS` names a folder with built ones to test instead.
"""

import os
import re
import signal
import subprocess
import sys
import tarfile
import urllib.request
import venv
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import pytest

from apass.util.version import __version__
from tests.helpers.command_line import write_model
from tests.helpers.repository import ROOT

pytestmark = [pytest.mark.process, pytest.mark.slow]

TUTORIALS = ("first_pass", "pass_infrastructure", "relay_pass")
SOURCES = "apass/instruments/report/web/"
"""The folder that only a change of the pages in `assets` needs."""


def run(*command: object, folder: Path) -> str:
    """Run a command in a folder, and return its output.

    It gets no variable that may name the repository.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("APASS_", "PYTHON"))}
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the source distribution, and the wheel from it."""
    if given := os.environ.get("APASS_DISTRIBUTIONS"):
        return (ROOT / given).absolute()
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, folder=folder)
    return folder


@pytest.fixture(scope="module")
def programs(distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs of an environment in which only the wheel is installed.

    It finds the libraries of this environment, but not its packages in editable mode: Python reads no `.pth` file of a
    folder that a `.pth` file names.
    """
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    libraries = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (packages / "libraries.pth").write_text("\n".join(libraries))
    [wheel] = distributions.glob("*.whl")
    options = ("--no-deps", "--no-index", "--no-compile", "--quiet", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", *options, wheel, folder=folder)
    return folder / "bin"


def names_in_wheel(folder: Path) -> Sequence[str]:
    """Return the files of the wheel in a folder."""
    [wheel] = folder.glob("*.whl")
    return sorted(ZipFile(wheel).namelist())


def test_names_have_the_version(distributions: Path) -> None:
    names = {f"apass-{__version__}.tar.gz", f"apass-{__version__}-py3-none-any.whl"}
    assert {path.name for path in distributions.iterdir()} == names


def test_wheel_holds_the_package(distributions: Path) -> None:
    package = {path.relative_to(ROOT).as_posix() for path in (ROOT / "apass").rglob("*") if path.is_file()}
    left_out = {name for name in package if "__pycache__" in name or name.startswith(SOURCES)}
    names = names_in_wheel(distributions)
    assert {name for name in names if not name.startswith(f"apass-{__version__}.dist-info/")} == package - left_out


def test_wheel_of_repository_and_of_source_distribution_agree(distributions: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, folder=ROOT)
    assert names_in_wheel(tmp_path) == names_in_wheel(distributions)


def test_source_distribution_holds_the_repository(distributions: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no repository of Git")
    [path] = distributions.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = run("git", "ls-files", "--cached", "--others", "--exclude-standard", folder=ROOT).splitlines()
    assert names == {name for name in tracked if (ROOT / name).exists()} | {"PKG-INFO"}


def test_installed_package_is_not_the_repository(programs: Path, tmp_path: Path) -> None:
    code = "import apass, sys; print(apass.__file__, apass.__version__, *sys.path, sep='\\n')"
    file, version, *path = run(programs / "python", "-c", code, folder=tmp_path).splitlines()
    assert (file.startswith(str(programs.parent)), version, str(ROOT) in path) == (True, __version__, False)


def test_installed_command_writes_model_and_report(programs: Path, tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    run(programs / "apass", "opt", model, "-o", tmp_path / "out.onnx", "--report", "report.html", folder=tmp_path)
    report = (tmp_path / "report.html").read_text()
    program = (ROOT / "apass/instruments/report/assets/report.js").read_text()
    assert (tmp_path / "out.onnx").stat().st_size < model.stat().st_size
    assert max(map(len, re.findall(r"<script[^>]*>(.*?)</script>", report, re.DOTALL))) > len(program) // 2


@pytest.mark.parametrize("tutorial", TUTORIALS)
def test_snippets_of_tutorials_run(tutorial: str, programs: Path, tmp_path: Path) -> None:
    snippets = ROOT / "tests/helpers/docs_snippets.py"
    run(programs / "python", "-P", snippets, ROOT / f"docs/tutorials/{tutorial}.md", "asyncio", folder=tmp_path)


@pytest.mark.network
def test_installed_server_shows_the_live_page(programs: Path, tmp_path: Path) -> None:
    command = [str(programs / "apass"), "serve", "--port", "0", "--memory"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[1]
            page = urllib.request.urlopen(url).read().decode()
            assets = re.findall(r'(?:src|href)="(assets/[^"]*)"', page)
            sizes = {name.rpartition(".")[2]: len(urllib.request.urlopen(f"{url}/{name}").read()) for name in assets}
        finally:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert (process.returncode, sizes.keys() >= {"js", "css"}, min(sizes.values()) > 1000) == (0, True, True), sizes
