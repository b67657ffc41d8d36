// A user: connections, what waits, suspension. With another user and a time: their messages, and how far each came.

import type { Admin, Found, Row } from "@pigeonhole/server";
import { h } from "../view/dom.ts";
import { field, Outcome, table, utc } from "./parts.ts";

const SUSPENDED_DAYS = 7;
const DAY_MS = 24 * 60 * 60 * 1000;

export interface Lookup {
  root: HTMLElement;
  /** Shows a user. */
  show(user: string): void;
}

export function lookup(admin: Admin): Lookup {
  const [userLabel, user] = field("User", { name: "user", required: true });
  const [otherLabel, other] = field("And another user", { name: "other" });
  const [atLabel, at] = field("At (UTC)", { name: "at", type: "datetime-local", step: "1" });
  const outcome = new Outcome();
  const found = h("div", { class: "found" });
  const submit = (event: Event) => {
    event.preventDefault();
    void look();
  };
  const form = h(
    "form",
    { submit },
    userLabel,
    otherLabel,
    atLabel,
    h("button", { class: "filled", type: "submit" }, "Find"),
  );
  const look = () =>
    outcome.of(async () => {
      found.replaceChildren();
      const [one, two] = [user.value.trim(), other.value.trim()];
      const parts = await (two === "" ? ofUser(admin, one, outcome, look) : ofTwo([one, two]));
      found.replaceChildren(...parts);
      return two === "" ? `${one} is found.` : `The conversation of ${one} and ${two} is found.`;
    });

  async function ofTwo(users: [string, string]): Promise<HTMLElement[]> {
    const time = at.value === "" ? new Date().toISOString() : new Date(`${at.value}Z`).toISOString();
    const [{ conversation_id, entries }, { rows }] = await Promise.all([
      admin.ask("find", { user_ids: users, at: time }),
      admin.ask("conversation", { user_ids: users }),
    ]);
    const remove = (seq: number) => {
      const button = outcome.button("Delete", async () => {
        if (!confirm(`Delete message ${seq} for all?`)) {
          return "Nothing was deleted.";
        }
        await admin.ask("delete_message", { conversation_id, seq });
        return `Message ${seq} is deleted.`;
      });
      button.setAttribute("aria-label", `Delete message ${seq}`);
      return button;
    };
    const listed = entries.map((entry) => [
      String(entry.seq),
      entry.sender_id,
      utc(entry.sent_at),
      entry.kind,
      rows.flatMap((row) => way(entry, row)).join(", "),
      remove(entry.seq),
    ]);
    const { logged_as } = await admin.ask("logged_as", { id: conversation_id });
    const trace = `just trace ${conversation_id} SEQ STACK`;
    return [
      h("h3", {}, "Conversation ", h("code", {}, conversation_id)),
      table("Entries around that time", ["No.", "From", "At", "Kind", "Where it is", "Action"], listed),
      h("p", {}, "In logs: ", h("code", {}, logged_as), ". All steps of an entry: ", h("code", {}, trace)),
      marks(rows),
    ];
  }

  return {
    root: h("section", { "aria-label": "Users and messages" }, h("h2", {}, "Find"), form, outcome.root, found),
    show(name) {
      [user.value, other.value] = [name, ""];
      user.focus();
      void look();
    },
  };
}

async function ofUser(
  admin: Admin,
  user_id: string,
  outcome: Outcome,
  again: () => Promise<void>,
): Promise<HTMLElement[]> {
  const [{ connections, suspended_until }, { conversations, more }] = await Promise.all([
    admin.ask("connections", { user_id }),
    admin.ask("pending", { user_id }),
  ]);
  const open = connections.map((connection) => [
    connection.device_id ?? "",
    utc(connection.connected_at),
    utc(connection.ends_at),
    connection.connection_id,
  ]);
  const waits = conversations.map((row) => [
    row.peer_id ?? row.conversation_id,
    `${row.pending_from} to ${row.last_seq}`,
    utc(row.last_sent_at),
  ]);
  const kick = outcome.button("Disconnect", async () => {
    const { closed } = await admin.ask("kick", { user_id });
    return `${closed} connections of ${user_id} are closed.`;
  });
  const [label, until] = field("Until (UTC)", { type: "datetime-local", name: "until", required: true });
  until.value = new Date(Date.now() + SUSPENDED_DAYS * DAY_MS).toISOString().slice(0, 16);
  const suspend = outcome.button("Suspend", async () => {
    await admin.ask("suspend", { user_id, until: new Date(`${until.value}Z`).toISOString() });
    await again();
    return `${user_id} is suspended.`;
  });
  const unsuspend = outcome.button("End the suspension", async () => {
    await admin.ask("unsuspend", { user_id });
    await again();
    return `${user_id} is no longer suspended.`;
  });
  return [
    h("h3", {}, user_id),
    h("p", {}, suspended_until === null ? "Not suspended." : `Suspended until ${utc(suspended_until)}.`),
    h("div", { class: "actions" }, label, suspend, suspended_until === null ? "" : unsuspend, kick),
    table("Connections", ["Device", "Since", "Ends by", "Connection"], open),
    table(
      more ? "Waits for acknowledgement (the first 100)" : "Waits for acknowledgement",
      ["With", "No.", "At"],
      waits,
    ),
  ];
}

/** How far an entry came to a user: words, or nothing for its author. */
function way(entry: Found, row: Row): string[] {
  if (row.user_id === entry.sender_id) {
    return [];
  }
  if (row.read_seq >= entry.seq) {
    return [`read by ${row.user_id}`];
  }
  return [`${row.delivered_seq >= entry.seq ? "on a device of" : "waits for"} ${row.user_id}`];
}

function marks(rows: Row[]): HTMLElement {
  const listed = rows.map((row) => [
    row.user_id,
    `${row.delivered_seq} ${utc(row.delivered_at)}`,
    `${row.read_seq} ${utc(row.read_at)}`,
    String(row.unread),
    row.blocked ? "blocks the other" : "",
  ]);
  return table("Both users", ["User", "Delivered", "Read", "Unread", "Block"], listed);
}
