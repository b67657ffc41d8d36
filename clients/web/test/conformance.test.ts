// Runs the session against the scripts in conformance/, whose README explains the steps.

import { readdirSync, readFileSync } from "node:fs";
import { describe, it } from "vitest";
import { parse } from "yaml";
import { play } from "./play.ts";
import { folder, type Scenario, variants } from "./script.ts";

// Other tests play them.
const others = ["timeline.yaml", "chat.yaml", "search.yaml"];

for (const file of readdirSync(folder).filter((name) => name.endsWith(".yaml") && !others.includes(name))) {
  describe(file, () => {
    const scenarios = parse(readFileSync(new URL(file, folder), "utf8")) as Scenario[];
    for (const scenario of scenarios) {
      for (const steps of variants(scenario)) {
        it(scenario.name, () => play({ ...scenario, steps }));
      }
    }
  });
}
