// The local server, in a process of its own.

import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Pigeonhole } from "../src/index.ts";

/** Resolves once the server has keys of this device, or of any of the user: from then on, others can write to it. */
export async function published({ engine }: Pigeonhole, name?: string): Promise<void> {
  const isListed = ({ device_id }: { device_id: string }) => name === undefined || device_id === name;
  while (!(await engine.call({ action: "list_keys" })).devices.some(isListed)) {
    // The client publishes meanwhile.
  }
}

export class LocalServer {
  readonly url: string;
  /** Called with each line of the functions' logs. */
  logged: (line: string) => void = () => {};
  #process: ChildProcess;

  static async start(...options: string[]): Promise<LocalServer> {
    const { CARGO = "cargo" } = process.env;
    const server = spawn(CARGO, ["run", "--quiet", "--", "--port", "0", "--batching-window", "0", ...options], {
      cwd: fileURLToPath(new URL("../../..", import.meta.url)),
      stdio: ["ignore", "pipe", "inherit"],
    });
    for await (const line of createInterface(server.stdout)) {
      const [, url] = /^demo\s+(http:\S+?)\/(?:\s|$)/.exec(line.trim()) ?? [];
      if (url !== undefined) {
        // The logs must be read, or the server would block.
        const started = new LocalServer(url, server);
        createInterface(server.stdout).on("line", (line) => started.logged(line));
        return started;
      }
    }
    throw new Error("the server has ended before it was ready");
  }

  private constructor(url: string, process: ChildProcess) {
    this.url = url;
    this.#process = process;
  }

  /** The part of a client's configuration that names this server and a user of it. */
  async config(userId: string) {
    const token = async () => (await (await fetch(`${this.url}/token?user=${userId}`)).json()).token as string;
    return { url: `${this.url.replace("http", "ws")}/v1`, userId, token };
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.kill("SIGKILL");
    await ended;
  }
}
