import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { sendOnce } from "../src/index.ts";

type Asked = { path: string | undefined; headers: Record<string, unknown>; body: unknown };

/** Starts a server that gives these replies, one after another, and keeps the requests. */
async function serving(...replies: [status: number, body: string][]) {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    const chunks = await request.toArray();
    const { url: path, headers } = request;
    asked.push({ path, headers, body: JSON.parse(Buffer.concat(chunks).toString()) });
    const [status, body] = replies.shift() ?? [500, ""];
    response.writeHead(status).end(body);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, token: "t", asked };
}

const message = { to: "bob", client_msg_id: "m1", body: "hi" };
const result = { conversation_id: "dm_x", seq: 1, message_id: "x", sent_at: "2026-11-20T10:00:00.123Z" };
const reply: [number, string] = [200, JSON.stringify({ type: "reply", action: "send", result })];
const error = (status: number, code: string, retryable: boolean): [number, string] => [
  status,
  JSON.stringify({ type: "error", action: "send", error: { code, message: code, retryable } }),
];

test("a message is one request, as the protocol has it", async () => {
  const { asked, ...server } = await serving(reply);
  expect(await sendOnce({ ...server, url: `${server.url}/` }, message)).toEqual(result);
  expect(asked).toHaveLength(1);
  expect(asked[0]).toMatchObject({ path: "/v1/send", body: { ...message, kind: "text" } });
  expect(asked[0]?.headers).toMatchObject({ authorization: "Bearer t", "content-type": "application/json" });
});

test("what may succeed later is repeated unchanged, and a refusal is not", async () => {
  const again = await serving([502, "<html>"], error(503, "unavailable", true), reply);
  expect(await sendOnce(again, message)).toEqual(result);
  expect(again.asked.map(({ body }) => body)).toEqual(Array(3).fill({ ...message, kind: "text" }));
  const refused = await serving(error(403, "not_member", false));
  await expect(sendOnce(refused, message)).rejects.toMatchObject({ code: "not_member" });
  expect(refused.asked).toHaveLength(1);
  const off = await serving([404, '{"message":"Not Found"}']);
  await expect(sendOnce(off, message)).rejects.toMatchObject({ code: "unavailable" });
  const expired = await serving([401, '{"message":"Unauthorized"}']);
  await expect(sendOnce(expired, message)).rejects.toMatchObject({ code: "token_expired" });
  const down = await serving();
  await expect(sendOnce(down, message)).rejects.toMatchObject({ code: "unavailable" });
  expect(down.asked).toHaveLength(3);
});
