import { connect, counts, indexedDbStorage, type TokenNeed } from "@pigeonhole/client";

async function tokenFromMyBackend(need: TokenNeed): Promise<string> {
  // A valid cached token is enough, except for "refused" and "expired".
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

// The message is in the outbox now. A reload does not lose it.
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
      // The message is on the screen. There is no need to await the reply.
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
