"""Evaluates the alarms of template.yaml, and writes into docs/alarms.csv the rate of failures that makes each fire.

`--check` only compares the file with the template. `--rings` reads the counts of some periods, and prints after which
of them each alarm fires. The drills of tests/e2e use it.
"""

import ast
import bisect
import csv
import io
import json
import operator
import sys
from pathlib import Path

from samcli.yamlhelper import yaml_parse

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs/alarms.csv"
RUNBOOK = ROOT / "docs/runbook.md"
DRILLS = ROOT / "tests/e2e/drills.rs"
# Messages a minute.
RATES = {"1 message a minute": 1, "1 message a second": 60, "1,000 messages a second": 60_000}
# As docs/deploying.md assumes: messages a day for each device that is online.
MESSAGES_OF_A_DEVICE = 50
# One message in 5 sends a push.
MESSAGES_OF_A_PUSH = 5
# One message in 10 has media, and takes three events: upload, uploaded, download.
MESSAGES_OF_A_PICTURE, EVENTS_OF_A_PICTURE = 10, 3
# Tokens of an hour: a device connects once in that time.
CONNECTS_A_MINUTE = 1 / 60
# What CloudWatch takes in one alarm, and what a metric in it costs a month.
METRICS_MAX, DOLLARS = 10, 0.10
# As the local server calls the stack.
STACK = "pigeonhole"


def main():
    resources = yaml_parse((ROOT / "template.yaml").read_text())["Resources"]
    # Each with the unit that stack/alarms.yaml names: of requests, posts, users, …
    alarms = [
        Alarm(resources[logical_id(name)]["Properties"], unit(entry))
        for name, entry in yaml_parse((ROOT / "stack/alarms.yaml").read_text()).items()
    ]
    if "--rings" in sys.argv:
        periods = [Counted(metrics) for metrics in json.load(sys.stdin)]
        print(json.dumps({alarm.name: alarm.rings(periods) for alarm in alarms}))
    else:
        write_table(alarms)


def logical_id(name):
    return "".join(map(str.capitalize, name.split("-"))) + "Alarm"


def unit(entry):
    """`requests` of `1% of requests`, `users` of `5 users`."""
    threshold = entry.get("above") or entry["below"]
    return threshold.split(" of " if "% of " in threshold else " ", 1)[1]


def write_table(alarms):
    wanted = table(alarms)
    if "--check" not in sys.argv:
        TABLE.write_text(wanted)
        return
    drills, runbook = DRILLS.read_text(), RUNBOOK.read_text()
    for alarm in alarms:
        if f"async fn {alarm.name.replace('-', '_')}()" not in drills:
            sys.exit(f"{alarm.name} has no drill in tests/e2e/drills.rs")
        if f"\n### `{alarm.name}`\n" not in runbook:
            sys.exit(f"{alarm.name} has no section in docs/runbook.md")
    if TABLE.read_text() != wanted:
        sys.exit("docs/alarms.csv does not match the template: run `python tools/scripts/alarms.py`")


def table(alarms):
    rows = [["alarm", "counts", *(f"at {rate}" for rate in RATES), "soonest after", "a month"]]
    for alarm in alarms:
        month = f"${alarm.metrics * DOLLARS:.2f}"
        fires = map(alarm.rings_at, RATES.values())
        rows.append([alarm.name, alarm.unit, *fires, f"{alarm.soonest_minutes} min", month])
    metrics = sum(alarm.metrics for alarm in alarms)
    rows.append([f"{len(alarms)} alarms", f"{metrics} metrics", *[""] * (len(RATES) + 1), f"${metrics * DOLLARS:.2f}"])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


