"""The command line: ``ottla COMMAND``.

Each command is a click command in a module of its own, which is imported when the command is called (`root.COMMANDS`). A user's
mistake is reported in one line with exit code 2, never as a traceback.
"""

from __future__ import annotations

import io
import os
import signal
import sys

from ottla.arguments import as_text
from ottla.process import FAILED_EXIT, USAGE_EXIT, interrupted_exit, open_standard_streams, print_error

COMPLETION_VARIABLE = "_OTTLA_COMPLETE"
"""The environment variable by which a shell requests completions; see `completion`."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code. Ctrl-C ends every command without a traceback."""
    open_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        # Print escape sequences for characters that the terminal's encoding does not have.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code = 0
    try:
        code = _run([as_text(argument) for argument in sys.argv[1:]] if arguments is None else arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return interrupted_exit(signal.SIGINT)
    except BrokenPipeError:
        # The program that reads the output, such as `head`, has exited. Python ignores SIGPIPE and raises this error.
        _forget_output()
        return interrupted_exit(signal.SIGPIPE)
    except OSError as error:
        # stdout cannot be written, usually because it is redirected to a full disk.
        _forget_output()
        if code:
            # The command has already reported a failure.
            return code
        _say(f"ottla: {error.strerror or error}")
        return FAILED_EXIT
    return code


def _forget_output() -> None:
    """Discard unwritten output. Otherwise Python would flush stdout at exit and report the error a second time."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    import click

    from ottla.cli.commands import POSIX_MODULES, Refused, line_of
    from ottla.cli.root import root

    instruction = os.environ.get(COMPLETION_VARIABLE)
    if instruction:
        from click.shell_completion import shell_complete

        return shell_complete(root, {}, "ottla", COMPLETION_VARIABLE, instruction)
    try:
        if not arguments:
            print(root.get_help(click.Context(root, info_name="ottla")), file=sys.stderr)
            return USAGE_EXIT
        with root.make_context("ottla", arguments) as context:
            return root.invoke(context) or 0
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.UsageError as error:
        _say(line_of(error))
        return USAGE_EXIT
    except UnicodeEncodeError as error:
        # Python decodes invalid UTF-8 in arguments to lone surrogates, which Kafka's protocol cannot encode.
        # A text that is not a whole argument may be a password, as in NAME:PASSWORD.
        shown = repr(error.object) if error.object in arguments else "an argument or a setting"
        _say(f"ottla: {shown} is not UTF-8 text")
        return USAGE_EXIT
    except ModuleNotFoundError as error:
        if error.name not in POSIX_MODULES:
            raise
        _say(
            f"ottla: this needs Linux, macOS or another POSIX system: Python has no module {error.name} here; run it in WSL or in a"
            " container"
        )
        return USAGE_EXIT
    except Refused as refused:
        _say(f"ottla: {refused.message}")
        return refused.code


def _say(text: str) -> None:
    """Print an error to stderr. The text may contain names from a cluster, so control characters are escaped."""
    from ottla.cli.output import printable

    print_error(printable(text))
