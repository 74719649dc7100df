"""Every kind of bad path, with the kernel's openat2 and with the walk that replaces it."""

import gc
import os
import socket
import stat
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from drone.sandbox.places.beneath import works
from drone.sandbox.places.paths import PathDenied, PathError, PathMissing, Workspace

Opener = Callable[[Path], Workspace]


def kernel(root: Path) -> Workspace:
    workspace = Workspace(root)
    if workspace.by_components:
        pytest.skip("this kernel has no openat2")
    return workspace


def components(root: Path) -> Workspace:
    return Workspace(root, by_components=True)


@pytest.fixture(params=[kernel, components])
def opened(request: pytest.FixtureRequest) -> Opener:
    opener: Opener = request.param
    return opener


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "app"
    (root / "src").mkdir(parents=True)
    (root / "src" / "main.py").write_text("inside")
    (tmp_path / "secret").write_text("outside")
    (tmp_path / "app-evil").mkdir()
    (tmp_path / "app-evil" / "secret").write_text("outside")
    return root


def read(workspace: Workspace, path: str) -> bytes:
    with workspace.open_file(path) as file:
        return file.read()


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "../../etc/passwd",
        "/etc/passwd",
        "src/../../secret",
        "src/../../app/../secret",
        "..",
        "../app/src/main.py",
        "./../secret",
        "//etc/passwd",
        "/proc/self/environ",
        "/proc/1/fd/3",
        "/dev/mem",
        "/sys/kernel/notes",
    ],
)
def test_a_path_that_leads_out_is_denied(opened: Opener, root: Path, path: str) -> None:
    with pytest.raises(PathDenied, match="outside the workspace"):
        read(opened(root), path)


def test_a_directory_whose_name_only_begins_like_the_root_is_outside(opened: Opener, root: Path) -> None:
    with pytest.raises(PathDenied, match="outside the workspace"):
        read(opened(root), f"{root}-evil/secret")
    with pytest.raises(PathDenied):
        read(opened(root), f"{root}/../app-evil/secret")


def test_paths_that_stay_inside_are_opened(opened: Opener, root: Path) -> None:
    workspace = opened(root)
    for path in ("src/main.py", "./src//main.py", "src/../src/main.py", str(root / "src/main.py")):
        assert read(workspace, path) == b"inside"


