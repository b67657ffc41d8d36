"""Runs apps on a client, over connections that lose, double, delay and cut frames.

The arguments are the command of a driver, a program with several apps on the client. The script adds the server's URL
as the last argument. The driver takes one command per input line, and writes one result per output line.

The apps talk to a small model of the server. Other devices of the same users acknowledge messages too. At the end the
faults stop. Each app must then have shown each message once, in order, and acknowledged it.
"""

import argparse
import asyncio
import subprocess
import sys

from model_server import Connection, World

USERS = 16
FAULTS_S = 15
START_S = 600


async def run(driver, seed, users, seconds):
    """Runs apps on the driver. Returns the number of messages that they showed, and the faults found."""
    worlds = {}

    async def serve(reader, writer):
        connection = Connection(reader, writer)
        world = worlds[await connection.accept()]
        world.connection = connection
        async for text in connection.texts():
            world.asked(text)
        if world.connection is connection:
            world.connection = None
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    app = await asyncio.create_subprocess_exec(*driver, url, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def command(line):
        app.stdin.write(line.encode() + b"\n")

    for number in range(users):
        worlds[f"user{number}"] = World(f"user{number}", seed, command)
        command(f"user{number}\twake")

    async def listen():
        async for line in app.stdout:
            user, what, *rest = [*line.decode().rstrip("\n").split("\t"), "nothing"]
            if what == "shown":
                worlds[user].on_shown(rest[0], int(rest[1]))
            elif what == "failed":
                worlds[user].wrong.append(f"failed: {rest}")

    listening = asyncio.create_task(listen())
    # A driver may have to be compiled first.
    await until(lambda: all(world.connection for world in worlds.values()), app, START_S)
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while clock() < end:
        for world in worlds.values():
            world.step()
        await asyncio.sleep(0.15)
    for world in worlds.values():
        world.broken = False

    def is_whole():
        return not any([*world.missing()] for world in worlds.values())

    await cut_until(is_whole, worlds, app)
    if is_whole():
        # Only the chat list has these messages: no event and no drain does.
        heard = [(world, world.overtake()) for world in worlds.values()]
        await until(lambda: all(world.is_shown(name) for world, name in heard), app)
        await cut_until(is_whole, worlds, app)
    problems = [problem for world in worlds.values() for problem in (*world.wrong, *world.missing())]
    shown = sum(len(seqs) for world in worlds.values() for seqs in world.shown.values())
    app.stdin.close()
    await app.wait()
    await listening
    server.close()
    return shown, problems


async def cut_until(condition, worlds, app):
    """Cuts each connection, then waits: only a new connection finds a lost message that another device acknowledged."""
    for world in worlds.values():
        if world.connection:
            world.connection.cut()
    await until(condition, app)


async def until(condition, app, seconds=60):
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while clock() < end and not condition() and app.returncode is None:
        await asyncio.sleep(0.1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="another seed, another run")
    parser.add_argument("driver", nargs="+", help="the command that runs the driver")
    options = parser.parse_args()
    shown, problems = asyncio.run(run(options.driver, options.seed, USERS, FAULTS_S))
    if problems or not shown:
        sys.exit("\n".join(["The client is wrong:", *problems, f"once more: --seed {options.seed}"]))
    print(f"{shown} messages shown once, in order, by {USERS} apps over bad connections (seed {options.seed})")


if __name__ == "__main__":
    main()
