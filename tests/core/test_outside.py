"""What options declare to reach besides the module."""

import inspect
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

from apass.core.outside import outside_of, reviewed
from apass.plugins import Outside


class Mode(Enum):
    FAST = 1


def option(tp: Any) -> inspect.Parameter:
    return inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY, annotation=tp)


def test_declarations_are_found_at_any_depth() -> None:
    files: Any = Annotated[str, Outside.FILES]
    for tp in (files, list[files], files | None, dict[str, tuple[files, ...]], Path, list[Path] | None):
        assert outside_of(tp) is Outside.FILES
    for tp in (str, int | None, Annotated[str, "files"], Literal["a"], Any, inspect.Parameter.empty):
        assert outside_of(tp) is None


def test_numbers_and_choices_need_no_review() -> None:
    for tp in (bool, int, float | None, Literal["a", "b"], list[int], tuple[int, ...], Mode, dict[int, bool]):
        assert reviewed(option(tp), {}) == option(tp)


def test_other_types_are_unknown_without_a_review() -> None:
    for tp in (str, Any, list[str], str | None, dict[str, int], list[Any], inspect.Parameter.empty, object, list):
        assert outside_of(reviewed(option(tp), {"y": None}).annotation) is Outside.UNKNOWN
        assert outside_of(reviewed(option(tp), {"x": Outside.CODE}).annotation) is Outside.CODE
        assert outside_of(reviewed(option(tp), {"x": None}).annotation) is None
