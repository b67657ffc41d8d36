// A list of users, as one types it.

import { isService, limits } from "@pigeonhole/client";

/** The ids, each once and without the user's own; or what is wrong with them. */
export function userIds(text: string, me: string): { ids: string[]; problem: string } {
  const all = text.split(/[,;\n]/).map((id) => id.trim());
  const ids = [...new Set(all.filter((id) => id !== "" && id !== me))];
  const isId = (id: string) => /^[!-~]+$/.test(id) && id.length <= limits.USER_ID_CHARS_MAX;
  const wrong = ids.find((id) => !isId(id));
  if (wrong !== undefined) {
    const hint = /\s/.test(wrong) ? ". Put commas between several" : "";
    return { ids: [], problem: `“${wrong}” is no user id: those have letters, digits and signs, and no spaces${hint}` };
  }
  const service = ids.find(isService);
  if (service !== undefined) {
    return { ids: [], problem: `${service} is a service, and those are in no group` };
  }
  const max = limits.GROUP_CHANGE_MEMBERS_MAX;
  return ids.length > max ? { ids: [], problem: `At most ${max} at once` } : { ids, problem: "" };
}
