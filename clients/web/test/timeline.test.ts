// The timeline against conformance/timeline.yaml, whose README says what the steps mean.

import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { Timeline, type TimelineEntry } from "../src/timeline.ts";
import { fail, fits, folder, type Json, queuedOf, type Scenario, type Step, variants } from "./script.ts";

const scenarios = parse(readFileSync(new URL("timeline.yaml", folder), "utf8")) as (Scenario & { user: string })[];

for (const scenario of scenarios) {
  it(scenario.name, () => {
    const timeline = new Timeline(scenario.user);
    for (const step of variants(scenario).flat()) {
      if ("expect" in step) {
        expect(seen(timeline, Object.keys(step.expect)), JSON.stringify(step)).toEqual(step.expect);
      } else {
        happen(timeline, step);
      }
    }
  });
}

function happen(timeline: Timeline, step: Step): void {
  const steps: Record<string, (value: Step[string]) => void> = {
    history: (page) => {
      fits("HistoryResult", page);
      timeline.history(page);
    },
    message: (message) => {
      fits("Message", message);
      timeline.message(message);
    },
    queued: ({ at, ...queued }) => timeline.queued(queuedOf({ conversation_id: "dm_ab", ...queued }), at),
    failed: ({ client_msg_id, code }) => timeline.failed(client_msg_id, code),
    dismiss: (id) => timeline.dismiss(id),
    receipt: (receipt) => timeline.receipt(receipt),
    row: (row) => {
      fits("Conversation", row);
      timeline.row(row);
    },
    open: () => timeline.open(),
    close: () => timeline.close(),
  };
  for (const [name, value] of Object.entries(step)) {
    (steps[name] ?? fail(`there is no step ${name}`))(value);
  }
}

/** What a script asks of it, as scripts write it. */
function seen(timeline: Timeline, names: string[]): Json {
  const all: Record<string, () => unknown> = {
    entries: () => timeline.entries((at) => at.slice(0, "2026-11-20".length)).map(brief),
    missing: () => timeline.missing() ?? null,
    more_before: () => timeline.moreBefore() ?? null,
    unread: () => timeline.unread(),
    read_up_to: () => timeline.readUpTo() ?? null,
  };
  return Object.fromEntries(names.map((name) => [name, (all[name] ?? fail(`a timeline has no ${name}`))()]));
}

function brief(entry: TimelineEntry): string {
  switch (entry.type) {
    case "day":
      return `day ${entry.day}`;
    case "unread":
      return `unread ${entry.count}`;
    case "gap":
      return `gap ${entry.afterSeq}..${entry.beforeSeq}`;
    case "message":
      return `${entry.message.seq} ${entry.own ? `own ${entry.tick}` : entry.message.sender_id}`;
    case "unsent":
      return [entry.clientMsgId, "own", entry.tick, entry.error].filter(Boolean).join(" ");
  }
}
