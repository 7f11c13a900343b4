"""Tokens: scopes, tenants, files of tokens."""

import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from apass.errors import InputError
from apass.service import Identity, Optimizer, Token, Tokens, TokenScope, new_token
from apass.service.http.openapi import describe_api
from tests.helpers.http_servers import served
from tests.helpers.rows import row
from tests.service.http.models import IDENTITY, RELU, Params

pytestmark = pytest.mark.anyio

ALICE, ALICE_TOKEN = new_token("alice")
BOB, BOB_TOKEN = new_token("bob")
READER, READER_TOKEN = new_token("alice", ["read"])
WRITER, WRITER_TOKEN = new_token("alice", ["submit"])
MONITOR, MONITOR_TOKEN = new_token("prometheus", ["metrics"])
ADMIN, ADMIN_TOKEN = new_token("root", ["admin"])

TOKENS = Tokens([ALICE_TOKEN, BOB_TOKEN, READER_TOKEN, WRITER_TOKEN, MONITOR_TOKEN, ADMIN_TOKEN])


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


@asynccontextmanager
async def jobs_of_two_tenants() -> AsyncGenerator[tuple[httpx.AsyncClient, str, str]]:
    """Serve a job of alice and one of bob; yield a client and the paths of the jobs."""
    async with served(Optimizer({"default": "onnx.IdentityElimination"}), auth=TOKENS) as client:
        paths: list[str] = []
        for secret, model in ((ALICE, IDENTITY), (BOB, RELU)):
            params: Params = {"suffix": "onnx", "wait": 30}
            answer = await client.post("/v1/jobs", params=params, content=model, headers=bearer(secret))
            paths.append(answer.headers["location"])
        yield client, paths[0], paths[1]


@pytest.mark.network
async def test_request_without_valid_token_is_refused() -> None:
    invalid = 'Bearer realm="apass", error="invalid_token"'
    rows: dict[str, tuple[dict[str, Any], str]] = {
        "none": ({}, 'Bearer realm="apass"'),
        "empty": ({"authorization": "Bearer"}, invalid),
        "wrong": ({"authorization": "Bearer apass_wrong"}, invalid),
        "longer": ({"authorization": f"Bearer {ALICE}x"}, invalid),
        "basic": ({"authorization": f"Basic {ALICE}"}, invalid),
        "digest": ({"authorization": f"Bearer {ALICE_TOKEN.digest}"}, invalid),
        "bytes": ({"authorization": b"Bearer \xff\xfe"}, invalid),
    }
    async with served(Optimizer(), auth=TOKENS) as client:
        for name, (headers, challenge) in rows.items():
            with row(name):
                for path in ("/v1/jobs", "/v1/status", "/metrics", f"/v1/jobs/{'0' * 32}/events"):
                    answer = await client.get(path, headers=headers)
                    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, challenge)
        for path in ("/healthz", "/readyz", "/v1/openapi.json"):
            assert (await client.get(path)).status_code == 200
        # The case of the scheme does not matter.
        assert (await client.get("/v1/jobs", headers={"authorization": f"bearer  {ALICE}"})).status_code == 200


@pytest.mark.network
async def test_answers_have_only_what_scope_permits() -> None:
    """All routes of the description, with tokens of one scope each."""
    routes = [
        (method.upper(), path)
        for path, methods in describe_api()["paths"].items()
        for method in methods
        if not path.startswith("/assets") and path != "/"
    ]
    secrets = {"submit": WRITER, "read": READER, "metrics": MONITOR}
    permitted = {
        "submit": {("POST", "/v1/jobs"), ("POST", "/v1/jobs/{id}/retry"), ("DELETE", "/v1/jobs/{id}")},
        "read": {(method, path) for method, path in routes if method == "GET" and path.startswith("/v1")}
        | {("POST", "/v1/plan")},
        "metrics": {("GET", "/metrics")},
    }
    for_all = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/v1/openapi.json"), ("GET", "/v1/status")}
    async with jobs_of_two_tenants() as (client, alice, _):
        job = (await client.get(alice, headers=bearer(ALICE))).json()
        result = await client.get(f"{alice}/result", headers=bearer(ALICE))
        computed = [job["result"]["digest"], result.content.decode("latin-1")]
        refused = await client.get("/v1/jobs", headers=bearer(MONITOR))
        assert "has the scopes metrics" in refused.json()["detail"]
        status = (await client.get("/v1/status", headers=bearer(WRITER))).json()
        assert (status["scopes"], status["jobs"]) == (["submit"], {})
        for scope, secret in secrets.items():
            for method, path in sorted(routes, reverse=True):  # the deletion comes last
                for accept in ("*/*", "application/octet-stream"):
                    with row(f"{scope} {method} {path} {accept}"):
                        params = {"suffix": "onnx"} if path == "/v1/jobs" else {}
                        async with client.stream(
                            method,
                            path.replace("/v1/jobs/{id}", alice),
                            headers={**bearer(secret), "accept": accept},
                            params={**params, "wait": 30} if method == "POST" and "jobs" in path else {},
                            content=IDENTITY if path == "/v1/jobs" else None,
                        ) as answer:
                            # A stream of events has no end.
                            is_endless = answer.is_success and path == "/v1/events"
                            text = "" if is_endless else (await answer.aread()).decode("latin-1")
                        is_permitted = (method, path) in permitted[scope] | for_all
                        if scope == "submit" and method == "POST" and accept != "*/*":
                            is_permitted = False
                        assert (answer.status_code != 403) == is_permitted, text
                        if scope != "read":
                            assert [value for value in computed if value in text] == []


