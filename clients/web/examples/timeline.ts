import { type Client, Timeline, type TimelineEntry } from "@pigeonhole/client";

/** One for each conversation, which is fed with all that is told of it. */
export async function open(client: Client, userId: string, conversation: string): Promise<Timeline> {
  const timeline = new Timeline(userId);
  timeline.history(await client.history(conversation));
  // The user looks at it: the unread separator stays where it is until `close`.
  timeline.open();
  return timeline;
}

/** To be drawn anew after each event: `timeline.message(event.message)`, `receipt(event)`, `row(event.conversation)`. */
export function lines(timeline: Timeline): string[] {
  return timeline.entries((at) => new Date(at).toLocaleDateString()).map(line);
}

function line(entry: TimelineEntry): string {
  switch (entry.type) {
    case "day":
      return `--- ${entry.day} ---`;
    case "unread":
      return `--- ${entry.count} unread ---`;
    case "gap":
      // `timeline.missing()` is what to ask `client.history` for.
      return "…";
    case "message":
      return `${entry.message.sender_id}: ${entry.message.body} ${entry.tick ?? ""}`;
    case "unsent":
      return `${entry.body} ${entry.tick}`;
  }
}

/** The user has seen it all. */
export function seen(client: Client, timeline: Timeline, userId: string, conversation: string): void {
  const seq = timeline.readUpTo();
  if (seq !== undefined) {
    timeline.receipt({ kind: "read", user_id: userId, seq });
    client.read(conversation, seq);
  }
}
