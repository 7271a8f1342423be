"""`tutti sql` without a statement: a prompt with history, completion, highlighting and paging.

In: lines at a terminal. Out: what `cli.sql.shell` makes of them, through the user's pager when
it is longer than the screen.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output
from pygments.lexers.sql import PostgresLexer

from tutti.cli.failures import exit_code_of, message_of
from tutti.cli.sql.completion import SqlCompleter, is_complete
from tutti.cli.sql.shell import COMMANDS, Shell, run_command
from tutti.cli.sql.statements import look_of
from tutti.storage import Catalog, open_catalog

PROMPT, CONTINUED = "tutti> ", "   ..> "
PAGER, PAGER_SETTINGS = "less", "SRFX"  # chop, colours, leave if it is short, keep the screen
LEAVING = ("exit", "quit", r"\q")


def open_prompt(output: str, parameters: dict[str, Any], out: Path | None) -> None:
    """Read and run until the user leaves. Raises StoreError when the store cannot be opened."""
    with open_catalog() as catalog:
        shell = Shell(catalog, show, say, lambda: look_of(sys.stdout), output, out, parameters)
        say(f"{shell.summary}. .help for help, Ctrl-D to leave")
        talk(shell, session(shell, catalog))
        shell.connection.close()


def session(
    shell: Shell, catalog: Catalog, input: Input | None = None, output: Output | None = None
) -> "PromptSession[str]":
    """The line editor over `shell`; `input` and `output` are the terminal's when None."""
    arguments = {name: command.arguments for name, command in COMMANDS.items()}
    return PromptSession(
        message=PROMPT,
        multiline=True,
        prompt_continuation=CONTINUED,
        history=FileHistory(catalog.home.root / "sql_history"),
        auto_suggest=AutoSuggestFromHistory(),
        completer=SqlCompleter(lambda: shell.names, arguments),
        complete_while_typing=True,
        lexer=PygmentsLexer(PostgresLexer),
        key_bindings=_keys(),
        bottom_toolbar=lambda: _toolbar(shell),
        reserve_space_for_menu=6,
        input=input,
        output=output,
    )


def talk(shell: Shell, lines: "PromptSession[str]") -> None:
    """Read a text and run it, again and again; what fails is said and the next is read."""
    while not shell.done:
        try:
            text = lines.prompt().strip()
        except KeyboardInterrupt:
            continue  # the line is cleared
        except EOFError:
            return
        run_line(shell, text)


def run_line(shell: Shell, text: str) -> None:
    """Run one text; an expected error becomes a message."""
    try:
        if text.rstrip(";").strip() in LEAVING:
            shell.done = True
        elif text.startswith("."):
            run_command(shell, text)
        elif text:
            shell.run(text)
    except KeyboardInterrupt:
        shell.say("interrupted")
    except Exception as error:
        if exit_code_of(error) is None:
            raise  # a fault of ours: its traceback is what we need to see
        shell.say(message_of(error))


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=has_focus(DEFAULT_BUFFER))  # in a search it ends the search
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None  # what was picked in the list is taken; no new line
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys


def _toolbar(shell: Shell) -> str:
    parts = [shell.summary, f"format {shell.output}"]
    if shell.out:
        parts.append(f"next to {shell.out}")
    if shell.behind:
        parts.append("the store has more: .refresh (this session's own tables go)")
    return " " + "   ".join(parts)


def say(text: str) -> None:
    """One message on the terminal."""
    print(text)


def show(pieces: Iterator[str]) -> bool:
    """Print text, or page it when it is longer than the screen; False when it was not all seen."""
    if not sys.stdout.isatty():
        sys.stdout.writelines(pieces)
        return True
    height = shutil.get_terminal_size().lines - 2  # what is said after it, and the next prompt
    head, lines = [], 0
    for piece in pieces:
        head.append(piece)
        lines += piece.count("\n")
        if lines > height:
            return _page(chain(head, pieces))
    sys.stdout.writelines(head)
    return True


def _page(pieces: Iterator[str]) -> bool:
    command = shlex.split(os.environ.get("PAGER", PAGER))
    if not command or shutil.which(command[0]) is None:
        sys.stdout.writelines(pieces)
        return True
    environment = {"LESS": PAGER_SETTINGS, "LESSCHARSET": "utf-8", **os.environ}
    pager = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, text=True)
    assert pager.stdin is not None, "a pipe was asked for"
    try:
        pager.stdin.writelines(pieces)
        whole = True
    except (BrokenPipeError, KeyboardInterrupt):
        whole = False  # the user has seen enough
    _close(pager)
    return whole


def _close(pager: "subprocess.Popen[str]") -> None:
    """Tell the pager that there is no more and wait until the user leaves it."""
    while True:
        try:
            if pager.stdin and not pager.stdin.closed:
                pager.stdin.close()
            pager.wait()
            return
        except BrokenPipeError:
            continue  # what was left in the buffer has no reader: closed all the same
        except KeyboardInterrupt:
            continue  # Ctrl-C is the pager's while it is on the screen
