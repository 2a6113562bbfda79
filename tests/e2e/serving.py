"""The HTTP servers of tests: each on a free port of this machine, with a handler of its own."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Served:
    """Answers from `serve` until `stop`."""

    port: int
    url: str

    def serve(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
