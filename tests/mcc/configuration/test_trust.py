"""Trust is recorded by path and digest, in a file that nobody else can have written."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcc.configuration.places import NotPrivate, make_private_directory, read_private, refuse_others
from mcc.configuration.trust import TrustProblem, TrustStore, digest_of

HERE = Path("/checkout/mcc.toml")


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore.within(tmp_path / "config" / "mcc")


def test_nothing_is_trusted_before_somebody_says_so(store: TrustStore) -> None:
    assert store.digests("config") == {}
    assert not store.file.parent.exists()


def test_a_digest_is_trusted_for_its_kind_and_path_and_content_alone(store: TrustStore) -> None:
    store.keep("config", {HERE: digest_of(b"one")})
    store.keep("agents", {Path("/checkout/a.md"): digest_of(b"a"), Path("/checkout/b.md"): digest_of(b"b")})
    assert store.digests("config") == {str(HERE): digest_of(b"one")}
    assert list(store.digests("agents")) == ["/checkout/a.md", "/checkout/b.md"]


def test_trust_can_be_taken_back(store: TrustStore) -> None:
    store.keep("config", {HERE: digest_of(b"one")})
    store.forget("config", [HERE, Path("/never/trusted")])
    store.forget("nothing", [HERE])
    assert store.digests("config") == {}


def test_the_file_is_its_owner_s_alone(store: TrustStore) -> None:
    store.keep("config", {HERE: digest_of(b"one")})
    assert stat.S_IMODE(store.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.file.parent.stat().st_mode) == 0o700
    assert [file.name for file in store.file.parent.iterdir()] == [store.file.name]


def test_several_who_trust_at_once_do_not_lose_each_other_s_words(store: TrustStore) -> None:
    paths = [Path(f"/checkout/{number}") for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: store.keep("config", {path: digest_of(b"x")}), paths))
    assert set(store.digests("config")) == {str(path) for path in paths}


@pytest.mark.parametrize("content", ["", "[1]", '{"config": 1}', '{"config": {"/a": 1}}', "[" * 100_000])
def test_a_file_of_another_shape_is_told_and_believed_in_nothing(store: TrustStore, content: str) -> None:
    store.file.parent.mkdir(parents=True, mode=0o700)
    store.file.write_text(content)
    store.file.chmod(0o600)
    with pytest.raises(TrustProblem, match=r"trust\.json cannot be read"):
        store.digests("config")
    with pytest.raises(TrustProblem):
        store.keep("config", {HERE: "x"})
    assert store.file.read_text() == content


@pytest.mark.parametrize(("directory", "file"), [(0o770, 0o600), (0o707, 0o600), (0o700, 0o660), (0o700, 0o606)])
def test_what_others_could_have_written_is_not_believed(store: TrustStore, directory: int, file: int) -> None:
    store.keep("config", {HERE: digest_of(b"one")})
    store.file.chmod(file)
    store.file.parent.chmod(directory)
    with pytest.raises(TrustProblem, match="written by others"):
        store.digests("config")


def test_a_private_file_is_no_symlink_no_pipe_and_not_endless(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    file.chmod(0o600)
    assert read_private(file, 5) == b"12345"
    with pytest.raises(NotPrivate, match="larger"):
        read_private(file, 4)
    (tmp_path / "link").symlink_to(file)
    with pytest.raises(NotPrivate, match="symlink"):
        read_private(tmp_path / "link")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(NotPrivate, match="regular"):
        read_private(tmp_path / "pipe")


def test_a_private_directory_is_made_with_what_is_missing_above_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    try:
        make_private_directory(tmp_path / "a" / "b" / "c")
        make_private_directory(tmp_path / "a")
    finally:
        os.umask(before)
    assert {stat.S_IMODE(place.stat().st_mode) for place in tmp_path.rglob("*")} == {0o700}
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_private_directory(tmp_path / "file")


def test_what_belongs_to_another_user_is_not_believed(tmp_path: Path) -> None:
    """All files here belong to this user, so another owner is simulated by a modified stat result."""
    found = list(tmp_path.stat())
    found[stat.ST_UID] = os.geteuid() + 1
    with pytest.raises(NotPrivate, match="another user"):
        refuse_others(os.stat_result(found), tmp_path)
