"""The HTTP server of a page for Prometheus, and of pages for people: it serves only GET and HEAD.

/metrics is served on this machine alone; other pages also elsewhere, where they know who asks. Loaded where such a server is
asked for: Python's own takes a tenth of a scheduler's start.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar, Final, NamedTuple

from cosched_plugin.common.errors import UsageError
from cosched_plugin.common.status import Status
from cosched_plugin.protocol.endpoint import why_not
from cosched_terminal.console import Log

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_S: Final = 1.0  # time that a whole request may take
PAGE_S: Final = 10.0  # likewise, where there are pages for people
MOST_OPEN: Final = 32  # connections; one more cuts off the oldest, so that slow ones keep nobody out
POLL_S: Final = 0.5  # delay until `close` is noticed


def serve_metrics(address: str, status: Status, log: Log) -> PageServer:
    """Serve the status of a scheduler, and say where."""
    metrics = PageServer(address, lambda: status.prometheus("cosched_plugin"))
    log("metrics", f"metrics at http://{metrics.address}/metrics", address=metrics.address)
    return metrics


class Request(NamedTuple):
    """What is asked for: its path, still quoted, its query, and two lines of its head."""

    path: str
    query: str
    host: str
    cookie: str


class Answer(NamedTuple):
    """A page, or why there is none."""

    body: str
    status: int = 200
    headers: Mapping[str, str] = {"Content-Type": "text/html; charset=utf-8"}


class PageServer:
    """Serves the text that ``metrics`` returns, and what ``pages`` answers, from construction to `close`, in daemon threads.

    Both are called in one of them at a time. Without ``metrics`` /metrics is a path like others.

    ``address`` is HOST:PORT with a loopback address, port 0 for any; ``.address`` is the one actually bound. With ``secured`` it may
    be any: ``pages`` then tells who asks. Raises UsageError for another address, and for one that cannot be bound.
    """

    def __init__(
        self,
        address: str,
        metrics: Callable[[], str] | None,
        pages: Callable[[Request], Answer] | None = None,
        *,
        secured: bool = False,
    ) -> None:
        reason = why_not(f"tcp://{address}", secured=secured and metrics is None)
        if reason is not None:
            raise UsageError(f"{address}: {reason}")
        host, _, port = address.rpartition(":")
        number = 0 if port == "*" else int(port)
        server_class = _ServerOf6 if host.startswith("[") else _Server
        try:
            self._server = server_class(("" if host == "*" else host.strip("[]"), number), _Handler)
        except OSError as error:
            raise UsageError(f"{address}: cannot listen there: {error.strerror or error}") from error
        self._server.metrics, self._server.pages = metrics, pages
        self._server.request_s = REQUEST_S if pages is None else PAGE_S
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
    metrics: Callable[[], str] | None
    pages: Callable[[Request], Answer] | None
    request_s: float

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
        hurry = threading.Timer(self.server.request_s, cut_off, [self.connection])
        hurry.daemon = True
        hurry.start()
        try:
            super().handle()
        finally:
            hurry.cancel()

    def do_GET(self) -> None:
        """Answer with the page, or of HEAD with its head."""
        try:
            with self.server.one_page:
                answer = self._answer()
        except Exception:  # a defect in a page must not end the thread
            self.send_error(500)
            return
        if answer is None:
            self.send_error(404)
            return
        body = answer.body.encode("utf-8", "replace")
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def _answer(self) -> Answer | None:
        """Return what is served there; None: nothing."""
        server = self.server
        path, _, query = self.path.partition("?")
        if path == "/metrics" and server.metrics is not None:
            return Answer(server.metrics(), headers={"Content-Type": CONTENT_TYPE})
        if server.pages is None:
            return None
        host, cookie = (self.headers.get(name) or "" for name in ("Host", "Cookie"))
        return server.pages(Request(path, query, host, cookie))

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
