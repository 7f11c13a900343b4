"""Optimize models that arrive on a queue, as a service does: results go out as they are finished, and nothing piles up.

    python examples/queue_of_models.py                          # thirty models from three clients
    python examples/queue_of_models.py --models 100 --limit 8 --backend trio
    python examples/queue_of_models.py --journal queue.journal  # kill it, and start it again

Clients send networks of several kinds to an anyio memory object stream; `optimize_stream` takes one only when fewer
than `--limit` are inside. When clients are faster than the passes, their `send` waits: that is the back-pressure.
Each client gets its results as they are done, not in the order of sending. With a journal, models that were finished
before a crash are answered at once when their clients send them again. Exit status 1 if a model failed or too many
were inside.
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
    """A model on its way."""

    name: str
    """What its client calls it."""
    module: IRModule
    """The network."""
    answers: MemoryObjectSendStream[str]
    """Where the answer goes."""


@dataclass(slots=True)
class Service:
    """Optimizes what comes, and counts."""

    requests: MemoryObjectReceiveStream[Request]
    """The queue."""
    inside: dict[int, Request] = field(default_factory=dict[int, Request])
    """What was taken from the queue and not answered, by the number under which it came."""
    taken: int = 0
    """How many models have come."""
    most: int = 0
    """The most that were inside at once."""
    failed: int = 0
    """How many could not be optimized."""

    async def arrivals(self) -> AsyncIterator[IRModule]:
        """Give models as `optimize_stream` asks for them."""
        async for request in self.requests:
            self.inside[self.taken] = request
            self.taken += 1
            self.most = max(self.most, len(self.inside))
            yield request.module

    async def serve(self, limit: int, journal: str | None, *, task_status: TaskStatus[None]) -> None:
        """Answer until all clients have gone."""
        pipeline = apass.parse_pipeline("relay.Default")
        stream = apass.optimize_stream(self.arrivals(), pipeline, limit=limit, journal=journal)
        async with self.requests, apass.PassContext(opt_level=3), stream as outcomes:
            task_status.started()
            async for outcome in outcomes:
                request = self.inside.pop(int(outcome.name))
                self.failed += outcome.error is not None
                await request.answers.send(f"{request.name}: {describe(request, outcome)}")


async def client(name: str, count: int, queue: MemoryObjectSendStream[Request]) -> None:
    """Send so many models, and print each answer as it comes."""
    random = Random(name)
    answer, answers = anyio.create_memory_object_stream[str](count)
    async with answer, answers, anyio.create_task_group() as group:
        group.start_soon(print_answers, name, count, answers)
        async with queue:
            for number in range(count):
                network, batch = random.choice(list(NETWORKS)), random.randint(1, 100)
                # Waits here while the service has enough to do.
                await queue.send(Request(f"{network} {number}", make_model(network, batch), answer))


async def print_answers(name: str, count: int, answers: MemoryObjectReceiveStream[str]) -> None:
    """Print so many answers."""
    for _ in range(count):
        print(f"{name} gets {await answers.receive()}")


def make_model(network: str, batch: int) -> IRModule:
    """Return a network with its weights as constants."""
    mod, params = NETWORKS[network].get_workload(batch)
    return IRModule.from_expr(bind_params_by_name(mod["main"], params))


def describe(request: Request, outcome: apass.Outcome[IRModule]) -> str:
    """Return what became of a model, in a few words."""
    if outcome.module is None:
        return f"failed: {outcome.error}"
    before, after = (sum(isinstance(one, Call) for one in walk(mod)) for mod in (request.module, outcome.module))
    return f"{before} calls before, {after} after" + (", from the journal" if outcome.resumed else "")


def walk(mod: IRModule) -> list[object]:
    """Return every node of a module."""
    return [node for func in mod.functions.values() for node in post_order(func)]


async def work(models: int, limit: int, journal: str | None) -> int:
    """Run the clients and the service; return the exit status."""
    queue, requests = anyio.create_memory_object_stream[Request](0)
    service = Service(requests)
    async with anyio.create_task_group() as group, queue:
        # A journal that cannot be used ends it before anybody asks.
        await group.start(service.serve, limit, journal)
        for place, name in enumerate(CLIENTS):
            share = len(range(place, models, len(CLIENTS)))
            group.start_soon(client, name, share, queue.clone())
    print(f"{service.taken} models, at most {service.most} inside at once, {service.failed} failed")
    return 1 if service.failed or service.most > limit else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=positive, default=30)
    parser.add_argument("--limit", type=positive, default=4, help="models inside at once")
    parser.add_argument("--journal", help="a file that keeps what is finished")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    options = parser.parse_args(arguments)
    status = 1
    try:
        status = anyio.run(work, options.models, options.limit, options.journal, backend=options.backend)
    except* apass.JournalError as failures:
        print(*failures.exceptions, sep="\n", file=sys.stderr)
    return status


def positive(text: str) -> int:
    """Return the number that an option gives; ValueError, which argparse reports, if there is nothing to do then."""
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