def test_an_absolute_path_may_spell_the_root_through_a_link(opened: Opener, root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    workspace = opened(tmp_path / "alias")
    assert read(workspace, str(tmp_path / "alias/src/main.py")) == b"inside"
    assert read(workspace, str(root / "src/main.py")) == b"inside"


def test_links_that_stay_inside_are_followed_for_reading(opened: Opener, root: Path) -> None:
    (root / "link").symlink_to("src")
    (root / "src" / "again.py").symlink_to("../link/main.py")
    (root / "chain").symlink_to("link/again.py")
    for path in ("link/main.py", "src/again.py", "chain", "link/../src/main.py"):
        assert read(opened(root), path) == b"inside"


@pytest.mark.parametrize("target", ["/etc/passwd", "../secret", "src/../../secret", "second", "/proc/self/environ"])
def test_a_link_that_leads_outside_is_denied(opened: Opener, root: Path, target: str) -> None:
    (root / "first").symlink_to(target)
    (root / "second").symlink_to("third")
    (root / "third").symlink_to("/etc/passwd")
    with pytest.raises(PathDenied, match="outside"):
        read(opened(root), "first")


def test_a_directory_link_that_leads_outside_is_denied(opened: Opener, root: Path) -> None:
    (root / "etc").symlink_to("/etc")
    with pytest.raises(PathDenied):
        read(opened(root), "etc/passwd")
    with pytest.raises(PathDenied):
        opened(root).open_directory("etc")


def test_circular_links_are_denied(opened: Opener, root: Path) -> None:
    (root / "loop").symlink_to("pool")
    (root / "pool").symlink_to("loop")
    with pytest.raises(PathDenied, match="links"):
        read(opened(root), "loop")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no /proc here")
@pytest.mark.parametrize("path", ["self/cwd/pyproject.toml", "self/root/etc/passwd", "self/exe", "self/fd/0"])
def test_magic_links_are_not_followed(opened: Opener, path: str) -> None:
    with pytest.raises(PathError):
        read(opened(Path("/proc")), path)


def test_only_regular_files_are_read_and_a_pipe_does_not_hang(opened: Opener, root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(PathDenied, match="named pipe"):
        read(opened(root), "pipe")
    with pytest.raises(PathError, match="is a directory"):
        read(opened(root), "src")
    with pytest.raises(PathError, match="is a directory"):
        read(opened(root), "")


def test_a_socket_is_not_read(opened: Opener) -> None:
    with tempfile.TemporaryDirectory(prefix="s") as short, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{short}/listening")
        with pytest.raises(PathDenied, match="socket"):
            read(opened(Path(short)), "listening")


def test_a_device_behind_a_link_is_not_read(opened: Opener, root: Path) -> None:
    (root / "zero").symlink_to("/dev/zero")
    with pytest.raises(PathDenied):
        read(opened(root), "zero")
    with pytest.raises(PathDenied, match="device"):
        read(opened(Path("/dev")), "zero")


def test_a_nul_is_denied(opened: Opener, root: Path) -> None:
    with pytest.raises(PathDenied, match="NUL"):
        read(opened(root), "src/main.py\0.txt")


def test_a_lone_surrogate_that_is_no_byte_is_denied(opened: Opener, root: Path) -> None:
    with pytest.raises(PathDenied, match="Unicode") as denied:
        read(opened(root), "src/\ud800")
    str(denied.value).encode()


def test_a_name_in_another_encoding_can_be_opened(opened: Opener, root: Path) -> None:
    name = b"caf\xe9.txt"
    Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_bytes(b"latin")
    assert read(opened(root), "caf\udce9.txt") == b"latin"


@pytest.mark.parametrize("name", ["line\nbreak", "tab\there", "\u202egnp.exe", "zero\u200bwidth", " padded "])
def test_strange_names_open_and_errors_about_them_stay_on_one_plain_line(opened: Opener, root: Path, name: str) -> None:
    (root / name).write_text("strange")
    assert read(opened(root), name) == b"strange"
    with pytest.raises(PathMissing) as missing:
        read(opened(root), f"{name}.not")
    assert str(missing.value).isprintable()


@pytest.mark.parametrize("path", ["n" * 5_000, "n" * 300, "d/" * 2_500 + "x"])
def test_a_path_that_is_too_long_is_an_error_and_is_not_repeated_whole(opened: Opener, root: Path, path: str) -> None:
    with pytest.raises(PathError, match="longer") as error:
        read(opened(root), path)
    assert len(str(error.value)) < 400


def test_missing_paths_and_denied_paths_raise_different_errors(opened: Opener, root: Path) -> None:
    with pytest.raises(PathMissing, match=r"src/nope\.py does not exist"):
        read(opened(root), "src/nope.py")
    with pytest.raises(PathError, match="not a directory"):
        read(opened(root), "src/main.py/deeper")
    with pytest.raises(PathError, match="not a directory"):
        read(opened(root), "src/main.py/")
    with pytest.raises(PathError, match="not a directory"):
        opened(root).open_directory("src/main.py")


def test_writing_goes_through_no_link_at_all(opened: Opener, root: Path, tmp_path: Path) -> None:
    (root / "inner").symlink_to("src")
    (root / "outer").symlink_to(tmp_path)
    (root / "dangling").symlink_to(tmp_path / "new")
    workspace = opened(root)
    for path in ("inner/new", "outer/new", "dangling", "outer", "src/../inner/new"):
        with pytest.raises(PathError):
            os.close(workspace.open_beneath(path, os.O_WRONLY | os.O_CREAT))
    with pytest.raises(PathError):
        os.close(workspace.open_beneath("dangling", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    assert not (tmp_path / "new").exists()
    assert not (root / "src/new").exists()


def test_a_new_file_is_created_inside_with_its_mode(opened: Opener, root: Path) -> None:
    fd = opened(root).open_beneath("src/new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(fd, b"text")
    os.close(fd)
    assert (root / "src/new").read_bytes() == b"text"
    assert stat.S_IMODE((root / "src/new").stat().st_mode) == 0o600


def test_a_link_swapped_in_during_the_open_never_leads_outside(opened: Opener, root: Path, tmp_path: Path) -> None:
    """Another thread keeps swapping the name between a directory inside and a link to one outside."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "main.py").write_text("outside")
    (root / "swap").mkdir()
    (root / "swap" / "main.py").write_text("inside")
    (root / "link").symlink_to(outside)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            os.rename(root / "swap", root / "kept")
            os.rename(root / "link", root / "swap")
            os.rename(root / "swap", root / "link")
            os.rename(root / "kept", root / "swap")

    swapping = threading.Thread(target=swap)
    workspace = opened(root)
    seen = {read(workspace, "swap/main.py")}
    swapping.start()
    try:
        for _ in range(3_000):
            try:
                seen.add(read(workspace, "swap/main.py"))
                os.close(workspace.open_beneath("swap/new", os.O_WRONLY | os.O_CREAT))
            except PathError:
                continue
    finally:
        done.set()
        swapping.join()
    assert seen == {b"inside"}
    assert os.listdir(outside) == ["main.py"]


def test_a_root_that_is_no_directory_is_an_error(opened: Opener, root: Path, tmp_path: Path) -> None:
    for bad in (tmp_path / "nope", root / "src" / "main.py"):
        with pytest.raises(PathError, match="not a directory"):
            Workspace(bad)


def test_descriptors_are_closed(opened: Opener, root: Path) -> None:
    def opened_there() -> list[str]:
        """The open descriptors below this directory; other threads of the process open others."""
        gc.collect()
        places = []
        for fd in os.listdir("/proc/self/fd"):
            with suppress(OSError):  # the one that lists them is gone by now
                places.append(os.readlink(f"/proc/self/fd/{fd}"))
        return [place for place in places if place.startswith(str(root.parent))]

    if not Path("/proc/self/fd").exists():
        pytest.skip("there is no /proc here")
    workspace = opened(root)
    assert opened_there()
    for path in ("src/main.py", "../x", "nope/deep/er", "src", "src/main.py/x"):
        try:
            read(workspace, path)
        except PathError:
            continue
    del workspace
    assert not opened_there()


def test_the_kernels_rule_is_used_where_there_is_one(root: Path) -> None:
    assert Workspace(root).by_components is not works()
    assert Workspace(root, by_components=True).by_components
