"""Which network addresses this process may connect to, by host name and by what the name resolves to."""

from mcc.addresses.credentials import is_loopback, unreadable, without_password
from mcc.addresses.names import AddressRefused, Endpoint, HostList, Url, endpoint_of, host_of, services_in, url_of
from mcc.addresses.rule import AddressRule, Resolve, look_up

__all__ = [
    "AddressRefused",
    "AddressRule",
    "Endpoint",
    "HostList",
    "Resolve",
    "Url",
    "endpoint_of",
    "host_of",
    "is_loopback",
    "look_up",
    "services_in",
    "unreadable",
    "url_of",
    "without_password",
]
