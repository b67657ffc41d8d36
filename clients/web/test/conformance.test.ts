// The session against the scripts in conformance/, whose README says what the steps mean.

import { readdirSync, readFileSync } from "node:fs";
import { describe, it } from "vitest";
import { parse } from "yaml";
import { Play } from "./play.ts";
import { folder, type Scenario, type Step, variants } from "./script.ts";

const caughtUp: Step[] = [
  { dials: { need: "connect" } },
  { told: { state: "connecting" } },
  { open: {} },
  { told: { state: "online" } },
  { asks: { action: "drain" }, result: { messages: [], more: false } },
  { asks: { action: "inbox", limit: 50 }, result: { conversations: [], next_cursor: null } },
  { told: { state: "caught_up" } },
];

// The timeline's are played elsewhere: no connection comes into them.
for (const file of readdirSync(folder).filter((name) => name.endsWith(".yaml") && name !== "timeline.yaml")) {
  describe(file, () => {
    const scenarios = parse(readFileSync(new URL(file, folder), "utf8")) as Scenario[];
    for (const scenario of scenarios) {
      for (const steps of variants(scenario)) {
        it(scenario.name, () => {
          const play = new Play(scenario);
          for (const step of [...(scenario.begin ? caughtUp : []), ...steps]) {
            play.take(step);
          }
          play.nothingElse("at the end");
        });
      }
    }
  });
}
