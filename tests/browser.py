"""Chromium driven by its DevTools protocol, through the websocket client of tornado."""

import asyncio
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

# Seconds that a step of a page may take on a busy machine.
PATIENCE = 30.0

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-port=0"),
)


class Browser:
    """A running Chromium with one page; requests of the page reach nothing."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._loop = asyncio.new_event_loop()
        self._number = 0
        # Errors of the console, and addresses that the page asked for.
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._socket = self._run(self._connect)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        # Elements take the focus although the window is behind others.
        self.send("Emulation.setFocusEmulationEnabled", enabled=True)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._loop.close()
        self._folder.cleanup()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = json.dumps({"id": self._number, "method": method, "params": params})
        self._run(lambda: self._socket.write_message(message))
        while True:
            message = self._receive()
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a file in a window of this size, and wait for its figures."""
        self.errors.clear()
        self.requests.clear()
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.send("Emulation.setDeviceMetricsOverride", **screen)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[theme])
        self.send("Page.navigate", url=path.as_uri())
        self.wait("document.readyState === 'complete'")
        self.wait("!document.getElementById('data') || document.body.dataset.ready")

    def js(self, expression: str) -> Any:
        """Evaluate JavaScript in the page; promises are awaited."""
        options = {"returnByValue": True, "awaitPromise": True}
        answer = self.send("Runtime.evaluate", expression=expression, **options)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until JavaScript is true."""
        end = time.monotonic() + PATIENCE
        while not self.js(f"!!({expression})"):
            assert time.monotonic() < end, f"{expression} stays false: {self.errors}"
            time.sleep(0.05)

    def settle(self) -> None:
        """Wait until two frames are drawn."""
        self.js("new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(f)))")

    def mouse(self, x: float, y: float) -> None:
        """Move the mouse to a point of the window."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def key(self, name: str, code: int) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code)
        self.settle()

    def _run(self, call: Callable[[], Any]) -> Any:
        async def wait() -> Any:
            return await asyncio.wait_for(call(), PATIENCE)

        return self._loop.run_until_complete(wait())

    async def _connect(self) -> Any:
        from tornado.httpclient import AsyncHTTPClient
        from tornado.websocket import websocket_connect

        # The port is in a file of the profile.
        port = Path(self._folder.name) / "DevToolsActivePort"
        while not port.exists() or not port.read_text().strip():
            await asyncio.sleep(0.05)
        address = f"http://127.0.0.1:{port.read_text().splitlines()[0]}/json"
        pages = json.loads((await AsyncHTTPClient().fetch(address)).body)
        url = next(p["webSocketDebuggerUrl"] for p in pages if p["type"] == "page")
        return await websocket_connect(url, max_message_size=1 << 28)

    def _receive(self) -> dict[str, Any]:
        message = json.loads(self._run(self._socket.read_message))
        p = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(p["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if p["type"] in ("error", "warning", "assert"):
                self.errors.append(str(p["args"]))
            case "Log.entryAdded":
                self.errors.append(p["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(p["request"]["url"])
        return message
