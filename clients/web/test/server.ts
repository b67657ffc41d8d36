// A server on real sockets, controlled by the test.

import type { AddressInfo } from "node:net";
import { WebSocket as NodeWebSocket, type WebSocket, WebSocketServer } from "ws";
import type { OpenSocket } from "../src/index.ts";

// biome-ignore lint/suspicious/noExplicitAny: frames, as they came.
type Frame = any;

export class Server {
  readonly url: string;
  #server: WebSocketServer;
  /** The HTTP status of upgrades; 101 accepts them. */
  status = 101;
  /** The subprotocols that clients offered, in the order of their connections. */
  offers: string[][] = [];
  sockets: WebSocket[] = [];
  #frames: Frame[] = [];
  #arrived = () => {};

  static async start(): Promise<Server> {
    const server = new WebSocketServer({
      port: 0,
      host: "127.0.0.1",
      handleProtocols: () => "pigeonhole.v1",
      verifyClient: ({ req }, let_in) => {
        made.offers.push(String(req.headers["sec-websocket-protocol"]).split(/, ?/));
        let_in(made.status === 101, made.status);
      },
    });
    await new Promise((listening) => server.once("listening", listening));
    const made = new Server(server);
    return made;
  }

  private constructor(server: WebSocketServer) {
    this.#server = server;
    this.url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    server.on("connection", (socket) => {
      this.sockets.push(socket);
      socket.on("message", (text) => {
        this.#frames.push(JSON.parse(String(text)));
        this.#arrived();
      });
    });
  }

  /** The socket that was opened last. */
  get socket(): WebSocket {
    const socket = this.sockets.at(-1);
    if (!socket) {
      throw new Error("nobody is connected");
    }
    return socket;
  }

  /** The next request with this action. Others are kept. */
  async asked(action: string): Promise<Frame> {
    for (;;) {
      const at = this.#frames.findIndex((frame) => frame.action === action);
      if (at >= 0) {
        return this.#frames.splice(at, 1)[0];
      }
      await new Promise<void>((arrived) => {
        this.#arrived = arrived;
      });
    }
  }

  async answer(action: string, result: unknown): Promise<Frame> {
    const { id, ...request } = await this.asked(action);
    this.say({ type: "reply", action, id, result });
    return request;
  }

  /** Nothing is pending, and nothing is new. */
  async catchUp(): Promise<void> {
    await this.answer("drain", { messages: [], more: false });
    await this.answer("inbox", { conversations: [], next_cursor: null });
  }

  say(frame: unknown): void {
    this.socket.send(JSON.stringify(frame));
  }

  /** Ends all connections, and refuses new ones. */
  async stop(): Promise<void> {
    for (const socket of this.sockets) {
      socket.terminate();
    }
    await new Promise((stopped) => this.#server.close(stopped));
  }
}

/** How Node 20 opens a socket, which has no `WebSocket` of its own. */
export const nodeSocket: OpenSocket = (url, protocols) => new NodeWebSocket(url, protocols);

export function message(seq: number, conversation_id = "dm_ab") {
  return {
    conversation_id,
    seq,
    message_id: "0198b7a0-0000-7000-8000-000000000005",
    sender_id: "bob",
    kind: "text",
    body: `bob ${seq}`,
    sent_at: "2026-11-20T10:00:05.000Z",
  };
}

/** The event with these messages of others. */
export function messagesNew(...seqs: number[]) {
  return { type: "messages.new", conversation_id: "dm_ab", messages: seqs.map((seq) => message(seq)) };
}
