"""HTTP helpers against a real server on loopback."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import httpx
import pytest

from apass import BudgetExceededError, HelperError, PassContext, ServiceTimeoutError
from apass.external import Backoff, Counts, Policy
from apass.external.http import HttpService
from tests.external.faulty_server import Fault, FaultyServer, faulty_server

pytestmark = pytest.mark.anyio

AT_ONCE = Backoff(initial=0, maximum=0, jitter=0)


def service_of(server: FaultyServer, policy: Policy | None = None) -> HttpService[int, int]:
    def encode(question: int) -> object:
        return {"question": question}

    def decode(reply: Any) -> int:
        return int(reply["answer"])

    return HttpService(server.url, policy, encode=encode, decode=decode)


def planned(*faults: Fault) -> Any:
    """Return a plan: these faults for the first requests of each question, and none for later ones."""

    def plan(question: object, time: int) -> Fault:
        return faults[time] if time < len(faults) else "none"

    return plan


async def test_a_question_is_answered() -> None:
    async with faulty_server() as server, service_of(server) as service:
        assert await service.ask(21) == 42


async def test_without_functions_of_its_own_json_goes_and_json_comes() -> None:
    async with faulty_server() as server, HttpService[Any, Any](server.url, headers={"X-Key": "k"}) as service:
        assert await service.ask({"question": "ab"}) == {"answer": "abab"}


async def test_connections_are_kept() -> None:
    async with faulty_server() as server, service_of(server, Policy(concurrency=3)) as service:
        async with anyio.create_task_group() as group:
            for index in range(60):
                group.start_soon(service.ask, index)
        assert (server.requests.total(), server.connections <= 3, server.most_in_flight <= 3) == (60, True, True)


@pytest.mark.parametrize("fault", ["drop", "reset", "half", "garbage", "wrong", "busy", "500"])
async def test_what_passes_is_retried(fault: Fault) -> None:
    async with faulty_server(planned(fault)) as server:
        async with service_of(server, Policy(attempts=2, backoff=AT_ONCE)) as service:
            assert await service.ask(5) == 10
        assert server.faults == {fault: 1, "none": 1}


@pytest.mark.parametrize(
    ("fault", "kind", "says"),
    [
        ("drop", httpx.TransportError, ""),
        ("garbage", HelperError, r"answered what is no answer, '.*no json\{' \(.*Decode"),
        ("wrong", HelperError, r"""answered what is no answer, '\{"error": "no idea"\}' \(KeyError: 'answer'\)"""),
        ("500", httpx.HTTPStatusError, "500 Internal Server Error"),
        ("400", httpx.HTTPStatusError, "400 Bad Request"),
    ],
)
async def test_without_more_attempts_the_error_comes_out(fault: Fault, kind: type[Exception], says: str) -> None:
    async with faulty_server(planned(fault)) as server, service_of(server) as service:
        with pytest.raises(kind) as caught:
            await service.ask(5)
        caught.match(says or ".")


async def test_a_bad_question_is_asked_once() -> None:
    async with faulty_server(planned("400")) as server:
        async with service_of(server, Policy(attempts=5, backoff=AT_ONCE)) as service:
            with pytest.raises(httpx.HTTPStatusError):
                await service.ask(5)
        assert server.requests == {5: 1}


async def test_a_server_that_hangs_is_left_after_the_timeout_and_asked_again() -> None:
    async with faulty_server(planned("hang")) as server:
        # More attempts than two, as a machine that stalls may have no time for the second.
        async with service_of(server, Policy(timeout=0.5, attempts=100, backoff=AT_ONCE)) as service:
            assert await service.ask(5) == 10
        assert server.faults["hang"] == 1
        async with service_of(server, Policy(timeout=0.02)) as service:
            with pytest.raises(ServiceTimeoutError, match=rf"^{server.url} gave no answer within 0\.02 s$"):
                await service.ask(6)


async def test_a_server_that_hangs_is_hedged() -> None:
    async with faulty_server(planned("hang")) as server, service_of(server, Policy(hedge_after=0.05)) as service:
        assert await service.ask(5) == 10
        assert service.counts == Counts(asked=1, answered=1, attempts=2, hedges=1)


async def test_the_budget_ends_a_question_to_a_server_that_hangs() -> None:
    faults: list[Fault] = ["hang"]
    async with faulty_server(lambda question, time: faults[-1]) as server, service_of(server) as service:
        async with PassContext(deadline=0.5):
            with pytest.raises(BudgetExceededError):
                await service.ask(5)
        faults.append("none")
        assert await service.ask(5) == 10


def retry_after(value: str | None, status: int = 503) -> bool | float:
    """Return when a service asks again that gets a response with that header."""
    headers = {} if value is None else {"Retry-After": value}
    request = httpx.Request("POST", "http://127.0.0.1/")
    response = httpx.Response(status, headers=headers, request=request)
    return HttpService[Any, Any]("http://127.0.0.1/").seconds_to_retry(
        httpx.HTTPStatusError("", request=request, response=response)
    )


@pytest.mark.parametrize(("value", "seconds"), [("7", 7.0), ("0", 0.0), (None, True), ("soon", True)])
def test_the_server_says_when_to_come_back(value: str | None, seconds: bool | float) -> None:
    assert retry_after(value) is seconds if isinstance(seconds, bool) else retry_after(value) == seconds
    assert retry_after(value, status=404) is False


def test_the_server_may_say_it_by_a_date() -> None:
    begun = datetime.now(UTC)
    seconds = retry_after(format_datetime(begun + timedelta(seconds=60), usegmt=True))
    # A date has whole seconds.
    assert 59 - (datetime.now(UTC) - begun).total_seconds() < seconds <= 60
    assert retry_after("Sat, 01 Jan 2000 00:00:00 GMT") == 0


async def test_a_client_of_ones_own_is_used_and_left_open() -> None:
    kept = httpx.Limits(keepalive_expiry=None)
    async with faulty_server() as server, httpx.AsyncClient(limits=kept) as client:
        for _ in range(2):
            async with HttpService[Any, Any](server.url, client=client) as service:
                assert await service.ask({"question": 1}) == {"answer": 2}
        assert (server.connections, client.is_closed) == (1, False)


async def test_a_service_must_be_open_and_is_opened_once() -> None:
    service = HttpService[Any, Any]("http://127.0.0.1:9/")
    with pytest.raises(RuntimeError, match="is not open; ask it within `async with service:`"):
        await service.ask(1)
    async with service:
        with pytest.raises(RuntimeError, match="is open already"):
            await service.__aenter__()


def failed_with(status: int, **headers: str) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://helper")
    return httpx.HTTPStatusError(
        "no", request=request, response=httpx.Response(status, headers=headers, request=request)
    )


def test_the_statuses_of_a_server_in_trouble_pass_and_those_of_a_bad_question_do_not() -> None:
    service = HttpService[Any, Any]("http://helper")
    passing = [status for status in range(300, 700) if service.seconds_to_retry(failed_with(status)) is not False]
    assert passing == [408, 425, 429, *range(500, 600)]
    said = [service.seconds_to_retry(failed_with(503, **{"Retry-After": text})) for text in ("7", "soon")]
    assert said == [7.0, True]
    assert service.seconds_to_retry(failed_with(404, **{"Retry-After": "7"})) is False


async def test_headers_go_along_and_a_long_answer_that_is_none_is_told_in_short() -> None:
    asked: list[bytes] = []

    async def answer(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            # All of it: a connection that is closed before all was read is reset.
            while not asked or not asked[-1].endswith(b"\r\n\r\n1"):
                asked.append(b"".join([*asked[-1:], await stream.receive()]))
            await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\nconnection: close\r\n\r\n" + b"x" * 5000)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, answer)
        async with HttpService[Any, Any](f"http://127.0.0.1:{port}", headers={"X-Key": "secret"}) as service:
            with pytest.raises(HelperError, match=r"answered what is no answer, 'x{200}' \(JSONDecodeError"):
                await service.ask(1)
        group.cancel_scope.cancel()
    assert b"x-key: secret" in asked[-1].lower()
