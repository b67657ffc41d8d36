// Echoes each message that it receives, against `cargo run`.

import { connect, counts } from "@pigeonhole/client/events";
import { WebSocket } from "ws";

const client = await connect({
  url: "ws://127.0.0.1:3001/v1",
  userId: "echo",
  token: async () => (await (await fetch("http://127.0.0.1:3001/token?user=echo")).json()).token,
  // Node 22 and later have a WebSocket of their own.
  webSocket: (url, protocols) => new WebSocket(url, protocols),
});

for await (const event of client.events) {
  // Ignores edits, reactions and changes of a group: no user wrote a message there.
  if (event.type === "message" && counts(event.message) && event.message.sender_id !== "echo") {
    const { conversation_id, seq, body } = event.message;
    client.read(conversation_id, seq);
    await client.send({ conversation_id }, `you said: ${body}`);
  }
}
