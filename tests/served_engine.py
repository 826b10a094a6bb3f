"""A server of the forms of vLLM and SGLang on this machine; it samples from a policy."""

import json
import socket
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread

import numpy as np

from mse_lab.policy.log_probabilities import token_log_probs
from mse_lab.policy.sampling import draw

# Settings without which a server takes those of the checkpoint's generation_config.
NEUTRAL = {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}


def _forget(*names):
    """Make a fault of leaving out keys of each completion."""

    def spoil(found):
        for one in found:
            for name in names:
                (one.get("meta_info") or one).pop(name, None)
        return found

    return spoil


def _longer(found):
    spoilt = {"token_ids": [1] * 4, "logprobs": {"token_logprobs": [-1.0] * 4}}
    return [one | spoilt for one in found]


def _uneven(found):
    found[-1]["logprobs"]["token_logprobs"].append(-1.0)
    return found


# What a server may do instead of answering, or to the completions of its answer.
SPOILT = {
    "ignores n": lambda found: found[:1],
    "text without ids": _forget("token_ids"),
    "no log-probabilities": _forget("logprobs", "output_token_logprobs"),
    "other numbers": _uneven,
    "longer than asked": _longer,
    "another form": lambda found: ["a text"],
}


class ServedEngine:
    """Serves a policy inside a `with` block, as `vllm` or `sglang`.

    Attributes:
        url: Its address, the same after `stop` and `start`.
        asked: The bodies of the requests for completions, and `faults` what to do to the
            next ones: a status, `hang up`, `not JSON`, `late` (it hangs up once `released`
            is set) or a key of SPOILT; None for nothing.
    """

    def __init__(self, policy, form="vllm", served=("small",), temperature=None):
        self.policy, self.form, self.served = policy, form, served
        self.temperature = temperature  # Instead of the one that is asked for.
        self.asked, self.faults, self._lock = [], [], Lock()
        self.released = Event()
        self._address = ("127.0.0.1", 0)

    def start(self):
        server = ThreadingHTTPServer(self._address, self._handler(), False)
        server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.handle_error = lambda *_: None  # A client that no longer listens.
        server.server_bind()
        server.server_activate()
        self._server, self._address = server, server.server_address
        self.url = "http://{}:{}".format(*self._address)
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def sample(self, prompt, seeds, most, asked):
        """Draw a completion for each seed; give tokens and log-probabilities."""
        policy = replace(self.policy, temperature=self.temperature or asked["temperature"])
        assert asked["stop_token_ids"] == list(policy.end_tokens)
        assert {name: asked[name] for name in NEUTRAL} == NEUTRAL
        uniforms = np.stack([np.random.default_rng(seed).random(most) for seed in seeds])
        drawn = draw(policy, prompt, uniforms, "served")
        table_NT = token_log_probs(policy, prompt, drawn).tolist()
        return [
            (tokens.tolist(), row[: len(tokens)])
            for tokens, row in zip(drawn.unpadded, table_NT, strict=True)
        ]

    def vllm(self, body):
        assert body["return_token_ids"]
        assert body["model"] == self.served[0]
        seeds = [body["seed"] + child for child in range(body["n"])]
        found = self.sample(body["prompt"], seeds, body["max_tokens"], body)
        return [
            {"index": i, "text": "?", "token_ids": one[0], "finish_reason": "stop",
             "logprobs": {"token_logprobs": one[1]}} for i, one in enumerate(found)
        ]  # fmt: skip

    def sglang(self, body):
        assert body["return_logprob"]
        prompts, laws = body["input_ids"], body["sampling_params"]
        assert prompts == prompts[:1] * len(laws)
        seeds, most = [law["sampling_seed"] for law in laws], laws[0]["max_new_tokens"]
        found = self.sample(prompts[0], seeds, most, laws[0])
        pairs = [zip(log_probs, tokens, strict=True) for tokens, log_probs in found]
        return [
            {"text": "?", "meta_info": {"output_token_logprobs": [*map(list, one)]}}
            for one in pairs
        ]

    def answer(self, path, body):
        """Give the answer to a request for completions, by the faults that are due."""
        assert path == {"vllm": "/v1/completions", "sglang": "/generate"}[self.form]
        with self._lock:
            self.asked.append(body)
            fault = self.faults.pop(0) if self.faults else None
        if fault == "late":
            self.released.wait(20)
            return "hang up"
        with self._lock:
            if fault == "hang up" or isinstance(fault, int):
                return fault
            found = getattr(self, self.form)(body)
        found = SPOILT.get(fault, lambda same: same)(found)
        answer = {"choices": found} if self.form == "vllm" else found
        return b"<html>" if fault == "not JSON" else json.dumps(answer).encode()

    def _handler(engine):
        class Handler(BaseHTTPRequestHandler):
            def respond(self, content, status=200):
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_GET(self):
                cards = [{"id": name, "owned_by": engine.form} for name in engine.served]
                self.respond(json.dumps({"data": cards}).encode())

            def do_POST(self):
                length = int(self.headers["Content-Length"])
                found = engine.answer(self.path, json.loads(self.rfile.read(length)))
                if isinstance(found, int):
                    self.respond(b'{"error": {"message": "a reason"}}', found)
                elif found != "hang up":
                    self.respond(found)

            def log_message(self, *_):
                pass

        return Handler
