"""``howdah doctor``: what it prints, and its exit code."""

from __future__ import annotations

import re

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from howdah.doctor import CATALOGUE
from tests.cli.runner import howdah
from tests.cli.sample import HOSTILE
from tests.docs.pages import ROOT
from tests.doctor.conftest import Db, run_all


@pytest.fixture
def healthy_dsn(own_dsn: str) -> str:
    return own_dsn


def test_a_healthy_queue_has_no_findings(healthy_dsn: str) -> None:
    outcome = howdah("doctor", dsn=healthy_dsn)
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "nothing was found\n")
    (answer,) = howdah("doctor", "--json", dsn=healthy_dsn).lines
    assert answer == {"healthy": True, "findings": [], "unseen": []}


def test_a_role_that_does_not_see_everything_gets_the_grants_that_help(healthy_dsn: str, db: Db) -> None:
    howdah("migrate", "--roles", dsn=healthy_dsn)
    db.execute("CREATE ROLE monitor LOGIN")
    try:
        there = make_conninfo(healthy_dsn, user="monitor")
        outcome = howdah("doctor", dsn=there)
        assert (outcome.code, outcome.out) == (8, "")
        assert outcome.err.splitlines()[-1] == "nothing was found, but not everything could be checked"
        (answer,) = howdah("doctor", "--json", dsn=there).lines
        assert (answer["healthy"], answer["findings"]) == (None, [])
        granted = []
        while answer["unseen"]:
            remedy = answer["unseen"][0]["remedy"].partition(";")[0]
            assert remedy not in granted
            db.execute(remedy.encode())
            granted.append(remedy)
            (answer,) = howdah("doctor", "--json", dsn=there).lines
        assert granted == [
            "GRANT pg_read_all_stats TO monitor",
            "GRANT howdah_viewer TO monitor",
            f"GRANT CREATE ON DATABASE {db.info.dbname} TO monitor",
        ]
        outcome = howdah("doctor", dsn=there)
        assert (outcome.code, outcome.err) == (0, "nothing was found\n")
    finally:
        run_all(db, ["DROP OWNED BY monitor", "DROP ROLE monitor"])


def test_findings_for_people_and_for_programs(healthy_dsn: str, db: Db) -> None:
    db.execute("DROP INDEX live_key")
    outcome = howdah("doctor", dsn=healthy_dsn)
    assert (outcome.code, outcome.err) == (1, "")
    head, what, cause, remedy = outcome.out.splitlines()
    assert head == "error  index-missing"
    assert what.startswith("  index howdah.live_key is missing")
    assert cause == "  cause    index howdah.live_key"
    assert remedy.startswith("  remedy   CREATE UNIQUE INDEX CONCURRENTLY live_key ON")
    (answer,) = howdah("doctor", "--json", dsn=healthy_dsn).lines
    (finding,) = answer["findings"]
    assert (answer["healthy"], finding["code"], finding["severity"]) == (False, "index-missing", "error")
    assert howdah("doctor", "--ignore", "index-missing", "fsync-off", dsn=healthy_dsn).code == 0
    assert howdah("doctor", "--only", "xmin-held", "--only", "fsync-off", dsn=healthy_dsn).code == 0
    assert howdah("doctor", "--only", "index-missing", "--json", dsn=healthy_dsn).code == 1


def test_foreign_text_cannot_control_a_terminal(healthy_dsn: str, db: Db) -> None:
    name = HOSTILE.replace("\x00", "")[:50]
    db.execute("SELECT register_worker('w', gen_random_uuid(), p_host => %s)", (name,))
    db.execute("UPDATE workers SET leaked = 1")
    with psycopg.connect(healthy_dsn) as conn:
        conn.execute("SELECT pg_current_xact_id(), '\x1b]0;owned\x07' AS \"\x1b[31m\"")
        outcome = howdah("doctor", "--patience", "0", dsn=healthy_dsn)
    assert {"warning  xmin-held", "warning  handlers-leaked"} <= set(outcome.out.splitlines())
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\u2066]", outcome.out)


def test_all_findings_are_listed_without_a_database() -> None:
    outcome = howdah("doctor", "--list", dsn="host=nowhere")
    assert outcome.code == 0
    assert [line.split()[0] for line in outcome.out.splitlines()[1:]] == list(CATALOGUE)
    assert [entry["code"] for entry in howdah("doctor", "--list", "--json").lines] == list(CATALOGUE)


def test_wrong_calls_and_outages_have_the_usual_exit_codes(healthy_dsn: str) -> None:
    outcome = howdah("doctor", "--only", "xmin", dsn=healthy_dsn)
    assert outcome.code == 2
    assert "there is no finding 'xmin'" in outcome.err
    assert howdah("doctor", "--patience", "soon", dsn=healthy_dsn).code == 2
    assert howdah("doctor", dsn="postgresql://127.0.0.1:1/jobs").code == 4
    assert howdah("doctor", "--schema", "elsewhere", dsn=healthy_dsn).code == 1


def test_the_page_lists_the_same_findings() -> None:
    page = (ROOT / "docs/how-to/doctor.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \[`([a-z-]+)`\]\(recover\.md#\1\) \| (error|warning) \| (.+) \| (.+) \|$", page, flags=re.MULTILINE
    )
    without_code = [(code, severity, meaning, remedy.replace("`", "")) for code, severity, meaning, remedy in rows]
    assert without_code == [(e.code, e.severity, e.meaning, e.remedy) for e in CATALOGUE.values()]
