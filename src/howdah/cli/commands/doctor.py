"""``howdah doctor``: what is wrong with an installation, the cause, and the remedy."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

from rich.text import Text

from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.duration import parse_duration
from howdah.cli.command import Command
from howdah.cli.render.output import answers, print_json, remark, say, table, text
from howdah.doctor import CATALOGUE, Diagnosis, Finding, Unseen

_STYLES: Final = {"error": "bold red", "warning": "bold yellow"}
_EXIT_CODES: Final = {True: 0, False: 1, None: 8}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", metavar="CODE", nargs="+", action="extend", help="check these findings only")
    parser.add_argument(
        "--ignore", metavar="CODE", nargs="+", action="extend", default=[], help="do not report these findings"
    )
    parser.add_argument(
        "--patience",
        metavar="DURATION",
        type=parse_duration,
        default="5m",
        help="how long a transaction may be open, or a job wait, before it is reported (default: 5m)",
    )
    parser.add_argument("--list", action="store_true", help="list all possible findings; needs no database")


def _run(args: argparse.Namespace) -> int:
    if args.list:
        _list(args)
        return 0
    with open_queue(args) as queue:
        diagnosis = queue.doctor(only=args.only, ignore=args.ignore, patience=args.patience)
    if args.json:
        print_json({"healthy": diagnosis.healthy, "findings": list(diagnosis), "unseen": diagnosis.unseen})
    else:
        _show(diagnosis)
    return _EXIT_CODES[diagnosis.healthy]


def _list(args: argparse.Namespace) -> None:
    if args.json:
        for entry in CATALOGUE.values():
            print_json(entry)
        return
    made = table("code", "severity", "meaning", flexible=("meaning",))
    for entry in CATALOGUE.values():
        made.add_row(text(entry.code, "bold"), text(entry.severity, _STYLES[entry.severity]), text(entry.meaning))
    answers().print(made)


def _show(diagnosis: Diagnosis) -> None:
    for number, finding in enumerate(diagnosis):
        if number:
            say("")
        for line in _lines(finding):
            say(line)
    for unseen in diagnosis.unseen:
        remark(_remark(unseen))
    if not diagnosis:
        remark("nothing was found" if diagnosis.healthy else "nothing was found, but not everything could be checked")


def _lines(finding: Finding) -> Iterator[Text]:
    yield Text.assemble(text(finding.severity, _STYLES[finding.severity]), "  ", text(finding.code, "bold"))
    yield Text.assemble("  ", text(finding.what))
    yield Text.assemble("  cause    ", text(finding.cause))
    yield Text.assemble("  remedy   ", text(finding.remedy))


def _remark(unseen: Unseen) -> Text:
    return Text.assemble(
        "could not check ", text(", ".join(unseen.codes)), ": ", text(unseen.because), ". ", text(unseen.remedy)
    )


COMMAND = Command(
    name="doctor",
    summary="find problems, with their causes and remedies",
    story="""
        Checks the server, the schema, the workers and the jobs, and changes nothing. Prints nothing on stdout and exits
        with 0 if all is well; exits with 1 if there are findings, each with its cause and its remedy; with 8 if there are
        none, but not everything could be checked. What could not be checked, and why, is printed on stderr.
    """,
    examples=(
        ("howdah doctor", "check everything"),
        ("howdah doctor --ignore pooler-in-transaction-mode --json", "for a monitor, without a known finding"),
        ("howdah doctor --only xmin-held table-locked --patience 10s", "which sessions block right now?"),
        ("howdah doctor --list", "all possible findings"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
