// A filter of what users write: refuses links and words of a list, and hides telephone numbers.
//
// On AWS, deploy it as a Lambda function, and set SendHookArn. For `cargo run`, start it with `node filter.mjs 3100`,
// and set SEND_HOOK_URL=http://127.0.0.1:3100.

import { createServer } from "node:http";

const WORDS = /\b(casino|free money)\b/i;
const LINK = /https?:\/\//i;
const NUMBER = /\+?\d[\d ()-]{6,}\d/g;

// `question.message` has what the user wrote; `question.set` has a title, or what changes in a profile.
export async function handler(question) {
  const text = question.message?.body ?? question.set.title ?? question.set.name ?? "";
  if (WORDS.test(text)) {
    return { allow: false, reason: "This word is not allowed here." };
  }
  if (LINK.test(text) && question.conversation?.kind === "direct") {
    return { allow: false, reason: "Links are not allowed here." };
  }
  const hidden = text.replace(NUMBER, "•••");
  // The filter can rewrite a message, and no title or name.
  return hidden !== text && question.message ? { allow: true, set: { body: hidden } } : { allow: true };
}

const [port] = process.argv.slice(2);
if (port !== undefined) {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) {
      body += part;
    }
    response.end(JSON.stringify(await handler(JSON.parse(body))));
  });
  server.listen(Number(port), "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
}
