"""The certificates that a client trusts: with TLS those that the system trusts, without it none."""

import ssl

import pytest

from mcc.client.address import verification


@pytest.mark.parametrize("url", ["https://mcc.example", "HTTPS://mcc.example:8443"])
def test_with_tls_certificates_are_verified_as_httpx_does(url: str) -> None:
    assert verification(url) is True


def test_without_tls_no_list_of_authorities_is_read_and_no_certificate_would_do() -> None:
    trusted = verification("http://127.0.0.1:8420")
    assert isinstance(trusted, ssl.SSLContext)
    assert trusted.cert_store_stats() == {"x509": 0, "crl": 0, "x509_ca": 0}
    assert trusted.verify_mode is ssl.CERT_REQUIRED and trusted.check_hostname
