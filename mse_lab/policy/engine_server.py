"""An engine's server, vLLM's or SGLang's, asked by HTTP for completions as token ids.

    vLLM    POST /v1/completions   prompt, n, seed, logprobs, return_token_ids
    SGLang  POST /generate         input_ids, return_logprob, a seed for each completion

`GET /v1/models` says which of the two it is. Each request names every setting of the law
that a server would else take from the checkpoint's generation_config, and all end tokens.
Seeds are keyed by a completion's number: a server draws nothing twice, although it, or the
command, was started again.
"""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from http.client import HTTPException
from itertools import count
from queue import SimpleQueue
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np

from mse_lab.console import complain
from mse_lab.errors import InputError, in_short, shorten
from mse_lab.policy.completion_lines import Line, parse_line
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import Policy
from mse_lab.probe.engine_dumps import drawn
from mse_lab.probe.schema import Probe
from mse_lab.probe.streams import stream

# Requests in flight, and completions of each: as many as an engine runs at once by default.
REQUESTS, TOGETHER = 16, 16

# Seconds for an answer, and more for each token of the longest completion.
SECONDS, SECONDS_PER_TOKEN = 300.0, 0.2

# Seconds that a failing request is repeated for, and between two tries at most; answers of
# a server that is busy, or soon back.
PATIENCE, LONGEST_WAIT = 300.0, 30.0
PASSING = (429, 500, 502, 503, 504)

START = "start it, or correct the address; the same command then goes on"
NEEDED = "use vLLM 0.10.2 or later, or SGLang"


class Job(NamedTuple):
    """Completions of a prompt that are to be drawn."""

    prompt: str  # The prompt's id.
    pool: str
    numbers: Sequence[int]  # Of the completions, in their pool.
    tokens: Sequence[int]  # The prompt's token ids.

    def parts(self) -> "list[Job]":
        """Share them out over requests."""
        starts = range(0, len(self.numbers), TOGETHER)
        parts = (self.numbers[start : start + TOGETHER] for start in starts)
        return [self._replace(numbers=part) for part in parts]


