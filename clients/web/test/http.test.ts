// Requests over HTTP, next to a real socket. `http.yaml` has the rest.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { connect, overHttp } from "../src/feed.ts";
import { message, nodeSocket, Server } from "./server.ts";

type Posted = { path: string | undefined; headers: Record<string, unknown>; frame: Record<string, unknown> };

test("requests go over HTTP with the token of the connection, and by the socket once HTTP fails", async () => {
  const posted: Posted[] = [];
  const results: Record<string, unknown> = {
    drain: { messages: [], more: false },
    inbox: { conversations: [], next_cursor: null },
    ack: {},
    one: { ...message(1), duplicate: false },
  };
  const http = createServer(async (request, response) => {
    const { url: path, headers } = request;
    const frame = JSON.parse(Buffer.concat(await request.toArray()).toString());
    posted.push({ path, headers, frame });
    const result = results[frame.body ?? frame.action];
    if (result) {
      response.end(JSON.stringify({ type: "reply", action: frame.action, id: frame.id, result }));
    } else {
      response.writeHead(429).end('{"message":"Too Many Requests"}');
    }
  });
  await new Promise<void>((listening) => http.listen(0, "127.0.0.1", listening));
  const server = await Server.start();
  const client = await connect({
    url: server.url,
    userId: "alice",
    token: () => "a.b.c",
    deviceId: "phone",
    webSocket: nodeSocket,
    http: overHttp(`http://127.0.0.1:${(http.address() as AddressInfo).port}/`),
  });
  onTestFinished(async () => {
    await client.close();
    await server.stop();
    http.close();
  });
  expect((await (await client.sendTo("bob", "one")).stored).seq).toBe(1);
  const send = posted.find(({ path }) => path === "/v1/send");
  expect(send?.frame).toMatchObject({ action: "send", to: "bob", body: "one" });
  expect(send?.headers).toMatchObject({ authorization: "Bearer a.b.c", "x-device-id": "phone" });
  const { stored } = await client.sendTo("bob", "two");
  expect(await server.answer("send", { ...message(2), duplicate: false })).toMatchObject({ body: "two" });
  expect((await stored).seq).toBe(2);
  expect(posted.at(-1)?.frame).toMatchObject({ body: "two" });
});
