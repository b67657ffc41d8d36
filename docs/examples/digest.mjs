// Mails users what no device of theirs has had for an hour: `node digest.mjs`, or `node digest.mjs 60` for a minute.
// The mails go to the output; yours go to a mail service.

import { Lambda } from "@aws-sdk/client-lambda";
import { Admin, byLambda } from "@pigeonhole/server";
import { eachEvent } from "./events.mjs";

const admin = new Admin(byLambda(new Lambda({}), process.env.ADMIN_FUNCTION));
const waitMs = Number(process.argv[2] ?? 3600) * 1000;
// Up to which seq of each conversation a user has a mail. Yours is a table.
const mailed = new Map();

await eachEvent(async ({ type, conversation, message }) => {
  if (type !== "entry" || message.kind !== "text" || !conversation.members) {
    return;
  }
  // The queue keeps the event until it is due: a program that ends forgets nothing.
  const leftMs = Date.parse(message.sent_at) + waitMs - Date.now();
  if (leftMs > 0) {
    return leftMs / 1000;
  }
  for (const user of conversation.members.filter((member) => member !== message.sender_id)) {
    const { conversations } = await admin.ask("pending", { user_id: user });
    const isNew = (row) => row.last_seq > (mailed.get(`${user} ${row.conversation_id}`) ?? 0);
    const waiting = conversations.filter(isNew);
    if (waiting.length > 0) {
      console.log(JSON.stringify({ to: user, subject: `${waiting.length} conversations have new messages` }));
    }
    for (const row of waiting) {
      mailed.set(`${user} ${row.conversation_id}`, row.last_seq);
    }
  }
});
