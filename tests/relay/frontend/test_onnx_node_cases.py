"""The node cases of ONNX: a part of them here, all of them by `python -m tests.relay.frontend.node_cases`."""

import warnings

import pytest

from tests.relay.frontend.node_cases import Verdict, check_case, main, node_cases

STEP = 5
"""One case in so many is looked at."""


def test_no_case_that_is_imported_computes_a_wrong_number() -> None:
    with warnings.catch_warnings():
        # Some cases ask what becomes of numbers that overflow.
        warnings.simplefilter("ignore")
        results = [check_case(case) for case in node_cases()[::STEP]]
    assert [one for one in results if one.verdict is Verdict.WRONG] == []
    plain = sum(one.verdict is Verdict.EQUAL for one in results)
    assert (plain * STEP > 1400, sum(one.is_imported for one in results) * STEP > 1700) == (True, True)


def test_the_command_says_how_many_cases_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test_relu", "test_image_decoder_decode_png_rgb", "--list"]) == 0
    printed = capsys.readouterr().out
    assert "ImageDecoder of operator set 20 (1 node)" in printed
    assert "    1 not covered\n" in printed
    assert "    0 imported, outputs wrong\n" in printed
