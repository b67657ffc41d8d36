// A bot: `node bot.mjs bob` opens a group with bob, and answers each message there that begins with a slash.

import { Lambda } from "@aws-sdk/client-lambda";
import { byLambda, RefusedError, Service } from "@pigeonhole/server";
import { eachEvent } from "./events.mjs";

const bot = new Service("@bot", byLambda(new Lambda({}), process.env.ADMIN_FUNCTION));
const user = process.argv[2];
// The same id opens the same group, also after a restart.
const group = await bot.createGroup({ client_msg_id: `bot-${user}`, title: "Ask the bot", members: [user] });
console.log(group.conversation_id);

function answer(text) {
  const [command, ...words] = text.slice(1).split(" ");
  switch (command) {
    case "sum":
      return String(words.reduce((sum, word) => sum + Number(word), 0));
    default:
      return "Commands: /sum 1 2 3";
  }
}

await eachEvent(async ({ type, message }) => {
  if (type !== "entry" || message.kind !== "text" || message.deleted_at || !message.body?.startsWith("/")) {
    return;
  }
  const { conversation_id, seq } = message;
  try {
    // An event can come twice, and its answer has the same id.
    await bot.send({ conversation_id, client_msg_id: `answer-${seq}`, body: answer(message.body) });
  } catch (error) {
    // The bot is in some of the conversations only.
    if (!(error instanceof RefusedError)) {
      throw error;
    }
  }
});
