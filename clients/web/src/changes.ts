// The state of a message after its change entries, in whichever order they and the message come.

import { canonicalEmoji } from "./emoji.ts";
import type { OpenedChange } from "./events.ts";
import { type Data, limits, type Message, type Reaction } from "./frames.ts";
import type { StoringRequest } from "./saved.ts";

/** The known changes of one message, received or not. Plain data, which a store keeps. */
export interface Changes {
  text?: Text;
  /**
   * The newest encrypted edit of each user. Only the one by the author of the message holds, which no server checks.
   */
  sealed?: Record<string, Text>;
  deleted?: { at: string; by: string };
  /** The message mentions the viewer, or did before its delete: a row may still count the mention. */
  namedViewer?: true;
  /** The newest page's state: the highest `seq` of a reaction that is included, or 0, and the counts. */
  counted: { asOf: number; reactions: Reaction[] };
  /** The reactions above that, by the `seq` of their entries, in order. */
  reacted: [seq: number, Step][];
}

interface Text {
  version: number;
  editedAt: string;
  body: string;
  /** The newest data, by an edit that may be older than the text. Without it, no known edit names any. */
  set?: Version & { data?: Data };
  /** The `client_msg_id` of the target, as the author of an encrypted change names it. */
  targetId?: string;
}

/** The effect of one reaction. */
interface Step {
  mine: boolean;
  emoji: string | undefined;
  before: string | undefined;
  /** The user, if nothing says the reaction before: the server knows none of an encrypted one. */
  by?: string;
  /** As of `Text`. */
  targetId?: string;
}

export function noChanges(): Changes {
  return { counted: { asOf: 0, reactions: [] }, reacted: [] };
}

/** Takes a change entry. */
export function addChange(changes: Changes, entry: OpenedChange, viewer: string): void {
  const { kind, seq, version, sender_id, sent_at, body, emoji, emoji_before, epoch, target_id: targetId } = entry;
  const names = targetId === undefined ? {} : { targetId };
  // An edit without a version has no effect: its target is deleted.
  if (kind === "edit" && version !== undefined) {
    const at = { version, editedAt: sent_at };
    const set = entry.keeps_data ? {} : { set: { ...at, ...dataOf(entry) } };
    edit(changes, { ...at, body, ...set, ...names }, epoch === undefined ? undefined : sender_id);
  } else if (kind === "delete") {
    markDeleted(changes, sent_at, sender_id);
  } else if (kind === "reaction" && seq > changes.counted.asOf && !changes.deleted) {
    const isAlone = emoji_before === undefined && (epoch !== undefined || emoji === undefined);
    const by = isAlone ? { by: sender_id } : {};
    const effect = { mine: sender_id === viewer, emoji: canonical(emoji), before: canonical(emoji_before) };
    const step = { ...effect, ...by, ...names };
    const others = changes.reacted.filter(([other]) => other !== seq);
    changes.reacted = [...others, [seq, step] as [number, Step]].sort(([one], [other]) => one - other);
  }
}

/** Takes the message, as some page has it. */
export function countOf(changes: Changes, { reactions_seq: asOf = 0, reactions = [] }: Message): void {
  if (asOf >= changes.counted.asOf && !changes.deleted) {
    const canonically = reactions.map((reaction) => ({ ...reaction, emoji: canonicalEmoji(reaction.emoji) }));
    changes.counted = { asOf, reactions: canonically };
    changes.reacted = changes.reacted.filter(([seq]) => seq > asOf);
  }
}

/** Sets the viewer's current reaction, which has no entry. */
export function countOwn(changes: Changes, emoji: string | null): void {
  if (!changes.deleted) {
    changes.counted.reactions = react(changes.counted.reactions, emoji);
  }
}

export function markDeleted(changes: Changes, at: string, by: string): void {
  changes.deleted ??= { at, by };
  delete changes.text;
  delete changes.sealed;
  changes.counted.reactions = [];
  changes.reacted = [];
}

/** `by`: the user who wrote an encrypted edit. */
function edit(changes: Changes, text: Text, by: string | undefined): void {
  const { sealed, deleted } = changes;
  const held = by === undefined ? changes.text : sealed?.[by];
  // The text of a deleted message is not kept, however late the text comes.
  if (!deleted) {
    const { set: _, ...newest } = !held || isLater(text, held) ? text : held;
    const set = !held?.set || (text.set && isLater(text.set, held.set)) ? text.set : held.set;
    const edited = { ...newest, ...(set ? { set } : {}) };
    Object.assign(changes, by === undefined ? { text: edited } : { sealed: { ...sealed, [by]: edited } });
  }
}

/** Returns the message, as some page had it, as it is by now. */
export function applied(changes: Changes, message: Message): Message {
  const { text, deleted, counted, sealed } = changes;
  if (deleted) {
    return emptied(message, deleted.at, deleted.by);
  }
  const { reactions: _, reactions_seq: __, ...rest } = message;
  // The server has no data of an encrypted message, so all that is known of it is here.
  let dataAt = message.epoch === undefined ? versionOf(message) : {};
  for (const edit of [text, sealed?.[message.sender_id]]) {
    if (!edit || !isOf(edit, message) || message.kind === "sealed") {
      continue;
    }
    if (isLater(edit, versionOf(rest))) {
      Object.assign(rest, { body: edit.body, version: edit.version, edited_at: edit.editedAt });
    }
    if (edit.set && isLater(edit.set, dataAt)) {
      delete rest.data;
      Object.assign(rest, dataOf(edit.set));
      dataAt = edit.set;
    }
  }
  const reacted = changes.reacted.filter(([, step]) => isOf(step, message));
  const reactions = reactionsOf({ ...changes, reacted });
  const asOf = changes.reacted.at(-1)?.[0] ?? counted.asOf;
  return { ...rest, ...(reactions.length > 0 ? { reactions } : {}), ...(asOf > 0 ? { reactions_seq: asOf } : {}) };
}

