"""Attacks from within the sandbox, each by a program that means it (rows 7, 9, 10, 19 to 23 and 39)."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drone.sandbox.bubblewrap import Bubblewrap, Profile
from drone.sandbox.child import Bounds, EndedProgram
from drone.sandbox.limits import ProgramLimits
from drone.sandbox.places.paths import Workspace
from drone.sandbox.protection.guard import ALSO_WHEN_MISSING
from drone.sandbox.protection.protected import NAMES
from drone.sandbox.seccomp import ARCHITECTURES, HIDDEN, MODES
from tests.drone.sandbox.machine import found_sandbox
from tests.drone.tools.git_scene import Scene

PYTHON = "/usr/bin/python3"
SOON = Bounds(30.0)
MB = 1 << 20
SECRET = "secret-of-the-host"


@pytest.fixture
def sandbox() -> Bubblewrap:
    return found_sandbox()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    made.mkdir()
    (tmp_path / "outside").write_text(SECRET)
    return made


@pytest.fixture(params=["read-only", "workspace-write"])
def profile(request: pytest.FixtureRequest) -> Profile:
    return Profile(write=request.param == "workspace-write")


async def attacked(
    sandbox: Bubblewrap, root: Path, argv: tuple[str, ...], profile: Profile, **more: Bounds
) -> EndedProgram:
    return await sandbox.run(argv, Workspace(root), more.get("bounds", SOON), profile=profile, merged=True)


async def by_python(sandbox: Bubblewrap, root: Path, source: str, profile: Profile) -> str:
    """What a script says, which begins with `import ctypes, errno, os, socket`."""
    if not os.path.exists(PYTHON):  # noqa: ASYNC240
        pytest.skip("there is no python3 in the system")
    whole = f"import ctypes, errno, os, socket\nlibc = ctypes.CDLL(None, use_errno=True)\n{source}"
    ended = await attacked(sandbox, root, (PYTHON, "-I", "-S", "-c", whole), profile)
    return ended.stdout.head.decode()


def refused(calls: dict[str, str]) -> str:
    """A script that makes these system calls, and names those that the kernel did not refuse with EPERM."""
    lines = [
        f"r = {call}\nif r != -1 or ctypes.get_errno() != errno.EPERM: print({name!r})" for name, call in calls.items()
    ]
    return "\n".join((*lines, "print('tried')"))


SYSTEM_CALLS = {
    "unshare(user)": "libc.unshare(0x10000000)",
    "unshare(mount)": "libc.unshare(0x20000)",
    "setns": "libc.setns(os.open('/proc/self/ns/net', 0), 0)",
    "mount": "libc.mount(b'x', b'/tmp', b'tmpfs', 0, None)",
    "umount": "libc.umount2(b'/tmp', 2)",
    "pivot_root": "libc.syscall({'x86_64': 155, 'aarch64': 41}[os.uname().machine], b'/tmp', b'/tmp')",
    "fsopen": "libc.syscall(430, b'tmpfs', 0)",
    "ptrace": "libc.ptrace(16, os.getppid(), 0, 0)",
    "ptrace(traceme)": "libc.ptrace(0, 0, 0, 0)",
    "process_vm_readv": "libc.process_vm_readv(1, None, 0, None, 0, 0)",
    "pidfd_getfd": "libc.syscall(438, os.pidfd_open(1), 0, 0)",
    "keyctl": "libc.syscall({'x86_64': 250, 'aarch64': 219}[os.uname().machine], 0, -3, 1)",
    "add_key": "libc.syscall({'x86_64': 248, 'aarch64': 217}[os.uname().machine], b'user', b'a', b'b', 1, -2)",
    "bpf": "libc.syscall({'x86_64': 321, 'aarch64': 280}[os.uname().machine], 0, None, 0)",
    "perf_event_open": "libc.syscall({'x86_64': 298, 'aarch64': 241}[os.uname().machine], None, 0, -1, -1, 0)",
    "userfaultfd": "libc.syscall({'x86_64': 323, 'aarch64': 282}[os.uname().machine], 1)",
    "io_uring_setup": "libc.syscall(425, 1, ctypes.create_string_buffer(200))",
    "open_by_handle_at": "libc.open_by_handle_at(0, None, 0)",
    "TIOCSTI": "libc.ioctl(0, 0x5412, b'x')",
    "sethostname": "libc.sethostname(b'x', 1)",
}


async def test_row_23_the_kernels_corners_are_closed(sandbox: Bubblewrap, root: Path, profile: Profile) -> None:
    assert await by_python(sandbox, root, refused(SYSTEM_CALLS), profile) == "tried\n"


SETTINGS = """
import sys
def walked(top):
    for path, directories, names in os.walk(top):
        # What these lead to is judged by where it lies.
        directories[:] = [name for name in directories if name not in ("fd", "map_files", "cwd", "root")]
        yield from (os.path.join(path, name) for name in names)
