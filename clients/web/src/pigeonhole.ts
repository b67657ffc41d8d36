// The interface for apps.

import { Actions, type Sent } from "./actions.ts";
import type { Filter } from "./chat/conversations.ts";
import { Chat } from "./chat.ts";
import type { Config, Encryption } from "./config.ts";
import type { App } from "./driver.ts";
import { type Engine, LocalEngine } from "./engine.ts";
import { guarded, PigeonholeError } from "./errors.ts";
import type { ClientEvent, State } from "./events.ts";
import {
  type Channel,
  limits,
  type Message,
  type Presence,
  type Profile,
  type ProfileChange,
  type SendResult,
} from "./frames.ts";
import { localZone } from "./local-zone.ts";
import { directConversationId } from "./made-ids.ts";
import type { NewGroup, Registration, Report } from "./protocol.ts";
import type { Target } from "./saved.ts";
import { start } from "./start.ts";
import type { Storage } from "./store/database.ts";
import { indexedDbStorage } from "./store/indexeddb.ts";
import { memoryStorage } from "./store/memory.ts";
import { platform, Tabs } from "./tabs.ts";
import { type Changing, ChatList, OpenViews } from "./view.ts";

/**
 * Reads the messages and the outbox that the last client has saved, and connects in the background. Without a network,
 * all of that works, and the client waits for one.
 *
 * @throws `config`: the address or the device id can't work. `wrong_user`, `newer`, `storage_busy`, `storage`: the
 * storage can't be used.
 */
export async function open(config: Config): Promise<Pigeonhole> {
  const events = new Events();
  return new Pigeonhole(await engineOf(config, events), events, config.encrypted);
}

async function engineOf(config: Config, app: App): Promise<Engine> {
  const begin = (storage: Storage, app: App) => start(config, storage, "store", app);
  const tabs = platform();
  const isHere = typeof indexedDB !== "undefined" && tabs !== undefined;
  const storage = config.storage ?? (isHere ? indexedDbStorage(`${config.userId}@${config.url}`) : undefined);
  try {
    if (storage?.shared && tabs) {
      const { shared } = storage;
      return await Tabs.open({ me: config.userId, shared, platform: tabs, start: begin, app });
    }
    return new LocalEngine(await begin(storage ?? notKept(app), app));
  } catch (error) {
    // Some private windows have no IndexedDB that works.
    if (config.storage || !(error instanceof PigeonholeError) || error.code !== "storage") {
      throw error;
    }
    return new LocalEngine(await begin(notKept(app), app));
  }
}

/** Keeps everything in memory, as long as the page lives. */
function notKept(app: App): Storage {
  app.tell({ type: "not_kept" });
  return memoryStorage();
}

/** A user's client. The client connects by itself, and sends each request as soon as it has a connection. */
export class Pigeonhole {
  readonly userId: string;
  /** How the connection is doing. */
  readonly connection: Changing<State>;
  /** @internal */
  readonly engine: Engine;
  #actions: Actions;
  #views: OpenViews;
  #events: Events;
  /** The users of the direct conversations that the app has named, by the ids of these. */
  #peers = new Map<string, string>();

  /** @internal */
  constructor(engine: Engine, events: Events, encryption?: Encryption) {
    this.engine = engine;
    this.userId = engine.me;
    this.#actions = new Actions(engine, encryption);
    this.#views = new OpenViews(engine);
    this.#events = events;
    this.connection = events.connection;
    events.show = (view, shown) => this.#views.show(view, shown);
    engine.say({ zone: localZone(Date.now()) });
  }

  /** Opens a view of the chat list. The same filter returns the same view as long as it is open. */
  conversations(filter: Filter = {}): ChatList {
    const of = { chats: filter };
    return this.#views.find(of, () => new ChatList(this.#views, of));
  }

  /** Returns the direct conversation with this user, which need not exist yet. */
  direct(userId: string): Chat {
    const id = directConversationId(this.userId, userId);
    this.#peers.set(id, userId);
    return this.conversation(id);
  }

