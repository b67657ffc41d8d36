"""Calls the local server's function for operators: `just admin '{"op":"connections","user_id":"bob"}'`."""

import json
import sys

from local_server import ask_admin


def main():
    answer = ask_admin(sys.argv[1])
    print(json.dumps(answer, ensure_ascii=False))
    # As the function's own callers see it.
    sys.exit("error" in answer)


if __name__ == "__main__":
    main()
