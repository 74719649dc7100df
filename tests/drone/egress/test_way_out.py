"""Programs in a real sandbox with the real proxy: what they reach, and what they do not."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from drone.egress.egress import Egress, EgressError
from drone.egress.http1 import MessageHead
from drone.egress.plan import ConfiguredSecret, EgressPlan
from tests.drone.egress.conftest import Make, Run
from tests.drone.egress.servers import authority_of, echo, host

TOKEN = "ghp_0123456789abcdef"
NAMES = {"a.test": ["127.0.0.1"], "evil.test": ["127.0.0.1"]}
"""What look-ups would say; loopback stands for the internet."""


def plan(*ports: int, **more: object) -> EgressPlan:
    hosts = tuple(f"a.test:{port}" for port in ports)
    return EgressPlan(allow=hosts, allow_private=hosts, names=NAMES, **more)  # type: ignore[arg-type]


async def test_programs_reach_what_is_allowed_and_nothing_else(run: Run, egress_by: Make) -> None:
    async with host() as there:
        egress = egress_by(plan(there.port))
        network = egress.network("order")
        python = f"import urllib.request as u; print(u.urlopen('http://a.test:{there.port}/python').status)"
        said = await run(
            network,
            f'curl -sS http://a.test:{there.port}/curl | head -n 1; python3 -c "{python}";'
            f"curl -sS http://evil.test:{there.port}/; curl -sS https://evil.test/;"
            f"curl -sS http://127.0.0.1:{there.port}/ --noproxy '' -x $http_proxy",
        )
        assert [head.start_line[1] for head, _ in there.asked] == [b"/curl", b"/python"]
    assert "host: a.test" in said and "\n200\n" in said
    assert said.count("is not allowed") == 2 and "403" in said
    assert network is not None and list(network.denied) == [
        f"evil.test:{there.port}",
        "evil.test:443",
        f"127.0.0.1:{there.port}",
    ]


DIRECT = """
import socket
for family, place in ((socket.AF_INET, ("127.0.0.1", %d)), (socket.AF_INET, ("93.184.216.34", 80)),
                      (socket.AF_INET6, ("::1", %d)), (socket.AF_INET6, ("2606:2800:220:1::1", 80))):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as one:
            one.settimeout(5)
            one.connect(place)
            print("REACHED", place)
    except OSError as error:
        print("no", error)
for name in ("a.test", "example.com", "secret.evil.test"):
    try:
        print("FOUND", socket.getaddrinfo(name, 80))
    except OSError as error:
        print("no", error)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    try:
        one.sendto(b"secret", ("9.9.9.9", 53))
        print("SENT")
    except OSError as error:
        print("no", error)
