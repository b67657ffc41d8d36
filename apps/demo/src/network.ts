// The sockets: they can be cut here, and every frame is reported. Tokens are not: they are in no frame.

import type { OpenSocket } from "@pigeonhole/client/events";

export interface Passed {
  at: Date;
  /** `note`: not a frame, but something that happened to the socket. */
  way: "in" | "out" | "note";
  text: string;
}

export class Network {
  #passed: (frame: Passed) => void;
  #sockets = new Set<WebSocket>();
  #isCut: boolean;

  constructor(isCut: boolean, passed: (frame: Passed) => void) {
    this.#isCut = isCut;
    this.#passed = passed;
  }

  get isCut(): boolean {
    return this.#isCut;
  }

  /** The client sees what it sees when a phone loses its network; the server, that the socket was closed. */
  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) {
      socket.dispatchEvent(new CloseEvent("close", { code: 1006 }));
      socket.close();
    }
  }

  mend(): void {
    this.#isCut = false;
  }

  readonly open: OpenSocket = (url, protocols) => {
    if (this.#isCut) {
      throw new Error("the connection is switched off on this page");
    }
    const socket = new WebSocket(url, protocols);
    const tell = (way: Passed["way"], text: string) => this.#passed({ at: new Date(), way, text });
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
