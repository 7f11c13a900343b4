"""`SnapshotFolder`: the latest module of a pipeline that has not ended, in chunks."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from apass.core.adapter import adapter_by_name, adapter_for, facts_of, load_with_facts, type_name
from apass.util.files import read_regular, write_whole
from apass.util.typed_values import convert

__all__ = ["Snapshot", "SnapshotFolder", "chunks_of", "snapshot_key"]

FORMAT: Final = 1
"""Version of the format of the files."""

LATEST: Final = "latest.json"
"""The file that describes the latest snapshot of a module."""

LARGEST: Final = 1 << 20
"""Maximum size of a chunk in bytes."""

SMALLEST: Final = 1 << 12
"""Minimum size of a chunk in bytes, except the last one."""

_BOUNDARY: Final = re.compile(rb"\x9d\x3b")
"""Chunks end after these two bytes, which occur once in 64 KiB of random data."""

_UNNAMED: Final = "unnamed"
"""The first part of the keys of modules without a name."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def chunks_of(data: bytes) -> Iterator[bytes]:
    """Split data at boundaries that depend on the contents around them.

    An insertion changes the chunks around it only. So two versions of a model share the chunks of equal weights, even
    if they have moved. Source: content-defined chunking (Muthitacharoen et al., "A Low-bandwidth Network File System").

    >>> data = bytes(range(256)) * 4096
    >>> b"".join(chunks_of(data)) == data
    True
    """
    start = 0
    for match in _BOUNDARY.finditer(data):
        if match.end() - start >= SMALLEST:
            yield from _limited(data[start : match.end()])
            start = match.end()
    yield from _limited(data[start:])


def _limited(data: bytes) -> Iterator[bytes]:
    yield from (data[index : index + LARGEST] for index in range(0, len(data), LARGEST))


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A module between two passes of a pipeline."""

    positions: tuple[str, ...]
    """The position of the last finished pass, in the rest of the pipeline after the position before."""
    module_type: str
    """The class of the module, as `package.module:Class`."""
    facts: Any
    """Data that the adapter needs to restore the module."""
    chunks: tuple[str, ...]
    """The digests of the module's chunks."""


def snapshot_key(name: str | None, identity: str) -> str:
    """Return the key of a module with a name, and a text that identifies the rest."""
    prefix = _UNNAMED if name is None else _digest(name)[:16]
    return f"{prefix}-{_digest(identity)}"


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


class SnapshotFolder:
    """A folder with the latest snapshot of each module; it may come from a stranger.

    Each module has a folder of its own, with a file for each distinct chunk. A chunk that the snapshot before has too
    is not written again, and chunks that are not needed any more are removed.
    """

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        """The path of the folder."""

    def read(self, key: str) -> tuple[Snapshot, Any] | None:
        """Return the snapshot of a module, with the module; None if none can be read."""
        folder = self.path / key
        try:
            snapshot = _parsed(read_regular(folder / LATEST))
            data = b"".join(_chunk(folder, name) for name in snapshot.chunks)
            adapter: Any = adapter_by_name(snapshot.module_type)
            return snapshot, load_with_facts(adapter, data, snapshot.facts)
        except Exception:  # a damaged file, or any error of an adapter: the pipeline starts over
            return None

    def write(self, key: str, positions: Sequence[str], mod: Any) -> None:
        """Replace the snapshot of a module.

        Raises:
            AdapterError: if the module cannot be written.
            OSError: if a file cannot be written. The snapshot before remains.

        """
        folder, adapter = self.path / key, adapter_for(mod)
        if not folder.exists():
            # Another version of the module, or of its pipeline, has replaced what these belong to. Modules without a
            # name may all be needed.
            prefix = key.partition("-")[0]
            for other in () if prefix == _UNNAMED else self.path.glob(f"{prefix}-*"):
                shutil.rmtree(other, ignore_errors=True)
            folder.mkdir(parents=True)
        names: list[str] = []
        present = {path.name for path in folder.iterdir()}
        for chunk in chunks_of(adapter.dumps(mod)):
            names.append(sha256(chunk).hexdigest())
            if names[-1] not in present:
                present.add(names[-1])
                write_whole(folder / names[-1], chunk, durable=False)
        snapshot = Snapshot(
            positions=tuple(positions), module_type=type_name(mod), facts=facts_of(adapter, mod), chunks=tuple(names)
        )
        write_whole(folder / LATEST, json.dumps({"format": FORMAT, **asdict(snapshot)}), durable=False)
        for name in present - {*names, LATEST}:
            (folder / name).unlink(missing_ok=True)

    def remove(self, key: str) -> None:
        """Remove the snapshot of a module."""
        shutil.rmtree(self.path / key, ignore_errors=True)
        try:
            self.path.rmdir()
        except OSError:
            return


def _parsed(data: bytes) -> Snapshot:
    fields = convert(json.loads(data), Mapping[str, Any])
    if fields["format"] != FORMAT:
        raise ValueError("another format")
    types = {"positions": tuple[str, ...], "module_type": str, "facts": Any, "chunks": tuple[str, ...]}
    return Snapshot(**{name: convert(fields[name], tp) for name, tp in types.items()})


def _chunk(folder: Path, name: str) -> bytes:
    """Return a chunk whose name is its digest."""
    # The name may be the path of any file, such as an endless device.
    if _DIGEST.fullmatch(name) is None:
        raise ValueError(f"{name} is not the name of a chunk")
    chunk = read_regular(folder / name)
    if sha256(chunk).hexdigest() != name:
        raise ValueError(f"chunk {name} is damaged")
    return chunk
