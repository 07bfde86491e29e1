"""Images as the model itself sees them: sized for its family, sent once, referred to by id afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from orion.job import Job
from orion.media import image_for_model
from orion.profiles import Patches
from orion.types import Message

MAX_PIXELS = 1_003_520
"""Pixels of one image sent to a model whose profile names no limit: 1,280 patches of 28 px."""
MULTIPLE = 28


async def shown(job: Job, ids: Sequence[str], text: str | None = None) -> Message:
    """A user message with these images, each named by its id. Raises `MediaError` when one cannot be read."""
    maths = job.model.profile.image
    max_pixels = (maths.max_pixels if isinstance(maths, Patches) else 0) or MAX_PIXELS
    multiple = maths.side if isinstance(maths, Patches) else MULTIPLE
    images = [
        await image_for_model(id_, job.store, job.workers, max_pixels=max_pixels, multiple=multiple) for id_ in ids
    ]
    return Message.user(text if text is not None else f"The image{'s' * (len(ids) > 1)} {', '.join(ids)}:", images)
