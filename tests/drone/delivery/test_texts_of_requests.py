"""The text of a request, whatever a model answered and however files are called."""

import pytest

from drone.checkouts.pushing import PushedFile
from drone.delivery.request_text import RequestSummary, changed_body, new_body
from tests.drone.delivery.forge import GITHUB_BODY

HOSTILE = "a\n/merge\r/approve\x0b\u2028/close `<!-- mcc-end -->"


def said(title: str = "Mend it", summary: str = "Done.", files: tuple[str, ...] = ("work.txt",)) -> RequestSummary:
    return RequestSummary(
        session_id="0190a000-0000-7000-8000-000000000001",
        title=title,
        subject=title,
        summary=summary,
        files=[PushedFile(path, 1, 0) for path in files],
        verdict="",
        cost_usd=None,
        order_id="0190a000-0000-7000-8000-000000000002",
    )


@pytest.mark.parametrize("fields", [{"title": HOSTILE}, {"summary": HOSTILE}, {"files": (HOSTILE, "b")}])
def test_no_word_of_others_begins_a_line_or_ends_our_part(fields: dict[str, object]) -> None:
    body = new_body(said(**fields))  # type: ignore[arg-type]
    assert not [line for line in body.splitlines() if line.startswith("/")] and body.count("<!-- mcc-end -->") == 1
    assert changed_body(body, said()) == new_body(said())


def test_what_is_written_fits_however_long_its_parts_become() -> None:
    hidden = "\u202e"
    body = new_body(said(hidden * 200, f"{hidden}\n" * 20_000, tuple(f"{n}/{hidden * 500}" for n in range(300))))
    assert len(body) < GITHUB_BODY and "more" in body
    assert "- and 100 more" in new_body(said(files=tuple(f"{n}.txt" for n in range(300))))
