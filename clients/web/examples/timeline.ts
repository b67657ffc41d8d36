import { type Client, type System, Timeline, type TimelineEntry } from "@pigeonhole/client";

/** One for each conversation, which is fed with all that is told of it. */
export async function open(client: Client, userId: string, conversation: string): Promise<Timeline> {
  const timeline = new Timeline(userId);
  timeline.history(await client.history(conversation));
  // The user looks at it: the unread separator stays where it is until `close`.
  timeline.open();
  return timeline;
}

/**
 * To be drawn anew after each event: `timeline.message(event.message)`, `receipt(event)`, `row(event.conversation)`,
 * `failed(event.clientMsgId, event.error.code)`, and `typing(event.user_id, performance.now())`.
 */
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
    case "message": {
      const { sender_id, body, edited_at, deleted_at, reactions = [] } = entry.message;
      const answer = entry.quote ? `> ${entry.quote.body} ` : "";
      const said = deleted_at ? "(deleted)" : `${answer}${body}${edited_at ? " (edited)" : ""}`;
      const liked = reactions.map(({ emoji, count }) => `${emoji} ${count}`).join(" ");
      // What the user has just changed is shown at once; `entry.changing` says so, and `entry.refused` what was not stored.
      return `${sender_id}: ${said} ${liked} ${entry.tick ?? ""}`;
    }
    case "system":
      return what(entry.message.sender_id, entry.system);
    case "unsent":
      return `${entry.body} ${entry.tick}`;
  }
}

/** What happened to a group. Titles and names are of others' making. */
function what(who: string, system: System): string {
  switch (system.event) {
    case "created":
      return `${who} made the group ${system.title}`;
    case "members.added":
      return `${who} added ${system.members.join(", ")}`;
    case "members.removed":
      return `${who} removed ${system.members.join(", ")}`;
    case "member.left":
      return `${who} left`;
    case "role.changed":
      return `${who} made ${system.user_id} ${system.role}`;
    case "info.changed":
      return system.title === undefined ? `${who} changed the rules` : `${who} called the group ${system.title}`;
  }
}

/** The user writes something else in the place of what they said. */
export async function edit(client: Client, timeline: Timeline, conversation: string, seq: number, body: string) {
  const { queued } = await client.edit(conversation, seq, body);
  timeline.queued(queued, new Date().toISOString());
}

/** The user has seen it all. */
export function seen(client: Client, timeline: Timeline, userId: string, conversation: string): void {
  const seq = timeline.readUpTo();
  if (seq !== undefined) {
    timeline.receipt({ kind: "read", user_id: userId, seq });
    client.read(conversation, seq);
  }
}
