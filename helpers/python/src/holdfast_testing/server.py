"""Starts and ends a server."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from .binary import find_binary
from .controls import Controls

START_TIMEOUT_SECONDS = 60
STOP_TIMEOUT_SECONDS = 20

#: Number of lines of the log that a server keeps for error messages.
MAX_LOG_LINES = 500

# The command that `holdfast run` runs. It prints the path of the kubeconfig, and ends when its standard input ends. The
# server ends with it, even if the process of the test is killed.
_HELPER = """printf '%s\\n' "$KUBECONFIG"; exec cat >/dev/null"""


class Server(Controls):
    """A server with its objects in memory, on a free port. It runs until `stop` or the end of this process."""

    def __init__(
        self,
        *,
        binary: str | os.PathLike[str] | None = None,
        controllers: Iterable[str] = ("*",),
        args: Sequence[str] = (),
    ):
        flags = ["--testing-endpoints=true", f"--controllers={','.join(controllers)}", *args]
        self._process = subprocess.Popen(
            [find_binary(binary), "run", *flags, "--", "sh", "-c", _HELPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._log: deque[str] = deque(maxlen=MAX_LOG_LINES)
        self._reader = threading.Thread(target=self._read_log, args=(self._process.stderr,), daemon=True)
        self._reader.start()
        try:
            super().__init__(self._wait_until_ready())
        except BaseException:
            self._process.kill()
            self._end()
            raise

    def _wait_until_ready(self) -> str:
        lines: queue.Queue[str] = queue.Queue()
        output = self._process.stdout
        assert output is not None
        threading.Thread(target=lambda: lines.put(output.readline()), daemon=True).start()
        try:
            path = lines.get(timeout=START_TIMEOUT_SECONDS).strip()
        except queue.Empty:
            raise TimeoutError(f"Holdfast did not start within {START_TIMEOUT_SECONDS} s\n{self.log()}") from None
        if not path:
            code = self._process.wait()
            self._reader.join()
            raise RuntimeError(f"Holdfast did not start: exit status {code}\n{self.log()}")
        return Path(path).read_text(encoding="utf-8")

    def _read_log(self, lines: IO[str]) -> None:
        for line in lines:
            self._log.append(line)

    def log(self) -> str:
        """Returns the last lines of the log of the server."""
        return "".join(list(self._log))

    def stop(self) -> None:
        """Ends the server."""
        if self._process.poll() is not None and self._process.stdin is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            code = self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._end()
            raise TimeoutError(f"Holdfast did not end within {STOP_TIMEOUT_SECONDS} s\n{self.log()}") from None
        self._end()
        if code != 0:
            raise RuntimeError(f"Holdfast ended with exit status {code}\n{self.log()}")

    def _end(self) -> None:
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
