"""A run and an artifact as HTML: self-contained, without scripts, readable on a light and on a dark page."""

from __future__ import annotations

import base64
import html
import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from orion.run import JSON, Observation, Run, Step
from orion.words import artifact_words, call_words, count, dump, made_by, spoken

if TYPE_CHECKING:
    from orion.artifacts import Artifact, ArtifactStore
    from orion.result import Result

T = TypeVar("T")

THUMBNAIL_PIXELS = 256
"""Longest side of a thumbnail."""
THUMBNAILS = 24
"""Thumbnails in one run; further images are named only, so that a notebook stays small."""
SOURCE_PIXELS = 100_000_000
"""Larger images are not decoded for a thumbnail."""
TEXT_CHARS = 4000
"""Characters of one text shown."""
TABLE_ROWS = 200
"""Rows of one table shown."""
DEPTH = 8
"""Levels of nesting shown as tables; deeper values are shown as JSON text."""

# No colour here is a page background: text inherits the page's colour, everything else is a half-transparent grey or a
# mid-tone, so one style sheet serves both themes of a notebook, which do not follow the system's.
_STYLE = """
.orion{font:13px/1.5 system-ui,sans-serif;
 max-width:60em;border:1px solid #8885;border-radius:8px;padding:12px 16px;margin:4px 0}
.orion *{box-sizing:border-box}
.orion p{margin:6px 0}
.orion .o-head{display:flex;flex-wrap:wrap;gap:4px 12px;align-items:center;opacity:.95}
.orion .o-pill{color:#fff;border-radius:9px;padding:0 9px;font-weight:600}
.orion .o-soft{opacity:.66}
.orion .o-label{font-size:11px;letter-spacing:.06em;text-transform:uppercase;opacity:.66;margin:12px 0 4px}
.orion .o-text,.orion pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:4px 0;text-align:left}
.orion .o-prompt{border-left:3px solid #8887;padding-left:10px}
.orion pre{font:12px/1.45 ui-monospace,monospace;background:#8881;border-radius:5px;padding:7px 9px;
 max-height:22em;overflow:auto;color:inherit}
.orion code{font:12px ui-monospace,monospace;background:#8882;border-radius:4px;padding:1px 4px;
 color:inherit;overflow-wrap:anywhere}
.orion table{border-collapse:collapse;margin:2px 0;font-size:13px;border:0}
.orion table tr:nth-child(n){background:none!important}
.orion th,.orion td{border:1px solid #8884;padding:3px 9px;text-align:left;vertical-align:top;overflow-wrap:anywhere}
.orion th{background:#8881;font-weight:600;white-space:nowrap}
.orion .o-list td.o-num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.orion details{margin:3px 0}
.orion summary{cursor:pointer;overflow-wrap:anywhere}
.orion .o-wide{overflow-x:auto}
.orion .o-step{border-left:3px solid #8884;padding:0 0 0 10px;margin:6px 0}
.orion .o-bad{color:#d9534f}
.orion .o-cards{display:flex;flex-wrap:wrap;align-items:flex-start;gap:10px;margin:8px 0}
.orion figure{margin:0;max-width:258px;border:1px solid #8884;border-radius:6px;overflow:hidden}
.orion figure img{display:block;margin:0 auto;max-width:100%;background:#8882}
.orion figcaption{padding:4px 8px;font-size:12px;overflow-wrap:anywhere}
"""

_PILLS = {"answered": "#2b7a4b", "cancelled": "#6b6f76", "model_failed": "#b3382c"}
_PILL_PARTIAL = "#96660b"


def run_html(run: Result | Run, store: ArtifactStore | None = None) -> str:
    """A run as one piece of HTML: answer, usage, what was attached and made, and each step folded away.

    Everything that came from the model, a file or the caller is escaped. Without `store` there are no thumbnails.

    >>> from orion.run import Run
    >>> "&lt;b&gt;" in run_html(Run(id="run_1", prompt="<b>bold</b>"))
    True
    """
    data: Run = run if isinstance(run, Run) else run.run
    page = _Page(store)
    parts = [
        _head(data),
        f'<div class="o-label">Request</div><div class="o-text o-prompt">{_text(data.prompt)}</div>',
        page.cards(data.inputs),
        _answer(data),
    ]
    made = made_by(data)
    if made:
        parts.append(f'<div class="o-label">Made in this run</div>{page.cards(made)}')
    if data.looks or data.steps:
        parts.append('<div class="o-label">How it came about</div>')
        parts += [page.look(look) for look in data.looks]
        parts += [page.step(number, step) for number, step in enumerate(data.steps, 1)]
    return _wrap("".join(parts))


