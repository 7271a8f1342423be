"""Tests of endpoints behind TLS: the certificate is checked, and a private authority is set by a
variable."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.serving.conftest import Bench, running
from tests.serving.engine_double import EngineDouble
from tutti import storage
from tutti.tasks.agents.models.client import COMPLETIONS, Client
from tutti.tasks.serving.gateway.endpoints.endpoint import Endpoint, EndpointConfig, ProbeFailed
from tutti.tasks.serving.gateway.settings import GatewaySettings
from tutti.tasks.serving.wire import NoAnswer


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a self-signed certificate of 127.0.0.1, with its key in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


@asynccontextmanager
async def behind_tls(certificate: Path) -> AsyncIterator[tuple[EngineDouble, str]]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    double = EngineDouble()
    runner = web.AppRunner(double.application())
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield double, f"https://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


async def test_calls_go_through_tls_with_an_authority_of_ones_own(
    certificate: Path, catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with behind_tls(certificate) as (double, url):
        config = EndpointConfig(url=url, models=("m",), metrics=False)
        settings = GatewaySettings(policy="passthrough")
        async with running(catalog, settings, [config]) as (gateway, client):
            bench = Bench(gateway, client, double, catalog)
            for _ in range(3):
                answer = await bench.chat("p")
                assert answer.status == 200, await answer.text()
                assert (await answer.json())["choices"][0]["message"]["content"] == "hi"
            (endpoint,) = gateway.pools.all_endpoints()
            assert len(endpoint.origin._links) == 1
    assert len(double.requests) == 3


async def test_agents_call_a_gateway_elsewhere_through_tls(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One connection is used; without its authority there is no response, and nothing is sent."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with behind_tls(certificate) as (double, url):
        url = url.removesuffix("/v1")
        async with Client(url) as client:
            for _ in range(2):
                answer = await client.post(COMPLETIONS, [], b"{}")
                assert answer.status == 200
        monkeypatch.delenv("SSL_CERT_FILE")
        async with Client(url) as client:
            with pytest.raises(NoAnswer, match="certificate verify failed"):
                await client.post(COMPLETIONS, [], b"{}")
    assert len(double.requests) == 2


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    async with behind_tls(certificate) as (double, url):
        endpoint = Endpoint.make(EndpointConfig(url=url))
        with pytest.raises(ProbeFailed, match=r"certificate verify failed"):
            await endpoint.ask(b"GET", b"/v1/models")
        await endpoint.origin.close()
    assert double.requests == []
