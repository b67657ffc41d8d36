import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Lambda } from "@aws-sdk/client-lambda";
import { SQS } from "@aws-sdk/client-sqs";
import { expect, onTestFinished, test } from "vitest";
import { Admin, byLambda, overHttp, Queue, RefusedError, Service } from "../src/index.ts";

const AWS = { region: "us-east-1", credentials: { accessKeyId: "any", secretAccessKey: "any" } };

/** A server that returns these replies one after another, and notes the requests. */
async function serve(...replies: [status: number, body: unknown, headers?: Record<string, string>][]) {
  const requests: { url?: string | undefined; headers: Record<string, unknown>; body: string }[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) {
      body += part;
    }
    requests.push({ url: request.url, headers: request.headers, body });
    const [status, reply, headers = {}] = replies.shift() ?? [500, "no further reply"];
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(typeof reply === "string" ? reply : JSON.stringify(reply));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}

const message = { to: "bob", client_msg_id: "m1", body: "hi" };
const entry = {
  conversation_id: "dm_x",
  seq: 1,
  message_id: "m",
  sent_at: "2026-11-20T10:00:00.000Z",
  duplicate: false,
};

test("a service calls over HTTP with a token and without `as`, and repeats what may succeed", async () => {
  const server = await serve(
    [503, { message: "Service Unavailable" }],
    [409, { type: "error", error: { code: "conflict", message: "others wrote", retryable: true } }],
    [200, { type: "reply", action: "send", result: entry }],
  );
  let tokens = 0;
  const orders = new Service("@orders", overHttp({ url: `${server.url}/`, token: () => `t${++tokens}` }));
  expect(await orders.send(message)).toEqual(entry);
  expect(server.requests.map(({ url }) => url)).toEqual(Array(3).fill("/v1/services/send"));
  expect(server.requests.map(({ headers }) => headers.authorization)).toEqual(["Bearer t1", "Bearer t2", "Bearer t3"]);
  expect(JSON.parse(server.requests[2]?.body ?? "")).toEqual({ kind: "text", ...message });
});

test("a refusal has its code, and is not repeated", async () => {
  const server = await serve(
    [403, { type: "error", error: { code: "rejected", message: "the filter", reason: "no links", retryable: false } }],
    [403, { message: "Forbidden" }],
    [
      429,
      { type: "error", error: { code: "rate_limited", message: "later", retryable: true, retry_after_ms: 60_000 } },
    ],
  );
  const orders = new Service("@orders", overHttp({ url: server.url, token: () => "t" }));
  const refusal = await orders.send(message).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(RefusedError);
  expect(refusal).toMatchObject({ code: "rejected", message: "rejected: the filter", reason: "no links" });
  await expect(orders.send(message)).rejects.toMatchObject({ code: "forbidden" });
  await expect(orders.send(message)).rejects.toMatchObject({ code: "rate_limited" });
  expect(server.requests.length).toBe(3);
});

test("the function is called by AWS's own client, and its crash is repeated", async () => {
  const server = await serve(
    [200, { errorType: "Crashed" }, { "x-amz-function-error": "Unhandled" }],
    [200, { result: entry }],
    [200, { result: { reports: [{ report_id: "r_1" }], next_cursor: "r_1" } }],
    [200, { result: { reports: [{ report_id: "r_2" }], next_cursor: null } }],
  );
  const calls = byLambda(new Lambda({ ...AWS, endpoint: server.url }), "admin");
  expect(await new Service("@orders", calls).send(message)).toEqual(entry);
  const ids: string[] = [];
  for await (const { report_id } of new Admin(calls).reports("2026-11")) {
    ids.push(report_id);
  }
  expect(ids).toEqual(["r_1", "r_2"]);
  expect(server.requests[1]?.url).toBe("/2015-03-31/functions/admin/invocations");
  expect(server.requests.slice(1).map(({ body }) => JSON.parse(body))).toEqual([
    { op: "send", as: "@orders", kind: "text", ...message },
    { op: "reports", month: "2026-11" },
    { op: "reports", month: "2026-11", cursor: "r_1" },
  ]);
});

test("messages go in batches, by SQS's own client, and those that it did not take come back", async () => {
  const taken = { Successful: [] };
  const server = await serve(
    [200, taken],
    [200, { ...taken, Failed: [{ Id: "10", Code: "Later", SenderFault: false }] }],
  );
  const queue = new Queue(new SQS({ ...AWS, endpoint: server.url, md5: false }), `${server.url}/q`, "@orders");
  const messages = Array.from({ length: 11 }, (_, at) => ({ ...message, client_msg_id: `m${at}` }));
  expect(await queue.publish(...messages)).toEqual([{ message: messages[10], reason: "Later: " }]);
  const [first, second] = server.requests.map(({ body }) => JSON.parse(body).Entries);
  expect([first.length, second.length]).toEqual([10, 1]);
  expect(second[0]).toMatchObject({ Id: "10", MessageGroupId: "bob", MessageDeduplicationId: "m10" });
  expect(JSON.parse(second[0].MessageBody)).toEqual({ kind: "text", ...messages[10], from: "@orders" });
});

test("a batch stays below SQS's limit, and a message that the server would refuse stops all of them", async () => {
  const server = await serve([200, { Successful: [] }], [200, { Successful: [] }]);
  const queue = new Queue(new SQS({ ...AWS, endpoint: server.url, md5: false }), `${server.url}/q`, "@orders");
  const escaped = "\u0001".repeat(5_000);
  await queue.publish(
    ...Array.from({ length: 10 }, (_, at) => ({ ...message, client_msg_id: `m${at}`, body: escaped })),
  );
  expect(server.requests.map(({ body }) => JSON.parse(body).Entries.length)).toEqual([8, 2]);
  const wrong: [Partial<typeof message>, string][] = [
    [{ to: "@orders" }, "to: must be a user"],
    [{ client_msg_id: "with space" }, "client_msg_id: must have visible ASCII characters only"],
    [{ client_msg_id: "m".repeat(65) }, "client_msg_id: is too long"],
    [{ client_msg_id: "operator:1" }, "client_msg_id: must not begin with operator:"],
    [{ body: "ä".repeat(8_193) }, "body: has more than 16384 bytes"],
    [{ body: "\u0001".repeat(6_000) }, "body: as JSON, is above 32768 bytes"],
  ];
  for (const [fields, problem] of wrong) {
    await expect(queue.publish(message, { ...message, ...fields })).rejects.toThrow(new RangeError(problem));
  }
  expect(server.requests.length).toBe(2);
});
