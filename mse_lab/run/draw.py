"""Draw what a probe needs by an engine's server, into a file that `completions:` reads.

A line has also the completion's number in its pool, and a hash of all that it depends on.
Lines are only added: a later start draws the numbers that are missing.
"""

import json
import os
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import BinaryIO

from mse_lab.console import writing
from mse_lab.errors import InputError
from mse_lab.policy.completion_lines import POOLS, Line
from mse_lab.policy.engine_server import EngineServer, Job
from mse_lab.policy.policy import load_outline
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.probe.identity import digest
from mse_lab.probe.plain_text import parse_json, reading
from mse_lab.probe.prompts import load_prompts
from mse_lab.probe.schema import Probe
from mse_lab.run.processes import lock
from mse_lab.run.progress import make_bar, refresh


def _read_drawn(path: Path, origins: dict[str, str]) -> set[tuple[str, ...]]:
    """List prompt, pool and number of each line; cut off what a kill left of one."""
    drawn, whole = set(), 0
    path.touch()
    with reading(path), path.open("rb+") as file:
        for at, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                file.truncate(whole)
                break
            whole += len(line)
            values = parse_json(line, f"{path}, line {at}")
            origin = values.get("origin")
            if origins.get(str(values.get("prompt")), origin) != origin:
                raise InputError(
                    f"{path}, line {at}: drawn of another prompt, model or sampling, or "
                    "not by draw; remove the file, or name another --out"
                )
            drawn.add(tuple(str(values.get(key)) for key in ("prompt", "pool", "number")))
    return drawn


def _write(file: BinaryIO, job: Job, drawn: Sequence[Line], origin: str) -> None:
    for number, line in zip(job.numbers, drawn, strict=True):
        key = {"prompt": job.prompt, "pool": job.pool, "number": number, "origin": origin}
        given = {"tokens": line.tokens, "engine_log_probs": line.engine_log_probs}
        file.write(json.dumps({**key, **given}).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())


def draw_probe(name: str, probe: Probe, path: Path, root: Path) -> int:
    """Draw the completions that a file lacks; return how many it then has."""
    server, policy = EngineServer(probe), load_outline(probe, root)
    prompts, chat = load_prompts(probe.prompts, root), probe.prompts.chat
    most = probe.sampling.max_new_tokens
    tokens = encode_prompts(policy, prompts, chat=chat, new_tokens=most)
    model = probe.model.model_dump(include={"path", "revision", "gguf", "adapter"})
    law = [model, probe.sampling.model_dump(exclude={"server"}), probe.seed]
    ids = [prompt.id for prompt in prompts]
    origins = {one: digest([law, own])[:12] for one, own in zip(ids, tokens, strict=True)}
    with lock(path.parent), writing(path):
        drawn, jobs = _read_drawn(path, origins), []
        for (prompt, own), pool in product(zip(ids, tokens, strict=True), POOLS):
            numbers = range(getattr(probe.pool, pool))
            missing = [one for one in numbers if (prompt, pool, str(one)) not in drawn]
            jobs += Job(prompt, pool, missing, own).parts()
        total = len(prompts) * (probe.pool.reference + probe.pool.replicate)
        done = total - sum(len(job.numbers) for job in jobs)
        options = {"total": total, "initial": done, "desc": name, "file": sys.stderr}
        with path.open("ab") as file, make_bar(**options, unit="completions") as bar:
            for job, found in server.draw_jobs(jobs, policy):
                _write(file, job, found, origins[job.prompt])
                done += len(found)
                refresh(bar, done)
    return total
