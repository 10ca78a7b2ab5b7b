"""The command `droveway`: a group that imports a command's module only when that command runs.

`droveway --help` and `--version` import click and nothing else: no numpy, no package of ours.
"""

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from droveway import __version__, exits
from droveway.output import Output, silence_stdout, to_stderr

COMPLETION_VARIABLE: Final = "_DROVEWAY_COMPLETE"  # set by the scripts of `droveway completion`

# Module in droveway/commands and one line for --help. "import" is a word of Python, hence the underscore.
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "demo": ("demo", "All four journeys on a small warehouse, in seconds: simulate, search, render, audit."),
    "simulate": ("simulate", "Run a fleet over a site, tick by tick, and keep every decision in a ledger."),
    "sweep": ("sweep", "Run a site for many seeds and values, in many processes, and sum up the measures."),
    "verify": ("verify", "Check a run's ledger and make all its decisions again; exit 1 unless they are the same."),
    "repair": ("repair", "Put a damaged run right, and say exactly what is lost."),
    "retire": ("retire", "Remove the payloads of events; every proof stays valid."),
    "keygen": ("keygen", "Make a key that signs checkpoints; print the key that checks them."),
    "prove": ("prove", "Write the proof that one event is in a run, as a text that anyone can check."),
    "check-proof": ("check_proof", "Check such a proof offline, against the event's bytes and the log's key."),
    "publish": ("publish", "Publish a run to a folder that a web server serves, or to an object store."),
    "export": ("export", "Write the events of a run as JSON lines or as an MCAP file."),
    "replay": ("replay", "Summarise a run from its ledger alone; draw its paths and zones."),
    "metrics": ("metrics", "Measure runs: travel, gap, coverage, idle times, fairness, conflicts; side by side."),
    "explain": ("explain", "Say why an agent got its zone at a tick, and what would have to change."),
    "diff": ("diff", "Find the first event, agent and field in which two runs differ."),
    "import": ("import_", "Turn a MovingAI map or scenario into a SITE.toml."),
    "index": ("index", "Make an index of vectors, say what it holds, add rows and remove them."),
    "search": ("search", "Find the nearest rows of an index for each query."),
    "render": ("render", "Draw a Gaussian-splat scene as seen by a camera, into a PNG."),
    "convert": ("convert", "Read a splat scene in one of four formats and write it as an INRIA .ply."),
    "info": ("info", "Say what a run, a site, a map, an index or a scene holds."),
    "doctor": ("doctor", "Check this installation: build, files, kernels, dependencies, disk."),
    "completion": ("completion", "Print the completion script of a shell."),
}


COMMON: Final = ("--json", "--quiet", "--threads", "--debug")  # the options that every command has


class WholeNumber(click.IntRange):
    """A whole number in a range, so called in errors; without a range the command itself checks it."""

    name = "whole number"

    def _describe_range(self) -> str:
        """The words of click for help and errors, with 2^64-1 not spelt out."""
        if self.min is None and self.max is None:
            return ""
        return super()._describe_range().replace(str(2**64 - 1), "2^64-1")


class LazyGroup(click.Group):
    """Commands by name, imported on use; their help lines come from COMMANDS."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        from importlib import import_module

        module = import_module(f"droveway.commands.{COMMANDS[cmd_name][0]}")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            asked = f" did you mean '{near[0]}'?" if near else f" expected one of {', '.join(COMMANDS)}"
            raise click.UsageError(f"there is no command '{args[0]}';{asked}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


class Command(click.Command):
    """A command with the options that all have; its function gets an `Output` first and returns an exit code.

    Before the function runs, the build ids of the packages are compared and --threads takes effect.
    """

    def __init__(self, *args: Any, checks_build: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.checks_build = checks_build
        self.params += [
            click.Option(["--json", "as_json"], is_flag=True, help="Results as JSON, one object a line."),
            click.Option(["--quiet"], is_flag=True, help="Nothing but results and errors."),
            click.Option(
                ["--threads"],
                type=WholeNumber(1, 1024),
                metavar="N",
                help="Threads of the kernels; results never depend on it.",
            ),
            click.Option(["--debug"], is_flag=True, help="Show the traceback of an error."),
        ]

    def invoke(self, ctx: click.Context) -> Any:
        threads = ctx.params.pop("threads")
        out = Output(as_json=ctx.params.pop("as_json"), quiet=ctx.params.pop("quiet"))
        ctx.params.pop("debug")
        ctx.params["out"] = out
        if threads is not None:
            _use_threads(threads)
        if self.checks_build:
            from droveway.buildcheck import require_one_build

            require_one_build()
        return super().invoke(ctx)


class CommandGroup(click.Group):
    """A command of several words, such as `index build`; each of its commands is a `Command`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise click.UsageError(
                f"there is no command '{self.name} {args[0]}'; expected one of {', '.join(self.commands)}", ctx
            )
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            raise click.UsageError(f"expected one of {', '.join(self.commands)} after '{self.name}'", ctx)
        return super().parse_args(ctx, args)


def _use_threads(count: int) -> None:
    os.environ["DROVEWAY_THREADS"] = str(count)
    if "tensor" in sys.modules:  # the kernels read the variable once, at import
        from tensor import _kernels

        _kernels.set_threads(count)


