// Kinds of this page's own: a poll with its votes, and a location. The server stores them, and knows neither.

import type { Draft, MessageItem } from "@pigeonhole/client";

type Said = Exclude<Draft, string>;

const OPTIONS_MAX = 10;

export interface Poll {
  options: string[];
}

/** Returns a poll. An app that does not know polls shows the question. */
export function newPoll(question: string, options: string[]): Said {
  return { kind: "x-poll", body: question, data: { options: options.slice(0, OPTIONS_MAX) } };
}

/** A vote for one option, in place of an earlier one by this user. */
export function newVote(poll: number, option: number): Said {
  return { kind: "xs-vote", body: "", replyTo: poll, data: { option } };
}

export function pollOf({ kind, data }: Pick<MessageItem, "kind" | "data">): Poll | undefined {
  const options = kind === "x-poll" && data ? data.options : undefined;
  const isText = (option: unknown) => typeof option === "string" && option !== "";
  return Array.isArray(options) && options.length > 0 && options.every(isText)
    ? { options: options.slice(0, OPTIONS_MAX) as string[] }
    : undefined;
}

/** Returns the users for each option. The last vote of a user counts. */
export function votesOf({ options }: Poll, signals: MessageItem["signals"]): string[][] {
  const last = new Map<string, unknown>();
  for (const { kind, senderId, data } of signals) {
    if (kind === "xs-vote") {
      last.set(senderId, data?.option);
    }
  }
  return options.map((_, at) => [...last].filter(([, option]) => option === at).map(([user]) => user));
}

export interface Place {
  latitude: number;
  longitude: number;
}

/** Returns a location, which an app shows as a text if it knows no locations. */
export function newLocation({ latitude, longitude }: Place): Said {
  // A metre is enough.
  const [lat, lng] = [latitude, longitude].map((degrees) => Number(degrees.toFixed(5)));
  return { kind: "x-location", body: `Location: ${lat}, ${lng}`, data: { lat, lng } };
}

export function placeOf({ kind, data }: Pick<MessageItem, "kind" | "data">): Place | undefined {
  const isWithin = (degrees: unknown, max: number) => typeof degrees === "number" && Math.abs(degrees) <= max;
  return kind === "x-location" && data && isWithin(data.lat, 90) && isWithin(data.lng, 180)
    ? { latitude: data.lat as number, longitude: data.lng as number }
    : undefined;
}

/** Returns the address of a map. */
export function mapOf({ latitude, longitude }: Place): string {
  const at = `mlat=${latitude}&mlon=${longitude}#map=16/${latitude}/${longitude}`;
  return `https://www.openstreetmap.org/?${at}`;
}
