// The keys of users in this browser. The page of a user without keys loads nothing of the encryption.

import type { Keys } from "@pigeonhole/client/sealed";
import { base64, bytesOf } from "./base64.ts";

/** All devices of a user in this browser have the same keys. Other tables of the server have other users. */
function nameOf(user: string, dataId: string): string {
  return `keys of ${user} of ${dataId}`;
}

/** Makes the keys of a user who has none. */
export async function makeKeys(user: string, dataId: string): Promise<void> {
  const { Keys } = await import("@pigeonhole/client/sealed");
  const keys = await Keys.generate();
  localStorage.setItem(nameOf(user, dataId), base64(keys.export()));
}

/** Returns the keys of a user. The page begins anew when another tab has made or replaced them. */
export async function keysOf(user: string, dataId: string): Promise<Keys | undefined> {
  const name = nameOf(user, dataId);
  addEventListener("storage", ({ key }) => key === name && location.reload());
  const seed = bytesOf(localStorage.getItem(name) ?? "");
  if (!seed?.length) {
    return undefined;
  }
  const { Keys } = await import("@pigeonhole/client/sealed");
  return Keys.import(seed);
}
