"""Optimize models that arrive on a queue, with back-pressure, as a service does.

    pip install "apass[relay]"
    python examples/queue_of_models.py                          # 30 models from three clients
    python examples/queue_of_models.py --models 100 --limit 8 --backend trio
    python examples/queue_of_models.py --journal queue.journal  # kill it, and start it again

Clients send networks of several kinds to an anyio memory object stream. `optimize_stream` takes one only while fewer
than `--limit` are in progress. If clients are faster than the passes, their `send` waits: that is the back-pressure.
Each client gets its results as they finish, not in the order of sending. With a journal, models that finished before a
crash are answered at once when their clients send them again. The exit status is 1 if a model failed, or if more than
`--limit` were in progress.
"""

import argparse
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

import anyio
from anyio.abc import TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

import apass
from apass.relay import Call, IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.rewrite.bind import bind_params_by_name
from apass.relay.testing import dqn, lenet, mlp, mobilenet

CLIENTS: Final = ("ada", "bob", "cy")
NETWORKS: Final = {"mlp": mlp, "lenet": lenet, "dqn": dqn, "mobilenet": mobilenet}


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A model to optimize."""

    name: str
    """Name given by the client."""
    module: IRModule
    """The network."""
    answers: MemoryObjectSendStream[str]
    """Stream for the answer."""


@dataclass(slots=True)
class Service:
    """Optimizes requests and counts them."""

    requests: MemoryObjectReceiveStream[Request]
    """The queue."""
    pending: dict[int, Request] = field(default_factory=dict[int, Request])
    """Requests taken from the queue and not yet answered, by their number."""
    taken: int = 0
    """Number of requests taken."""
    max_pending: int = 0
    """Largest number of pending requests."""
    failed: int = 0
    """Number of models that could not be optimized."""

    async def arrivals(self) -> AsyncIterator[IRModule]:
        """Yield models as `optimize_stream` takes them."""
        async for request in self.requests:
            self.pending[self.taken] = request
            self.taken += 1
            self.max_pending = max(self.max_pending, len(self.pending))
            yield request.module

    async def serve(self, limit: int, journal: str | None, *, task_status: TaskStatus[None]) -> None:
        """Answer requests until all clients have closed the queue."""
        pipeline = apass.parse_pipeline("relay.Default")
        stream = apass.optimize_stream(self.arrivals(), pipeline, limit=limit, journal=journal)
        async with self.requests, apass.PassContext(opt_level=3), stream as outcomes:
            task_status.started()
            async for outcome in outcomes:
                request = self.pending.pop(int(outcome.name))
                self.failed += outcome.error is not None
                await request.answers.send(f"{request.name}: {describe(request, outcome)}")


async def client(name: str, count: int, queue: MemoryObjectSendStream[Request]) -> None:
    """Send `count` models, and print each answer as it arrives."""
    random = Random(name)
    answer, answers = anyio.create_memory_object_stream[str](count)
    async with answer, answers, anyio.create_task_group() as group:
        group.start_soon(print_answers, name, count, answers)
        async with queue:
            for number in range(count):
                network, batch = random.choice(list(NETWORKS)), random.randint(1, 100)
                # Waits while the service is at its limit.
                await queue.send(Request(f"{network} {number}", make_model(network, batch), answer))


async def print_answers(name: str, count: int, answers: MemoryObjectReceiveStream[str]) -> None:
    """Print `count` answers."""
    for _ in range(count):
        print(f"{name} gets {await answers.receive()}")


def make_model(network: str, batch: int) -> IRModule:
    """Return a network with its weights as constants."""
    mod, params = NETWORKS[network].get_workload(batch)
    return IRModule.from_expr(bind_params_by_name(mod["main"], params))


def describe(request: Request, outcome: apass.batch.Outcome[IRModule]) -> str:
    """Return a short description of an outcome."""
    if outcome.module is None:
        return f"failed: {outcome.error}"
    before, after = (sum(isinstance(node, Call) for node in walk(mod)) for mod in (request.module, outcome.module))
    return f"{before} calls before, {after} after" + (", from the journal" if outcome.resumed else "")


def walk(mod: IRModule) -> list[object]:
    """Return every node of a module."""
    return [node for func in mod.functions.values() for node in post_order(func)]


async def work(models: int, limit: int, journal: str | None) -> int:
    """Run the clients and the service; return the exit status."""
    queue, requests = anyio.create_memory_object_stream[Request](0)
    service = Service(requests)
    async with anyio.create_task_group() as group, queue:
        # An unusable journal raises here, before any client sends a request.
        await group.start(service.serve, limit, journal)
        for index, name in enumerate(CLIENTS):
            share = len(range(index, models, len(CLIENTS)))
            group.start_soon(client, name, share, queue.clone())
    print(f"{service.taken} models, at most {service.max_pending} in progress at once, {service.failed} failed")
    return 1 if service.failed or service.max_pending > limit else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=positive, default=30)
    parser.add_argument("--limit", type=positive, default=4, help="models in progress at once")
    parser.add_argument("--journal", help="file that stores finished models")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    options = parser.parse_args(arguments)
    status = 1
    try:
        status = anyio.run(work, options.models, options.limit, options.journal, backend=options.backend)
    except* apass.errors.JournalError as failures:
        print(*failures.exceptions, sep="\n", file=sys.stderr)
    return status


def positive(text: str) -> int:
    """Return the int that `text` denotes.

    Raises:
        ValueError: if it is less than 1; argparse reports it.
    """
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
