// A button by which a shop's server writes to the user, whether they are there or not.

import { queueUrl, tell } from "../shop.ts";
import { h, icon } from "./dom.ts";

export function shop(user: string): HTMLElement {
  const words = h("span", {}, "Get a message from a shop");
  let count = 0;
  const click = async () => {
    try {
      await tell(user, count);
      count += 1;
      words.textContent = "Get a message from a shop";
    } catch (error) {
      words.textContent = `The shop can’t send: ${(error as Error).message}`;
    }
  };
  const button = h("button", { type: "button", class: "new-group", hidden: true, click }, icon("shop"), words);
  queueUrl().then((url) => {
    button.hidden = url === undefined;
  });
  return button;
}
