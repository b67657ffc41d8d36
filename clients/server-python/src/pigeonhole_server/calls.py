"""Calls of the server that have a reply, by Lambda or over HTTP."""

import json
import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from pigeonhole_server.types import ErrorCode

Call = dict[str, Any]
# The reply: {"result": …}, or {"error": {"code", "message"}}.
Answer = dict[str, Any]
# Carries a call to the server.
Transport = Callable[[Call], Answer]

# Codes whose request may succeed later, unchanged.
RETRYABLE = ("conflict", "unavailable", "rate_limited", "not_ready")
TRIES_MAX = 5
WAIT_S = 0.2
WAIT_S_MAX = 10
# Longer than API Gateway waits for a function.
HTTP_S_MAX = 35
CODES = {401: "token_expired", 403: "forbidden", 404: "unknown_action", 429: "rate_limited"}


class RefusedError(Exception):
    """The server refused the request. With the code `rejected`, `reason` is the filter's, for a user."""

    def __init__(self, problem: dict[str, Any]):
        super().__init__(f"{problem['code']}: {problem['message']}")
        self.code: ErrorCode = problem["code"]
        self.reason: str | None = problem.get("reason")


def by_lambda(client: Any, function_name: str) -> Transport:
    """Calls the function `admin` by boto3's client of Lambda. The name is the stack's output `AdminFunctionName`."""

    def transport(call: Call) -> Answer:
        reply = client.invoke(FunctionName=function_name, Payload=json.dumps(call))
        text = reply["Payload"].read()
        if "FunctionError" in reply:
            return _unavailable(f"the function failed: {text.decode(errors='replace')}")
        return json.loads(text)

    return transport


def over_http(url: str, token: Callable[[], str]) -> Transport:
    """Calls `POST {url}/v1/services/{op}` from outside AWS.

    `token` is called for each try, and returns a JWT whose `sub` is the service."""

    def transport(call: Call) -> Answer:
        fields = {name: value for name, value in call.items() if name not in ("op", "as")}
        headers = {"Authorization": f"Bearer {token()}", "Content-Type": "application/json"}
        target = f"{url.removesuffix('/')}/v1/services/{call['op']}"
        request = urllib.request.Request(target, json.dumps(fields).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=HTTP_S_MAX) as response:
                return _answer(response.status, response.read())
        except urllib.error.HTTPError as error:
            return _answer(error.code, error.read())
        except OSError as error:
            return _unavailable(str(error))

    return transport


def result(transport: Transport, call: Call) -> Any:
    """Returns the result of a call. A call that may succeed later is repeated up to 4 times."""
    for tries in range(1, TRIES_MAX + 1):
        answer = transport(call)
        if "result" in answer:
            return answer["result"]
        problem = answer["error"]
        wait = max(problem.get("retry_after_ms", 0) / 1000, WAIT_S * 2 ** (tries - 1) * random.uniform(0.5, 1))
        if tries == TRIES_MAX or problem["code"] not in RETRYABLE or wait > WAIT_S_MAX:
            break
        time.sleep(wait)
    raise RefusedError(problem)


def _answer(status: int, text: bytes) -> Answer:
    """API Gateway's own replies have neither a result nor an error."""
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if isinstance(body, dict) and ("result" in body or isinstance(body.get("error"), dict)):
        return body
    message = f"HTTP {status}: {text.decode(errors='replace')}"
    return {"error": {"code": CODES.get(status, "unavailable"), "message": message}}


def _unavailable(message: str) -> Answer:
    return {"error": {"code": "unavailable", "message": message}}
