// The server's view of a chat: each entry, as the server returns it to a client of the same user without keys.

import type { Message } from "@pigeonhole/client";
import { connect } from "@pigeonhole/client/events";
import { bytesOf } from "./base64.ts";
import { sizeOf } from "./said.ts";
import { h } from "./view/dom.ts";
import { clock } from "./view/time.ts";

const LOOK_MS = 1000;
const SHOWN_CHARS = 64;

const query = new URLSearchParams(location.search);
const [user, peer, chat] = ["user", "with", "chat"].map((name) => query.get(name) ?? "") as [string, string, string];

const rows = h("tbody");
const headings = ["No.", "From", "At", "Kind", "Epoch", "Size", "Content"];
const head = h("tr", {}, ...headings.map((name) => h("th", { scope: "col" }, name)));
const table = h("table", {}, h("caption", { class: "hidden" }, "Entries of the chat"), h("thead", {}, head), rows);
const scroller = h("div", { class: "entries", tabindex: 0, role: "region", "aria-label": "Entries" }, table);
const back = h(
  "a",
  {
    href: `/?${new URLSearchParams((peer === "" ? [user] : [user, peer]).map((name) => ["user", name]))}`,
  },
  "Back to the chat",
);
document.querySelector(".page-header")?.append(back);
document.querySelector("main")?.append(scroller);
document.title = `The server’s view of ${user} and ${peer || "a group"}`;

async function start(): Promise<void> {
  // The client takes no event, so it acknowledges nothing in the user's name.
  const client = await connect({
    url: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1`,
    userId: user,
    token: async () => (await (await fetch(`/token?${new URLSearchParams({ user })}`)).json()).token,
  });
  let last = 0;
  for (;;) {
    const { messages, more } = await client.history(chat, { after_seq: last });
    rows.append(...messages.map(row));
    last = messages.at(-1)?.seq ?? last;
    if (!more) {
      await new Promise((looked) => setTimeout(looked, LOOK_MS));
    }
  }
}

function row(entry: Message): HTMLElement {
  const { seq, sender_id, sent_at, kind, silent, epoch, body, commit } = entry;
  const isSealed = kind === "sealed" || kind === "commit";
  // A large commit is in a file.
  const ofCommit = typeof commit === "string" ? commit : "";
  const content = isSealed ? body || ofCommit : body;
  const bytes = isSealed ? bytesOf(content)?.length : new TextEncoder().encode(content).length;
  const texts = [
    String(seq),
    sender_id,
    clock(Date.parse(sent_at)),
    silent && kind === "sealed" ? "sealed, silent" : kind,
    epoch === undefined ? "" : String(epoch),
    sizeOf(bytes ?? 0),
  ];
  const shown = content.length > SHOWN_CHARS ? `${content.slice(0, SHOWN_CHARS)}…` : content;
  return h("tr", {}, ...texts.map((text) => h("td", {}, text)), h("td", {}, h("code", {}, shown)));
}

start().catch((error) => scroller.replaceChildren(h("p", { class: "broken", role: "alert" }, String(error))));
