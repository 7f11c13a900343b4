"""Damage in the files of SQL job stores: what is damaged is never a result."""

import re
import sqlite3
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import apass
from apass.errors import ApassError, StoreWarning
from apass.service import JobsUnavailableError, Optimizer, ServiceError, SqlJobStore
from apass.service.job_store import Blob, DamagedBlobError, JobChange, read_blob
from apass.service.jobs import JobEvent
from tests.helpers.amounts import amount
from tests.helpers.rows import row
from tests.service.stored_jobs import new_job, opened

pytestmark = pytest.mark.anyio


@apass.function_pass(opt_level=0, cacheable=True)
def UPPER(func: str, mod: dict[str, str], ctx: apass.PassContext) -> str:
    return func.upper()


async def test_damaged_chunk_removes_its_blob(tmp_path: Path) -> None:
    first = "SELECT data FROM apass_chunks WHERE number = 0"
    damages = {
        "DELETE FROM apass_chunks WHERE number = 1": "chunk 1 has 0 bytes instead of 1048576",
        "UPDATE apass_chunks SET data = 7 WHERE number = 2": "chunk 2",
        "UPDATE apass_chunks SET data = zeroblob(length(data)) WHERE number = 0": "chunk 0 has another digest",
        f"UPDATE apass_chunks SET data = ({first}) WHERE number = 1": "chunk 1 has another digest",
        "UPDATE apass_blobs SET size = size - 1": "chunk 2 has ",
        "UPDATE apass_blobs SET size = size + 4194304": "chunk 2 has ",
    }
    model = Blob.of(Random(0).randbytes(3_000_000))
    for number, (damage, reason) in enumerate(damages.items()):
        path = tmp_path / f"{number}.db"
        async with opened(partial(SqlJobStore, path)) as store:
            await store.add(new_job(model), model)
            with closing(sqlite3.connect(path)) as connection, connection, row(damage):
                connection.execute(damage)
            with pytest.raises(DamagedBlobError, match=reason), pytest.warns(StoreWarning, match="it is removed"):
                await read_blob(store, model.digest)
            with pytest.raises(KeyError) as missing:
                await read_blob(store, model.digest)
            assert not isinstance(missing.value, DamagedBlobError)
            # The next job with the same model stores it again.
            await store.add(new_job(model), model)
            assert await read_blob(store, model.digest) == model.data


async def test_damaged_events_are_an_error(tmp_path: Path) -> None:
    path, model = tmp_path / "jobs.db", Blob.of(b"model")
    job = new_job(model)
    async with opened(lambda: SqlJobStore(path)) as store:
        await store.add(job, model)
        await store.update([JobChange(job, events=[JobEvent(1, "remark", 0.0, {"text": "right"})])])
        for damage in ("replace(data, 'right', 'wrong')", "'[[1, 2]]'", "''"):
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute(f"UPDATE apass_events SET data = {damage}")
            with pytest.raises(JobsUnavailableError, match=f"the events of job '{job.id}' in .* are damaged"):
                await store.events(job.id, 0)


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_flipped_bit_gives_no_other_result(tmp_path: Path) -> None:
    """In each copy of a store, flip a bit of a result, a model, a record or an index."""
    source, model = tmp_path / "source.db", {"f": "alpha" * 40}

    async def stored(path: Path) -> list[object]:
        """Return the results of the stored job and of an equal new one, or their errors."""
        found: list[object] = []
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            try:
                async with Optimizer({"default": UPPER}, store=path) as optimizer:
                    finds: list[Callable[[], Awaitable[Any]]] = [
                        lambda: optimizer.find(done),
                        lambda: optimizer.submit(model),
                    ]
                    for find in finds:
                        try:
                            found.append(await (await find()).result())
                        except (ServiceError, ApassError) as error:
                            found.append(type(error))
            except JobsUnavailableError as error:
                found.append(type(error))
        return found

    async with Optimizer({"default": UPPER}, store=source) as optimizer:
        job = await optimizer.submit(model)
        done, right = job.id, await job.result()
    assert await stored(source) == [right, right]
    data = source.read_bytes()
    digest, upper = job.record.model_digest.encode(), b"ALPHA"
    places = [offset for text in (upper, b"alpha", digest, done.encode(), b"done") for offset in offsets(data, text)]
    outcomes = Counter[str]()
    for number in range(amount(400, least=20)):
        rng = Random(number)
        place = rng.choice(places) + rng.randrange(4) if number % 4 else rng.randrange(100, len(data))
        damaged = bytearray(data)
        damaged[place] ^= 1 << rng.randrange(8)
        path = tmp_path / f"{number}.db"
        path.write_bytes(damaged)
        found = await stored(path)
        with row(f"bit of byte {place}"):
            assert all(item == right or isinstance(item, type) for item in found), found
            # The intact model is computed again, unless the file itself is refused.
            assert len(found) == 1 or found[1] == right or found[1] is JobsUnavailableError, found
        outcomes[str(found)] += 1
    assert len(outcomes) > 1


def offsets(data: bytes, text: bytes) -> Iterator[int]:
    """Iterate over the places of a text."""
    return (match.start() for match in re.finditer(re.escape(text), data))


async def test_damaged_text_in_the_schema_is_an_error(tmp_path: Path) -> None:
    # The message of SQLite quotes it, and is no UTF-8.
    path, model = tmp_path / "jobs.db", Blob.of(b"model")
    async with opened(partial(SqlJobStore, path)) as store:
        await store.add(new_job(model), model)
    path.write_bytes(path.read_bytes().replace(b"(finished) WHERE", b"(finished) \xa0\xa0\xa0\xa0\xa0"))
    with pytest.raises(JobsUnavailableError, match="cannot be used"):
        async with opened(partial(SqlJobStore, path)):
            pass


async def test_blob_with_a_damaged_reference_is_an_error(tmp_path: Path) -> None:
    path, model = tmp_path / "jobs.db", Blob.of(b"model")
    async with opened(partial(SqlJobStore, path)) as store:
        await store.add(new_job(model), model)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE apass_blobs SET body = CAST(x'f3' || substr(body, 2) AS TEXT)")
        with pytest.raises(DamagedBlobError, match="chunk 0"), pytest.warns(StoreWarning, match="it is removed"):
            await read_blob(store, model.digest)
