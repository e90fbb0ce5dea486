"""The broker's event stream, followed by a thread that wakes waiting tests."""
import http.client
import json
import socket
import threading


class Feed(threading.Thread):
    """Follows the broker's event stream; everything that waits is woken by it."""

    def __init__(self, world):
        super().__init__(daemon=True)
        self.world = world
        self.news = threading.Condition()
        self.last = None
        self.over = False
        self.open = None
        self.events = []

    def run(self):
        while not self.over:
            try:
                self.read()
            except (OSError, http.client.HTTPException, ValueError):
                pass
            with self.news:
                self.news.wait(0.3)

    def read(self):
        c = self.world.connection(timeout=40)
        try:
            self.stream(c)
        finally:
            c.close()

    def stream(self, c):
        headers = {"Accept": "text/event-stream", "Authorization": "Bearer " + (self.world.token or "")}
        if self.last:
            headers["Last-Event-ID"] = self.last
        c.request("GET", "/v1/events" if self.last else "/v1/events?after=0", headers=headers)
        reply = c.getresponse()
        if reply.status != 200:
            return
        data = None
        self.open = c
        for raw in reply:
            line = raw.decode().rstrip("\r\n")
            if line.startswith("id:"):
                self.last = line[3:].strip()
            elif line.startswith("data:"):
                data = line[5:].strip()
            elif not line and data:
                with self.news:
                    self.events.append(json.loads(data))
                    self.news.notify_all()
                data = None
            if self.over:
                return

    def wait(self, timeout):
        with self.news:
            self.news.wait(timeout)

    def hang_up(self):
        """Ends a read that waits; the thread ends with it."""
        try:
            if self.open is not None and self.open.sock is not None:
                self.open.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.join(5)