@pytest.mark.network
async def test_job_of_another_tenant_does_not_exist() -> None:
    async with jobs_of_two_tenants() as (client, alice, bob):
        for part in ("", "/result", "/model", "/report", "/events"):
            foreign = await client.get(f"{bob}{part}", headers=bearer(ALICE))
            unknown = await client.get(f"/v1/jobs/{'0' * 32}{part}", headers=bearer(ALICE))
            assert (foreign.status_code, unknown.status_code) == (404, 404)
            ids = bob.rpartition("/")[2], "0" * 32
            assert foreign.text.replace(ids[0], "") == unknown.text.replace(ids[1], "")
        assert (await client.delete(bob, headers=bearer(ALICE))).status_code == 404
        assert (await client.delete(f"{bob}?remove=1", headers=bearer(ALICE))).status_code == 404
        assert (await client.post(f"{bob}/retry", headers=bearer(ALICE))).status_code == 404
        assert (await client.get(bob, headers=bearer(BOB))).status_code == 200
        assert (await client.get(alice, headers=bearer(ALICE))).status_code == 200


@pytest.mark.network
async def test_tenants_have_their_own_jobs() -> None:
    async with jobs_of_two_tenants() as (client, alice, _):

        async def tenants(secret: str, **params: str) -> list[str]:
            answer = await client.get("/v1/jobs", headers=bearer(secret), params=params)
            return [job["tenant"] for job in answer.json()["jobs"]]

        assert await tenants(ALICE) == await tenants(READER) == await tenants(ALICE, tenant="alice") == ["alice"]
        assert await tenants(ADMIN) == ["bob", "alice"]
        assert await tenants(ADMIN, tenant="alice") == ["alice"]
        refused = await client.get("/v1/jobs", headers=bearer(ALICE), params={"tenant": "bob"})
        assert (refused.status_code, "scope admin" in refused.json()["detail"]) == (403, True)
        counts = (await client.get("/v1/status", headers=bearer(ALICE))).json()
        assert (counts["jobs"], counts["server"], counts["scopes"]) == ({"done": 1}, None, ["read", "submit"])
        all_counts = (await client.get("/v1/status", headers=bearer(ADMIN))).json()
        assert (all_counts["jobs"], all_counts["server"]["queued"]) == ({"done": 2}, 0)
        # An idempotency key belongs to a tenant, and an administrator retries for the tenant.
        ids: set[str] = set()
        for secret, tenant in ((ALICE, "alice"), (BOB, "bob")):
            headers = {**bearer(secret), "idempotency-key": "one"}
            job = (await client.post("/v1/jobs", params={"suffix": "onnx"}, content=RELU, headers=headers)).json()
            assert job["tenant"] == tenant
            ids.add(job["id"])
        assert len(ids) == 2
        again = (await client.post(f"{alice}/retry", headers=bearer(ADMIN))).json()
        assert (again["tenant"], again["reused"]) == ("alice", True)
        assert (await client.delete(f"{alice}?remove=true", headers=bearer(ADMIN))).status_code == 204


@pytest.mark.network
async def test_application_can_identify_users_itself() -> None:
    class Users:
        """The users of an application, which a proxy has identified."""

        async def identify(self, headers: Mapping[str, str]) -> Identity | None:
            user = headers.get("x-user")
            return None if user is None else Identity(user, frozenset({TokenScope.READ}))

    async with served(Optimizer(), auth=Users()) as client:
        assert (await client.get("/v1/status", headers={"x-user": "carol"})).json()["tenant"] == "carol"
        assert (await client.get("/v1/status")).status_code == 401
        # Such a header may come from any page, so that a token does not replace the check of the origin.
        headers = {"x-user": "carol", "origin": "https://evil.example"}
        assert (await client.post("/v1/plan", headers=headers, json={})).status_code == 403


def test_new_secrets_differ_and_are_not_kept() -> None:
    secret, token = new_token("alice", ["submit"])
    assert secret.startswith("apass_")
    assert secret != new_token("alice")[0]
    assert token.digest == sha256(secret.encode()).hexdigest()
    assert secret not in repr(token)
    assert Tokens([token]).find(secret) == Identity("alice", frozenset({TokenScope.SUBMIT}))
    with pytest.raises(ValueError, match="a secret must have at least 32 characters, got 8"):
        Token.of("password", "alice")


def test_tokens_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    lines = ["# tokens of the build server", *(json.dumps(token.as_json()) for token in (ALICE_TOKEN, ADMIN_TOKEN)), ""]
    path.write_text("\n".join(lines))
    tokens = Tokens.read(path)
    assert (len(tokens), tokens.find(ALICE)) == (2, TOKENS.find(ALICE))
    assert tokens.find(BOB) is None
    rows = [
        ("junk", "line 1: JSONDecodeError"),
        ("{}", "line 1: KeyError: 'sha256'; expected sha256, tenant and scopes"),
        ('{"sha256": "ab", "tenant": "a", "scopes": ["read"]}', "must be a SHA-256"),
        ('{"sha256": "' + "a" * 64 + '", "tenant": "", "scopes": ["read"]}', "must be a name"),
        ('{"sha256": "' + "a" * 64 + '", "tenant": "a\\n", "scopes": ["read"]}', "must be a name"),
        ('{"sha256": "' + "a" * 64 + '", "tenant": "a", "scopes": []}', "must be a list"),
        ('{"sha256": "' + "a" * 64 + '", "tenant": "a", "scopes": ["all"]}', "'all' is not a valid TokenScope"),
    ]
    for text, message in rows:
        path.write_text(text)
        with row(text), pytest.raises(InputError, match=re.escape(message)):
            Tokens.read(path)
    with pytest.raises(InputError, match="cannot read the tokens"):
        Tokens.read(tmp_path / "missing")