found = []
for path in (*walked("/proc"), *walked("/sys"), "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern"):
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
        found.append(path)
    except OSError:
        pass
for made in ("/proc/made", "/sys/made"):
    try: os.mkdir(made)
    except OSError: continue
    found.append(made)
print(len(found), *found[:3])
"""


async def test_row_23_no_setting_of_the_kernel_can_be_written(
    sandbox: Bubblewrap, root: Path, profile: Profile
) -> None:
    assert await by_python(sandbox, root, SETTINGS, profile) == "0\n"


SETID = """
import stat, struct
number = {numbers!r}[os.uname().machine]
at = -100
os.chdir("/tmp" if {read_only} else ".")
given = os.open("given", os.O_RDWR | os.O_CREAT, 0o755)
for mode in (0o4755, 0o2755, 0o6777):
    how = struct.pack("=QQQ", os.O_CREAT | os.O_WRONLY, mode, 0)
    for call in (
        ("chmod", b"given", mode), ("fchmod", given, mode), ("fchmodat", at, b"given", mode), ("creat", b"a", mode),
        ("fchmodat2", at, b"given", mode, 0), ("mknod", b"b", stat.S_IFREG | mode, 0), ("mkdir", b"c", mode),
        ("mknodat", at, b"d", stat.S_IFREG | mode, 0), ("mkdirat", at, b"e", mode), ("open", b"f", 0o101, mode),
        ("openat", at, b"g", 0o101, mode), ("openat", at, b".", os.O_TMPFILE | 2, mode),
        ("openat2", at, b"h", how, len(how)),
    ):
        if call[0] not in number: continue
        answer = libc.syscall(number[call[0]], *call[1:])
        if answer != -1 or ctypes.get_errno() != (errno.ENOSYS if call[0] == "openat2" else errno.EPERM):
            print(call, answer, ctypes.get_errno())
for version in (b"\\0\\0\\0\\2" + b"\\xff" * 4 + bytes(12), b"\\0\\0\\0\\3" + b"\\xff" * 4 + bytes(16)):
    try:
        os.setxattr("given", "security.capability", version)
        print("has capabilities")
    except OSError as error: print(error.errno == errno.EPERM)
