"""The `orion` command as a user meets it: its output, its exit codes and what it says when something is wrong."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orion.demo import draw_invoice, truth
from tests.fakeserver import FakeServer, Request, Response, answer
from tests.terminal import COMMAND, SECONDS, Outcome, environment, lines, orion, orion_interrupted, orion_on_terminal

SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "number"}, "currency": {"type": "string"}},
    "required": ["total", "currency"],
    "additionalProperties": False,
}
RIGHT = {"total": 1362.55, "currency": "EUR"}
ANSWERED, FAILED, WRONG_USE, PARTIAL, NO_MODEL, INTERRUPTED = 0, 1, 2, 3, 4, 130


def acting(*actions: Any, before: float = 0.0) -> Callable[[Request], Response]:
    """A model that honours schemas and calls no tools natively: the actions in order, the last one again and again.

    A dictionary is sent as JSON, a text as it is. The probe's questions are told from a run's by their system message.
    """
    left = list(actions)

    def respond(request: Request) -> Response:
        if not of_a_run(request):
            return answer(json.dumps(first_allowed(request.json)))(request)
        action = left.pop(0) if len(left) > 1 else left[0]
        return answer(action if isinstance(action, str) else json.dumps(action), before=before)(request)

    return respond


def of_a_run(request: Request) -> bool:
    return bool(request.json["messages"][0]["role"] == "system")


def first_allowed(body: Any) -> dict[str, Any]:
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    return {name: kind.get("enum", [None])[0] for name, kind in schema.get("properties", {}).items()}


def turns(server: FakeServer) -> int:
    """Requests of a run among those that arrived."""
    return sum(of_a_run(request) for request in server.chats)


def slow_after(*actions: Any) -> Callable[[Request], Response]:
    """The actions in order, then an answer that takes a minute."""
    quick = acting(*actions, None)
    count = 0

    def respond(request: Request) -> Response:
        nonlocal count
        count += of_a_run(request)
        if count > len(actions):
            return answer("late", before=60.0)(request)
        return quick(request)

    return respond


def final(value: Any) -> dict[str, Any]:
    return {"final": value}


@pytest.fixture
def invoice(tmp_path: Path) -> Path:
    file = tmp_path / "invoice.pdf"
    file.write_bytes(draw_invoice(truth()))
    return file


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA))
    return file


def check_told(done: Outcome, code: int, *words: str) -> None:
    """An error: the code, nothing on standard output, `error:` and a fix, no traceback."""
    assert (done.code, done.out) == (code, "")
    assert "error: " in done.err
    assert "Traceback" not in done.err
    for word in words:
        assert word in done.err


# ---- orion run: the good way ---------------------------------------------------------------------------------------


def test_json_in_a_pipe_is_one_clean_line(tmp_path: Path, invoice: Path, schema: Path) -> None:
    with FakeServer(acting(final(RIGHT))) as server:
        env = environment(tmp_path, ORION_MODEL_URL=server.url)
        done = orion("run", "What is the total?", "--schema", schema, invoice, env=env)
    assert done.out == json.dumps(RIGHT, separators=(",", ":")) + "\n"
    assert (done.code, done.err) == (ANSWERED, "")


def test_text_answer(tmp_path: Path) -> None:
    with FakeServer(acting(final("Grüße, 42"))) as server:
        done = orion("run", "How much?", env=environment(tmp_path, ORION_MODEL_URL=server.url))
    assert (done.code, done.out, done.err) == (ANSWERED, "Grüße, 42\n", "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(tmp_path: Path, closed: str) -> None:
    import subprocess

    with FakeServer(acting(final("42"))) as server:
        env = environment(tmp_path, ORION_MODEL_URL=server.url)
        line = f'"$@" {closed}'
        done = subprocess.run(
            ["sh", "-c", line, "sh", *COMMAND, "run", "How much?"],
            env=env,
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (ANSWERED, b"")
    assert done.stdout == (b"42\n" if closed in ("<&-", "2>&-") else b"")


def test_whole_result_as_json(tmp_path: Path, invoice: Path, schema: Path) -> None:
    with FakeServer(acting(final(RIGHT))) as server:
        env = environment(tmp_path, ORION_MODEL_URL=server.url)
        done = orion("run", "What is the total?", invoice, "--schema", schema, "--json", env=env)
    whole = json.loads(done.out)
    assert whole["output"] == RIGHT
    assert (whole["stop"], whole["model"], whole["steps"]) == ("answered", "fake", 1)
    assert whole["usage"]["total_tokens"] == whole["usage"]["prompt_tokens"] + whole["usage"]["completion_tokens"] > 0
    assert Path(whole["trace"]).is_file()


def test_out_folder_holds_answer_trace_and_made_artifacts(tmp_path: Path, invoice: Path, schema: Path) -> None:
    out = tmp_path / "deep" / "out"
    render = {"tool": "render_page", "arguments": {"document": "invoice.pdf", "page": 1}}
    with FakeServer(acting(render, final(RIGHT))) as server:
        env = environment(tmp_path, ORION_MODEL_URL=server.url)
        done = orion("run", "Total?", invoice, "--schema", schema, "--out", out, env=env)
    assert done.code == ANSWERED, done.err
    assert json.loads((out / "answer.json").read_text()) == RIGHT
    assert (out / "trace.jsonl").read_text().count("\n") > 2
    assert len(list(out.glob("*.png"))) == 1


def test_prompt_and_file_from_standard_input(tmp_path: Path, invoice: Path) -> None:
    with FakeServer(acting(final("yes"))) as server:
        env = environment(tmp_path, ORION_MODEL_URL=server.url)
        assert orion("run", "-", invoice, env=env, stdin="Is it ünpaid?\n").out == "yes\n"
        assert "Is it ünpaid?" in server.chats[-1].body.decode()
        assert orion("run", "Is it paid?", "-", env=env, stdin=invoice.read_bytes()).out == "yes\n"
        assert "Lumen Optics" in server.chats[-1].body.decode()


def test_options_may_stand_anywhere(tmp_path: Path, invoice: Path, schema: Path) -> None:
    with FakeServer(acting(final(RIGHT))) as server:
        env = environment(tmp_path, ORION_MODEL_URL=server.url)
        done = orion("run", "--steps", "3", "Total?", "--schema", schema, invoice, "--toolset", "document", env=env)
    assert json.loads(done.out) == RIGHT


# ---- orion run: limits, interruption, the terminal -----------------------------------------------------------------


def test_a_reached_limit_is_a_partial_answer(tmp_path: Path, invoice: Path, schema: Path) -> None:
    looking = {"tool": "find_text", "arguments": {"document": "invoice.pdf", "query": "Total"}}
    with FakeServer(acting(looking, RIGHT)) as server:
        env = environment(tmp_path, ORION_MODEL_URL=server.url)
        done = orion("run", "Total?", invoice, "--schema", schema, "--steps", "1", env=env)
    assert done.code == PARTIAL
    assert json.loads(done.out) == RIGHT
    assert "stopped (steps)" in done.err


def test_ctrl_c_stops_with_what_there_is(tmp_path: Path, invoice: Path) -> None:
    with FakeServer(slow_after({"tool": "open_document", "arguments": {}})) as server:
        env = environment(tmp_path, ORION_MODEL_URL=server.url)
        done = orion_interrupted("run", "Total?", invoice, "--json", env=env, when=lambda: turns(server) >= 2)
    assert done.code == INTERRUPTED
    whole = json.loads(done.out)
    assert (whole["stop"], whole["steps"]) == ("cancelled", 1)
    assert "stopped (cancelled)" in done.err
    assert "Traceback" not in done.err


def test_a_second_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    with FakeServer(slow_after()) as server:
        env = environment(tmp_path, ORION_MODEL_URL=server.url)
        done = orion_interrupted("run", "Total?", env=env, when=lambda: turns(server) >= 1, times=2, pause=0.0)
    assert done.code in (INTERRUPTED, -2)  # the shell shows a death by SIGINT as 130
    assert "Traceback" not in done.err


def test_steps_appear_live_on_a_terminal(tmp_path: Path, invoice: Path, schema: Path) -> None:
    looking = {"tool": "find_text", "arguments": {"document": "invoice.pdf", "query": "Total EUR"}}
    with FakeServer(acting(looking, final(RIGHT), before=0.7)) as server:
        env = environment(tmp_path, ORION_MODEL_URL=server.url)
        done = orion_on_terminal("run", "Total?", invoice, "--schema", schema, env=env)
    assert json.loads(done.out) == RIGHT
    assert "\x1b[1m" in done.err
    assert "thinking 1 s" in done.err
    shown = "\n".join(lines(done.err))
    assert "invoice.pdf" in shown
    assert 'find_text(document="invoice.pdf"' in shown or "find_text(document=invoice.pdf" in shown
    assert "1,362.55" in shown
    assert "answered · 2 steps" in shown
    assert "thinking" not in shown  # the moving line is gone in the end


def test_no_colour_when_asked_and_indented_json_on_a_terminal(tmp_path: Path, schema: Path) -> None:
    with FakeServer(acting(final(RIGHT))) as server:
        env = environment(tmp_path, ORION_MODEL_URL=server.url, NO_COLOR="1")
        done = orion_on_terminal("run", "Total?", "--schema", schema, env=env, out_too=True)
    assert "\x1b[1m" not in done.err
    assert '  "total": 1362.55,' in done.err


def test_quiet_on_a_terminal(tmp_path: Path) -> None:
    with FakeServer(acting(final("hi"))) as server:
        env = environment(tmp_path, ORION_MODEL_URL=server.url)
        done = orion_on_terminal("run", "Say hi", "--quiet", env=env)
    assert (done.out, done.err) == ("hi\n", "")


def test_escape_sequences_of_a_model_do_not_reach_a_terminal(tmp_path: Path) -> None:
    with FakeServer(acting(final("\x1b]0;owned\x07\x1b[2Jhi"))) as server:
        env = environment(tmp_path, ORION_MODEL_URL=server.url)
        shown = orion_on_terminal("run", "Say hi", env=env, out_too=True).err
        piped = orion("run", "Say hi", env=env).out
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown
    assert piped == "\x1b]0;owned\x07\x1b[2Jhi\n"


# ---- orion run: wrong use ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], ["'run'", "'doctor'"]),
        (["run"], ["prompt"]),
        (["run", "x", "--steps", "0"], ["--steps", "positive"]),
        (["run", "x", "--steps", "many"], ["--steps", "positive"]),
        (["run", "x", "--seconds", "-1"], ["--seconds"]),
        (["run", "x", "--unknown"], ["--unknown"]),
        (["model", "sell"], ["'pull'"]),
    ],
)
def test_wrong_arguments(tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    done = orion(*arguments, env=environment(tmp_path))
    assert (done.code, done.out) == (WRONG_USE, "")
    assert done.err.startswith("usage: ")
    for word in words:
        assert word in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "x", "missing.pdf"], ["missing.pdf"]),
        (["run", "x", "folder"], ["folder"]),
        (["run", "x", "empty.pdf"], ["empty"]),
        (["run", "x", "--toolset", "documnet"], ["'documnet'", "document", "core", "image"]),
        (["run", "x", "--schema", "missing.json"], ["missing.json", "--schema"]),
        (["run", "x", "--schema", "broken.json"], ["broken.json", "not JSON"]),
        (["run", "x", "--schema", "list.json"], ["list.json", "object"]),
        (["run", "x", "--schema", "remote.json"], ["example.org"]),
        (["run", "x", "--steps", "1000"], ["--steps", "200"]),
        (["run", "x", "--out", "empty.pdf"], ["empty.pdf", "--out"]),
        (["run", "-", "-"], ["once"]),
        (["run", "-"], ["empty"]),
        (["tools", "crop_everything"], ["crop_everything", "core"]),
        (["show", "missing.jsonl"], ["missing.jsonl"]),
        (["show", "broken.json"], ["broken.json"]),
        (["show", "last"], [str(Path("home") / "store" / "runs"), "ORION_STORE"]),
        (["show", "run_20260101_000000_abcdef"], ["run_20260101_000000_abcdef", str(Path("store") / "runs")]),
        (["model", "pull", "gpt-7"], ["gpt-7"]),
    ],
)
def test_wrong_use_is_told_without_asking_the_model(tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.pdf").touch()
    (tmp_path / "broken.json").write_text('{"type": ')
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "remote.json").write_text('{"$ref": "https://example.org/schema.json"}')
    with FakeServer(acting(final("never"))) as server:
        env = environment(tmp_path / "home", ORION_MODEL_URL=server.url)
        done = orion(*arguments, env=env, cwd=tmp_path)
        assert not server.requests
    check_told(done, WRONG_USE, *words)


def test_unknown_setting(tmp_path: Path) -> None:
    check_told(orion("run", "x", env=environment(tmp_path, ORION_MODLE="y")), WRONG_USE, "ORION_MODLE", "ORION_MODEL")


def test_no_model_reachable(tmp_path: Path, invoice: Path) -> None:
    done = orion("run", "x", invoice, env=environment(tmp_path, ORION_MODEL_URL="http://127.0.0.1:9/v1"))
    check_told(done, NO_MODEL, "127.0.0.1:9", "fix:")


def test_no_weights(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    check_told(orion("run", "x", env=environment(tmp_path)), NO_MODEL, "fix:", "orion model pull")


def test_a_file_that_turns_out_to_be_broken(tmp_path: Path) -> None:
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.4\n" + b"\x00" * 500)
    with FakeServer(acting(final("never"))) as server:
        done = orion("run", "x", broken, env=environment(tmp_path, ORION_MODEL_URL=server.url))
        assert turns(server) == 0
    check_told(done, WRONG_USE, "files[0]")


def test_a_server_that_breaks_off_in_the_run(tmp_path: Path, invoice: Path) -> None:
    quick = acting({"tool": "open_document", "arguments": {}})

    def script(request: Request) -> Response:
        return Response(status=400, body=b"{}") if of_a_run(request) else quick(request)

    with FakeServer(script) as server:
        done = orion("run", "x", invoice, "--json", env=environment(tmp_path, ORION_MODEL_URL=server.url))
    assert done.code == NO_MODEL
    assert json.loads(done.out)["stop"] == "model_failed"
    assert "stopped (model_failed)" in done.err


def test_a_file_that_cannot_be_read_is_told_before_a_missing_model(tmp_path: Path) -> None:
    done = orion("run", "x", tmp_path / "no.pdf", env=environment(tmp_path, ORION_MODEL_URL="http://127.0.0.1:9/v1"))
    check_told(done, WRONG_USE, "no.pdf")


def test_traceback_only_for_developers(tmp_path: Path) -> None:
    done = orion("run", "x", "missing.pdf", env=environment(tmp_path, ORION_DEBUG="1"))
    assert done.code == 1
    assert "Traceback" in done.err
    assert "missing.pdf" in done.err


# ---- the other commands --------------------------------------------------------------------------------------------


def test_help_and_version(tmp_path: Path) -> None:
    env = environment(tmp_path)
    done = orion("--help", env=env)
    assert done.code == 0
    for command in ("run", "tools", "show", "model", "doctor", "demo"):
        assert f"\n  {command} " in done.out
    assert "130" in orion("run", "--help", env=env).out
    assert orion("--version", env=env).out.startswith("orion ")
    assert orion(env=env).code == WRONG_USE


def test_tools(tmp_path: Path) -> None:
    env = environment(tmp_path)
    listed = orion("tools", env=env).out
    assert "document" in listed
    assert "calculate(" in listed
    assert "Cut out a box" in orion("tools", "crop", env=env).out
    assert "calculate(" not in orion("tools", "image", env=env).out
    one = json.loads(orion("tools", "calculate", "--json", env=env).out)
    assert one["parameters"]["required"] == ["expression"]
    every = json.loads(orion("tools", "--json", env=env).out)
    assert {"core", "image", "document"} <= {toolset["name"] for toolset in every}


def test_tools_that_miss_a_library_say_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "zxingcpp").mkdir()  # a folder without a loader is found by nobody
    blocker = tmp_path / "sitecustomize.py"
    blocker.write_text(
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'zxingcpp': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    done = orion("tools", "read_barcodes", env=environment(tmp_path, PYTHONPATH=str(tmp_path)))
    assert 'pip install "orion-visual-agent[image]"' in done.out


def test_show_as_text_and_as_a_page(tmp_path: Path, invoice: Path, schema: Path) -> None:
    looking = {"tool": "find_text", "arguments": {"document": "invoice.pdf", "query": "Total EUR"}}
    page = tmp_path / "run.html"
    with FakeServer(acting(looking, final(RIGHT))) as server:
        env = environment(tmp_path, ORION_MODEL_URL=server.url)
        whole = json.loads(orion("run", "What is due?", invoice, "--schema", schema, "--json", env=env).out)
    shown = orion("show", whole["trace"], env=env)
    assert shown.code == 0
    for word in ("What is due?", "step 1", "find_text(", "1,362.55", "answered", '"currency": "EUR"'):
        assert word in shown.out
    assert orion("show", Path(whole["trace"]).parent, "--html", page, env=env).code == 0
    html = page.read_text()
    assert "What is due?" in html
    assert "1362.55" in html
    assert "invoice.pdf" in html
    check_told(orion("show", whole["trace"], "--html", tmp_path, env=env), WRONG_USE, "--html")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [("tools",), ("run", "Hi"), ("run", "Hi", "--json"), ("--version",)])
def test_a_full_disk_under_standard_output_is_told_in_one_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with FakeServer(acting(final("hi"))) as server, open("/dev/full", "w") as full:
        env = environment(tmp_path, ORION_MODEL_URL=server.url)
        done = subprocess.run(
            [*COMMAND, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            env=env,
            timeout=SECONDS,
            text=True,
            check=False,
        )
    assert done.returncode == FAILED
    assert "error: standard output cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_show_finds_a_run_by_its_id_and_the_newest_one(tmp_path: Path) -> None:
    with FakeServer(acting(final("hi"))) as server:
        env = environment(tmp_path, ORION_MODEL_URL=server.url)
        wholes = [json.loads(orion("run", prompt, "--json", env=env).out) for prompt in ("First?", "Second?")]
    first, second = (Path(whole["trace"]).parent for whole in wholes)
    assert "First?" in orion("show", first.name, env=env).out
    assert "Second?" in orion("show", "last", env=env).out
    (tmp_path / "last").mkdir()
    (tmp_path / "last" / "trace.jsonl").write_bytes((first / "trace.jsonl").read_bytes())
    assert "First?" in orion("show", "last", env=env, cwd=tmp_path).out  # a path that exists is meant
    second.rename(second.with_name("run_20000101_000000_ffffff"))
    assert "First?" in orion("show", "last", env=env).out


def test_model_list_and_path(tmp_path: Path) -> None:
    env = environment(tmp_path)
    listed = json.loads(orion("model", "list", "--json", env=env).out)
    assert {entry["state"] for entry in listed} == {"absent"}
    assert listed[0]["name"] in orion("model", "list", env=env).out
    check_told(orion("model", "path", env=env), NO_MODEL, listed[0]["name"], "orion model pull")


def test_a_reader_that_leaves_is_no_traceback(tmp_path: Path) -> None:
    import subprocess

    from tests.terminal import COMMAND

    process = subprocess.Popen(
        [*COMMAND, "tools", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(tmp_path)
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read().decode()
    process.stderr.close()
    process.wait(60)
    assert "Traceback" not in said
    assert "BrokenPipe" not in said


# ---- orion demo ----------------------------------------------------------------------------------------------------


def test_demo_tells_whether_the_answer_is_the_invoice(tmp_path: Path) -> None:
    right = truth().model_dump(mode="json")
    keep = tmp_path / "keep"
    with FakeServer(acting(final(right))) as server:
        env = environment(tmp_path, ORION_MODEL_URL=server.url)
        done = orion("demo", "--keep", keep, env=env)
    assert (done.code, json.loads(done.out)) == (0, right)
    assert "exactly the invoice" in done.err
    assert "1 model call" in done.err
    assert (keep / "invoice.pdf").read_bytes() == draw_invoice(truth())
    assert json.loads((keep / "answer.json").read_text()) == right


def test_demo_fails_on_a_wrong_field(tmp_path: Path) -> None:
    wrong = {**truth().model_dump(mode="json"), "total": 1.0}
    with FakeServer(acting(final(wrong))) as server:
        done = orion("demo", env=environment(tmp_path, ORION_MODEL_URL=server.url))
    assert done.code == 1
    assert json.loads(done.out) == wrong
    assert "wrong: total is 1.0, drawn was 1362.55" in done.err
