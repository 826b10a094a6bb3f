"""Render prompts by a tokenizer's chat template, in a process that can be lost.

A chat template is a program of whoever made the checkpoint. The sandbox keeps it from
files, not from a loop of hours or a power tower that no signal interrupts; a process of its
own has limits of time and memory, and its end is one line here. As a program, this file is
that process: an order as JSON on standard input, each text as a line of JSON.
"""

import json
import math
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mse_lab.errors import InputError, in_short

# Of the processor, which on a busy machine take many times as long: templates take a
# millisecond a prompt, and the imports before the first about two seconds.
SECONDS, SECONDS_A_PROMPT = 20.0, 0.05
BYTES = 2**31
# Characters of a rendered prompt, more than any context holds.
LONGEST = 2**22


def render_chats(tokenizer: Any, ids: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Render texts as the user's turn of a chat; their ids are for messages."""
    if not tokenizer.chat_template:
        raise InputError(
            "prompts.chat = true: the tokenizer has no chat template; use false"
        )
    template, tokens = tokenizer.chat_template, tokenizer.special_tokens_map
    if isinstance(template, dict):
        template = template.get("default")
    seconds = math.ceil(SECONDS + SECONDS_A_PROMPT * len(texts))
    order = {"template": template, "tokens": tokens, "texts": list(texts)}
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps({**order, "seconds": seconds}, default=str).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[2],
    )
    late = done.returncode == -signal.SIGXCPU
    end = f"not done after {seconds} s of the processor" if late else "its process died"
    # A line that was being written when the process ended is not among them.
    answers = [json.loads(line) for line in done.stdout.split(b"\n")[:-1]]
    rendered = [answer["text"] for answer in answers if "text" in answer]
    if len(rendered) < len(texts):
        reason = answers[-1].get("error", end) if answers else end
        raise InputError(
            f"prompts.chat = true: the chat template fails on prompt {ids[len(rendered)]}: "
            f"{reason}; use false, or another template"
        )
    return rendered


def _render(order: dict[str, Any], text: str) -> str:
    from transformers.utils.chat_template_utils import render_jinja_template

    texts: Any = render_jinja_template(
        conversations=[[{"role": "user", "content": text}]],
        chat_template=order["template"],
        add_generation_prompt=True,
        **order["tokens"],
    )
    rendered = str(texts[0][0])
    if len(rendered) > LONGEST:
        raise ValueError(f"it makes {len(rendered)} characters, {LONGEST} are the most")
    return rendered


def _answer() -> None:
    """Carry out the order on standard input."""
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
    order = json.load(sys.stdin)
    # The hard limit is the later one: it would kill without saying why.
    resource.setrlimit(resource.RLIMIT_CPU, (order["seconds"], order["seconds"] + 1))
    try:
        for text in order["texts"]:
            print(json.dumps({"text": _render(order, text)}), flush=True)
    # Foreign code can fail in any way; the process that waits says so.
    except Exception as error:
        print(json.dumps({"error": in_short(error)}), flush=True)


if __name__ == "__main__":
    _answer()
