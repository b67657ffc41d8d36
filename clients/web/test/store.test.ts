// The rules of the store: any order gives the same result, and the spans show what is missing.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Message } from "../src/frames.ts";
import { Store } from "../src/store/store.ts";
import type { Write } from "../src/store/types.ts";
import { wordsOf } from "../src/store/words.ts";
import { change, channel, pageOf, queued, row, storages, text, withImage, writes } from "./store-writes.ts";

/** Hundreds of messages take long in an IndexedDB without a database, on a busy machine. */
const LARGE_MS_MAX = 60_000;

const of = (...messages: Message[]): Write[] => messages.map((entry) => ({ entry }));

for (const [name, make] of storages) {
  describe(name, () => {
    const open = () => Store.open(make(), "alice");

    it("shows what is missing by its spans, which meet", async () => {
      const store = await open();
      const spans = async () => (await store.window("dm_ab", {}, 0)).spans.map(({ from, to }) => [from, to]);
      await store.apply(of(text(20, "hi"), text(21, "ho")), false);
      expect(await spans()).toEqual([[20, 21]]);
      await store.apply([pageOf({ before_seq: 15 }, [text(12, "a"), text(14, "b")], true, 21)], false);
      expect(await spans()).toEqual([
        [12, 14],
        [20, 21],
      ]);
      await store.apply([pageOf({ after_seq: 14 }, [text(15, "c")], true, 21)], false);
      expect(await spans()).toEqual([
        [12, 15],
        [20, 21],
      ]);
      // An entry that can't be read leaves no gap: the server has no other.
      await store.apply([pageOf({}, [text(16, "d"), text(22, "e")], true, 22)], false);
      expect(await spans()).toEqual([[12, 22]]);
      await store.apply([pageOf({ before_seq: 12 }, [text(3, "f")], false, 22)], false);
      expect(await spans()).toEqual([[1, 22]]);
      const seqs = async (...args: Parameters<Store["window"]>) =>
        (await store.window(...args)).messages.map(({ seq }) => seq);
      expect(await seqs("dm_ab", {}, 2)).toEqual([21, 22]);
      expect(await seqs("dm_ab", { before_seq: 15 }, 2)).toEqual([12, 14]);
      expect(await seqs("dm_ab", { after_seq: 15 }, 2)).toEqual([16, 20]);
      await store.close();
    });

    it("reads a whole page where the newest seqs have few messages", async () => {
      const store = await open();
      // The entries 7 to 11 can't be read. The page has them all the same, so its span has no gap.
      const all = [1, 2, 3, 4, 5, 6, 12].map((seq) => text(seq, "hi"));
      await store.apply([pageOf({}, all, false, 12)], false);
      const found = async (limit: number) => (await store.window("dm_ab", {}, limit)).messages.map(({ seq }) => seq);
      expect((await store.window("dm_ab", {}, 0)).spans).toEqual([{ from: 1, to: 12 }]);
      expect(await found(4)).toEqual([4, 5, 6, 12]);
      expect(await found(1)).toEqual([12]);
      expect(await found(12)).toEqual([1, 2, 3, 4, 5, 6, 12]);
      const before = await store.window("dm_ab", { before_seq: 12 }, 3);
      expect(before.messages.map(({ seq }) => seq)).toEqual([4, 5, 6]);
      await store.close();
    });

    it("keeps the proof of a text as long as the text", async () => {
      const store = await open();
      const message: Message = { ...text(1, "bye"), epoch: 1 };
      const edit = (seq: number, sender_id: string): Message => {
        return { ...change(seq, "edit", 1), sender_id, version: seq, epoch: 1 };
      };
      const proofOf = (seq: number, of = 1): Write => {
        const proof = { seq, key: "Bw==", plaintext: "CA==" };
        return { proof: { conversation_id: "dm_ab", seq: of, proof } };
      };
      const seqs = async () => {
        const found = await store.load({ load: "proofs", conversation_id: "dm_ab", seqs: [1, 9] });
        return found.found === "proofs" && found.proofs.map(({ seq }) => seq);
      };
      // The edits are before their message here, and one of them is by a user who must not.
      await store.apply([...of(edit(2, message.sender_id)), proofOf(2), ...of(edit(3, "zoe")), proofOf(3)], false);
      expect(await seqs()).toEqual([]);
      await store.apply([...of(message), proofOf(1)], false);
      expect(await seqs()).toEqual([2]);
      await store.apply([...of(edit(4, message.sender_id)), proofOf(4), proofOf(4)], false);
      expect(await seqs()).toEqual([4]);
      await store.apply([...of(change(5, "delete", 1)), proofOf(4)], false);
      expect(await seqs()).toEqual([]);
      await store.apply([...of({ ...text(9, "hi"), epoch: 1 }), proofOf(9, 9)], false);
      expect(await seqs()).toEqual([9]);
      await store.apply(of(change(10, "delete", 9)), false);
      expect(await seqs()).toEqual([]);
      await store.close();
    });

    it("brings the chat list up to the entries", async () => {
      let store = await open();
      const line = async () => {
        const [{ last_message, unread, last_seq } = row("", 0)] = await store.chats();
        return [last_message.preview, last_message.deleted ?? false, unread, last_seq];
      };
      await store.apply([{ row: row("dm_ab", 1, "one") }, ...of(text(2, "two"))], false);
      expect(await line()).toEqual(["two", false, 2, 2]);
      await store.apply(of({ ...change(3, "edit", 2, "2"), version: 2 }), false);
      expect(await line()).toEqual(["2", false, 2, 3]);
      await store.apply([{ read: { conversation_id: "dm_ab", seq: 3, unread: 0 } }], false);
      await store.apply(of(change(4, "delete", 2)), false);
      expect(await line()).toEqual(["", true, 0, 4]);
      // The server's row from before the delete.
      const [now = row("", 0)] = await store.chats();
      const old = { ...now, last_seq: 3, last_message: { ...now.last_message, preview: "2", deleted: false } };
      await store.apply([{ row: old }], false);
      expect(await line()).toEqual(["", true, 0, 4]);
      await store.close();
      // A row whose message the store lacks.
      store = await open();
      await store.apply([{ row: old }, ...of(change(4, "delete", 2))], false);
      expect(await line()).toEqual(["", true, 0, 4]);
      await store.close();
    });

    it("brings a channel up to its entries, and forgets it", async () => {
      const store = await open();
      const shown = async () => {
        const [{ title, role, unread, read_seq, last_message, archived } = channel(0)] = await store.channels();
        return [title, role, unread, read_seq, last_message?.preview, archived ?? false];
      };
      await store.apply([{ row: channel(1) }, ...of(text(2, "two", "ch_n"))], false);
      expect(await shown()).toEqual(["News", "member", 2, 0, "two", false]);
      const change = { event: "info.changed", title: "Sea", post: "all" } as const;
      const renamed: Message = { ...text(3, "", "ch_n"), kind: "system", system: change };
      await store.apply([{ read: { conversation_id: "ch_n", seq: 2, unread: 0 } }, { entry: renamed }], false);
      const archived = { conversation_id: "ch_n", set: { archived: true } };
      await store.apply([{ settings: archived }, { change: { read: { conversation_id: "ch_n", seq: 3 } } }], false);
      // An older row changes nothing.
      await store.apply([{ row: channel(2) }], false);
      expect(await shown()).toEqual(["Sea", "member", 0, 3, "", true]);
      expect([(await store.channels())[0]?.post, await store.chats()]).toEqual(["all", []]);
      await store.apply([{ gone: "ch_n" }], false);
      expect([await store.channels(), await store.window("ch_n", {}, 9)]).toEqual([[], { messages: [], spans: [] }]);
      await store.close();
    });

    it("brings the members up to the entries, once their list has come", async () => {
      const store = await open();
      const entry = (seq: number, sender_id: string, system: Message["system"]): Write => ({
        entry: { ...text(seq, "", "gr_xy", sender_id), kind: "system", ...(system ? { system } : {}) },
      });
      const member = (user_id: string, role: "owner" | "member") => ({ user_id, role, joined_seq: 1 });
      await store.apply([entry(2, "bob", { event: "members.added", members: ["carol"] })], false);
      expect(await store.members("gr_xy")).toEqual([]);
      const members = [member("alice", "member"), member("bob", "owner"), member("carol", "member")];
      await store.apply(
        [
          { members: { conversation_id: "gr_xy", members } },
          entry(3, "bob", { event: "members.removed", members: ["carol"] }),
          entry(4, "bob", { event: "members.added", members: ["dave"] }),
          entry(5, "bob", { event: "role.changed", user_id: "alice", role: "owner" }),
          entry(6, "dave", { event: "member.left" }),
          entry(7, "alice", { event: "members.added", members: ["dave"] }),
        ],
        false,
      );
      const known = (await store.members("gr_xy")).map(({ user_id, joined }) => [
        user_id,
        joined?.role,
        joined?.joined_seq,
      ]);
      expect(known).toEqual([
        ["alice", "owner", 1],
        ["bob", "admin", 1],
        ["dave", "member", 7],
      ]);
      await store.close();
    });

    it("takes the title, the rules, the role and the number of members from the entries of a group", async () => {
      const store = await open();
      const group = { ...row("gr_xy", 1), title: "Trip", role: "member", member_count: 3, post: "all" } as const;
      await store.apply([{ row: group }], false);
      const system = (seq: number, what: Message["system"]) => ({
        ...text(seq, "", "gr_xy"),
        kind: "system",
        ...(what ? { system: what } : {}),
      });
      const rowAfter = async (...entries: Message[]) => {
        await store.apply(of(...entries), false);
        const [{ title, role, member_count, post } = group] = await store.chats();
        return [title, role, member_count, post];
      };
      const renamed = system(2, { event: "info.changed", title: "Sea", post: "admins" });
      expect(await rowAfter(renamed)).toEqual(["Sea", "member", 3, "admins"]);
      const raised = system(3, { event: "role.changed", user_id: "alice", role: "admin" });
      expect(await rowAfter(raised, system(4, { event: "role.changed", user_id: "bob", role: "owner" }))).toEqual([
        "Sea",
        "admin",
        3,
        "admins",
      ]);
      const added = system(5, { event: "members.added", members: ["dave", "erin"] });
      expect(await rowAfter(added, system(6, { event: "member.left" }))).toEqual(["Sea", "admin", 4, "admins"]);
      const removed = system(7, { event: "members.removed", members: ["alice"] });
      expect(await rowAfter(removed)).toEqual(["Sea", "none", 3, "admins"]);
      expect(await rowAfter(system(8, { event: "members.added", members: ["alice"] }))).toEqual([
        "Sea",
        "member",
        4,
        "admins",
      ]);
      // An entry of a page that is older than the row changes nothing.
      await store.apply([pageOf({}, [system(2, { event: "info.changed", title: "Old" })], true, 8)], false);
      expect((await store.chats())[0]?.title).toBe("Sea");
      await store.close();
    });

    it("keeps no text that comes after its delete", async () => {
      const store = await open();
      await store.apply(of(change(4, "delete", 2)), false);
      await store.apply([pageOf({}, [text(2, "secret")], true, 3)], false);
      const { messages } = await store.window("dm_ab", {}, 9);
      expect(messages).toMatchObject([{ body: "", deleted_at: text(4, "").sent_at }]);
      expect(await store.search("secret", 9)).toEqual([]);
      await store.close();
    });

    it(
      "hides what is below a floor, and removes it in parts",
      async () => {
        const store = await open();
        const entries = Array.from({ length: 1200 }, (_, at) => withImage(text(at + 1, `word ${at + 1}`)));
        await store.apply([{ row: row("dm_ab", 1) }, ...of(...entries)], false);
        await store.apply([{ place: { conversation_id: "dm_ab", seq: 1100, path: "a.jpg" } }], false);
        await store.apply([{ floor: { conversation_id: "dm_ab", first_seq: 1150 } }], false);
        const { messages, spans } = await store.window("dm_ab", {}, 99);
        expect([messages[0]?.seq, messages.length, spans]).toEqual([1150, 51, [{ from: 1150, to: 1200 }]]);
        expect(await store.search("1149", 9)).toEqual([]);
        expect(await store.search("1150", 9)).toHaveLength(1);
        // Two parts are left.
        expect([await store.tidy(9999), await store.unneeded()]).toEqual([true, []]);
        expect([await store.tidy(9999), await store.unneeded()]).toEqual([true, ["a.jpg"]]);
        expect(await store.tidy(9999)).toBe(false);
        await store.apply([{ removed: "a.jpg" }], false);
        expect(await store.unneeded()).toEqual([]);
        await store.close();
      },
      LARGE_MS_MAX,
    );

    it(
      "removes old messages that the user has read while the store has too many",
      async () => {
        const store = await open();
        const entries = Array.from({ length: 300 }, (_, at) => text(at + 1, "hi"));
        await store.apply([{ row: row("dm_ab", 1) }, ...of(...entries)], false);
        expect(await store.tidy(250)).toBe(false);
        await store.apply([{ read: { conversation_id: "dm_ab", seq: 30, unread: 270 } }], false);
        expect(await store.tidy(250)).toBe(true);
        const first = async () => (await store.window("dm_ab", { after_seq: 0 }, 1)).messages[0]?.seq;
        expect([await first(), await store.tidy(250)]).toEqual([31, false]);
        await store.apply([{ read: { conversation_id: "dm_ab", seq: 300, unread: 0 } }], false);
        expect([await store.tidy(250), await first(), await store.tidy(250)]).toEqual([true, 51, false]);
        // The newest 200 stay.
        expect([await store.tidy(0), await first(), await store.tidy(0)]).toEqual([true, 101, false]);
        await store.close();
      },
      LARGE_MS_MAX,
    );

    it("finds its content again after a restart", async () => {
      const storage = make();
      const first = await Store.open(storage, "alice");
      await first.apply([{ row: row("dm_ab", 1) }, ...of(text(2, "two")), { change: { queued: queued("a") } }], true);
      await first.apply([{ change: { refused: { clientMsgId: "a", code: "gone" } } }], true);
      await first.apply([{ change: { held: { conversation_id: "dm_xy", seq: 4 } } }], true);
      const content = await contentOf(first);
      await first.close();
      const second = await Store.open(storage, "alice");
      expect(await contentOf(second)).toEqual(content);
      expect(content.saved.refused).toEqual([{ queued: queued("a"), code: "gone" }]);
      await second.close();
      await expect(Store.open(storage, "bob")).rejects.toMatchObject({ code: "wrong_user" });
    });

    it("writes all of a turn or nothing", async () => {
      const store = await open();
      await store.apply(of(text(1, "one")), false);
      const before = await contentOf(store);
      const broken = { entry: { ...text(3, "three"), sent_at: undefined } } as unknown as Write;
      const page = { page: { conversation_id: "dm_ab", side: {}, page: undefined } } as unknown as Write;
      await expect(store.apply([...of(text(2, "two")), broken, page], false)).rejects.toThrow();
      expect(await contentOf(store)).toEqual(before);
      await store.close();
    });
  });
}

