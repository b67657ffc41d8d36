// Runs the chat model against conformance/chat.yaml, whose README explains the steps.

import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { Messages } from "../src/chat/messages.ts";
import { entries, playChat } from "./chat-play.ts";
import { folder, type Scenario, variants } from "./script.ts";

const scenarios = parse(readFileSync(new URL("chat.yaml", folder), "utf8")) as (Scenario & { user: string })[];

for (const scenario of scenarios) {
  for (const steps of variants(scenario)) {
    it(scenario.name, () => playChat(scenario.user, steps, (snapshot) => snapshot));
  }
}

it("a view that opened without a network gets the entries below those of the store", () => {
  const view = new Messages("alice", "dm_ab", "firstUnread", []);
  const stored = { messages: entries("dm_ab", { ranges: { bob: [2, 3] } }), spans: [{ from: 2, to: 3 }] };
  const serve = () => {
    const asked: unknown[] = [];
    for (let requests = view.requests(); requests.length > 0; requests = view.requests()) {
      asked.push(...requests);
      for (const request of requests) {
        if ("load" in request) {
          const isBefore = "before_seq" in request.load;
          view.loaded(request.load, { ...stored, messages: isBefore ? [] : stored.messages });
        } else {
          view.lost(request.history);
        }
      }
    }
    return asked;
  };
  serve();
  const keys = view.snapshot().items.map(({ key }) => key);
  expect(keys).toEqual(["d2026-11-20", "s2", "s3"]);
  view.event({ type: "state", state: "caught_up" }, 0);
  expect(serve()).toContainEqual({ history: { before_seq: 2 } });
});
