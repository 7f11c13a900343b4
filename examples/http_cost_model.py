"""Ask an HTTP cost model for each function which tile of its matrix product is the fastest.

    python examples/http_cost_model.py                             # a hundred functions
    python examples/http_cost_model.py --functions 2000 --faults 0.2 --backend trio

The cost model is a real server, in a thread of this process: it estimates how long a tiled product takes on a machine
with a small cache. `--faults` is the part of its answers that are errors instead; they are asked again, and a function
about which it still says nothing gets its tile by a rule of thumb. Exit status 1 if a tile is not the best one that is
known.
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
"""The sizes to choose from."""
CACHE: Final = 64 * 1024
"""Bytes that the machine can hold near its units."""
SIZES: Final = (17, 64, 96, 250, 384, 512, 1000, 1024)
RULE_OF_THUMB: Final = 32


@dataclass(frozen=True, slots=True)
class Matmul:
    """A function: the product of an m x k and a k x n matrix, computed tile by tile."""

    m: int
    n: int
    k: int
    tile: int = 1


def estimate(m: int, n: int, k: int, tile: int) -> float:
    """Return the microseconds that a product takes: its sums, and the bytes that must be fetched for each tile."""
    tiles = math.ceil(m / tile) * math.ceil(n / tile) * math.ceil(k / tile)
    sums = tiles * tile**3
    held = 3 * tile * tile * 4
    fetched = tiles * held * (1 if held <= CACHE else 8)
    return sums / 1e5 + fetched / 2e4


class CostModel(BaseHTTPRequestHandler):
    """Answers `{"m", "n", "k", "tiles"}` with `{"microseconds": [...]}`, one number for each tile."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    faults = 0.0
    random = Random(0)
    lock = Lock()

    def do_POST(self) -> None:
        """Answer one question."""
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.lock:
            is_well = self.random.random() >= self.faults
        tiles = question.pop("tiles")
        body = json.dumps({"microseconds": [estimate(**question, tile=tile) for tile in tiles]}).encode()
        self.send_response(200 if is_well else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name is the base class's
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """A server to which all may come at once: by default the system resets connections when there are five in line."""

    request_queue_size = 128


@contextmanager
def cost_model(faults: float) -> Generator[str]:
    """Serve a cost model on a port of its own, and give its address."""
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
    """Return what the server is asked about a function."""
    return {"m": func.m, "n": func.n, "k": func.k, "tiles": TILES}


def decode(reply: Any) -> dict[int, float]:
    """Return the microseconds by tile; an error if the reply does not say."""
    return dict(zip(TILES, map(float, reply["microseconds"]), strict=True))


def choose_tile(service: HttpService[Matmul, dict[int, float]]) -> apass.Pass[Any]:
    """Return the pass that gives each function the tile that the service says is the fastest."""

    def rule_of_thumb(func: Matmul, mod: object, ctx: apass.PassContext, error: Exception) -> Matmul:
        return replace(func, tile=RULE_OF_THUMB)

    @apass.function_pass(opt_level=1, on_error=rule_of_thumb)
    async def ChooseTile(func: Matmul, mod: Mapping[str, Matmul], ctx: apass.PassContext) -> Matmul:
        cost = await service.ask(func)
        return replace(func, tile=min(TILES, key=cost.__getitem__))

    return ChooseTile


def random_module(functions: int) -> dict[str, Matmul]:
    """Return a module of so many functions."""
    random = Random(1)
    return {f"matmul{index}": Matmul(*random.choices(SIZES, k=3)) for index in range(functions)}


async def optimize(mod: dict[str, Matmul], url: str) -> int:
    """Choose the tiles, say what came of it, and return how many are not what they should be."""
    policy = Policy(
        timeout=60.0,
        attempts=4,
        backoff=Backoff(initial=0.005, jitter=0.01),
        concurrency=16,
        breaker=Breaker(failures=20, rest=1.0),
    )
    async with HttpService(url, policy, encode=encode, decode=decode) as service:
        async with apass.PassContext(deadline=300.0) as ctx:
            made = await choose_tile(service)(mod)
        counts = service.counts
    fallen_back = {one.function for one in ctx.diag_ctx.diagnostics}
    wrong = [name for name, func in made.items() if name not in fallen_back and func.tile != best_tile(func)]
    before, after = (sum(estimate(**asdict(func)) for func in one.values()) for one in (mod, made))
    again = counts.attempts - counts.asked
    print(f"{counts.asked} questions, {again} asked again, {len(fallen_back)} without an answer")
    print(f"{len(mod)} functions, {before / 1e6:.3g} s before, {after / 1e6:.3g} s after")
    return len(wrong)


def best_tile(func: Matmul) -> int:
    """Return the tile that the server should name."""
    return min(TILES, key=lambda tile: estimate(func.m, func.n, func.k, tile))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", type=positive, default=100)
    parser.add_argument("--faults", type=part, default=0.0, help="the part of the answers that are errors")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    options = parser.parse_args(arguments)
    with cost_model(options.faults) as url:
        return 1 if anyio.run(optimize, random_module(options.functions), url, backend=options.backend) else 0


def positive(text: str) -> int:
    """Return the number that an option gives; ValueError, which argparse reports, if there is nothing to do then."""
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def part(text: str) -> float:
    """Return the part of a whole that an option gives; ValueError if it is none."""
    if not 0 <= float(text) <= 1:
        raise ValueError(text)
    return float(text)


if __name__ == "__main__":
    sys.exit(main())
