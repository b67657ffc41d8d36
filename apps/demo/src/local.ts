// Facts about the local server.

import { kept } from "./tab.ts";

interface Local {
  /** Which tables it has: in memory they are others at each start. */
  data_id: string;
  queue_url?: string | null;
}

const begunAnew = kept("begun anew");

let asked: Promise<Local> | undefined;

/** As it was when the page was loaded. */
export function local(): Promise<Local> {
  asked ??= ask();
  return asked;
}

async function ask(): Promise<Local> {
  const answer = await fetch("/local");
  if (!answer.ok) {
    throw new Error(`The server says nothing of itself: HTTP ${answer.status}`);
  }
  return answer.json();
}

/**
 * To be called before a connection opens. If the server was restarted with other tables, the page reloads, and this
 * function never resolves. The messages on the page, and those in its outbox, belong to tables that are gone.
 */
export async function sameTables(): Promise<void> {
  const [before, now] = await Promise.all([local(), ask()]);
  if (before.data_id !== now.data_id) {
    begunAnew.set("yes");
    location.reload();
    await new Promise<never>(() => {});
  }
}

/** Reports whether the page was just reloaded because the tables changed. */
export function hasBegunAnew(): boolean {
  const has = begunAnew.get() !== null;
  begunAnew.set(undefined);
  return has;
}
