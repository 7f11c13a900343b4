"""A real server in a thread, and pages of it in a browser."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Literal

import anyio
import anyio.to_thread
import onnx_ir as ir
from anyio.from_thread import start_blocking_portal
from playwright.sync_api import Browser, Page, expect
from starlette.applications import Starlette
from starlette.routing import Mount

import apass
from apass import PassContext
from apass.service import JobOptions, JobRecord, JobStore, Limits, MemoryJobStore, Optimizer, create_app
from apass.service.server import listen, serve
from tests.instruments.report.browsing import checked_page
from tests.service.http.models import IDENTITY, named

__all__ = [
    "HOSTILE",
    "Gates",
    "LiveServer",
    "choose_files",
    "live_page",
    "onnx_file",
    "open_form",
    "state_is",
    "submit",
]

HOSTILE = "<img src=x onerror=alert(1)>\u202egnp"
"""A name that a careless page runs as a script, and that would reverse the text after it."""


def onnx_file(name: str = "model.onnx", data: bytes = IDENTITY) -> dict[str, Any]:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": data}


class Gates:
    """Passes that wait until the test lets them continue."""

    def __init__(self) -> None:
        self.opened = Event()
        """Set it to let all passes continue."""

    async def wait(self) -> None:
        """Wait in a thread, which a cancellation leaves behind."""
        await anyio.to_thread.run_sync(self.opened.wait, abandon_on_cancel=True)

    def pipelines(self) -> dict[str, apass.Pass[Any]]:

        @apass.module_pass(opt_level=0, name="Wait")
        async def wait(mod: ir.Model, ctx: PassContext) -> ir.Model:
            await self.wait()
            return mod

        @apass.function_pass(opt_level=0, name="Tune")
        async def tune(func: Any, mod: ir.Model, ctx: PassContext) -> Any:
            with apass.waiting_for("the tuner on cuda:0"):
                await self.wait()
            return func

        @apass.module_pass(opt_level=0, name="Fail")
        def fail(mod: ir.Model, ctx: PassContext) -> ir.Model:
            ctx.diag_ctx.warning(f"the shape of {HOSTILE} is unknown")
            error = ValueError(f"cannot fold {HOSTILE}")
            error.add_note("the note of the error")
            raise error

        first = apass.get_pass("onnx.IdentityElimination")
        return {
            "simple": apass.Sequential([first]),
            "slow": apass.Sequential([first, wait]),
            "tune": apass.Sequential([first, tune]),
            "fail": apass.Sequential([first, fail]),
        }


@apass.register_pass("live.Scale")
def scale(
    factor: int = 2,
    exact: bool = False,
    mode: Literal["fast", "small"] = "fast",
    label: str = "plain",
    weights: Sequence[float] = (),
) -> apass.Pass[ir.Model]:
    """Scale nothing, with an option of each kind.

    The second paragraph is not shown.
    """

    @apass.module_pass(opt_level=0, name="live.Scale")
    def keep(mod: ir.Model, ctx: PassContext) -> ir.Model:
        assert (factor, exact, mode, label, list(weights)) == (3, True, "small", "two words", [0.5])
        return mod

    return keep


@dataclass
class LiveServer:
    """A server that can be stopped and started again on its port."""

    store: JobStore | Path = field(default_factory=MemoryJobStore)
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """The options of `create_app`."""
    gates: Gates = field(default_factory=Gates)
    mounted: str = ""
    """The path below which another application mounts it."""
    port: int = 0
    """The port; 0 before the first start."""
    _submitted: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.mounted}/"

    @contextmanager
    def running(self) -> Generator[None]:
        self.gates.opened.clear()
        with start_blocking_portal("asyncio") as portal, portal.wrap_async_context_manager(self._optimizer()) as own:
            self._portal, self._own = portal, own
            app: Any = create_app(own, **self.options)
            if self.mounted:
                app = Starlette(routes=[Mount(self.mounted, app)])
            stop = portal.call(anyio.Event)
            with listen("127.0.0.1", self.port) as sock:
                self.port = sock.getsockname()[1]
                served = portal.start_task_soon(partial(serve, app, sock, stop=stop))
                try:
                    yield
                finally:
                    # The streams of events end then, and with them the connections that the server waits for.
                    portal.call(own.drain)
                    portal.call(stop.set)
                    served.result()
                    self.gates.opened.set()

    def submit(self, name: str, pipeline: str = "simple") -> JobRecord:
        """Submit a job in the program.

        Unless its passes wait, return its record at the end.
        """
        self._submitted += 1
        # The result of an equal job would be reused.
        model = named(f"g{self._submitted}")

        async def run() -> JobRecord:
            options = JobOptions(texts=True)
            job = await self._own.submit(model, kind=".onnx", name=name, pipeline=pipeline, options=options)
            return job.record if pipeline in ("slow", "tune") else await job.wait()

        return self._portal.call(run)

    def _optimizer(self) -> Optimizer:
        return Optimizer(
            self.gates.pipelines(),
            allow=["onnx.*", "live.*", "Repeat"],
            store=self.store,
            limits=Limits(running=4, drain=0.01),
        )


@contextmanager
def live_page(
    browser: Browser,
    server: LiveServer,
    *,
    width: int = 1360,
    dark: bool = False,
    reduced: bool = True,
    refused: bool = False,
) -> Generator[Page]:
    """Open the page of a server, which may refuse requests if `refused` is true."""
    motion = "reduce" if reduced else "no-preference"
    options: dict[str, Any] = {"reduced_motion": motion, "accept_downloads": True}
    if refused:
        # The browser itself reports an answer with an error, and a server that does not answer.
        options["known"] = "Failed to load resource"
    origins = (server.url, "blob:", "data:")
    with checked_page(browser, server.url, origins, width=width, dark=dark, **options) as page:
        yield page


def open_form(page: Page) -> None:
    """Open the form for new jobs, and wait for the pipelines."""
    page.get_by_role("button", name="New job").click()
    expect(page.get_by_role("combobox", name="Name")).to_be_visible()


def choose_files(page: Page, *files: dict[str, Any]) -> None:
    page.locator("dialog input[type=file]").set_input_files(list(files))  # type: ignore[arg-type]


def submit(page: Page, name: str = "model.onnx", pipeline: str = "simple", *, functions: bool = False) -> None:
    """Submit a job with the form, and wait until it is open."""
    open_form(page)
    choose_files(page, onnx_file(name))
    page.get_by_role("combobox", name="Name").select_option(pipeline)
    if functions:
        page.get_by_role("checkbox", name="Show each function").check()
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.locator("dialog")).to_have_count(0)
    expect(page.locator("#job-name")).to_have_text(name)


def state_is(page: Page, state: str) -> None:
    expect(page.locator(".job-head .state")).to_have_text(state)
