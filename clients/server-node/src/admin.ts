import { result, type Transport } from "./calls.ts";
import type { Message, ProfileChange, ProfileResult, SendResult } from "./types.ts";

/** Each operators' request, with its fields and its result. docs/operating.md explains them. */
export interface Operations {
  connections: [{ user_id: string }, { connections: Connection[]; suspended_until: string | null }];
  pending: [{ user_id: string }, { conversations: Pending[]; more: boolean }];
  conversation: [{ user_ids: [string, string] }, { conversation_id: string; rows: Row[] }];
  find: [
    { user_ids?: [string, string]; conversation_id?: string; at: string },
    { conversation_id: string; entries: Found[] },
  ];
  logged_as: [{ id: string }, { logged_as: string }];
  kick: [{ user_id: string }, { closed: number }];
  suspend: [{ user_id: string; until: string }, { closed: number }];
  unsuspend: [{ user_id: string }, Nothing];
  delete_message: [{ conversation_id: string; seq: number }, SendResult];
  profile: [{ user_id: string; set: ProfileChange }, ProfileResult];
  reports: [{ month: string; cursor?: string }, { reports: Report[]; next_cursor: string | null }];
  report_close: [{ month: string; report_id: string; outcome: string }, Nothing];
  replay: [{ conversation_id: string; from_seq: number; to_seq: number }, { events: number }];
  erase: [{ user_id: string; reason?: string }, { job_id: string; erased_id: string }];
  erase_again: [{ since: string }, { jobs: number }];
  hold: [{ user_id?: string; conversation_id?: string; on: boolean }, Nothing];
  job: [{ job_id: string; again?: boolean }, Job];
  repair: [{ conversation_id?: string; since?: string; behind?: string; log?: unknown }, Record<string, unknown>];
}

type Nothing = Record<string, never>;

export interface Job {
  op: string;
  state: "queued" | "running" | "done" | "failed";
  counts: Record<string, number>;
  /** When no backup has the data any more. */
  complete_at?: string;
}

export interface Connection {
  connection_id: string;
  device_id: string | null;
  connected_at: string;
  ends_at: string;
}

/** A conversation with entries that no device of the user has acknowledged. */
export interface Pending {
  conversation_id: string;
  /** The other user of a direct conversation. */
  peer_id: string | null;
  pending_from: number;
  last_seq: number;
  last_sent_at: string;
}

/** A user's row of a conversation, without texts. */
export interface Row {
  user_id: string;
  last_seq: number;
  last_sent_at: string;
  delivered_seq: number;
  delivered_at: string | null;
  read_seq: number;
  read_at: string | null;
  unread: number;
  pending_from: number | null;
  muted_until: string | null;
  archived: boolean;
  marked_unread: boolean;
  blocked: boolean;
}

/** An entry, without its text. */
export type Found = Pick<Message, "seq" | "sender_id" | "kind" | "sent_at">;

/** A user's report, with copies of the messages as they were then. */
export interface Report {
  report_id: string;
  at: string;
  reporter_id: string;
  conversation_id?: string;
  seqs?: number[];
  user_id?: string;
  reason: string;
  note?: string;
  /** By the reporter's word. */
  claimed?: string;
  /** A proved sealed message has `plaintext` in base64, and `verified`. */
  messages?: (Message & { plaintext?: string; verified?: boolean })[];
}

/** The operators' requests. */
export class Admin {
  #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  ask<Op extends keyof Operations>(op: Op, fields: Operations[Op][0]): Promise<Operations[Op][1]> {
    return result(this.#transport, { op, ...fields }) as Promise<Operations[Op][1]>;
  }

  /** Yields the open reports of a month such as `2026-11`, of all pages. */
  async *reports(month: string): AsyncGenerator<Report> {
    let cursor: string | null = null;
    do {
      const page: Operations["reports"][1] = await this.ask("reports", { month, ...(cursor !== null && { cursor }) });
      yield* page.reports;
      cursor = page.next_cursor;
    } while (cursor !== null);
  }
}
