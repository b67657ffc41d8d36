// A button by which a shop's server writes to the user, whether they are there or not.

import { queueUrl, tell } from "../shop.ts";
import { h, icon } from "./dom.ts";

export function shop(user: string): HTMLElement {
  const words = h("span", {}, "Your shop writes");
  let count = 0;
  const click = async () => {
    try {
      await tell(user, count);
      count += 1;
      words.textContent = "Your shop writes";
    } catch (error) {
      words.textContent = `Your shop can’t write: ${(error as Error).message}`;
    }
  };
  const button = h("button", { type: "button", class: "new-group", hidden: true, click }, icon("shop"), words);
  queueUrl().then((url) => {
    button.hidden = url === undefined;
  });
  return button;
}
