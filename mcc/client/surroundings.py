"""What a client of a service takes from the environment of its process: a proxy and certificates, both on request."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcc.addresses import is_loopback, unreadable, without_password
from mcc.client.errors import Unreachable

if TYPE_CHECKING:
    import ssl

PROXY_SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """How a service is reached. `proxy` None: without one. `certificates`: a file and a directory of authorities that
    alone are trusted, "" for those of the system. `unused`: a variable that names a proxy for other programs."""

    proxy: str | None = None
    certificates: tuple[str, str] = ("", "")
    unused: str = ""

    def verification(self, url: str) -> "ssl.SSLContext":
        """What is verified of this service. Raises `Unreachable` for certificates that cannot be read.

        Without TLS it is an empty context: reading the list of authorities takes longer than a call.
        """
        import ssl

        if not url.lower().startswith("https:"):
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        file, directory = self.certificates
        try:
            if file or directory:
                return ssl.create_default_context(cafile=file or None, capath=directory or None)
        except (OSError, ssl.SSLError) as problem:
            name = "SSL_CERT_FILE" if file else "SSL_CERT_DIR"
            raise Unreachable(f"{name} names certificates that cannot be read ({problem}): correct it.") from problem
        import certifi

        trusted = ssl.create_default_context()
        # Besides those of the system, which a slim container may lack.
        trusted.load_verify_locations(certifi.where())
        return trusted

    def unanswered(self, url: str, why: str) -> Unreachable:
        """The error for a service that did not answer."""
        if self.proxy is not None:
            return Unreachable(
                f"The control service at {url} does not answer ({why}) through the proxy "
                f"{without_password(self.proxy)}, which MCC_PROXY names: is the proxy there, and does it lead there?"
            )
        hint = f" {self.unused} is not used for it: MCC_PROXY names a proxy." if self.unused else ""
        return Unreachable(f"The control service at {url} does not answer ({why}): is it running there?{hint}")


def surroundings_of(url: str, environ: Mapping[str, str] | None = None) -> Surroundings:
    """The surroundings of a client of the service at `url`; `environ` None: the environment of this process.

    A token goes through a proxy only inside TLS, and only through the one that `MCC_PROXY` names: to a service by http,
    and to one on this machine, there is never a proxy. `.netrc` is not read. Raises `Unreachable` for a proxy that is
    no address.
    """
    parts = urlsplit(url)
    if parts.scheme.lower() != "https":
        return Surroundings()
    from mcc.settings import FOREIGN_PROXIES, ambient

    environment = ambient(environ)
    certificates = environment.get("SSL_CERT_FILE", ""), environment.get("SSL_CERT_DIR", "")
    if is_loopback(parts.hostname or ""):
        return Surroundings(certificates=certificates)
    proxy = environment.get("MCC_PROXY")
    if proxy and (problem := _no_proxy(proxy)):
        raise Unreachable(f"MCC_PROXY: {problem}.")
    unused = next((name for name in FOREIGN_PROXIES if name in environment), "")
    return Surroundings(proxy, certificates, "" if proxy else unused)


def _no_proxy(address: str) -> str:
    """Why this is no address of a proxy; "" where it is one."""
    if address.partition("://")[0] not in PROXY_SCHEMES:
        return "the address of a proxy is http://HOST:PORT or https://HOST:PORT"
    if problem := unreadable(address):
        return problem
    parts = urlsplit(address)
    if not parts.hostname or parts.path not in ("", "/") or parts.query:
        return "the address of a proxy ends with its port: http://HOST:PORT"
    return ""
