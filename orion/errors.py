"""What can go wrong, sorted by who has to act on it, and the reasons a run can stop."""

from __future__ import annotations

from typing import Literal

StopReason = Literal[
    "answered",  # the model gave its answer
    "steps",  # Limits.steps model turns were used
    "tokens",  # Limits.tokens prompt and completion tokens were used
    "wall_clock",  # Limits.seconds passed
    "no_progress",  # the same action brought the same observation three times
    "invalid_turns",  # Limits.invalid_turns turns in a row held no usable action
    "schema_unsatisfied",  # no answer matched the asked schema within Limits.repairs
    "context_full",  # the request does not fit the model's context, even compacted
    "model_failed",  # the model could not be reached or broke off
    "cancelled",  # the caller stopped the run
]


class OrionError(Exception):
    """Base of every error Orion raises on purpose.

    `param` names the argument or field at fault, `fix` says in one sentence what to do about it.

    >>> print(OrionError("no such file: a.pdf", param="files[0]", fix="Check the path."))
    no such file: a.pdf (files[0]). Check the path.
    """

    def __init__(self, message: str, *, param: str | None = None, fix: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.fix = fix

    def __str__(self) -> str:
        where = f" ({self.param})" if self.param else ""
        fix = f". {self.fix}" if self.fix else ""
        return f"{self.message}{where}{fix}"


class UserError(OrionError):
    """The caller used Orion wrongly: a bad argument, an unknown toolset, a schema that cannot be met."""


class SchemaError(UserError):
    """The asked output schema is refused before any model call; `param` is a JSON pointer into it."""


MediaCode = Literal[
    "not_found",
    "not_a_file",
    "empty_file",
    "unsupported",
    "corrupt_file",
    "too_large",
    "password_required",
    "wrong_password",
    "fetch_refused",
    "fetch_failed",
    "timeout",
    "disk_full",
]


class MediaError(UserError):
    """A file, URL or data URI that cannot be used; `code` says why in one word."""

    def __init__(self, code: MediaCode, message: str, *, param: str | None = None, fix: str | None = None) -> None:
        super().__init__(message, param=param, fix=fix)
        self.code: MediaCode = code


class NotConfigured(OrionError):
    """Something optional is not set up; `setting` is the setting or the `pip install` line that provides it."""

    def __init__(self, message: str, *, setting: str, fix: str | None = None) -> None:
        super().__init__(message, fix=fix)
        self.setting = setting


class ToolRetry(OrionError):
    """Raised by a tool: the call is wrong, and the model should correct its arguments."""


class ToolFailed(OrionError):
    """Raised by a tool: the call was right but cannot succeed; the model should adapt."""


class ModelError(OrionError):
    """The model server could not do what was asked. `retryable` tells whether trying again may help."""

    def __init__(
        self, message: str, *, status: int | None = None, retryable: bool = False, fix: str | None = None
    ) -> None:
        super().__init__(message, fix=fix)
        self.status = status
        self.retryable = retryable


class ModelUnreachable(ModelError):
    """No model answers at the configured address."""


class ModelTimeout(ModelError):
    """The model did not answer within the connect, read or total time."""


class ModelBroke(ModelError):
    """The server dropped the stream midway or sent something that is not the protocol."""


class ContextOverflow(ModelError):
    """The prompt does not fit the model's context."""


class WeightsError(OrionError):
    """Model weights could not be had or failed their hash check; the message names every source tried."""


class Stop(Exception):
    """Ends a run from anywhere inside the loop; the best partial answer is still assembled."""

    def __init__(self, reason: StopReason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason: StopReason = reason
        self.detail = detail
