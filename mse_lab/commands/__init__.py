"""A command a file: its help, its arguments, and what it calls.

`mse_lab/cli.py` lists the commands, and `mse_lab/command_line.py` holds the arguments that
several of them have. What a command needs beyond the standard library is imported when it
runs: `--help` is fast, an import that fails is reported in one line, and torch is loaded
only once the probes are known to be right, and only where a model is needed.
"""
