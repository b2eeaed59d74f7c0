"""IANA names of cipher suites are translated to OpenSSL's names, and a list of suites selects TLS versions."""

from __future__ import annotations

import ssl

import pytest

from ottla.security.tls.cipher_suites import TLS_1_3, CipherSuiteError, enable, openssl_name


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
    ],
)
def test_iana_cipher_suite_name_is_translated_to_its_openssl_name(suite: str, name: str) -> None:
    assert openssl_name(suite) == name
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(f"{name}:@SECLEVEL=0")
    assert name in {cipher["name"] for cipher in context.get_ciphers()}


@pytest.mark.parametrize("suite", ["", "ECDHE-RSA-AES128-GCM-SHA256", "TLS_A_WITH_B", "TLS_RSA_WITH_RC4_128_MD5", *TLS_1_3])
def test_unknown_cipher_suite_names_have_no_openssl_name(suite: str) -> None:
    assert openssl_name(suite) is None


OLDER, NEWER = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize("side", [ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT])
@pytest.mark.parametrize(
    ("suites", "versions"),
    [
        ([], [OLDER, NEWER]),
        (["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], [OLDER]),
        (["TLS_AES_128_GCM_SHA256"], [NEWER]),
        (["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], [OLDER, NEWER]),
    ],
)
def test_cipher_suites_enable_only_tls_versions_that_have_one_of_them(
    side: int, suites: list[str], versions: list[ssl.TLSVersion]
) -> None:
    context = ssl.SSLContext(side)
    assert enable(context, suites, [OLDER, NEWER]) == versions
    older = {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"}
    assert suites == [] or not older - {"ECDHE-RSA-AES128-GCM-SHA256"} or OLDER not in versions


@pytest.mark.parametrize(
    ("suites", "says"),
    [
        (["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_NO_SUCH"], "TLS_NO_SUCH is not supported"),
        (["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], "none of the suites belongs to a version in ssl.enabled.protocols"),
    ],
)
def test_cipher_suites_that_cannot_be_used_are_refused(suites: list[str], says: str) -> None:
    with pytest.raises(CipherSuiteError, match=says):
        enable(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), suites, [NEWER])
