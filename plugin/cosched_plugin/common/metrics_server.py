"""The HTTP server of a page for Prometheus: it serves only GET and HEAD of /metrics, and only on this machine.

Loaded where such a server is asked for: Python's own takes a tenth of a scheduler's start.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar, Final

from cosched_plugin.common.errors import UsageError
from cosched_plugin.common.status import Status
from cosched_plugin.protocol.endpoint import why_not
from cosched_terminal.console import Log

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_S: Final = 1.0  # time that a whole request may take
MOST_OPEN: Final = 32  # connections; one more cuts off the oldest, so that slow ones keep nobody out
POLL_S: Final = 0.5  # delay until `close` is noticed


def serve_metrics(address: str, status: Status, log: Log) -> MetricsServer:
    """Serve the status of a scheduler, and say where."""
    metrics = MetricsServer(address, lambda: status.prometheus("cosched_plugin"))
    log("metrics", f"metrics at http://{metrics.address}/metrics", address=metrics.address)
    return metrics


class MetricsServer:
    """Serves the text that ``page`` returns, from construction to `close`, in daemon threads.

    ``page`` is called in one of them at a time.

    ``address`` is HOST:PORT with a loopback address, port 0 for any; ``.address`` is the one actually bound. Raises UsageError for
    another address, and for one that cannot be bound.
    """

    def __init__(self, address: str, page: Callable[[], str]) -> None:
        reason = why_not(f"tcp://{address}")
        if reason is not None:
            raise UsageError(f"{address}: {reason}")
        host, _, port = address.rpartition(":")
        number = 0 if port == "*" else int(port)
        server_class = _ServerOf6 if host.startswith("[") else _Server
        try:
            self._server = server_class((host.strip("[]"), number), _Handler)
        except OSError as error:
            raise UsageError(f"{address}: cannot listen there: {error.strerror or error}") from error
        self._server.page = page
        self.address = f"{host}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_S,), name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Release the address; takes at most 1.5 seconds."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A thread for each connection; one page at a time."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False  # threads end within `REQUEST_S`
    request_queue_size = 128
    page: Callable[[], str]

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.one_page = threading.Lock()
        self._open: dict[int, socket.socket] = {}  # by descriptor, the oldest first
        self._opening = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread."""
        with self._opening:
            self._open[request.fileno()] = request
            if len(self._open) > MOST_OPEN:
                cut_off(self._open.pop(next(iter(self._open))))
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection, and close it."""
        with self._opening:
            number = request.fileno()
            if self._open.get(number) is request:
                del self._open[number]
            super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing: the client has gone away, or took too long."""


class _ServerOf6(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    """One request, HTTP/1.0: the connection ends with the answer."""

    server: _Server
    connection: socket.socket
    server_version = "cosched"
    sys_version = ""
    timeout: ClassVar[float] = REQUEST_S  # for each read

    def handle(self) -> None:
        """Handle the request within a total time; timeouts of single reads would not limit it."""
        hurry = threading.Timer(REQUEST_S, cut_off, [self.connection])
        hurry.daemon = True
        hurry.start()
        try:
            super().handle()
        finally:
            hurry.cancel()

    def do_GET(self) -> None:
        """Answer with the page, or of HEAD with its head."""
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404)
            return
        try:
            with self.server.one_page:
                body = self.server.page().encode("utf-8", "replace")
        except Exception:  # a defect in `page` must not end the thread
            self.send_error(500)
            return
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def _refuse(self) -> None:
        self.send_response(405)
        self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _refuse

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


def cut_off(connection: socket.socket) -> None:
    """End a connection; its thread notices."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has ended already
