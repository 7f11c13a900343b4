"""An installed chromium for the tests of the page."""

import os
import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

TIMEOUT = 60_000
"""Timeout in milliseconds."""


def path_of_chromium() -> str:
    """Return the path of chromium, or skip the test if it is not installed."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed (Debian: apt-get install chromium)")
    return path


@contextmanager
def chromium() -> Generator[Browser]:
    """Run the browser."""
    path = path_of_chromium()
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        expect.set_options(timeout=TIMEOUT)
        browser = playwright.chromium.launch(executable_path=path, args=arguments, timeout=TIMEOUT)
        yield browser
        browser.close()


@contextmanager
def checked_page(
    browser: Browser, url: str, origins: tuple[str, ...], *, width: int, dark: bool, known: str = "\0", **options: Any
) -> Generator[Page]:
    """Open a page that loads from some origins only, and logs what is known only."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", **options
    )
    context.set_default_timeout(TIMEOUT)
    page = context.new_page()
    loaded: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: errors.append(f"a dialog: {dialog.message}"))
    page.on("console", lambda message: errors.append(message.text))
    page.goto(url)
    page.wait_for_selector("#app[data-ready]")
    yield page
    context.close()
    assert [address for address in loaded if not address.startswith(origins)] == []
    assert [error for error in errors if not error.startswith(known)] == []


@contextmanager
def opened(browser: Browser, path: Path, *, width: int = 1440, dark: bool = False) -> Generator[Page]:
    """Open a page that loads nothing else."""
    origins = ("file:", "data:")
    with checked_page(browser, path.as_uri(), origins, width=width, dark=dark, offline=True) as page:
        # The page sets its address last, after the first rendering and scrolling.
        expect(page).to_have_url(re.compile("#view="))
        yield page
