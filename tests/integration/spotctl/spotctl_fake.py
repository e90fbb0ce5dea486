"""A scripted daemon: it records every request, and gives the test's answer for its method and path."""

import http.server
import json
import socketserver
import threading


class Reply:
    def __init__(self, status=200, body=None, headers=None, text=None, content_type=None, drop=False, stream=None):
        self.status, self.headers, self.drop, self.stream = status, headers or {}, drop, stream
        if text is not None:
            self.body, self.type = text.encode(), content_type or "text/plain; charset=utf-8"
        else:
            self.body = json.dumps(body if body is not None else {}).encode()
            self.type = content_type or ("application/json" if status < 400 else "application/problem+json")


def problem(status, code, detail, **more):
    return Reply(status, {"type": "about:blank", "title": "x", "status": status, "code": code, "detail": detail, **more})


class Request:
    def __init__(self, method, target, headers, body):
        self.method, self.headers, self.body = method, headers, body
        self.path, _, self.query = target.partition("?")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        reply = self.server.fake.take(Request(self.command, self.path, self.headers, body))
        if reply.drop:
            self.close_connection = True
            return
        if reply.stream is not None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            for part in reply.stream:
                self.wfile.write(part.encode())
                self.wfile.flush()
            return
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.type)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

    def log_message(self, *args):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # tests include clients that go away


class FakeDaemon:
    """with FakeDaemon() as d: d.on("GET", "/v1/jobs", Reply(...), ...): one after the other, the last for ever."""

    def __init__(self):
        self.lock = threading.Lock()
        self.script, self.requests = {}, []

    def __enter__(self):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.fake = self
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *args):
        self.server.shutdown()
        self.server.server_close()

    def on(self, method, path, *replies):
        self.script[(method, path)] = list(replies)

    def take(self, request):
        with self.lock:
            self.requests.append(request)
            queue = self.script.get((request.method, request.path))
            if not queue:
                return problem(404, "not_found", "nothing is laid down for %s %s" % (request.method, request.path))
            return queue.pop(0) if len(queue) > 1 else queue[0]