/** All that a store returns. */
async function contentOf(store: Store) {
  const sides = [{}, { before_seq: 5 }, { after_seq: 5 }];
  const ids = ["dm_ab", "gr_xy", "ch_n"];
  const messages = ids.flatMap((id) => Array.from({ length: 11 }, (_, at) => [id, at + 1] as const));
  return {
    saved: await store.saved(),
    chats: await store.chats(),
    channels: await store.channels(),
    windows: await Promise.all(ids.flatMap((id) => sides.map((side) => store.window(id, side, 3)))),
    loads: await Promise.all(ids.map((conversation_id) => store.load({ load: "window", conversation_id, side: {} }))),
    found: await Promise.all(["hello", "東京", "unsent", "he", "world hello"].map((words) => store.search(words, 4))),
    members: await Promise.all(ids.map((id) => store.members(id))),
    drafts: await store.drafts(),
    places: await Promise.all(messages.map(([id, seq]) => store.place(id, seq))),
    unneeded: await store.unneeded(),
  };
}

it("returns the same from each kind of storage, after any writes and a restart", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.array(writes, { maxLength: 6 }), fc.boolean()), { maxLength: 12 }),
      async (turns) => {
        const kept = storages.map(([, make]) => make());
        const stores = await Promise.all(kept.map((storage) => Store.open(storage, "alice")));
        for (const [turn, lasting] of turns) {
          await Promise.all(stores.map((store) => store.apply(turn, lasting)));
        }
        const [first, ...others] = await Promise.all(stores.map(contentOf));
        await Promise.all(stores.map((store) => store.close()));
        for (const other of others) {
          expect(other).toEqual(first);
        }
        for (const storage of kept) {
          const again = await Store.open(storage, "alice");
          expect(await contentOf(again)).toEqual(first);
          await again.close();
        }
      },
    ),
    { numRuns: 60 },
  );
}, 60_000);

it("finds by its words exactly the messages that have them", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(writes, { maxLength: 40 }), fc.constantFrom(...storages), async (turn, [, make]) => {
      const store = await Store.open(make(), "alice");
      await store.apply(turn, false);
      const all = (await Promise.all(["dm_ab", "gr_xy", "ch_n"].map((id) => store.window(id, {}, 99)))).flatMap(
        ({ messages }) => messages,
      );
      for (const word of ["hello", "world", "東京", "its", "🎉"]) {
        const found = (await store.search(word, 99)).map(({ conversation_id, seq }) => `${conversation_id} ${seq}`);
        const expected = all.filter(({ body }) => wordsOf(body).includes(word));
        expect(found.sort()).toEqual(expected.map(({ conversation_id, seq }) => `${conversation_id} ${seq}`).sort());
      }
      await store.close();
    }),
    { numRuns: 60 },
  );
}, 60_000);
