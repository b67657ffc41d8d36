// The encryption in words. No DOM.

import type { Lock, Unreadable } from "@pigeonhole/client";
import type { Notice } from "@pigeonhole/client/sealed";

/** Replaces the text of a message that this device can't read. */
export const unreadable: Record<Unreadable, string> = {
  before_join: "Sent before this device joined the chat",
  forged: "Not shown: no member of the chat encrypted this message",
  broken: "The keys of this device don’t open this message",
  plain_behind_birth: "Not shown: this message came without encryption",
  later: "This message waits for the messages before it",
  not_encrypted: "An encrypted message: this page has no keys for it",
};

/** Names the state of a chat's encryption. */
export const locks: Record<Lock, string> = { plain: "off", sealed: "on", changed: "other keys", joining: "joining" };

/** Explains the state of the encryption with a user. */
export function explained(lock: Lock, peer: string, isVerified: boolean): string {
  switch (lock) {
    case "plain":
      return `Messages here are not encrypted yet. The next message encrypts the chat for good, once ${peer} has keys.`;
    case "sealed":
      return isVerified
        ? `Only your devices and those of ${peer} can read this chat. You have verified the keys of ${peer}.`
        : `Only your devices and those of ${peer} can read this chat.`;
    case "changed":
      return `${peer} has other keys than those that you verified. Messages to ${peer} wait.`;
    case "joining":
      return "This chat is encrypted, and this device has no part in it yet.";
  }
}

/** Explains the state of the encryption of a group. */
export function explainedInGroup(lock: Lock): string {
  switch (lock) {
    case "plain":
      return "Messages in this group are not encrypted.";
    case "sealed":
      return "Only the devices of the members can read this group.";
    case "changed":
      return "A member has other keys than those that you verified. Messages to the group wait.";
    case "joining":
      return "This group is encrypted, and this device has no part in it yet.";
  }
}

/** Describes a change of the keys. `undefined`: the user need not know. */
export function noticed({ notice, ...fields }: Notice, me: string): string | undefined {
  const { user, device, by } = fields as Record<string, string | undefined>;
  const whose = user === me ? "your devices" : `the devices of ${user}`;
  switch (notice) {
    case "device_added":
      return `${short(device)} is new among ${whose}.`;
    case "device_removed":
      return `${short(device)} is no longer among ${whose}.`;
    case "reset":
      return `${by === me ? "You have" : `${by} has`} begun the encryption anew.`;
    case "without_keys":
      return `Without keys, and so without messages here: ${(fields.users as string[]).join(", ")}.`;
    case "broken":
      return "This device can’t follow a change of the keys, so the encryption begins anew.";
    case "unknown_device":
      return `The server lists ${short(device)} among your devices, with keys that are not yours.`;
    default:
      return undefined;
  }
}

/** Returns the beginning of a device's id. */
export function short(device = ""): string {
  return `Device ${device.slice(0, 6)}`;
}
