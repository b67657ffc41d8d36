// A page that chats, for the test of tabs that die.

import { open } from "@pigeonhole/client";

/** The calls of the test in the page. */
export interface TabsPage {
  /** Resolves when the text is in the outbox. */
  say(text: string): Promise<void>;
  /** The texts that the view shows, in order. */
  texts(): string[];
  /** The texts of this word on this device, each as often as the store has it. */
  stored(word: string): Promise<string[]>;
  state(): string;
  /** Whether a later version of the page runs in another tab. */
  isOld(): boolean;
}

declare global {
  interface Window {
    tabs: TabsPage;
    /** Reports a text that the client has taken. */
    taken(text: string): Promise<void>;
  }
}

async function begin(): Promise<void> {
  const [user = "", peer = ""] = new URLSearchParams(location.search).getAll("user");
  const client = await open({
    url: `ws://${location.host}/v1`,
    userId: user,
    token: async () => (await (await fetch(`/token?${new URLSearchParams({ user })}`)).json()).token,
  });
  const chat = client.direct(peer);
  const view = chat.messages();
  let isOld = false;
  view.subscribe(() => {});
  client.onEvent(({ type }) => {
    isOld ||= type === "reload";
  });
  window.tabs = {
    say: async (text) => {
      await chat.send(text);
      await window.taken(text);
    },
    texts: () => view.items.flatMap((item) => (item.type === "message" ? [item.body] : [])),
    stored: async (word) => (await client.search(word, 100_000)).map(({ body }) => body),
    state: () => client.connection.getSnapshot().state,
    isOld: () => isOld,
  };
}

// The browser runs this in its empty first page too.
if (location.host !== "") {
  begin();
}
