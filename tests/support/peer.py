"""A peer that answers requests with given bytes, whatever they ask."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull"


class Peer:
    """A peer behind TCP that answers each connection's request with the next of these bytes, and
    then closes; None: it stays silent."""

    def __init__(self, *answers: bytes | None, port: int = 0) -> None:
        self.requests: list[bytes] = []
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", port))
        self.url = "http://127.0.0.1:{1}".format(*self._listener.getsockname())
        self._silent = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Peer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._silent.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        held = []
        with suppress(OSError):
            for answer in self._answers:
                one = self._listener.accept()[0]
                self.requests.append(one.recv(2**16))
                if answer is None:
                    held.append(one)
                    continue
                one.sendall(answer)
                one.close()
        self._silent.wait()

    @property
    def keys(self) -> set[bytes]:
        lines = [line for one in self.requests for line in one.split(b"\r\n")]
        return {line for line in lines if line.startswith(b"Idempotency-Key: ")}
