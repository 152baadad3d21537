"""Drives Debian's Chromium without a window, over its remote-control pipe (the Chrome DevTools Protocol)."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

PATIENCE_S = 30
# Milliseconds between two looks at the page.
LOOK_MS = 20


class BrowserError(Exception):
    """The browser has ended, or does not answer."""


class Browser:
    """A browser with one page; a context manager that ends it."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._home = Path(tempfile.mkdtemp(prefix="proof-chromium-"))
        self._next, self._rest, self._session = 0, b"", None
        # The addresses that the page requested, and the errors that occurred in it.
        self.requests: list[str] = []
        self.errors: list[str] = []

    def __enter__(self) -> Self:
        their_read, self._write = os.pipe()
        self._read, their_write = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio",
                 "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={self._home}", "about:blank"]
        # The browser's ends must be its descriptors 3 and 4.
        line = ["sh", "-c", f'exec "$@" 3<&{their_read} 4>&{their_write}', "sh", self._program, *flags]
        environment = dict(os.environ, HOME=str(self._home))
        self._child = subprocess.Popen(line, pass_fds=(their_read, their_write), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        os.close(their_read)
        os.close(their_write)
        try:
            page = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            os.close(self._write)
        self._child.terminate()
        try:
            self._child.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        os.close(self._read)
        shutil.rmtree(self._home, ignore_errors=True)

    def call(self, method: str, **parameters: Any) -> Any:
        """Send the browser a request and return its answer."""
        self._next += 1
        message = {"id": self._next, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE_S
        while True:
            answer = self._message(end)
            if answer.get("id") == self._next:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _message(self, end: float) -> Any:
        while b"\0" not in self._rest:
            if not select.select([self._read], [], [], max(0, end - time.monotonic()))[0]:
                raise BrowserError("the browser does not answer")
            more = os.read(self._read, 1 << 20)
            if not more:
                raise BrowserError("the browser has ended")
            self._rest += more
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        method, told = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.errors.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")

    def open(self, address: str) -> None:
        """Go to a page."""
        self.call("Page.navigate", url=address)

    def says(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise BrowserError(f"{expression}: {told['exceptionDetails']['text']}")
        return told["result"].get("value")

    def until(self, expression: str, seconds: float = PATIENCE_S) -> Any:
        """Wait until an expression in the page is true, and return its value. Raises TimeoutError after `seconds`."""
        end = time.monotonic() + seconds
        while True:
            value = self.says(f"((value) => value instanceof Node ? true : value)({expression})")
            if value:
                return value
            if time.monotonic() > end:
                raise TimeoutError(f"not within {seconds} s: {expression}")
            time.sleep(LOOK_MS / 1000)

    def type(self, text: str) -> None:
        """Type text into the focused element."""
        self.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press a key: Enter, Tab, Escape, an arrow or a blank."""
        code, text = {"Enter": (13, "\r"), "Tab": (9, ""), "Escape": (27, ""), "ArrowLeft": (37, ""), " ": (32, " ")}[key]
        for kind in ("keyDown", "keyUp"):
            how = {"type": kind, "key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code}
            if kind == "keyDown" and text:
                how["text"] = text
            self.call("Input.dispatchKeyEvent", **how)

    def size(self, width: int, height: int, phone: bool = False) -> None:
        """Give the window a size in pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def scheme(self, name: str) -> None:
        """Say that the user wants a light or a dark scheme."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, place: Path, box: tuple[float, float, float, float] | None = None) -> None:
        """Write the visible part of the page as PNG, or only `box` of it: left, top, width, height."""
        more = {} if box is None else {
            "clip": dict(zip(("x", "y", "width", "height"), box, strict=True), scale=1), "captureBeyondViewport": True}
        Path(place).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **more)["data"]))
