"""HTTP services with a real server on loopback."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import httpx
import pytest

from apass import PassContext
from apass.errors import BudgetExceededError, HelperError, ServiceTimeoutError
from apass.external import Backoff, Policy, ServiceCounts
from apass.external.http import HttpService
from tests.external.faulty_server import Fault, FaultyServer, faulty_server

pytestmark = [pytest.mark.anyio, pytest.mark.network]

AT_ONCE = Backoff(initial=0, maximum=0, jitter=0)


def service_of(server: FaultyServer, policy: Policy | None = None) -> HttpService[int, int]:
    def encode(request: int) -> object:
        return {"question": request}

    def decode(reply: Any) -> int:
        return int(reply["answer"])

    return HttpService(server.url, policy, encode=encode, decode=decode)


def planned(*faults: Fault) -> Any:
    """Return a plan: these faults for the first attempts of each request, then none."""

    def plan(request: object, attempt: int) -> Fault:
        return faults[attempt] if attempt < len(faults) else "none"

    return plan


async def test_ask_returns_the_answer() -> None:
    async with faulty_server() as server, service_of(server) as service:
        assert await service.ask(21) == 42


async def test_json_is_sent_and_received_by_default() -> None:
    async with faulty_server() as server, HttpService[Any, Any](server.url, headers={"X-Key": "k"}) as service:
        assert await service.ask({"question": "ab"}) == {"answer": "abab"}


async def test_connections_are_reused() -> None:
    async with faulty_server() as server, service_of(server, Policy(concurrency=3)) as service:
        async with anyio.create_task_group() as group:
            for index in range(60):
                group.start_soon(service.ask, index)
        assert (server.requests.total(), server.connections <= 3, server.most_in_flight <= 3) == (60, True, True)


@pytest.mark.parametrize("fault", ["drop", "reset", "half", "garbage", "wrong", "busy", "500"])
async def test_transient_faults_are_retried(fault: Fault) -> None:
    async with faulty_server(planned(fault)) as server:
        async with service_of(server, Policy(attempts=2, backoff=AT_ONCE)) as service:
            assert await service.ask(5) == 10
        assert server.faults == {fault: 1, "none": 1}


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        ("drop", httpx.TransportError, ""),
        ("garbage", HelperError, r"returned an invalid answer, '.*no json\{' \(.*Decode"),
        ("wrong", HelperError, r"""returned an invalid answer, '\{"error": "no idea"\}' \(KeyError: 'answer'\)"""),
        ("500", httpx.HTTPStatusError, "500 Internal Server Error"),
        ("400", httpx.HTTPStatusError, "400 Bad Request"),
    ],
)
async def test_last_error_is_raised(fault: Fault, kind: type[Exception], message: str) -> None:
    async with faulty_server(planned(fault)) as server, service_of(server) as service:
        with pytest.raises(kind) as caught:
            await service.ask(5)
        caught.match(message or ".")


async def test_client_error_is_not_retried() -> None:
    async with faulty_server(planned("400")) as server:
        async with service_of(server, Policy(attempts=5, backoff=AT_ONCE)) as service:
            with pytest.raises(httpx.HTTPStatusError):
                await service.ask(5)
        assert server.requests == {5: 1}


async def test_hanging_request_is_cancelled_and_retried() -> None:
    async with faulty_server(planned("hang")) as server:
        # There are many attempts because a slow machine may miss the timeout of the second too.
        async with service_of(server, Policy(timeout=0.5, attempts=100, backoff=AT_ONCE)) as service:
            assert await service.ask(5) == 10
        assert server.faults["hang"] == 1
        async with service_of(server, Policy(timeout=0.02)) as service:
            with pytest.raises(ServiceTimeoutError, match=rf"^{server.url} did not answer within 0\.02 s$"):
                await service.ask(6)


async def test_hanging_request_is_hedged() -> None:
    async with faulty_server(planned("hang")) as server, service_of(server, Policy(hedge_after=0.05)) as service:
        assert await service.ask(5) == 10
        assert service.counts == ServiceCounts(asked=1, answered=1, attempts=2, hedges=1)


async def test_deadline_ends_a_hanging_request() -> None:
    faults: list[Fault] = ["hang"]
    async with faulty_server(lambda request, attempt: faults[-1]) as server, service_of(server) as service:
        async with PassContext(deadline=0.5):
            with pytest.raises(BudgetExceededError):
                await service.ask(5)
        faults.append("none")
        assert await service.ask(5) == 10


def retry_after(value: str | None, status: int = 503) -> bool | float:
    """Return the retry delay for a response with this header."""
    headers = {} if value is None else {"Retry-After": value}
    request = httpx.Request("POST", "http://127.0.0.1/")
    response = httpx.Response(status, headers=headers, request=request)
    return HttpService[Any, Any]("http://127.0.0.1/").seconds_to_retry(
        httpx.HTTPStatusError("", request=request, response=response)
    )


@pytest.mark.parametrize(("value", "seconds"), [("7", 7.0), ("0", 0.0), (None, True), ("soon", True)])
def test_retry_after_sets_the_delay(value: str | None, seconds: bool | float) -> None:
    assert retry_after(value) is seconds if isinstance(seconds, bool) else retry_after(value) == seconds
    assert retry_after(value, status=404) is False


def test_retry_after_may_be_a_date() -> None:
    start = datetime.now(UTC)
    seconds = retry_after(format_datetime(start + timedelta(seconds=60), usegmt=True))
    # HTTP dates have a resolution of one second.
    assert 59 - (datetime.now(UTC) - start).total_seconds() < seconds <= 60
    assert retry_after("Sat, 01 Jan 2000 00:00:00 GMT") == 0


async def test_client_of_the_caller_stays_open() -> None:
    limits = httpx.Limits(keepalive_expiry=None)
    async with faulty_server() as server, httpx.AsyncClient(limits=limits) as client:
        for _ in range(2):
            async with HttpService[Any, Any](server.url, client=client) as service:
                assert await service.ask({"question": 1}) == {"answer": 2}
        assert (server.connections, client.is_closed) == (1, False)


async def test_service_must_be_open_and_opens_once() -> None:
    service = HttpService[Any, Any]("http://127.0.0.1:9/")
    with pytest.raises(RuntimeError, match="is not open; call ask within `async with service:`"):
        await service.ask(1)
    async with service:
        with pytest.raises(RuntimeError, match="is already open"):
            await service.__aenter__()


def failed_with(status: int, **headers: str) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://helper")
    return httpx.HTTPStatusError(
        "no", request=request, response=httpx.Response(status, headers=headers, request=request)
    )


def test_server_errors_are_transient_and_client_errors_permanent() -> None:
    service = HttpService[Any, Any]("http://helper")
    passing = [status for status in range(300, 700) if service.seconds_to_retry(failed_with(status)) is not False]
    assert passing == [408, 425, 429, *range(500, 600)]
    delays = [service.seconds_to_retry(failed_with(503, **{"Retry-After": text})) for text in ("7", "soon")]
    assert delays == [7.0, True]
    assert service.seconds_to_retry(failed_with(404, **{"Retry-After": "7"})) is False


async def test_headers_are_sent_and_invalid_answers_truncated() -> None:
    received: list[bytes] = []

    async def answer(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            # Read all of the request: closing a connection with unread data resets it.
            while not received or not received[-1].endswith(b"\r\n\r\n1"):
                received.append(b"".join([*received[-1:], await stream.receive()]))
            await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\nconnection: close\r\n\r\n" + b"x" * 5000)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, answer)
        async with HttpService[Any, Any](f"http://127.0.0.1:{port}", headers={"X-Key": "secret"}) as service:
            with pytest.raises(HelperError, match=r"returned an invalid answer, 'x{200}' \(JSONDecodeError"):
                await service.ask(1)
        group.cancel_scope.cancel()
    assert b"x-key: secret" in received[-1].lower()
