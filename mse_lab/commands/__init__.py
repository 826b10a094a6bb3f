"""A command a file: its help, its arguments, and what it calls.

`cli.py` lists the commands, `command_line.py` holds the arguments that several have. What a
command needs beyond the standard library is imported when it runs: `--help` is fast, an
import that fails is reported in one line, and torch is loaded only once the probes are
known to be right, and where a model is needed.
"""
