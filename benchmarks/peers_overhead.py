"""Runs smolagents or pydantic-ai against a scripted server and reports CPU time. Runs in the peers' own interpreter.

    PEERS_PYTHON benchmarks/peers_overhead.py smolagents URL STEPS ROUNDS

prints one JSON object: CPU milliseconds a step of each round.
"""

import json
import logging
import sys
import time


def smolagents(url):
    """A function that makes one run of so many steps."""
    from smolagents import LogLevel, OpenAIServerModel, ToolCallingAgent, tool

    @tool
    def add_up(expression: str) -> str:
        """Work out an arithmetic expression exactly.

        Args:
            expression: numbers and operators.
        """
        return str(len(expression))

    model = OpenAIServerModel(model_id="fake", api_base=url, api_key="none")

    def run(steps):
        agent = ToolCallingAgent(tools=[add_up], model=model, verbosity_level=LogLevel.OFF, max_steps=steps + 2)
        return str(agent.run("Add up the numbers."))

    return run


def pydantic_ai(url):
    """A function that makes one run of so many steps."""
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import UsageLimits

    agent = Agent(OpenAIChatModel("fake", provider=OpenAIProvider(base_url=url, api_key="none")))

    @agent.tool_plain
    def add_up(expression: str) -> str:
        """Work out an arithmetic expression exactly.

        Args:
            expression: numbers and operators.
        """
        return str(len(expression))

    def run(steps):
        return agent.run_sync("Add up the numbers.", usage_limits=UsageLimits(request_limit=steps + 2)).output

    return run


def main():
    who, url, steps, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    logging.disable(logging.CRITICAL)
    run = {"smolagents": smolagents, "pydantic-ai": pydantic_ai}[who](url)
    run(steps)  # warm up: imports, connections, caches
    took = []
    for _ in range(rounds):
        before = time.process_time()
        answer = run(steps)
        took.append(1000 * (time.process_time() - before) / steps)
        if answer != "done":
            raise SystemExit(f"{who} answered {answer!r} instead of 'done'")
    print(json.dumps({"ms": took}))


if __name__ == "__main__":
    main()
