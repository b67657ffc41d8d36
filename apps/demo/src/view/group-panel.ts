// The panel of a group: title, members, and the rules that admins may change.

import { type GroupInfo, type MemberRow, mayRemove, moderates, type Role } from "@pigeonhole/client";
import { called } from "../names.ts";
import type { Opened } from "../opened.ts";
import { isUnmade, nameOf, whatOf } from "../rows.ts";
import { isolated } from "../system.ts";
import { avatar } from "./avatar.ts";
import { Confirm } from "./confirm.ts";
import { fill, h, icon, put } from "./dom.ts";
import { Menu, type MenuItem } from "./menu.ts";
import { userIds } from "./user-ids.ts";

export interface GroupActions {
  add(chat: Opened, users: string[]): void;
  remove(chat: Opened, user: string): void;
  role(chat: Opened, user: string, role: Role): void;
  restrict(chat: Opened, user: string, forMs: number | null): void;
  update(chat: Opened, info: GroupInfo): void;
  leaveGroup(chat: Opened): void;
  copy(text: string): void;
}

const roles: Record<MemberRow["role"], string> = { owner: "Owner", admin: "Admin", member: "", none: "" };

/** Rules that admins decide: the label, and the meaning of each value. */
const rules = {
  post: { name: "Who can write", all: "All members", admins: "Only admins" },
  add: { name: "Who can add members", all: "All members", admins: "Only admins" },
  join: { name: "Who can join", open: "Anyone", admins: "Only users whom admins add" },
  rings: { name: "Mentions notify", off: "No one", mentions: "The members they name" },
  history: { name: "New members see", joined: "Only new messages", all: "Earlier messages too" },
} as const;
type Rule = keyof typeof rules;

export class GroupPanel {
  readonly element: HTMLElement;
  /** Opens it. */
  readonly button: HTMLButtonElement;
  #user: string;
  #actions: GroupActions;
  #chat: Opened | undefined;
  #title: HTMLInputElement;
  #rename: HTMLFormElement;
  #add: HTMLFormElement;
  #members = h("ul", { class: "members", "aria-label": "Members" });
  #rules = new Map<Rule, HTMLSelectElement>();
  #rulesList = h("div", { class: "rules", role: "group", "aria-label": "Rules" });
  #leave: HTMLButtonElement;
  /** By which others join a channel. */
  #id = h("code", {});
  #invite: HTMLElement;
  #confirm = new Confirm();

