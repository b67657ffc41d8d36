// The rules of a message store: which rows a write changes.
//
// A message and its change entries come in any order, from events and from pages, and any number of times. The stored
// result is the same. A span is a range of `seq` that the store has without a gap. Change entries have no rows, so only
// the spans show what is missing.

import { Standing } from "../chat/standing.ts";
import {
  type Channel,
  type Conversation,
  type HistoryResult,
  type LastMessage,
  limits,
  type Member,
  type Message,
} from "../frames.ts";
import { directConversationId } from "../made-ids.ts";
import { changedMembers, listedMembers } from "../members.ts";
import { counts, isChange, names, rolesOf, type Settings, type Side } from "../protocol.ts";
import { joined } from "../spans.ts";
import { type Folded, ofMessages, proven, type Rows } from "./rows.ts";
import type { Span, Write } from "./types.ts";

/** Applies a write to the rows, as `me` sees them. */
export async function apply(rows: Rows, me: string, write: Write): Promise<void> {
  if ("entry" in write) {
    const { entry } = write;
    await fold(rows, entry, false);
    await addSpan(rows, entry.conversation_id, { from: entry.seq, to: entry.seq });
    await list(rows, me, entry);
    await followMembers(rows, entry);
  } else if ("proof" in write) {
    const { conversation_id, seq, proof } = write.proof;
    const old = await rows.folded(conversation_id, seq);
    if (old) {
      await rows.setFolded(conversation_id, seq, proven(old, proof), old);
    }
  } else if ("page" in write) {
    const { conversation_id, side, page } = write.page;
    for (const entry of page.messages) {
      await fold(rows, entry, true);
    }
    await raise(rows, conversation_id, page.members);
    const span = spanOf(side, page);
    if (span) {
      await addSpan(rows, conversation_id, span);
    }
  } else if ("row" in write) {
    await replaceRow(rows, write.row);
  } else if ("gone" in write) {
    await rows.forget(write.gone);
  } else if ("read" in write) {
    const { conversation_id, seq, unread, mentions } = write.read;
    const row = await rows.row(conversation_id);
    if (row && row.read_seq <= seq) {
      const marks = { read_seq: seq, unread, marked_unread: false };
      if (isOfChannel(row)) {
        await setRow(rows, mentionedAbove({ ...row, ...marks }));
      } else {
        const { mentions: _, ...rest } = row;
        await setRow(rows, { ...rest, ...marks, ...(mentions === undefined ? {} : { mentions }) });
      }
    }
  } else if ("marks" in write) {
    const { conversation_id, members } = write.marks;
    await raise(rows, conversation_id, members);
    const own = members.find(({ user_id }) => user_id === me);
    if (own) {
      await raiseOwn(rows, conversation_id, own.delivered_seq, own.read_seq);
    }
  } else if ("settings" in write) {
    await set(rows, me, write.settings);
  } else if ("members" in write) {
    const { conversation_id, members } = write.members;
    await rows.setMembers(conversation_id, listedMembers(await rows.members(conversation_id), members));
  } else if ("draft" in write) {
    rows.setDraft(write.draft.target, write.draft.draft);
  } else if ("place" in write) {
    await place(rows, write.place.conversation_id, write.place.seq, write.place.path);
  } else if ("removed" in write) {
    rows.setUnneeded(write.removed, false);
  } else if ("floor" in write) {
    await hideBelow(rows, write.floor.conversation_id, write.floor.first_seq);
  } else if ("trim" in write) {
    const { conversation_id, first_seq } = write.trim;
    const row = await rows.conversation(conversation_id);
    if (row) {
      await rows.remove(conversation_id, ofMessages(row.num, 0, first_seq));
      await cutSpans(rows, conversation_id, first_seq);
    }
  } else if ("sealing" in write) {
    rows.setSealing(write.sealing.key, write.sealing.value);
  } else {
    const { change } = write;
    if ("read" in change) {
      await raiseOwn(rows, change.read.conversation_id, change.read.seq, change.read.seq);
    }
    await rows.save(change);
  }
}

/** Sorts the rows of the chat list: the one with the newest message first. */
export function orderOfChats(one: Conversation | Channel, other: Conversation | Channel): number {
  const at = (row: Conversation | Channel) =>
    isOfChannel(row) && !row.last_message ? 0 : Date.parse((row as Conversation).last_message.sent_at);
  return at(other) - at(one) || (one.conversation_id < other.conversation_id ? -1 : 1);
}

/** Returns whether the row is one of the list of channels. */
export function isOfChannel(row: Conversation | Channel): row is Channel {
  return row.kind === "channel";
}

