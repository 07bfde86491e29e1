"""The baseline without an agent: one call with the document's text pasted in and the schema as `response_format`."""

from __future__ import annotations

import json
import time

from benchmarks.answers import Answer
from benchmarks.task import Task
from orion.errors import ModelError
from orion.model import Model
from orion.types import Message
from orion.wire import Ask

ANSWER_TOKENS = 1024
MAX_CHARS = 20_000
"""Characters of a document that are pasted; the longest drawn document has about half of that."""


def text_layer(task: Task) -> str:
    """The text layer of a PDF, page after page; nothing for a picture."""
    import pypdfium2

    if task.data[:5] != b"%PDF-":
        return ""
    document = pypdfium2.PdfDocument(task.data)
    try:
        return "\n\n".join(page.get_textpage().get_text_range() for page in document).strip()
    finally:
        document.close()


def ocr_text(task: Task) -> str:
    """The text layer, or what OCR reads in the picture or the pages, where there is none."""
    import io

    import pypdfium2
    from PIL import Image, ImageOps, ImageSequence

    from orion.toolsets import ocr

    found = text_layer(task)
    if found:
        return found
    if task.data[:5] == b"%PDF-":
        document = pypdfium2.PdfDocument(task.data)
        pictures = [page.render(scale=200 / 72).to_pil() for page in document]
        document.close()
    else:
        frames = ImageSequence.Iterator(Image.open(io.BytesIO(task.data)))
        pictures = [ImageOps.exif_transpose(frame).convert("RGB") for frame in frames]
    return "\n\n".join(ocr.read(picture).for_model() for picture in pictures)


async def ask(model: Model, task: Task, document: str) -> Answer:
    """One call; the file's name stands in for a document without text."""
    name = task.file if isinstance(task.file, str) else task.file.name
    content = f"File {name}:\n{document[:MAX_CHARS] or '(no text)'}\n\n{task.prompt}"
    started = time.perf_counter()
    answer = Answer(task.id)
    try:
        reply = await model.complete(Ask([Message.text("user", content)], max_tokens=ANSWER_TOKENS, schema=task.schema))
    except ModelError as error:
        answer.error = str(error)
    else:
        usage = reply.usage
        answer.calls, answer.prompt_tokens, answer.completion_tokens = 1, usage.prompt_tokens, usage.completion_tokens
        answer.first_prompt_tokens = usage.prompt_tokens
        try:
            answer.content = json.loads(reply.text)
        except ValueError:
            answer.error = f"no JSON ({reply.finish_reason})"
    answer.seconds = time.perf_counter() - started
    return answer
