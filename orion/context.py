"""The transcript as messages within the model's context: append-only, with batched eviction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orion.errors import Stop
from orion.profiles import Profile, image_tokens
from orion.types import Message

HIGH_WATER = 0.8
"""Share of the context at which old observations leave."""
LOW_WATER = 0.4
"""Share to which they leave. Far below the high mark: each eviction costs the server its prefix cache."""
KEEP_LAST = 2
"""Newest observations that always stay."""
MESSAGE_TOKENS = 6
"""Tokens a chat template puts around each message."""


@dataclass(slots=True)
class _Entry:
    message: Message
    stub: Message | None  # what replaces it when it leaves; None: it never leaves


class Transcript:
    """The messages of one run. Nothing is ever edited; `compact` is the only thing that removes.

    >>> from orion.profiles import profile_for
    >>> transcript = Transcript(context=1000, profile=profile_for("qwen2.5"))
    >>> transcript.add(Message.text("system", "Be brief."))
    >>> [message.role for message in transcript.messages()]
    ['system']
    """

    def __init__(self, *, context: int, profile: Profile) -> None:
        self.context = context
        self.profile = profile
        self._entries: list[_Entry] = []
        self._tokens_per_char = 1 / profile.chars_per_token

    def add(self, message: Message, *, stub: str | None = None) -> None:
        """Append a message. One with a `stub` may later be replaced by it to make room, if that makes any."""
        shorter = stub is not None and (message.images or len(stub) < message.chars)
        self._entries.append(_Entry(message, message.with_text(stub) if shorter and stub is not None else None))

    def messages(self) -> list[Message]:
        """All messages, oldest first."""
        return [entry.message for entry in self._entries]

    def tokens(self, messages: Sequence[Message] | None = None) -> int:
        """Estimated prompt tokens; the scale is learned from what the server counted."""
        counted = self.messages() if messages is None else messages
        text = sum(message.chars * self._tokens_per_char + MESSAGE_TOKENS for message in counted)
        pictures = sum(image_tokens(self.profile, i.width, i.height) for m in counted for i in m.images)
        return round(text + pictures)

    def learn(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """Correct the estimate's scale by a count of the server."""
        chars = sum(message.chars for message in messages)
        pictures = sum(image_tokens(self.profile, i.width, i.height) for m in messages for i in m.images)
        text_tokens = prompt_tokens - pictures - MESSAGE_TOKENS * len(messages)
        if chars > 500 and text_tokens > 0:
            self._tokens_per_char = min(max(text_tokens / chars, 0.1), 2.0)

    def compact(self, reserve: int) -> int:
        """Make room for `reserve` tokens of answer; returns how many messages became stubs.

        Raises `Stop("context_full")` when what must stay does not fit.
        """
        room = self.context - reserve
        if self.tokens() <= min(HIGH_WATER * self.context, room):
            return 0
        goal = min(LOW_WATER * self.context, room)
        evictable = [entry for entry in self._entries if entry.stub is not None]
        removed = 0
        for entry in evictable[: len(evictable) - KEEP_LAST] if len(evictable) > KEEP_LAST else []:
            if self.tokens() <= goal:
                break
            assert entry.stub is not None
            entry.message, entry.stub = entry.stub, None
            removed += 1
        needed = self.tokens()
        if needed > room:
            raise Stop(
                "context_full",
                f"the request needs about {needed} tokens and {reserve} for the answer; the model has {self.context}",
            )
        return removed
