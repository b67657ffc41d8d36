// axe on a page that contains it, in each colour scheme and width.

import type axe from "axe-core";
import type { Page } from "playwright-core";

/** Light and dark, and each width. */
export const looks = {
  light: { colorScheme: "light", forcedColors: "none", width: 1360, height: 860 },
  dark: { colorScheme: "dark", forcedColors: "none", width: 1360, height: 860 },
  "high contrast": { colorScheme: "dark", forcedColors: "active", width: 1360, height: 860 },
  phone: { colorScheme: "light", forcedColors: "none", width: 390, height: 780 },
  "320 px": { colorScheme: "dark", forcedColors: "none", width: 320, height: 640 },
} as const;

/** Adds the problems of the page, as it is now in each look, with the first place that has them. */
export async function findIn(page: Page, what: string, found: Map<string, string>): Promise<void> {
  for (const [look, { width, height, ...media }] of Object.entries(looks)) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia(media);
    const problems = await page.evaluate(async () => {
      // The page is drawn in the new colours first.
      await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
      const { violations } = await (window as unknown as { axe: typeof axe }).axe.run({ resultTypes: ["violations"] });
      return violations.flatMap(({ id, nodes }) =>
        nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`),
      );
    });
    for (const problem of problems) {
      found.set(problem, found.get(problem) ?? `${what}, ${look}`);
    }
  }
  await page.setViewportSize({ width: 1360, height: 860 });
}
