import { connect, counts, indexedDbStorage } from "@pigeonhole/client";

const url = "wss://example.execute-api.eu-west-1.amazonaws.com/v1";
const token = async () => (await fetch("/chat-token")).text();
const client = await connect({ url, userId: "alice", token, storage: indexedDbStorage("alice") });
await client.sendTo("bob", "hi"); // saved in the outbox: a reload or a lost connection does not lose it
for await (const event of client.events) {
  if (event.type === "message" && counts(event.message)) {
    console.log(`${event.message.sender_id}: ${event.message.body}`);
    client.read(event.message.conversation_id, event.message.seq);
  }
}
