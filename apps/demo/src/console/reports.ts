// The open reports of a month: each with the messages as they were, and what an operator can do.

import type { Admin, Report } from "@pigeonhole/server";
import { bytesOf } from "../base64.ts";
import { h } from "../view/dom.ts";
import { field, Outcome, utc } from "./parts.ts";

export function reports(admin: Admin, show: (user: string) => void): HTMLElement {
  const [label, month] = field("Month", { name: "month", type: "month", required: true });
  month.value = new Date().toISOString().slice(0, 7);
  const outcome = new Outcome();
  const list = h("ul", { class: "reports" });
  const submit = (event: Event) => {
    event.preventDefault();
    void outcome.of(async () => {
      const found: HTMLElement[] = [];
      for await (const report of admin.reports(month.value)) {
        found.push(card(admin, report, { month: month.value, outcome, show }));
      }
      list.replaceChildren(...found);
      return `${found.length} open reports.`;
    });
  };
  const form = h("form", { submit }, label, h("button", { class: "filled", type: "submit" }, "List the reports"));
  return h("section", { "aria-label": "Reports" }, h("h2", {}, "Reports"), form, outcome.root, list);
}

interface Around {
  month: string;
  outcome: Outcome;
  show(user: string): void;
}

function card(admin: Admin, report: Report, { month, outcome, show }: Around): HTMLElement {
  const { report_id, conversation_id, messages = [] } = report;
  const link = (user: string) => h("button", { class: "link", type: "button", click: () => show(user) }, user);
  const facts = h("p", {}, `${utc(report.at)}, ${report.reason}, by `, link(report.reporter_id));
  if (report.user_id !== undefined) {
    facts.append(", about ", link(report.user_id));
  }
  const texts = messages.map((message) => {
    const { seq, sender_id, body, plaintext, verified } = message;
    const text = plaintext === undefined ? body : new TextDecoder().decode(bytesOf(plaintext));
    const proof = verified === undefined ? "" : verified ? " (proved)" : " (not proved)";
    const remove = outcome.button("Delete", async () => {
      await admin.ask("delete_message", { conversation_id: conversation_id ?? "", seq });
      return `Message ${seq} is deleted.`;
    });
    remove.setAttribute("aria-label", `Delete message ${seq}`);
    return h("li", {}, `${seq} `, link(sender_id), `${proof}: ${text}`, remove);
  });
  const said = [report.note && `Note: ${report.note}`, report.claimed && `Claimed, not proved: ${report.claimed}`];
  const [label, input] = field("Outcome, for other operators", { name: "outcome", required: true, maxlength: "200" });
  const root = h("li", { "aria-label": `Report ${report_id}` });
  const submit = (event: Event) => {
    event.preventDefault();
    void outcome.of(async () => {
      await admin.ask("report_close", { month, report_id, outcome: input.value });
      root.remove();
      return "The report is closed.";
    });
  };
  const form = h("form", { submit }, label, h("button", { class: "filled", type: "submit" }, "Close"));
  root.append(facts, ...said.filter((text) => text !== undefined).map((text) => h("p", {}, text)));
  root.append(h("ul", { class: "texts" }, ...texts), form);
  return root;
}
