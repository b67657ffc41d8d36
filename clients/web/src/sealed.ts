// The end-to-end encryption: an entry of its own, so that a page without it loads nothing of it.

import type { Lock } from "./chat/row.ts";
import type { Encryption } from "./config.ts";
import { PigeonholeError } from "./errors.ts";
import type { OpenedChange, Unreadable } from "./events.ts";
import { openFile, sealFile } from "./files.ts";
import type { Message, Opened as Proof } from "./frames.ts";
import type { Pigeonhole } from "./pigeonhole.ts";
import type { Keyring, Opened } from "./session/keyring.ts";
import { partyOf, SealedSession, type SecurityCall } from "./session/sealing.ts";
import type { Session, SessionOptions } from "./session/session.ts";

export type { Lock } from "./chat/row.ts";
export type { Notice, Unreadable } from "./events.ts";

/** The WebAssembly of the encryption, once loaded. */
type Sealing = typeof import("./wasm/sealing.js");

/** The bytes of a seed. */
const SEED_BYTES = 32;

/**
 * The private key of a user's identity. Its holder is the user. All devices of a user have the same identity. A user
 * without any of them begins with a new identity, and the contacts see that.
 *
 * A page can keep a secret no better than its server and its scripts allow.
 */
export class Keys implements Encryption {
  #sealing: Sealing;
  #seed: Uint8Array;

  private constructor(sealing: Sealing, seed: Uint8Array) {
    this.#sealing = sealing;
    this.#seed = seed;
  }

  /**
   * Makes a new identity, and loads the encryption. `wasm`: the file `@pigeonhole/client/sealing.wasm`, or its address,
   * if the platform can't fetch it from beside the program. Node can't.
   *
   * @throws `unsupported`: the platform has no WebAssembly, or the file can't be loaded.
   */
  static async generate(wasm?: BufferSource | URL): Promise<Keys> {
    return new Keys(await load(wasm), random());
  }

  /**
   * Takes what `export` returned, on this device or on another one. `wasm`: as in `generate`.
   *
   * @throws `config`: the seed has not 32 bytes. `unsupported`: as `generate`.
   */
  static async import(seed: Uint8Array, wasm?: BufferSource | URL): Promise<Keys> {
    if (seed.length !== SEED_BYTES) {
      throw new PigeonholeError("config", `a seed has ${SEED_BYTES} bytes`);
    }
    return new Keys(await load(wasm), seed.slice());
  }

  /** Returns the 32 bytes to keep, or to carry to another device of the user. */
  export(): Uint8Array {
    return this.#seed.slice();
  }

  /** @internal */
  readonly sealFile = sealFile;

  /** @internal */
  readonly openFile = openFile;

  /** @internal */
  session(options: SessionOptions, deviceId: string): Session {
    if (options.keeper !== "store") {
      throw new PigeonholeError("config", "a client with encryption needs a message store: use open");
    }
    const rows = JSON.stringify(Object.fromEntries(options.saved.sealing));
    try {
      const keyring = new this.#sealing.Keyring(options.me, deviceId, this.#seed, rows, random());
      return new SealedSession(options, keyringOf(keyring));
    } catch (cause) {
      throw new PigeonholeError("config", "the keys of this device can't be used", { cause });
    }
  }
}

/** A device of the user whose keys the server has. */
export interface OwnDevice {
  device: string;
  /** Its credential names the user's identity. */
  known: boolean;
  /** The number of its packages that are left. */
  left: number;
  /** The day on which the device was last connected. */
  seen_at: string;
}

/** The keys of other users, and of the user's own devices, of a client with encryption. */
export class Security {
  #pigeonhole: Pigeonhole;

  constructor(pigeonhole: Pigeonhole) {
    this.#pigeonhole = pigeonhole;
  }

  /** Returns how the conversation with this user is encrypted, or the group with this id. */
  lock(userOrGroup: string): Promise<Lock> {
    return this.#call({ lock: { with: partyOf(userOrGroup) } });
  }

  /** Returns the user whose new identity messages to this user or group wait for: see `accept`. */
  async held(userOrGroup: string): Promise<string | undefined> {
    return (await this.#call<string | null>({ held: { with: partyOf(userOrGroup) } })) ?? undefined;
  }

  /** Returns the number that both users compare, 12 groups of 5 digits. `undefined`: the user's identity is unknown. */
  async safetyNumber(userId: string): Promise<string | undefined> {
    return (await this.#call<string | null>({ safety_number: { peer: userId } })) ?? undefined;
  }

  /** Returns the 64 bytes of the safety number, for a QR code. Another device scans it and compares. */
  async safetyCode(userId: string): Promise<Uint8Array | undefined> {
    const code = await this.#call<string | null>({ safety_code: { peer: userId } });
    return code === null ? undefined : Uint8Array.from(atob(code), (letter) => letter.charCodeAt(0));
  }

  /** Returns whether the user has compared the safety number with this user's, whose identity is still the same. */
  isVerified(userId: string): Promise<boolean> {
    return this.#call({ is_verified: { peer: userId } });
  }

  /** The user has compared the safety number with this user's. */
  verify(userId: string): Promise<void> {
    return this.#call({ verify: { peer: userId } });
  }

  /** The user agrees to the new identity of this user. Messages that waited leave. */
  accept(userId: string): Promise<void> {
    return this.#call({ accept: { peer: userId } });
  }

  /** Begins the encryption of the conversation with this user anew, or of the group with this id. */
  reset(userOrGroup: string): Promise<void> {
    return this.#call({ reset: { with: partyOf(userOrGroup) } });
  }

  /** Returns the user's devices, as the server listed them after the last connect. */
  devices(): Promise<OwnDevice[]> {
    return this.#call({ devices: {} });
  }

  /** The user no longer has this device. */
  removeDevice(deviceId: string): Promise<void> {
    return this.#call({ remove_device: { device: deviceId } });
  }

  /** The session that has the keys can run in another tab. */
  async #call<T>(call: SecurityCall["call"]): Promise<T> {
    const request: SecurityCall = { action: "security", call };
    return (await this.#pigeonhole.engine.call(request as never)) as T;
  }
}

function random(): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(SEED_BYTES));
}

