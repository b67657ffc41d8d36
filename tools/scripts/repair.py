"""Brings the inbox rows of members who were left behind up to the ends of their groups' logs. Repairs one group, whose
member list the script checks too, or all groups: in the local server, or in a stack."""

import argparse

from message_trace import Local, Stack


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("conversation", nargs="?", help="a group's id; left out, all groups are looked at")
    options.add_argument("--since", help="only groups in which something was written since then (2026-11-22T09:30:00Z)")
    options.add_argument("--stack", default="", help="left out, the local server is asked")
    options = options.parse_args()
    source = Stack(options.stack) if options.stack else Local()
    if options.conversation:
        print(told(source.ask_admin({"op": "repair", "conversation_id": options.conversation})))
        return
    behind, failed = None, []
    while True:
        answer = source.ask_admin({"op": "repair", "since": options.since, "behind": behind})
        behind, failed = answer.pop("next"), failed + answer.pop("failed")
        print(told(answer), flush=True)
        if behind is None:
            break
    if failed:
        raise SystemExit(f"These failed, for which the log of admin has the reason: {' '.join(failed)}")


def told(answer):
    return ", ".join(f"{name}: {value}" for name, value in answer.items())


if __name__ == "__main__":
    main()