"""


async def test_nothing_can_be_reached_around_the_proxy(run: Run, egress_by: Make, tmp_path: Path) -> None:
    async with host() as there:
        (tmp_path / "direct.py").write_text(DIRECT % (there.port, there.port))
        network = egress_by(plan(there.port)).network("order")
        said = await run(network, "python3 direct.py")
        assert not there.connections
    assert len([line for line in said.splitlines() if line.startswith("no ")]) == 8
    assert not {"REACHED", "FOUND", "SENT"} & set(said.split())


async def test_an_allowed_name_with_a_private_address_is_not_reached(run: Run, egress_by: Make) -> None:
    async with host() as there:
        inside = EgressPlan(allow=(f"a.test:{there.port}", f"127.0.0.1:{there.port}"), names=NAMES)
        network = egress_by(inside).network("order")
        asked = "curl -sS --noproxy '' -x $http_proxy"
        said = await run(network, f"for h in a.test 127.0.0.1; do {asked} http://$h:{there.port}/; done")
        assert not there.connections
    assert said.count("is not a public address") == 2


async def test_a_service_of_mcc_is_not_reached_although_it_is_allowed(run: Run, egress_by: Make) -> None:
    async with host() as there:
        network = egress_by(plan(there.port, own=(f"127.0.0.1:{there.port}",))).network("order")
        said = await run(network, f"curl -sS http://a.test:{there.port}/")
        assert not there.connections
    assert "a service of this installation" in said


LOOK = "env; cat /proc/*/environ /proc/*/cmdline; grep -rl ghp_ /etc /tmp /dev/shm /workspace /run; ls -R /etc/ssl"


async def test_the_secret_goes_to_its_host_and_never_into_the_sandbox(run: Run, egress_by: Make) -> None:
    vouched, secure = authority_of("a.test")
    async with host(secure=secure) as there, host() as plain:
        secret = ConfiguredSecret("GITHUB_TOKEN", TOKEN, (f"a.test:{there.port}",))
        egress = egress_by(plan(there.port, plain.port, secrets=(secret,), trusted=vouched))
        network = egress.network("order")
        header = '-H "Authorization: token $GITHUB_TOKEN"'
        asked = f"curl -sS {header} https://a.test:{there.port}/; curl -sS {header} http://a.test:{plain.port}/; {LOOK}"
        said = await run(network, asked)
        assert network is not None
        stand_in = network.environment["GITHUB_TOKEN"]
        assert there.asked[0][0].all_of(b"authorization") == [b"token " + TOKEN.encode()]
        assert plain.asked[0][0].all_of(b"authorization") == [b"token " + stand_in.encode()]
    assert stand_in in said and TOKEN not in said and "ca-certificates.crt" in said


async def test_orders_have_stand_ins_and_authorities_of_their_own(egress_by: Make) -> None:
    secret = ConfiguredSecret("GITHUB_TOKEN", TOKEN, ("a.test:443",))
    egress = egress_by(plan(443, secrets=(secret,)))
    one, again, other = [egress.network(order) for order in ("one", "one", "other")]
    assert one is not None and again is not None and other is not None
    for network in (one, again, other):
        await network.prepare()
    assert one.environment == again.environment and one.files == again.files
    assert one.environment["GITHUB_TOKEN"] != other.environment["GITHUB_TOKEN"]
    assert one.files != other.files


async def test_an_order_does_not_reach_hosts_that_it_dropped(run: Run, egress_by: Make) -> None:
    async with host() as there:
        egress = egress_by(plan(there.port))
        for only in ([["other.test"]], [[f"a.test:{there.port}"], ["*.test"]]):
            said = await run(egress.network("order", only), f"curl -sS http://a.test:{there.port}/")
            assert "is not allowed" in said
        assert not there.connections
        assert egress.network("order", [["a.test"], []]) is None
        network = egress.network("order", [[f"*:{there.port}"], [f"*.test:{there.port}", "more.test"]])
        assert "host: a.test" in await run(network, f"curl -sS http://a.test:{there.port}/")


async def test_a_program_of_the_operators_reaches_its_own_hosts_and_gets_no_secret(run: Run, egress_by: Make) -> None:
    async with host() as there:
        secret = ConfiguredSecret("GITHUB_TOKEN", TOKEN, ("b.test:443",))
        hosts = (f"a.test:{there.port}",)
        egress = egress_by(EgressPlan(allow=("b.test:443",), allow_private=hosts, names=NAMES, secrets=(secret,)))
        network = egress.network_to(hosts)
        said = await run(network, f"curl -sS http://a.test:{there.port}/; env; curl -sS http://b.test:443/")
    assert "host: a.test" in said and "GITHUB_TOKEN" not in said
    assert list(network.denied) == ["b.test:443"]


async def test_after_its_end_a_program_leaves_no_listener(run: Run, egress_by: Make) -> None:
    async with host() as there:
        egress = egress_by(plan(there.port))
        network = egress.network("order")
        await run(network, f"curl -sS http://a.test:{there.port}/ &")
        assert network is not None
        with pytest.raises(EgressError, match="was not prepared"):
            await network.attach(os.pidfd_open(os.getpid()))
        await network.prepare()
        await egress.forget_order("order")
        with pytest.raises(EgressError, match="no way out"):
            await network.attach(os.pidfd_open(os.getpid()))


async def test_a_program_that_outlives_its_order_reaches_nothing(run: Run, egress_by: Make, tmp_path: Path) -> None:
    reached = asyncio.Event()

    def answer(head: MessageHead, body: bytes) -> bytes:
        reached.set()
        return echo(head, body)

    async with host(answer) as there:
        egress = egress_by(plan(there.port))
        asked = f"curl -sS http://a.test:{there.port}/"
        waits = "until test -e /workspace/over; do sleep 0.01; done"
        running = asyncio.create_task(run(egress.network("order"), f"{asked}; {waits}; {asked}"))
        await reached.wait()
        await egress.forget_order("order")
        (tmp_path / "over").touch()
        said = await running
    assert there.connections == 1 and "curl: (7)" in said


async def test_a_proxy_that_died_is_started_again(run: Run, egress_by: Make) -> None:
    async with host() as there:
        egress = egress_by(plan(there.port))
        assert "host: a.test" in await run(egress.network("order"), f"curl -sS http://a.test:{there.port}/")
        gone = pid_of(egress)
        pidfd = os.pidfd_open(gone)
        os.kill(gone, signal.SIGKILL)
        await ended(pidfd)
        said = await run(egress.network("order"), f"curl -sS http://a.test:{there.port}/")
    assert "host: a.test" in said and pid_of(egress) != gone


JOIN = """
import os
from drone.egress.joiner import Joiner
joiner = Joiner()
joiner.ask(os.pidfd_open(os.getpid()))
try:
    print("JOINED", joiner.answer())
except OSError as error:
    print(error)
"""


async def test_the_network_of_this_machine_is_not_joined() -> None:
    asked = await asyncio.create_subprocess_exec(sys.executable, "-c", JOIN, stdout=asyncio.subprocess.PIPE)
    assert b"cannot be joined" in (await asked.communicate())[0]


DRONE = """
import asyncio, os, signal
from drone.egress.egress import Egress
from drone.egress.plan import EgressPlan
from drone.sandbox.custody import Custody
async def main():
    egress = Egress(EgressPlan(allow=("a.test:80",)), Custody())
    await egress.network("order").prepare()
    print(egress._proxy._process.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_a_proxy_dies_with_its_drone() -> None:
    drone = await asyncio.create_subprocess_exec(sys.executable, "-c", DRONE, stdout=asyncio.subprocess.PIPE)
    assert drone.stdout is not None
    proxy = os.pidfd_open(int(await drone.stdout.readline()))
    drone.kill()
    await drone.wait()
    await ended(proxy)


async def ended(process: int) -> None:
    """Wait for the end of the process behind this pidfd, and close it."""
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(process, over.set)
    await asyncio.wait_for(over.wait(), 30)
    asyncio.get_running_loop().remove_reader(process)
    os.close(process)


def pid_of(egress: Egress) -> int:
    assert egress._proxy is not None
    return egress._proxy._process.pid
