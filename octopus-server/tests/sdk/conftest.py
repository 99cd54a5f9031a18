"""The official Python SDK against Octopus, once over the embedded broker and once over Apache Kafka.

    pytest octopus-server/tests/sdk --binary target/debug/octopus-server [--kafka HOST:PORT --password-file FILE]

The SDK is the one of PyPI, unchanged. Its sign-in goes to an authority of the tests, its calls to http://localhost:8000.
Kafka's address is a listener with SASL where the user `octopus` signs in by SCRAM-SHA-512 and may make users.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from authority import Authority
from service import Service

os.environ["DIASPORA_SDK_ENVIRONMENT"] = "local"
# The SDK keeps a file of tokens there.
os.environ["DIASPORA_USER_DIR"] = tempfile.mkdtemp(prefix="octopus-sdk-")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--binary", type=Path, required=True, help="octopus-server")
    parser.addoption("--kafka", help="Apache Kafka, beside the embedded broker")
    parser.addoption("--password-file", help="of its user octopus")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "service" in metafunc.fixturenames:
        clusters = ["embedded"]
        if metafunc.config.getoption("--kafka"):
            clusters.append("kafka")
        metafunc.parametrize("service", clusters, indirect=True, scope="session")


@pytest.fixture(scope="session")
def authority() -> Iterator[Authority]:
    with Authority() as authority:
        os.environ["GLOBUS_SDK_SERVICE_URL_AUTH"] = authority.url
        yield authority


@pytest.fixture(scope="session")
def service(
    request: pytest.FixtureRequest,
    authority: Authority,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp(request.param)
    option = request.config.getoption
    is_kafka = request.param == "kafka"
    if is_kafka:
        flags = [
            f"--bootstrap-servers={option('--kafka')}",
            "--kafka-security-protocol=SASL_PLAINTEXT",
            "--kafka-sasl-mechanism=SCRAM-SHA-512",
            "--kafka-sasl-username=octopus",
            f"--kafka-sasl-password-file={option('--password-file')}",
            "--namespaces=registry",
        ]
    else:
        flags = ["--dev", f"--dev-data={folder / 'data'}"]
    flags.append(f"--introspection-url={authority.url}v2/oauth2/token/introspect")
    client_id, secret = authority.service
    variables = {"SERVER_CLIENT_ID": client_id, "SERVER_SECRET": secret}
    service = Service(
        option("--binary").absolute(), folder, flags, variables, is_dev=not is_kafka
    )
    yield service
    try:
        service.stop()
        log = service.said()
        words = [secret, *authority.clients.values(), *authority.tokens]
        assert not [word for word in words if word in log], "a secret in the log"
        assert "panicked" not in log
    finally:
        service.process.kill()


@pytest.fixture
def new_client(authority: Authority, service: Service, monkeypatch: pytest.MonkeyPatch):
    """Makes the SDK's client, as another user each time."""
    from diaspora_event_sdk import Client

    def new() -> Client:
        client_id, secret = authority.new_client()
        monkeypatch.setenv("DIASPORA_SDK_CLIENT_ID", client_id)
        monkeypatch.setenv("DIASPORA_SDK_CLIENT_SECRET", secret)
        client = Client()
        assert client.subject_openid == client_id
        return client

    return new


@pytest.fixture
def client(new_client):
    return new_client()


@pytest.fixture
def topic(client) -> str:
    """A topic that is there."""
    topic = f"runs-{uuid.uuid4().hex[:8]}"
    assert topic in client.create_topic(topic)["topics"]
    return topic
