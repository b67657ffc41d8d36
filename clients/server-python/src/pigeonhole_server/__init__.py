"""Pigeonhole's SDK for your own servers."""

from pigeonhole_server.admin import Admin
from pigeonhole_server.calls import RefusedError, Transport, by_lambda, over_http
from pigeonhole_server.events import Follower, Hole, NotAnEventError, each_of_batch, parse_event
from pigeonhole_server.queue import Queue
from pigeonhole_server.service import Service

__all__ = [
    "Admin",
    "Follower",
    "Hole",
    "NotAnEventError",
    "Queue",
    "RefusedError",
    "Service",
    "Transport",
    "by_lambda",
    "each_of_batch",
    "over_http",
    "parse_event",
]
