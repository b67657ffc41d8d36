import { Chat, type Item, type MediaDraft, type MessageItem, type Sent } from "@pigeonhole/client";
import { act, fireEvent, render, renderHook, screen, waitFor } from "@testing-library/react";
import { type ReactNode, StrictMode, useRef } from "react";
import { renderToString } from "react-dom/server";
import { expect, it, vi } from "vitest";
import {
  PigeonholeProvider,
  useComposer,
  useConnection,
  useConversations,
  useDirect,
  useMembers,
  useMessages,
  usePresence,
  useSearch,
  useSeen,
  useTexts,
  useTyping,
  useUnread,
} from "../src/index.ts";
import { client, ID, message, says, server } from "./setup.tsx";

const within = (children: ReactNode, given: typeof client | undefined = client) => (
  <StrictMode>
    <PigeonholeProvider client={given}>{children}</PigeonholeProvider>
  </StrictMode>
);

/** All hooks that show something. */
function Everything() {
  const { rows, unread } = useConversations();
  const { id, row } = useDirect("bob");
  const { items } = useMessages(id, { at: "firstUnread" });
  const [typing, presence, members] = [useTyping(id), usePresence(id), useMembers(id)];
  const texts = Object.values(useTexts(id));
  const { messages } = useSearch("ferry");
  const seen = useSeen(id);
  const { text, setText, send } = useComposer(id);
  return (
    <>
      <p>{`list: ${rows.map(({ peerId }) => peerId).join()} ${unread} ${useUnread()}`}</p>
      <p>{`row: ${row?.line?.text ?? "none"} ${typing.join()} ${presence?.online ?? "?"} ${members.members.length}`}</p>
      <p>{`texts: ${texts.join()}`}</p>
      <p>{`found: ${messages.length} ${useConnection().state}`}</p>
      <ol>
        {items.map((item) => (
          <li key={item.key} ref={seen(item)}>
            <Line item={item} />
          </li>
        ))}
      </ol>
      <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
      <button type="button" onClick={() => send()}>
        Send
      </button>
    </>
  );
}

function Line({ item }: { item: Item }) {
  const renders = useRef(0);
  renders.current += 1;
  return <span>{item.type === "message" ? `${item.body} ${item.progress?.state ?? ""}`.trim() : item.type}</span>;
}

it("shows what comes, sends what is written, and keeps the draft", async () => {
  render(within(<Everything />));
  await server.catchUp();
  await waitFor(() => screen.getByText("found: 0 caught_up"));
  // The view opens at the first unread message, and must know that it is at the end.
  await server.answer("history", { messages: [], more: false, last_seq: 0, members: [] });
  act(() => says(message(1, "Tickets for the ferry")));
  await waitFor(() => screen.getByText("Tickets for the ferry"));
  await waitFor(() => screen.getByText("list: bob 1 1"));

  act(() =>
    server.say({
      type: "typing",
      at: "2026-11-20T10:00:00.000Z",
      conversation_id: ID,
      user_id: "bob",
      text: "It leaves at",
    }),
  );
  await waitFor(() => screen.getByText("texts: It leaves at"));
  act(() =>
    server.say({
      type: "typing",
      at: "2026-11-20T10:00:00.000Z",
      conversation_id: ID,
      user_id: "bob",
      text: "It leaves at nine",
    }),
  );
  await waitFor(() => screen.getByText("texts: It leaves at nine"));

  const field = screen.getByLabelText<HTMLInputElement>("Message");
  fireEvent.change(field, { target: { value: "I come" } });
  expect(field.value).toBe("I come");
  expect(await server.asked("typing")).toMatchObject({ conversation_id: ID });
  await waitFor(() => expect(client.conversations().rows[0]?.draft).toEqual({ body: "I come" }));
  fireEvent.click(screen.getByText("Send"));
  expect(field.value).toBe("");
  await waitFor(() => screen.getByText("I come waiting"));
  const { to, body } = await server.answer("send", { ...message(2, "I come"), sender_id: "alice", duplicate: false });
  expect([to, body]).toEqual(["bob", "I come"]);
  await waitFor(() => screen.getByText("I come stored"));
  await waitFor(() => expect(client.conversations().rows[0]?.draft).toBeUndefined());
});

