"""Toolsets: which there are, and which a request gets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from orion.errors import ModelBroke, UserError
from orion.events import Selected
from orion.toolkit import ADD_TOOLSET, YOURS, chosen_in, discover, named, offer, select, summaries, usable, waiting
from orion.tools import AnyFile, Toolset, as_tool, tool
from tests.scenes import NOTE, act, attach, final, job_of, play, scripted


def forecast(city: str) -> str:
    """Tell the weather."""
    return f"sun in {city}"


def translate(text: str) -> str:
    """Translate."""
    return text[::-1]


def weigh(file: AnyFile) -> str:
    """Weigh a file."""
    return str(file.stat().st_size)


@tool(needs=("no_such_module_x",))
def impossible(text: str) -> str:
    """Never works here."""
    return text


WEATHER = Toolset("weather", "what the sky does", (forecast,))
WORDS = Toolset("words", "languages", (translate, impossible))
SCALES = Toolset("scales", "weights of files", (weigh,))
EXTRA = [WEATHER, WORDS, SCALES]


def test_the_built_in_toolsets_are_found_and_whole() -> None:
    known = discover()
    assert {"core", "image", "document"} <= set(known)
    for name, toolset in known.items():
        assert toolset.name == name
        assert toolset.summary
        assert all(as_tool(function).wire() for function in toolset.tools)
    names = [as_tool(function).name for toolset in known.values() for function in toolset.tools]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ([], ["core"]),
        (["document"], ["core", "document"]),
        (["core", "core"], ["core"]),
        ([" Image "], ["core", "image"]),
        (["world_gen", "world-gen"], ["core", "world-gen"]),
    ],
)
def test_names_are_forgiven(asked: list[str], given: list[str]) -> None:
    catalogue = {**discover(), "world-gen": WEATHER}
    assert named(asked, catalogue) == given


@pytest.mark.parametrize(
    ("asked", "fix"),
    [
        ("documnet", "Did you mean 'document'? Known: core, document, image."),
        ("zzz", "Known: core, document, image."),
        ("", "Known: core, document, image."),
    ],
)
def test_an_unknown_name_tells_the_known_ones(asked: str, fix: str) -> None:
    catalogue = {name: discover()[name] for name in ("core", "image", "document")}
    with pytest.raises(UserError) as caught:
        named([asked], catalogue)
    assert (caught.value.param, caught.value.fix) == ("toolsets", fix)
    assert repr(asked) in caught.value.message


def test_only_what_can_run_is_offered(tmp_path: Path) -> None:
    assert [made.name for made in usable(WORDS)] == ["translate"]
    with job_of(tmp_path, extra=EXTRA) as job:
        offer(job, ["words", "scales"])
        assert list(job.tools) == ["translate", "weigh"]
        assert [made.name for made in job.offered()] == ["translate"]  # there is no file to weigh
        attach(job)
        assert [made.name for made in job.offered()] == ["translate", "weigh"]
        offer(job, ["words"])
        assert job.run.toolsets.count("words") == 1


def test_two_tools_of_one_name_are_refused(tmp_path: Path) -> None:
    def translate(text: str) -> str:
        """Another one."""
        return text

    with job_of(tmp_path, extra=[WORDS, Toolset("more", "more", (translate,))]) as job:
        offer(job, ["words"])
        with pytest.raises(UserError, match="two tools are named 'translate'"):
            offer(job, ["more"])


def test_what_waits_could_do_something(tmp_path: Path) -> None:
    with job_of(tmp_path, extra=EXTRA) as job:
        assert waiting(job) == ["core", "weather", "words"]
        attach(job)
        assert waiting(job) == ["core", "scales", "weather", "words"]
        offer(job, ["core", "weather"])
        assert waiting(job) == ["scales", "words"]
        assert summaries(job, waiting(job)) == "scales: weights of files\nwords: languages"


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ('{"toolsets": ["words", "weather"]}', ["weather", "words"]),
        ('{"toolsets": ["words", "words", "nonsense"]}', ["words"]),
        ('```json\n{"toolsets": []}\n```', []),
        ('{"toolsets": "words"}', []),
        ('["words"]', []),
        ("words", []),
        ("", []),
    ],
)
def test_a_choice_is_read(text: str, chosen: list[str]) -> None:
    assert chosen_in(text, ["weather", "words"]) == chosen


def test_the_model_chooses_when_nothing_else_tells(tmp_path: Path) -> None:
    model = scripted(['{"toolsets": ["weather"]}'])
    with job_of(tmp_path, model=model, extra=EXTRA) as job:
        assert asyncio.run(select(job)) is True
        assert job.run.toolsets == [YOURS, "core", "weather"]
        assert job.run.usage.calls == 1
    (ask,) = model.asks
    assert ask.schema is not None
    assert ask.schema["properties"]["toolsets"]["items"]["enum"] == ["weather", "words"]
    said = json.loads(ask.messages[0].body)["content"]
    assert "weather: what the sky does" in said
    assert "Do it." in said
    assert "forecast" not in said  # no tool's schema before it is chosen


def test_media_settle_it_without_a_call(tmp_path: Path) -> None:
    model = scripted([])
    with job_of(tmp_path, model=model, extra=EXTRA) as job:
        attach(job, b"x", "image", "a.png", width=1, height=1)
        assert asyncio.run(select(job)) is False
        assert job.run.toolsets == [YOURS, "core", "image"]
    assert model.asks == []


def chosen_run(replies: list[Any], folder: Path, **options: Any) -> Any:
    return play(replies, folder, toolsets=None, extra=EXTRA, **options)


def test_a_run_with_a_choice_and_one_more_toolset(tmp_path: Path) -> None:
    played = chosen_run(
        [
            '{"toolsets": []}',
            act(ADD_TOOLSET, name="words"),
            act(ADD_TOOLSET, name="wordz"),
            act("impossible"),
            final("x"),
        ],
        tmp_path,
    )
    assert played.run.toolsets == ["core", "words"]
    (selected,) = [event for event in played.events if isinstance(event, Selected)]
    assert selected == Selected(("core",), asked_model=True)
    added, again, unknown = (step.observations[0] for step in played.run.steps[:3])
    assert (added.error, added.text) == (None, "Added words. More tools:\ntranslate(text: text): Translate.")
    assert (again.error, "'wordz'" in again.text, "weather" in again.text) == ("bad_arguments", True, True)
    assert unknown.error == "unknown_tool"
    system = json.loads(played.model.asks[1].messages[0].body)["content"]
    assert f"{ADD_TOOLSET}(name: weather|words)" in system
    assert "translate" not in system


def test_a_model_that_fails_at_the_choice_ends_the_run(tmp_path: Path) -> None:
    played = chosen_run([ModelBroke("gone")], tmp_path)
    assert (played.run.stop, played.run.detail, played.run.output) == ("model_failed", "gone", None)


def test_no_choice_without_anything_to_choose(tmp_path: Path) -> None:
    played = play([final("4")], tmp_path, toolsets=None)
    assert (played.run.toolsets, played.run.usage.calls) == (["core"], 1)


def test_a_text_file_settles_it_and_the_model_may_still_add(tmp_path: Path) -> None:
    played = chosen_run([act(ADD_TOOLSET, name="scales"), act("weigh"), final("26")], tmp_path, files=[NOTE])
    assert played.run.toolsets == ["core", "scales"]
    assert [step.observations[0].error for step in played.run.steps[:2]] == [None, None]
    assert played.run.steps[1].observations[0].text == str(len(NOTE))
    assert played.run.output == "26"
