"""Form fields of a PDF: what they are called, what is in them, what is ticked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from orion.toolsets.layout import Span

MAX_FIELDS = 500
NEAR = 90.0  # points; a label farther from its field is not taken
_RADIO, _PUSH = 1 << 15, 1 << 16  # bits of /Ff
_NAMELESS = re.compile(
    r"(?i)(?:text|check|radio|combo|list|drop|option|button|field|box|group|undefined|untitled|unnamed|form|page|[\W\d_])+"
)


_TICK = {True: "checked", False: "not checked"}


class FormField(BaseModel):
    """One field. `checked` is set for check boxes only; `value` of a radio group is the chosen option, or empty."""

    name: str
    label: str = ""
    """The printed text beside the field, when it says more than the name."""
    kind: Literal["text", "checkbox", "radio", "choice", "signature"]
    value: str = ""
    checked: bool | None = None
    options: list[str] = []
    """What can be chosen; for radio buttons the printed text beside each, if there is one."""
    page: int | None = None

    def for_model(self) -> str:
        """A line a field or radio button, e.g. `Agree: not checked` or `Size: L (options: S, M, L)`."""
        title = self.label or self.name
        if self.label and self.label.casefold() != self.name.casefold():
            title += f" [{self.name}]"
        if self.checked is not None:
            return f"{title}: {_TICK[self.checked]}"
        if self.kind == "radio":
            return "\n".join(f"{option} [{self.name}]: {_TICK[option == self.value]}" for option in self.options)
        choices = f" (options: {', '.join(self.options)})" if self.options else ""
        return f"{title}: {self.value or '(empty)'}{choices}"


def read_fields(path: Path, words_of: Mapping[int, Sequence[Span]] | None = None) -> list[FormField]:
    """All fields in page order. `words_of` (page index → words in points) gives labels to nameless fields."""
    import pypdf

    fields: dict[str, FormField] = {}
    with path.open("rb") as stream:
        reader = pypdf.PdfReader(stream)
        for index, page in enumerate(reader.pages):
            for reference in page.get("/Annots") or []:
                widget = reference.get_object()
                if not hasattr(widget, "get") or widget.get("/Subtype") != "/Widget" or len(fields) >= MAX_FIELDS:
                    continue
                words = (words_of or {}).get(index, ())
                _take(fields, widget, index, words, page)
    return list(fields.values())


def _take(fields: dict[str, FormField], widget: Any, index: int, words: Sequence[Span], page: Any) -> None:
    name = _full_name(widget)
    flags = int(_inherited(widget, "/Ff") or 0)
    kind = str(_inherited(widget, "/FT") or "")
    value = _inherited(widget, "/V")
    if kind == "/Btn" and flags & _PUSH:
        return
    box = _rectangle(widget, page)
    if kind == "/Btn" and flags & _RADIO:
        group = fields.setdefault(name, FormField(name=name, kind="radio", page=index + 1))
        state = next(iter(_states(widget)), "")
        printed = _nearby(box, words, tick=True)
        option = printed if printed and printed not in group.options else state or f"option {len(group.options) + 1}"
        group.options.append(option)
        if state and state == str(widget.get("/AS") or value or "").lstrip("/"):
            group.value = option
        return
    if name in fields:
        return
    label = str(widget.get("/TU") or "").strip() or _nearby(box, words, tick=kind == "/Btn")
    if _plain(label) in _plain(name) and not _NAMELESS.fullmatch(name):
        label = ""
    field = FormField(name=name, label=label, kind="text", page=index + 1)
    if kind == "/Btn":
        state = str(widget.get("/AS") or value or "/Off")
        field = field.model_copy(update={"kind": "checkbox", "checked": state != "/Off", "value": state.lstrip("/")})
    elif kind == "/Ch":
        chosen = value if isinstance(value, list) else [] if value is None else [value]
        options = [_option(entry) for entry in _inherited(widget, "/Opt") or []]
        shown = dict(options)
        field = field.model_copy(
            update={
                "kind": "choice",
                "options": [text for _export, text in options],
                "value": ", ".join(shown.get(str(one), str(one)) for one in chosen),
            }
        )
    elif kind == "/Sig":
        field = field.model_copy(update={"kind": "signature", "value": "signed" if value is not None else ""})
    else:
        field = field.model_copy(update={"value": "" if value is None else " ".join(str(value).split())})
    fields[name] = field


def _plain(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def _option(entry: Any) -> tuple[str, str]:
    """(export value, shown text) of one entry of /Opt."""
    entry = entry.get_object()
    return (str(entry[0]), str(entry[1])) if isinstance(entry, list) else (str(entry), str(entry))


def _chain(widget: Any) -> list[Any]:
    """The widget and its parents; a damaged file may hold a ring."""
    chain = [widget]
    while "/Parent" in chain[-1] and len(chain) < 32:
        chain.append(chain[-1]["/Parent"].get_object())
    return chain


def _inherited(widget: Any, key: str) -> Any:
    for node in _chain(widget):
        if key in node:
            return node[key].get_object()
    return None


def _full_name(widget: Any) -> str:
    parts = [str(node["/T"]) for node in _chain(widget) if "/T" in node]
    return ".".join(reversed(parts)) or "(unnamed)"


def _states(widget: Any) -> list[str]:
    normal = widget.get("/AP", {}).get("/N", {}).get_object() if "/AP" in widget else {}
    return [str(state).lstrip("/") for state in normal if str(state) != "/Off"]


def _rectangle(widget: Any, page: Any) -> tuple[float, float, float, float] | None:
    """Left, top, right, bottom in points from the upper left of an unturned page."""
    if "/Rect" not in widget or page.rotation:
        return None
    x0, y0, x1, y1 = (float(edge) for edge in widget["/Rect"])
    left, top = float(page.cropbox.left), float(page.cropbox.top)
    return min(x0, x1) - left, top - max(y0, y1), max(x0, x1) - left, top - min(y0, y1)


def _nearby(box: tuple[float, float, float, float] | None, words: Sequence[Span], tick: bool) -> str:
    """The printed text beside a field: right of a tick box, left of or above any other."""
    if box is None:
        return ""
    x0, y0, x1, y1 = box
    level = [word for word in words if word.y0 < y1 and word.y1 > y0 and (word.x1 <= x0 + 2 or word.x0 >= x1 - 2)]
    right = _chained(sorted((word for word in level if word.x0 >= x1 - 2), key=lambda word: word.x0), x1)
    left = _chained(sorted((word for word in level if word.x1 <= x0 + 2), key=lambda word: -word.x1), x0)[::-1]
    above = [word for word in words if y0 - 2.0 * word.height < word.middle < y0 and word.x0 < x1 and word.x1 > x0 - 2]
    for found in (right, left) if tick else (left, sorted(above, key=lambda word: word.x0), right):
        if found:
            return " ".join(word.text for word in found).strip(" :*")
    return ""


def _chained(words: list[Span], start: float) -> list[Span]:
    """Words from a field outwards, until a wide gap."""
    found: list[Span] = []
    edge, reach = start, NEAR
    for word in words:
        gap = max(word.x0 - edge, edge - word.x1)
        if gap > reach:
            break
        found.append(word)
        edge = word.x1 if word.x0 >= edge - 2 else word.x0
        reach = 1.2 * word.height
    return found
