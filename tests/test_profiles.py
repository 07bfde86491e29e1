from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion.profiles import Profile, _profiles, billions, image_tokens, model_size, profile_for


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Qwen/Qwen2.5-Coder-1.5B-Instruct", "qwen2.5-coder"),
        ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "qwen2.5-coder"),
        ("/models/Qwen2.5-VL-7B-Instruct-Q4_K_M.gguf", "qwen2.5-vl"),
        ("Qwen/Qwen2-VL-2B-Instruct", "qwen2-vl"),
        ("Qwen/Qwen3-VL-8B-Instruct", "qwen3-vl"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3.5"),
        ("Qwen/Qwen3.5-9B", "qwen3.5"),
        ("Qwen/Qwen3-8B", "qwen3"),
        ("qwen2.5-7b-instruct", "qwen2.5"),
        ("OpenGVLab/InternVL3-8B", "internvl"),
        ("zai-org/GLM-4.5V", "glm-v"),
        ("zai-org/GLM-4.1V-9B-Thinking", "glm-v"),
        ("zai-org/GLM-4.6", "glm"),
        ("google/gemma-3-4b-it", "gemma3"),
        ("google/gemma-4-12b-it", "gemma4"),
        ("meta-llama/Llama-3.2-3B-Instruct", "llama3"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama4"),
        ("mistralai/Pixtral-12B-2409", "pixtral"),
        ("mistralai/Mistral-Small-3.2-24B", "mistral"),
        ("openai/gpt-oss-20b", "gpt-oss"),
        ("deepseek-ai/DeepSeek-V3.2", "deepseek"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "deepseek"),
        ("microsoft/Phi-4-mini-instruct", "phi"),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "smollm"),
        ("openai/gpt-5-mini", "gpt"),
        ("gpt-4o", "gpt"),
        ("anthropic/claude-sonnet-4-5", "claude"),
        ("gemini/gemini-2.5-flash", "gemini"),
        ("orion", "generic"),
        ("", "generic"),
    ],
)
def test_a_name_has_its_family(name: str, family: str) -> None:
    assert profile_for(name).family == family


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("Qwen2.5-VL-7B-Instruct", 7.0),
        ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", 1.5),
        ("Qwen3-30B-A3B", 30.0),
        ("SmolLM2-135M", 0.135),
        ("mixtral-8x7b", 7.0),
        ("phi-4", None),
        ("gpt-4o", None),
        ("claude-4b-or-not", 4.0),
    ],
)
def test_the_size_is_read_from_the_name(name: str, size: float | None) -> None:
    assert billions(name) == size


def test_only_models_above_three_billion_think_before_an_action() -> None:
    assert profile_for("Qwen2.5-7B-Instruct").max_thought == 240
    assert profile_for("Qwen2.5-3B-Instruct").max_thought == 0
    assert profile_for("qwen2.5-instruct").max_thought == 0  # size unknown: be careful


def test_hosted_models_use_native_calls_and_local_ones_a_schema() -> None:
    modes = {profile.family: profile.actions for profile in _profiles()}
    assert {family for family, mode in modes.items() if mode == "native"} == {"claude", "gemini", "gpt"}


def test_the_table_is_sound() -> None:
    profiles = _profiles()
    families = [profile.family for profile in profiles]
    assert len(set(families)) == len(families)
    assert profiles[-1].family == "generic"
    assert profiles[-1].match == ()
    for profile in profiles[:-1]:
        assert profile.match, f"{profile.family} can never be chosen"
        for pattern in profile.match:
            re.compile(pattern)


@pytest.mark.parametrize(
    ("name", "width", "height", "tokens"),
    [
        ("qwen2.5-vl", 900, 600, 674),  # measured on vLLM 0.32: 672 + 2
        ("qwen2.5-vl", 1, 1, 6),  # grown to 56 x 56
        ("qwen3-vl", 1024, 1024, 1026),
        ("gemma-3", 4000, 3000, 258),
        ("internvl3", 448, 448, 256),
        ("internvl3", 896, 448, 768),  # two tiles and the thumbnail
        ("pixtral", 512, 512, 32 * 33),
        ("gpt-4o", 1024, 1024, 765),
        ("gpt-4o", 2048, 4096, 1105),
        ("claude", 1000, 750, 1000),
        ("gemini", 384, 384, 258),
        ("gemini", 1536, 768, 516),
    ],
)
def test_what_an_image_costs(name: str, width: int, height: int, tokens: int) -> None:
    assert image_tokens(profile_for(name), width, height) == tokens


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (-1, 3)])
def test_an_image_without_pixels_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="at least one pixel"):
        image_tokens(profile_for("qwen2.5-vl"), *size)
    with pytest.raises(ValueError, match="at least one pixel"):
        model_size(profile_for("qwen2.5-vl"), *size)


sides = st.integers(1, 20000)


@given(st.sampled_from(_profiles()), sides, sides)
def test_costs_are_positive_and_bounded(profile: Profile, width: int, height: int) -> None:
    tokens = image_tokens(profile, width, height)
    assert tokens >= 1
    assert profile.family == "generic" or profile.image.kind != "patches" or tokens < 20_000 or not _bounded(profile)


def _bounded(profile: Profile) -> bool:
    return profile.image.kind == "patches" and bool(profile.image.max_pixels or profile.image.max_side)


@given(st.sampled_from(["qwen2.5-vl", "qwen3-vl"]), sides, sides)
def test_the_resized_image_fits_the_processor_and_stays_as_it_is(name: str, width: int, height: int) -> None:
    profile = profile_for(name)
    maths = profile.image
    assert maths.kind == "patches"
    w, h = model_size(profile, width, height)
    assert w % maths.side == 0
    assert h % maths.side == 0
    assert w * h <= maths.max_pixels
    assert w * h >= maths.min_pixels
    # Sent in this size it is not resized again, so boxes in its pixels are boxes in ours.
    assert model_size(profile, w, h) == (w, h)
    assert image_tokens(profile, w, h) == image_tokens(profile, width, height) == w * h // maths.side**2 + 2
