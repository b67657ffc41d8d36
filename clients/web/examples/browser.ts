import { type Item, open, type TokenNeed } from "@pigeonhole/client";

async function tokenFromMyBackend(need: TokenNeed): Promise<string> {
  // A valid cached token is enough, except for "refused" and "expired".
  const isFresh = need === "refused" || need === "expired";
  const response = await fetch("/token", { cache: isFresh ? "reload" : "default" });
  return response.text();
}

const pigeonhole = await open({
  url: "wss://example.execute-api.eu-west-1.amazonaws.com/v1",
  userId: "alice",
  token: tokenFromMyBackend,
});

const chats = pigeonhole.conversations();
chats.subscribe(() => {
  document.title = chats.unread > 0 ? `(${chats.unread}) Chat` : "Chat";
});

// The conversation has its id before its first message.
const bob = pigeonhole.direct("bob");
const view = bob.messages({ at: "firstUnread" });
view.subscribe(() => {
  document.body.replaceChildren(...view.items.map(lineOf));
  if (document.visibilityState === "visible") {
    view.seen(view.items.at(-1));
  }
});

// The message is in the outbox now. A reload does not lose it.
const sent = await bob.send("hi");
sent.stored.catch((error) => console.log(`not sent: ${error.message}`));

function lineOf(item: Item): HTMLElement {
  const line = document.createElement("p");
  switch (item.type) {
    case "message":
      line.textContent = `${item.senderId}: ${item.deletedBy ? "(deleted)" : item.body} ${item.progress?.state ?? ""}`;
      break;
    case "day":
      line.textContent = item.day;
      break;
    case "unread":
      line.textContent = `${item.count} new`;
      break;
    case "system":
      line.textContent = `${item.senderId} ${item.event.event}`;
      break;
    default:
      line.textContent = "…";
  }
  return line;
}
