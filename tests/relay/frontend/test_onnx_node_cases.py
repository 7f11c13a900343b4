"""A sample of the node cases of ONNX.

`python -m tests.relay.frontend.node_cases` checks all of them.
"""

import warnings

import pytest

from tests.helpers.onnx_node_cases import node_cases
from tests.relay.frontend.node_cases import Verdict, check_case, main

STEP = 5
"""Every fifth case is checked, because all of them take too long."""


@pytest.mark.slow
def test_imported_node_cases_have_expected_outputs() -> None:
    with warnings.catch_warnings():
        # Some cases overflow on purpose.
        warnings.simplefilter("ignore")
        results = [check_case(case) for case in node_cases()[::STEP]]
    assert [result for result in results if result.verdict is Verdict.WRONG] == []
    equal = sum(result.verdict is Verdict.EQUAL for result in results)
    assert (equal * STEP > 1400, sum(result.is_imported for result in results) * STEP > 1700) == (True, True)


def test_command_prints_number_of_cases(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test_relu", "test_image_decoder_decode_png_rgb", "--list"]) == 0
    printed = capsys.readouterr().out
    assert "ImageDecoder of operator set 20 (1 node)" in printed
    assert "    1 not covered\n" in printed
    assert "    0 imported, outputs wrong\n" in printed
