// The operators' console behind the sign-in of an Application Load Balancer, whose target is this function.
//
// ADMIN_FUNCTION and DASHBOARD_URL are the stack's outputs AdminFunctionName and DashboardUrl. `dist`, beside this file,
// is apps/demo/dist. docs/operating.md has the settings without which this is not secure.

import { readFile } from "node:fs/promises";
import { Lambda } from "@aws-sdk/client-lambda";
import { byLambda } from "@pigeonhole/server";

const { ADMIN_FUNCTION, DASHBOARD_URL = "" } = process.env;
const ask = byLambda(new Lambda({}), ADMIN_FUNCTION);
const TYPES = { css: "text/css", html: "text/html", js: "text/javascript", json: "application/json", svg: "image/svg+xml" };
const FILE = /^\/(?:assets\/)?\w[\w.-]*$/;
// The page's requests, in place of the local server's.
const TRANSPORT = `globalThis.pigeonholeConsole = {
  async ask(request) {
    const headers = { "content-type": "application/json" };
    const response = await fetch("/admin", { method: "POST", headers, body: JSON.stringify(request) });
    if (!response.ok) throw new Error("HTTP " + response.status + ": reload the page to sign in");
    return response.json();
  },
  links: { "Alarms and metrics": ${JSON.stringify(DASHBOARD_URL)} },
};
`;

export async function handler({ path, httpMethod, headers, body }) {
  // The load balancer sets this header after the sign-in.
  const operator = headers["x-amzn-oidc-identity"];
  if (!operator) {
    return reply(403, "json", '{"message":"not signed in"}');
  }
  if (httpMethod === "POST" && path === "/admin") {
    // A page of another site can't send this type with the operator's cookie.
    if (headers["content-type"] !== "application/json") {
      return reply(403, "json", '{"message":"must be JSON"}');
    }
    const request = JSON.parse(body);
    console.log(JSON.stringify({ operator, op: request.op }));
    return reply(200, "json", JSON.stringify(await ask(request)));
  }
  const file = path === "/" ? "/console.html" : path;
  if (file === "/console-transport.js") {
    return reply(200, "js", TRANSPORT);
  }
  const content = FILE.test(file) && (await readFile(new URL(`dist${file}`, import.meta.url), "utf8").catch(() => null));
  return content ? reply(200, file.split(".").at(-1), content) : reply(404, "json", '{"message":"no such file"}');
}

function reply(statusCode, type, body) {
  const headers = {
    "content-type": `${TYPES[type] ?? "text/plain"}; charset=utf-8`,
    "cache-control": "no-store",
    // No other page can show the console in a frame, and have an operator click there.
    "content-security-policy": "frame-ancestors 'none'",
  };
  return { statusCode, headers, body };
}
