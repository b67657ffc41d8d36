// A case of support, from its group to its end: `node support.mjs bob 7`. Prints what each call gave.
//
// ADMIN_FUNCTION is the stack's output AdminFunctionName. docs/backend.md has the environment for `cargo run`.

import { Lambda } from "@aws-sdk/client-lambda";
import { Admin, byLambda, RefusedError, Service } from "@pigeonhole/server";

const [user, number] = process.argv.slice(2);
const calls = byLambda(new Lambda({}), process.env.ADMIN_FUNCTION);
const [support, admin] = [new Service("@support", calls), new Admin(calls)];

// Each id is derived from the case, so a repeated job changes nothing.
const id = (step) => `case-${number}-${step}`;
const group = await support.createGroup({ client_msg_id: id("opened"), title: `Case ${number}`, members: [user] });
const { conversation_id } = group;
const { added } = await support.add({ conversation_id, client_msg_id: id("expert"), members: ["carol"] });
const sent = await support.send({ conversation_id, client_msg_id: id("hello"), body: "Carol looks into it." });
await support.restrict({ conversation_id, client_msg_id: id("calm"), user_id: user, until: "forever" });
await support.remove({ conversation_id, client_msg_id: id("closed"), user_id: "carol" });
const { version } = await support.profile("@support", { name: "Support" });
await admin.ask("delete_message", { conversation_id, seq: sent.seq });
const { conversations } = await admin.ask("pending", { user_id: user });
const refused = await support.add({ conversation_id, client_msg_id: id("hello"), members: ["dave"] }).catch((error) => {
  if (error instanceof RefusedError) {
    return error.code;
  }
  throw error;
});
console.log(JSON.stringify([group.seq, added, sent.seq, version > 0, conversations.at(-1).last_seq, refused]));
