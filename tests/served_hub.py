"""A Hub of one data set on this machine, so that fetching is tested without a network."""

import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def _handler(name: str, folder: Path, asked: list[str]):
    files = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    information = {"id": name, "sha": COMMIT, "siblings": [], "tags": []}
    tree = [
        {
            "type": "file",
            "path": path,
            "size": file.stat().st_size,
            "oid": hashlib.sha1(file.read_bytes()).hexdigest(),
        }
        for path, file in files.items()
    ]

    class Handler(BaseHTTPRequestHandler):
        def respond(self, content: bytes, status: int = 200, **headers: str) -> None:
            self.send_response(status)
            headers |= {"X-Repo-Commit": COMMIT, "Content-Length": str(len(content))}
            for key, value in headers.items():
                self.send_header(key.replace("_", "-"), value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            asked.append(f"{self.command} {path}")
            api, page = f"/api/datasets/{name}", f"/datasets/{name}/resolve"
            revision, _, file = path.removeprefix(f"{page}/").partition("/")
            if path in (api, f"{api}/revision/main", f"{api}/revision/{COMMIT}"):
                self.respond(json.dumps(information).encode())
            elif path == f"{api}/tree/{COMMIT}":
                self.respond(json.dumps(tree).encode())
            elif revision in ("main", COMMIT) and file in files:
                content = files[file].read_bytes()
                self.respond(content, ETag=f'"{hashlib.sha1(content).hexdigest()}"')
            elif path.startswith((api, page)):
                self.respond(b"{}", 404, X_Error_Code="RevisionNotFound")
            else:
                self.respond(b"{}", 404, X_Error_Code="RepoNotFound")

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    return Handler


class ServedHub:
    """Serves a folder as the one data set of a Hub, inside a `with` block.

    Attributes:
        endpoint: What HF_ENDPOINT must be.
        asked: The requests so far, a method and a path each.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.asked: list[str] = []
        handler = _handler(name, folder, self.asked)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "ServedHub":
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
