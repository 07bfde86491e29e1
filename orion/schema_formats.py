"""Checks of JSON Schema's `format`, without the packages that jsonschema would want for half of them."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable
from datetime import date, time
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import UUID

if TYPE_CHECKING:
    from jsonschema import FormatChecker

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME = re.compile(r"(\d{2}:\d{2}:\d{2})(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})", re.ASCII)
_DATE_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt ](.+)", re.ASCII)
_DURATION = re.compile(
    r"P(?!\Z)(?:\d+W|(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?)", re.ASCII
)
_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
_EMAIL_LOCAL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+")
_URI_REFERENCE = re.compile(r"[!-~]*")
_FORBIDDEN = re.compile(r"[<>\"{}|\\^`\s]")
_JSON_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")


def is_date(text: str) -> bool:
    """`2026-03-01`, and a day that exists."""
    return bool(_DATE.fullmatch(text)) and _parses(date.fromisoformat, text)


def is_time(text: str) -> bool:
    """`09:30:00Z`, with an offset as RFC 3339 wants."""
    match = _TIME.fullmatch(text)
    if not match:
        return False
    clock = match.group(1)
    return _parses(time.fromisoformat, clock[:-2] + "59" if clock.endswith(":60") else clock)


def is_date_time(text: str) -> bool:
    """`2026-03-01T09:30:00Z`."""
    match = _DATE_TIME.fullmatch(text)
    return bool(match) and match is not None and is_date(match.group(1)) and is_time(match.group(2))


def is_hostname(text: str) -> bool:
    """Labels of letters, digits and inner hyphens, 253 characters at most."""
    labels = text.removesuffix(".").split(".")
    return len(text) <= 253 and all(_LABEL.fullmatch(label) for label in labels)


def is_email(text: str) -> bool:
    """`name@host.example`."""
    local, at, host = text.rpartition("@")
    dots = local.startswith(".") or local.endswith(".") or ".." in local
    return bool(at) and bool(_EMAIL_LOCAL.fullmatch(local)) and not dots and is_hostname(host)


def is_uri(text: str) -> bool:
    """An absolute URI: a scheme and something after it, no blanks."""
    return bool(_URI.fullmatch(text)) and not _FORBIDDEN.search(text) and _parses(urlsplit, text)


def is_uri_reference(text: str) -> bool:
    """A URI, or a part of one."""
    return bool(_URI_REFERENCE.fullmatch(text)) and not _FORBIDDEN.search(text) and _parses(urlsplit, text)


def is_iri(text: str) -> bool:
    """A URI that may hold letters of any script."""
    return is_uri("".join(char if char.isascii() else "a" for char in text))


def is_uuid(text: str) -> bool:
    """36 characters with hyphens."""
    return len(text) == 36 and all(text[place] == "-" for place in (8, 13, 18, 23)) and _parses(UUID, text)


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except (ValueError, OverflowError, re.error, RecursionError):
        return False
    return True


CHECKS: dict[str, Callable[[str], bool]] = {
    "date": is_date,
    "time": is_time,
    "date-time": is_date_time,
    "duration": lambda text: bool(_DURATION.fullmatch(text)) and not text.endswith("T"),
    "email": is_email,
    "idn-email": lambda text: "@" in text.strip("@") and not any(char.isspace() for char in text),
    "hostname": is_hostname,
    "idn-hostname": lambda text: is_hostname("".join(char if char.isascii() else "a" for char in text)),
    "ipv4": lambda text: _parses(ipaddress.IPv4Address, text),
    "ipv6": lambda text: "%" not in text and _parses(ipaddress.IPv6Address, text),
    "uri": is_uri,
    "uri-reference": is_uri_reference,
    "iri": is_iri,
    "iri-reference": lambda text: is_uri_reference("".join(char if char.isascii() else "a" for char in text)),
    "uuid": is_uuid,
    "json-pointer": lambda text: bool(_JSON_POINTER.fullmatch(text)),
    "regex": lambda text: _parses(re.compile, text),
    "json": lambda text: _parses(json.loads, text),
}
"""Every format that is checked; JSON Schema says that an unknown one is a remark."""


@cache
def checker() -> FormatChecker:
    """A jsonschema FormatChecker with `CHECKS`; values that are not strings pass, as the standard says."""
    from jsonschema import FormatChecker

    formats = FormatChecker(formats=())
    for name, check in CHECKS.items():
        formats.checks(name)(_for_strings(check))
    return formats


def _for_strings(check: Callable[[str], bool]) -> Callable[[object], bool]:
    return lambda value: not isinstance(value, str) or check(value)
