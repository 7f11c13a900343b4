"""Ask an HTTP cost model for the fastest tile of each matrix product.

    pip install "apass[http]"
    python examples/http_cost_model.py                             # 100 functions
    python examples/http_cost_model.py --functions 2000 --faults 0.2 --backend trio

The cost model is an HTTP server in a thread of this process. It estimates the time of a tiled product on a machine with
a small cache. `--faults` is the fraction of its answers that are errors. Failed requests are retried, and a function
that gets no answer uses a default tile. The exit status is 1 if the tile of an answered function is not the best one.
"""

import argparse
import json
import math
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Lock, Thread
from typing import Any, Final

import anyio

import apass
from apass.external import Backoff, Breaker, Policy
from apass.external.http import HttpService

TILES: Final = (8, 16, 32, 64, 128)
"""Candidate tile sizes."""
CACHE: Final = 64 * 1024
"""Size of the cache of the machine, in bytes."""
SIZES: Final = (17, 64, 96, 250, 384, 512, 1000, 1024)
DEFAULT_TILE: Final = 32


@dataclass(frozen=True, slots=True)
class Matmul:
    """A function: the product of an m x k and a k x n matrix, computed tile by tile."""

    m: int
    n: int
    k: int
    tile: int = 1


def estimate(m: int, n: int, k: int, tile: int) -> float:
    """Return the estimated microseconds of a product.

    The cost is that of the multiplications and of the bytes that each tile fetches.
    """
    tiles = math.ceil(m / tile) * math.ceil(n / tile) * math.ceil(k / tile)
    multiplications = tiles * tile**3
    tile_bytes = 3 * tile * tile * 4
    fetched_bytes = tiles * tile_bytes * (1 if tile_bytes <= CACHE else 8)
    return multiplications / 1e5 + fetched_bytes / 2e4


class CostModel(BaseHTTPRequestHandler):
    """Handler that maps `{"m", "n", "k", "tiles"}` to `{"microseconds": [...]}`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    faults = 0.0
    random = Random(0)
    lock = Lock()

    def do_POST(self) -> None:
        """Answer one request."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.lock:
            succeeds = self.random.random() >= self.faults
        tiles = request.pop("tiles")
        body = json.dumps({"microseconds": [estimate(**request, tile=tile) for tile in tiles]}).encode()
        self.send_response(200 if succeeds else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class names it
        """Suppress the log of requests."""


class Server(ThreadingHTTPServer):
    """A server for many simultaneous connections."""

    # The default queue of 5 pending connections overflows, and the system then resets connections.
    request_queue_size = 128


@contextmanager
def cost_model(faults: float) -> Generator[str]:
    """Serve a cost model on a free port, and yield its URL."""
    handler = type("Handler", (CostModel,), {"faults": faults, "random": Random(0)})
    with Server(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def encode(func: Matmul) -> object:
    """Return the request about a function."""
    return {"m": func.m, "n": func.n, "k": func.k, "tiles": TILES}


def decode(reply: Any) -> dict[int, float]:
    """Return the microseconds for each tile.

    An incomplete reply raises an error, which the service retries.
    """
    return dict(zip(TILES, map(float, reply["microseconds"]), strict=True))


def choose_tile(service: HttpService[Matmul, dict[int, float]]) -> apass.Pass[Any]:
    """Return the pass that sets the tile of each function to the fastest one."""

    def use_default_tile(func: Matmul, mod: object, ctx: apass.PassContext, error: Exception) -> Matmul:
        return replace(func, tile=DEFAULT_TILE)

    @apass.function_pass(opt_level=1, on_error=use_default_tile)
    async def ChooseTile(func: Matmul, mod: Mapping[str, Matmul], ctx: apass.PassContext) -> Matmul:
        cost = await service.ask(func)
        return replace(func, tile=min(TILES, key=cost.__getitem__))

    return ChooseTile


def random_module(functions: int) -> dict[str, Matmul]:
    """Return a module of `functions` random matrix products."""
    random = Random(1)
    return {f"matmul{index}": Matmul(*random.choices(SIZES, k=3)) for index in range(functions)}


async def optimize(mod: dict[str, Matmul], url: str) -> int:
    """Choose the tiles, print a summary, and return the number of wrong tiles."""
    policy = Policy(
        timeout=60.0,
        attempts=4,
        backoff=Backoff(initial=0.005, jitter=0.01),
        concurrency=16,
        breaker=Breaker(failures=20, rest=1.0),
    )
    async with HttpService(url, policy, encode=encode, decode=decode) as service:
        async with apass.PassContext(deadline=300.0) as ctx:
            result = await choose_tile(service)(mod)
        counts = service.counts
    unanswered = {diagnostic.function for diagnostic in ctx.diag_ctx.diagnostics}
    wrong = [name for name, func in result.items() if name not in unanswered and func.tile != best_tile(func)]
    before, after = (sum(estimate(**asdict(func)) for func in module.values()) for module in (mod, result))
    retries = counts.attempts - counts.asked
    print(f"{counts.asked} requests, {retries} retried, {len(unanswered)} without an answer")
    print(f"{len(mod)} functions, {before / 1e6:.3g} s before, {after / 1e6:.3g} s after")
    return len(wrong)


def best_tile(func: Matmul) -> int:
    """Return the fastest tile by the estimate of the server."""
    return min(TILES, key=lambda tile: estimate(func.m, func.n, func.k, tile))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", type=positive, default=100)
    parser.add_argument("--faults", type=fraction, default=0.0, help="fraction of the answers that are errors")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    options = parser.parse_args(arguments)
    with cost_model(options.faults) as url:
        return 1 if anyio.run(optimize, random_module(options.functions), url, backend=options.backend) else 0


def positive(text: str) -> int:
    """Return the int that `text` denotes.

    Raises:
        ValueError: if it is less than 1; argparse reports it.
    """
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def fraction(text: str) -> float:
    """Return the fraction that `text` denotes.

    Raises:
        ValueError: if it is not between 0 and 1; argparse reports it.
    """
    if not 0 <= float(text) <= 1:
        raise ValueError(text)
    return float(text)


if __name__ == "__main__":
    sys.exit(main())
