// The operators' console. `/console-transport.js`, which a deployment replaces, carries its requests.

import { Admin, type Transport } from "@pigeonhole/server";
import { h } from "../view/dom.ts";
import { lookup } from "./lookup.ts";
import { reports } from "./reports.ts";

declare global {
  var pigeonholeConsole: { ask: Transport; links?: Record<string, string> };
}

function start(): void {
  const { ask, links = {} } = globalThis.pigeonholeConsole;
  const admin = new Admin(ask);
  const hrefs = Object.entries(links).map(([name, href]) => h("a", { href }, name));
  document.querySelector("nav")?.append(...hrefs);
  const user = lookup(admin);
  document.querySelector("main")?.append(user.root, reports(admin, user.show));
}

const transport = h("script", { src: "/console-transport.js", load: start });
document.head.append(transport);
