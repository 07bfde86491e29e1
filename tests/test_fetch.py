from __future__ import annotations

import asyncio
import datetime
import gzip
import ipaddress
import socket
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion.errors import MediaError
from orion.fetch import Fetched, FetchLimits, _check_url, check_address, fetch

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))

PUBLIC = ["93.184.215.14", "8.8.8.8", "1.1.1.1", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "2001:4860:4860::8888"]
NOT_PUBLIC = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.8",
    "192.0.0.9",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:a9fe:a9fe",
    "64:ff9b::7f00:1",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2002:808:808::1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:db8::1",
    "100::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "5f00::1",
    "not an address",
    "127.1",
    "",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_pass(address: str) -> None:
    assert check_address(address) is None
    if ":" not in address:
        assert check_address(f"::ffff:{address}") is None


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_other_addresses_do_not(address: str) -> None:
    assert check_address(address)


@given(st.ip_addresses())
def test_what_passes_is_global_unicast(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    assert check_address(ip) == check_address(str(ip))
    if check_address(ip) is None:
        inner = getattr(ip, "ipv4_mapped", None) or ip
        assert inner.is_global
        assert not inner.is_multicast


def answering(*addresses: str) -> Callable[[str, int], Any]:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


def decide(url: str, *addresses: str, limits: FetchLimits | None = None) -> list[str]:
    """The guard's decision alone; nothing is connected to."""
    target = asyncio.run(_check_url(url, limits or FetchLimits(), answering(*addresses)))
    return [str(address) for address in target.addresses]


@pytest.mark.parametrize(
    ("url", "addresses", "why"),
    [
        ("http://inner.example/", ["10.1.2.3"], "10.1.2.3 is not a public"),
        ("http://rebound.example/", ["::ffff:127.0.0.1"], "not a public"),
        ("http://scoped.example/", ["fe80::1%eth0"], "not a public"),
        ("http://nowhere.example/", [], "no address"),
        ("http://127.0.0.1/", [], "127.0.0.1 is not a public"),
        ("http://[::1]/", [], "::1 is not a public"),
        ("http://[::ffff:169.254.169.254]/", [], "not a public"),
        ("http://files.example:22/", ["8.8.8.8"], "port 22"),
        ("https://files.example:8443/", ["8.8.8.8"], "port 8443"),
        ("ftp://files.example/", ["8.8.8.8"], "only http"),
        ("file:///etc/passwd", [], "only http"),
        ("gopher://files.example/", ["8.8.8.8"], "only http"),
        ("//files.example/", ["8.8.8.8"], "only http"),
        ("http://me:pw@files.example/", ["8.8.8.8"], "password"),
        ("http://me@files.example/", ["8.8.8.8"], "password"),
        (r"http://8.8.8.8\@inner.example/", ["8.8.8.8"], "password"),
        ("http:///path", ["8.8.8.8"], "no host"),
        ("http://files.example:99999x/", ["8.8.8.8"], "valid"),
        ("http://files.example/" + "x" * 9000, ["8.8.8.8"], "longer"),
    ],
)
def test_guard_refuses(url: str, addresses: list[str], why: str) -> None:
    with pytest.raises(MediaError, match=why) as caught:
        decide(url, *addresses)
    assert caught.value.code == "fetch_refused"
    assert "pw" not in str(caught.value).replace("password", "")


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "127.1", "017700000001", "0"])
def test_odd_spellings_of_loopback_are_resolved_then_refused(host: str) -> None:
    """The system's own resolver knows these spellings (no name server is asked for a number)."""
    with pytest.raises(MediaError) as caught:
        asyncio.run(fetch(f"http://{host}/", limits=FetchLimits(seconds=10)))
    assert caught.value.code == "fetch_refused"


