// Pigeonhole's hooks for React. No hook suspends. On a server, while hydrating and without a client, they are empty.

import type {
  At,
  Chat,
  ChatRow,
  Filter,
  Item,
  MemberRow,
  Message,
  MessagesView,
  Presence,
  Reply,
  State,
} from "@pigeonhole/client";
import { useEffect, useMemo, useRef, useState } from "react";
import { useChanging, useChat, usePigeonhole } from "./context.ts";

export { type Composer, useComposer } from "./composer.ts";
export { PigeonholeProvider, usePigeonhole } from "./context.ts";
export { useSeen } from "./seen.ts";

const nothing: readonly never[] = [];
/** The names of users by their ids, as far as they are known. Empty until `showNames` of the client. */
export type Names = ReadonlyMap<string, string>;
const noNames: Names = new Map();
const noTexts = {};

/** The chat list. While another filter is being loaded, the rows are those of the filter before. */
export function useConversations(filter: Filter = {}): {
  rows: readonly ChatRow[];
  /** The number of unread messages of all conversations that are not muted. */
  unread: number;
  names: Names;
  isLoading: boolean;
} {
  const client = usePigeonhole();
  const query = JSON.stringify(filter);
  const view = useMemo(() => client?.conversations(JSON.parse(query)), [client, query]);
  const shown = useChanging(view);
  const before = useRef(shown);
  useEffect(() => {
    before.current = shown ?? before.current;
  }, [shown]);
  const { rows = nothing, unread = 0, names = noNames } = shown ?? before.current ?? {};
  return { rows, unread, names, isLoading: shown === undefined };
}

/** A conversation: its row of the chat list, and `chat` to act in it. Without a client there is no `chat`. */
export function useConversation(id: string): { id: string; chat: Chat | undefined; row: ChatRow | undefined } {
  const chat = useChat(id);
  return { id, chat, row: useChanging(chat?.row) };
}

/** The direct conversation with this user, which need not exist yet. Without a client, `id` is empty. */
export function useDirect(userId: string): ReturnType<typeof useConversation> {
  const client = usePigeonhole();
  const id = useMemo(() => client?.direct(userId).id ?? "", [client, userId]);
  return useConversation(id);
}

/** The messages of a conversation, at the end, around the first unread one, or around `{ seq }`. */
export function useMessages(
  id: string,
  { at = "newest" }: { at?: At } = {},
): {
  items: readonly Item[];
  hasOlder: boolean;
  /** The view has left the end, and new messages are not among the items. */
  hasNewer: boolean;
  /** The number of unread messages, for the arrow that leads to the end. */
  unread: number;
  /** The pinned messages that are not deleted, the last pinned first. Without a message, it has not come. */
  pins: readonly Reply[];
  names: Names;
  isLoading: boolean;
} & Pick<MessagesView, "loadOlder" | "loadNewer" | "jumpTo"> {
  const chat = useChat(id);
  const query = JSON.stringify(at);
  const view = useMemo(() => chat?.messages({ at: JSON.parse(query) }), [chat, query]);
  const shown = useChanging(view);
  const acts = useMemo(
    () => ({
      loadOlder: () => view?.loadOlder(),
      loadNewer: () => view?.loadNewer(),
      jumpTo: (at: At) => view?.jumpTo(at),
    }),
    [view],
  );
  const {
    items = nothing,
    hasOlder = false,
    hasNewer = false,
    unread = 0,
    pins = nothing,
    names = noNames,
  } = shown ?? {};
  return { items, hasOlder, hasNewer, unread, pins, names, isLoading: shown === undefined, ...acts };
}

/** The other users who are typing. */
export function useTyping(id: string): readonly string[] {
  return useConversation(id).row?.typing ?? nothing;
}

/** The texts that services are writing, as far as they are, by the service's id. */
export function useTexts(id: string): Readonly<Record<string, string>> {
  return useConversation(id).row?.texts ?? noTexts;
}

/** Whether the other user of a direct conversation is online. `undefined`: not known. */
export function usePresence(id: string): Presence | undefined {
  return useConversation(id).row?.presence;
}

/** The number of unread messages of all conversations that are not muted, for a badge. */
export function useUnread(): number {
  return useConversations().unread;
}

/** How the connection is doing. */
export function useConnection(): State {
  return useChanging(usePigeonhole()?.connection) ?? connecting;
}

const connecting: State = { state: "connecting" };

/** The members of a group or a channel: the owner, the admins and then the others. */
export function useMembers(id: string): { members: readonly MemberRow[]; names: Names; isLoading: boolean } {
  const chat = useChat(id);
  const shown = useChanging(useMemo(() => chat?.roster(), [chat]));
  return { members: shown?.members ?? nothing, names: shown?.names ?? noNames, isLoading: shown === undefined };
}

/** The messages on this device with these words, the newest first. */
export function useSearch(words: string, limit = 50): { messages: readonly Message[]; isLoading: boolean } {
  const client = usePigeonhole();
  const [found, setFound] = useState<{ words: string; messages: readonly Message[] }>({ words: "", messages: nothing });
  useEffect(() => {
    let isWanted = true;
    const show = (messages: readonly Message[]) => isWanted && setFound({ words, messages });
    client?.search(words, limit).then(show, () => show(nothing));
    return () => {
      isWanted = false;
    };
  }, [client, words, limit]);
  return { messages: found.messages, isLoading: found.words !== words };
}
