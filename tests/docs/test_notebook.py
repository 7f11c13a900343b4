"""The notebook of the documentation is executed."""

import pytest

from tests.docs import notebook
from tests.helpers.repository import ROOT

pytestmark = pytest.mark.process


@pytest.mark.slow
def test_notebook_has_the_outputs_of_its_cells() -> None:
    expected = notebook.comparable(notebook.executed())
    assert notebook.comparable(notebook.read()) == expected, "run `python -m tests.docs.notebook`"


def test_only_expected_cells_have_errors() -> None:
    outputs = [output for cell in notebook.read().cells for output in cell.get("outputs", ())]
    assert [output.output_type for output in outputs].count("error") == 0
    assert len(outputs) == 12


@pytest.mark.slow
def test_page_has_text_code_and_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    markdown = pytest.importorskip("markdown")
    monkeypatch.chdir(ROOT)
    page = (notebook.TUTORIALS / "notebook.md").read_text()
    html = markdown.markdown(page, extensions=["docs.notebook_page", "fenced_code"])
    kinds = [cell.cell_type for cell in notebook.read().cells]
    assert html.count('<code class="language-py">') == kinds.count("code")
    assert (html.count('<div class="output">'), "<h1>Passes in a notebook</h1>" in html) == (12, True)