async function load(wasm: BufferSource | URL | undefined): Promise<Sealing> {
  if (typeof WebAssembly === "undefined") {
    throw new PigeonholeError("unsupported", "the encryption needs WebAssembly, which this platform does not have");
  }
  try {
    const sealing = await import("./wasm/sealing.js");
    await sealing.default(wasm && { module_or_path: wasm });
    return sealing;
  } catch (cause) {
    const remedy = "serve the file sealing_bg.wasm, and allow 'wasm-unsafe-eval' in the page's CSP";
    throw new PigeonholeError("unsupported", `the encryption can't be loaded: ${remedy}`, { cause });
  }
}

/** A variant of an enum of Rust, as JSON has it: its name, or one field with its name. */
type Variant = string | Record<string, unknown>;

/** A request of the keyring: its name there, its action and its fields. */
type Due = [key: unknown, [action: string, fields: object]];

/** Returns a keyring of WebAssembly, whose calls and results are JSON. */
function keyringOf(keyring: InstanceType<Sealing["Keyring"]>): Keyring {
  const call = (name: string, fields: object = {}) => JSON.parse(keyring.call(JSON.stringify({ [name]: fields })));
  call("carry_files");
  const notices = (all: Variant[]) =>
    all.map((one) => {
      const [name, fields] = variantOf(one);
      return { notice: name, ...(fields as object) };
    });
  return {
    takeChanges: () => call("take_changes"),
    connected: () => call("connected"),
    keysLow: (left) => call("keys_low", { left }),
    caughtUp: (now) => call("caught_up", { now }),
    created: (conversation) => call("created", { conversation }),
    franking: (on) => call("franking", { on }),
    requests: (now) => call("requests", { now }).map(([key, [action, fields]]: Due) => [key, { action, ...fields }]),
    answered: (key, reply, now) => {
      const answer = call("answered", { key, ...reply, now });
      return { notices: notices(answer.notices), entry: answer.entry ?? undefined };
    },
    wakeAt: () => call("wake_at") ?? undefined,
    take: (message, now) => {
      const taken = call("take", { message, now });
      const [name, value] = variantOf(taken.shown);
      return { shown: shownAs(name, value), notices: notices(taken.notices) };
    },
    position: (conversation) => call("position", { conversation }) ?? undefined,
    due: () => call("due"),
    met: (party, now) => call("met", { with: party, now }),
    prepare: (party, now) => named(call("prepare", { with: party, now })),
    sealed: (party, id) => call("sealed", { with: party, id }) ?? undefined,
    seal: (party, id, envelope) => call("seal", { with: party, id, ...envelope }),
    stale: (party, id, epoch, last_seq, now) => call("stale", { with: party, id, epoch, last_seq, now }),
    rekey: (party, id, left, now) => call("rekey", { with: party, id, left, now }),
    sent: (party, id, seq, now) => call("sent", { with: party, id, seq, now }),
    roll: (conversation, id, change, now) => named(call("roll", { conversation, id, change, now })),
    rolled: (conversation, id, outcome, now) => call("rolled", { conversation, id, ...outcome, now }),
    uploads: (now) =>
      call("uploads", { now }).map((upload: { data: string }) => ({ ...upload, data: bytesOf(upload.data) })),
    uploaded: ({ conversation, id, part }, media, now) => call("uploaded", { conversation, id, part, media, now }),
    fetches: (now) => call("fetches", { now }),
    fetched: (fetch, data, now) => call("fetched", { ...fetch, data: data && textOf(data), now }),
    security: (name, fields) => {
      const answer = call(name, fields);
      return name === "lock" ? variantOf(answer)[0] : answer;
    },
  };
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

function textOf(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) {
    text += String.fromCharCode(byte);
  }
  return btoa(text);
}

/** Returns a variant with its name in snake case. */
function named<T>(variant: Variant): T {
  const [name, value] = variantOf(variant);
  return (value === undefined ? name : { [name]: value }) as T;
}

function shownAs(name: string, value: unknown): Opened {
  switch (name) {
    case "plain": {
      const plain = value as { message: Message; names: string | null; proof: Proof | null };
      return { plain: changeOf(plain), ...(plain.proof ? { proof: plain.proof } : {}) };
    }
    case "unreadable":
      return { unreadable: variantOf(value as string)[0] as Unreadable };
    default:
      return name as Opened;
  }
}

/** Returns an edit or a reaction with the id of its target. A change that names none has its own id, which is no target's. */
function changeOf({ message, names }: { message: Message; names: string | null }): OpenedChange {
  const { target_seq, client_msg_id } = message;
  const id = names ?? client_msg_id;
  return target_seq === undefined || id === undefined ? message : { ...message, target_id: id };
}

/** Returns the name of a variant in snake case, and its value. */
function variantOf(variant: Variant): [name: string, value: unknown] {
  const [name, value] = typeof variant === "string" ? [variant, undefined] : (Object.entries(variant)[0] ?? []);
  return [(name ?? "").replace(/(?<=.)[A-Z]/g, "_$&").toLowerCase(), value];
}
