// The content of the storage under a store, after deletes, damage and kills.

import "fake-indexeddb/auto";
import { describe, expect, it } from "vitest";
import { TABLES } from "../src/store/database.ts";
import { indexedDbStorage } from "../src/store/indexeddb.ts";
import { keyValueStorage } from "../src/store/key-value.ts";
import { Store } from "../src/store/store.ts";
import type { Write } from "../src/store/types.ts";
import { change, pageOf, queued, row, strings, text } from "./store-writes.ts";

function opened(name: string, version?: number, upgrade?: (database: IDBDatabase) => void): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(`pigeonhole:${name}`, version);
    request.onupgradeneeded = () => upgrade?.(request.result);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** Returns all that an IndexedDB has. */
async function dump(name: string): Promise<string> {
  const database = await opened(name);
  const transaction = database.transaction([...database.objectStoreNames]);
  const all = [...database.objectStoreNames].map(
    (store) =>
      new Promise((resolve) => {
        const request = transaction.objectStore(store).getAll();
        request.onsuccess = () => resolve(request.result);
      }),
  );
  const rows = JSON.stringify(await Promise.all(all));
  database.close();
  return rows;
}

describe.each(["in IndexedDB", "in strings"])("a deleted text, %s,", (kind) => {
  it("is in no row any more", async () => {
    const store = strings();
    const storage = kind === "in strings" ? keyValueStorage(store, "alice") : indexedDbStorage("canary");
    const all = async () => (kind === "in strings" ? [...store.all.values()].join("\n") : await dump("canary"));
    const kept = await Store.open(storage, "alice");
    const names = ["deleted", "edited", "floored", "trimmed", "erased", "drafted", "early", "sealing"];
    const words = names.map((word) => `canary${word}`);
    const [deleted = "", edited = "", floored = "", trimmed = "", erased = "", drafted = "", early = "", key = ""] =
      words;
    const rest = (body: string) => ({ ...text(3, body), later: `repeats ${body}` });
    const to = { conversation_id: "dm_ab" };
    await kept.apply(
      [
        { row: row("dm_ab", 8, deleted) },
        ...[text(1, floored), text(2, trimmed), rest(edited), text(8, deleted)].map((entry) => ({ entry })),
        pageOf({}, [text(7, erased)], true, 8),
        { entry: { ...change(5, "edit", 6), body: early } },
        { draft: { target: to, draft: { body: drafted } } },
        { sealing: { key: "device", value: key } },
        { sealing: { key: "group", value: key } },
      ],
      false,
    );
    // The control: each is found as long as it is there.
    for (const word of words) {
      expect(await all(), word).toContain(word);
    }
    const gone: Write[] = [
      { entry: change(9, "delete", 8) },
      { entry: { ...change(10, "edit", 3), body: "another" } },
      { entry: change(11, "delete", 6) },
      { floor: { conversation_id: "dm_ab", first_seq: 2 } },
      { trim: { conversation_id: "dm_ab", first_seq: 3 } },
      pageOf({}, [{ ...text(7, ""), deleted_at: text(12, "").sent_at, deleted_by: "@erased" }], true, 12),
      { draft: { target: to } },
      { sealing: { key: "device", value: "AA==" } },
      { sealing: { key: "group" } },
    ];
    await kept.apply(gone, false);
    const left = await all();
    expect(words.filter((word) => left.includes(word))).toEqual([]);
    expect((await kept.saved()).sealing).toEqual(new Map([["device", "AA=="]]));
    await kept.close();
  });
});

