"""Optimize models that arrive on a Redis stream, with workers that may die.

    pip install "apass[redis,onnx]"
    python examples/redis_worker.py work  --url redis://127.0.0.1:6379/0           # start as many as you like
    python examples/redis_worker.py send  --url redis://127.0.0.1:6379/0 models/*.onnx -o optimized/

The workers are consumers of one group, so that each model goes to one of them. A model is acknowledged after its result
is in Redis. If a worker dies before, another one takes its models over after `--takeover` seconds. A model that several
workers in succession have taken, `--attempts` of them, is answered with an error. Results are kept for one hour.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, cast

import anyio
from coredis import Redis
from coredis.exceptions import RedisError, StreamDuplicateConsumerGroupError

from apass.executors import ProcessExecutor
from apass.service import JobFailedError, Optimizer, ServiceError

MODELS: Final = "apass:models"
"""The stream of models."""
GROUP: Final = "apass"
"""The group of workers."""
Entry = tuple[bytes, dict[bytes, bytes]]
"""The identifier and the fields of an entry of a stream."""
KEPT: Final = 3600
"""Seconds for which results are kept."""


async def work(url: str, name: str, *, takeover: float, attempts: int, executor: ProcessExecutor | None) -> None:
    """Optimize models until the task is cancelled."""
    async with Redis.from_url(url, decode_responses=False) as client, Optimizer(executor=executor) as optimizer:
        with suppress(StreamDuplicateConsumerGroupError):  # another worker has created the group
            await client.xgroup_create(MODELS, GROUP, identifier="0", mkstream=True)
        held: set[bytes] = set()
        async with anyio.create_task_group() as group:
            slots = anyio.Semaphore(64)
            group.start_soon(keep, client, name, held, takeover)
            while True:
                # Models of lost workers come first. A worker that reads more than it can optimize delays the others.
                entries = await lost_models(client, name, takeover)
                if not entries:
                    reply = await client.xreadgroup(GROUP, name, {MODELS: b">"}, count=8, block=1000)
                    entries = entries_of(reply)
                for identifier, fields in entries:
                    await slots.acquire()
                    held.add(identifier)
                    group.start_soon(answer, client, optimizer, identifier, fields, attempts, slots, held)


async def keep(client: Redis[bytes], name: str, held: set[bytes], takeover: float) -> None:
    """Claim the held models again and again, so that no other worker takes them over."""
    while True:
        await anyio.sleep(takeover / 3)
        if held:
            await client.xclaim(MODELS, GROUP, name, 0, list(held), justid=True)


def entries_of(reply: Any) -> list[Entry]:
    """Return the entries that Redis has read from one stream."""
    streams: dict[Any, tuple[Any, ...]] = reply or {}
    entries: list[Any] = [entry for stream in streams.values() for entry in stream]
    # The fields of an entry that was deleted are None.
    return [(entry.identifier, dict(entry.field_values)) for entry in entries if entry.field_values is not None]


async def lost_models(client: Redis[bytes], name: str, takeover: float) -> list[Entry]:
    """Take over models that another worker has not acknowledged for a while."""
    reply: Any = await client.xautoclaim(MODELS, GROUP, name, int(takeover * 1000), b"0-0", count=8)
    return entries_of({MODELS: reply[1]})


async def answer(
    client: Redis[bytes],
    optimizer: Optimizer,
    identifier: bytes,
    fields: dict[bytes, bytes],
    attempts: int,
    slots: anyio.Semaphore,
    held: set[bytes],
) -> None:
    """Optimize a model, send the answer, and acknowledge the model."""
    try:
        reply_to, name = fields[b"reply"], fields[b"name"].decode()
        tries = await client.hincrby(b"apass:tries", identifier, 1)
        if tries > attempts:
            outcome = {b"error": f"{attempts} workers died with this model".encode()}
        else:
            outcome = await optimized(optimizer, fields[b"model"], name)
        await client.xadd(reply_to, {b"name": fields[b"name"], **outcome})
        await client.expire(reply_to, KEPT)
        await client.xack(MODELS, GROUP, [identifier])
        await client.hdel(b"apass:tries", [identifier])
        await client.xdel(MODELS, [identifier])
    finally:
        held.discard(identifier)
        slots.release()


async def optimized(optimizer: Optimizer, model: bytes, name: str) -> dict[bytes, bytes]:
    """Return the fields of an answer."""
    try:
        job = await optimizer.submit(model, kind=Path(name).suffix, name=name)
        return {b"model": await job.result()}
    except JobFailedError as error:
        return {b"error": "\n".join([str(error), *error.failure.notes]).encode()}
    except ServiceError as error:
        return {b"error": str(error).encode()}


async def send(url: str, paths: Sequence[Path], folder: Path) -> int:
    """Send models, write the results to a folder, and return the number of failures."""
    failed = 0
    async with Redis.from_url(url, decode_responses=False) as client:
        number = await client.incr("apass:clients")
        reply = f"apass:answers:{number}".encode()
        left = {path.name: path for path in paths}
        for path in paths:
            data = await anyio.Path(path).read_bytes()
            await client.xadd(MODELS, {b"name": path.name.encode(), b"model": data, b"reply": reply})
        last = b"0-0"
        while left:
            for identifier, fields in entries_of(await client.xread({reply: last}, block=10_000)):
                last = identifier
                name = fields[b"name"].decode()
                if name not in left:
                    continue  # the worker died after its answer, and another one has repeated it
                path = left.pop(name)
                if b"model" in fields:
                    await anyio.Path(folder / path.name).write_bytes(fields[b"model"])
                    print(f"{path.name}: {path.stat().st_size} bytes before, {len(fields[b'model'])} after")
                else:
                    failed += 1
                    print(f"{path.name}: {fields[b'error'].decode()}", file=sys.stderr)
        await client.delete([reply])
    return failed


def redis_url(text: str) -> str:
    """Return the URL of a Redis server."""
    scheme, separator, place = text.partition("://")
    if scheme not in ("redis", "rediss", "unix") or not separator or not place:
        raise argparse.ArgumentTypeError(f"expected a URL such as redis://127.0.0.1:6379/0, got {text!r}")
    return text


def check_models(paths: Sequence[Path]) -> str | None:
    """Return why models cannot be sent; None if they can."""
    for path in paths:
        if not path.is_file():
            return f"there is no file {path}"
    names = Counter(path.name for path in paths)
    name, count = names.most_common(1)[0]
    return None if count == 1 else f"{count} models are named {name}, and their results would be; send them one by one"


def errors_in(error: BaseException) -> Iterator[BaseException]:
    """Iterate over the errors in nested groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from errors_in(inner)
    else:
        yield error