/** The field of the conversation with Bob, or with another user. */
function field() {
  return renderHook(({ user }) => useComposer(useDirect(user).id), {
    wrapper: ({ children }) => within(children),
    initialProps: { user: "bob" },
  });
}

/** A file whose bytes can be read, or can't. */
function file(name: string, isReadable = true): MediaDraft {
  const blob = new Blob([name]);
  if (!isReadable) {
    blob.arrayBuffer = blob.slice = () => {
      throw new Error("it was removed");
    };
  }
  return { blob, kind: "file", name };
}

it("gives back what was not sent, and sends nothing of it twice", async () => {
  const { result } = field();
  const sent = vi.spyOn(Chat.prototype, "sendFile");
  const [first, second, third] = [file("first"), file("second", false), file("third")];
  act(() => {
    result.current.setText("caption");
    for (const each of [first, second, third]) {
      result.current.attach(each);
    }
  });
  await act(() => expect(result.current.send()).rejects.toMatchObject({ code: "file" }));
  expect(sent.mock.calls.map(([draft]) => [draft.name, draft.body])).toEqual([
    ["first", "caption"],
    ["second", undefined],
  ]);
  expect([result.current.text, result.current.files]).toEqual(["", [second, third]]);

  act(() => result.current.cancel());
  act(() => result.current.setText("x".repeat(20_000)));
  await act(() => expect(result.current.send()).rejects.toMatchObject({ code: "too_large" }));
  expect(result.current.text).toHaveLength(20_000);
  // The field keeps the text that the user has written since.
  await act(async () => {
    const send = result.current.send();
    result.current.setText("next");
    await expect(send).rejects.toMatchObject({ code: "too_large" });
  });
  expect(result.current.text).toBe("next");
});

it("gives nothing back in another conversation, and removes the draft of its own alone", async () => {
  const { result, rerender } = field();
  const drafted = vi.spyOn(Chat.prototype, "draft");
  let settle = (_error?: Error) => {};
  vi.spyOn(Chat.prototype, "send").mockImplementation(
    () =>
      new Promise((resolve, reject) => {
        settle = (error) => (error ? reject(error) : resolve({} as Sent));
      }),
  );
  const sendAndLeave = async (user: string, error?: Error) => {
    let sent: Promise<void> | undefined;
    act(() => result.current.setText("hi"));
    act(() => {
      sent = result.current.send().catch(() => {});
    });
    rerender({ user });
    await act(async () => {
      settle(error);
      await sent;
    });
  };
  await sendAndLeave("carol", new Error("refused"));
  expect(result.current.text).toBe("");
  expect(drafted).not.toHaveBeenCalled();
  await sendAndLeave("dan");
  expect(drafted.mock.contexts).toMatchObject([{ id: client.direct("carol").id }]);
});

it("edits only a message that the server has", () => {
  const { result } = field();
  const item = { type: "message", key: "c1", body: "waits" } as MessageItem;
  act(() => result.current.edit(item));
  expect([result.current.text, result.current.editing]).toEqual(["", undefined]);
  act(() => result.current.edit({ ...item, seq: 1 }));
  expect(result.current).toMatchObject({ text: "waits", editing: { seq: 1 } });
});

it("has the names of shown users, once the app shows names", async () => {
  function Named() {
    const [{ names }, { id }] = [useConversations(), useDirect("bob")];
    return <p>{`${names.get("bob") ?? "?"} ${useMessages(id).names.get("bob") ?? "?"}`}</p>;
  }
  client.showNames();
  render(within(<Named />));
  await server.catchUp();
  says(message(1));
  await waitFor(() => screen.getByText("? ?"));
  await server.answer("ping", { pending: false, server_time: "2026-11-20T10:00:00.000Z", features: ["profiles"] });
  await server.answer("profiles", { profiles: [{ user_id: "bob", name: "Bob", version: 1 }], left: [] });
  await waitFor(() => screen.getByText("Bob Bob"));
});

