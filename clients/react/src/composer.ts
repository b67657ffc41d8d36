// The field in which a user writes.

import type { Chat, MediaDraft, MessageItem } from "@pigeonhole/client";
import { useCallback, useEffect, useRef, useState } from "react";
import { useChanging, useChat } from "./context.ts";

/** A draft is saved this long after the last key, in milliseconds. */
const DRAFT_AFTER = 300;

export interface Composer {
  text: string;
  /** Call it at each key: the others see that the user is typing, and the text survives a reload. */
  setText(text: string): void;
  /** The attachments, each of which becomes a message. The first one has the text. */
  files: readonly MediaDraft[];
  attach(file: MediaDraft): void;
  /** The message that the text replies to. */
  replyTo: MessageItem | undefined;
  reply(item: MessageItem): void;
  /** The own message whose text it is. */
  editing: MessageItem | undefined;
  edit(item: MessageItem): void;
  /** Ends the reply or the edit, and removes the attachments. */
  cancel(): void;
  /** Sends what is there, and empties the field. Resolves once a reload loses nothing. */
  send(): Promise<void>;
}

type Content = Pick<Composer, "text" | "files" | "replyTo" | "editing">;

const empty: Content = { text: "", files: [], replyTo: undefined, editing: undefined };

/** The field of a conversation, which begins with the draft of an earlier run. */
export function useComposer(id: string): Composer {
  const chat = useChat(id);
  const draft = useChanging(chat?.row)?.draft;
  const [content, setContent] = useState(empty);
  const field = useRef<Field>(undefined);
  field.current ??= new Field(setContent);
  const current = field.current;
  useEffect(() => current.open(chat), [current, chat]);
  useEffect(() => current.drafted(draft?.body), [current, draft]);
  return {
    ...content,
    setText: useCallback((text: string) => current.type(text), [current]),
    attach: useCallback((file: MediaDraft) => current.set(({ files }) => ({ files: [...files, file] })), [current]),
    reply: useCallback((replyTo: MessageItem) => current.set(() => ({ replyTo, editing: undefined })), [current]),
    edit: useCallback((editing: MessageItem) => current.edit(editing), [current]),
    cancel: useCallback(() => current.cancel(), [current]),
    send: useCallback(() => current.send(), [current]),
  };
}

class Field {
  #show: (content: Content) => void;
  #content = empty;
  #chat: Chat | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** The user has written, so a draft of an earlier run comes too late. */
  #isTouched = false;

  constructor(show: (content: Content) => void) {
    this.#show = show;
  }

  set(change: (content: Content) => Partial<Content>): void {
    this.#content = { ...this.#content, ...change(this.#content) };
    this.#show(this.#content);
  }

  /** Shows the field of this conversation, until the returned function is called. */
  open(chat: Chat | undefined): () => void {
    if (this.#chat?.id !== chat?.id) {
      this.#isTouched = false;
      this.set(() => empty);
    }
    this.#chat = chat;
    return () => this.#save();
  }

  /** Takes the draft of an earlier run. */
  drafted(text: string | undefined): void {
    if (text !== undefined && !this.#isTouched) {
      this.#isTouched = true;
      this.set(() => ({ text }));
    }
  }

  type(text: string): void {
    this.#isTouched = true;
    this.set(() => ({ text }));
    this.#chat?.typing();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#save(), DRAFT_AFTER);
  }

  edit(editing: MessageItem): void {
    // The server does not have it yet, so nothing can change it.
    if (editing.seq === undefined) {
      return;
    }
    this.#isTouched = true;
    this.set(() => ({ text: editing.body, editing, replyTo: undefined, files: [] }));
  }

  cancel(): void {
    this.set(({ text, editing }) => ({ ...empty, text: editing ? "" : text }));
  }

  async send(): Promise<void> {
    const [chat, content] = [this.#chat, this.#content];
    const { text, files, editing } = content;
    if (!chat || (text.trim() === "" && files.length === 0)) {
      return;
    }
    // The text that the user writes from now on is the next message.
    this.#isTouched = true;
    this.set(() => empty);
    const left = this.#content;
    // The draft stays until the text is sent.
    clearTimeout(this.#timer);
    this.#timer = undefined;
    let unsent = content;
    try {
      while (unsent !== empty) {
        unsent = await withoutFirst(chat, unsent);
      }
    } catch (error) {
      // Neither another conversation nor what the user has written meanwhile.
      if (this.#content === left) {
        this.set(() => unsent);
        this.#save(true);
      }
      throw error;
    }
    if (!editing && this.#chat?.id === chat.id) {
      this.#save(true);
    } else if (!editing) {
      chat.draft(undefined);
    }
  }

  /** Saves the text, if it waits for that. */
  #save(isNow = this.#timer !== undefined): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const { text, editing } = this.#content;
    if (isNow && !editing) {
      this.#chat?.draft(text === "" ? undefined : text);
    }
  }
}

/** Sends one message, and returns what is left. */
async function withoutFirst(chat: Chat, { text, files, replyTo, editing }: Content): Promise<Content> {
  const file = editing ? undefined : files[0];
  const others = file ? files.slice(1) : files;
  const reply = replyTo?.seq === undefined ? {} : { replyTo: replyTo.seq };
  if (editing?.seq !== undefined) {
    await chat.edit(editing.seq, text);
  } else if (file) {
    await chat.sendFile({ ...file, ...(text === "" ? {} : { body: text }), ...reply });
  } else {
    await chat.send({ body: text, ...reply });
  }
  return others.length > 0 ? { ...empty, files: others } : empty;
}
