"""``howdah web``: the dashboard in a browser."""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import os
import re
import sys
from typing import Any, Final

from howdah.cli.arguments.connect import load_queue, open_queue
from howdah.cli.command import Command
from howdah.cli.render.output import answer
from howdah.errors import HowdahError, InvalidInput
from howdah.queue import JobQueue

PORT: Final = 4680
OPERATOR_PASSWORD: Final = "HOWDAH_WEB_PASSWORD"
VIEWER_PASSWORD: Final = "HOWDAH_WEB_VIEWER_PASSWORD"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="MODULE:QUEUE", nargs="?", help="the queue of an app, whose codec and handlers are then known"
    )
    parser.add_argument(
        "--host", metavar="ADDRESS", default="127.0.0.1", help="the address to listen at (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--port", metavar="N", type=int, default=PORT, help=f"the port; 0 for a free one (default: {PORT})"
    )
    parser.add_argument(
        "--host-name",
        metavar="NAME",
        action="append",
        default=[],
        help="a name under which browsers reach it, besides localhost; repeat it for more",
    )
    parser.add_argument("--read-only", action="store_true", help="nothing can be changed")
    parser.add_argument(
        "--redact",
        metavar="PATH",
        action="append",
        default=[],
        help="a path of arguments to hide, such as card.number or '**.password'; repeat it for more",
    )
    proxy = parser.add_argument_group("behind a proxy that authenticates")
    proxy.add_argument(
        "--proxy-header", metavar="NAME", help="the header with the name of the user, such as X-Forwarded-User"
    )
    proxy.add_argument(
        "--proxy",
        metavar="NETWORK",
        action="append",
        default=[],
        help="the address or network of the proxy; the header is believed from no other",
    )
    proxy.add_argument(
        "--operator",
        metavar="NAME",
        action="append",
        default=[],
        help="a user that may change things; others only look",
    )


def _run(args: argparse.Namespace) -> None:
    authenticate = authentication(args)
    refuse_open(args.host, authenticate)
    if args.target:
        queue = load_queue(args.target)
        queue.connect_to(args.dsn, args.schema)
    else:
        queue = open_queue(args)
    with queue:
        queue.stream_position()
        serve(queue, args, authenticate)


def serve(queue: JobQueue, args: argparse.Namespace, authenticate: Any) -> None:
    """Serves until it is interrupted."""
    web, web_server = imported()
    dashboard = web.app(
        queue,
        authenticate=authenticate,
        hosts=[*args.host_name, *_own_name(args.host, authenticate)],
        read_only=args.read_only,
        redact=args.redact,
    )
    server = web_server.server_of(dashboard, args.host, args.port)
    listener = web_server.listen(args.host, args.port)
    port = listener.getsockname()[1]
    shown = f"[{args.host}]" if ":" in args.host else args.host
    url = f"http://{shown}:{port}/"
    answer(
        args,
        {"url": url, "schema": queue.schema},
        f"The dashboard of schema {queue.schema} is at {url} (end it with Ctrl-C)",
    )
    # A program that started it reads the address from a pipe.
    sys.stdout.flush()
    # That is how it ends.
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


def authentication(args: argparse.Namespace) -> Any:
    """From the environment and the options; None if there is none."""
    web, _ = imported()
    operator, viewer = os.environ.get(OPERATOR_PASSWORD), os.environ.get(VIEWER_PASSWORD)
    if args.proxy_header:
        if operator or viewer:
            raise InvalidInput(f"--proxy-header and {OPERATOR_PASSWORD} exclude each other: leave one of them out")
        return web.ProxyHeader(args.proxy_header, trusted=args.proxy, operators=args.operator)
    if args.proxy or args.operator:
        raise InvalidInput("--proxy and --operator need --proxy-header")
    return web.Password(operator=operator or None, viewer=viewer or None) if operator or viewer else None


def refuse_open(host: str, authenticate: Any) -> None:
    """Other machines are only served with authentication."""
    if authenticate is None and not _is_loopback(host):
        raise InvalidInput(
            f"{host} can be reached from other machines, and there is no authentication: set {OPERATOR_PASSWORD}, or use"
            " --proxy-header; or leave --host out"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return re.fullmatch(r"localhost|.*\.localhost", host) is not None


def _own_name(host: str, authenticate: Any) -> list[str]:
    """Its address is one of its names; 0.0.0.0 is none."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return [host] if authenticate is not None else []
    if address.is_unspecified or address.is_loopback:
        return []
    return [f"[{address}]" if address.version == 6 else str(address)]


def imported() -> tuple[Any, Any]:
    try:
        from howdah import web
        from howdah.web import server
    except ImportError as error:
        raise HowdahError(f"the dashboard needs more packages ({error.name}): pip install 'howdah[web]'") from None
    return web, server


COMMAND = Command(
    name="web",
    summary="show the dashboard in a browser",
    story=f"""
        Serves pages about the queue: what it does now, its jobs with live progress, types, workers, schedules, limits, what the doctor finds, and
        what was done here. On this machine alone it needs no password. Any other address needs one, in the environment: {OPERATOR_PASSWORD} for
        operators, {VIEWER_PASSWORD} for viewers, which only look. Serve it by HTTPS then. A host name that is not listed is refused.
    """,
    examples=(
        ("howdah web", "http://127.0.0.1:4680/, for this machine alone"),
        ("howdah web shop.app:queue --read-only", "with the codec of an app, and without any action"),
        (
            "HOWDAH_WEB_PASSWORD=… howdah web --host 0.0.0.0 --host-name jobs.example.com",
            "for other machines, behind HTTPS",
        ),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
