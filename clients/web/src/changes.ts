// What became of each message of a conversation: the fold of what entries and pages tell, in whichever order they come.

import { limits, type Message, type Reaction } from "./frames.ts";
import type { Queued } from "./storage/storage.ts";

/** A text that a message has or had. */
interface Text {
  /** The first has 1. */
  version: number;
  body: string;
  editedAt: string | undefined;
}

/** Reactions as a page has them: one's own, and how many others react with what. */
interface Counted {
  /** Read when the conversation had come so far. */
  asOf: number;
  reactions: readonly Reaction[];
}

/** What a user reacts with, by the entry that says so. */
interface Reacted {
  seq: number;
  emoji: string | undefined;
}

interface Became {
  /** The newest that is known. */
  text?: Text;
  deleted?: Pick<Message, "deleted_at" | "deleted_by">;
  counted?: Counted;
  /** By user. */
  reacted: Map<string, Reacted>;
}

/** An own change that is not stored, and is shown all the same. */
interface Wanted {
  queued: Queued;
  at: string;
}

export class Changes {
  #me: string;
  #bySeq = new Map<number, Became>();

  constructor(me: string) {
    this.#me = me;
  }

  /** An entry, as it was when the conversation had come so far. */
  take(entry: Message, asOf: number): void {
    const { kind, target_seq, seq, sender_id, sent_at, body, version, emoji } = entry;
    if (target_seq === undefined) {
      this.#takeMessage(entry, asOf);
      return;
    }
    const became = this.#of(target_seq);
    switch (kind) {
      case "edit":
        // Without a version there is nothing to tell: its target was deleted.
        if (version !== undefined) {
          raise(became, { version, body, editedAt: sent_at });
        }
        break;
      case "delete":
        remove(became, { deleted_at: sent_at, deleted_by: sender_id });
        break;
      case "reaction":
        if (seq > (became.reacted.get(sender_id)?.seq ?? 0)) {
          became.reacted.set(sender_id, { seq, emoji });
        }
        break;
    }
  }

  #takeMessage(
    { seq, body, version = 1, edited_at, deleted_at, deleted_by, reactions = [] }: Message,
    asOf: number,
  ): void {
    const became = this.#of(seq);
    if (deleted_at !== undefined) {
      remove(became, { deleted_at, ...(deleted_by === undefined ? {} : { deleted_by }) });
      return;
    }
    raise(became, { version, body, editedAt: edited_at });
    if (asOf >= (became.counted?.asOf ?? 0)) {
      became.counted = { asOf, reactions };
    }
  }

  isDeleted(seq: number): boolean {
    return this.#bySeq.get(seq)?.deleted !== undefined;
  }

  /** The message as it is now, under the own changes that wait. */
  apply(message: Message, wanted: readonly Wanted[] = []): Message {
    const became = this.#of(message.seq);
    const { body, version, edited_at, deleted_at, deleted_by, reactions, ...rest } = message;
    const deleting = wanted.find(({ queued }) => "delete" in queued);
    const deleted = became.deleted ?? (deleting && { deleted_at: deleting.at, deleted_by: this.#me });
    if (deleted) {
      return { ...rest, body: "", ...deleted };
    }
    let text = became.text ?? { version: 1, body, editedAt: undefined };
    let mine: string | null | undefined;
    for (const { queued, at } of wanted) {
      if ("edit" in queued) {
        text = { version: text.version + 1, body: queued.edit.body, editedAt: at };
      } else if ("react" in queued) {
        mine = queued.react.emoji;
      }
    }
    const shown = this.#reactions(became, mine);
    return {
      ...rest,
      body: text.body,
      ...(text.version > 1 ? { version: text.version } : {}),
      ...(text.editedAt === undefined ? {} : { edited_at: text.editedAt }),
      ...(shown.length > 0 ? { reactions: shown } : {}),
    };
  }

  /** As the server orders them. `wanted`: what the user wants to react with, if that is another. */
  #reactions({ counted, reacted }: Became, wanted: string | null | undefined): Reaction[] {
    const counts = new Map<string, Reaction>();
    const add = (emoji: string | null | undefined, mine: boolean, by = 1) => {
      if (typeof emoji === "string" && by > 0) {
        const before = counts.get(emoji) ?? { emoji, count: 0, mine: false };
        counts.set(emoji, { emoji, count: before.count + by, mine: before.mine || mine });
      }
    };
    const page = counted?.reactions ?? [];
    const own = reacted.get(this.#me);
    if (wanted !== undefined) {
      add(wanted, true);
    } else if (own) {
      add(own.emoji, true);
    } else {
      add(page.find(({ mine }) => mine)?.emoji, true);
    }
    const others = [...reacted].filter(([user]) => user !== this.#me);
    for (const [, { emoji }] of others) {
      add(emoji, false);
    }
    // In a direct conversation there is one other, so what their entry says is all there is.
    for (const { emoji, count, mine } of others.length > 0 ? [] : page) {
      add(emoji, false, count - Number(mine));
    }
    const shown = [...counts.values()].sort((one, other) => other.count - one.count || compare(one.emoji, other.emoji));
    return shown.slice(0, limits.REACTIONS_SHOWN_MAX);
  }

  #of(seq: number): Became {
    const became = this.#bySeq.get(seq) ?? { reacted: new Map() };
    this.#bySeq.set(seq, became);
    return became;
  }
}

/** Keeps the newest text, and the last time at which it is said to be made: an entry has the text of one after it. */
function raise(became: Became, text: Text): void {
  const { text: held, deleted } = became;
  if (deleted) {
    return;
  }
  const isLater = (text.editedAt ?? "") > (held?.editedAt ?? "");
  if (!held || text.version > held.version || (text.version === held.version && isLater)) {
    became.text = text;
  }
}

/** For good: what it said is not kept. */
function remove(became: Became, deleted: NonNullable<Became["deleted"]>): void {
  became.deleted ??= deleted;
  delete became.text;
}

/** By code points, as bytes of UTF-8 are ordered. Those of UTF-16 are not. */
function compare(one: string, other: string): number {
  const others = [...other];
  for (const [at, letter] of [...one].entries()) {
    const difference = (letter.codePointAt(0) ?? 0) - (others[at]?.codePointAt(0) ?? -1);
    if (difference !== 0) {
      return difference;
    }
  }
  return one === other ? 0 : -1;
}
