"""On Howdah's `jobs`, the statements of plain clients end as on the seed's own table, but for the listed deviations.

Two sessions send the same statements to both tables. Hypothesis draws which statements, in which forms and transactions, and the
turns. After each statement, all that can be seen is compared: the error, the row count, the rows, the whole table, and whether it waits.
"""

from __future__ import annotations

import os

from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from tests.conftest import Db
from tests.properties import plain_statements as plain
from tests.properties.examples import examples
from tests.properties.plain_comparison import Comparison, Step
from tests.properties.plain_deviations import PAUSED
from tests.properties.plain_forms import forms
from tests.properties.plain_statements import Statement
from tests.sql import seed

Script = list[Step]


def control(statement: Statement) -> Script:
    return [(statement, "bound")]


def joined(*parts: Script) -> Script:
    return [step for part in parts for step in part]


def steps(statements: st.SearchStrategy[Statement]) -> st.SearchStrategy[Script]:
    """A statement in one of its forms."""
    return statements.flatmap(lambda statement: st.sampled_from([[(statement, form)] for form in forms(statement)]))


def several(parts: st.SearchStrategy[Script], least: int, most: int) -> st.SearchStrategy[Script]:
    return st.lists(parts, min_size=least, max_size=most).map(lambda found: joined(*found))


two_statements = st.builds(joined, steps(plain.locks()), steps(st.builds(plain.claim_of_taken, plain.clients)))
read_and_saved = st.builds(joined, steps(plain.reads), steps(plain.saves()))
in_a_savepoint = st.builds(
    joined,
    st.just(control(Statement("SAVEPOINT s"))),
    several(steps(plain.everything), 1, 3),
    st.sampled_from([control(Statement("ROLLBACK TO s")), control(Statement("RELEASE s"))]),
)
anything = st.one_of(
    steps(plain.everything), two_statements, read_and_saved, in_a_savepoint, *[steps(plain.everything)] * 3
)
transactions = st.builds(
    joined,
    st.just(control(plain.BEGIN)),
    several(anything, 3, 4),
    st.sampled_from([control(plain.COMMIT), control(plain.COMMIT), control(plain.ROLLBACK)]),
)
alone = st.one_of(steps(plain.alone), steps(plain.alone), read_and_saved)
scripts = st.builds(joined, transactions, several(alone, 1, 2), transactions)
turns = st.lists(st.integers(0, 1), min_size=24, max_size=24)


def test_plain_statements_end_as_on_a_plain_table(dsn: str, db: Db) -> None:
    db.execute("SELECT pause_type(%s)", (PAUSED,))
    phases = [phase for phase in Phase if phase is not Phase.shrink or os.environ.get("HOWDAH_SHRINK")]
    with Comparison(dsn) as comparison:

        @settings(max_examples=examples(300), phases=phases, report_multiple_bugs=False)
        @given(jobs=plain.some_jobs, a=scripts, b=scripts, turns=turns)
        def play(jobs: tuple[Statement, ...], a: Script, b: Script, turns: list[int]) -> None:
            try:
                comparison.play(jobs, [a, b], turns)
            except BaseException:
                note("\n".join(comparison.transcript))
                raise

        play()


def test_what_is_added_after_a_client_began_its_transaction_can_be_claimed_in_it(dsn: str) -> None:
    add = plain.insert({"id": plain.job_id(0), "job_type": "a"})
    lock = Statement(seed.SELECT_FOR_UPDATE, (["a"], 1), returns=True)
    claim = plain.claim_of_taken("ann")
    with Comparison(dsn) as comparison:
        comparison.play(
            [], [control(add), joined(*map(control, (plain.BEGIN, lock, claim, plain.COMMIT)))], [1, 0, 1, 1, 1]
        )
