"""What runs the passes of LLVM in these tests."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let llvmlite run passes, except in the tests of `opt` and of spaces."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.path.name.startswith(("test_opt", "test_spaces")):
            patch.setenv("APASS_LLVM_OPT", "llvmlite")
        yield