@pytest.mark.parametrize(
    ("url", "addresses", "expected"),
    [
        ("http://files.example/a", ["8.8.8.8"], ["8.8.8.8"]),
        ("HTTPS://files.example/a", ["8.8.8.8", "10.0.0.1", "1.1.1.1"], ["8.8.8.8", "1.1.1.1"]),
        ("https://files.example:443/", ["2606:4700::1111"], ["2606:4700::1111"]),
        ("http://bücher.example/", ["8.8.8.8"], ["8.8.8.8"]),
        ("http://8.8.4.4/", [], ["8.8.4.4"]),
    ],
)
def test_guard_allows_and_keeps_only_public_addresses(url: str, addresses: list[str], expected: list[str]) -> None:
    assert decide(url, *addresses) == expected


def test_allowed_networks_and_ports() -> None:
    assert decide("http://dev.example:8080/", "127.0.0.1", limits=FetchLimits(allow_addresses=LOOPBACK))
    assert decide("http://dev.example:8080/", "8.8.8.8", limits=FetchLimits(ports=frozenset({8080})))
    with pytest.raises(MediaError):
        decide("http://dev.example/", "10.0.0.1", limits=FetchLimits(allow_addresses=LOOPBACK))


Reply = Callable[[BaseHTTPRequestHandler], None]


