"""`ModuleDiff`: only the functions that changed are shown."""

from collections.abc import Iterable
from typing import Any

import pytest

from apass import register_adapter
from apass.adapters.mapping import DictAdapter
from apass.core.module_diff import ModuleDiff


class Numbered(dict[str, Any]):
    """Lists of operations by name."""


class NumberedAdapter(DictAdapter):
    """An adapter whose text numbers the operations of all functions in one sequence."""

    text_parts: Any = None

    def to_text(self, x: Any) -> str:
        """Return the functions, between the first and the last line of a module."""
        number, lines = 0, list[str]()
        for name, operations in x.items():
            lines.append(f"  func {name}\n")
            for operation in operations:
                lines.append(f"    %{number} = {operation}\n")
                number += 1
        return f"module {{\n{''.join(lines)}}}"

    def isolate(self, mod: Any, names: Iterable[str]) -> Any:
        """Return the named functions."""
        return Numbered({name: mod[name] for name in names})


class LabelledAdapter(NumberedAdapter):
    """A `NumberedAdapter` whose modules start with a label."""

    def to_text(self, x: Any) -> str:
        """Return the label, then the functions."""
        return f"label {x.label}\n{super().to_text(x)}"

    def isolate(self, mod: Any, names: Iterable[str]) -> Any:
        """Return the named functions with the label."""
        return Labelled({name: mod[name] for name in names}, mod.label)


class Labelled(Numbered):
    """Lists of operations by name, with a label."""

    def __init__(self, functions: dict[str, Any], label: str) -> None:
        super().__init__(functions)
        self.label = label


@pytest.fixture(autouse=True, scope="module")
def adapters() -> None:
    """Register the adapters."""
    register_adapter(Numbered, NumberedAdapter())
    register_adapter(Labelled, LabelledAdapter())


def test_unchanged_functions_after_a_change_are_omitted() -> None:
    rest = {"g": ["mul"], "h": ["sub"]}
    before, after = Numbered(f=["add", "add"], **rest), Numbered(f=["add"], **rest)
    assert ModuleDiff.of(before, after).text() == "@@ -1,4 +1,3 @@ f\n   func f\n     %0 = add\n-    %1 = add\n }"


def test_equal_copies_of_functions_are_omitted() -> None:
    before, after = Numbered(f=["add", "add"], g=["mul"]), Numbered(f=["add"], g=["mul"])
    assert "func g" not in ModuleDiff.of(before, after).text()


def test_removed_and_added_functions_are_shown() -> None:
    kept = ["add"]
    before, after = Numbered(f=kept, g=["mul"]), Numbered(h=["sub"], f=kept)
    expected = (
        "@@ -1,3 +0,0 @@ g\n-  func g\n-    %0 = mul\n-}\n"
        "@@ -0,0 +1,3 @@ h\n+  func h\n+    %0 = sub\n+}"
    )  # fmt: skip
    assert ModuleDiff.of(before, after).text() == expected


def test_text_outside_of_functions_is_compared_once() -> None:
    functions = {"f": ["add"], "g": ["mul"]}
    diff = ModuleDiff.of(Labelled(functions, "old"), Labelled(functions, "new"))
    assert diff.text(context=0) == "@@ -1 +1 @@\n-label old\n+label new"
    assert ModuleDiff.of(Labelled(functions, "old"), Labelled(functions, "new"), lambda name: name == "f").text() == ""


def test_changed_label_is_absent_from_changed_function() -> None:
    diff = ModuleDiff.of(Labelled({"f": ["add"]}, "old"), Labelled({"f": ["sub"]}, "new"))
    assert diff.text(context=0) == (
        "@@ -1 +1 @@\n-label old\n+label new\n@@ -2 +2 @@ f\n-    %0 = add\n+    %0 = sub"
    )  # fmt: skip


def test_limit_counts_the_lines_of_all_functions() -> None:
    diff = ModuleDiff.of(Numbered(f=["a"], g=["b"]), Numbered(f=["c"], g=["d"]))
    assert diff.text(context=0, limit=4) == (
        "@@ -2 +2 @@ f\n-    %0 = a\n+    %0 = c\n@@ -2 +2 @@ g\n... and 2 more lines"
    )  # fmt: skip
