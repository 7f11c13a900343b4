"""`examples/tune_tir.py`: the tuned functions compute the product."""

import anyio
import pytest

import apass
from apass.adapters.tvm import ADAPTER, from_script, to_script
from examples.tune_tir import is_product, main, product, tune

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_products_are_tuned(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--sizes", "32", "64", "--evaluations", "2", "--backend", backend])
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["product of 32", "product of 64"]
    assert all(line.endswith(" times as fast") for line in lines)


def test_result_is_a_candidate() -> None:
    found = anyio.run(tune, [64], 3).modules["64"]
    assert found.trials == 3
    assert found.values["latency"] <= 1
    tuned = apass.run(found.pipeline, product(64)) if found.pipeline else product(64)
    assert ADAPTER.equal(found.module, tuned)
    assert is_product(ADAPTER.dumps(tuned), 64)


def test_only_products_are_accepted() -> None:
    for inner in ("serial", "vectorize", "unroll"):
        tiled = apass.run(f"tir.Tile{{tile=8,inner={inner}}}", product(32))
        assert not ADAPTER.equal(tiled, product(32))
        assert is_product(ADAPTER.dumps(tiled), 32)
    wrong = from_script(to_script(product(32)).replace("vk] * B", "vk] - B"))
    assert not is_product(ADAPTER.dumps(wrong), 32)
