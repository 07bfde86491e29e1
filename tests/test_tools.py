"""What a tool tells the model about itself, and what it makes of the arguments the model gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pydantic import BaseModel, Field

from orion.actors import bounded
from orion.artifacts import Artifact
from orion.errors import NotConfigured, ToolRetry, UserError
from orion.tools import AnyFile, Audio, Document, Tool, ToolContext, Video, as_tool, tool
from tests.scenes import play

IDS = {"img_0000aa": "image", "img_0000bb": "image", "doc_0000cc": "document", "file_0000dd": "file"}
ONE_IMAGE = {"img_0000aa": "image", "doc_0000cc": "document"}
NAMES = {"scan.png": "img_0000aa", "a.pdf": "doc_0000cc"}


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Spot(BaseModel):
    """A point."""

    title: str
    x: Annotated[float, Field(ge=0, le=1)] = 0.5
    description: str | None = None


class Tree(BaseModel):
    children: list[Tree] = []


def takes(annotation: Any, default: Any = ...) -> Tool:
    """A tool `t` with one argument `a` of this type."""

    def t(a: Any = default) -> str:
        """Do it."""
        return str(a)

    if default is ...:
        t.__defaults__ = ()
    t.__annotations__["a"] = annotation
    return as_tool(t)


NUMBER = {"type": "number"}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, {"type": "integer"}),
        (float, NUMBER),
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}),
        (Colour, {"enum": ["red", "blue"], "type": "string"}),
        (list[int], {"items": {"type": "integer"}, "type": "array"}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Annotated[int, Field(ge=1, le=9)], {"maximum": 9, "minimum": 1, "type": "integer"}),
        (
            Spot,
            {
                "properties": {
                    "title": {"type": "string"},
                    "x": {"default": 0.5, "maximum": 1, "minimum": 0, "type": "number"},
                    "description": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                },
                "required": ["title"],
                "type": "object",
            },
        ),
        (Image.Image, {"type": "string"}),
        (Document, {"type": "string"}),
        (AnyFile, {"type": "string"}),
        (Artifact, {"type": "string"}),
        (list[Image.Image], {"type": "array", "items": {"type": "string"}, "minItems": 1}),
    ],
    ids=str,
)
def test_schema_of_an_argument(annotation: Any, schema: dict[str, Any]) -> None:
    assert takes(annotation).schema() == {
        "type": "object",
        "properties": {"a": schema},
        "required": ["a"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("annotation", "enum"),
    [
        (Image.Image, ["img_0000aa", "img_0000bb"]),
        (Document, ["doc_0000cc"]),
        (AnyFile, list(IDS)),
        (Artifact, list(IDS)),
        (Image.Image | None, ["img_0000aa", "img_0000bb"]),
    ],
    ids=str,
)
def test_known_ids_become_an_enum(annotation: Any, enum: list[str]) -> None:
    assert takes(annotation).schema(IDS)["properties"]["a"] == {"type": "string", "enum": enum}


def test_a_list_of_references_has_the_enum_in_its_items() -> None:
    images = takes(list[Image.Image]).schema(IDS)["properties"]["a"]
    assert images == {"type": "array", "items": {"type": "string", "enum": ["img_0000aa", "img_0000bb"]}, "minItems": 1}


def test_an_optional_reference_without_candidates_is_not_shown() -> None:
    assert takes(Video | None, None).schema(IDS)["properties"] == {}
    assert takes(Video | None, None).fits(IDS)
    assert not takes(Video).fits(IDS)
    assert takes(Audio).schema(IDS)["properties"]["a"]["enum"] == []


@tool(name="measure")
def measure_it(
    image: Image.Image, page: Annotated[int, Field(ge=1)] = 1, unit: Literal["px", "mm"] = "px", note: str | None = None
) -> str:
    """Measure a thing.

    More words that the model does not need.

    Args:
        image: the picture,
            upright.
        page (int): which page: the first is 1.
        unknown: is no argument.

    Returns:
        page: not an argument either.
    """
    return f"{image.width} {page} {unit} {note}"


def test_docstring_and_wire() -> None:
    made = as_tool(measure_it)
    assert made.wire() == {
        "type": "function",
        "function": {
            "name": "measure",
            "description": "Measure a thing.",
            "parameters": {
                "type": "object",
                "properties": {
                    "image": {"type": "string", "description": "the picture, upright."},
                    "page": {"minimum": 1, "type": "integer", "description": "which page: the first is 1."},
                    "unit": {"enum": ["px", "mm"], "type": "string"},
                    "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                },
                "required": ["image"],
                "additionalProperties": False,
            },
        },
    }
    assert made.line() == "measure(image, page: integer=1, unit: px|mm='px', note: text?): Measure a thing."
    assert measure_it(Image.new("L", (3, 2)), page=2) == "3 2 px None"


@pytest.mark.parametrize(
    ("annotation", "value", "bound"),
    [
        (int, "3", 3),
        (int, " 50 px ", 50),
        (int, 3.0, 3),
        (float, "12.5°", 12.5),
        (float, "300dpi", 300.0),
        (float, "-0.5", -0.5),
        (bool, "true", True),
        (bool, "no", False),
        (bool, 1, True),
        (list[int], 4, [4]),
        (list[int], "4", [4]),
        (list[str], "one", ["one"]),
        (Literal["a", "b"], "a", "a"),
        (Colour, "red", "red"),
        (Spot, {"title": "t", "x": "0.25"}, {"title": "t", "x": 0.25, "description": None}),
        (int | None, "7", 7),
        (str, "3", "3"),
        (Image.Image, "img_0000bb", "img_0000bb"),
        (Image.Image, "<img_0000bb>", "img_0000bb"),
        (Image.Image, " `img_0000bb` ", "img_0000bb"),
        (Image.Image, ["img_0000bb"], "img_0000bb"),
        (Image.Image, "scan.png", "img_0000aa"),
        (Document, "a.pdf", "doc_0000cc"),
        (Document, None, "doc_0000cc"),
        (Document, "", "doc_0000cc"),
        (list[Document], None, ["doc_0000cc"]),
        (list[Image.Image], "img_0000aa", ["img_0000aa"]),
        (list[Image.Image], ["img_0000bb", "scan.png"], ["img_0000bb", "img_0000aa"]),
        (AnyFile, "file_0000dd", "file_0000dd"),
    ],
    ids=str,
)
def test_bind_forgives_the_wrapping(annotation: Any, value: Any, bound: Any) -> None:
    made = takes(annotation).bind({"a": value}, IDS, NAMES)
    assert made == {"a": bound}
    assert type(made["a"]) is type(bound)


@pytest.mark.parametrize("value", [None, "", ...], ids=["null", "empty", "absent"])
@pytest.mark.parametrize(("annotation", "default"), [(int, 5), (str | None, None), (Image.Image | None, None)], ids=str)
def test_what_is_not_said_has_the_default(annotation: Any, default: Any, value: Any) -> None:
    assert takes(annotation, default).bind({} if value is ... else {"a": value}, IDS, NAMES) == {}


def test_the_only_image_is_meant() -> None:
    assert takes(Image.Image).bind({}, ONE_IMAGE, {}) == {"a": "img_0000aa"}


@pytest.mark.parametrize(
    ("annotation", "arguments", "message"),
    [
        (int, {"a": 1, "b": 2}, "t has no argument 'b'; it takes a"),
        (int, {}, "t: a is missing; expected integer"),
        (int, {"a": None}, "t: a is missing; expected integer"),
        (float | None, {}, "t: a is missing; expected number"),
        (
            int,
            {"a": "three"},
            "t: a: Input should be a valid integer, unable to parse string as an integer, got 'three'",
        ),
        (int, {"a": 2.5}, "t: a: Input should be a valid integer, got a number with a fractional part, got 2.5"),
        (Annotated[int, Field(ge=1)], {"a": 0}, "t: a: Input should be greater than or equal to 1, got 0"),
        (Literal["a", "b"], {"a": "c"}, "t: a: Input should be 'a' or 'b', got 'c'"),
        (Spot, {"a": {"x": 0.5}}, "t: a: title: Field required, got {'x': 0.5}"),
        (list[int], {"a": [1, "x"]}, "t: a: 1: Input should be a valid integer"),
        (Image.Image, {"a": "img_9"}, "t: a: there is no 'img_9'; known: img_0000aa, img_0000bb"),
        (Image.Image, {"a": "doc_0000cc"}, "t: a: doc_0000cc is a document; known: img_0000aa, img_0000bb"),
        (Image.Image, {"a": "a.pdf"}, "t: a: a.pdf is a document; known: img_0000aa, img_0000bb"),
        (Image.Image, {}, "t: a is missing; known: img_0000aa, img_0000bb"),
        (Image.Image, {"a": ["img_0000aa", "img_0000bb"]}, "t: a takes one id, got 2"),
        (Image.Image, {"a": {"id": 1}}, "t: a: there is no"),
        (Video, {"a": "vid_1"}, "t: a: there is no 'vid_1'; there is none to use"),
        (Video, {}, "t: a is missing; there is none to use"),
    ],
    ids=str,
)
def test_bind_says_what_is_wrong(annotation: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ToolRetry) as caught:
        takes(annotation).bind(arguments, IDS, NAMES)
    assert str(caught.value).startswith(message)


def test_a_tool_without_arguments_says_so() -> None:
    def now() -> str:
        """Tell the time."""
        return "noon"

    with pytest.raises(ToolRetry, match="now has no argument 'zone'; it takes no arguments"):
        as_tool(now).bind({"zone": "utc"}, {}, {})


def test_long_values_are_shown_short() -> None:
    with pytest.raises(ToolRetry) as caught:
        takes(int).bind({"a": "x" * 10_000}, {}, {})
    assert len(str(caught.value)) < 250


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ANNOTATIONS = [
    int, float, str, bool, list[int], Literal["a"], Spot, int | None, Image.Image, list[Image.Image], Document, AnyFile,
]  # fmt: skip


@given(st.sampled_from(ANNOTATIONS), st.dictionaries(st.sampled_from(["a", "b"]), json_values))
@settings(max_examples=300, deadline=None)
def test_bind_gives_json_of_known_ids_or_a_retry(annotation: Any, arguments: dict[str, Any]) -> None:
    made = takes(annotation)
    try:
        bound = made.bind(arguments, IDS, NAMES)
    except ToolRetry:
        return
    json.dumps(bound)
    (param,) = made.params()
    if param.ref and "a" in bound:
        used = bound["a"] if isinstance(bound["a"], list) else [bound["a"]]
        assert set(used) <= set(param.candidates(IDS))
    assert made.bind(bound, IDS, NAMES) == bound


def bare(number: int) -> int:
    return number


def starred(*numbers: int) -> int:
    """Add."""
    return sum(numbers)


def keywords(**numbers: int) -> int:
    """Add."""
    return sum(numbers.values())


def nameless(number: int, /) -> int:
    """Give it back."""
    return number


def untyped(number) -> int:  # type: ignore[no-untyped-def]
    """Give it back."""
    return int(number)


def dangling(number: Nowhere) -> int:  # type: ignore[name-defined]  # noqa: F821
    """Give it back."""
    return int(number)


def opaque(number: object, lock: Callable[[], int]) -> int:
    """Give it back."""
    return 1


def endless(tree: Tree) -> int:
    """Count."""
    return len(tree.children)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (bare, "the tool bare has no docstring"),
        (starred, "the tool starred takes numbers as *"),
        (keywords, "the tool keywords takes numbers as *"),
        (nameless, "the tool nameless takes number without a name"),
        (untyped, "the tool untyped has no type for 'number'"),
        (dangling, "the types of the tool dangling cannot be read: name 'Nowhere' is not defined"),
        (opaque, "the type of 'lock' is none a tool can take"),
        (endless, "the type of 'tree' is none a tool can take: it refers to itself"),
        (len, "len is no plain function"),
        (Spot, "Spot is no plain function"),
        (Path("x").exists, "exists is no plain function"),
    ],
    ids=str,
)
def test_what_cannot_be_a_tool_is_refused_before_any_run(
    function: Callable[..., Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as caught:
        play([], tmp_path, tools=[function])
    assert message in str(caught.value)


def test_missing_libraries_give_the_install_line() -> None:
    @tool(needs=("json", "no_such_module_x"), extra="image")
    def fancy(number: int) -> int:
        """Do it."""
        return number

    made = as_tool(fancy)
    assert made.missing() == 'pip install "orion-visual-agent[image]"'
    with pytest.raises(NotConfigured) as caught:
        made.require()
    assert caught.value.setting == 'pip install "orion-visual-agent[image]"'
    assert takes(int).missing() is None


def test_a_context_is_no_argument_of_the_model() -> None:
    @tool(host=True)
    def count(number: int, context: ToolContext) -> int:
        """Count."""
        return number + len(context.run.steps)

    made = as_tool(count)
    assert made.context_param == "context"
    assert list(made.schema()["properties"]) == ["number"]


def test_grammar_bounds_touch_keywords_only() -> None:
    """Fields may be called like keywords of JSON schema."""

    class Odd(BaseModel):
        default: str
        enum: list[str]
        type: str = "x"

    schema = bounded(takes(Odd).schema())["properties"]["a"]
    assert schema["properties"] == {
        "default": {"type": "string", "maxLength": 400},
        "enum": {"items": {"type": "string", "maxLength": 400}, "type": "array", "maxItems": 32},
        "type": {"type": "string", "maxLength": 400},
    }