async function fold(rows: Rows, entry: Message, isOfPage: boolean): Promise<void> {
  const { conversation_id: id, kind, target_seq } = entry;
  const seq = isChange(entry) ? target_seq : entry.seq;
  if (seq === undefined || seq < (await rows.floor(id))) {
    return;
  }
  const old = await rows.folded(id, seq);
  const { path, ...folded } = rows.fold(old, entry, isOfPage);
  const isPlaced = path !== undefined && hasMedia(folded);
  await rows.setFolded(id, seq, isPlaced ? { ...folded, path } : folded, old);
  if (path !== undefined && !isPlaced) {
    rows.setUnneeded(path, true);
  }
  const row = await rows.row(id);
  if (row?.last_message?.seq !== seq) {
    return;
  }
  if (folded.message) {
    await rows.setRow({ ...row, last_message: lastMessage(folded.message) });
  } else if (kind === "delete") {
    // The server's row has text of a message that the store lacks.
    await rows.setRow({ ...row, last_message: { ...row.last_message, preview: "", deleted: true } });
  }
}

function hasMedia({ message }: Folded): boolean {
  return message?.media !== undefined;
}

/** Returns the range that a page makes whole. */
function spanOf(side: Side, { messages, more, last_seq, first_seq = 1 }: HistoryResult): Span | undefined {
  const [first, last] = [messages[0]?.seq, messages.at(-1)?.seq];
  const earliest = more ? first : first_seq;
  let [from, to] = [earliest, last_seq as number | undefined];
  if ("before_seq" in side && side.before_seq !== undefined) {
    to = Math.min(side.before_seq - 1, last_seq);
  } else if ("after_seq" in side && side.after_seq !== undefined) {
    [from, to] = [side.after_seq + 1, more ? last : last_seq];
  }
  if (earliest === undefined || from === undefined || to === undefined) {
    return undefined;
  }
  from = Math.max(from, first_seq);
  return from <= to ? { from, to } : undefined;
}

async function addSpan(rows: Rows, id: string, { from, to }: Span): Promise<void> {
  const span = { from: Math.max(from, await rows.floor(id)), to };
  const old = await rows.spans(id);
  // Mostly, it is there already.
  if (span.from <= span.to && !old.some((known) => known.from <= span.from && span.to <= known.to)) {
    await rows.setSpans(id, joined(span, old));
  }
}

/** Raises a floor. */
async function hideBelow(rows: Rows, id: string, first_seq: number): Promise<void> {
  if ((await rows.floor(id)) >= first_seq || first_seq <= 1) {
    return;
  }
  await rows.setFloor(id, first_seq);
  await cutSpans(rows, id, first_seq);
  const row = await rows.row(id);
  if (row) {
    await setRow(rows, row);
  }
}

async function cutSpans(rows: Rows, id: string, first_seq: number): Promise<void> {
  const spans = (await rows.spans(id)).filter(({ to }) => to >= first_seq);
  await rows.setSpans(
    id,
    spans.map(({ from, to }) => ({ from: Math.max(from, first_seq), to })),
  );
}

async function replaceRow(rows: Rows, row: Conversation | Channel): Promise<void> {
  const id = row.conversation_id;
  const known = await rows.row(id);
  if (known && known.last_seq > row.last_seq) {
    return;
  }
  const { last_message } = row;
  // The server has no text of an encrypted message.
  const read = last_message?.kind === "sealed" ? (await rows.folded(id, last_message.seq))?.message : undefined;
  await setRow(rows, read ? { ...row, last_message: lastMessage(read) } : row);
  if (known) {
    // The server may not know the user's newest marks yet.
    await raiseOwn(rows, id, isOfChannel(known) ? 0 : known.delivered_seq, known.read_seq);
  }
  if (row.first_seq !== undefined) {
    await hideBelow(rows, id, row.first_seq);
  }
}

/** Takes the user's marks, which the user has set here or on another device. */
async function raiseOwn(rows: Rows, id: string, delivered: number, read: number): Promise<void> {
  const row = await rows.row(id);
  if (!row) {
    return;
  }
  const raised = isOfChannel(row) ? { ...row } : { ...row, delivered_seq: Math.max(row.delivered_seq, delivered) };
  if (row.read_seq < read) {
    raised.read_seq = read;
    raised.marked_unread = false;
    // At most what is above the mark. The next row from the server has the number.
    raised.unread = Math.min(row.unread, Math.max(row.last_seq - read, 0));
    if ("mentions" in raised && raised.mentions !== undefined) {
      raised.mentions = Math.min(raised.mentions, raised.unread);
    }
  }
  await rows.setRow(isOfChannel(raised) ? mentionedAbove(raised) : raised);
}

/** Returns the row without a mention that the user has read. */
function mentionedAbove({ mentioned_seq, ...row }: Channel): Channel {
  return mentioned_seq === undefined || mentioned_seq <= row.read_seq ? row : { ...row, mentioned_seq };
}

