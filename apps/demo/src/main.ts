// The page: two users side by side, or the one that the URL names.

import { pane } from "./pane.ts";
import { h, put } from "./view/dom.ts";

const query = new URLSearchParams(location.search);
const named = query.getAll("user").filter(Boolean).slice(0, 2);
const users = named.length > 0 ? [...new Set(named)] : ["alice", "bob"];

const panes = users.map((user, at) => {
  const peer = users[1 - at] ?? query.get("with") ?? undefined;
  return pane({
    user,
    peer,
    // The other one begins with the list, so that one sees the difference between having a message and having read it.
    isOpen: at === 0,
    ownTab: users.length > 1 && peer ? `/?${new URLSearchParams({ user, with: peer })}` : undefined,
    unread: (count) => {
      const tab = tabs[at];
      tab?.replaceChildren(user, h("span", { class: "badge" }, count > 0 ? String(count) : ""));
      if (tab) {
        put(tab, "aria-label", count > 0 && `${user}, ${count} unread`);
      }
    },
  });
});

// For screens with room for one user only.
const tabs = users.map((user, at) => h("button", { type: "button", click: () => turnTo(at) }, user));

function turnTo(shown: number): void {
  panes.forEach((pane, at) => {
    pane.classList.toggle("shown", at === shown);
  });
  tabs.forEach((tab, at) => {
    put(tab, "aria-pressed", String(at === shown));
  });
}

document.title = users.length > 1 ? "Pigeonhole" : `${users[0]} · Pigeonhole`;
document.querySelector("main")?.append(...panes);
document.querySelector(".users")?.append(...(users.length > 1 ? tabs : []));
document.body.classList.toggle("alone", users.length === 1);
turnTo(0);