describe("a store that can't be used", () => {
  it("of a later version is refused, and stays as it is", async () => {
    (await opened("later", 99)).close();
    await expect(Store.open(indexedDbStorage("later"), "alice")).rejects.toMatchObject({ code: "newer" });
    (await opened("later", 99)).close();
    const store = strings();
    store.setItem("pigeonhole:alice", JSON.stringify({ version: 3, parts: ["meta:0"] }));
    await expect(Store.open(keyValueStorage(store, "alice"), "alice")).rejects.toMatchObject({ code: "newer" });
    expect(store.all.size).toBe(1);
  });

  it("of the first version keeps its content, and can be encrypted", async () => {
    const database = await opened("first", 4, (upgraded) => {
      for (const table of TABLES.filter((table) => table !== "sealing")) {
        upgraded.createObjectStore(table);
      }
    });
    const transaction = database.transaction(["meta", "outbox"], "readwrite");
    transaction.objectStore("meta").put("device-1", "device");
    transaction.objectStore("outbox").put({ queued: queued("a") }, 1);
    await new Promise((resolve) => {
      transaction.oncomplete = resolve;
    });
    database.close();
    const store = await Store.open(indexedDbStorage("first"), "alice");
    await store.apply([{ sealing: { key: "group", value: "AA==" } }], true);
    const { outbox, sealing } = await store.saved();
    expect([store.deviceId, outbox, sealing]).toEqual(["device-1", [queued("a")], new Map([["group", "AA=="]])]);
    await store.close();
  });

  it("since it is damaged is replaced, and its outbox and drafts stay", async () => {
    const storage = indexedDbStorage("damaged");
    const first = await Store.open(storage, "alice");
    const draft = { target: { to: "bob" }, draft: { body: "Dear" } };
    await first.apply([{ change: { queued: queued("a") } }, { draft }, { row: row("dm_ab", 1) }], true);
    await first.close();
    const database = await opened("damaged");
    const transaction = database.transaction(["conversation", "outbox"], "readwrite");
    transaction.objectStore("conversation").put({ num: 2, listed: {} }, "dm_xy");
    transaction.objectStore("outbox").put("nothing", 9);
    await new Promise((resolve) => {
      transaction.oncomplete = resolve;
    });
    database.close();
    const second = await Store.open(storage, "alice");
    expect(second.setAside).toBe("");
    expect((await second.saved()).outbox).toEqual([queued("a")]);
    expect([await second.drafts(), await second.chats()]).toEqual([[draft], []]);
    await second.close();
    const third = await Store.open(storage, "alice");
    expect([third.setAside, (await third.saved()).outbox]).toEqual([undefined, [queued("a")]]);
    await third.close();
  });

  it("since a string is damaged is copied, and begins anew", async () => {
    const store = strings();
    const storage = keyValueStorage(store, "alice");
    const first = await Store.open(storage, "alice");
    await first.apply([{ change: { queued: queued("a") } }], true);
    const [name = ""] = [...store.all.keys()].filter((key) => key.includes("outbox"));
    store.setItem(name, '[["outb');
    const second = await Store.open(storage, "alice");
    expect([second.setAside, (await second.saved()).outbox]).toEqual(["pigeonhole:alice:unreadable", []]);
    expect(store.all.get(`${name}:unreadable`)).toBe('[["outb');
  });
});

it("has each turn as a whole in strings, whichever write is the last", async () => {
  const turns: Write[][] = [
    [{ row: row("dm_ab", 1) }, { entry: text(2, "two") }, { change: { queued: queued("a") } }],
    [
      { entry: text(3, "three") },
      { change: { done: "a" } },
      { change: { held: { conversation_id: "dm_ab", seq: 3 } } },
    ],
  ];
  const content = async (store: Store) =>
    JSON.stringify([await store.chats(), await store.window("dm_ab", {}, 9), await store.saved()]);
  const whole: string[] = [];
  const memory = await Store.open(keyValueStorage(strings(), "alice"), "alice");
  for (const turn of [[], ...turns]) {
    await memory.apply(turn, true);
    whole.push(await content(memory));
  }
  let isCut = true;
  for (let writes = 0; isCut; writes += 1) {
    const store = strings();
    let left = writes + 1000;
    const limited =
      <Rest extends string[]>(write: (key: string, ...rest: Rest) => unknown) =>
      (key: string, ...rest: Rest) => {
        if (left === 0) {
          throw new Error("the app was killed");
        }
        left -= 1;
        write(key, ...rest);
      };
    const killed = { ...store, setItem: limited(store.setItem), removeItem: limited(store.removeItem) };
    const first = await Store.open(keyValueStorage(killed, "alice"), "alice");
    left = writes;
    let committed = 0;
    isCut = false;
    for (const turn of turns) {
      try {
        await first.apply(turn, true);
        committed += 1;
      } catch {
        isCut = true;
        break;
      }
    }
    isCut ||= left === 0;
    const second = await Store.open(keyValueStorage(store, "alice"), "alice");
    // Each reported turn is there. The next one may be, as a whole.
    expect(whole.slice(committed, committed + 2)).toContain(await content(second));
  }
});
