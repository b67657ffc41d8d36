// Errors that are final. What may pass is tried again, and is no error.

import type { ErrorCode } from "./frames.ts";

/**
 * Why a request failed for good: a code of the protocol, whose message is the server's, or one of the client's own.
 *
 * - `closed`: the client has been closed. A message that is in the outbox is sent by the next client that opens it.
 * - `storage`: the outbox could not be read or written; `cause` says why.
 * - `storage_busy`: another client, in another tab perhaps, has this storage.
 * - `unreadable`: this version can't read the server's answer.
 * - `config`: the configuration can't work.
 * - `cancelled`: the app has cancelled the upload.
 * - `file`: what a message carries can't be read, is not what was announced, or can't be fetched.
 * - `unwatched`: the app has ended the watch before the server has answered.
 */
export type PigeonholeErrorCode =
  | ErrorCode
  | "closed"
  | "storage"
  | "storage_busy"
  | "unreadable"
  | "config"
  | "unwatched"
  | "cancelled"
  | "file";

export class PigeonholeError extends Error {
  override readonly name = "PigeonholeError";
  readonly code: PigeonholeErrorCode;

  constructor(code: PigeonholeErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}
