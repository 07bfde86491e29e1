"""The scripted server of the overhead benchmark: calls one tool so many times, then answers.

    python -m benchmarks.overhead_server STEPS TOOL

prints its URL, then one JSON line a request of a run (bytes of the body, images in it, how many of them differ, steps
so far), until standard input closes. It speaks native tool calls to a client that sends `tools`, JSON actions to one
that sends a schema, and has passable answers to Orion's probes.
"""

from __future__ import annotations

import json
import re
import sys

from tests.fakeserver import FakeServer, Request, Response, answer, tool_call, usage_of

IMAGE = re.compile(rb'"image_url":\{"url":"([^"]+)"')
LIMIT = 10**6
PROBES = ("Say hello.", "What is the weather in Paris? Call get_weather.", "Which colour?")
SEEN = usage_of(prompt=400, completion=8)
"""Enough prompt tokens for the probe to believe that its picture was seen."""


def respond(request: Request, steps: int, tool: str) -> Response:
    """One more tool call, or the answer once `steps` calls have been made.

    A run has as many steps as its transcript holds turns of the assistant.
    """
    body = request.json
    if is_probe(body["messages"]):
        return answer('{"q7x": "vu3"}', usage=SEEN)(request)
    done = sum(message["role"] == "assistant" for message in body["messages"])
    pictures = IMAGE.findall(request.body)
    facts = {"bytes": len(request.body), "images": len(pictures), "different": len(set(pictures)), "steps": done}
    print(json.dumps(facts), flush=True)
    arguments = {"expression": f"{done} + {'1' * (done % 50 + 1)}"}
    names = [offered["function"]["name"] for offered in body.get("tools") or []]
    if names:
        return native(request, names, done < steps, tool, arguments, done)
    action = {"tool": tool, "arguments": arguments} if done < steps else {"final": "done"}
    return answer(json.dumps(action), usage=SEEN)(request)


def native(request: Request, names: list[str], more: bool, tool: str, arguments: dict[str, str], done: int) -> Response:
    """A tool call, or the answer in the way the client's agent ends."""
    if not more and "final_answer" not in names:
        return answer("done")(request)
    name, values = (tool, arguments) if more else ("final_answer", {"answer": "done"})
    return answer(None, calls=[tool_call(name, json.dumps(values), f"call_{done}")], finish_reason="tool_calls")(
        request
    )


def is_probe(messages: list[dict[str, object]]) -> bool:
    """Whether this is one of the tiny requests by which Orion learns what a server can do."""
    content = messages[0]["content"]
    text = content if isinstance(content, str) else json.dumps(content)
    return len(messages) == 1 and any(probe in text for probe in PROBES)


def main() -> None:
    steps, tool = int(sys.argv[1]), sys.argv[2]
    with FakeServer(lambda request: respond(request, steps, tool)) as server:
        print(server.url, flush=True)
        sys.stdin.read(LIMIT)


if __name__ == "__main__":
    main()
