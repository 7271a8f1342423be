"""An MCP server over stdio, for tests: ``python -m tests.agents.mcp_server``."""

import os
import subprocess
import sys
import time

from mcp.server import MCPServer

server = MCPServer("numbers")


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def fail() -> str:
    """Always fail."""
    raise ValueError("no such luck")


@server.tool()
def wait() -> str:
    """Take too long."""
    time.sleep(20)
    return "late"


@server.tool()
def leave() -> str:
    """End the server process."""
    print("error: lost the disk", file=sys.stderr, flush=True)
    os._exit(1)


@server.tool()
def secret() -> str:
    """Return whether one of the agent's keys is visible in the server's environment."""
    return str("MY_API_KEY" in os.environ)


@server.tool()
def daemon() -> str:
    """Start a process that leaves the session and return its pid."""
    return str(subprocess.Popen(["sleep", "600"], start_new_session=True).pid)


if __name__ == "__main__":
    server.run("stdio")
