import type { Client, ClientEvent, Conversation, InboxResult, Message } from "@pigeonhole/client/events";
import { expect, it } from "vitest";
import { Chats } from "../src/chats.ts";

/** Stands for the client: the test replies to each request for the list, and sends the events. */
class Told {
  readonly pages: { resolve: (page: InboxResult) => void; reject: (error: Error) => void }[] = [];
  #events: ClientEvent[] = [];
  #wake = () => {};
  asked = 0;
  readonly client = {
    outbox: [],
    inbox: () => new Promise((resolve, reject) => this.pages.push({ resolve, reject })),
    history: () => {
      this.asked += 1;
      return Promise.reject(new Error("unavailable"));
    },
    channels: () => Promise.resolve({ conversations: [], next_cursor: null }),
    events: this.#told(),
  } as unknown as Client;

  tell(event: ClientEvent): Promise<void> {
    this.#events.push(event);
    this.#wake();
    return turn();
  }

  async *#told() {
    for (;;) {
      yield* this.#events.splice(0);
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
  }
}

const turn = () => new Promise<void>((done) => setTimeout(done));

function start(told: Told): Chats {
  const peers = { get: () => undefined, set: () => {} };
  const chats = new Chats("alice", told.client, peers, { changed() {}, said() {}, isLooking: () => false });
  chats.run();
  return chats;
}

function row(preview: string, deleted = false): Conversation {
  const last_message = {
    seq: 4,
    sender_id: "bob",
    kind: "text",
    preview,
    deleted,
    sent_at: "2026-11-20T10:00:04.000Z",
  };
  const marks = { unread: 0, delivered_seq: 4, read_seq: 4, last_seq: 4 };
  return { conversation_id: "dm_ab", kind: "direct", peer_id: "bob", last_message, ...marks };
}

const deleted: Message = {
  conversation_id: "dm_ab",
  seq: 5,
  message_id: "x",
  sender_id: "bob",
  kind: "delete",
  body: "",
  target_seq: 4,
  sent_at: "2026-11-20T10:00:05.000Z",
};

it("a list that has changed while a page of it was on its way is asked for once more", async () => {
  const told = new Told();
  const chats = start(told);
  told.pages[0]?.resolve({ conversations: [row("secret")], next_cursor: "more" });
  await turn();
  chats.inbox.more();
  await told.tell({ type: "message", message: deleted, missed: false });
  expect(told.pages).toHaveLength(2);
  told.pages[1]?.resolve({ conversations: [row("secret")], next_cursor: null });
  await turn();
  told.pages[2]?.resolve({ conversations: [row("", true)], next_cursor: null });
  await turn();
  expect(chats.model.list().map(({ newest }) => newest?.text)).toEqual(["This message was deleted"]);
  expect(told.pages).toHaveLength(3);
});

it("what can't be looked up is asked for again later, and nobody hears of it", async () => {
  const told = new Told();
  const chats = start(told);
  told.pages[0]?.reject(new Error("unavailable"));
  await turn();
  chats.inbox.more();
  told.pages[1]?.resolve({ conversations: [row("hi")], next_cursor: null });
  await turn();
  const chat = chats.model.with("bob");
  chat.addMessage({ ...deleted, kind: "text", target_seq: undefined } as unknown as Message);
  chats.openChat.show(chat);
  await chats.openChat.lookBack();
  expect(chat.isLoading).toBe(false);
  // An event of another device, in a conversation that is new here.
  await told.tell({
    type: "message",
    message: { ...deleted, conversation_id: "dm_ac", sender_id: "alice" },
    missed: false,
  });
  expect(chats.model.list()).toHaveLength(1);
});

it("the marks are asked for once it is known which conversation it is: a receipt may have come before", async () => {
  const told = new Told();
  const chats = start(told);
  told.pages[0]?.resolve({ conversations: [], next_cursor: null });
  await turn();
  chats.openChat.show(chats.model.with("bob"));
  expect(told.asked).toBe(0);
  const at = "2026-11-20T10:00:00.000Z";
  await told.tell({ type: "receipt", kind: "delivered", conversation_id: "dm_ab", user_id: "bob", seq: 1, at });
  const hi: Message = { ...deleted, kind: "text", body: "hi", target_seq: undefined } as unknown as Message;
  await told.tell({ type: "message", message: hi, missed: false });
  expect(told.asked).toBe(1);
});