async function set(rows: Rows, me: string, settings: Settings): Promise<void> {
  const isOfUser = "user_id" in settings;
  const id = isOfUser ? directConversationId(me, settings.user_id) : settings.conversation_id;
  const row = await rows.row(id);
  if (!row) {
    return;
  }
  if (isOfUser) {
    await rows.setRow({ ...(row as Conversation), blocked: settings.set.blocked });
    return;
  }
  const { muted_until, mute_mentions, archived, unread, pinned } = settings.set;
  const { muted_until: mutedBefore, ...rest } = row;
  const mutedUntil = muted_until === undefined ? mutedBefore : muted_until;
  await rows.setRow({
    ...rest,
    ...(mutedUntil === undefined || mutedUntil === null ? {} : { muted_until: mutedUntil }),
    ...(mute_mentions === undefined || isOfChannel(row) ? {} : { mute_mentions }),
    ...(archived === undefined ? {} : { archived }),
    ...(unread === undefined ? {} : { marked_unread: unread }),
    ...(pinned === undefined ? {} : { pinned }),
  });
}

async function place(rows: Rows, id: string, seq: number, path: string | undefined): Promise<void> {
  const old = await rows.folded(id, seq);
  const { path: before, ...folded } = old ?? { changes: undefined };
  // The message can be deleted while its file comes.
  if (!old || !folded.changes || !hasMedia(old)) {
    if (path !== undefined) {
      rows.setUnneeded(path, true);
    }
    return;
  }
  if (path !== undefined && before !== undefined && before !== path) {
    rows.setUnneeded(before, true);
  }
  await rows.setFolded(id, seq, path === undefined ? folded : { ...folded, path }, old);
}

async function raise(rows: Rows, id: string, came: readonly Member[]): Promise<void> {
  if (came.length === 0) {
    return;
  }
  const members = new Map((await rows.members(id)).map((member) => [member.user_id, member]));
  for (const { user_id, delivered_seq, read_seq } of came) {
    const known = members.get(user_id);
    members.set(user_id, {
      ...known,
      user_id,
      delivered_seq: Math.max(known?.delivered_seq ?? 0, delivered_seq),
      read_seq: Math.max(known?.read_seq ?? 0, read_seq),
    });
  }
  await rows.setMembers(id, [...members.values()]);
}

/** Brings the list of members, if it came, up to a new entry. */
async function followMembers(rows: Rows, entry: Message): Promise<void> {
  if (rolesOf(entry).length === 0) {
    return;
  }
  const known = await rows.members(entry.conversation_id);
  if (known.some(({ joined }) => joined)) {
    await rows.setMembers(entry.conversation_id, changedMembers(known, entry));
  }
}

/** Replaces a row of the chat list, without the text of a message that the user can no longer see. */
async function setRow(rows: Rows, row: Conversation | Channel): Promise<void> {
  if (!row.last_message || row.last_message.seq >= (await rows.floor(row.conversation_id))) {
    await rows.setRow(row);
    return;
  }
  const { system: _, ...last_message } = row.last_message;
  await rows.setRow({ ...row, last_message: { ...last_message, preview: "" } });
}

/** Brings the chat list up to a new entry. A new conversation waits for its row from the server. */
async function list(rows: Rows, me: string, entry: Message): Promise<void> {
  const row = await rows.row(entry.conversation_id);
  if (!row || row.last_seq >= entry.seq) {
    return;
  }
  const next = { ...row, ...changesOf(row, entry, me), last_seq: entry.seq };
  if (counts(entry) || entry.kind === "system") {
    next.last_message = lastMessage(entry);
  }
  if (counts(entry) && entry.sender_id !== me && entry.deleted_at === undefined) {
    next.unread += 1;
    if ("mentions" in next && next.mentions !== undefined) {
      next.mentions += Number(names(entry, me));
    }
    if (isOfChannel(next) && names(entry, me)) {
      next.mentioned_seq = entry.seq;
    }
  }
  await setRow(rows, next);
}

/** Returns what a system entry changes in a group's row. */
function changesOf(row: Conversation | Channel, entry: Message, me: string): Partial<Conversation & Channel> {
  const { system } = entry;
  if (!system) {
    return {};
  }
  const standing = new Standing();
  standing.row(row);
  standing.entry(entry, me);
  const { role, memberCount: member_count, rules } = standing;
  const { join, ...info } = rules;
  return {
    ...info,
    ...(join === undefined || !isOfChannel(row) ? {} : { join }),
    ...(system.event === "info.changed" && system.title !== undefined ? { title: system.title } : {}),
    ...(role === undefined ? {} : { role }),
    ...(member_count === undefined ? {} : { member_count }),
  };
}

function lastMessage({ seq, sender_id, kind, body, sent_at, deleted_at, system }: Message): LastMessage {
  return {
    seq,
    sender_id,
    kind,
    preview: kind === "sealed" ? "" : [...body].slice(0, limits.PREVIEW_CHARS_MAX).join(""),
    sent_at,
    ...(deleted_at === undefined ? {} : { deleted: true }),
    ...(system ? { system } : {}),
  };
}
