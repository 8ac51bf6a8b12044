"""A small object store that speaks as much of S3 as Arrow's file system asks: objects in memory, on a port of ours."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

WRITTEN = datetime(2026, 1, 1, tzinfo=UTC)


class Store(ThreadingHTTPServer):
    """The server: `objects` by BUCKET/KEY, in the one bucket that there is."""

    daemon_threads = True

    def __init__(self, bucket: str) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.bucket = bucket
        self.objects: dict[str, bytes] = {}
        self.parts: dict[int, bytes] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def running(bucket: str) -> Iterator[Store]:
    """The store while it serves."""
    with Store(bucket) as store:
        thread = Thread(target=store.serve_forever, daemon=True)
        thread.start()
        try:
            yield store
        finally:
            store.shutdown()
            thread.join()


class Asked(BaseHTTPRequestHandler):
    """One request. Signatures are not checked: nothing here is secret."""

    server: Store
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        name, asked = self._asked()
        if "/" not in name:
            self._list(name, asked)
        elif (content := self.server.objects.get(name)) is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        elif found := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            first, last = int(found[1]), int(found[2] or len(content) - 1)
            some = content[first : last + 1]
            self._answer(206, some, content, {"Content-Range": f"bytes {first}-{first + len(some) - 1}/{len(content)}"})
        else:
            self._answer(200, content, content)

    def do_PUT(self) -> None:
        name, asked = self._asked()
        content = self._body()
        if "partNumber" in asked:
            self.server.parts[int(asked["partNumber"][0])] = content
        else:
            self.server.objects[name] = content
        self._answer(200, b"", content)

    def do_POST(self) -> None:
        name, asked = self._asked()
        self._body()
        if "uploads" not in asked:
            self.server.objects[name] = b"".join(self.server.parts[number] for number in sorted(self.server.parts))
        self.server.parts.clear()
        bucket, _, key = name.partition("/")
        what = "InitiateMultipartUploadResult" if "uploads" in asked else "CompleteMultipartUploadResult"
        named = f"<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><UploadId>1</UploadId><ETag>1</ETag>"
        self._answer(200, f"<{what}>{named}</{what}>".encode())

    def _asked(self) -> tuple[str, dict[str, list[str]]]:
        """BUCKET/KEY, or BUCKET; and what is asked about it."""
        url = urlsplit(self.path)
        return unquote(url.path).strip("/"), parse_qs(url.query, keep_blank_values=True)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            content = b""
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return content
        plain, rest = b"", content
        while size := int(rest.partition(b"\r\n")[0].partition(b";")[0], 16):
            rest = rest.partition(b"\r\n")[2]
            plain, rest = plain + rest[:size], rest[size + 2 :]
        return plain

    def _list(self, bucket: str, asked: dict[str, list[str]]) -> None:
        if bucket != self.server.bucket:
            self._answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
            return
        (prefix,) = asked.get("prefix", [""])
        names = sorted(name.partition("/")[2] for name in self.server.objects)
        found = "".join(
            f"<Contents><Key>{escape(name)}</Key><LastModified>{WRITTEN.isoformat()}</LastModified>"
            f"<ETag>1</ETag><Size>{len(self.server.objects[f'{bucket}/{name}'])}</Size></Contents>"
            for name in names
            if name.startswith(prefix)
        )
        head = f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><IsTruncated>false</IsTruncated>"
        count = found.count("<Key>")
        self._answer(200, f"<ListBucketResult>{head}<KeyCount>{count}</KeyCount>{found}</ListBucketResult>".encode())

    def _answer(self, status: int, shown: bytes, whole: bytes = b"", more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        written = {
            "ETag": f'"{hashlib.sha256(whole).hexdigest()}"',
            "Last-Modified": format_datetime(WRITTEN, usegmt=True),
        }
        for name, value in {**written, "Content-Length": str(len(shown)), **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(shown)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""