class Alarm:
    def __init__(self, properties, unit):
        self.unit = unit
        self.name = properties["AlarmName"]["Fn::Sub"].removeprefix("${AWS::StackName}-")
        self.compare = getattr(operator, {"G": "gt", "L": "lt"}[properties["ComparisonOperator"][0]])
        self.threshold = properties["Threshold"]
        queries = properties.get("Metrics", [])
        # By id. The alarm watches the first expression.
        self.expressions = {query["Id"]: query["Expression"] for query in queries if "Expression" in query}
        stats = {query["Id"]: query["MetricStat"] for query in queries if "MetricStat" in query}
        # An alarm over a single metric has the metric's fields itself; the others have them in a query.
        self.stats = stats or {"metric": {"Metric": properties, "Stat": properties["Statistic"]}}
        self.metric_of_id = {name: stat["Metric"] for name, stat in stats.items()}
        self.metrics = len(stats) or 1
        if self.metrics > METRICS_MAX:
            sys.exit(f"{self.name} has {self.metrics} metrics; CloudWatch takes {METRICS_MAX}")
        (seconds,) = {stat["Period"] for stat in stats.values()} or {properties["Period"]}
        self.minutes = seconds // 60
        self.periods, self.bad_periods = properties["EvaluationPeriods"], properties["DatapointsToAlarm"]
        # How CloudWatch counts a period without data.
        self.missing = {"breaching": True, "notBreaching": False}[properties["TreatMissingData"]]
        self.soonest_minutes = self.minutes * self.bad_periods

    def rings(self, periods):
        """Whether the alarm fires at the end of each period. Every period before the first one was good."""
        bad = [self.is_bad_period(counted) for counted in periods]
        ends = range(1, len(bad) + 1)
        return [sum(bad[max(0, end - self.periods) : end]) >= self.bad_periods for end in ends]

    def is_bad_period(self, counted):
        values = {name: counted.of(stat["Metric"], stat["Stat"]) for name, stat in self.stats.items()}
        value = evaluate(next(iter(self.expressions), "metric"), values, self.expressions)
        return self.missing if value is None else self.compare(value, self.threshold)

    def rings_at(self, rate):
        """How much must fail in a period, for it to be a bad one."""
        if not self.expressions:
            return f"{'more' if self.compare is operator.gt else 'fewer'} than {self.threshold}"
        traffic = Traffic(rate, self.minutes)
        most = traffic.count(self.unit)
        # A client that could not connect tries again, so any number of tries can fail.
        most = 1_000 + 2 * most if self.unit == "tries to connect" else most
        # `notify` retries a failed push ten times.
        most = 11 * most if self.unit == "pushes" else most
        failed = bisect.bisect_left(range(most + 1), True, key=lambda failed: self.is_bad(traffic, failed))
        if failed > most:
            return f"nothing: {most} are too few"
        total = traffic.count(self.unit, failed)
        percent = float(f"{100 * failed / total:.2g}")
        return f"{failed:,} of {total:,} ({percent:g} %)"

    def is_bad(self, traffic, failed):
        bad = [name for name in self.metric_of_id if "bad" in name]
        # All that fails is in one metric: the others have no data.
        values = dict.fromkeys(bad) | ({bad[0]: failed} if failed else {})
        left = failed
        for name in [name for name in self.metric_of_id if name not in values]:
            good = traffic.good(self.metric_of_id[name], failed)
            # Of `all`, the failures are a part; of the others, what did not fail.
            lost = min(left, good) if name != "all" else 0
            values[name], left = good - lost, left - lost
        value = evaluate(next(iter(self.expressions)), values, self.expressions)
        return value is not None and self.compare(value, self.threshold)


class Counted:
    """What CloudWatch would have of one period, by namespace, name and dimensions."""

    def __init__(self, metrics):
        self.metrics = {self.key(each["namespace"], each["name"], each["dimensions"]): each for each in metrics}

    @staticmethod
    def key(namespace, name, dimensions):
        return namespace, name, frozenset(dimensions.items())

    def of(self, metric, stat):
        dimensions = {each["Name"]: self.resolve(each["Value"]) for each in metric["Dimensions"]}
        counted = self.metrics.get(self.key(metric["Namespace"], metric["MetricName"], dimensions))
        return counted and {"Sum": sum, "SampleCount": len, "Maximum": max}[stat](counted["samples"])

    @staticmethod
    def resolve(value):
        """A resource's name on this machine is its logical id."""
        name = next(iter(value.values())) if isinstance(value, dict) else value
        name = name[0] if isinstance(name, list) else name
        return STACK if name == "AWS::StackName" else name


