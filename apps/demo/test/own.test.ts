import type { MessageItem } from "@pigeonhole/client";
import { expect, it } from "vitest";
import { mapOf, newLocation, newPoll, newVote, placeOf, pollOf, votesOf } from "../src/own.ts";

const item = (kind: string, data: object) => ({ kind, data }) as Pick<MessageItem, "kind" | "data">;

it("the last vote of each user counts, and only for an option that there is", () => {
  const poll = pollOf({ kind: "x-poll", data: { options: ["tea", "coffee"] } });
  const vote = (senderId: string, option: unknown, kind = "xs-vote") => ({ seq: 1, senderId, kind, data: { option } });
  const signals = [vote("bob", 0), vote("carol", 1), vote("bob", 1), vote("dave", 7), vote("erin", 0, "xs-else")];
  expect(poll && votesOf(poll, signals)).toEqual([[], ["bob", "carol"]]);
  expect(newVote(5, 1)).toEqual({ kind: "xs-vote", body: "", replyTo: 5, data: { option: 1 } });
});

it("what another app made of a poll or a location is shown as a text", () => {
  const { kind = "", data = {} } = newPoll("Tea?", ["yes", "no"]);
  expect(pollOf(item(kind, data))).toEqual({ options: ["yes", "no"] });
  for (const wrong of [{}, { options: [] }, { options: "yes" }, { options: [1] }, { options: [""] }]) {
    expect(pollOf(item("x-poll", wrong))).toBeUndefined();
  }
  for (const wrong of [{}, { lat: "1", lng: 2 }, { lat: 91, lng: 2 }, { lat: 1, lng: 181 }, { lat: 1 }]) {
    expect(placeOf(item("x-location", wrong))).toBeUndefined();
  }
});

it("a location is sent to the metre, and shown on a map", () => {
  const sent = newLocation({ latitude: 52.5200066, longitude: 13.404954 });
  expect(sent).toEqual({
    kind: "x-location",
    body: "Location: 52.52001, 13.40495",
    data: { lat: 52.52001, lng: 13.40495 },
  });
  const place = placeOf(item("x-location", { lat: 52.52001, lng: 13.40495 }));
  expect(place && mapOf(place)).toBe(
    "https://www.openstreetmap.org/?mlat=52.52001&mlon=13.40495#map=16/52.52001/13.40495",
  );
});
