// The page: two users side by side, or those that the URL names.

import { hasBegunAnew } from "./local.ts";
import { pane } from "./pane.ts";
import { count as showCount } from "./view/avatar.ts";
import { h, put } from "./view/dom.ts";
import { permission } from "./view/notify.ts";

const query = new URLSearchParams(location.search);
/** Side by side. */
const USERS_MAX = 4;
const named = [...new Set(query.getAll("user").filter(Boolean))].slice(0, USERS_MAX);
const users = named.length > 0 ? named : ["alice", "bob"];

const counts = users.map(() => 0);

const panes = users.map((user, at) => {
  const peer = users[at === 0 ? 1 : 0] ?? query.get("with") ?? undefined;
  return pane({
    user,
    device: query.get("device") ?? undefined,
    peer,
    // The other one begins with the list, so that one sees the difference between having a message and having read it.
    isOpen: at === 0,
    ownTab: users.length > 1 && peer ? `/?${new URLSearchParams({ user, with: peer })}` : undefined,
    show: () => turnTo(at),
    unread: (count) => {
      counts[at] = count;
      entitle();
      showCount(tabs[at]?.lastElementChild ?? null, count, "unread");
    },
  });
});

/** Shows in the browser’s tab how many messages are unread. */
function entitle(): void {
  const unread = counts.reduce((sum, count) => sum + count, 0);
  const name = users.length > 1 ? "Pigeonhole" : `${users[0]} · Pigeonhole`;
  document.title = unread > 0 ? `(${unread}) ${name}` : name;
}

// For screens with room for one user only.
const tabs = users.map((user, at) =>
  h("button", { type: "button", click: () => turnTo(at) }, user, h("span", { class: "badge" })),
);

function turnTo(shown: number): void {
  panes.forEach((pane, at) => {
    pane.classList.toggle("shown", at === shown);
  });
  tabs.forEach((tab, at) => {
    put(tab, "aria-pressed", String(at === shown));
  });
}

entitle();
document.querySelector("main")?.append(...panes);
document.querySelector(".users")?.append(...(users.length > 1 ? tabs : []));
document.body.classList.toggle("alone", users.length === 1);
document.body.style.setProperty("--users", String(users.length));
document.querySelector(".page-header")?.append(permission());
offerAnother();
turnTo(0);
if (hasBegunAnew()) {
  const words = "The server was started again with other tables: the chats begin anew, and nothing of before is there.";
  document.querySelector("main")?.before(h("p", { class: "anew", role: "status" }, words));
}

/** A link to the same page with one more user. */
function offerAnother(): void {
  const another = ["carol", "dave", "alice", "bob"].find((name) => !users.includes(name));
  if (users.length > 1 && users.length < USERS_MAX && another !== undefined) {
    const href = `/?${new URLSearchParams([...users, another].map((user) => ["user", user]))}`;
    document.querySelector(".page-header")?.append(h("a", { class: "another", href }, `Add ${another}`));
  }
}
