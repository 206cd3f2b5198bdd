"""The command `cxlab serve`."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import secrets
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

#: The built page: in a wheel, and in a source tree.
PAGES = (
    Path(__file__).resolve().parent.parent / "page" / "lab",
    Path(__file__).resolve().parent.parent.parent.parent / "lab" / "dist",
)


def main(arguments: Sequence[str]) -> int:
    """Serves the page until it is interrupted."""
    parser = argparse.ArgumentParser(
        "cxlab serve",
        description="Serve the lab's page with the native engine behind it. Who has the address "
        "that is printed can run scenarios and read files below DIR, and nothing else.",
    )
    parser.add_argument(
        "folder",
        metavar="DIR",
        type=Path,
        nargs="?",
        default=Path(),
        help="folder of scenarios and traces [default: .]",
    )
    parser.add_argument("--port", type=int, default=0, help="port [default: a free one]")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on [default: 127.0.0.1, this machine alone]",
    )
    parser.add_argument(
        "--memory",
        metavar="MIB",
        type=int,
        default=8192,
        help="most memory of a run [default: 8192]",
    )
    parser.add_argument(
        "--longest",
        metavar="S",
        type=float,
        default=3600.0,
        help="longest run in seconds [default: 3600]",
    )
    options = parser.parse_args(arguments)
    wrong = _mistake(options)
    if wrong is not None:
        print(f"error: {wrong}", file=sys.stderr)
        return 2
    page = next(path for path in PAGES if (path / "index.html").is_file())
    return asyncio.run(_serve(options, page))


def _mistake(options: argparse.Namespace) -> str | None:
    """What is wrong with the options."""
    try:
        ipaddress.ip_address(options.host)
    except ValueError:
        return (
            f"--host: found {options.host}; allowed: an address of this machine, such as 127.0.0.1"
        )
    if not 0 <= options.port <= 65535:
        return f"--port: found {options.port}; allowed: 0 to 65535"
    if not 512 <= options.memory <= 1 << 22:
        return f"--memory: found {options.memory}; allowed: 512 to {1 << 22} MiB"
    if not 1 <= options.longest <= 1e7:
        return f"--longest: found {options.longest}; allowed: 1 to 10000000 s"
    if not options.folder.is_dir():
        return f"{options.folder}: is no folder; allowed: a folder of scenarios and traces"
    if not any((path / "index.html").is_file() for path in PAGES):
        return "the lab's page was not built; in a source tree: make lab"
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        return "starlette and uvicorn are not installed; pip install 'cxlab[serve]'"
    return None


async def _serve(options: argparse.Namespace, page: Path) -> int:
    import uvicorn

    from cxlab._serve.guard import Guard, Protocol
    from cxlab._serve.runs import Runs
    from cxlab._serve.server import Site

    folder = options.folder.resolve()
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((options.host, options.port))
    except OSError as error:
        print(f"error: {options.host}:{options.port}: {error.strerror}", file=sys.stderr)
        return 1
    port = listening.getsockname()[1]
    shown = f"[{options.host}]" if ":" in options.host else options.host
    token = secrets.token_urlsafe(24)
    names = {f"{shown}:{port}"}
    if ipaddress.ip_address(options.host).is_loopback:
        names |= {f"localhost:{port}", f"127.0.0.1:{port}"}
    runs = Runs(folder, options.memory << 20, options.longest)
    site = Site(folder, page, runs)
    server = uvicorn.Server(
        uvicorn.Config(
            Guard(site.app, frozenset(names), token),
            http=Protocol,
            loop="asyncio",
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=128,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=16 << 10,
        )
    )
    print(f"http://{shown}:{port}/#token={token}", flush=True)
    print(f"serving {folder}; Ctrl-C ends it", file=sys.stderr)
    await server.serve(sockets=[listening])
    return 0
