"""`IRPlugin`: which plug-in modules have, and files."""

from pathlib import Path

from apass.core.ir_plugin import IRPlugin, plugin_for
from apass.relay import IRModule


def test_plugin_of_module_is_that_of_its_package() -> None:
    class Derived(IRModule):
        pass

    assert plugin_for(Derived()).suffixes == (".relay",)
    assert plugin_for({"f": 1}).suffixes == ()


def test_plugin_writes_what_it_reads(tmp_path: Path) -> None:
    plugin: IRPlugin[dict[str, int]] = plugin_for({"f": 1})
    plugin.write({"f": 1}, tmp_path / "m.json")
    assert plugin.read(tmp_path / "m.json") == {"f": 1}
