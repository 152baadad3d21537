"""Records the output of a command on a terminal, as an asciicast (version 2), and as lines of text for a picture.

The recorded commands only print, move up, return to the beginning of the line and erase. The emulated screen supports
no more.
"""

import fcntl
import html
import json
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Mapping

COLUMNS, ROWS = 110, 40
# A control sequence, a control character, or plain text.
TOKEN = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\r\n\t\x08])|([^\x1b\r\n\t\x08]+)|\x1b")


class Recording:
    """The output and its times."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.events: list[tuple[float, str]] = []
        self._begun = time.monotonic()

    def type(self, line: str) -> None:
        """Show a command as if a user had typed it."""
        self.add(f"$ {line}\r\n")

    def add(self, text: str) -> None:
        self.events.append((time.monotonic() - self._begun, text))

    def run(self, command: list[str], environment: Mapping[str, str], seconds: float) -> int:
        """Run a command on a terminal and record its output. Returns its exit status. A run longer than `seconds` is an
        error."""
        child, terminal = pty.fork()
        if child == 0:
            os.execvpe(command[0], command, environment)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        end = time.monotonic() + seconds
        while True:
            if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
                os.kill(child, 9)
                os.waitpid(child, 0)
                raise TimeoutError(f"not over after {seconds} s: {' '.join(command)}")
            try:
                said = os.read(terminal, 65536)
            except OSError:  # Linux reports a closed other end this way.
                said = b""
            if not said:
                break
            self.add(said.decode(errors="replace"))
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def replaced(self, what: str, by: str) -> None:
        """Return the recording with `what` written as `by`: a temporary directory is of no use to the reader."""
        self.events = [(at, text.replace(what, by)) for at, text in self.events]

    def cast(self) -> str:
        """Return the recording as an asciicast."""
        header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": self.title}
        lines = [header, *([round(at, 3), "o", text] for at, text in self.events)]
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)

    def screen(self) -> list[str]:
        """Return the lines of the final screen."""
        lines, row, column = [""], 0, 0
        for parameters, letter, control, text in TOKEN.findall("".join(text for _, text in self.events)):
            number = int(parameters) if parameters.isdigit() else 1
            if text:
                lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + len(text):]
                column += len(text)
            elif control == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            elif control == "\r":
                column = 0
            elif letter == "A":
                row = max(row - number, 0)
            elif letter == "K":
                lines[row] = "" if parameters == "2" else lines[row][:column]
        return [line.rstrip() for line in lines]

    def page(self) -> str:
        """Return the screen as an HTML page."""
        text = html.escape("\n".join(self.screen()).rstrip())
        return ("<!doctype html><meta charset=utf-8><style>body{margin:0;background:#1c1f24;color:#d8dee6}"
                f"pre{{margin:0;padding:14px;display:inline-block;font:13px/1.35 monospace}}</style><pre id=screen>{text}</pre>")
