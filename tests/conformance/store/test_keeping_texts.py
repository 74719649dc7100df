"""Texts by digest: stored once, read back exactly, on every store."""

import hashlib

import pytest

from tests.conformance.store.scene import Scene


@pytest.mark.parametrize(
    "text",
    ["", "plain", "é 日本 🎉 👩‍👩‍👧", "NUL \x00 and half a pair \ud83d", 'a "quoted" \\ line\n', "x" * 5_000_000],
    ids=["empty", "plain", "unicode", "hostile", "quoted", "five million characters"],
)
def test_a_kept_text_comes_back_exactly_under_its_digest(scene: Scene, text: str) -> None:
    digest = scene.store.texts.keep(text)
    assert digest == hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    assert scene.store.texts.kept(digest) == text


def test_keeping_a_text_again_changes_nothing(scene: Scene) -> None:
    assert scene.store.texts.keep("text") == scene.store.texts.keep("text")
    assert scene.store.texts.kept(scene.store.texts.keep("text")) == "text"


@pytest.mark.parametrize("digest", ["f" * 64, "", "%", "' OR 1=1", "\x00"])
def test_an_unknown_digest_is_a_key_error(scene: Scene, digest: str) -> None:
    with pytest.raises(KeyError):
        scene.store.texts.kept(digest)
