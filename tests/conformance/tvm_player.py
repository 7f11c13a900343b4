"""A player whose modules and passes are those of TVM."""

from collections.abc import Iterable
from typing import Any

import apass
from apass.adapters.tvm import from_script
from apass.adapters.tvm.library import tvm
from tests.conformance.player import BoomError, Player, Scenario

__all__ = ["TVMPlayer"]


class TVMPlayer(Player):
    """Runs the scenarios with real passes of TVM, on a real module of TVM.

    A pass whose body has steps of the scenario remains one of apass: only such a pass can await the steps.
    """

    def make_module(self, names: Iterable[str]) -> Any:
        """Return a module of identity functions."""
        functions = "".join(
            f"    @R.function\n    def {name}(x: R.Tensor((2,), 'float32')):\n        return x\n" for name in names
        )
        return from_script(f"@I.ir_module\nclass Module:\n{functions}")

    def make_pass(self, name: str, spec: Scenario) -> "apass.Pass[Any]":
        """Return one pass of the scenario; those before it are in `passes`."""
        if spec["kind"] == "sequential" or spec.get("body"):
            return super().make_pass(name, spec)
        seen: list[str] = []

        def on_function(func: Any, _mod: Any, _ctx: Any) -> Any:
            if not seen:
                self.events.append(f"run {name}")
            seen.append(name)
            if len(seen) == len(self.scenario["functions"]) or spec.get("raises"):
                seen.clear()
            if spec.get("raises"):
                raise BoomError(f"pass {name}")
            return func

        def on_module(mod: Any, _ctx: Any) -> Any:
            self.events.append(f"run {name}")
            if spec.get("raises"):
                raise BoomError(f"pass {name}")
            return None if spec.get("returns_none") else mod

        info = {"opt_level": spec["opt_level"], "name": name, "required": spec["required"]}
        if spec["kind"] == "function":
            return apass.from_tvm(tvm.relax.transform.function_pass(on_function, **info))
        return apass.from_tvm(tvm.transform.module_pass(on_module, **info))
