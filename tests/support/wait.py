"""Waits that end with their event."""
import socket

from world import until  # noqa: F401  the demo waits by it too


def answers(port):
    """Does somebody listen on this port of the loopback?"""
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0