/**
 * Returns whether an encrypted change is one of this message. The server says which `seq` the message has, and could say
 * another to each user. An own change has no other name.
 */
function isOf({ targetId }: { targetId?: string }, { epoch, client_msg_id }: Message): boolean {
  return epoch === undefined || targetId === undefined || targetId === client_msg_id;
}

/** Returns the current reactions of all users. */
function reactionsOf({ counted, reacted }: Changes): Reaction[] {
  const counts = new Map<string, number>();
  const add = (emoji: string | undefined, more: number) => {
    if (emoji !== undefined) {
      counts.set(emoji, (counts.get(emoji) ?? 0) + more);
    }
  };
  let mine: string | undefined;
  const newest = new Map<string, string | undefined>();
  for (const { emoji, count, mine: isMine } of counted.reactions) {
    add(emoji, count - Number(isMine));
    mine = isMine ? emoji : mine;
  }
  for (const [, step] of reacted) {
    if (step.mine) {
      // The earlier own reaction is known, even if the entry does not contain it.
      mine = step.emoji;
    } else if (step.by !== undefined) {
      newest.set(step.by, step.emoji);
    } else {
      add(step.emoji, 1);
      add(step.before, -1);
    }
  }
  for (const emoji of newest.values()) {
    add(emoji, 1);
  }
  add(mine, 1);
  const all = [...counts].map(([emoji, count]) => ({ emoji, count, mine: emoji === mine }));
  return shown(all.filter(({ count }) => count > 0));
}

/** The field, if there is data. */
function dataOf({ data }: { data?: Data | undefined }): { data?: Data } {
  return data === undefined ? {} : { data };
}

/** Returns the message that came. The known text is kept if it is newer. */
export function keepText(came: Message, held: Message): Message {
  // The server has no text of an encrypted message.
  if (came.kind === "sealed" && held.kind !== "sealed") {
    return held;
  }
  // Each version has one text. A former member gets an empty text if the message was changed after the member left.
  const [known, other] = [versionOf(held), versionOf(came)];
  const isKept = isLater(known, other) || (!isLater(other, known) && came.body === "");
  if (!isKept) {
    return came;
  }
  const { version: _, edited_at: __, data: ___, ...rest } = came;
  const { body, version, edited_at } = held;
  return {
    ...rest,
    body,
    ...dataOf(held),
    ...(version === undefined ? {} : { version }),
    ...(edited_at === undefined ? {} : { edited_at }),
  };
}

/** Returns the message, once an own change of it, made at this time, is stored. */
export function foreseen(message: Message, request: StoringRequest, at: string, me: string): Message {
  if (message.deleted_at !== undefined) {
    return message;
  }
  switch (request.action) {
    case "edit": {
      const { data, ...rest } = message;
      const kept = request.data === undefined ? { data } : { data: request.data ?? undefined };
      const version = (message.version ?? 1) + 1;
      return { ...rest, ...dataOf(kept), body: request.body, version, edited_at: at };
    }
    case "delete":
      return emptied(message, at, me);
    case "react": {
      const { reactions = [], ...rest } = message;
      const now = react(reactions, request.emoji);
      return now.length > 0 ? { ...rest, reactions: now } : rest;
    }
    default:
      // The others change no message.
      return message;
  }
}

function emptied(message: Message, deleted_at: string, deleted_by: string): Message {
  const { reactions, reactions_seq, media, data, mentions, version, edited_at, ...rest } = message;
  return { ...rest, body: "", deleted_at, deleted_by };
}

/** Returns the counts with another reaction of the viewer. */
function react(reactions: readonly Reaction[], text: string | null): Reaction[] {
  const emoji = canonical(text ?? undefined);
  const others = reactions.map(({ emoji, count, mine }) => ({ emoji, count: count - Number(mine), mine: false }));
  const same = others.find((reaction) => reaction.emoji === emoji);
  if (same) {
    Object.assign(same, { count: same.count + 1, mine: true });
  } else if (emoji !== undefined) {
    others.push({ emoji, count: 1, mine: true });
  }
  return shown(others.filter(({ count }) => count > 0));
}

/** Sorts as the server does: the most frequent first, then by characters, up to the limit. */
function shown(reactions: Reaction[]): Reaction[] {
  const sorted = reactions.sort((one, other) => other.count - one.count || compare(one.emoji, other.emoji));
  return sorted.slice(0, limits.REACTIONS_SHOWN_MAX);
}

function canonical(emoji: string | undefined): string | undefined {
  return emoji === undefined ? undefined : canonicalEmoji(emoji);
}

interface Version {
  version?: number | undefined;
  editedAt?: string | undefined;
}

function versionOf({ version, edited_at }: Message): Version {
  return { version, editedAt: edited_at };
}

function isLater(one: Version, other: Version): boolean {
  const difference = (one.version ?? 0) - (other.version ?? 0);
  return difference > 0 || (difference === 0 && (one.editedAt ?? "") > (other.editedAt ?? ""));
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
