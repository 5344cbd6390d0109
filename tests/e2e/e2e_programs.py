"""Processes that tests start and end, and how they wait for them."""

import itertools
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_TAIL = 6000
_ports = itertools.count(20000 + os.getpid() * 40 % 10000)


def free_port() -> int:
    """Return a port that nobody listens on, below those that the kernel hands out."""
    for port in _ports:
        assert port < 32000, "no port is free"
        with socket.socket() as candidate:
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError


def wait_for(what: str, check: Callable[[], T], seconds: float = 30.0, every: float = 0.02) -> T:
    """Return the first true value of `check`."""
    deadline = time.monotonic() + seconds
    while not (value := check()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(every)
    return value


class Program:
    """A process with its output in a file."""

    def __init__(self, name: str, command: Sequence[str | Path], folder: Path, **env: str) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = command
        self._env = env
        self.start()

    def start(self) -> None:
        """Start, or start again with the same command; the log goes on."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.log.parent,
                env=os.environ | self._env,
                process_group=0,  # Ctrl-C is for the tests, which end it in order
            )

    @property
    def pid(self) -> int:
        """The process ID."""
        return self.process.pid

    def tail(self) -> str:
        """Return the end of its output."""
        return self.log.read_text(errors="replace")[-_TAIL:]

    def wait_until(self, what: str, check: Callable[[], T], seconds: float = 60.0) -> T:
        """Return the first true value of `check`, unless the process ends before."""

        def alive_and_so() -> T:
            self.check_alive()
            return check()

        return wait_for(f"{self.name}: {what}", alive_and_so, seconds)

    def check_alive(self) -> None:
        """Fail with its last words if it has ended."""
        code = self.process.poll()
        assert code is None, f"{self.name} ended with {code}:\n{self.tail()}"

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it without a chance to finish anything."""
        self.process.kill()
        self.process.wait()

    def stop(self, seconds: float = 15.0) -> None:
        """End it in order, if it has not ended."""
        if self.process.poll() is not None:
            return
        # A stopped process takes no SIGTERM.
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    @property
    def resident_megabytes(self) -> float:
        """Its resident set."""
        return self._megabytes("VmRSS")

    @property
    def peak_megabytes(self) -> float:
        """The largest that its resident set has been."""
        return self._megabytes("VmHWM")

    def _megabytes(self, key: str) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise AssertionError(f"{self.name} has no {key}")
