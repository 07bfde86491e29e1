"""Runs tasks through smolagents, in the peers' own interpreter. Tool calls go back over standard output and input.

    PEERS_PYTHON benchmarks/peers_smolagents.py tool|code

One JSON object a line. In: {"url", "name", "key"} once; then for each task {"prompt", "tools", "seconds", "steps"}.
Out: {"call", "arguments"}, answered by {"text"}; at the end of a task {"answer", "error", "calls",
"first_prompt_tokens", "prompt_tokens", "completion_tokens", "broken"}.
"""

import json
import logging
import sys
import time

from smolagents import AgentError, CodeAgent, LogLevel, OpenAIServerModel, Tool, ToolCallingAgent

LINES = sys.stdout
sys.stdout = sys.stderr  # smolagents prints; the lines to the other side must stay clean
TYPES = {"string", "boolean", "integer", "number", "array", "object", "null"}


def say(**message):
    LINES.write(json.dumps(message) + "\n")
    LINES.flush()


def hear():
    line = sys.stdin.readline()
    return json.loads(line) if line else None


class RemoteTool(Tool):
    """A tool of the other side."""

    name = "remote"
    description = "Filled in for each tool."
    inputs = {}  # noqa: RUF012 - smolagents wants a plain class attribute
    output_type = "string"
    skip_forward_signature_validation = True

    def __init__(self, function):
        self.name = function["name"]
        self.description = function["description"]
        parameters = function["parameters"]
        self.inputs = {name: self._input(name, schema, parameters) for name, schema in parameters["properties"].items()}
        super().__init__()

    @staticmethod
    def _input(name, schema, parameters):
        kind = schema.get("type")
        found = {
            "type": kind if kind in TYPES else "any",
            "description": schema.get("description") or name.replace("_", " "),
        }
        if name not in parameters.get("required", []):
            found["nullable"] = True
        return found

    def forward(self, *args, **kwargs):
        values = dict(zip(self.inputs, args, strict=False)) | kwargs
        say(call=self.name, arguments={name: value for name, value in values.items() if value is not None})
        return hear()["text"]


class CountingModel(OpenAIServerModel):
    """Counts requests and tokens, and ends a task that takes too long."""

    def begin(self, seconds):
        self.deadline = time.monotonic() + seconds
        self.prompts = []
        self.completion = 0

    def generate(self, *args, **kwargs):
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("out of time")
        message = super().generate(*args, **{**kwargs, "timeout": left})
        usage = message.token_usage
        self.prompts.append(usage.input_tokens)
        self.completion += usage.output_tokens
        return message


def agent_for(kind, model, tools, steps):
    common = {"tools": tools, "model": model, "max_steps": steps, "verbosity_level": LogLevel.OFF}
    return ToolCallingAgent(**common) if kind == "tool" else CodeAgent(additional_authorized_imports=["json"], **common)


def run(kind, model, task):
    """One task; what it cost is told even when it fails."""
    model.begin(task["seconds"])
    agent = agent_for(kind, model, [RemoteTool(tool["function"]) for tool in task["tools"]], task["steps"])
    answer, error = None, ""
    try:
        answer = agent.run(task["prompt"])
    except AgentError as problem:
        error = f"{type(problem).__name__}: {problem}"[:300]
    broken = sum(getattr(step, "error", None) is not None for step in agent.memory.steps)
    say(
        answer=answer if isinstance(answer, str | int | float | bool | dict | list) else str(answer),
        error=error,
        calls=len(model.prompts),
        first_prompt_tokens=model.prompts[0] if model.prompts else None,
        prompt_tokens=sum(model.prompts),
        completion_tokens=model.completion,
        broken=broken,
    )


def main():
    logging.disable(logging.CRITICAL)
    server = hear()
    model = CountingModel(
        model_id=server["name"],
        api_base=server["url"],
        api_key=server["key"] or "none",
        client_kwargs={"max_retries": 0},
        temperature=0.0,
        max_tokens=1024,
    )
    while task := hear():
        run(sys.argv[1], model, task)


if __name__ == "__main__":
    main()
