"""Headless Chromium, driven by ChromeDriver's HTTP protocol.

Source: https://www.w3.org/TR/webdriver2/
"""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from ..system.node.node_cluster import free_ports, wait_until

NEEDS: Final = "apt-get install chromium chromium-driver"
_ARGUMENTS: Final = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
_TIMEOUT_S: Final = 30.0


class BrowserMissingError(Exception):
    """Chromium or its driver is not installed; the message says what installs them."""


def _found(*names: str) -> str:
    for name in names:
        path = shutil.which(name)
        if path is not None:
            return path
    raise BrowserMissingError(f"no {names[0]} on this machine: {NEEDS}")


class Browser:
    """One window of one browser.

    Args:
        folder: For its profile and its driver's log.

    Raises:
        BrowserMissingError: There is none.
    """

    def __init__(self, folder: Path) -> None:
        chromium, driver = _found("chromium", "chromium-browser"), _found("chromedriver")
        self._port = free_ports(1)[0]
        with (folder / "driver.log").open("wb") as log:
            self._driver = subprocess.Popen(
                [driver, f"--port={self._port}"], stdout=log, stderr=subprocess.STDOUT
            )
        self._session = ""
        try:
            wait_until("ChromeDriver is ready", self._is_ready, _TIMEOUT_S)
            options = {
                "binary": chromium,
                "args": [*_ARGUMENTS, f"--user-data-dir={folder / 'profile'}"],
            }
            wanted = {
                "browserName": "chrome",
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }
            made = self._ask("POST", "", {"capabilities": {"alwaysMatch": wanted}})
            self._session = f"/{made['sessionId']}"
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the browser and its driver."""
        try:
            if self._session:
                self._ask("DELETE", self._session)
        finally:
            self._driver.kill()
            self._driver.wait()

    def open(self, url: str) -> None:
        """Load a page, and wait until it is loaded."""
        self._ask("POST", f"{self._session}/url", {"url": url})

    def run(self, script: str) -> Any:
        """What a script returns. The page's policy does not bind it."""
        body = {"script": script, "args": []}
        return self._ask("POST", f"{self._session}/execute/sync", body)

    def log(self, kind: str) -> list[dict[str, Any]]:
        """New entries of the console (`browser`) or of what was loaded (`performance`)."""
        entries: list[dict[str, Any]] = self._ask("POST", f"{self._session}/se/log", {"type": kind})
        return entries

    def requested(self) -> list[str]:
        """The addresses that were asked for since the last call."""
        found = []
        for entry in self.log("performance"):
            event = json.loads(entry["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                found.append(event["params"]["request"]["url"])
        return found

    def resize(self, width: int, height: int) -> None:
        """Change the window, in pixels."""
        self._ask("POST", f"{self._session}/window/rect", {"width": width, "height": height})

    def screenshot(self, path: Path) -> None:
        """Write what is seen as PNG."""
        path.write_bytes(base64.b64decode(self._ask("GET", f"{self._session}/screenshot")))

    def _is_ready(self) -> bool:
        assert self._driver.poll() is None, "ChromeDriver has ended; see driver.log"
        try:
            status, _ = self._exchange("GET", "/status", None)
        except OSError:
            return False
        return status == 200

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        status, answer = self._exchange(method, f"/session{path}", body)
        assert status == 200, f"{method} {path}: {answer}"
        return answer["value"]

    def _exchange(self, method: str, path: str, body: object) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_TIMEOUT_S)
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()
