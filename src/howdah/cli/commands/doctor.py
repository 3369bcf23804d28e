"""``howdah doctor``: what is wrong with an installation, who is to blame, and what to do about it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

from rich.text import Text

from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.duration import parse_span
from howdah.cli.command import Command
from howdah.cli.render.output import answers, plain, print_json, remark, say, table, text
from howdah.doctor import CATALOGUE, Diagnosis, Finding, Unseen

_STYLES: Final = {"error": "bold red", "warning": "bold yellow"}
_EXIT_CODES: Final = {True: 0, False: 1, None: 8}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", metavar="CODE", nargs="+", action="extend", help="look for these findings alone")
    parser.add_argument(
        "--ignore", metavar="CODE", nargs="+", action="extend", default=[], help="these are known, and all right"
    )
    parser.add_argument(
        "--patience",
        metavar="SPAN",
        type=parse_span,
        default="5m",
        help="how long a transaction may be open, or a job wait, before it is worth a word (default: 5m)",
    )
    parser.add_argument("--list", action="store_true", help="list all findings that there are; needs no database")


def _run(args: argparse.Namespace) -> int:
    if args.list:
        return _list(args)
    with open_queue(args) as queue:
        diagnosis = queue.doctor(only=args.only, ignore=args.ignore, patience=args.patience)
    if args.json:
        print_json({"healthy": diagnosis.healthy, "findings": list(diagnosis), "unseen": diagnosis.unseen})
    else:
        _show(diagnosis)
    return _EXIT_CODES[diagnosis.healthy]


def _list(args: argparse.Namespace) -> int:
    if args.json:
        for entry in CATALOGUE.values():
            print_json(plain(entry))
        return 0
    made = table("code", "severity", "meaning", flexible=("meaning",))
    for entry in CATALOGUE.values():
        made.add_row(text(entry.code, "bold"), text(entry.severity, _STYLES[entry.severity]), text(entry.meaning))
    answers().print(made)
    return 0


def _show(diagnosis: Diagnosis) -> None:
    for number, finding in enumerate(diagnosis):
        if number:
            say("")
        for line in _lines(finding):
            say(line)
    for unseen in diagnosis.unseen:
        remark(_remark(unseen))
    if not diagnosis:
        remark(
            "nothing was found"
            if diagnosis.healthy
            else "nothing was found where it could look, which is not everywhere"
        )


def _lines(finding: Finding) -> Iterator[Text]:
    yield Text.assemble(text(finding.severity, _STYLES[finding.severity]), "  ", text(finding.code, "bold"))
    yield Text.assemble("  ", text(finding.what))
    yield Text.assemble("  cause    ", text(finding.cause))
    yield Text.assemble("  remedy   ", text(finding.remedy))


def _remark(unseen: Unseen) -> Text:
    return Text.assemble(
        "could not look for ", text(", ".join(unseen.codes)), ": ", text(unseen.because), ". ", text(unseen.remedy)
    )


COMMAND = Command(
    name="doctor",
    summary="tell what is wrong, who is to blame, and what to do",
    story="""
        Looks at the server, the schema, the workers and the jobs, and changes nothing. Says nothing on stdout and exits
        with 0 if all is well; with 1 if something was found, each with its cause and its remedy; with 8 if nothing was
        found, but not everything could be looked at. What that was is said on stderr, with what would help.
    """,
    examples=(
        ("howdah doctor", "after an alarm, and before one"),
        ("howdah doctor --ignore pooler-in-transaction-mode --json", "for a monitor, without what is known"),
        ("howdah doctor --only xmin-held table-locked --patience 10s", "who is in the way right now?"),
        ("howdah doctor --list", "everything that it can find"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
