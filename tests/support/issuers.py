"""An identity provider at the rim: a real HTTP server of discovery and keys, and its tokens."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from joserfc import jwk, jwt

AUDIENCE = "https://jedi.example.org"


class TestIssuer:
    """A provider whose keys can be replaced; `asked` counts requests for its keys."""

    __test__ = False

    def __init__(self) -> None:
        self.url, self.asked, self.away = "", 0, False
        self.revokes = True
        self.of_access: dict[str, Any] = {}
        self.of_id: dict[str, Any] = {}
        """Claims of the tokens of a code flow."""
        self.keys: list[jwk.RSAKey | jwk.ECKey] = []
        self.said: list[str] = []
        self.asked_for: list[dict[str, str]] = []
        self.rotate("one")

    def rotate(self, kid: str, kind: str = "RSA") -> None:
        """Have one key, and no other."""
        made: Any = {"kid": kid, "use": "sig"}
        key = (
            jwk.RSAKey.generate_key(2048, made)
            if kind == "RSA"
            else jwk.ECKey.generate_key("P-256", made)
        )
        self.keys = [key]

    def token(self, key: Any = None, header: Any = None, **changed: Any) -> str:
        """A token for ana, valid for five minutes; None leaves a claim out."""
        signer = key or self.keys[0]
        alg = "ES256" if isinstance(signer, jwk.ECKey) else "RS256"
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "id-of-ana",
            "iat": now,
            "exp": now + 300,
            "preferred_username": "ana-x",
            **changed,
        }
        given = {name: one for name, one in claims.items() if one is not None}
        return jwt.encode({"alg": alg, "kid": signer.kid, **(header or {})}, given, signer)

    def answer(self, path: str) -> dict[str, Any] | None:
        if path == "/.well-known/openid-configuration":
            more = {"revocation_endpoint": f"{self.url}/revoke"} if self.revokes else {}
            return {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "device_authorization_endpoint": f"{self.url}/device",
                "token_endpoint": f"{self.url}/token",
                "authorization_endpoint": f"{self.url}/authorize",
                **more,
            }
        if path != "/keys":
            return None
        self.asked += 1
        return {"keys": [one.as_dict(private=False) for one in self.keys]}

    def post(self, path: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """The device flow, or the code flow: each error in `said` is the answer to one request for
        a token."""
        self.asked_for.append(form)
        if path == "/device":
            return 200, {
                "device_code": "d",
                "user_code": "ABCD-EFGH",
                "expires_in": 60,
                "interval": 2,
                "verification_uri": f"{self.url}/page",
            }
        if path == "/revoke" and not self.said:
            return 200, {}
        if self.said:
            return 400, {"error": self.said.pop(0)}
        if form.get("grant_type") == "authorization_code":
            return 200, {
                "access_token": self.token(**self.of_access),
                "id_token": self.token(**{"aud": form["client_id"], **self.of_id}),
            }
        made = f"refresh-{len(self.asked_for)}"
        return 200, {"access_token": self.token(), "refresh_token": made, "expires_in": 300}


@contextmanager
def issuer() -> Iterator[TestIssuer]:
    """The provider, listening."""
    here = TestIssuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = here.answer(self.path)
            self.send_response(503 if here.away else 200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            status, found = here.post(self.path, dict(parse_qsl(body)))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield here
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
