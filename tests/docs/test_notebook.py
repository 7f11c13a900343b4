"""The notebook of the documentation is executed, and its page is current."""

import pytest

from tests.docs import notebook

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_notebook_has_the_outputs_of_its_cells() -> None:
    # The page is checked in `test_generated.py`.
    expected = notebook.comparable(notebook.executed())
    assert notebook.comparable(notebook.read()) == expected, "run `python -m tests.docs.notebook`"


def test_only_expected_cells_have_errors() -> None:
    outputs = [output for cell in notebook.read().cells for output in cell.get("outputs", ())]
    assert [output.output_type for output in outputs].count("error") == 0
    assert len(outputs) == 12
