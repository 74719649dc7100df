"""The certificate authority of one order: signs only for the hosts that its secrets are sent to. Nothing is stored."""

import ipaddress
import os
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mcc.addresses import Endpoint

_VALID = timedelta(days=7)
_SKEW = timedelta(hours=1)


class Authority:
    """A certificate authority in memory, made when an order first uses the network. Only programs of that order trust
    it."""

    def __init__(self, hosts: Iterable[str]) -> None:
        """`hosts`: names or addresses that it may sign for; a name includes all names below it."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mcc: one order")])
        self._certificate = self._self_signed([_constraint(one) for one in hosts])
        self._contexts: dict[str, ssl.SSLContext] = {}

    @property
    def certificate(self) -> bytes:
        """Its own certificate, as PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def context(self, host: str) -> ssl.SSLContext:
        """A server context that answers as this host, over HTTP/1.1."""
        if host not in self._contexts:
            self._contexts[host] = self._make_context(host)
        return self._contexts[host]

    def _make_context(self, host: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        named = x509.SubjectAlternativeName([_general_name(host)])
        server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        empty = x509.Name([])
        # The subject is empty, so the alternative name must be critical (RFC 5280, 4.2.1.6).
        builder = self._builder(empty, key.public_key()).add_extension(named, critical=True)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = builder.add_extension(server, critical=False).add_extension(signer, critical=False)
        signed = certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        _load(context, signed + private)
        return context

    def _self_signed(self, hosts: list[x509.GeneralName]) -> x509.Certificate:
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(x509.NameConstraints(hosts, None), critical=True)
        own = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = builder.add_extension(own, critical=False).add_extension(_SIGNS, critical=True)
        return builder.sign(self._key, hashes.SHA256())

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - _SKEW).not_valid_after(now + _VALID)


_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


def _constraint(entry: str) -> x509.GeneralName:
    """A name constraint for a host; one for a name also permits all names below it."""
    endpoint = Endpoint(entry, 0)
    if endpoint.is_address:
        return x509.IPAddress(ipaddress.ip_network(entry))
    return x509.DNSName(entry)


def _general_name(host: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_address(host)) if Endpoint(host, 0).is_address else x509.DNSName(host)


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    """Load a certificate and its key through a memory file: Python loads them from files only."""
    fd = os.memfd_create("certificate")
    try:
        os.write(fd, pem)
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
