"""Which network addresses this process may connect to, by host name and by what the name resolves to."""

from mcc.addresses.names import Endpoint, HostList, Refused, Url, endpoint_of, host_of, services_in, url_of
from mcc.addresses.rule import AddressRule, Resolve, look_up

__all__ = [
    "AddressRule",
    "Endpoint",
    "HostList",
    "Refused",
    "Resolve",
    "Url",
    "endpoint_of",
    "host_of",
    "look_up",
    "services_in",
    "url_of",
]
