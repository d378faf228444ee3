"""A server on this machine that publishes a model, rightly or not."""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

from gles_delegate.cli.published import PublishedModel

Answer = Callable[["Request"], None]


class Publisher:
    """The content and the answers of a server.

    Attributes:
        answer: Answers each request.
        requests: Their number.
        released: Set when answers that hang may end.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.answer: Answer = right
        self.requests = 0
        self.released = Event()
        self.url = ""

    @property
    def model(self) -> PublishedModel:
        digest = hashlib.sha256(self.content).hexdigest()
        return PublishedModel("net.tflite", "x", "MIT", len(self.content), digest, self.url)


class Request(BaseHTTPRequestHandler):
    """A request, with the `publisher` that it is for."""

    publisher: Publisher

    def do_GET(self) -> None:
        self.publisher.requests += 1
        with suppress(BrokenPipeError, ConnectionResetError):
            self.publisher.answer(self)

    def head(self, status: int, **headers: object) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def hang(self) -> None:
        self.publisher.released.wait(60)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def publishing(content: bytes) -> Iterator[Publisher]:
    publisher = Publisher(content)
    handler = type("Handler", (Request,), {"publisher": publisher})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = False  # so that it waits for them
        publisher.url = f"http://127.0.0.1:{server.server_port}/net.tflite"
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield publisher
        finally:
            publisher.released.set()
            server.shutdown()
            thread.join()


def right(request: Request) -> None:
    request.head(200, Content_Length=len(request.publisher.content))
    request.wfile.write(request.publisher.content)


def cut_off(request: Request) -> None:
    """The connection ends after a half."""
    content = request.publisher.content
    request.head(200, Content_Length=len(content))
    request.wfile.write(content[: len(content) // 2])
    request.wfile.flush()


def silent_halfway(request: Request) -> None:
    cut_off(request)
    request.hang()


def silent(request: Request) -> None:
    request.hang()


def dripping(request: Request) -> None:
    """A byte every 20 ms."""
    request.head(200, Content_Length=len(request.publisher.content))
    while not request.publisher.released.wait(0.02):
        request.wfile.write(b"x")


def slow(request: Request) -> None:
    """Slow, but not too slow."""
    content = request.publisher.content
    request.head(200, Content_Length=len(content))
    for begin in range(0, len(content), 10000):
        time.sleep(0.05)
        request.wfile.write(content[begin : begin + 10000])


def wrong(request: Request) -> None:
    """The right size, and other bytes."""
    content = request.publisher.content
    request.head(200, Content_Length=len(content))
    request.wfile.write(content[::-1])


def endless(request: Request) -> None:
    """No length, and more bytes than the model has."""
    request.head(200)
    while not request.publisher.released.is_set():
        request.wfile.write(bytes(1 << 16))


def chunked(request: Request) -> None:
    request.protocol_version = "HTTP/1.1"
    request.head(200, Transfer_Encoding="chunked", Connection="close")
    content = request.publisher.content
    request.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content))


def chunked_and_cut_off(request: Request) -> None:
    request.protocol_version = "HTTP/1.1"
    request.head(200, Transfer_Encoding="chunked", Connection="close")
    content = request.publisher.content
    request.wfile.write(b"%x\r\n%s" % (len(content), content[:-1]))


def no_http(request: Request) -> None:
    request.wfile.write(b"SSH-2.0-x\r\n")


def status(code: int) -> Answer:
    return lambda request: request.head(code)


def redirecting(to: str) -> Answer:
    def answer(request: Request) -> None:
        if request.path == "/there":
            right(request)
        else:
            request.head(302, Location=to, Content_Length=1000)
            request.wfile.write(bytes(1000))

    return answer
