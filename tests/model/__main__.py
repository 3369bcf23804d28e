"""``make model``: explores the protocol, and what is broken of it. ``make model BROKEN=name`` shows one counterexample."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.model import broken, words
from tests.model.broken import VARIANTS, Variant
from tests.model.explorer import Explored, Explorer
from tests.model.properties import BY_NAME, PROPERTIES
from tests.model.protocol import Protocol
from tests.model.rules import Scene
from tests.model.scenes import FULL, SMALL


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--small", action="store_true", help="what the tests run")
    parser.add_argument("--broken", metavar="NAME", help="show how this variant fails: " + ", ".join(broken.BY_NAME))
    options = parser.parse_args(arguments)
    if options.broken:
        if options.broken not in broken.BY_NAME:
            parser.error(f"there is no variant {options.broken!r}. There are: {', '.join(broken.BY_NAME)}")
        return show(broken.BY_NAME[options.broken])
    held = explore(SMALL if options.small else FULL)
    refuted = [refute(variant) for variant in VARIANTS]
    return 0 if held and all(refuted) else 1


def explore(scenes: Sequence[Scene]) -> bool:
    """Whether every property holds everywhere."""
    found: dict[str, list[str]] = {each.name: [] for each in PROPERTIES}
    for number, scene in enumerate(scenes, start=1):
        print(f"world {number} of {len(scenes)}: {scene.name} …", flush=True)
        protocol = Protocol(scene)
        explored = Explorer(protocol, PROPERTIES, _tell).run()
        _clear()
        print(f"  {_figures(explored)}", flush=True)
        for name, counterexample in explored.counterexamples.items():
            found[name] += ["", f"  in: {scene.name}", *words.trace(protocol, counterexample)]
    print()
    for each in PROPERTIES:
        print(f"{'FAILS' if found[each.name] else 'holds'}    {each.name}: {each.sentence}")
        for line in found[each.name]:
            print(line)
    print()
    return not any(found.values())


def refute(variant: Variant) -> bool:
    """Whether the property that a variant breaks is seen to be broken."""
    explored = Explorer(Protocol(variant.scene, variant.rules), [BY_NAME[variant.refutes]]).run()
    counterexample = explored.counterexamples.get(variant.refutes)
    steps = f"refuted in {len(counterexample.steps)} steps" if counterexample else "NOT REFUTED"
    print(f"{steps:<20} {variant.name} ({variant.refutes})", flush=True)
    return counterexample is not None


def show(variant: Variant) -> int:
    protocol = Protocol(variant.scene, variant.rules)
    explored = Explorer(protocol, [BY_NAME[variant.refutes]]).run()
    print(f"{variant.name}: {variant.sentence}")
    print(f"{variant.refutes}: {BY_NAME[variant.refutes].sentence}")
    counterexample = explored.counterexamples.get(variant.refutes)
    if counterexample is None:
        print(f"NOT REFUTED in {_figures(explored)}")
        return 1
    for line in words.trace(protocol, counterexample):
        print(line)
    return 0


def _figures(explored: Explored) -> str:
    return (
        f"{explored.states:,} states, {explored.transitions:,} transitions, depth {explored.depth},"
        f" {explored.seconds:.1f} s"
    )


def _tell(explored: Explored) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K  {_figures(explored)} …", end="", file=sys.stderr, flush=True)


def _clear() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
