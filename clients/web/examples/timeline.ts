import { type Client, type System, Timeline, type TimelineEntry } from "@pigeonhole/client";

/** Creates the timeline of one conversation; the app passes all events about the conversation to it. */
export async function open(client: Client, userId: string, conversation: string): Promise<Timeline> {
  const timeline = new Timeline(userId);
  timeline.history(await client.history(conversation));
  // Opens the conversation: the unread separator does not move until `close`.
  timeline.open();
  return timeline;
}

/**
 * Returns the lines to draw. Draw them again after each event: `timeline.message(event.message)`, `receipt(event)`,
 * `row(event.conversation)`, `failed(event.clientMsgId, event.error.code)`, and `typing(event.user_id,
 * performance.now())`.
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
      // `timeline.missing()` returns the part to request with `client.history`.
      return "…";
    case "message": {
      const { sender_id, body, edited_at, deleted_at, reactions = [] } = entry.message;
      const answer = entry.quote ? `> ${entry.quote.body} ` : "";
      const said = deleted_at ? "(deleted)" : `${answer}${body}${edited_at ? " (edited)" : ""}`;
      const liked = reactions.map(({ emoji, count }) => `${emoji} ${count}`).join(" ");
      // The timeline shows the user's own change immediately: `entry.changing` is set until it is stored, and
      // `entry.refused` if the server refuses it.
      return `${sender_id}: ${said} ${liked} ${entry.tick ?? ""}`;
    }
    case "system":
      return what(entry.message.sender_id, entry.system);
    case "unsent":
      return `${entry.body} ${entry.tick}`;
  }
}

/** Describes a change of a group. Other users choose titles and names. */
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

/** Replaces the text of the user's own message. */
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
