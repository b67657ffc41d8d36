// The user's phone in the local server, which gets push notifications while the app here has no connection. No DOM.

import type { Pigeonhole } from "@pigeonhole/client";
import type { Hours } from "./view/quiet.ts";

/** Interval of requests for the phone's notifications. */
const LOOK_MS = 1000;

export interface Notification {
  conversation_id: string;
  seq: number;
  title: string;
  body: string;
  at: string;
}

export interface LockScreen {
  badge: number;
  notifications: Notification[];
}

const HOURS = "quiet hours of ";

/** `HH:MM` as minutes of the day. */
function minutes(time: string): number {
  const [hours = 0, minutes = 0] = time.split(":").map(Number);
  return hours * 60 + minutes;
}

export class Phone {
  readonly deviceId: string;
  /** Called with the lock screen, again and again while the phone is locked. */
  changed: (shown: LockScreen) => void = () => {};
  #user: string;
  #timer: ReturnType<typeof setInterval> | undefined;

  /** `storage` is what the app keeps on this device: as long as that is there, it is the same phone. */
  constructor(user: string, storage: string) {
    const name = `device of ${storage}`;
    this.deviceId = localStorage.getItem(name) ?? crypto.randomUUID();
    localStorage.setItem(name, this.deviceId);
    this.#user = user;
  }

  /** The hours in which the phone does not ring, by the clock of this device. */
  get quiet(): Hours | undefined {
    const kept = localStorage.getItem(HOURS + this.deviceId);
    return kept === null ? undefined : JSON.parse(kept);
  }

  /**
   * Registers the phone, as an app does after each start, when the quiet hours change or the clock is put forward. An
   * unread message notifies it even if another tab has it.
   */
  async register(pigeonhole: Pigeonhole): Promise<void> {
    const { quiet } = this;
    const token = this.deviceId.replaceAll("-", "");
    const offset_min = -new Date().getTimezoneOffset();
    const hours = quiet && { quiet: { from_min: minutes(quiet.from), to_min: minutes(quiet.to), offset_min } };
    await pigeonhole.registerDevice({ platform: "apns", token, preview: true, badge: true, when: "unread", ...hours });
  }

  async setQuiet(pigeonhole: Pigeonhole, hours: Hours | undefined): Promise<void> {
    if (hours) {
      localStorage.setItem(HOURS + this.deviceId, JSON.stringify(hours));
    } else {
      localStorage.removeItem(HOURS + this.deviceId);
    }
    await this.register(pigeonhole);
  }

  /** Locks the phone or unlocks it. While the phone is locked, the page requests its notifications at intervals. */
  lock(isLocked: boolean): void {
    if (isLocked === (this.#timer !== undefined)) {
      return;
    }
    clearInterval(this.#timer);
    this.#timer = isLocked ? setInterval(() => this.#look(), LOOK_MS) : undefined;
    if (isLocked) {
      this.#look();
    }
  }

  async #look(): Promise<void> {
    try {
      const response = await fetch(`/phones?${new URLSearchParams({ user: this.#user })}`);
      const { phones } = await response.json();
      const { badge, notifications } = phones.find(
        ({ device_id }: { device_id: string }) => device_id === this.deviceId,
      );
      this.changed({ badge: badge ?? 0, notifications });
    } catch {
      // The server is down, or the phone has not registered yet. Its notifications stay.
    }
  }
}
