import { open } from "@pigeonhole/client";

const url = "wss://example.execute-api.eu-west-1.amazonaws.com/v1";
const token = async () => (await fetch("/chat-token")).text();
const pigeonhole = await open({ url, userId: "alice", token });
const view = pigeonhole.direct("bob").messages();
view.subscribe(() => {
  const texts = view.items.filter((item) => item.type === "message");
  document.body.innerText = texts.map(({ senderId, body }) => `${senderId}: ${body}`).join("\n");
  view.seen(view.items.at(-1)); // marks all as read
});
await pigeonhole.direct("bob").send("hi"); // saved: a reload or a lost connection does not lose it