class EngineServer:
    """The server that a probe names."""

    def __init__(self, probe: Probe) -> None:
        self._url = str(probe.sampling.server).rstrip("/")
        self._sampling, self._seed = probe.sampling, probe.seed
        self._seconds = SECONDS + SECONDS_PER_TOKEN * probe.sampling.max_new_tokens
        self._told = False  # Whether the user knows that it fails at present.
        self._given_up = threading.Event()
        adapter, path = probe.model.adapter, probe.model.path
        try:
            cards = self._ask("/v1/models", patience=0)["data"]
            self._is_sglang = cards[0]["owned_by"] == "sglang"
            # One that serves several, such as adapters, is asked for the probe's by name.
            named = adapter if isinstance(adapter, str) else path
            self._model = named if cards[1:] else cards[0]["id"]
        except (LookupError, TypeError):
            raise self._refuse("/v1/models lists no model", NEEDED) from None

    def _refuse(self, reason: str, remedy: str) -> InputError:
        return InputError(f"sampling.server = {shorten(self._url)}: {reason}; {remedy}")

    def _ask(self, path: str, body: Any = None, patience: float | None = None) -> Any:
        """Ask; try again, ever more rarely, while the server is busy or away."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        limit, failed = PATIENCE if patience is None else patience, None
        for attempt in count():
            try:
                request = Request(self._url + path, data, headers)
                with urlopen(request, timeout=self._seconds) as response:
                    answer = json.load(response)
                self._told = False
                return answer
            except HTTPError as error:
                reason = f"it answers {error.code} {error.reason}"
                with suppress(OSError, HTTPException, ValueError):
                    reason += f": {shorten(error.read().decode(), 300)}"
                if error.code not in PASSING:
                    raise self._refuse(reason, "correct the probe or the server") from None
            except (OSError, HTTPException) as error:
                reason = f"no answer ({in_short(getattr(error, 'reason', error))})"
            except ValueError as error:
                raise self._refuse(f"no JSON ({in_short(error)})", NEEDED) from None
            failed = failed or time.monotonic()
            if self._given_up.is_set() or time.monotonic() - failed >= limit:
                raise self._refuse(reason, START)
            if not self._told:
                self._told = True
                complain(f"{self._url}: {reason}; trying again for {limit:.0f} s")
            time.sleep(min(LONGEST_WAIT, 2.0**attempt))

    def _request(self, job: Job, ends: Sequence[int]) -> Any:
        """Ask for the completions of a job."""
        law: dict[str, Any] = {
            "temperature": self._sampling.temperature,
            **{"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
            "stop": self._sampling.stop or None,
            "stop_token_ids": list(ends),
        }
        most, tokens = self._sampling.max_new_tokens, list(job.tokens)
        keys = ([job.prompt, job.pool, str(number)] for number in job.numbers)
        rngs = (stream(self._seed, "server", *key) for key in keys)
        seeds = [int(rng.integers(2**62)) for rng in rngs]
        if not self._is_sglang:
            asked = {"model": self._model, "prompt": tokens, "n": len(seeds), **law}
            wanted = {"max_tokens": most, "logprobs": 1, "return_token_ids": True}
            return self._ask("/v1/completions", {**asked, **wanted, "seed": seeds[0]})
        # Equal prompts instead of n, whose copies would share a seed.
        laws = [{**law, "max_new_tokens": most, "sampling_seed": seed} for seed in seeds]
        asked = {"input_ids": [tokens] * len(seeds), "sampling_params": laws}
        return self._ask("/generate", {**asked, "return_logprob": True})

    def _read(self, job: Job, answer: Any, policy: Policy) -> list[Line]:
        """Read the completions of an answer; refuse what the policy cannot have drawn."""
        try:
            answers = answer if self._is_sglang else answer["choices"]
            found = [drawn(one) for one in answers]
        except (LookupError, TypeError, AttributeError, ValueError):
            raise self._refuse("its answer has another form", NEEDED) from None
        if len(found) != len(job.numbers):
            asked = f"where {len(job.numbers)} are asked for (n)"
            raise self._refuse(f"completions: {len(found)} {asked}", NEEDED)
        pairs = zip(job.numbers, found, strict=True)
        return [self._read_one(job, number, *one, policy) for number, one in pairs]

    def _read_one(
        self, job: Job, number: int, tokens: Any, log_probs: Any, policy: Policy
    ) -> Line:
        most = self._sampling.max_new_tokens
        if not tokens or not log_probs:
            what = "log-probabilities" if tokens else "token ids"
            raise self._refuse(f"completions without {what}", NEEDED)
        where = f"sampling.server = {self._url}: {job.prompt}, {job.pool} {number}"
        raw = {"prompt": job.prompt, "tokens": tokens, "engine_log_probs": log_probs}
        line = parse_line(json.dumps(raw).encode(), where)
        if len(tokens) > most:
            fault = f"{len(tokens)} tokens where sampling.max_new_tokens = {most}"
            raise self._refuse(fault, NEEDED)
        line.read_engine_log_probs(most)
        line.read_tokens(policy, most)
        return line

    def draw_jobs(
        self, jobs: Sequence[Job], policy: Policy
    ) -> Iterator[tuple[Job, list[Line]]]:
        """Draw the completions of jobs, several at a time; yield each as it comes."""
        todo = [*reversed(jobs)]
        answers: SimpleQueue[tuple[Job, Any]] = SimpleQueue()

        def work() -> None:
            with suppress(IndexError):  # Nothing is left to do.
                while True:
                    job = todo.pop()
                    try:
                        answers.put((job, self._request(job, policy.end_tokens)))
                    except Exception as error:
                        answers.put((job, error))

        # Daemons: a command that ends does not wait for what is in flight.
        for _ in range(min(REQUESTS, len(jobs))):
            threading.Thread(target=work, daemon=True).start()
        try:
            for _ in jobs:
                job, answer = answers.get()
                if isinstance(answer, Exception):
                    raise answer
                yield job, self._read(job, answer, policy)
        except BaseException:
            # What is in flight is neither repeated nor spoken of.
            self._given_up.set()
            raise
        finally:
            todo.clear()

    def draw(self, policy: Policy, job: Job) -> Completions:
        """Draw completions of a prompt, with the engine's log-probabilities."""
        found: dict[int, Line] = {}
        for part, read in self.draw_jobs(job.parts(), policy):
            found |= zip(part.numbers, read, strict=True)
        drawn = [found[number] for number in job.numbers]
        return Completions.of_each(
            [np.array(line.tokens) for line in drawn],
            self._sampling.max_new_tokens,
            [sum(line.engine_log_probs or []) for line in drawn],
            policy.ends,
        )