class Traffic:
    """The events of some minutes at a rate of messages, each between two people with one device each."""

    def __init__(self, rate, minutes):
        self.messages = rate * minutes
        device_minutes = rate * 24 * 60 / MESSAGES_OF_A_DEVICE * minutes
        self.connects = round(device_minutes * CONNECTS_A_MINUTE)
        # A send, an ack and a read for each message; pings every five minutes; a drain and a list after each connect.
        self.requests = 3 * self.messages + round(device_minutes / 5) + 2 * self.connects

    def count(self, noun, failed=0):
        return {
            # A connect is two events, one of them the authorizer's.
            "requests": self.requests + 2 * self.connects,
            # Each of a message's three requests is posted to the other side.
            "posts": 3 * self.messages,
            "frames": self.requests + 3 * self.messages,
            "tries to connect": self.connects + failed,
            "events of media": max(self.messages * EVENTS_OF_A_PICTURE // MESSAGES_OF_A_PICTURE, failed),
            # A device lists its keys at each start.
            "events of keys": max(self.connects, failed),
            "pushes": max(self.messages // MESSAGES_OF_A_PUSH, failed),
            "questions": self.messages,
        }[noun]

    def good(self, metric, failed):
        match metric["MetricName"]:
            case "events":
                good = self.count("requests")
            case "posted":
                # No client drains here: every message is delivered live, and no user is in a group.
                routes = [each["Value"] for each in metric["Dimensions"] if each["Name"] == "route"]
                good = 0 if routes in (["drain"], ["fanout"]) else self.messages
            case "pushed":
                good = self.count("pushes")
            case "hook_answered":
                # Each message is a question; no user edits here.
                routes = [each["Value"] for each in metric["Dimensions"] if each["Name"] == "route"]
                good = self.messages if routes == ["send"] else 0
            case "Invocations":
                is_of_keys = "KeysFunction" in str(metric["Dimensions"])
                good = max(self.count("events of keys" if is_of_keys else "events of media"), failed)
            case "MessageCount":
                good = self.count("frames")
            case "duration_ms":
                good = self.count("tries to connect", failed)
            case name:
                raise SystemExit(f"how often {name} occurs is not known to tools/scripts/alarms.py")
        return good


def evaluate(expression, values, expressions):
    """CloudWatch's metric math, as far as the template uses it, at one point in time. `None` has no data, and neither
    has an expression with it, except FILL."""

    def go(node):
        match node:
            case ast.Constant(value):
                result = value
            case ast.Name(name) if name in expressions:
                result = go(ast.parse(expressions[name], mode="eval").body)
            case ast.Name(name):
                result = values[name]
            case ast.List(items):
                result = [go(item) for item in items]
            case ast.BinOp(left, how, right) | ast.Compare(left, [how], [right]):
                operands = go(left), go(right)
                calculate = {"Mult": operator.mul, "Div": operator.truediv, "Gt": operator.gt, "GtE": operator.ge}
                result = None if None in operands else calculate[type(how).__name__](*operands)
            case ast.Call(ast.Name("IF"), [condition, then, otherwise]):
                holds = go(condition)
                result = None if holds is None else go(then if holds else otherwise)
            case ast.Call(ast.Name("FILL"), [series, filling]):
                result = [go(filling) if value is None else value for value in go(series)]
            case ast.Call(ast.Name("METRICS"), pattern):
                result = [value for name, value in values.items() if all(go(part) in name for part in pattern)]
            case ast.Call(ast.Name(("SUM" | "MAX") as name), [series]):
                series = go(series)
                result = None if None in series else {"SUM": sum, "MAX": max}[name](series)
            case _:
                raise SystemExit(f"{ast.unparse(node)} is not known to tools/scripts/alarms.py")
        return result

    return go(ast.Name(expression))


if __name__ == "__main__":
    main()
