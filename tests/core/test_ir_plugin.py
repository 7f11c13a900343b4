"""`IRPlugin`: which plug-in modules have, and files."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import apass
from apass.core.ir_plugin import IRPlugin, data_suffix, plugin_for
from apass.relay import IRModule


def test_plugin_of_module_is_that_of_its_package() -> None:
    class Derived(IRModule):
        pass

    assert plugin_for(Derived()).suffixes == (".relay",)
    assert plugin_for({"f": 1}).suffixes == (".json",)


def test_plugin_writes_what_it_reads(tmp_path: Path) -> None:
    plugin: IRPlugin[dict[str, int]] = plugin_for({"f": 1})
    plugin.write({"f": 1}, tmp_path / "m.json")
    assert plugin.read(tmp_path / "m.json") == {"f": 1}


class Listing(dict[str, int]):
    """A module in files of lines."""


class ListingAdapter(apass.plugins.BaseAdapter[Listing, int]):
    def functions(self, mod: Listing) -> Iterator[tuple[str, int]]:
        yield from mod.items()

    def replace(self, mod: Listing, updates: Mapping[str, int]) -> Listing:
        return Listing({**mod, **updates})


class TextAdapter(ListingAdapter):
    def from_text(self, text: str) -> Listing:
        return Listing(eval(text))


def test_bytes_of_text_have_suffix_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (data_suffix({"f": 1}), data_suffix(IRModule())) == (".json", ".relay")
    for adapter, suffix in ((TextAdapter(), ".lines"), (ListingAdapter(), ".bin")):
        # Other tests list the suffixes of all plug-ins.
        monkeypatch.setattr("apass.core.ir_plugin._REGISTERED", {})
        monkeypatch.setattr("apass.core.adapter._REGISTERED", {})
        apass.register_plugin(IRPlugin(adapter=adapter, module_type=Listing, suffixes=(".lines",)))
        assert data_suffix(Listing(f=1)) == suffix
