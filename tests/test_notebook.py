"""HTML of runs and artifacts: everything is shown, nothing from outside is markup."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from orion import notebook
from orion.artifacts import Artifact, ArtifactStore
from orion.notebook import artifact_html, page_html, run_html
from orion.run import Call, Observation, Run, Step, Turn, Usage

HOSTILE = "</pre></details><script>alert(1)</script><img src=\"https://example.org/x\" onerror='alert(2)'>&"
ALLOWED = {
    *("div", "style", "span", "b", "p", "br", "pre", "code", "details", "summary"),
    *("table", "tr", "th", "td", "figure", "figcaption", "img"),
}
VOID = {"br", "img", "meta"}


class Page(HTMLParser):
    """Collects what a browser would see and checks that elements are balanced."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, f"left open: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def check_inert(html: str) -> Page:
    page = Page(html)
    assert page.tags <= ALLOWED
    assert {name for name, _value in page.attributes} <= {"class", "style", "src", "alt"}
    assert all(value.startswith("data:image/") for name, value in page.attributes if name == "src")
    return page


def picture(
    store: ArtifactStore, name: str | None = None, mode: str = "RGB", size: tuple[int, int] = (640, 480)
) -> Artifact:
    out = io.BytesIO()
    Image.new(mode, size, 40).save(out, "PNG") if mode == "L" else Image.new(mode, size).save(out, "PNG")
    return store.add(out.getvalue(), kind="image", media_type="image/png", name=name, width=size[0], height=size[1])


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path)


def hostile_run(store: ArtifactStore) -> Run:
    document = store.add(b"%PDF-", kind="document", media_type="application/pdf", name=HOSTILE, pages=3)
    image = picture(store, HOSTILE)
    crop = picture(store, None, size=(50, 40))
    call = Call(tool=HOSTILE, arguments={HOSTILE: HOSTILE, "image": image.id})
    done = Observation(text=HOSTILE, artifacts=[crop.id], seconds=0.2)
    failed = Observation(text=HOSTILE, error="bad_arguments")
    return Run(
        id=HOSTILE,
        prompt=HOSTILE,
        model=HOSTILE,
        inputs=[document.id, image.id, HOSTILE],
        toolsets=[HOSTILE],
        looks=[Observation(text=HOSTILE)],
        steps=[
            Step(turn=Turn(text=HOSTILE, reasoning=HOSTILE, calls=[call]), observations=[done]),
            Step(turn=Turn(problem=HOSTILE), observations=[failed]),
        ],
        output={HOSTILE: [{HOSTILE: HOSTILE, "n": 1}, {"other": [HOSTILE, None, True, 1.5]}]},
        stop="steps",
        detail=HOSTILE,
        usage=Usage(calls=3, prompt_tokens=1200, completion_tokens=34, cached_tokens=1000),
        seconds=4.25,
    )


def test_hostile_text_stays_text(store: ArtifactStore) -> None:
    page = check_inert(run_html(hostile_run(store), store))
    assert page.text.count(HOSTILE) >= 12
    assert "steps" in page.text
    assert "1,234 tokens" in page.text
    assert "Partial answer" in page.text


def test_hostile_text_stays_text_without_a_store(store: ArtifactStore) -> None:
    page = check_inert(run_html(hostile_run(store)))
    assert "img" not in page.tags


@given(st.text(st.characters(), max_size=200))
def test_any_text_can_be_shown_and_encoded(text: str) -> None:
    html = run_html(Run(id="run_1", prompt=text, output={text: text}, detail=text))
    check_inert(html)
    html.encode()


def test_answered_run_as_a_page(store: ArtifactStore) -> None:
    html = page_html(Run(id="run_1", prompt="2+2?", output="4", stop="answered"), store)
    page = Page(html)
    assert html.startswith("<!doctype html>")
    assert "script" not in page.tags
    assert "answered" in page.text
    assert "Answer" in page.text
    assert "Partial" not in page.text


@pytest.mark.parametrize(
    ("mode", "kind"), [("RGB", "jpeg"), ("RGBA", "png"), ("L", "jpeg"), ("1", "jpeg"), ("P", "jpeg")]
)
def test_thumbnail_is_small_and_inline(store: ArtifactStore, mode: str, kind: str) -> None:
    html = artifact_html(picture(store, "photo.png", mode), store)
    found = re.search(r'src="data:image/(\w+);base64,([^"]+)"', html)
    assert found is not None
    assert found.group(1) == kind
    with Image.open(io.BytesIO(base64.b64decode(found.group(2)))) as image:
        assert image.size == (256, 192)
    assert "photo.png" in html
    assert "640×480" in html


def test_thumbnails_are_counted(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "THUMBNAILS", 3)
    ids = [picture(store, f"{width}.png", size=(width, 20)).id for width in range(20, 26)]
    html = run_html(Run(id="run_1", prompt="look", inputs=ids), store)
    assert html.count("<img ") == 3
    assert all(id_ in html for id_ in ids)


def test_a_broken_or_huge_image_has_a_card_without_a_thumbnail(store: ArtifactStore) -> None:
    broken = store.add(
        b"\x89PNG\r\n\x1a\nnot", kind="image", media_type="image/png", name="broken.png", width=9, height=9
    )
    huge = store.add(b"\x89PNG", kind="image", media_type="image/png", name="huge.png", width=20_000, height=20_000)
    for artifact in (broken, huge):
        html = artifact_html(artifact, store)
        assert "<img" not in html
        assert str(artifact.name) in html


def test_long_values_are_cut_and_say_so() -> None:
    rows = [{"row": number} for number in range(notebook.TABLE_ROWS + 5)]
    html = run_html(Run(id="run_1", prompt="x" * (notebook.TEXT_CHARS + 7), output=rows))
    assert "5 more rows" in html
    assert "7 more characters" in html


def test_deep_values_end_as_json_text() -> None:
    value: object = "bottom"
    for _level in range(60):
        value = {"level": value}
    page = check_inert(run_html(Run(id="run_1", prompt="deep", output=value)))
    assert '{"level": "bottom"}' in page.text