print([name for name in os.listdir(".") if os.lstat(name).st_mode & 0o6000])
"""


async def test_row_21_no_file_gets_setuid_setgid_or_capabilities(
    sandbox: Bubblewrap, root: Path, profile: Profile
) -> None:
    calls = {**MODES, "openat2": HIDDEN["openat2"]}
    numbers = {
        machine: {name: of[one.column] for name, of in calls.items() if of[one.column] is not None}
        for machine, one in ARCHITECTURES.items()
    }
    source = SETID.format(numbers=numbers, read_only=not profile.write).replace("\\\\", "\\")
    assert await by_python(sandbox, root, source, profile) == "True\nTrue\n[]\n"


async def test_row_23_no_program_makes_namespaces(sandbox: Bubblewrap, root: Path, profile: Profile) -> None:
    script = "for how in -U -Ur -Urm -n -p -m; do unshare $how true 2>/dev/null && echo made $how; done; echo tried"
    assert (await attacked(sandbox, root, ("sh", "-c", script), profile)).stdout.head == b"tried\n"


FAMILIES = ("AF_UNIX", "AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG", "AF_BLUETOOTH", "AF_CAN", "AF_TIPC")


async def test_row_23_sockets_of_no_other_family_are_opened(sandbox: Bubblewrap, root: Path, profile: Profile) -> None:
    source = (
        f"for name in {FAMILIES!r}:\n for kind in (1, 2, 3, 5):\n  try:\n"
        "   socket.socket(getattr(socket, name), kind)\n   print(name, kind)\n  except PermissionError: pass\n"
        "for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):\n try:\n  socket.socketpair(socket.AF_UNIX, kind)\n"
        "  print('pair', kind)\n except PermissionError: pass\n"
        "one, other = socket.socketpair()\none.sendall(b'works')\nprint(other.recv(9).decode())"
    )
    assert await by_python(sandbox, root, source, profile) == "works\n"


@pytest.fixture
def listening(root: Path) -> Iterator[socket.socket]:
    """A service behind a socket file of the workspace, as of a database, or of Docker."""
    service = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    try:
        os.chdir(root)
        service.bind("docker.sock")
    finally:
        os.chdir(here)
    service.listen()
    service.settimeout(0)
    yield service
    service.close()


async def test_row_23_a_service_behind_a_socket_file_is_not_reached(
    sandbox: Bubblewrap, root: Path, profile: Profile, listening: socket.socket
) -> None:
    source = (
        "for make in (lambda: socket.socket(socket.AF_UNIX), lambda: socket.socketpair()[0]):\n"
        " for path in ('docker.sock', '/var/run/docker.sock', '\\0abstract'):\n"
        "  try:\n   make().connect(path)\n   print('reached', path)\n  except OSError: pass\nprint('tried')"
    )
    assert await by_python(sandbox, root, source, profile) == "tried\n"
    with pytest.raises(BlockingIOError):
        listening.accept()


@pytest.mark.parametrize(
    "path", ["/proc/1/environ", "/proc/1/fd/3", "/proc/1/root/etc/passwd", "/proc/kcore", "/dev/mem", "/etc/shadow"]
)
async def test_row_10_what_is_the_hosts_is_not_there(
    sandbox: Bubblewrap, root: Path, profile: Profile, path: str
) -> None:
    ended = await attacked(sandbox, root, ("cat", path), profile)
    assert ended.status != 0 or ended.stdout.total == 0


async def test_row_10_no_process_tells_where_the_workspace_lies(
    sandbox: Bubblewrap, root: Path, profile: Profile
) -> None:
    script = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ; ls -la /proc/1/fd /proc/self/fd"
    said = (await attacked(sandbox, root, ("sh", "-c", script), profile)).stdout.head
    assert str(root).encode() not in said and b"--bind" not in said and b"--setenv" not in said


def test_row_39_nothing_of_our_environment_is_there(sandbox: Bubblewrap, root: Path, profile: Profile) -> None:
    """In a process that has a key: what is in there goes nowhere."""
    script = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom drone.sandbox.bubblewrap import Bubblewrap, Profile\n"
        "from drone.sandbox.child import Bounds\nfrom drone.sandbox.places.paths import Workspace\n"
        "ended = asyncio.run(Bubblewrap.found().run(('sh', '-c', 'env; cat /proc/*/environ'), Workspace(sys.argv[1]), "
        "Bounds(20.0), profile=Profile(write=sys.argv[2] == 'True')))\nprint(ended.stdout.head.decode())"
    )
    environment = {**os.environ, "SOME_API_KEY": SECRET, "AWS_SECRET_ACCESS_KEY": SECRET, "LD_PRELOAD_X": SECRET}
    ran = subprocess.run(
        (sys.executable, "-c", script, str(root), str(profile.write)),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "PATH=/usr" in ran.stdout and SECRET not in ran.stdout


@pytest.mark.parametrize("cwd", ["..", "/", "../..", "/etc", "sub/../.."])
async def test_row_22_outside_of_the_workspace_there_is_nothing_of_the_host(
    sandbox: Bubblewrap, root: Path, profile: Profile, cwd: str
) -> None:
    """Wherever a caller would let a program begin: the root is the sandbox's."""
    ended = await sandbox.run(("sh", "-c", "cat outside ../outside; ls /home /root"), Workspace(root), SOON, cwd=cwd)
    assert SECRET.encode() not in ended.stdout.head


