"""A Hub of one repository on this machine, so that fetching is tested without a network."""

import hashlib
import json
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
    "broken": (503, ""),
}


class Handler(BaseHTTPRequestHandler):
    """Serves the files of a folder as a repository; other owners are refused."""

    name: str
    kind: str  # models or datasets
    folder: Path
    asked: list[str]

    def give(self, content=b"", status=200, **headers):
        self.send_response(status)
        headers |= {"X-Repo-Commit": COMMIT, "Content-Length": str(len(content))}
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def give_file(self, path):
        content = path.read_bytes()
        self.give(content, ETag=f'"{hashlib.sha1(content).hexdigest()}"')

    @property
    def tree(self):
        files = (path for path in sorted(self.folder.rglob("*")) if path.is_file())
        return [
            {
                "type": "file",
                "path": path.relative_to(self.folder).as_posix(),
                "size": path.stat().st_size,
                "oid": hashlib.sha1(path.read_bytes()).hexdigest(),
            }
            for path in files
        ]

    def do_HEAD(self):
        path = urlsplit(self.path).path
        self.asked.append(path)
        owner = path.removeprefix(f"/api/{self.kind}").removeprefix("/datasets")
        owner = owner.split("/")[1]
        if owner in REFUSALS:
            status, code = REFUSALS[owner]
            return self.give(status=status, X_Error_Code=code)
        api = f"/api/{self.kind}/{self.name}"
        page = f"/{self.name}" if self.kind == "models" else f"/{self.kind}/{self.name}"
        if path in (api, f"{api}/revision/main", f"{api}/revision/{COMMIT}"):
            about = {"id": self.name, "sha": COMMIT, "siblings": [], "tags": []}
            return self.give(json.dumps(about).encode())
        if path == f"{api}/tree/{COMMIT}":
            return self.give(json.dumps(self.tree).encode())
        revision, _, file = path.removeprefix(f"{page}/resolve/").partition("/")
        code = "RevisionNotFound" if path.startswith((api, page)) else "RepoNotFound"
        if revision in ("main", COMMIT) or path.startswith(f"{api}/tree/{COMMIT}/"):
            code = "EntryNotFound"
            if file and (self.folder / file).is_file():
                return self.give_file(self.folder / file)
        return self.give(status=404, X_Error_Code=code)

    do_GET = do_HEAD

    def log_message(self, *_):
        pass


class ServedHub:
    """Serves a folder as the one repository of a Hub, inside a `with` block.

    Attributes:
        endpoint: What HF_ENDPOINT must be.
        asked: The paths asked for so far.
    """

    def __init__(self, name: str, folder: Path, kind: str = "datasets") -> None:
        self.asked: list[str] = []
        parts = {"name": name, "kind": kind, "folder": folder, "asked": self.asked}
        handler = type("Served", (Handler,), parts)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        serve = self._server.serve_forever
        Thread(target=serve, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class ModelHub(ServedHub):
    """Serves `tiny/model`, in the Hub's place for this process."""

    def __init__(self, monkeypatch, cache: Path, folder: Path) -> None:
        super().__init__("tiny/model", folder, "models")
        self._patch = monkeypatch
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        self.move(self.endpoint)

    def move(self, endpoint: str) -> None:
        """Let the Hub lie elsewhere; at NOWHERE nothing answers."""
        constants = huggingface_hub.constants
        self._patch.setattr(constants, "ENDPOINT", endpoint)
        template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        self._patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        self._patch.setattr(huggingface_hub.hf_api.api, "endpoint", endpoint)
        # Made when first used, and then kept.
        self._patch.setattr(transformers.utils.hub, "_hf_api", None)