  /** Returns a conversation, which need not be known here. */
  conversation(id: string): Chat {
    const peer = this.#peers.get(id);
    const target: Target = peer === undefined ? { conversation_id: id } : { to: peer };
    return new Chat(id, target, this.#actions, this.#views);
  }

  /**
   * Creates a group with these members, or with `kind: "channel"` a channel. The chat list shows the new row before the
   * server has it. `stored` of the result has the `conversation_id`.
   */
  newGroup(group: NewGroup): Promise<Sent> {
    return this.#actions.create(group);
  }

  /** Searches the messages on this device for these words, the last one perhaps not complete. The newest come first. */
  search(words: string, limit = 50): Promise<Message[]> {
    return this.engine.search(words, limit);
  }

  /**
   * Tries a message or a change again that the server refused for good, and that a view shows as failed.
   *
   * @throws `bad_request`: no such request was refused. A code of the protocol: the server refused it again.
   */
  async again(clientMsgId: string): Promise<SendResult> {
    return (await this.engine.again(clientMsgId)) as SendResult;
  }

  /** Removes a message or a change that the server refused for good. */
  dismiss(clientMsgId: string): void {
    this.engine.say({ dismiss: clientMsgId });
  }

  /** Cancels a message whose file is being uploaded. Returns `false` if the upload is complete. */
  cancel(clientMsgId: string): Promise<boolean> {
    return this.#actions.cancel(clientMsgId);
  }

  /** Downloads a message's attachment and checks its digest. See `Actions.download`. */
  download(message: { kind: string; media?: Message["media"] | undefined }, signal?: AbortSignal): Promise<Blob> {
    const { kind, media } = message;
    return this.#actions.download({ kind, ...(media ? { media } : {}) }, signal);
  }

  /** Blocks a user, or no longer. */
  block(userId: string, blocked: boolean): Promise<void> {
    return this.#actions.settings({ user_id: userId, set: { blocked } });
  }

  /**
   * Reports messages, a conversation or a user to the operator, who gets copies of the messages. The members
   * learn nothing of it. Returns the report's id, which is the same for the same report.
   */
  report({ conversationId, seqs, userId, reason, note, claimed }: Report): Promise<string> {
    return this.#actions.report({
      reason,
      ...(conversationId === undefined ? {} : { conversation_id: conversationId }),
      ...(seqs === undefined ? {} : { seqs }),
      ...(userId === undefined ? {} : { user_id: userId }),
      ...(note === undefined ? {} : { note }),
      ...(claimed === undefined ? {} : { claimed }),
    });
  }

  /**
   * Returns which of these users (1 to 20) are online, and when the others last were. The view of a direct conversation
   * follows its peer by itself.
   */
  presence(userIds: string[]): Promise<Presence[]> {
    return this.#actions.presence(userIds);
  }

  /**
   * From now on, the content of views has `names`: the known ones of the users in it. The client requests the name of a
   * user when a view shows the user, and again after a day. Servers without profiles have none.
   */
  showNames(): void {
    this.engine.say({ names: true });
  }

  /** Returns the profiles of these users and services that have one. */
  async profiles(userIds: string[]): Promise<Profile[]> {
    const all: Profile[] = [];
    for (let left = userIds; left.length > 0; ) {
      const page = await this.#actions.profiles(left.slice(0, limits.PROFILES_MAX));
      all.push(...page.profiles.filter((profile) => "user_id" in profile));
      left = [...page.left, ...left.slice(limits.PROFILES_MAX)];
    }
    return all;
  }

  /** Changes the user's own profile. A field that is left out stays, and `null` removes it. */
  async setProfile(set: ProfileChange): Promise<void> {
    await this.#actions.setProfile(set);
  }

  /** Returns all of the user's channels. The chat list has them too. */
  async channels(): Promise<Channel[]> {
    const all: Channel[] = [];
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = await this.#actions.channels({ cursor });
      all.push(...page.conversations);
      cursor = page.next_cursor;
    }
    return all;
  }

  /** Registers this device for push notifications, or with `null`, as at a logout, removes the registration. */
  registerDevice(registration: Registration | null): Promise<void> {
    return this.#actions.registerDevice(registration);
  }

  /** Calls the listener with each event, such as a message to ring for, until the returned function is called. */
  onEvent(listener: (event: ClientEvent) => void): () => void {
    return this.#events.listenFromStart(listener);
  }

  /** The app is in the foreground again: the client retries now whatever waits. Browsers need no call of it. */
  wake(): void {
    this.#actions.wake();
  }

  /** Closes the connection. The outbox keeps its content. When it resolves, another client may use the storage. */
  close(): Promise<void> {
    return this.engine.close();
  }
}

/** Hands on what the engine reports. */
export class Events implements App {
  show: NonNullable<App["show"]> = () => {};
  #listeners = new Set<(event: ClientEvent) => void>();
  /** Events about the storage, from before the app could listen. */
  #early: ClientEvent[] = [];
  #state: State = { state: "connecting" };

  readonly connection: Changing<State> = {
    subscribe: (listener) =>
      this.listen(({ type }) => {
        if (type === "state") {
          listener();
        }
      }),
    getSnapshot: () => this.#state,
  };

  tell(event: ClientEvent): void {
    if (event.type === "state") {
      const { type: _, ...state } = event;
      this.#state = state;
    }
    if (event.type === "storage" || event.type === "not_kept") {
      this.#early.push(event);
    }
    for (const listener of [...this.#listeners]) {
      guarded(() => listener(event));
    }
  }

  /** The first listener also gets what it could not hear. */
  listenFromStart(listener: (event: ClientEvent) => void): () => void {
    const early = this.#early.splice(0);
    queueMicrotask(() => early.forEach(listener));
    return this.listen(listener);
  }

  listen(listener: (event: ClientEvent) => void): () => void {
    const call = (event: ClientEvent) => listener(event);
    this.#listeners.add(call);
    return () => {
      this.#listeners.delete(call);
    };
  }
}