async def run(options: argparse.Namespace) -> int:
    """Run the command that the options name; return the exit status."""
    if options.command == "send":
        options.output.mkdir(parents=True, exist_ok=True)
        return 1 if await send(options.url, options.models, options.output) else 0
    name = f"{options.name}-{token_hex(4)}"
    executor = ProcessExecutor(options.processes) if options.processes else None
    await work(options.url, name, takeover=options.takeover, attempts=options.attempts, executor=executor)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    commands = parser.add_subparsers(dest="command", required=True)
    worker = commands.add_parser("work", help="optimize models until it is stopped")
    worker.add_argument("--name", default="worker")
    worker.add_argument("--takeover", type=float, default=30.0, help="seconds after which a model is taken over")
    worker.add_argument("--attempts", type=int, default=3)
    worker.add_argument("--processes", type=int, default=0, help="worker processes; 0 for the event loop")
    sender = commands.add_parser("send", help="send models, and write the results")
    sender.add_argument("models", nargs="+", type=Path)
    sender.add_argument("-o", "--output", type=Path, required=True)
    for command in (worker, sender):
        command.add_argument("--url", type=redis_url, default="redis://127.0.0.1:6379/0")
    options = parser.parse_args(arguments)
    problem = check_models(options.models) if options.command == "send" else None
    if problem is not None:
        parser.error(problem)
    status = 1
    try:
        status = anyio.run(run, options, backend=options.backend)
    except* (OSError, RedisError) as failures:
        # Several tasks may have lost the same connection.
        for message in dict.fromkeys(map(str, errors_in(failures))):
            print(f"redis_worker.py: {message}", file=sys.stderr)
    except* KeyboardInterrupt:
        status = 130
    return status


if __name__ == "__main__":
    sys.exit(main())
