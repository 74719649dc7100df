"""Variables that Kubernetes sets for each Service of a namespace, and that look like settings of ours.

A Service called `mcc` gives every container of the namespace `MCC_PORT=tcp://10.96.1.2:8420`, `MCC_SERVICE_HOST` and
more; one called `mcc-flower` gives `MCC_FLOWER_PORT`. Source: Kubernetes, "Accessing the Service", environment
variables; the form is that of Docker's links.
"""

from collections.abc import Mapping

_HOST, _PORT = "_SERVICE_HOST", "_PORT"
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_PARTS = ("PROTO", "PORT", "ADDR")


def without_service_links(environ: Mapping[str, str], prefix: str) -> Mapping[str, str]:
    """`environ` without the variables with this prefix that describe a Service, and not a setting."""
    stems = {name.removesuffix(_HOST) for name in environ if name.startswith(prefix[:-1]) and name.endswith(_HOST)}
    if not stems:
        return environ
    return {name: value for name, value in environ.items() if not any(_links(name, value, stem) for stem in stems)}


def mistaken_links(environ: Mapping[str, str], prefix: str, known: Mapping[str, object]) -> list[str]:
    """The settings of `known`, by their variables, that such a description has the name of."""
    left = without_service_links(environ, prefix)
    return [name for name in sorted(environ) if name in known and name not in left]


def _links(name: str, value: str, stem: str) -> bool:
    """Whether this variable describes the Service whose name gives `stem`."""
    rest = name.removeprefix(stem) if name.startswith(stem) else ""
    if rest == _PORT:
        return _is_address(value)
    if rest == _HOST or rest == "_SERVICE_PORT" or rest.startswith("_SERVICE_PORT_"):
        return True
    number, _, tail = rest.removeprefix(f"{_PORT}_").partition("_")
    protocol, _, part = tail.partition("_")
    described = protocol in _PROTOCOLS and part in ("", *_PARTS)
    return rest.startswith(f"{_PORT}_") and number.isdecimal() and described


def _is_address(value: str) -> bool:
    """Whether this is `tcp://HOST:PORT`, which no setting of a port can be."""
    protocol, mark, _ = value.partition("://")
    return bool(mark) and protocol.upper() in _PROTOCOLS
