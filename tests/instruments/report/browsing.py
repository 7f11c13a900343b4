"""A browser for the tests of the page: the chromium that is installed; nothing is fetched."""

import os
import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

PATIENCE = 60_000
"""Milliseconds after which what has not come is taken never to come."""


def path_of_chromium() -> str:
    """Return where chromium is; the test is skipped if it is not installed."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed (Debian: apt-get install chromium)")
    return found


@contextmanager
def chromium() -> Generator[Browser]:
    """Run the browser."""
    path = path_of_chromium()
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE)
        browser = playwright.chromium.launch(executable_path=path, args=arguments, timeout=PATIENCE)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, path: Path, *, width: int = 1440, dark: bool = False) -> Generator[Page]:
    """Open a page; it must load nothing else, and nothing in it may go wrong."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", offline=True
    )
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    loaded: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text))
    page.goto(path.as_uri())
    page.wait_for_selector("#app[data-ready]")
    # What the page does after it was drawn first, such as scrolling, ends with its address.
    expect(page).to_have_url(re.compile("#view="))
    yield page
    context.close()
    assert [url for url in loaded if not url.startswith(("file:", "data:"))] == []
    assert wrong == []
