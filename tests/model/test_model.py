"""The protocol keeps its properties in every state of a small world, and without any one of its rules it would not."""

from __future__ import annotations

import pytest

from tests.model import words
from tests.model.broken import VARIANTS, Variant
from tests.model.explorer import Explorer
from tests.model.properties import BY_NAME, PROPERTIES
from tests.model.protocol import Protocol
from tests.model.rules import Scene
from tests.model.scenes import SMALL


@pytest.mark.parametrize("scene", SMALL, ids=lambda scene: scene.name)
def test_every_property_holds_in_every_state(scene: Scene) -> None:
    protocol = Protocol(scene)
    explored = Explorer(protocol, PROPERTIES).run()
    told = ["\n".join((name, *words.trace(protocol, each))) for name, each in explored.counterexamples.items()]
    assert not told, "\n".join(told)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_a_protocol_without_one_of_its_rules_is_refuted(variant: Variant) -> None:
    protocol = Protocol(variant.scene, variant.rules)
    counterexample = Explorer(protocol, [BY_NAME[variant.refutes]]).run().counterexamples[variant.refutes]
    assert list(words.trace(protocol, counterexample))[-1].strip() == f"So {counterexample.wrong}."


def test_every_property_can_fail() -> None:
    assert {variant.refutes for variant in VARIANTS} == set(BY_NAME)
