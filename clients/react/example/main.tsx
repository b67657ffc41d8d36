// A chat: the list on the left, a conversation on the right. Run it against `cargo run`, in two windows, as
// http://localhost:5173/?user=alice and ?user=bob.

import { type Item, type MessageItem, open } from "@pigeonhole/client";
import {
  PigeonholeProvider,
  useComposer,
  useConnection,
  useConversation,
  useConversations,
  useDirect,
  useMessages,
  usePigeonhole,
  useSeen,
} from "@pigeonhole/react";
import { type FormEvent, StrictMode, useLayoutEffect, useRef, useState } from "react";
import { createRoot } from "react-dom/client";

const SERVER = "127.0.0.1:3001";
const me = new URLSearchParams(location.search).get("user") ?? "alice";

/** An app gets this from its own backend. The local server signs a token for anybody. */
const token = async () => (await (await fetch(`http://${SERVER}/token?user=${me}`)).json()).token as string;

function App() {
  const [id, setId] = useState("");
  const { state } = useConnection();
  return (
    <>
      <aside>
        <h1>
          {me} <small>{state}</small>
        </h1>
        <NewChat open={setId} />
        <Chats id={id} open={setId} />
      </aside>
      {id && <Chat key={id} id={id} />}
    </>
  );
}

function NewChat({ open }: { open: (id: string) => void }) {
  const [user, setUser] = useState("");
  const { id } = useDirect(user || me);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    open(id);
  };
  return (
    <form onSubmit={submit}>
      <input placeholder="Chat with …" value={user} onChange={(event) => setUser(event.target.value)} />
    </form>
  );
}

function Chats({ id, open }: { id: string; open: (id: string) => void }) {
  const { rows } = useConversations();
  return (
    <ul>
      {rows.map(({ key, conversationId, peerId, title, line, unread, draft, typing }) => (
        <li key={key}>
          <button type="button" aria-current={conversationId === id} onClick={() => open(conversationId ?? "")}>
            <b>{title ?? peerId}</b> {unread > 0 && <mark>{unread}</mark>}
            <p>{typing.length > 0 ? "is typing …" : draft ? `Draft: ${draft.body}` : (line?.text ?? "")}</p>
          </button>
        </li>
      ))}
    </ul>
  );
}

function Chat({ id }: { id: string }) {
  const { row } = useConversation(id);
  const { items, hasOlder, loadOlder } = useMessages(id, { at: "firstUnread" });
  const seen = useSeen(id);
  const list = useRef<HTMLOListElement>(null);
  const last = items.at(-1)?.key;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new last item scrolls to the end.
  useLayoutEffect(() => {
    list.current?.lastElementChild?.scrollIntoView();
  }, [last]);
  return (
    <main>
      <h2>
        {row?.title ?? row?.peerId} <small>{row?.presence?.online && "online"}</small>
      </h2>
      <ol ref={list}>
        {hasOlder && <input type="button" value="Older" onClick={loadOlder} />}
        {items.map((item) => (
          <li key={item.key} ref={seen(item)}>
            <Line id={id} item={item} />
          </li>
        ))}
      </ol>
      <p>{Object.values(row?.texts ?? {})}</p>
      <Composer id={id} />
    </main>
  );
}

function Line({ id, item }: { id: string; item: Item }) {
  switch (item.type) {
    case "day":
      return <time>{item.day}</time>;
    case "unread":
      return <hr aria-label={`${item.count} new`} />;
    case "message":
      return <Message id={id} item={item} />;
    case "system":
      return <i>{`${item.senderId}: ${item.event.event}`}</i>;
    default:
      return <i>…</i>;
  }
}

function Message({ id, item }: { id: string; item: MessageItem }) {
  const client = usePigeonhole();
  const { seq, body, senderId, progress, deletedBy, reactions, run } = item;
  const react = () => seq !== undefined && client?.conversation(id).react(seq, "👍");
  return (
    <p className={progress && "own"} onDoubleClick={react}>
      {run.isFirst && !progress && <b>{senderId} </b>}
      {deletedBy ? <i>deleted</i> : body} {reactions.map(({ emoji, count }) => `${emoji} ${count}`).join(" ")}{" "}
      <small>{progress?.state}</small>
    </p>
  );
}

// A component of its own: a key draws the field again, and not the list.
function Composer({ id }: { id: string }) {
  const { text, setText, send } = useComposer(id);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    send();
  };
  return (
    <form onSubmit={submit}>
      <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
    </form>
  );
}

const client = await open({ url: `ws://${SERVER}/v1`, userId: me, token });
createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <PigeonholeProvider client={client}>
      <App />
    </PigeonholeProvider>
  </StrictMode>,
);
