"""The decisions of the seccomp filter for both machine types, computed by an interpreter."""

import ctypes
import ctypes.util
import errno
import socket
import struct

import pytest

from drone.sandbox.seccomp import ARCHITECTURES, HIDDEN, LAST, MODES, NUMBERS, program
from scripts.container_seccomp import FILE, NEEDED, profile

KILL, ALLOW, ERRNO = 0x8000_0000, 0x7FFF_0000, 0x0005_0000
REFUSED, MISSING = ERRNO | errno.EPERM, ERRNO | errno.ENOSYS
MACHINES = sorted(ARCHITECTURES)
OTHER_AUDITS = {"i386": 0x40000003, "arm": 0x40000028, "riscv64": 0xC00000F3}
CLONE_NEW = {"ns": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000}
CLONE_NEW |= {"pid": 0x20000000, "net": 0x40000000}


def decision(machine: str, number: int, *arguments: int, audit: int | None = None, any_mode: bool = False) -> int:
    """The decision that the kernel would make: a small interpreter of the instructions that the filter uses."""
    code = program(machine, any_mode=any_mode)
    assert code is not None
    padded = (*arguments, *(0,) * (6 - len(arguments)))
    shown = struct.pack("=iIQ6Q", number, audit or ARCHITECTURES[machine].audit, 0, *padded)
    at, accumulator = 0, 0
    while True:
        operation, then, other, value = struct.unpack_from("=HBBI", code, 8 * at)
        at += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", shown, value)
            case 0x54:
                accumulator &= value
            case 0x06:
                return int(value)
            case 0x15 | 0x25 | 0x45:
                holds = {0x15: accumulator == value, 0x25: accumulator > value, 0x45: bool(accumulator & value)}
                at += then if holds[operation] else other
            case _:
                raise AssertionError(hex(operation))


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def number(machine: str, name: str) -> int:
    return int(getattr(ARCHITECTURES[machine], name))


def test_without_the_modes_the_filter_is_otherwise_the_same(machine: str) -> None:
    column = ARCHITECTURES[machine].column
    assert len(program(machine, any_mode=True) or b"") < len(program(machine) or b"")
    for call in set(range(LAST + 1)) - {made[column] for made in MODES.values()}:
        assert decision(machine, call) == decision(machine, call, any_mode=True)
    assert {decision(machine, made[column] or 1, *[0o6777] * 6, any_mode=True) for made in MODES.values()} == {ALLOW}


def test_listed_calls_are_refused_and_the_others_allowed(machine: str) -> None:
    column = ARCHITECTURES[machine].column
    refused = {numbers[column] for numbers in NUMBERS.values()} - {None}
    looked_at = {number(machine, name) for name in ("clone", "ioctl", "socket", "socketpair")}
    looked_at |= {at for calls in (HIDDEN, MODES) for call in calls.values() if (at := call[column]) is not None}
    for call in set(range(LAST + 1)) - looked_at:
        assert decision(machine, call) == (REFUSED if call in refused else ALLOW), call


@pytest.mark.parametrize("name", OTHER_AUDITS)
def test_calls_of_another_architecture_end_the_process(machine: str, name: str) -> None:
    assert {decision(machine, call, audit=OTHER_AUDITS[name]) for call in (0, 1, 20, 400)} == {KILL}


def test_newer_calls_and_x32_get_enosys(machine: str) -> None:
    assert {decision(machine, call) for call in (LAST + 1, 600, 0x4000_0000, 0x4000_0001, 0x4000_0208, -1)} == {MISSING}


def test_clone_with_new_namespaces_is_refused(machine: str) -> None:
    clone = number(machine, "clone")
    assert decision(machine, clone, 0x01200011) == ALLOW
    assert decision(machine, clone, 0x003D0F00) == ALLOW
    for flag in CLONE_NEW.values():
        assert decision(machine, clone, flag | 17) == REFUSED


def test_calls_whose_arguments_no_filter_sees_get_enosys(machine: str) -> None:
    column = ARCHITECTURES[machine].column
    assert {"clone3", "openat2"} == HIDDEN.keys()
    assert {decision(machine, call[column] or 0, 0) for call in HIDDEN.values()} == {MISSING}


