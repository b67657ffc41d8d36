"""Pigeonhole deployed to MiniStack, for a person to try: until Ctrl-C."""

import argparse
import signal

from stack import MiniStack, Sns, Stack, build


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=4566, help="the port of 127.0.0.1 to listen on")
    port = parser.parse_args().port
    binaries = build()
    with MiniStack(port) as aws, Sns(binaries) as sns:
        stack = Stack(aws, sns, binaries)
        stack.deploy()
        greet(stack)
        try:
            signal.pause()
        except KeyboardInterrupt:
            stack.save_logs()


def greet(stack):
    url, token, chat = stack.url(), " ".join([*map(str, stack.issuer()), "token"]), stack.binaries["chat"]
    greeting = f"""
Pigeonhole is deployed.
  socket    {url}
  token     {token} alice
  chat now  PIGEONHOLE_TOKEN=$({token} alice) {chat} alice bob {url}
            PIGEONHOLE_TOKEN=$({token} bob) {chat} bob alice {url}     (in another terminal)
  phones    curl {stack.sns.endpoint}     (what the phone behind each registered token shows)
  queue     {stack.output("BackendQueueUrl")}     (what servers write to users; docs/backend.md)
  AWS       aws --endpoint-url {stack.aws.endpoint} cloudformation describe-stacks
Ctrl-C stops everything."""
    print(greeting, flush=True)


if __name__ == "__main__":
    main()
