// The state of each message after its change entries, in whichever order entries and pages come.

import { canonicalEmoji } from "./emoji.ts";
import { limits, type Message, type Reaction } from "./frames.ts";
import type { QueuedRequest } from "./saved.ts";

/** A text that a message has or had. */
interface Text {
  /** The first has 1. */
  version: number;
  body: string;
  editedAt: string | undefined;
}

/** Reactions as a page has them. */
interface Counted {
  /** The last entry that is in them. */
  asOf: number;
  reactions: readonly Reaction[];
}

/** A user's reaction from some entry on, and the reaction before it. */
interface Reacted {
  by: string;
  emoji: string | undefined;
  before: string | undefined;
}

interface Became {
  /** The newest that is known. */
  text?: Text;
  deleted?: Pick<Message, "deleted_at" | "deleted_by">;
  counted: Counted;
  /** By the `seq` of the entry. */
  reacted: Map<number, Reacted>;
}

/** An own change that is not stored, and is shown all the same. */
interface Wanted {
  request: QueuedRequest["request"];
  at: string;
}

export class Changes {
  #me: string;
  #bySeq = new Map<number, Became>();

  constructor(me: string) {
    this.#me = me;
  }

  /** Takes an entry as it was at any time. `isCounted`: its reactions are current. */
  take(entry: Message, isCounted = true): void {
    const { kind, target_seq, seq, sender_id, sent_at, body, version, emoji, emoji_before } = entry;
    if (target_seq === undefined) {
      this.#takeMessage(entry, isCounted);
      return;
    }
    const became = this.#of(target_seq);
    switch (kind) {
      case "edit":
        // An edit without a version has no effect: its target was deleted.
        if (version !== undefined) {
          raise(became, { version, body, editedAt: sent_at });
        }
        break;
      case "delete":
        remove(became, { deleted_at: sent_at, deleted_by: sender_id });
        break;
      case "reaction":
        became.reacted.set(seq, { by: sender_id, emoji, before: emoji_before });
        break;
    }
  }

  /** Sets the user's own reaction where it is no entry. The counts include it until a page brings new ones. */
  takeOwn(seq: number, emoji: string | null): void {
    const became = this.#of(seq);
    const { asOf } = became.counted;
    became.counted = { asOf, reactions: this.#reactions(became, emoji) };
  }

  /** The user's own delete of this message, where they see no entry of it. */
  takeDelete(seq: number, at: string): void {
    remove(this.#of(seq), { deleted_at: at, deleted_by: this.#me });
  }

  #takeMessage(message: Message, isCounted: boolean): void {
    const { seq, body, version = 1, edited_at, deleted_at, deleted_by, reactions = [], reactions_seq = 0 } = message;
    const became = this.#of(seq);
    if (deleted_at !== undefined) {
      remove(became, { deleted_at, ...(deleted_by === undefined ? {} : { deleted_by }) });
      return;
    }
    raise(became, { version, body, editedAt: edited_at });
    if (isCounted && reactions_seq >= became.counted.asOf) {
      became.counted = { asOf: reactions_seq, reactions };
    }
  }

  isDeleted(seq: number): boolean {
    return this.#bySeq.get(seq)?.deleted !== undefined;
  }

  /** The message as it is now, under the own changes that wait. */
  apply(message: Message, wanted: readonly Wanted[] = []): Message {
    const became = this.#of(message.seq);
    const { body, version, edited_at, deleted_at, deleted_by, reactions, reactions_seq, media, mentions, ...rest } =
      message;
    const deleting = wanted.find(({ request }) => request.action === "delete");
    const deleted = became.deleted ?? (deleting && { deleted_at: deleting.at, deleted_by: this.#me });
    if (deleted) {
      return { ...rest, body: "", ...deleted };
    }
    let text = became.text ?? { version: 1, body, editedAt: undefined };
    let mine: string | null | undefined;
    for (const { request, at } of wanted) {
      if (request.action === "edit") {
        text = { version: text.version + 1, body: request.body, editedAt: at };
      } else if (request.action === "react") {
        mine = request.emoji;
      }
    }
    const shown = this.#reactions(became, mine);
    return {
      ...rest,
      body: text.body,
      ...(media ? { media } : {}),
      ...(mentions ? { mentions } : {}),
      ...(text.version > 1 ? { version: text.version } : {}),
      ...(text.editedAt === undefined ? {} : { edited_at: text.editedAt }),
      ...(shown.length > 0 ? { reactions: shown } : {}),
    };
  }

  /** As the server orders them. `wanted`: what the user wants to react with, if that is another. */
  #reactions({ counted, reacted }: Became, wanted: string | null | undefined): Reaction[] {
    const counts = new Map<string, Reaction>();
    for (const { emoji, count, mine } of counted.reactions) {
      counts.set(canonicalEmoji(emoji), { emoji: canonicalEmoji(emoji), count, mine });
    }
    const add = (text: string | null | undefined, by: 1 | -1, mine: boolean) => {
      if (typeof text === "string") {
        const emoji = canonicalEmoji(text);
        const before = counts.get(emoji) ?? { emoji, count: 0, mine: false };
        counts.set(emoji, { emoji, count: before.count + by, mine: mine ? by > 0 : before.mine });
      }
    };
    /** The reply to an own reaction does not contain the earlier one. */
    const replaceOwn = (emoji: string | null | undefined) => {
      add([...counts.values()].find(({ mine }) => mine)?.emoji, -1, true);
      add(emoji, 1, true);
    };
    const since = [...reacted].filter(([seq]) => seq > counted.asOf).sort(([one], [other]) => one - other);
    for (const [, { by, emoji, before }] of since) {
      if (by === this.#me) {
        replaceOwn(emoji);
      } else {
        add(before, -1, false);
        add(emoji, 1, false);
      }
    }
    if (wanted !== undefined) {
      replaceOwn(wanted);
    }
    const shown = [...counts.values()].filter(({ count }) => count > 0);
    shown.sort((one, other) => other.count - one.count || compare(one.emoji, other.emoji));
    return shown.slice(0, limits.REACTIONS_SHOWN_MAX);
  }

  #of(seq: number): Became {
    const became = this.#bySeq.get(seq) ?? { counted: { asOf: 0, reactions: [] }, reacted: new Map() };
    this.#bySeq.set(seq, became);
    return became;
  }
}

/** Keeps the newest text and the latest edit time: an entry can have the text of a later edit. */
function raise(became: Became, text: Text): void {
  const { text: held, deleted } = became;
  if (deleted) {
    return;
  }
  // Each version has one text. A former member gets an empty text if the message was changed after the member left.
  const isLater = (text.editedAt ?? "") > (held?.editedAt ?? "") || held?.body === "";
  if (!held || text.version > held.version || (text.version === held.version && isLater)) {
    became.text = text;
  }
}

/** Deletes for good, without keeping the text. */
function remove(became: Became, deleted: NonNullable<Became["deleted"]>): void {
  became.deleted ??= deleted;
  delete became.text;
}

/** Compares by code points, the order of UTF-8 bytes. UTF-16 units have another order. */
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
