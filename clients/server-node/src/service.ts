import { result, type Transport } from "./calls.ts";
import type {
  Add,
  AddResult,
  CreateGroup,
  CreateResult,
  ProfileChange,
  ProfileResult,
  Remove,
  Restrict,
  Send,
  SendResult,
  Typing,
  Update,
} from "./types.ts";

/** A sender that is no user, with an id such as `@orders`. Each method resolves when the server has stored the change. */
export class Service {
  readonly id: string;
  #transport: Transport;

  constructor(id: string, transport: Transport) {
    this.id = id;
    this.#transport = transport;
  }

  send(message: Send): Promise<SendResult> {
    return this.#ask("send", { kind: "text", ...message });
  }

  createGroup(group: CreateGroup): Promise<CreateResult> {
    return this.#ask("create_group", group);
  }

  add(members: Add): Promise<AddResult> {
    return this.#ask("add", members);
  }

  remove(member: Remove): Promise<SendResult> {
    return this.#ask("remove", member);
  }

  /** Lets a member only read until a time. The service must be an admin of the group. */
  restrict(member: Restrict): Promise<SendResult> {
    return this.#ask("restrict", member);
  }

  /** Changes the title, the look and the rules of a group. The service must be an admin of the group. */
  update(group: Update): Promise<SendResult> {
    return this.#ask("update", group);
  }

  /** Shows the text that the service is writing, as far as it is, until the service sends it or for 6 s. */
  async typing(text: Typing): Promise<void> {
    await this.#ask("typing", text);
  }

  /** Changes the profile of a user or a service. */
  profile(user_id: string, set: ProfileChange): Promise<ProfileResult> {
    return this.#ask("profile", { user_id, set }, {});
  }

  #ask<Result>(op: string, fields: object, as: object = { as: this.id }): Promise<Result> {
    return result(this.#transport, { op, ...as, ...fields }) as Promise<Result>;
  }
}
