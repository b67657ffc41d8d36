import { connect, counts, indexedDbStorage, type TokenNeed } from "@pigeonhole/client";

async function tokenFromMyBackend(need: TokenNeed): Promise<string> {
  // One from the cache will do, as long as it is valid, but for "refused" and "expired".
  const isFresh = need === "refused" || need === "expired";
  const response = await fetch("/token", { cache: isFresh ? "reload" : "default" });
  return response.text();
}

const client = await connect({
  url: "wss://example.execute-api.eu-west-1.amazonaws.com/v1",
  userId: "alice",
  token: tokenFromMyBackend,
  storage: indexedDbStorage("alice"),
});

// Now it is in the outbox, with or without a network; a reload does not lose it.
const sent = await client.sendTo("bob", "hi");
sent.stored.then(
  ({ conversation_id, seq }) => console.log(`✓ number ${seq} in ${conversation_id}`),
  (error) => console.log(`not sent: ${error.message}`),
);

for await (const event of client.events) {
  switch (event.type) {
    case "message": {
      const { conversation_id, seq, sender_id, body } = event.message;
      if (counts(event.message)) {
        console.log(`${sender_id}: ${body}`);
      }
      // It is on the screen. This need not be waited for.
      client.read(conversation_id, seq);
      break;
    }
    case "receipt":
      console.log(`${event.kind} by ${event.user_id} up to ${event.seq}`);
      break;
    case "state":
      console.log(event.state);
      break;
  }
}
