"""`droveway completion SHELL`."""

import click

from droveway import exits
from droveway.main import COMPLETION_VARIABLE, droveway
from droveway.main import command as declare
from droveway.output import Output


@declare("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(out: Output, shell: str) -> int:
    """Print the completion script of SHELL.

    \b
    bash: droveway completion bash > ~/.local/share/bash-completion/completions/droveway
    zsh:  droveway completion zsh > a folder of $fpath, as _droveway
    fish: droveway completion fish > ~/.config/fish/completions/droveway.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(droveway, {}, "droveway", COMPLETION_VARIABLE)
    text = script.source_template % script.source_vars()
    out.result({"shell": shell, "script": text}, text)
    return exits.YES
