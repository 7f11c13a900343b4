"""`examples/tune_tir.py`: the tuned functions compute the same."""

import anyio
import pytest

from apass.adapters.tvm import ADAPTER
from examples.tune_tir import TILES, main, products, tiled, tune

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_tuned_functions_compute_the_same(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--sizes", "32", "--backend", backend]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert sorted(line.partition(":")[0] for line in lines) == ["product_32"]
    assert last == "the tuned functions compute the same"


def test_tuned_function_is_a_candidate() -> None:
    tuned, is_equal = anyio.run(tune, [32, 64])
    original = products([32, 64])
    assert is_equal
    for name in ("product_32", "product_64"):
        assert any(ADAPTER.equal(tuned[name], tiled(original[name], tile)) for tile in (0, *TILES))
