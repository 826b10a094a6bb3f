"""A Hub of models on this machine, so that what it refuses is tested without a network."""

import hashlib
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import huggingface_hub
import transformers

COMMIT = "89abcdef0123456789abcdef0123456789abcdef"
NOWHERE = "http://127.0.0.1:9"

# Answers by the owner's name: status and error code.
REFUSALS = {
    "guarded": (403, "GatedRepo"),
    "nobody": (401, "RepoNotFound"),
    "empty": (404, "EntryNotFound"),
    "broken": (503, ""),
}


class Handler(BaseHTTPRequestHandler):
    """Serves `tiny/model` from a folder; other owners are refused."""

    folder: Path
    asked: list[str]

    def refuse(self, status, code):
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_HEAD(self):
        path = urlsplit(self.path).path
        self.asked.append(path)
        owner = path.removeprefix("/api/models").removeprefix("/datasets").split("/")[1]
        if owner == "slow":
            time.sleep(2)
        if owner in REFUSALS:
            return self.refuse(*REFUSALS[owner])
        if path in ("/api/models/tiny/model", "/api/models/tiny/model/revision/main"):
            return self.give(b'{"id": "tiny/model", "sha": "%s"}' % COMMIT.encode())
        if path.startswith(f"/api/models/tiny/model/tree/{COMMIT}"):
            return self.refuse(404, "EntryNotFound")
        for revision in ("main", COMMIT):
            name = path.removeprefix(f"/tiny/model/resolve/{revision}/")
            if name != path and (self.folder / name).is_file():
                return self.give((self.folder / name).read_bytes())
            if name != path:
                return self.refuse(404, "EntryNotFound")
        return self.refuse(404, "RevisionNotFound")

    do_GET = do_HEAD

    def give(self, content):
        self.send_response(200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


class ModelHub:
    """Takes the Hub's place for this process, inside a `with` block.

    Attributes:
        asked: The paths asked for so far.
    """

    def __init__(self, monkeypatch, cache: Path, folder: Path) -> None:
        self.asked: list[str] = []
        handler = type("Served", (Handler,), {"folder": folder, "asked": self.asked})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._patch = monkeypatch
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        self.move(f"http://127.0.0.1:{self._server.server_port}")

    def move(self, endpoint: str) -> None:
        """Let the Hub lie elsewhere; at NOWHERE nothing answers."""
        constants = huggingface_hub.constants
        self._patch.setattr(constants, "ENDPOINT", endpoint)
        template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        self._patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        self._patch.setattr(huggingface_hub.hf_api.api, "endpoint", endpoint)
        # Made when first used, and then kept.
        self._patch.setattr(transformers.utils.hub, "_hf_api", None)

    def __enter__(self) -> "ModelHub":
        serve = self._server.serve_forever
        Thread(target=serve, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