it("draws only the item that changed", async () => {
  const drawn: string[] = [];
  function Watched({ item }: { item: Item }) {
    drawn.push(item.key);
    return <p>{item.key}</p>;
  }
  const lines = new Map<Item, ReactNode>();
  function List() {
    const { id } = useDirect("bob");
    const { items } = useMessages(id);
    // An element of the same object is not drawn again, as with `memo`.
    return items.map((item) => {
      const line = lines.get(item) ?? <Watched key={item.key} item={item} />;
      lines.set(item, line);
      return line;
    });
  }
  render(<PigeonholeProvider client={client}>{<List />}</PigeonholeProvider>);
  await server.catchUp();
  says(message(1));
  await waitFor(() => screen.getByText("s1"));
  drawn.length = 0;
  says({ ...message(2), sender_id: "carol" });
  await waitFor(() => screen.getByText("s2"));
  expect(drawn).toEqual(["s2"]);
});

it("marks an item as read once it was on the screen for 300 ms, and gives the same ref for the same key", async () => {
  const observed = new Map<Element, (entry: object) => void>();
  const bounds = { height: 100 };
  vi.stubGlobal(
    "IntersectionObserver",
    class {
      #callback: (entries: object[]) => void;
      constructor(callback: (entries: object[]) => void) {
        this.#callback = callback;
      }
      observe(target: Element) {
        observed.set(target, (entry) => this.#callback([{ target, rootBounds: bounds, ...entry }]));
      }
      unobserve(target: Element) {
        observed.delete(target);
      }
      disconnect() {
        observed.clear();
      }
    },
  );
  const refs = new Set<unknown>();
  function List() {
    const { id } = useDirect("bob");
    const seen = useSeen(id);
    const { text, setText } = useComposer(id);
    refs.add(seen({ key: "s1" }));
    return (
      <>
        {useMessages(id).items.map((item) => (
          <p key={item.key} ref={seen(item)}>
            {item.key}
          </p>
        ))}
        <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
      </>
    );
  }
  render(<PigeonholeProvider client={client}>{<List />}</PigeonholeProvider>);
  await server.catchUp();
  says(message(1), message(2), message(3));
  await server.answer("history", {
    messages: [message(1), message(2), message(3)],
    more: false,
    last_seq: 3,
    members: [],
  });
  const [first, second] = [await screen.findByText("s1"), await screen.findByText("s2")];
  // Typing draws the list again, and must not observe its items anew.
  fireEvent.change(screen.getByLabelText("Message"), { target: { value: "a" } });
  expect(refs.size).toBe(1);
  observed.get(first)?.({ isIntersecting: true, intersectionRatio: 0.5, intersectionRect: { height: 20 } });
  expect(await server.answer("read", { unread: 2 })).toMatchObject({ seq: 1 });
  // Not half of it, and then as much as fills half of the screen.
  observed.get(second)?.({ isIntersecting: true, intersectionRatio: 0.4, intersectionRect: { height: 20 } });
  observed.get(second)?.({ isIntersecting: true, intersectionRatio: 0.4, intersectionRect: { height: 60 } });
  expect(await server.answer("read", { unread: 1 })).toMatchObject({ seq: 2 });
  vi.unstubAllGlobals();
});

it("is empty on a server, while hydrating, and without a client", async () => {
  expect(renderToString(within(<Everything />, undefined))).toContain("list:  0 0");
  // A client that has something to show already.
  const list = client.conversations();
  list.subscribe(() => {});
  await server.catchUp();
  says(message(1));
  await waitFor(() => expect(list.unread).toBe(1));
  const container = document.createElement("div");
  container.innerHTML = renderToString(within(<Everything />));
  expect(container.innerHTML).toContain("list:  0 0");
  document.body.append(container);
  const errors = vi.spyOn(console, "error").mockImplementation(() => {});
  render(within(<Everything />), { container, hydrate: true });
  await screen.findByText("list: bob 1 1");
  expect(errors).not.toHaveBeenCalled();
  errors.mockRestore();
});

it("has the members of a group", async () => {
  function Members() {
    const { members, isLoading } = useMembers("gr_ab");
    return <p>{isLoading ? "…" : members.map(({ userId, role }) => `${userId} ${role}`).join()}</p>;
  }
  render(<PigeonholeProvider client={client}>{<Members />}</PigeonholeProvider>);
  await server.catchUp();
  const members = [{ user_id: "bob", role: "owner", joined_seq: 1 }];
  await server.answer("members", { members, next_cursor: null });
  await screen.findByText("bob owner");
});
