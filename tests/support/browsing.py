"""A real browser in front of the service's pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from jedi.agent.base import World
from jedi.api.pages import noted
from jedi.host.home import Home
from jedi.monitor.sessions import COOKIE
from jedi.server.serving import listen_tcp
from jedi.taskbuffer.users import access
from support.service_process import served

PATIENCE_S = 20
Found = TypeVar("Found")
_BROWSER, _DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(not (_BROWSER and _DRIVER), reason="needs Chromium")


@contextmanager
def pages(world: World, port: int = 0) -> Iterator[str]:
    """The service in a thread; yields the address of its pages on the loopback interface. `port`
    0: any."""
    listener = listen_tcp(f"127.0.0.1:{port}", secure=False)
    host, port = listener.getsockname()
    address, home = f"http://{host}:{port}", Home(world.settings.home)
    with noted(home.page_address, address), served(world, None, listener):
        yield address


def session(world: World, user: str, scope: str = "all") -> dict[str, str]:
    """The cookie of a user's session."""
    with world.engine.begin() as tx:
        return {COOKIE: access.put_user_token(tx, user, "browser", scope, 600.0)}


def at(address: str, cookie: dict[str, str]) -> dict[str, str]:
    """The cookie of a session at the address of pages."""
    port = address.rpartition(":")[2]
    return {f"{name}_{port}": value for name, value in cookie.items()}


@dataclass(frozen=True)
class Browser:
    """A browser at an address."""

    driver: webdriver.Chrome
    address: str

    def log_in(self, cookie: dict[str, str]) -> None:
        """Begin a session."""
        self.driver.get(f"{self.address}/login")
        for name, value in at(self.address, cookie).items():
            self.driver.add_cookie({"name": name, "value": value, "path": "/"})

    def go(self, path: str) -> None:
        """Open a page."""
        self.driver.get(self.address + path)

    def find(self, selector: str) -> WebElement:
        """The first element of a selector, as soon as there is one."""
        return self.wait(
            lambda: next(iter(self.driver.find_elements("css selector", selector)), None)
        )

    def all(self, selector: str) -> list[WebElement]:
        """The elements of a selector."""
        return self.driver.find_elements("css selector", selector)

    def wait(self, found: Callable[[], Found | None]) -> Found:
        """Wait until a question has an answer, and return it."""
        waiting: WebDriverWait[Any] = WebDriverWait(self.driver, PATIENCE_S, 0.05)
        answer: Any = waiting.until(lambda _driver: found())
        return cast(Found, answer)

    def problems(self) -> list[str]:
        """The messages of the browser's console that are worse than a note."""
        driver: Any = self.driver
        return [one["message"] for one in driver.get_log("browser") if one["level"] != "INFO"]


@contextmanager
def browser(address: str, *, width: int = 1280, height: int = 900) -> Iterator[Browser]:
    """A headless Chromium of this machine, which asks nothing of other hosts."""
    options = webdriver.ChromeOptions()
    options.binary_location = _BROWSER or ""
    for word in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-sync",
        f"--window-size={width},{height}",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(_DRIVER))
    try:
        yield Browser(driver, address)
    finally:
        driver.quit()
