"""The command line: `orion run, tools, show, model, doctor, demo`.

This module imports only the standard library and `orion.errors`; each command imports what it needs when it runs.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orion.errors import ModelError, NotConfigured, OrionError, UserError, WeightsError

DISTRIBUTION = "orion-visual-agent"

ANSWERED = 0
FAILED = 1
WRONG_USE = 2
PARTIAL = 3
NO_MODEL = 4
INTERRUPTED = 130

EXIT_CODES = """\
exit codes:
  0    answered
  1    something else went wrong
  2    wrong use: a bad option, a file that cannot be read, an unknown toolset, a bad schema
  3    a partial answer: a limit was reached (which one is told on standard error)
  4    no model: it cannot be reached, its weights are missing, or a library is not installed
  130  interrupted: Ctrl-C stops with what there is, a second Ctrl-C ends at once"""


@dataclass(frozen=True)
class Command:
    """One command: its line in the help, its arguments, and what it does; returns the exit code."""

    summary: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    epilog: str | None = None


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _prepare_streams()
    try:
        try:
            return _dispatch(list(sys.argv[1:] if argv is None else argv))
        finally:
            sys.stdout.flush()  # here, where a full disk can still be told, and not when Python ends
    except OrionError as error:
        return report(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader left (`orion run … | head`). Python would complain once more when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(f"error: standard output cannot be written: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def report(error: OrionError) -> int:
    """Tell the user what went wrong and what to do about it; the traceback only with ORION_DEBUG=1."""
    from orion.console import Pen
    from orion.words import harmless

    if debugging():
        raise error
    pen = Pen(sys.stderr)
    where = f" ({error.param})" if error.param else ""
    print(f"{pen.red('error:')} {harmless(error.message)}{harmless(where)}", file=sys.stderr)
    fix = error.fix
    if fix is None and isinstance(error, NotConfigured):
        fix = error.setting
    if fix:
        print(f"  {pen.bold('fix:')} {harmless(fix)}", file=sys.stderr)
    if isinstance(error, UserError):
        return WRONG_USE
    return NO_MODEL if isinstance(error, (ModelError, WeightsError, NotConfigured)) else FAILED


def debugging() -> bool:
    """True when the user asked for tracebacks with ORION_DEBUG=1."""
    return os.environ.get("ORION_DEBUG", "") not in ("", "0")


def _prepare_streams() -> None:
    # Started with a standard stream closed (`2>&-`), Python has None in its place. The lowest free number, which the
    # next open takes, is that of the stream; without this, another file would get it.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for as long as we run
    # Half a surrogate pair from a model must not end the program; `\udXXX` is also its escape inside JSON.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _dispatch(argv: list[str]) -> int:
    parser = _main_parser()
    if not argv:
        parser.print_help()
        return WRONG_USE
    if argv[0] not in COMMANDS:
        parser.parse_args(argv)  # -h, --version, or an error that names the commands; each of them exits
    name, command = argv[0], COMMANDS[argv[0]]
    sub = argparse.ArgumentParser(
        prog=f"orion {name}",
        description=command.summary,
        epilog=command.epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.arguments(sub)
    # "intermixed", because options may stand between the files.
    return command.run(sub.parse_intermixed_args(argv[1:]))


def _main_parser() -> argparse.ArgumentParser:
    lines = "\n".join(f"  {name:<8} {command.summary}" for name, command in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="orion",
        usage="orion COMMAND [-h] …",
        description=f"A self-hosted visual agent: text, images and PDFs in, valid JSON out.\n\ncommands:\n{lines}",
        epilog="`orion COMMAND -h` tells more. Settings are environment variables, see `orion doctor`.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=list(COMMANDS), metavar="COMMAND", help=argparse.SUPPRESS)
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    return parser


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_args: object) -> None:
        from importlib.metadata import version

        print(f"orion {version(DISTRIBUTION)}")
        parser.exit()


def _positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    def convert(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            number = kind(0)
        if not number > 0:
            raise argparse.ArgumentTypeError(f"must be a positive number, got {text!r}")
        return number

    return convert


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", help="what to do; `-` reads it from standard input")
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="images, PDFs, other files or http(s) URLs; `-` reads one"
    )
    parser.add_argument("--schema", metavar="FILE", help="JSON schema of the answer")
    parser.add_argument(
        "--toolset", action="append", dest="toolsets", metavar="NAME", help="use this toolset only; may be repeated"
    )
    parser.add_argument("--password", action="store_true", help="ask for the password of encrypted PDFs")
    parser.add_argument("--model", metavar="M", help="catalogue name, path of a .gguf file, or provider/model")
    parser.add_argument("--steps", type=_positive(int), metavar="N", help="most model turns")
    parser.add_argument("--seconds", type=_positive(float), metavar="S", help="most wall-clock seconds")
    parser.add_argument("--out", metavar="DIR", help="write the answer, what the run made, and trace.jsonl there")
    parser.add_argument("--json", action="store_true", help="print the whole result as JSON, not only the answer")
    parser.add_argument("--quiet", "-q", action="store_true", help="no steps on standard error")


def _run(options: argparse.Namespace) -> int:
    from orion.cli_run import run

    return run(options)


def _tools_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a toolset or a tool")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _tools(options: argparse.Namespace) -> int:
    from orion.cli_tools import tools

    return tools(options.name, as_json=options.json)


def _show_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="a trace.jsonl, the folder that holds it, a run's id, or `last`")
    parser.add_argument("--html", metavar="FILE", help="write a web page instead")


def _show(options: argparse.Namespace) -> int:
    from orion.cli_show import show

    return show(options.trace, options.html)


def _model_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("pull", "list", "path"), help="fetch weights, show the catalogue, or a path")
    parser.add_argument("name", nargs="?", metavar="NAME", help="a model of the catalogue; the first one by default")
    parser.add_argument("--json", action="store_true", help="`list` as JSON")


def _model(options: argparse.Namespace) -> int:
    from orion import cli_model

    return cli_model.model(options.action, options.name, as_json=options.json)


def _doctor_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--probe", action="store_true", help="also ask the model a few tiny questions")


def _doctor(options: argparse.Namespace) -> int:
    from orion.doctor import doctor

    return doctor(as_json=options.json, probe=options.probe)


def _demo_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", metavar="DIR", help="keep the invoice and the result there")


def _demo(options: argparse.Namespace) -> int:
    from orion.cli_run import demo

    return demo(options.keep)


COMMANDS = {
    "run": Command("Answer a request about files.", _run_arguments, _run, EXIT_CODES),
    "tools": Command("Show the toolsets and their tools, and what is missing for them.", _tools_arguments, _tools),
    "show": Command("Show a run from its trace.", _show_arguments, _show),
    "model": Command("Pull model weights, list them, or say where they are.", _model_arguments, _model),
    "doctor": Command("Check what is here, what is missing, and how to get it.", _doctor_arguments, _doctor),
    "demo": Command("Draw an invoice, read it back with the agent, compare.", _demo_arguments, _demo),
}


if __name__ == "__main__":
    sys.exit(main())
