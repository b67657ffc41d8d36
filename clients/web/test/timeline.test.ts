// Runs the timeline against conformance/timeline.yaml, whose README explains the steps.

import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { parse } from "yaml";
import type { ReactedEvent } from "../src/events.ts";
import type { Message } from "../src/feed.ts";
import { happened } from "../src/protocol.ts";
import { Timeline, type TimelineEntry } from "../src/timeline.ts";
import { fail, fits, folder, type Json, queuedOf, type Scenario, type Step, variants } from "./script.ts";

const scenarios = parse(readFileSync(new URL("timeline.yaml", folder), "utf8")) as (Scenario & { user: string })[];

for (const scenario of scenarios) {
  it(scenario.name, () => {
    const timeline = new Timeline(scenario.user);
    for (const step of variants(scenario).flat()) {
      if ("expect" in step) {
        expect(seen(timeline, step.expect), JSON.stringify(step)).toEqual(step.expect);
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
      // The schema has no group events of later versions.
      const { system, ...rest } = message;
      fits("Message", system && !happened(message) ? rest : message);
      timeline.message(message);
    },
    queued: ({ at, ...queued }) => timeline.queued(queuedOf({ conversation_id: "dm_ab", ...queued }), at),
    failed: ({ client_msg_id, code }) => timeline.failed(client_msg_id, code),
    dismiss: (id) => timeline.dismiss(id),
    receipt: (receipt) => timeline.receipt(receipt),
    receipts: (page) => {
      fits("ReceiptsResult", page);
      timeline.receipts(page);
    },
    row: (row) => {
      fits("Conversation", row);
      timeline.row(row);
    },
    uploading: ({ client_msg_id: clientMsgId, done }) => timeline.uploading({ clientMsgId, done }),
    channel: (row) => {
      fits("Channel", row);
      timeline.channel(row);
    },
    reacted: (change) => timeline.reacted(queuedOf({ conversation_id: "dm_ab", ...change }) as ReactedEvent),
    typing: ({ user_id, now, text }) => timeline.typing(user_id, now, text),
    open: () => timeline.open(),
    close: () => timeline.close(),
  };
  for (const [name, value] of Object.entries(step)) {
    (steps[name] ?? fail(`there is no step ${name}`))(value);
  }
}

/** Returns the part of the view that a script requests, in the script's form. */
function seen(timeline: Timeline, expected: Step): Json {
  const all: Record<string, () => unknown> = {
    entries: () => timeline.entries((at) => at.slice(0, "2026-11-20".length)).map(brief),
    missing: () => timeline.missing() ?? null,
    more_before: () => timeline.moreBefore() ?? null,
    unread: () => timeline.unread(),
    mentions: () => timeline.mentions(),
    closed: () => timeline.isClosed(),
    readers: () => ({ seq: expected.readers.seq, ...timeline.readers(expected.readers.seq) }),
    read_up_to: () => timeline.readUpTo() ?? null,
    writing: () => ({ now: expected.writing.now, users: timeline.writing(expected.writing.now) }),
    texts: () => ({ now: expected.texts.now, by: timeline.texts(expected.texts.now) }),
  };
  return Object.fromEntries(
    Object.keys(expected).map((name) => [name, (all[name] ?? fail(`a timeline has no ${name}`))()]),
  );
}

function brief(entry: TimelineEntry): string {
  switch (entry.type) {
    case "day":
      return `day ${entry.day}`;
    case "unread":
      return `unread ${entry.count}`;
    case "gap":
      return `gap ${entry.afterSeq}..${entry.beforeSeq}`;
    case "message": {
      const { seq, sender_id, reply_to } = entry.message;
      const who = `${seq} ${entry.own ? `own ${entry.tick}` : sender_id}`;
      return [who, ...became(entry.message), quoted(reply_to, entry.quote), ...unsent(entry)].filter(Boolean).join(" ");
    }
    case "system":
      return `${entry.message.seq} ${entry.message.sender_id} ${entry.system.event}`;
    case "unreadable":
      return `${entry.message.seq} ${entry.message.sender_id} ${entry.why}`;
    case "unsent": {
      const { queued, error, uploaded } = entry.unsent;
      const state = error ?? (uploaded === undefined ? "" : String(uploaded));
      const replyTo = "replyTo" in queued ? queued.replyTo : undefined;
      return [queued.clientMsgId, "own", entry.tick, state, quoted(replyTo, entry.quote)].filter(Boolean).join(" ");
    }
  }
}

function became({ body, version, deleted_at, reactions = [] }: Message): string[] {
  if (deleted_at !== undefined) {
    expect({ body, version, reactions }).toEqual({ body: "", version: undefined, reactions: [] });
    return ["deleted"];
  }
  const each = reactions.map(({ emoji, count, mine }) => `${emoji}:${count}${mine ? ":mine" : ""}`);
  return [version === undefined ? "" : `edited ${body}`, each.length > 0 ? `with ${each.join("+")}` : ""];
}

function quoted(replyTo: number | undefined, quote: Message | undefined): string {
  if (replyTo === undefined) {
    expect(quote).toBeUndefined();
    return "";
  }
  return quote ? `to ${quote.seq} ${quote.deleted_at === undefined ? quote.body : "deleted"}` : "to nothing";
}

function unsent({ changing, refused }: Extract<TimelineEntry, { type: "message" }>): string[] {
  return [changing ? "changing" : "", refused ? `refused ${refused.error}` : ""];
}
