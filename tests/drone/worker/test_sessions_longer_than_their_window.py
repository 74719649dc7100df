"""A session that outgrows its model's window several times still knows what was told in it, and nothing superseded."""

from pathlib import Path

from benchmarks.conversations.remembered import remembered_by
from benchmarks.conversations.talk import Place
from mcc.testing import temporary_store

TURNS, WINDOW = 44, 20_000


async def test_what_is_not_shown_any_more_is_found_and_corrected_numbers_are_never_answered(tmp_path: Path) -> None:
    store = temporary_store()
    try:
        done = await remembered_by(Place(store, tmp_path, lambda: 0), TURNS, WINDOW)
    finally:
        store.close()
    assert done.wrong == [] and done.superseded == 0
    assert done.searched > 0 and done.asked > done.searched, "some are shown, some are not"
    assert done.moments["full"] + done.moments["background"] > 1
