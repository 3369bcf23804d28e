"""``howdah dsn``: where the jobs are, without what is secret."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.cli.runner import howdah

PLAIN = "postgresql://ann@db.example.org/shop"
SECRET = "postgresql://ann:s3cret@db.example.org/shop?sslpassword=s3cret"


def test_it_is_printed_as_it_is_where_nothing_is_secret() -> None:
    told = howdah("dsn", dsn=PLAIN)
    assert (told.code, told.out, told.err) == (0, f"{PLAIN}\n", "")
    assert howdah("dsn", HOWDAH_DSN=PLAIN).out == told.out
    assert howdah("dsn", "--json", dsn=PLAIN).lines == [{"dsn": PLAIN}]


@pytest.mark.parametrize("how", [(), ("--json",), ("--user", "bob")])
def test_a_password_is_left_out(how: tuple[str, ...]) -> None:
    told = howdah("dsn", *how, dsn=SECRET)
    assert told.code == 0
    assert "s3cret" not in told.out + told.err
    assert "***" not in told.out, "it can be used as it is, with the password from elsewhere"
    assert "--with-password" in told.err


def test_a_password_is_printed_with_the_option_for_it() -> None:
    told = howdah("dsn", "--with-password", dsn=SECRET)
    assert (told.code, told.out, told.err) == (0, f"{SECRET}\n", "")


def test_another_login_changes_nothing_else() -> None:
    told = howdah("dsn", "--user", "bob o'neill", dsn=PLAIN)
    assert conninfo_to_dict(told.out.strip()) == conninfo_to_dict(PLAIN) | {"user": "bob o'neill"}


@pytest.mark.parametrize("how", [("--keep",), ("--user", "bob", "--with-password")])
def test_what_makes_no_sense_is_refused(how: tuple[str, ...]) -> None:
    told = howdah("dsn", *how, dsn=SECRET)
    assert (told.code, told.out) == (2, "")
    assert "s3cret" not in told.err
