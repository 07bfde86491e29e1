"""The scripted server of the overhead benchmark: calls one tool so many times, then answers.

    python -m benchmarks.overhead_server STEPS

prints its URL, then one JSON line a chat request (bytes of the body, images in it, steps so far), until standard
input closes. It speaks native tool calls to a client that sends `tools`, and JSON actions to one that sends a schema.
"""

from __future__ import annotations

import json
import sys

from tests.fakeserver import FakeServer, Request, Response, answer, tool_call

LIMIT = 10**6


def respond(request: Request, steps: int) -> Response:
    """One more tool call, or the answer once `steps` calls have been made.

    A run has as many steps as its transcript holds turns of the assistant.
    """
    body = request.json
    done = sum(message["role"] == "assistant" for message in body["messages"])
    images = request.body.count(b'"image_url":{')
    print(json.dumps({"bytes": len(request.body), "images": images, "steps": done}), flush=True)
    arguments = {"expression": f"{done} + 1"}
    names = [tool["function"]["name"] for tool in body.get("tools") or []]
    if names:
        if done < steps:
            call = ("calculate", arguments)
        elif "final_answer" in names:
            call = ("final_answer", {"answer": "done"})
        else:
            return answer("done")(request)
        name, values = call
        calls = [tool_call(name, json.dumps(values), f"call_{done}")]
        return answer(None, calls=calls, finish_reason="tool_calls")(request)
    if "response_format" not in body:
        return answer("done")(request)
    action = {"tool": "calculate", "arguments": arguments} if done < steps else {"final": "done"}
    return answer(json.dumps(action))(request)


def main() -> None:
    steps = int(sys.argv[1])
    with FakeServer(lambda request: respond(request, steps)) as server:
        print(server.url, flush=True)
        sys.stdin.read(LIMIT)


if __name__ == "__main__":
    main()
