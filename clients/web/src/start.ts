// Starts a session on its store.

import { address, type Config, defaultTiming } from "./config.ts";
import { type App, clock, Driver } from "./driver.ts";
import { PigeonholeError } from "./errors.ts";
import type { Saved } from "./saved.ts";
import type { Keeper } from "./session/core.ts";
import { Session } from "./session/session.ts";
import { Dialer } from "./socket.ts";
import type { Storage } from "./store/database.ts";
import { Store } from "./store/store.ts";
import { uuid } from "./uuid.ts";

/**
 * Reads the data that the last client has saved, and connects in the background.
 *
 * @throws `config`: the address or the device id can't work. As `Store.open`.
 */
export async function start(config: Config, storage: Storage, keeper: Keeper, app: App): Promise<Driver> {
  const timing = { ...defaultTiming, ...config.timing };
  // The configuration can't work, whatever the storage has.
  address(config, config.deviceId ?? uuid());
  const { store, saved } = await openStore(storage, config.userId);
  const deviceId = config.deviceId ?? store.deviceId;
  const dialer = (config.http?.dialer(config, deviceId, timing) ?? new Dialer(config, deviceId, timing)) as Dialer;
  const options = { me: config.userId, timing, keeper, saved, random: Math.random, now: clock() };
  const session = (config.encrypted?.session(options as never, deviceId) ?? new Session(options)) as Session;
  const driver = new Driver(session, dialer, store, app, config.encrypted && Number.POSITIVE_INFINITY);
  if (store.setAside !== undefined) {
    app.tell({ type: "storage", setAside: store.setAside });
  }
  driver.act((at, now) => at.tick(now));
  return driver;
}

async function openStore(storage: Storage, userId: string): Promise<{ store: Store; saved: Saved }> {
  try {
    const store = await Store.open(storage, userId);
    return { store, saved: await store.saved() };
  } catch (cause) {
    throw cause instanceof PigeonholeError
      ? cause
      : new PigeonholeError("storage", "the storage can't be read", { cause });
  }
}
