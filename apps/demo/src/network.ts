// The sockets: they can be cut here, and every frame is reported. Tokens are not: they are in no frame.

import type { OpenSocket } from "@pigeonhole/client";

export interface Passed {
  at: Date;
  /** `note`: not a frame, but something that happened to the socket. */
  way: "in" | "out" | "note";
  text: string;
}

/** The sockets are in one tab; the switch and the frames are in all of them. */
export class Network {
  #name: string;
  #passed: (frame: Passed) => void;
  #turned: () => void;
  #sockets = new Set<WebSocket>();
  #others: BroadcastChannel;

  /** `passed` gets the frames of all tabs. `turned`: the switch was turned in some tab. */
  constructor(name: string, passed: (frame: Passed) => void, turned: () => void) {
    this.#name = `cut off ${name}`;
    this.#passed = passed;
    this.#turned = turned;
    this.#others = new BroadcastChannel(this.#name);
    this.#others.onmessage = ({ data }: MessageEvent<Passed>) => passed(data);
    // Not a message: it can come before the other tab's change is visible here.
    addEventListener("storage", ({ key }) => key === this.#name && this.#take());
  }

  get isCut(): boolean {
    return localStorage.getItem(this.#name) !== null;
  }

  turn(isOn: boolean): void {
    if (isOn) {
      localStorage.removeItem(this.#name);
    } else {
      localStorage.setItem(this.#name, "yes");
    }
    this.#take();
  }

  /** The client sees what it sees when a phone loses its network; the server, that the socket was closed. */
  #take(): void {
    for (const socket of this.isCut ? this.#sockets : []) {
      socket.dispatchEvent(new CloseEvent("close", { code: 1006 }));
      socket.close();
    }
    this.#turned();
  }

  readonly open: OpenSocket = (url, protocols) => {
    if (this.isCut) {
      throw new Error("the connection is switched off on this page");
    }
    const socket = new WebSocket(url, protocols);
    const tell = (way: Passed["way"], text: string) => {
      const frame = { at: new Date(), way, text };
      this.#passed(frame);
      this.#others.postMessage(frame);
    };
    this.#sockets.add(socket);
    socket.addEventListener("open", () => tell("note", "socket opened"));
    socket.addEventListener("message", ({ data }) => tell("in", String(data)));
    const closed = ({ code }: CloseEvent) => {
      this.#sockets.delete(socket);
      tell("note", `socket closed, ${code}`);
    };
    socket.addEventListener("close", closed, { once: true });
    const send = socket.send.bind(socket);
    socket.send = (text) => {
      tell("out", String(text));
      send(text);
    };
    return socket;
  };
}
