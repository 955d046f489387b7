"""`skyrocket completion`: print the script that makes a shell complete commands, options and names.

At each press of Tab the script runs `skyrocket` with the variable _SKYROCKET_COMPLETE, and `lazy_commands` answers. The scripts
are our own. In bash, those of typer take an address such as host:9876 for three words, since bash splits at colons, and complete
nothing behind it; in zsh they lose apostrophes of help texts; in fish they run the program twice. Where there is nothing to
complete, each shell completes files.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from typer._completion_classes import ZshComplete

PROGRAM: Final = "skyrocket"
VARIABLE: Final = "_SKYROCKET_COMPLETE"

_BASH: Final = """\
_skyrocket_completion() {
    local IFS=$' \\t\\n' line="${COMP_LINE:0:COMP_POINT}" words count
    read -ra words <<< "$line"
    count=${#words[@]}
    [[ $line == *[[:space:]] ]] || count=$((count - 1))
    IFS=$'\\n'
    COMPREPLY=( $(env COMP_WORDS="$line" COMP_CWORD=$count _SKYROCKET_COMPLETE=complete_bash "$1" 2>/dev/null) )
}

complete -o default -F _skyrocket_completion skyrocket"""

_ZSH: Final = """\
#compdef skyrocket

_skyrocket_completion() {
    local -a found
    found=("${(@f)$(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _SKYROCKET_COMPLETE=complete_zsh skyrocket 2>/dev/null)}")
    if [[ -n "${found[*]}" ]]; then
        _describe -V 'skyrocket' found
    else
        _files
    fi
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _skyrocket_completion "$@"
else
    compdef _skyrocket_completion skyrocket
fi"""

_FISH: Final = """\
function __skyrocket_completion
    set -lx _TYPER_COMPLETE_ARGS (commandline -cp)
    set -lx _TYPER_COMPLETE_FISH_ACTION get-args
    set -l found (env _SKYROCKET_COMPLETE=complete_fish skyrocket 2>/dev/null)
    if test -n "$found"
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end

complete --command skyrocket --no-files --arguments '(__skyrocket_completion)'"""

SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


class ZshAnswers(ZshComplete):
    """The answers for our script for zsh: one `value:help` a line, as `_describe` takes them."""

    def format_completion(self, item: Any) -> str:
        value = str(item.value).replace("\\", "\\\\").replace(":", "\\:")
        return f"{value}:{' '.join(item.help.split())}" if item.help else value

    def complete(self) -> str:
        arguments, incomplete = self.get_completion_args()
        return "\n".join(self.format_completion(item) for item in self.get_completions(arguments, incomplete))


class Shell(StrEnum):
    """The shells that have a script."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
    """Print a script that completes commands and options in your shell.

    It also completes the names of topics and groups, which it asks the cluster for.

    For bash, put this line into ~/.bashrc: eval "$(skyrocket completion bash)"

    For zsh, put this line into ~/.zshrc, after compinit: eval "$(skyrocket completion zsh)"

    For fish: skyrocket completion fish > ~/.config/fish/completions/skyrocket.fish
    """
    typer.echo(SCRIPTS[shell.value])
