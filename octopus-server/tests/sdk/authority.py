"""A token authority: what the SDK and Octopus ask of Globus Auth, on loopback."""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

SERVICE = "2b9d2f5c-fa32-45b5-875b-b24cd343b917"
ACTION_ALL = f"https://auth.globus.org/scopes/{SERVICE}/action_all"
LIFETIME = 3600


@dataclass
class Authority:
    """Gives a client's own tokens for its id and secret, and says whose a token is."""

    clients: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, dict] = field(default_factory=dict)
    #: The requests to its endpoint of introspection.
    asked: int = 0
    url: str = ""

    def __enter__(self) -> Authority:
        authority = self

        class Handler(_Handler):
            pass

        Handler.authority = authority
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        # The service signs in by these.
        self.service = self.new_client()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def new_client(self) -> tuple[str, str]:
        """The id and the secret of a new client, which is its own subject."""
        client = (str(uuid.uuid4()), secrets.token_hex(16))
        self.clients[client[0]] = client[1]
        return client

    def revoke(self, client_id: str) -> None:
        """No token of this client holds any more."""
        for said in self.tokens.values():
            if said["sub"] == client_id:
                said["active"] = False

    def issue(self, client_id: str, resource_server: str, scope: str) -> dict:
        token = secrets.token_hex(24)
        self.tokens[token] = {
            "active": True,
            "sub": client_id,
            "client_id": client_id,
            "scope": scope,
            "exp": int(time.time()) + LIFETIME,
            "identity_set": [client_id],
        }
        return {
            "access_token": token,
            "expires_in": LIFETIME,
            "resource_server": resource_server,
            "token_type": "Bearer",
            "scope": scope,
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    authority: Authority

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        form = {k: v[0] for k, v in parse_qs(self.rfile.read(length).decode()).items()}
        client_id = self._client()
        if client_id is None:
            self._say(401, {"error": "invalid_client"})
        elif self.path == "/v2/oauth2/token":
            self._token(client_id, form)
        elif self.path == "/v2/oauth2/token/introspect":
            self.authority.asked += 1
            said = self.authority.tokens.get(form.get("token", ""))
            is_held = said is not None and said["active"]
            self._say(200, said if is_held else {"active": False})
        else:
            self._say(404, {"error": "not_found"})

    def do_GET(self) -> None:
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        said = self.authority.tokens.get(token)
        if self.path != "/v2/oauth2/userinfo":
            self._say(404, {"error": "not_found"})
        elif scheme != "Bearer" or not said or "openid" not in said["scope"].split():
            self._say(403, {"error": "forbidden"})
        else:
            self._say(200, {"sub": said["sub"]})

    def _token(self, client_id: str, form: dict[str, str]) -> None:
        if form.get("grant_type") != "client_credentials":
            self._say(400, {"error": "unsupported_grant_type"})
            return
        tokens = []
        for scope in form["scope"].split():
            server = "auth.globus.org" if scope == "openid" else SERVICE
            tokens.append(self.authority.issue(client_id, server, scope))
        # As Globus does where scopes depend on others, one more token comes along.
        tokens.append(self.authority.issue(client_id, "transfer.api.globus.org", "all"))
        self._say(200, {**tokens[0], "other_tokens": tokens[1:]})

    def _client(self) -> str | None:
        scheme, _, pair = self.headers.get("authorization", "").partition(" ")
        if scheme != "Basic":
            return None
        client_id, _, secret = base64.b64decode(pair).decode().partition(":")
        known = self.authority.clients.get(client_id)
        return client_id if known is not None and known == secret else None

    def _say(self, status: int, body: dict) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass
