"""The generated pages and diagrams of the documentation follow from the code."""

import os

import pytest

from tests.helpers.repository import ROOT
from tests.helpers.warm_processes import WarmProcess

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_generated_pages_are_current() -> None:
    # A process of its own: other tests register passes, which the page of passes would list.
    code = "import sys\nfrom tests.docs.generated import main\nsys.exit(main(['--check']))"
    with WarmProcess(code, environ=os.environ, folder=ROOT) as process:
        out, err = process.communicate()
        assert (out, process.wait()) == ("", 0), f"run `python -m tests.docs.generated`\n{err}"
