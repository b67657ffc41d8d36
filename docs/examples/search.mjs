// A search index: `node search.mjs 8080`, then `curl 'http://127.0.0.1:8080/?q=parcel'` lists the messages with the
// word. The index is in memory; yours is a database, and asks whether the user sees a conversation.

import { createServer } from "node:http";
import { eachEvent } from "./events.mjs";

// By `conversation_id:seq`: the newest version of each text. A deleted message stays as an empty one, so that an event
// that comes late cannot bring its text back.
const texts = new Map();

function index(event) {
  if (event.type !== "entry") {
    return;
  }
  const { conversation_id, seq, target_seq, kind, body = "", version = 1, deleted_at } = event.message;
  const key = `${conversation_id}:${target_seq ?? seq}`;
  if (kind === "delete" || deleted_at) {
    texts.set(key, { body: "", version: Infinity });
  } else if ((kind === "text" || kind === "edit") && version > (texts.get(key)?.version ?? 0)) {
    texts.set(key, { body, version });
  }
}

const server = createServer((request, response) => {
  const word = new URL(request.url, "http://x").searchParams.get("q").toLowerCase();
  const found = [...texts].filter(([, { body }]) => body.toLowerCase().split(/\W+/).includes(word));
  response.end(JSON.stringify(found.map(([key]) => key)));
});
server.listen(Number(process.argv[2]), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}/?q=`);
});

await eachEvent(index);
