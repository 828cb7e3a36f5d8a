"""A headless Chromium for tests and measurements of the report page.

It is driven over a pipe, by the DevTools protocol; messages end with a zero byte.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
DEADLINE_S = 60.0


class Browser:
    """One page of a browser. What it requests and what it writes to the console is kept."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._to, self._from = to_browser, from_browser
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the answer to a command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + DEADLINE_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            read = os.read(self._from, 1 << 20)
            assert read, "the browser has ended"
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
            case "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded":
                self.errors.append(json.dumps(message["params"]))
        return message

    def run(self, script: str) -> Any:
        """Return the value of a script, which may be a promise."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def open(self, file: Path, width: int = 1200, *, dark: bool = False) -> None:
        """Show a report, and wait until its figures are drawn."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.run("delete document.documentElement?.dataset.drawn")  # the page before may be there for a moment yet
        self.call("Page.navigate", url=file.resolve().as_uri())
        until = time.monotonic() + DEADLINE_S
        while self.run("document.readyState + (document.documentElement?.dataset.drawn ?? '')") != "completeyes":
            assert time.monotonic() < until, self.errors
            time.sleep(0.02)

    def key(self, name: str) -> None:
        """Press and release a key."""
        text = {"text": name} if len(name) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name)

    def picture(self, file: Path) -> None:
        """Save the whole page as PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def paper(self, file: Path) -> None:
        """Save the page as it is printed, as PDF."""
        file.write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"]))


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Yield a browser whose profile is in the folder ``profile``."""
    assert CHROMIUM is not None
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()

    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    options += ["--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
    # The browser reads commands from 3 and writes answers to 4.
    connected = ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{from_write}', "browser", CHROMIUM, *options]
    null = subprocess.DEVNULL
    process = subprocess.Popen(connected, pass_fds=(to_read, from_write), stdin=null, stdout=null, stderr=null)
    os.close(to_read)
    os.close(from_write)
    try:
        yield Browser(to_write, from_read)
    finally:
        os.close(to_write)
        os.close(from_read)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
