// Items and rows, as the scripts write them.

import { expect } from "vitest";
import type { Item, MessageItem, Progress, Signal } from "../src/chat/item.ts";
import type { ChatRow } from "../src/chat/row.ts";

const words = (...all: (string | number | false | undefined)[]) =>
  all.filter((word) => word !== undefined && word !== false && word !== "").join(" ");
const again = (canHelp: boolean) => canHelp && "again";

export function briefItem(item: Item): string {
  const { key } = item;
  switch (item.type) {
    case "day":
      expect(key).toBe(`d${item.day}`);
      return key;
    case "unread":
      return `${key} ${item.count}`;
    case "gap":
      expect(key).toBe(`g${item.afterSeq}`);
      return `${key} to ${item.beforeSeq}`;
    case "system":
      expect(key).toBe(`s${item.seq}`);
      return `${key} ${item.senderId} ${item.event.event}`;
    case "unreadable":
      return `${key} ${item.senderId} ${item.why}`;
    case "message":
      return `${key} ${briefMessage(item)}`;
  }
}

function briefMessage({ senderId, progress, editedAt, body, deletedBy, reactions, ...item }: MessageItem): string {
  const each = reactions.map(({ emoji, count, mine }) => `${emoji}:${count}${mine ? ":mine" : ""}`);
  const { reply, refused } = item;
  return words(
    progress ? briefProgress(progress) : senderId,
    item.kind.startsWith("x-") && item.kind,
    item.data && JSON.stringify(item.data),
    editedAt !== undefined && `edited ${body}`,
    deletedBy !== undefined && `deleted by ${deletedBy}`,
    each.length > 0 && `with ${each.join("+")}`,
    reply && briefReply(reply),
    item.signals.length > 0 && `signals ${item.signals.map(briefSignal).join("+")}`,
    item.isChanging && "changing",
    refused && words("refused", refused.code, again(refused.canHelp)),
  );
}

function briefSignal({ senderId, data }: Signal): string {
  return `${senderId}:${JSON.stringify(data)}`;
}

function briefReply({ seq, message }: NonNullable<MessageItem["reply"]>): string {
  return message ? `to ${seq} ${message.deleted_at === undefined ? message.body : "deleted"}` : "to nothing";
}

function briefProgress(progress: Progress): string {
  switch (progress.state) {
    case "uploading":
      return `own uploading ${progress.done}/${progress.of}`;
    case "failed":
      return words("own failed", progress.code, again(progress.canHelp));
    default:
      return `own ${progress.state}`;
  }
}

export function briefRow(row: ChatRow): string {
  const { line } = row;
  return words(
    row.key,
    row.title,
    row.unread > 0 && `${row.unread} unread`,
    row.mentions > 0 && `${row.mentions} mentions`,
    row.isMuted && "muted",
    row.isPinned && "pinned",
    row.isBlocked && "blocked",
    row.isClosed && "closed",
    row.presence?.online && "online",
    row.failed !== undefined && `failed ${row.failed}`,
    row.draft && `draft ${row.draft.body}`,
    ...row.typing.map((user) => words(user, "types", row.texts[user])),
    line && "|",
    line?.seq,
    line && (line.progress ? briefProgress(line.progress) : line.senderId),
    line && (line.event?.event ?? (line.kind !== "text" && line.kind)),
    line && (line.isDeleted ? "deleted" : line.text),
  );
}
