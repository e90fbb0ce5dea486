"""A network namespace for a daemon, with one way to each of its peers. Each way is a pair of interfaces through a
bridge. A cut takes the port out of the bridge: both ends keep their link, and every packet vanishes."""
import os
import re
import subprocess

from relay import Balancer


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True)


class Net:
    def __init__(self, ways):
        self.name = "spotchaos%d" % os.getpid()
        self.ways = {way: "10.%d.%d" % (64 + os.getpid() % 128, 4 * (os.getpid() // 128 % 60) + k) for k, way in enumerate(ways)}
        self.relays = {}
        ip("netns", "add", self.name)
        try:
            ip("-n", self.name, "link", "set", "lo", "up")
            for way in ways:
                self.make(way)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def possible():
        if os.geteuid() != 0:
            return False
        try:
            net = Net(("try",))
        except (OSError, subprocess.CalledProcessError):
            return False
        net.close()
        return True

    def short(self, way, kind):
        """Names of interfaces have 15 letters."""
        return "sc%s%s%d" % (kind, way[:2], os.getpid())

    def make(self, way):
        bridge, port, inner = (self.short(way, k) for k in "bpi")
        # An address of its own: by default it is the port's, and a port outside the bridge would take in what is for the bridge.
        ip("link", "add", bridge, "address", "02:00:00:00:00:01", "type", "bridge")
        ip("addr", "add", self.outside(way) + "/24", "dev", bridge)
        ip("link", "add", port, "type", "veth", "peer", "name", inner)
        ip("link", "set", port, "master", bridge)
        ip("link", "set", inner, "netns", self.name)
        ip("-n", self.name, "addr", "add", self.inside(way) + "/24", "dev", inner)
        ip("-n", self.name, "link", "set", inner, "up")
        ip("link", "set", port, "up")
        ip("link", "set", bridge, "up")

    def outside(self, way):
        return self.ways[way] + ".1"

    def inside(self, way):
        return self.ways[way] + ".2"

    def wrap(self):
        return ["ip", "netns", "exec", self.name]

    def cut(self, way, off):
        # Outside the bridge the port would answer ARP for the host's addresses.
        ip("link", "set", self.short(way, "p"), *(("nomaster", "arp", "off") if off else ("master", self.short(way, "b"), "arp", "on")))

    def heard(self, way):
        """Packets that came out of the namespace on this way."""
        with open("/sys/class/net/%s/statistics/rx_packets" % self.short(way, "b"), encoding="ascii") as f:
            return int(f.read())

    def at_clouds(self, line):
        """A line of the configuration with its local addresses moved to the way to the clouds, where a relay listens for each."""
        def moved(m):
            port = int(m.group(1))
            if port not in self.relays:
                self.relays[port] = Balancer(lambda: ("127.0.0.1", port), self.outside("clouds"), port)
            return "%s:%d" % (self.outside("clouds"), port)
        return re.sub(r"127\.0\.0\.1:(\d+)", moved, line)

    def close(self):
        for relay in self.relays.values():
            relay.stop()
        for way in self.ways:
            ip("link", "del", self.short(way, "p"), check=False)
            ip("link", "del", self.short(way, "b"), check=False)
        ip("netns", "del", self.name, check=False)