CREATED, TEMPORARY = 0o100, 0o20000000
PLACES = {"chmod": 1, "creat": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mkdir": 1, "mkdirat": 2, "mknod": 1}
PLACES |= {"mknodat": 2, "open": 2, "openat": 3}
FLAGS = {"open": 1, "openat": 2}


@pytest.mark.parametrize("name", sorted(PLACES))
def test_no_call_gives_a_file_setuid_or_setgid(machine: str, name: str) -> None:
    call = MODES[name][ARCHITECTURES[machine].column]
    if call is None:
        assert machine == "aarch64" and name in ("chmod", "creat", "mkdir", "mknod", "open")
        return

    def made(mode: int, flags: int) -> int:
        arguments = [0xFFFF_FFFF_FFFF_FF9C] * 6
        arguments[PLACES[name]] = mode
        if name in FLAGS:
            arguments[FLAGS[name]] = flags
        return decision(machine, call, *arguments)

    for flags in (CREATED | 1, TEMPORARY | 0o200002, CREATED | 0xFFFF_FFFF_0000_0000):
        for mode in (0o4755, 0o2755, 0o6000, 0o104711, 0o2000 | 0xFFFF_FFFF_0000_0000):
            assert made(mode, flags) == REFUSED
        for mode in (0o777, 0o1777, 0o100644, 0o40755, 0, 0o644 | 0o4000 << 32):
            assert made(mode, flags) == ALLOW
    if name in FLAGS:
        assert made(0o6755, 0o2) == made(0xFFFF_FFFF, 0o202000) == ALLOW


def test_only_internet_sockets_are_allowed_whatever_the_upper_half_of_the_argument(machine: str) -> None:
    made = number(machine, "socket")
    for family in range(50):
        expected = ALLOW if family in (socket.AF_INET, socket.AF_INET6) else REFUSED
        assert decision(machine, made, family, 1) == expected
        assert decision(machine, made, family | 0xF_0000_0000, 1) == expected


def test_a_pair_of_sockets_cannot_be_connected_elsewhere(machine: str) -> None:
    pair, flags = number(machine, "socketpair"), socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        assert decision(machine, pair, socket.AF_UNIX, kind | flags) == ALLOW
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        assert decision(machine, pair, socket.AF_UNIX, kind | flags) == REFUSED
    assert decision(machine, pair, 40, socket.SOCK_STREAM) == REFUSED


def test_nothing_is_typed_into_a_terminal(machine: str) -> None:
    control = number(machine, "ioctl")
    assert decision(machine, control, 0, 0x5412) == REFUSED
    assert decision(machine, control, 0, 0xFFFF_FFFF_0000_5412) == REFUSED
    assert decision(machine, control, 0, 0x541C) == REFUSED
    assert decision(machine, control, 0, 0x5413) == ALLOW


def test_there_is_no_filter_for_an_unknown_machine_type() -> None:
    assert program("riscv64") is None


def test_the_numbers_are_those_of_libseccomp() -> None:
    name = ctypes.util.find_library("seccomp")
    if name is None:
        pytest.skip("libseccomp is not installed")
    resolve = ctypes.CDLL(name).seccomp_syscall_resolve_name_arch
    looked_at = ("clone", "ioctl", "socket", "socketpair")
    for machine, one in ARCHITECTURES.items():
        ours = {call: numbers[one.column] for call, numbers in {**NUMBERS, **HIDDEN, **MODES}.items()}
        ours |= {call: number(machine, call) for call in looked_at}
        theirs = {call: resolve(one.audit, call.encode()) for call in ours}
        # It answers -1 for what is newer than itself, and less for what this architecture does not have.
        assert {call: None if of < 0 else of for call, of in theirs.items() if of != -1} == {
            call: of for call, of in ours.items() if theirs[call] != -1
        }


def test_the_containers_profile_is_this_list_without_the_calls_that_make_a_sandbox() -> None:
    assert FILE.read_text() == profile()
    assert NUMBERS.keys() > NEEDED
