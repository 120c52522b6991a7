"""A headless Chromium driven by the DevTools protocol over two pipes: nothing to install but Chromium itself."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = "Chromium is not available: make system-deps, or apt-get install chromium"
SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)


def found() -> str | None:
    """The browser's path."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@dataclass
class Tab:
    """One page, and everything that it said and asked for."""

    process: subprocess.Popen
    to: int
    back: int
    session: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    numbers: count = field(default_factory=lambda: count(1))
    rest: bytes = b""

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its answer; events that come before it are kept."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            more = os.read(self.back, 1 << 20)
            assert more, "Chromium went away"
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def wait_for(self, method: str) -> None:
        """Reads until an event of this kind came."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._next())

    def open(self, path: Path, *, dark: bool = False, width: int = 1280, media: str = "screen") -> None:
        """Loads a file anew, in one scheme and width."""
        self.events.clear()
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media=media, features=scheme)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait_for("Page.loadEventFired")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        """The whole page as PNG."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self, path: Path) -> None:
        """The page as it prints."""
        answer = self.call("Page.printToPDF", printBackground=False)
        path.write_bytes(base64.b64decode(answer["data"]))

    def requests(self) -> list[str]:
        """What the page asked for, besides itself and pictures that stand in it."""
        asked = [
            e["params"]["request"]["url"]
            for e in self.events
            if e.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in asked[1:] if not url.startswith("data:")]

    def complaints(self) -> list[str]:
        """Errors, warnings and whatever else was written to the console."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in kinds]


@contextmanager
def tab() -> Iterator[Tab]:
    """A browser with one empty page."""
    path = found()
    assert path is not None, MISSING
    into_browser, to = os.pipe()
    back, out_of_browser = os.pipe()
    with tempfile.TemporaryDirectory(prefix="sordino-chromium-", ignore_cleanup_errors=True) as profile:
        command = [path, *SWITCHES, f"--user-data-dir={profile}", "about:blank"]
        shell = ["bash", "-c", f'exec "$@" 3<&{into_browser} 4>&{out_of_browser}', "bash", *command]
        process = subprocess.Popen(
            shell,
            pass_fds=(into_browser, out_of_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": profile},
        )
        os.close(into_browser)
        os.close(out_of_browser)
        held = Tab(process, to, back)
        try:
            pages = held.call("Target.getTargets")["targetInfos"]
            page = next(target["targetId"] for target in pages if target["type"] == "page")
            held.session = held.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
            for domain in ("Page", "Network", "Runtime", "Log"):
                held.call(f"{domain}.enable")
            yield held
            held.session = ""
            held.call("Browser.close")
        finally:
            os.close(to)
            os.close(back)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
