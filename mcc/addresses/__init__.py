"""Which addresses may be reached from here: hosts by their names, and by what the names lead to."""

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
