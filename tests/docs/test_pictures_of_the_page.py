"""The pictures of the page that `python -m tests.browser.pictures` makes are there, small, and shown."""

from pathlib import Path

from mcc.contracts.media import measured

DOCS = Path(__file__).parents[2] / "docs"
PICTURES = sorted((DOCS / "pictures").iterdir())
MOST_BYTES = 150_000


def test_each_picture_is_small_and_is_shown_by_the_how_to() -> None:
    page = (DOCS / "how-to" / "use-the-page.md").read_text("utf-8")
    shown = {name.partition(")")[0] for name in page.split("](../pictures/")[1:]}
    assert shown == {picture.name for picture in PICTURES} and 0 < len(shown) <= 10
    for picture in PICTURES:
        content = picture.read_bytes()
        assert measured(content).media_type == "image/png" and len(content) <= MOST_BYTES, picture.name