def artifact_html(artifact: Artifact, store: ArtifactStore | None = None) -> str:
    """One artifact as a card with its thumbnail (images) and its facts."""
    return _wrap(f'<div class="o-cards">{_Page(store).card(artifact)}</div>')


def page_html(run: Result | Run, store: ArtifactStore | None = None) -> str:
    """`run_html` as a whole page for a browser."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        '<meta name="viewport" content="width=device-width"><title>Orion run</title>'
        f'<body style="margin:24px auto;max-width:62em;padding:0 12px">{run_html(run, store)}</body></html>\n'
    )


class _Page:
    """Artifacts of one page; counts the thumbnails, which are the only large part."""

    def __init__(self, store: ArtifactStore | None) -> None:
        self._store = store
        self._left = THUMBNAILS

    def cards(self, ids: Sequence[str]) -> str:
        if not ids:
            return ""
        return f'<div class="o-cards">{"".join(self._card_of(id_) for id_ in ids)}</div>'

    def _card_of(self, id_: str) -> str:
        if self._store is None or id_ not in self._store:
            return f"<figure><figcaption><code>{_escape(id_)}</code></figcaption></figure>"
        return self.card(self._store.get(id_))

    def card(self, artifact: Artifact) -> str:
        image = ""
        if artifact.kind == "image" and self._store is not None and self._left > 0:
            uri = _thumbnail(self._store, artifact)
            if uri:
                self._left -= 1
                image = f'<img src="{uri}" alt="{_escape(artifact.name or artifact.id)}">'
        name = f"<b>{_escape(artifact.name)}</b><br>" if artifact.name else ""
        facts = f'<span class="o-soft">{_escape(artifact_words(artifact))}</span>'
        return f"<figure>{image}<figcaption>{name}<code>{_escape(artifact.id)}</code> {facts}</figcaption></figure>"

    def look(self, look: Observation) -> str:
        summary = f"first look · {len(look.text):,} characters{_seconds(look.seconds)}"
        return f'<details class="o-step"><summary class="o-soft">{summary}</summary>{_pre(look.text)}</details>'

    def step(self, number: int, step: Step) -> str:
        turn = step.turn
        calls = " ".join(f"<code>{_escape(call_words(call))}</code>" for call in turn.calls)
        if not calls:
            calls = '<span class="o-bad">no usable action</span>' if turn.problem else "answer"
        failed = any(observation.error for observation in step.observations)
        mark = ' <span class="o-bad">failed</span>' if failed else ""
        body = []
        if turn.reasoning:
            body.append(f'<p class="o-soft o-text">{_text(turn.reasoning)}</p>')
        if spoken(turn):
            body.append(f'<p class="o-text">{_text(spoken(turn))}</p>')
        if turn.problem:
            body.append(f'<p class="o-bad">{_text(turn.problem)}</p>')
        for observation in step.observations:
            kind = f'<span class="o-bad">{_escape(observation.error)}</span>' if observation.error else ""
            body.append(f"{kind}{_pre(observation.text)}{self.cards(observation.artifacts)}")
        used = f"{turn.usage.total_tokens:,} tokens" if turn.usage.total_tokens else ""
        body.append(f'<p class="o-soft">{used}</p>' if used else "")
        seconds = turn.seconds + sum(observation.seconds for observation in step.observations)
        summary = f'{number}. {calls}{mark}<span class="o-soft">{_seconds(seconds)}</span>'
        return f'<details class="o-step"><summary>{summary}</summary>{"".join(body)}</details>'


def _head(run: Run) -> str:
    stop = run.stop or "running"
    pill = f'<span class="o-pill" style="background:{_PILLS.get(stop, _PILL_PARTIAL)}">{_escape(stop)}</span>'
    facts = [f"<b>{_escape(run.model)}</b>"] if run.model else []
    facts += [
        count(len(run.steps), "step"),
        count(run.usage.calls, "model call"),
        f"{run.usage.total_tokens:,} tokens",
    ]
    if run.usage.cached_tokens:
        facts.append(f"{run.usage.cached_tokens:,} cached")
    facts.append(f"{run.seconds:.1f} s")
    if run.toolsets:
        facts.append(f"toolsets {_escape(', '.join(run.toolsets))}")
    detail = f'<p class="o-soft">{_text(run.detail)}</p>' if run.detail else ""
    return f'<div class="o-head">{pill}{"".join(f"<span>{fact}</span>" for fact in facts)}</div>{detail}'


def _answer(run: Run) -> str:
    if run.output is None:
        return ""
    label = "Answer" if run.stop == "answered" else "Partial answer"
    shown = _text_block(run.output) if isinstance(run.output, str) else _table(run.output, DEPTH)
    return f'<div class="o-label">{label}</div><div class="o-wide">{shown}</div>'


def _table(value: JSON, depth: int) -> str:
    """JSON as nested tables: an object has a row a key, a list of objects a row an item and a column a key."""
    if isinstance(value, Mapping) and value and depth:
        rows = (f"<tr><th>{_escape(key)}</th>{_cell(item, depth - 1)}</tr>" for key, item in _first(value.items()))
        return f"<table>{''.join(rows)}</table>{_more(value)}"
    if isinstance(value, list) and value and depth:
        if all(isinstance(item, Mapping) for item in value):
            columns = list(dict.fromkeys(key for item in value for key in item))[:TABLE_ROWS]
            head = "".join(f"<th>{_escape(column)}</th>" for column in columns)
            rows = (
                f"<tr>{''.join(_cell(item.get(column, ''), depth - 1) for column in columns)}</tr>"
                for item in _first(value)
            )
            return f"<table class=o-list><tr>{head}</tr>{''.join(rows)}</table>{_more(value)}"
        rows = (f"<tr>{_cell(item, depth - 1)}</tr>" for item in _first(value))
        return f"<table>{''.join(rows)}</table>{_more(value)}"
    return _text(value if isinstance(value, str) else dump(value))


def _first(items: Iterable[T]) -> Iterator[T]:
    return itertools.islice(items, TABLE_ROWS)


def _more(value: JSON) -> str:
    hidden = len(value) - TABLE_ROWS
    return f'<p class="o-soft">{hidden:,} more rows</p>' if hidden > 0 else ""


def _cell(value: JSON, depth: int) -> str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f"<td{' class=o-num' if number else ''}>{_table(value, depth)}</td>"


def _thumbnail(store: ArtifactStore, artifact: Artifact) -> str | None:
    """A data URI of at most 256×256 px, or None when the image is too large or cannot be read."""
    from PIL import Image, ImageOps

    if (artifact.width or 0) * (artifact.height or 0) > SOURCE_PIXELS:
        return None
    try:
        with Image.open(store.path(artifact.id)) as source:
            if source.width * source.height > SOURCE_PIXELS:
                return None
            source.draft("RGB", (2 * THUMBNAIL_PIXELS, 2 * THUMBNAIL_PIXELS))
            see_through = "A" in source.getbands() or "transparency" in source.info
            image = ImageOps.exif_transpose(source).convert("RGBA" if see_through else "RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None  # the card still names the artifact; a picture of a picture is not worth an error
    image.thumbnail((THUMBNAIL_PIXELS, THUMBNAIL_PIXELS))
    out = io.BytesIO()
    image.save(out, "PNG" if see_through else "JPEG", **({} if see_through else {"quality": 82}))
    kind = "png" if see_through else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(out.getvalue()).decode()}"


def _wrap(inner: str) -> str:
    return f'<div class="orion"><style>{_STYLE}</style>{inner}</div>'


def _pre(text: str) -> str:
    return f"<pre>{_text(text)}</pre>" if text else ""


def _text_block(text: str) -> str:
    return f'<div class="o-text">{_text(text)}</div>'


def _text(text: str) -> str:
    hidden = len(text) - TEXT_CHARS
    return _escape(text) if hidden <= 0 else f"{_escape(text[:TEXT_CHARS])}… ({hidden:,} more characters)"


def _escape(text: object) -> str:
    # A model can send half a surrogate pair, which no page can be encoded with.
    return html.escape(str(text).encode("utf-8", "replace").decode(), quote=True)


def _seconds(seconds: float) -> str:
    return f" · {seconds:.1f} s" if seconds >= 0.05 else ""
