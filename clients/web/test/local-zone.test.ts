import { expect, it } from "vitest";
import { dayOf } from "../src/chat/zone.ts";
import { localZone } from "../src/local-zone.ts";

it("a day is that of the user's clock, also after the change of the clocks", () => {
  const zone = process.env.TZ;
  process.env.TZ = "Europe/Berlin";
  try {
    const offsets = localZone(Date.UTC(2026, 10, 25));
    expect(offsets).toContainEqual(["2026-03-29T01:00:00.000Z", 7200]);
    expect(offsets).toContainEqual(["2026-10-25T01:00:00.000Z", 3600]);
    expect(offsets.length).toBeLessThan(30);
    expect(dayOf(offsets, "2026-07-01T22:00:00.000Z")).toBe("2026-07-02");
    expect(dayOf(offsets, "2026-11-25T22:59:59.999Z")).toBe("2026-11-25");
    expect(dayOf(offsets, "2026-11-25T23:00:00.000Z")).toBe("2026-11-26");
    // Before the first offset, that one holds.
    expect(dayOf(offsets, "1999-11-25T23:00:00.000Z")).toBe("1999-11-26");
    expect(dayOf([], "2026-11-25T23:59:59.000Z")).toBe("2026-11-25");
  } finally {
    process.env.TZ = zone;
  }
});
