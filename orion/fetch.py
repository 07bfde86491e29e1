"""The guarded fetch of a user's URL: only public addresses, checked after name resolution, and bounded in every way.

The host is resolved once, each address is checked, and the connection goes to a checked address, so a name that
answers differently the next time changes nothing. Every redirect goes through the same gate.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import socket
import ssl
import tempfile
import zlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, IPvAnyNetwork

from orion.errors import MediaError

if TYPE_CHECKING:
    import httpx

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port → IP addresses as text."""

MAX_URL_CHARS = 8192
MAX_ADDRESSES = 3
"""Checked addresses of one host that are tried."""
SHOWN_URL_CHARS = 200
USER_AGENT = "Mozilla/5.0 (compatible; orion-visual-agent)"

_REDIRECTS = (301, 302, 303, 307, 308)
_INFLATE_CHUNK = 1 << 18
# Networks that `is_global` lets pass although what lies behind them may be private: translations of IPv4 addresses,
# tunnels, protocol assignments, retired site-local addresses, and the metadata service of one cloud.
_NOT_PUBLIC = [
    (ipaddress.ip_network(network), why)
    for network, why in (
        ("192.0.0.0/24", "a protocol assignment"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("168.63.129.16/32", "a cloud's metadata service"),
        ("64:ff9b::/96", "a translated IPv4 address (NAT64)"),
        ("64:ff9b:1::/48", "a translated IPv4 address (NAT64)"),
        ("2002::/16", "a tunnelled IPv4 address (6to4)"),
        ("2001::/32", "a tunnelled IPv4 address (Teredo)"),
    )
]
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")


class FetchLimits(BaseModel):
    """What a fetch may cost and where it may go."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bytes: int = Field(default=512 * 1024**2, ge=1)
    """Bytes of the body, counted after decompression."""
    seconds: float = Field(default=60.0, gt=0)
    """For everything, redirects included."""
    connect_seconds: float = Field(default=10.0, gt=0)
    read_seconds: float = Field(default=20.0, gt=0)
    """Longest pause between two pieces of the body."""
    redirects: int = Field(default=5, ge=0)
    ports: frozenset[int] = frozenset({80, 443})
    allow_addresses: tuple[IPvAnyNetwork, ...] = ()
    """Networks that are allowed, on any port, although they are not public: `127.0.0.0/8` while developing."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A body in a file that belongs to the caller; what the server said it is."""

    path: Path
    size: int
    """Bytes, decompressed."""
    media_type: str
    final_url: str
    name: str | None
    """A file name, from the header or the URL."""


def check_address(address: str | IPAddress) -> str | None:
    """Why an address must not be connected to, or None when it is public.

    >>> check_address("93.184.215.14")
    >>> check_address("::ffff:169.254.169.254")
    'not a public address'
    >>> check_address("64:ff9b::7f00:1")
    'a translated IPv4 address (NAT64)'
    """
    try:
        ip = ipaddress.ip_address(address) if isinstance(address, str) else address
    except ValueError:
        return "not an IP address"
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    for network, why in _NOT_PUBLIC:
        if ip in network:
            return why
    if not ip.is_global or ip.is_multicast or ip.is_reserved:
        return "not a public address"
    if ip.version == 6 and ip not in _GLOBAL_UNICAST:
        return "not a public address"
    return None


async def fetch(
    url: str,
    *,
    limits: FetchLimits | None = None,
    folder: Path | None = None,
    resolver: Resolver | None = None,
    verify: ssl.SSLContext | bool = True,
) -> Fetched:
    """Download `url` into a new file in `folder` (default: the system's temporary folder).

    `resolver` replaces the system's name resolution, `verify` its certificate check (a context with a company's own
    authority). Raises `MediaError` with code `fetch_refused` (not allowed), `fetch_failed`, `too_large`, `timeout` or
    `disk_full`; the message names the URL without its query.
    """
    import httpx

    limits = limits or FetchLimits()
    url = url.strip()
    client = httpx.AsyncClient(
        verify=verify,
        trust_env=False,  # a proxy from the environment would connect to addresses we did not check
        follow_redirects=False,
        timeout=httpx.Timeout(limits.read_seconds, connect=limits.connect_seconds),
    )
    try:
        async with asyncio.timeout(limits.seconds), client:
            for _hop in range(limits.redirects + 1):
                target = await _check_url(url, limits, resolver or _resolve)
                fetched = await _get(client, target, limits, folder)
                if isinstance(fetched, Fetched):
                    return fetched
                url = str(target.url.join(fetched))
    except TimeoutError:
        raise MediaError("timeout", f"{_shown(url)} took longer than {limits.seconds:g} s") from None
    raise MediaError("fetch_refused", f"{_shown(url)}: more than {limits.redirects} redirects")


@dataclass(frozen=True, slots=True)
class _Target:
    url: httpx.URL
    addresses: list[IPAddress]


async def _check_url(text: str, limits: FetchLimits, resolver: Resolver) -> _Target:
    """The gate each hop passes: scheme, credentials, addresses, port."""
    import httpx

    if len(text) > MAX_URL_CHARS:
        raise _refused(text, f"the URL is longer than {MAX_URL_CHARS} characters")
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise _refused(text, f"not a valid URL ({error})") from None
    if url.scheme not in ("http", "https"):
        raise _refused(text, "only http and https URLs are fetched")
    if url.userinfo:
        raise _refused(text, "a URL with a user name or password is not fetched")
    if not url.host:
        raise _refused(text, "the URL has no host")
    port = url.port or {"http": 80, "https": 443}[url.scheme]
    host = url.raw_host.decode("ascii")
    try:
        found = [host] if _is_address(host) else await resolver(host, port)
    except (OSError, UnicodeError) as error:
        raise MediaError("fetch_failed", f"{_shown(text)}: the host could not be resolved ({error})") from error
    reasons = {address: _check_reach(address, port, limits) for address in found}
    allowed = [ipaddress.ip_address(address) for address, reason in reasons.items() if reason is None]
    if not allowed:
        fix = "Allow it in the fetch limits (allow_addresses, ports) if it is meant to be reached."
        why = "; ".join(reason for reason in list(reasons.values())[:MAX_ADDRESSES] if reason)
        raise _refused(text, why or "the host has no address", fix=fix)
    return _Target(url, allowed[:MAX_ADDRESSES])


def _check_reach(address: str, port: int, limits: FetchLimits) -> str | None:
    """Why this address and port must not be connected to, or None."""
    with_scope = "%" in address  # fe80::1%eth0: bound to one link
    if not with_scope and _is_address(address):
        ip = ipaddress.ip_address(address)
        if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped:
            ip = ip.ipv4_mapped
        if any(ip in network for network in limits.allow_addresses):
            return None
    reason = "not a public address" if with_scope else check_address(address)
    if reason is not None:
        return f"{address} is {reason}"
    return None if port in limits.ports else f"port {port} is not allowed"


async def _get(client: httpx.AsyncClient, target: _Target, limits: FetchLimits, folder: Path | None) -> Fetched | str:
    """The body in a file, or where a redirect points."""
    import httpx

    response = await _connect(client, target)
    try:
        if response.status_code in _REDIRECTS and "location" in response.headers:
            return response.headers["location"]
        if response.status_code != 200:
            raise _failed(target, f"the server answered HTTP {response.status_code}")
        length = response.headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > limits.bytes:
            raise _too_large(target, limits)
        handle, name = tempfile.mkstemp(dir=folder, prefix="fetched-")
        try:
            with os.fdopen(handle, "wb") as out:
                size = await _save(response, out, target, limits)
        except BaseException:
            os.unlink(name)
            raise
    except httpx.TimeoutException:
        raise MediaError("timeout", f"{_shown(target.url)}: nothing came for {limits.read_seconds:g} s") from None
    except httpx.HTTPError as error:
        raise _failed(target, str(error) or type(error).__name__) from error
    finally:
        await response.aclose()
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return Fetched(
        Path(name), size, media_type[:100] or "application/octet-stream", str(target.url), _name(response, target)
    )


async def _connect(client: httpx.AsyncClient, target: _Target) -> httpx.Response:
    """Send the request to the first checked address that takes the connection."""
    import httpx

    host = target.url.raw_host.decode("ascii")
    headers = {"Host": target.url.netloc.decode("ascii"), "User-Agent": USER_AGENT, "Accept-Encoding": "gzip, deflate"}
    # The URL carries the checked address; certificate and virtual host are still those of the name.
    extensions = {} if _is_address(host) else {"sni_hostname": host}
    problem: httpx.HTTPError | None = None
    for address in target.addresses:
        request = client.build_request("GET", target.url.copy_with(host=str(address), fragment=None), headers=headers)
        request.extensions.update(extensions)
        client.cookies.clear()
        try:
            return await client.send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            problem = error
        except httpx.TimeoutException as error:
            raise MediaError("timeout", f"{_shown(target.url)}: the server did not answer") from error
        except httpx.HTTPError as error:
            raise _failed(target, str(error) or type(error).__name__) from error
    if isinstance(problem, httpx.ConnectTimeout):
        raise MediaError("timeout", f"{_shown(target.url)}: no connection in time") from problem
    raise _failed(target, f"no connection ({problem})") from problem


async def _save(response: httpx.Response, out: BinaryIO, target: _Target, limits: FetchLimits) -> int:
    """Write the decoded body; its size in bytes. Decodes in bounded pieces, so a compressed bomb stops at the limit."""
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise _failed(target, f"the server used the content encoding {coding[:40]!r}, which was not asked for")
    inflater = None if coding in ("identity", "") else zlib.decompressobj(zlib.MAX_WBITS | 32)  # zlib or gzip header
    size = 0
    async for chunk in response.aiter_raw():
        for piece in _inflate(inflater, chunk, target) if inflater else (chunk,):
            size += len(piece)
            if size > limits.bytes:
                raise _too_large(target, limits)
            with _disk_errors():
                out.write(piece)
    with _disk_errors():
        out.flush()
    if inflater and not inflater.eof:
        raise _failed(target, "the compressed body was cut")
    return size


def _inflate(inflater: zlib._Decompress, chunk: bytes, target: _Target) -> Iterator[bytes]:
    while chunk and not inflater.eof:
        try:
            piece = inflater.decompress(chunk, _INFLATE_CHUNK)
        except zlib.error as error:
            raise _failed(target, f"the compressed body is damaged ({error})") from error
        chunk = inflater.unconsumed_tail
        yield piece


async def _resolve(host: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _name(response: httpx.Response, target: _Target) -> str | None:
    """A bare file name: no folders, no control characters."""
    header = response.headers.get("content-disposition", "")
    named = re.search(r'filename\*=[\w-]*\'[\w-]*\'([^;]+)|filename="?([^";]+)', header, re.IGNORECASE)
    name = unquote((named[1] or named[2]) if named else target.url.path)
    name = re.sub(r"[\x00-\x1f\x7f]", "", re.split(r"[/\\]", name.rstrip("/\\"))[-1]).strip()
    return name[-150:] or None


def _shown(url: object) -> str:
    """The URL for messages: without credentials, query and fragment, which may hold secrets."""
    bare = re.split(r"[?#]", str(url), maxsplit=1)[0]
    bare = re.sub(r"//[^/@]*@", "//", bare)
    return bare if len(bare) <= SHOWN_URL_CHARS else bare[:SHOWN_URL_CHARS] + "…"


def _refused(url: object, why: str, fix: str | None = None) -> MediaError:
    return MediaError("fetch_refused", f"{_shown(url)} is not fetched: {why}", fix=fix)


def _failed(target: _Target, why: str) -> MediaError:
    return MediaError("fetch_failed", f"{_shown(target.url)} could not be fetched: {why[:300]}")


def _too_large(target: _Target, limits: FetchLimits) -> MediaError:
    return MediaError("too_large", f"{_shown(target.url)} has more than {limits.bytes} bytes")


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MediaError("disk_full", f"the download could not be written ({error.strerror})") from error
