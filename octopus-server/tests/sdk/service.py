"""`octopus-server` as an operator runs it, at the only address that the SDK knows besides its own service's."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

ADDRESS = "127.0.0.1:8000"
PATIENCE = 60


@dataclass
class Service:
    """A running service."""

    binary: Path
    folder: Path
    flags: list[str]
    variables: dict[str, str]
    #: Whether it has a broker of its own, which keeps no users.
    is_dev: bool

    def __post_init__(self) -> None:
        self.ready = self.folder / "ready"
        self.log = self.folder / "log"
        self.start()

    def start(self) -> None:
        self.ready.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    self.binary,
                    f"--listen={ADDRESS}",
                    f"--ready-file={self.ready}",
                    "--auth=introspection",
                    *self.flags,
                ],
                env={"PATH": os.environ["PATH"], "OCTOPUS_LOG": "debug", **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        end = time.monotonic() + PATIENCE
        while not self.ready.exists():
            assert self.process.poll() is None and time.monotonic() < end, self.said()
            time.sleep(0.02)

    def stop(self) -> None:
        """As a deploy does."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0, self.said()

    def restart(self) -> None:
        """As a deploy does: every instance is gone."""
        self.stop()
        self.start()

    def command_line(self) -> str:
        return Path(f"/proc/{self.process.pid}/cmdline").read_text()

    def said(self) -> str:
        return self.log.read_text(errors="replace")
