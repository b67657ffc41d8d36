"""The local server, as all tools find it: PIGEONHOLE_LOCAL is its address, where that is not http://127.0.0.1:3001."""

import json
import os
import sys
import urllib.error
import urllib.request

URL = os.environ.get("PIGEONHOLE_LOCAL", "http://127.0.0.1:3001").rstrip("/")
# The server is on this machine, whatever proxy the environment names.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
WAIT_S = 60


def pages():
    """Where its pages and queues are."""
    return json.loads(get(f"{URL}/local"))


def ask_admin(request):
    """Returns the reply of the function for operators; `request` is text or a value."""
    body = request if isinstance(request, str) else json.dumps(request)
    return json.loads(get(pages()["admin_url"], body))


def get(url, body=None, headers=None):
    """Returns the page as text. Ends the program with one line if no server replies."""
    headers = headers or {"content-type": "application/json"}
    try:
        request = urllib.request.Request(url, body.encode() if body is not None else None, headers)
        with OPENER.open(request, timeout=WAIT_S) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        sys.exit(f"{url} answers HTTP {error.code}: {error.read().decode(errors='replace').strip()}")
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        sys.exit(f"no server at {URL} ({why}): start it with `cargo run`, or say in PIGEONHOLE_LOCAL where it is")