async def test_row_21_what_tries_to_stay_is_gone(sandbox: Bubblewrap, root: Path, profile: Profile) -> None:
    nap = str(200_000 + os.getpid())
    script = f"for how in 'setsid' 'nohup' 'setsid nohup' 'env -i'; do ($how sleep {nap} >/dev/null 2>&1 &) ; done"
    assert (await attacked(sandbox, root, ("sh", "-c", script), profile)).status == 0
    assert not [pid for pid in filter(str.isdigit, os.listdir("/proc")) if f"sleep\0{nap}" in command_of(pid)]


def command_of(pid: str) -> str:
    try:
        return Path("/proc", pid, "cmdline").read_text()
    except OSError:
        return ""


async def test_row_21_nobody_becomes_somebody_else(sandbox: Bubblewrap, root: Path, profile: Profile) -> None:
    others = [uid for uid in (0, 1, 1000, 65534) if uid != os.geteuid()]
    source = f"print([libc.setuid(uid) == 0 for uid in {others}].count(True), libc.prctl(39, 0, 0, 0, 0))"
    assert await by_python(sandbox, root, source, profile) == "0 1\n"


async def test_row_21_a_fork_bomb_ends_with_its_call_and_takes_no_more_than_it_may(
    sandbox: Bubblewrap, root: Path, profile: Profile
) -> None:
    few = Bubblewrap(sandbox.program, limits=ProgramLimits(processes=40))
    source = (
        "import time\nmade = 0\ntry:\n while made < 2000:\n  if os.fork() == 0: time.sleep(100)\n  made += 1\n"
        "except OSError as error: print('stopped', error.errno == errno.EAGAIN)\nprint(made < 320)"
    )
    if os.geteuid() == 0 and not (few.meter.by_namespace or few.meter.holds("pids")):
        pytest.skip("the processes of root are not counted here")
    assert await by_python(few, root, source, profile) == "stopped True\nTrue\n"


async def test_row_21_filling_tmp_stops_at_its_size(sandbox: Bubblewrap, root: Path, profile: Profile) -> None:
    small = Bubblewrap(sandbox.program, limits=ProgramLimits(tmp_bytes=4 * MB))
    script = (
        "for place in /tmp /dev/shm; do head -c 64M /dev/zero > $place/a; head -c 64M /dev/zero > $place/b;"
        "wc -c < $place/a; done; echo x > /dev/x; echo x > /x; mkdir /run"
    )
    said = (await attacked(small, root, ("sh", "-c", script), profile)).stdout.head.decode()
    sizes = [int(line) for line in said.splitlines() if line.isdigit()]
    assert len(sizes) == 2 and max(sizes) <= 4 * MB and said.count("No space left") == 4
    assert said.count("ead-only file system") == 3


async def test_row_21_a_file_has_a_size_and_a_process_its_memory(
    sandbox: Bubblewrap, root: Path, profile: Profile
) -> None:
    small = Bubblewrap(sandbox.program, limits=ProgramLimits(file_bytes=MB, memory_bytes=512 * MB))
    source = (
        "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "try: open('/tmp/a', 'wb').write(b'x' * (2 << 20))\n"
        "except OSError as error: print(error.errno == errno.EFBIG)\n"
        "try: bytearray(1 << 30)\nexcept MemoryError: print('no memory')"
    )
    said = await by_python(small, root, source, profile)
    assert said.startswith("True\n") and (said == "True\nno memory\n" or small.meter.holds("memory"))


CHANGES = (
    "echo x > {0}",
    "rm -rf {0}",
    "mv {0} /tmp/x",
    "mkdir -p {0}",
    "ln -sf /tmp/x {0}",
    "cp /dev/null {0}",
    "touch {0}",
)