class Site:
    """A loopback web server whose pages are functions; it notes each request."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.pages: dict[str, Reply] = {}
        self.seen: list[tuple[str, str | None]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.seen.append((self.path, self.headers["Host"]))
                page = site.pages.get(self.path.partition("?")[0])
                self.send_error(404) if page is None else page(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def url(self, path: str, host: str = "files.example") -> str:
        return f"http://{host}:{self.port}{path}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(10)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


def page(body: bytes, *, status: int = 200, length: int | None = None, **headers: str) -> Reply:
    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body) if length is None else length))
        handler.end_headers()
        try:
            handler.wfile.write(body)
        except OSError:  # the client hung up at its limit, as it should
            handler.close_connection = True

    return reply


def redirect(to: str, status: int = 302) -> Reply:
    return page(b"", status=status, Location=to)


def get(url: str, folder: Path, *, resolver: Any = None, verify: Any = True, **limits: Any) -> Fetched:
    limits = {"allow_addresses": LOOPBACK, "seconds": 20, **limits}
    return asyncio.run(
        fetch(
            url,
            limits=FetchLimits(**limits),
            folder=folder,
            resolver=resolver or answering("127.0.0.1"),
            verify=verify,
        )
    )


def refused(url: str, folder: Path, **options: Any) -> MediaError:
    with pytest.raises(MediaError) as caught:
        get(url, folder, **options)
    assert list(folder.iterdir()) == []
    return caught.value


def test_fetches_a_file(site: Site, tmp_path: Path) -> None:
    site.pages["/a%20b/photo.png"] = page(b"pixels", Content_Type="Image/PNG; charset=x")
    fetched = get(f"  {site.url('/a%20b/photo.png?size=1#part')}\n", tmp_path)
    assert fetched.path.read_bytes() == b"pixels"
    assert (fetched.size, fetched.media_type, fetched.name) == (6, "image/png", "photo.png")
    assert site.seen == [("/a%20b/photo.png?size=1", f"files.example:{site.port}")]


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ('attachment; filename="bill 1.pdf"', "bill 1.pdf"),
        ("attachment; filename*=UTF-8''%C3%A9t%C3%A9.pdf", "été.pdf"),
        ('attachment; filename="../../etc/passwd"', "passwd"),
        ("inline", "download"),
    ],
)
def test_file_names_are_bare(site: Site, tmp_path: Path, header: str, name: str) -> None:
    site.pages["/download"] = page(b"x", Content_Disposition=header)
    assert get(site.url("/download"), tmp_path).name == name


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(site: Site, tmp_path: Path, status: int) -> None:
    other = Site()
    try:
        site.pages["/a"] = redirect("b?x=1", status)
        site.pages["/b"] = redirect(other.url("/c", "elsewhere.example"))
        other.pages["/c"] = page(b"here")
        fetched = get(site.url("/a"), tmp_path)
        assert fetched.path.read_bytes() == b"here"
        assert fetched.final_url == other.url("/c", "elsewhere.example")
        assert other.seen == [("/c", f"elsewhere.example:{other.port}")]
    finally:
        other.close()


def test_each_redirect_is_checked_again(site: Site, tmp_path: Path) -> None:
    """The second name leads to ::1, which is not allowed here: no request may reach it."""

    async def resolver(host: str, port: int) -> list[str]:
        return ["127.0.0.1"] if host == "files.example" else ["::1"]

    site.pages["/a"] = redirect(site.url("/secret", "inner.example"))
    site.pages["/secret"] = page(b"secret")
    error = refused(site.url("/a"), tmp_path, resolver=resolver, allow_addresses=LOOPBACK[:1])
    assert error.code == "fetch_refused"
    assert [path for path, _host in site.seen] == ["/a"]
    for target in ("file:///etc/passwd", "ftp://files.example/", f"http://me:pw@files.example:{site.port}/secret"):
        site.pages["/a"] = redirect(target)
        assert refused(site.url("/a"), tmp_path).code == "fetch_refused"
    assert {path for path, _host in site.seen} == {"/a"}


def test_redirects_are_bounded(site: Site, tmp_path: Path) -> None:
    site.pages["/loop"] = redirect("/loop")
    error = refused(site.url("/loop"), tmp_path)
    assert "more than 5 redirects" in str(error)
    assert len(site.seen) == 6


def test_a_name_is_resolved_once(site: Site, tmp_path: Path) -> None:
    """DNS rebinding: the second answer is never asked for."""
    answers = iter([["127.0.0.1"]])

    async def resolver(host: str, port: int) -> list[str]:
        return next(answers)

    site.pages["/"] = page(b"first")
    assert get(site.url("/"), tmp_path, resolver=resolver).path.read_bytes() == b"first"


def test_the_next_address_is_tried(site: Site, tmp_path: Path) -> None:
    site.pages["/"] = page(b"second address")
    fetched = get(site.url("/"), tmp_path, resolver=answering("127.0.0.2", "127.0.0.1"))
    assert fetched.path.read_bytes() == b"second address"


def test_no_connection(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    error = refused(f"http://files.example:{port}/?token=hidden", tmp_path)
    assert error.code == "fetch_failed"
    assert "files.example" in str(error)
    assert "hidden" not in str(error)


def test_unknown_host(tmp_path: Path) -> None:
    async def resolver(host: str, port: int) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    assert refused("http://files.example/", tmp_path, resolver=resolver).code == "fetch_failed"


@pytest.mark.parametrize("status", [204, 400, 404, 500])
def test_http_errors(site: Site, tmp_path: Path, status: int) -> None:
    site.pages["/"] = page(b"", status=status)
    error = refused(site.url("/"), tmp_path)
    assert error.code == "fetch_failed"
    assert f"HTTP {status}" in str(error)


def test_size_limits(site: Site, tmp_path: Path) -> None:
    site.pages["/honest"] = page(b"x" * 2000)
    assert refused(site.url("/honest"), tmp_path, bytes=1999).code == "too_large"
    assert get(site.url("/honest"), tmp_path, bytes=2000).size == 2000


def test_endless_body(site: Site, tmp_path: Path) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"x" * 65536)
        except OSError:
            handler.close_connection = True

    site.pages["/"] = endless
    assert refused(site.url("/"), tmp_path, bytes=1_000_000).code == "too_large"


def test_content_length_lies(site: Site, tmp_path: Path) -> None:
    def hang_up(handler: BaseHTTPRequestHandler) -> None:
        page(b"short", length=1000)(handler)
        handler.close_connection = True

    site.pages["/short"] = hang_up
    assert refused(site.url("/short"), tmp_path).code == "fetch_failed"
    site.pages["/long"] = page(b"0123456789", length=4)
    assert get(site.url("/long"), tmp_path).path.read_bytes() == b"0123"


@pytest.mark.parametrize("encode", [gzip.compress, zlib.compress])
def test_compressed_bodies(site: Site, tmp_path: Path, encode: Callable[[bytes], bytes]) -> None:
    body = bytes(range(256)) * 4000
    site.pages["/"] = page(encode(body), Content_Encoding="gzip" if encode is gzip.compress else "deflate")
    assert get(site.url("/"), tmp_path).path.read_bytes() == body


def test_compressed_bomb_is_counted_decoded(site: Site, tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(50_000_000))
    assert len(bomb) < 60_000
    site.pages["/"] = page(bomb, Content_Encoding="gzip")
    assert refused(site.url("/"), tmp_path, bytes=1_000_000).code == "too_large"


@pytest.mark.parametrize(
    ("body", "coding"),
    [(gzip.compress(b"x" * 9999)[:-9], "gzip"), (b"plain", "gzip"), (b"x", "br"), (gzip.compress(b"x"), "gzip, gzip")],
)
def test_damaged_or_unasked_encodings(site: Site, tmp_path: Path, body: bytes, coding: str) -> None:
    site.pages["/"] = page(body, Content_Encoding=coding)
    assert refused(site.url("/"), tmp_path).code == "fetch_failed"


def test_slow_servers_time_out(site: Site, tmp_path: Path) -> None:
    stop = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while not stop.wait(0.05):
                handler.wfile.write(b"x")
        except OSError:
            handler.close_connection = True

    def silent(handler: BaseHTTPRequestHandler) -> None:
        stop.wait(30)

    site.pages |= {"/drip": drip, "/silent": silent}
    try:
        assert refused(site.url("/drip"), tmp_path, seconds=0.7).code == "timeout"
        assert refused(site.url("/silent"), tmp_path, read_seconds=0.3).code == "timeout"
    finally:
        stop.set()


def test_cancelled_fetch_leaves_nothing(site: Site, tmp_path: Path) -> None:
    stop, reached = threading.Event(), threading.Event()

    def hang(handler: BaseHTTPRequestHandler) -> None:
        page(b"start", length=1000)(handler)
        reached.set()
        stop.wait(30)

    site.pages["/"] = hang

    async def main() -> None:
        limits = FetchLimits(allow_addresses=LOOPBACK)
        task = asyncio.create_task(
            fetch(site.url("/"), limits=limits, folder=tmp_path, resolver=answering("127.0.0.1"))
        )
        assert await asyncio.to_thread(reached.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    try:
        asyncio.run(main())
    finally:
        stop.set()
    assert list(tmp_path.iterdir()) == []


def test_proxy_settings_are_ignored(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    site.pages["/"] = page(b"direct")
    assert get(site.url("/"), tmp_path).path.read_bytes() == b"direct"


def certificate(folder: Path, host: str) -> tuple[Path, Path]:
    """A self-signed certificate for `host`, drawn by the test."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
    signed = builder.sign(key, hashes.SHA256())
    chain, secret = folder / "cert.pem", folder / "key.pem"
    chain.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    pem, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, pem, plain))
    return chain, secret


def test_tls_is_checked_against_the_name_not_the_address(tmp_path: Path) -> None:
    chain, secret = certificate(tmp_path, "files.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, secret)
    asked: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    site = Site(context)
    folder = tmp_path / "out"
    folder.mkdir()
    try:
        site.pages["/"] = page(b"safe")
        trust = ssl.create_default_context(cafile=str(chain))
        fetched = get(f"https://files.example:{site.port}/", folder, verify=trust)
        assert fetched.path.read_bytes() == b"safe"
        assert asked == ["files.example"]
        fetched.path.unlink()
        assert refused(f"https://other.example:{site.port}/", folder, verify=trust).code == "fetch_failed"
        assert refused(f"https://files.example:{site.port}/", folder).code == "fetch_failed"
    finally:
        site.close()