def command(name: str, **kwargs: Any) -> Callable[[Callable[..., int]], Command]:
    """Declare a command; its help is the first paragraph of the function's docstring."""
    return click.command(name, cls=Command, **kwargs)


def place(text: str) -> Path | str:
    """A URL as it is, anything else as a path.

    >>> place("s3://bucket/run")
    's3://bucket/run'
    """
    return text if "://" in text else Path(text)


class LocalPath(click.Path):
    """A path that is checked when it is used: a bad input file is exit 3, not a usage error. A URL is one at once."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; UsageError for a URL, of which pathlib would drop a slash."""
        if isinstance(value, str) and "://" in value and not Path(value).exists():
            self.fail(f"expected a file or folder here, got the URL {value}", param, ctx)
        return super().convert(value, param, ctx)


PATH: Final = LocalPath(path_type=Path, readable=False)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="droveway", message="%(prog)s %(version)s")
def droveway() -> None:
    """Fleets coordinated by Gaussian influence fields, with a ledger of decisions that anyone can check, bit for bit.

    Exit codes: 0 yes; 1 the answer is no; 2 usage or environment; 3 unreadable or wrong input; 4 limit reached;
    5 a bug; 130 interrupted, output valid.
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return the exit code; every error ends here."""
    if not arguments and COMPLETION_VARIABLE not in os.environ:
        context = click.Context(droveway, info_name="droveway", **droveway.context_settings)
        to_stderr(droveway.get_help(context))
        return exits.USAGE
    try:
        code = droveway.main(args=list(arguments), prog_name="droveway", standalone_mode=False)
        return code if isinstance(code, int) else exits.YES
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.NoSuchOption as problem:
        return _fail(arguments, problem, _ending_of_option(problem))
    except click.ClickException as problem:
        hint = "" if not isinstance(problem, click.UsageError) else _help_hint(problem)
        return _fail(arguments, problem, exits.Ending(exits.USAGE, problem.format_message(), hint))
    except (click.Abort, KeyboardInterrupt) as stop:
        _interrupted.append(stop)
        Output().error("interrupted")
        return exits.INTERRUPTED
    except BrokenPipeError:
        silence_stdout()
        return exits.YES
    except SystemExit:
        if COMPLETION_VARIABLE in os.environ:
            raise
        silence_stdout()  # click turns a broken pipe into an exit with 1, which would be an answer
        return exits.YES
    except Exception as error:  # the one place where an unexpected error becomes words
        return _fail(arguments, error, exits.ending_of(error))


def _ending_of_option(problem: click.NoSuchOption) -> exits.Ending:
    """An option that is not there: what was probably meant, where that can be told."""
    from difflib import SequenceMatcher

    name, context = problem.option_name, problem.ctx
    if name == "--version":  # close to no option of a command, and asked for all the same
        return exits.Ending(exits.USAGE, "No such option '--version' of a command.", "droveway --version")
    if context is None:
        return exits.Ending(exits.USAGE, problem.format_message(), _help_hint(problem))
    known = [option for param in context.command.params for option in param.opts]
    if isinstance(context.command, click.Group):
        if name in COMMON:
            hint = f"{context.command_path} COMMAND … {name}"
            return exits.Ending(exits.USAGE, f"expected '{name}' behind the command", hint)
    elif name in ("-o", "--output"):  # of a command whose files stand side by side
        files = [param for param in context.command.params if isinstance(param, click.Argument)]
        hint = " ".join([context.command_path, *(file.metavar or "" for file in files)])
        return exits.Ending(exits.USAGE, problem.format_message(), hint)
    near = [f"-{name[2:]}"] if f"-{name[2:]}" in known else []
    # Click compares the dashes, too, and so finds --output in --top.
    near += [one for one in problem.possibilities or () if SequenceMatcher(None, name[2:], one[2:]).ratio() > 0.6]
    better = click.NoSuchOption(name, possibilities=near, ctx=context)
    return exits.Ending(exits.USAGE, better.format_message(), _help_hint(problem))


def _help_hint(problem: click.UsageError) -> str:
    path = problem.ctx.command_path if problem.ctx is not None else "droveway"
    return f"{path} --help"


def _fail(arguments: Sequence[str], error: Exception, ending: exits.Ending) -> int:
    if "--debug" in arguments:
        to_stderr("".join(traceback.format_exception(error)).rstrip())
    Output().error(ending.message, ending.hint)
    return ending.code


# What was interrupted keeps its frames until the process ends: they may hold an engine whose closing was cut short, and
# destroying that crashes.
_interrupted: list[BaseException] = []


def main() -> None:
    """Entry point of the installed command."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy: each of its threads would cost memory, and none is used
    _open_standard_streams()
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError:
        silence_stdout()
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    if _interrupted:
        os._exit(code)  # all that had to be put in order is: what is left is not to be destroyed
    sys.exit(code)


def _open_standard_streams() -> None:
    """Let a stream that was closed by the caller go nowhere.

    Else the next file that is opened, one of the ledger's, would get its number, and messages would go into that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is this one
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open to the end
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


if __name__ == "__main__":
    main()