SOME_NAMES = sorted({*ALSO_WHEN_MISSING, *NAMES[::5]})
"""Enough of the table: its names are held by one rule."""


@pytest.mark.parametrize("there", [True, False], ids=["there", "missing"])
@pytest.mark.parametrize("inside", ["", "vendor/part/"], ids=["root", "nested"])
async def test_rows_7_and_9_protected_paths_are_not_changed(
    sandbox: Bubblewrap, root: Path, there: bool, inside: str
) -> None:
    """Tried in all ways, of the workspace and of a repository in it: afterwards everything is as it was."""
    if inside:
        Scene(root / inside).commit("Inner", {"b.txt": ""})
    Scene(root).commit("Outer", {"a.txt": ""})
    in_git = tuple(f".git/{name}" for name in ("config", "hooks/pre-commit", "info/attributes", "commondir"))
    paths = [f"{inside}{name}" for name in (*SOME_NAMES, ".env.production", *in_git)]
    for path in paths if there else ():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if not path.endswith("commondir"):
            (root / path).write_text("[ours]\n")
    before = contents(root)
    script = "\n".join(change.format(path) for path in paths for change in CHANGES)
    ended = await attacked(
        sandbox, root, ("sh", "-c", f"({script}) >/dev/null 2>&1; echo done > done"), Profile(write=True)
    )
    after = contents(root)
    assert after.pop("done") == b"done\n" and ended.status == 0
    assert after == before, ended.undone


def contents(root: Path) -> dict[str, bytes]:
    """Of all files but what was put aside."""
    ours = (".mcc-workspace", ".gitignore")
    kept = (path for path in root.rglob("*") if "refused" not in str(path) and path.parts[-2:] != ours)
    return {str(path.relative_to(root)): path.read_bytes() for path in kept if path.is_file()}


async def test_row_19_a_read_only_call_changes_nothing(sandbox: Bubblewrap, root: Path) -> None:
    (root / "file").write_text("ours")
    script = (
        "sort --compress-program=sh file -o file; sed -i s/ours/x/ file; awk 'BEGIN{system(\"echo x > file\")}';"
        "find . -name file -delete; cp /dev/null file; rm -rf ./*; mount -o remount,rw /workspace; echo x > new"
    )
    await attacked(sandbox, root, ("sh", "-c", script), Profile())
    assert (root / "file").read_text() == "ours" and os.listdir(root) == ["file"]


SHAPES = (
    "cd .. && cat outside",
    "cat $(echo ../outside)",
    "cat ${IFS}../outside",
    "x='cat ../outside'; eval $x; echo ${x@P}",
    "exec 3<../outside; cat <&3",
    "cat <<E\n$(cat ../outside)\nE",
    "; ".join(["true"] * 60 + ["cat ../outside"]),
    f"true {'x' * 20_000}; cat ../outside",
    "cat\r../outside",
    "`cat ../outside`",
)


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
async def test_row_20_however_a_command_is_written_the_wall_is_the_same(
    sandbox: Bubblewrap, root: Path, profile: Profile, shape: str
) -> None:
    said = (await attacked(sandbox, root, ("bash", "-c", shape), profile)).stdout.head
    assert SECRET.encode() not in said


async def test_row_24_there_is_no_way_out(sandbox: Bubblewrap, root: Path, profile: Profile) -> None:
    source = (
        "for family, address in ((2, ('127.0.0.1', 6379)), (2, ('192.0.2.1', 80)), (10, ('2001:db8::1', 80))):\n"
        " for kind in (1, 2):\n"
        "  try:\n   way = socket.socket(family, kind)\n   way.settimeout(1)\n   way.connect(address)\n"
        "   way.send(b'x')\n   print('sent', address, kind)\n  except OSError: pass\n"
        "try: socket.getaddrinfo('example.org', 80)\nexcept OSError: print('no name')"
    )
    said = await by_python(sandbox, root, source, profile)
    # A datagram to nobody on one's own loopback goes nowhere.
    assert said.replace("sent ('127.0.0.1', 6379) 2\n", "") == "no name\n"
