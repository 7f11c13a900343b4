"""All models of onnx's test data, through Relay and back."""

import warnings
from collections.abc import Sequence

import pytest

from tests.helpers.amounts import some
from tests.relay.backend.round_trips import Model, Report, Verdict, check_model, main, models

PARTS = 8
"""The models are checked in as many tests, which may run in parallel."""

REFERENCE = {
    "test_maxpool_2d_same_lower": "MaxPool pads the wrong axes if the pads of an axis differ",
    "test_maxpool_2d_same_upper": "MaxPool pads the wrong axes if the pads of an axis differ",
    "test_roialign_aligned_false": "GatherElements accepts at most 64 rows",
    "test_roialign_aligned_true": "GatherElements accepts at most 64 rows",
    "test_roialign_mode_max": "GatherElements accepts at most 64 rows",
}
"""Models with outputs that onnx's reference evaluator computes wrongly, and its defect."""

RUNTIME = {
    "test_cast_e8m0_FLOAT16_to_FLOAT8E8M0": "no BitCast to float8_e8m0fnu",
    "test_cast_e8m0_FLOAT_to_FLOAT8E8M0": "no BitCast to float8_e8m0fnu",
}
"""Models that onnxruntime runs before, but not after, and what it lacks."""

NOT_RUN = ("FLOAT4E2M1", "float4e2m1", "test_bitcast_bool_to_uint8")
"""Parts of the names of models that onnxruntime runs neither before nor after: it lacks types of Cast and BitCast."""

NOT_IMPORTED = 0.1
"""The largest share of the models that are not imported. All others are exported."""


def reports_of(chosen: Sequence[Model]) -> Sequence[Report]:
    with warnings.catch_warnings():
        # Some cases overflow on purpose.
        warnings.simplefilter("ignore")
        return [check_model(model) for model in chosen]


def named(reports: Sequence[Report], verdict: Verdict) -> set[str]:
    return {report.name for report in reports if report.verdict is verdict}


def assert_all_equal(reports: Sequence[Report]) -> None:
    wrong = (Verdict.NOT_EXPORTED, Verdict.INVALID)
    assert [report for report in reports if report.verdict in wrong] == []
    names = {report.name for report in reports}
    assert named(reports, Verdict.REFERENCE) == names & set(REFERENCE)
    assert named(reports, Verdict.RUNTIME) == names & set(RUNTIME)
    assert [name for name in named(reports, Verdict.NOT_RUN) if not any(part in name for part in NOT_RUN)] == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_imported_model_survives_round_trip(part: int) -> None:
    reports = reports_of(some(models()[part::PARTS]))
    assert_all_equal(reports)
    lacking = sum(report.verdict is Verdict.NOT_IMPORTED for report in reports)
    assert lacking <= NOT_IMPORTED * len(reports) + 3


@pytest.mark.slow
def test_some_models_survive_round_trip() -> None:
    assert_all_equal(reports_of(models()[::40]))


def test_command_prints_numbers_of_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test_relu"]) == 0
    assert capsys.readouterr().out == "    2 outputs equal in both engines\n"
