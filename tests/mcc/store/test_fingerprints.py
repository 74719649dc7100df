"""Failures of one cause have one fingerprint, whatever ids, numbers, quotes, paths and addresses they name."""

import pytest

from mcc.contracts.status import FailureReason
from mcc.store.rows.facets import fingerprint, masked

ALIKE = [
    ("no file /work/a/b.py", "no file /srv/x.py"),
    ("no file src/a/b.py here", "no file docs/c.md here"),
    ("took 12.5 s of 10 s", "took 99 s of 10 s"),
    ("call 01a1d430-364d-7000-8000-9cf7f3a86dc4 failed", "call 01a1d431-0000-7000-8000-9cf7f3a86dc5 failed"),
    ("commit deadbeef01 is missing", "commit 0123456789abcdef0123456789abcdef01234567 is missing"),
    ('unknown name "one two"', 'unknown name "three"'),
    ("unknown name 'one'", "unknown name 'another one'"),
    ("unknown name `one`", "unknown name `two`"),
    ("https://one.example/v1?x=1 refused", "http://127.0.0.1:8420/ refused"),
    ("connecting to db.example:5432", "connecting to localhost:5433"),
    ("told someone@example.org", "told a.b@example.com"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_details_that_differ_in_what_varies_are_alike(one: str, other: str) -> None:
    assert masked(one) == masked(other)
    assert fingerprint(FailureReason.INTERNAL, "master", one) == fingerprint(FailureReason.INTERNAL, "master", other)


def test_another_reason_agent_or_sentence_is_another_failure() -> None:
    told = {
        fingerprint(FailureReason.INTERNAL, "master", "it broke"),
        fingerprint(FailureReason.MODEL_ERROR, "master", "it broke"),
        fingerprint(FailureReason.INTERNAL, "review", "it broke"),
        fingerprint(FailureReason.INTERNAL, "master", "it burnt"),
        fingerprint(None, "", ""),
    }
    assert len(told) == 5
    assert all(len(one) == 12 and int(one, 16) >= 0 for one in told)


def test_an_apostrophe_is_no_quote() -> None:
    assert masked("it doesn't know, and isn't told") == "it doesn't know, and isn't told"


@pytest.mark.parametrize("piece", ["a", "-", "a.", "a/", "'", '"', "0", "a:", "http:/", "a@", "\ud800", "é-1"])
def test_any_text_has_a_fingerprint(piece: str) -> None:
    assert len(fingerprint("internal", "master", piece * 100_000)) == 12
