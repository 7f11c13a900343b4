"""Faults of a Redis server: each costs at most a warning and a new computation."""

import gc
import signal
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from coredis import PureToken, Redis

import apass
from apass import PassContext
from apass.core import store as store_module
from apass.errors import StoreError, StoreWarning
from apass.stores.redis import RedisStore
from tests.helpers.redis_server import RedisServer, needs_redis, running_redis

pytestmark = [pytest.mark.anyio, pytest.mark.network, pytest.mark.process, needs_redis]

Module = dict[str, Any]
Client = Redis[bytes]


@apass.analysis(persistent=True)
async def Twice(func: int) -> int:
    """Return twice the number."""
    return 2 * func


@apass.function_pass(opt_level=0, cacheable=True)
async def AddTwice(func: int, mod: Module, ctx: PassContext) -> int:
    """Add twice the number to it."""
    twice: int = await ctx.get(Twice, func)
    return func + twice


@apass.module_pass(opt_level=0, cacheable=True)
def Append(mod: Module, ctx: PassContext) -> Module:
    """Append a function."""
    return {**mod, "last": 0}


async def use(store: RedisStore, modules: int = 3) -> None:
    """Run cacheable passes in a new context, and check the results."""
    for number in range(modules):
        async with PassContext(store=store):
            result = await apass.Sequential([AddTwice, Append])({"f": number})
            assert (await Append({"f": number})) == {"f": number, "last": 0}
            assert result == {"f": 3 * number, "last": 0}


@asynccontextmanager
async def changing(server: RedisServer) -> AsyncGenerator[tuple[Client, list[bytes]]]:
    """Connect another client, and list the keys."""
    async with Redis.from_url(server.url, decode_responses=False) as client:
        yield client, [key async for key in client.scan_iter()]


@asynccontextmanager
async def without_resource_warnings() -> AsyncGenerator[None]:
    """Ignore the streams of failed connections, which coredis does not close."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


async def push_list(client: Client, key: bytes) -> None:
    await client.delete([key])
    await client.lpush(key, [b"item"])


async def truncate(client: Client, key: bytes) -> None:
    value = await client.get(key)
    assert value is not None
    await client.set(key, value[:-1])


async def set_garbage(client: Client, key: bytes) -> None:
    await client.set(key, b"\xff" * 40)


async def set_empty(client: Client, key: bytes) -> None:
    await client.set(key, b"")


async def set_other(client: Client, key: bytes) -> None:
    other = [name async for name in client.scan_iter() if name != key and name.startswith(key[:12])]
    await client.copy(other[0], key, replace=True)


@pytest.mark.parametrize("change", [push_list, truncate, set_garbage, set_empty, set_other])
async def test_changed_value_is_computed_again(change: Callable[[Client, bytes], Awaitable[None]]) -> None:
    with running_redis() as server:
        async with RedisStore(server.url, timeout=60) as store:
            await use(store)
            async with changing(server) as (client, keys):
                for key in keys:
                    await change(client, key)
            with pytest.warns(StoreWarning, match="is damaged; it is computed again"):
                await use(store)
            await use(store)  # without a warning: the values were overwritten


async def kill(server: RedisServer, client: Client) -> None:
    server.kill()


async def fill(server: RedisServer, client: Client) -> None:
    await client.config_set({"maxmemory": "1"})
    await client.flushall()


async def make_replica(server: RedisServer, client: Client) -> None:
    await client.flushall()
    await client.replicaof("127.0.0.1", 1)


async def require_password(server: RedisServer, client: Client) -> None:
    await client.config_set({"requirepass": "secret"})
    await client.client_kill(type_=PureToken.NORMAL, skipme=True)


@pytest.mark.parametrize("fail", [kill, fill, make_replica, require_password])
async def test_failing_server_costs_one_warning(fail: Callable[[RedisServer, Client], Awaitable[None]]) -> None:
    with running_redis() as server:
        async with without_resource_warnings(), RedisStore(server.url, timeout=60) as store:
            await use(store)
            async with changing(server) as (client, _):
                await fail(server, client)
            with pytest.warns(StoreWarning, match="failed: .*; continuing without the store") as caught:
                await use(store, modules=1)
            assert len({str(warning.message) for warning in caught if warning.category is StoreWarning}) == 1


@pytest.mark.slow
async def test_restarted_server_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "PAUSE_SECONDS", 0.0)
    with running_redis() as server:
        async with without_resource_warnings(), RedisStore(server.url, timeout=60) as store:
            await use(store)
            server.kill()
            with pytest.warns(StoreWarning, match="continuing without the store"):
                await use(store)
            assert server.start()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", StoreWarning)  # about connections that the kill has broken
                await use(store)
            assert (await store.info()).entries > 0


@pytest.mark.slow
async def test_server_killed_in_use_fails_no_pass() -> None:
    with running_redis() as server:
        async with without_resource_warnings(), RedisStore(server.url, timeout=60) as store:
            with pytest.warns(StoreWarning, match="continuing without the store"):
                await _use_while_killed(server, store)


async def _use_while_killed(server: RedisServer, store: RedisStore) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(use, store, 20)
        while not (await store.info()).entries:
            await anyio.lowlevel.checkpoint()
        server.kill()


async def test_silent_server_is_given_up() -> None:
    with running_redis() as server:
        async with without_resource_warnings(), RedisStore(server.url, timeout=60) as store:
            await use(store)
            store._timeout = 0.2  # pyright: ignore[reportPrivateUsage]
            server.process.send_signal(signal.SIGSTOP)
            with pytest.warns(StoreWarning, match=r"no reply within 0\.2 s; continuing without the store"):
                await use(store, modules=1)


async def test_password_is_not_shown() -> None:
    with running_redis() as server:
        url = server.url.replace("redis://", "redis://user:secret@")
        async with without_resource_warnings():
            with pytest.raises(StoreError, match=r"'redis://user:\*\*\*@127\.0\.0\.1:\d+/0' failed: ") as caught:
                await RedisStore(url, timeout=60).__aenter__()
        assert "secret" not in str(caught.value)
