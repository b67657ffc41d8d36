// Permanent errors. The client retries temporary ones itself.

import type { ErrorCode } from "./frames.ts";

/**
 * The reason why a request failed for good: a code of the protocol, with the server's text, or a code of the client.
 *
 * - `closed`: the client has been closed. The next client that opens the outbox sends the messages in it.
 * - `storage`: the outbox could not be read or written; `cause` has the reason.
 * - `storage_busy`: another client, in another tab perhaps, has this storage.
 * - `wrong_user`: the storage has the data of another user.
 * - `newer`: a later version of the app wrote the storage. Load that version.
 * - `unreadable`: this version can't read the server's reply.
 * - `config`: the configuration can't work.
 * - `unsupported`: the platform has no WebAssembly, or can't load the file of the encryption.
 * - `cancelled`: the app has cancelled the upload.
 * - `file`: an attachment can't be read, differs from its announcement, or can't be fetched.
 * - `unwatched`: the app has ended the subscription before the server has replied.
 */
export type PigeonholeErrorCode =
  | ErrorCode
  | "closed"
  | "storage"
  | "storage_busy"
  | "wrong_user"
  | "newer"
  | "unreadable"
  | "config"
  | "unsupported"
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

/** Calls code of the app. The client goes on after an error of it, which the platform reports. */
export function guarded(call: () => void): void {
  try {
    call();
  } catch (error) {
    const { reportError } = globalThis as Partial<typeof globalThis>;
    if (reportError) {
      reportError(error);
    } else {
      queueMicrotask(() => {
        throw error;
      });
    }
  }
}
