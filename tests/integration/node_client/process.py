"""The example client in Node as a process."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "examples" / "clients" / "node"
PROCESS_LIMIT_S = 60
NO_PROXY_THERE = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
"""The client must not go through a proxy; nothing listens at this one."""


class NodeClient:
    """Starts `node generate.js`, and leaves no process behind."""

    def __init__(self) -> None:
        self._processes: list[asyncio.subprocess.Process] = []

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """A running process with these arguments."""
        process = await asyncio.create_subprocess_exec(
            "node",
            "generate.js",
            *arguments,
            cwd=FOLDER,
            env=os.environ | NO_PROXY_THERE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self._processes.append(process)
        return process

    async def run(self, *arguments: str) -> tuple[int | None, str, str]:
        """Exit code, standard output and standard error."""
        return await outcome(await self.start(*arguments))

    async def close(self) -> None:
        """Ends what still runs."""
        for process in self._processes:
            if process.returncode is None:
                process.kill()
                await process.communicate()


async def outcome(process: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    """Exit code, standard output and standard error, once the process has ended."""
    output, errors = await asyncio.wait_for(process.communicate(), PROCESS_LIMIT_S)
    return process.returncode, output.decode(), errors.decode()
