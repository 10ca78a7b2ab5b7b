"""A witness over HTTP: `python -m storage.witness_server --key KEYFILE --log VKEY --state DIR`.

Bound to this machine unless --host says otherwise. Nothing of a request is trusted: its size and time are bounded.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType

from storage.errors import KeyFileError, NoteError, StorageError
from storage.notes.keys import VerifierKey, read_key
from storage.witness import BODY_BYTES_MAX, Answer, Witness

REQUEST_SECONDS_MAX = 10.0
CONNECTION_SECONDS_MAX = 60.0
CONNECTIONS_MAX = 64


class WitnessServer(ThreadingHTTPServer):
    """Serves one witness; `address` is where. Connections above 64 at a time are closed unheard."""

    daemon_threads = True
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, witness: Witness, host: str = "127.0.0.1", port: int = 0) -> None:
        self.witness = witness
        self._free = threading.BoundedSemaphore(CONNECTIONS_MAX)
        super().__init__((host, port), _Handler)

    @property
    def address(self) -> str:
        """The submission prefix."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def process_request(self, request: object, client_address: object) -> None:
        """Start a thread for a connection, unless too many are there."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)  # type: ignore[arg-type]
            return
        super().process_request(request, client_address)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Serve a connection."""
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that breaks is its own end."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "droveway-witness"
    sys_version = ""
    timeout = REQUEST_SECONDS_MAX
    server: WitnessServer

    def handle(self) -> None:
        """All requests of a connection, which ends after a minute whatever it does."""
        end = threading.Timer(CONNECTION_SECONDS_MAX, self._hang_up)
        end.daemon = True
        end.start()
        try:
            super().handle()
        finally:
            end.cancel()

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_POST(self) -> None:
        """POST /add-checkpoint."""
        if self.path != "/add-checkpoint":
            self._refuse(404, "expected POST /add-checkpoint")
            return
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 10) or "Transfer-Encoding" in self.headers:
            self._refuse(411, "expected a Content-Length")
            return
        if int(length) > BODY_BYTES_MAX:
            self._refuse(413, f"expected at most {BODY_BYTES_MAX} bytes")
            return
        body = self._body(int(length))
        if body is None:
            self._refuse(408, "the request did not come in time")
            return
        try:
            self._answer(self.server.witness.add_checkpoint(body))
        except (StorageError, OSError) as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            self._refuse(500, "this witness can't reach its memory")

    def do_GET(self) -> None:
        """Nothing is read here."""
        self._refuse(404, "expected POST /add-checkpoint")

    do_HEAD = do_PUT = do_DELETE = do_GET  # noqa: N815

    def _body(self, length: int) -> bytes | None:
        """The body; None where it does not come within ten seconds, however slowly it drips."""
        end, parts = time.monotonic() + REQUEST_SECONDS_MAX, b""
        while len(parts) < length:
            if time.monotonic() > end:
                return None
            part = self.rfile.read1(length - len(parts))
            if not part:
                return None
            parts += part
        return parts

    def _refuse(self, status: int, text: str) -> None:
        self.close_connection = True
        self._answer(Answer(status, f"{text}\n".encode()))

    def _answer(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are nobody's news."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; serves until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m storage.witness_server", description="A C2SP witness over HTTP.")
    parser.add_argument("--key", metavar="KEYFILE", required=True, help="made by: droveway keygen --witness")
    parser.add_argument("--log", metavar="VKEY", action="append", required=True, help="a log to witness; repeatable")
    parser.add_argument("--state", metavar="DIR", required=True, help="what was seen; never to be lost or shared")
    parser.add_argument("--host", default="127.0.0.1", help="127.0.0.1: this machine only")
    parser.add_argument("--port", type=int, default=0, help="0: one that is free")
    given = parser.parse_args(arguments)
    try:
        logs = [VerifierKey.parse(text) for text in given.log]
        witness = Witness(given.state, read_key(given.key), logs)
    except (NoteError, KeyFileError, ValueError) as error:
        hint = getattr(error, "hint", "")
        parser.error(f"{error} (hint: {hint})" if hint else str(error))
    except (OSError, StorageError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    try:
        server = WitnessServer(witness, given.host, given.port)
    except OSError as error:
        print(f"error: {given.host}:{given.port}: {error.strerror}", file=sys.stderr)
        return 2
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"listening on {server.address}", flush=True)
        stopping.wait()
        server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