  constructor(user: string, actions: GroupActions) {
    this.#user = user;
    this.#actions = actions;
    const id = `group-${user}`;
    this.button = h(
      "button",
      {
        type: "button",
        class: "button",
        "aria-label": "Members and rules",
        "aria-controls": id,
        click: () => this.#toggle(),
      },
      icon("group"),
    );
    this.#title = h("input", { required: true, maxlength: 64, pattern: ".*\\S.*", "aria-label": "Title" });
    this.#rename = h("form", { submit: (event: SubmitEvent) => this.#renamed(event) }, this.#title, filled("Rename"));
    const names = h("input", {
      required: true,
      placeholder: "Add dave, erin …",
      "aria-label": "Add members",
      autocomplete: "off",
      autocapitalize: "none",
      spellcheck: "false",
      input: () => names.setCustomValidity(""),
    });
    this.#add = h("form", { submit: (event: SubmitEvent) => this.#added(event, names) }, names, filled("Add"));
    for (const rule of Object.keys(rules) as Rule[]) {
      this.#rulesList.append(this.#rule(rule));
    }
    this.#leave = h("button", { type: "button", class: "danger", click: () => void this.#left() });
    const copy = { type: "button", class: "link", click: () => actions.copy(this.#chat?.chat?.id ?? "") };
    this.#invite = h("p", { class: "invite" }, "Others join with ", this.#id, " ", h("button", copy, "Copy"));
    const keydown = (event: KeyboardEvent) => {
      if (event.key === "Escape") {
        // The chat stays open.
        event.stopPropagation();
        this.#toggle();
        this.button.focus();
      }
    };
    this.element = h(
      "section",
      { id, class: "group-panel", hidden: true, keydown },
      this.#rename,
      this.#invite,
      this.#members,
      this.#add,
      this.#rulesList,
      this.#leave,
      this.#confirm.element,
    );
  }

  turnTo(): void {
    this.element.hidden = true;
    this.#members.replaceChildren();
  }

  update(chat: Opened): void {
    this.#chat = chat;
    const { row, members } = chat;
    const isThere = row.kind !== "direct" && !isUnmade(row) && !row.isClosed;
    this.button.hidden = !isThere;
    this.element.hidden ||= !isThere;
    put(this.button, "aria-expanded", String(!this.element.hidden));
    if (this.element.hidden) {
      return;
    }
    const [isChannel, isModerated, what] = [row.kind === "channel", moderates(row.role), whatOf(row)];
    put(this.element, "aria-label", isChannel ? "Channel" : "Group");
    this.#leave.textContent = `Leave the ${what}`;
    this.#invite.hidden = !isChannel;
    this.#id.textContent = chat.chat?.id ?? "";
    this.#rename.hidden = !isModerated;
    if (document.activeElement !== this.#title) {
      this.#title.value = row.title ?? "";
    }
    this.#add.hidden = !isModerated && (isChannel || row.rules.add === "admins");
    this.#rulesList.hidden = !isModerated;
    for (const [rule, select] of this.#rules) {
      select.value = row.rules[rule] ?? "";
      put(select.labels[0] ?? select, "hidden", (rule === "join" || rule === "rings") && !isChannel);
    }
    const isLast = members.length === 1 && !isChannel;
    this.#leave.disabled = row.role === "owner" && !isLast;
    put(this.#leave, "title", this.#leave.disabled && `Transfer the ownership first`);
    fill(
      this.#members,
      members.map((member) => ({
        // Another role is another menu.
        key: `${member.userId} ${called(member.userId)} ${member.role} ${row.role}`,
        create: () => this.#member(chat, member),
      })),
    );
  }

  #member(chat: Opened, member: MemberRow): HTMLElement {
    const { userId, role } = member;
    const name = userId === this.#user ? `${called(userId)} (you)` : called(userId);
    const row = h(
      "li",
      {},
      avatar(userId),
      h("span", { class: "name" }, name),
      h("span", { class: "role" }, roles[role]),
    );
    if (this.#choices(chat, member).length > 0) {
      row.append(new Menu(`Actions for ${userId}`, () => this.#choices(chat, member)).element);
    }
    return row;
  }

  #choices(chat: Opened, { userId: user, role }: MemberRow): MenuItem[] {
    const own = chat.row.role;
    if (user === this.#user) {
      return [];
    }
    const give = (name: string, given: Role) => ({ name, choose: () => this.#actions.role(chat, user, given) });
    const items: MenuItem[] = [];
    if (own === "owner") {
      items.push(role === "admin" ? give("Dismiss as admin", "member") : give("Make admin", "admin"));
      items.push({
        name: `Transfer ownership`,
        choose: () =>
          this.#ask(`Transfer the ownership of the ${whatOf(chat.row)} to ${user}?`, "Transfer", () =>
            this.#actions.role(chat, user, "owner"),
          ),
      });
    }
    if (mayRemove(own, role)) {
      const restrict = (name: string, forMs: number | null) => ({
        name,
        choose: () => this.#actions.restrict(chat, user, forMs),
      });
      items.push(restrict("Only read for an hour", 3_600_000));
      items.push(restrict("Only read", Number.POSITIVE_INFINITY), restrict("Let write again", null));
      items.push({
        name: `Remove ${user}`,
        choose: () =>
          this.#ask(`Remove ${user} from the ${whatOf(chat.row)}?`, "Remove", () => this.#actions.remove(chat, user)),
      });
    }
    return items;
  }

  async #ask(question: string, yes: string, sure: () => void): Promise<void> {
    if (await this.#confirm.ask(question, yes)) {
      sure();
    }
  }

  #rule(rule: Rule): HTMLElement {
    const { name, ...values } = rules[rule];
    const changed = () => this.#chat && this.#actions.update(this.#chat, { [rule]: select.value });
    const options = Object.entries(values).map(([value, words]) => h("option", { value }, words));
    // A new group's rules are unknown until the next request for the list.
    const unknown = h("option", { value: "", disabled: true, hidden: true }, "Not known yet");
    const select = h("select", { change: changed }, unknown, ...options);
    this.#rules.set(rule, select);
    return h("label", {}, h("span", {}, name), select);
  }

  #renamed(event: SubmitEvent): void {
    event.preventDefault();
    const title = this.#title.value.trim();
    if (this.#chat && title !== this.#chat.row.title) {
      this.#actions.update(this.#chat, { title });
    }
    this.#title.blur();
    this.button.focus();
  }

  #added(event: SubmitEvent, names: HTMLInputElement): void {
    event.preventDefault();
    const chat = this.#chat;
    const { ids, problem } = userIds(names.value, this.#user);
    if (problem) {
      names.setCustomValidity(problem);
      names.reportValidity();
    } else if (chat && ids.length > 0) {
      this.#actions.add(chat, ids);
      names.value = "";
    }
  }

  async #left(): Promise<void> {
    const chat = this.#chat;
    if (chat && (await this.#confirm.ask(`Leave “${isolated(nameOf(chat.row))}”?`, "Leave"))) {
      this.#actions.leaveGroup(chat);
    }
  }

  #toggle(): void {
    this.element.hidden = !this.element.hidden;
    if (this.#chat) {
      this.update(this.#chat);
    }
    if (!this.element.hidden && this.#chat?.isChannel) {
      this.#chat.lookAround();
    }
    if (!this.element.hidden) {
      this.element.querySelector<HTMLElement>("input:not([hidden]), button")?.focus();
    }
  }
}

function filled(name: string): HTMLElement {
  return h("button", { class: "filled" }, name);
}
