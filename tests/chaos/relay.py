"""Between a daemon and its Postgres: counts statements and hurts the n-th.

A statement is an Execute (extended protocol) or a Query (simple), named by its prepared name. Message formats are those
of https://www.postgresql.org/docs/15/protocol-message-formats.html. The modes at a count:

    before    the statement has not left: its Parse and Bind may be there, without its Sync nothing is committed
    sent      the server has done it and answered, the daemon has not heard
    replied   the daemon has the answer

and then hit(count, name) is called, which kills whom it likes; the connection is cut. With cut=False it only waits until
hit() returns (a delay). freeze() lets nothing through in either direction, as a network that lost its way.
"""
import asyncio
import struct
import threading


class Plan:
    """at: the first count; every: so many statements later again (0: once). mode: one of the above."""

    def __init__(self, mode, at, every, hit, cut=True, names=None):
        self.mode, self.next, self.every, self.hit, self.cut, self.names = mode, at, every, hit, cut, names
        self.seen = 0

    def wants(self, name):
        if self.names is not None and name not in self.names:
            return False
        self.seen += 1
        if self.next is None or self.seen < self.next:
            return False
        self.next = self.next + self.every if self.every else None
        return True


class Link:
    """One connection of the daemon."""

    def __init__(self, proxy, client, server):
        self.proxy, self.client, self.server = proxy, client, server
        self.started = False
        self.prepared = {}
        self.bound = ""
        self.hold = None      # (count, name) of a statement whose answer is awaited
        self.syncs = 0        # ReadyForQuery still to come from the server, this statement's included

    async def run(self):
        """Until one side ends; then both do."""
        self.proxy.links.add(self)
        pumps = [asyncio.ensure_future(self.pump_up()), asyncio.ensure_future(self.pump_down())]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for p in pumps:
                p.cancel()
            self.close()
            self.proxy.links.discard(self)
            await asyncio.gather(*pumps, return_exceptions=True)

    async def pump_up(self):
        reader, writer = self.client[0], self.server[1]
        while True:
            if not self.started:
                head = await reader.readexactly(4)
                body = await reader.readexactly(struct.unpack("!i", head)[0] - 4)
                self.started = True
                self.syncs += 1
                await self.give(writer, head + body)
                continue
            head = await reader.readexactly(5)
            body = await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)
            await self.message(head[:1], head, body, writer)

    async def message(self, kind, head, body, writer):
        if kind == b"P":
            name, sql = body.split(b"\0")[:2]
            self.prepared[name] = name or sql[:40]
        elif kind == b"B":
            self.bound = self.prepared.get(body.split(b"\0")[1], b"?").decode()
        if kind in (b"S", b"Q"):
            self.syncs += 1
        if kind in (b"E", b"Q"):
            name = self.bound if kind == b"E" else body[:-1].decode(errors="replace")[:40]
            await self.statement(name, kind)
        await self.give(writer, head + body)

    async def statement(self, name, kind):
        p = self.proxy
        p.count += 1
        p.last = name
        if p.plan is None or not p.plan.wants(name):
            return
        if p.plan.mode == "before":
            await p.strike(self, p.count, name)
        else:
            self.hold = (p.count, name, self.syncs + (kind == b"E"))

    async def pump_down(self):
        reader, writer = self.server[0], self.client[1]
        answered = 0
        while True:
            head = await reader.readexactly(5)
            body = await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)
            answered += head[:1] == b"Z"
            # A COPY answers with "go on" first: its statement was received, more is not to be had.
            over = self.hold and (answered >= self.hold[2] or head[:1] == b"G")
            mode = self.proxy.plan.mode if self.proxy.plan else None
            if over and mode == "sent":
                held, self.hold = self.hold, None
                await self.proxy.strike(self, *held[:2])
            await self.give(writer, head + body)
            if over and mode == "replied":
                held, self.hold = self.hold, None
                await writer.drain()
                await self.proxy.strike(self, *held[:2])

    async def give(self, writer, data):
        await self.proxy.open.wait()
        if writer.transport.is_closing():
            raise Cut()
        writer.write(data)
        if writer.transport.get_write_buffer_size() > 1 << 16:
            await writer.drain()

    def close(self):
        for _, writer in (self.client, self.server):
            try:
                writer.transport.abort()
            except (OSError, RuntimeError):
                pass


class Cut(Exception):
    pass


class Relay:
    """A listener with a loop and a thread of its own; serve() has each connection."""

    def __init__(self, address, port=0):
        self.links = set()
        self.loop = asyncio.new_event_loop()
        ready = threading.Event()

        async def up():
            self.open = asyncio.Event()
            self.open.set()
            self.listener = await asyncio.start_server(self.serve, address, port)
            self.port = self.listener.sockets[0].getsockname()[1]
            ready.set()

        def run():
            asyncio.set_event_loop(self.loop)
            self.loop.create_task(up())
            self.loop.run_forever()
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        if not ready.wait(20):
            raise RuntimeError("nothing listens at %s:%d" % (address, port))

    # ---- from the story's thread ---------------------------------------------------------

    def call(self, work):
        done = threading.Event()

        def do():
            work()
            done.set()
        self.loop.call_soon_threadsafe(do)
        done.wait(10)

    def freeze(self, on):
        self.call(self.open.clear if on else self.open.set)

    def cut_all(self):
        self.call(lambda: [link.close() for link in list(self.links)])

    def stop(self):
        def end():
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.call_later(0.1, self.loop.stop)
        self.loop.call_soon_threadsafe(end)
        self.thread.join(5)


class Plain(Link):
    """Bytes, whatever they mean."""

    async def pump(self, reader, writer):
        while True:
            data = await reader.read(1 << 16)
            if not data:
                raise Cut()
            await self.give(writer, data)

    def pump_up(self):
        return self.pump(self.client[0], self.server[1])

    def pump_down(self):
        return self.pump(self.server[0], self.client[1])


class Balancer(Relay):
    """To whichever (host, port) target() says now, as the balancer before several daemons does."""

    def __init__(self, target, address="127.0.0.1", port=0):
        self.target = target
        super().__init__(address, port)

    async def serve(self, reader, writer):
        try:
            link = Plain(self, (reader, writer), await asyncio.open_connection(*self.target()))
            await link.run()
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()


class Proxy(Relay):
    def __init__(self, socket_path, address="127.0.0.1"):
        self.target, self.plan = socket_path, None
        self.count, self.last, self.hits = 0, "", []
        super().__init__(address)

    async def serve(self, reader, writer):
        try:
            server = await asyncio.open_unix_connection(self.target)
            await Link(self, (reader, writer), server).run()
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()

    async def strike(self, link, count, name):
        plan = self.plan
        self.hits.append((count, name))
        print("          %s %d %s" % (plan.mode, count, name), flush=True)
        await self.loop.run_in_executor(None, plan.hit, count, name)
        if plan.cut:
            link.close()
            raise Cut()
