// The client of the components below a provider.

import type { Changing, Chat, Pigeonhole } from "@pigeonhole/client";
import { createContext, createElement, type ReactNode, useContext, useMemo, useSyncExternalStore } from "react";

const Context = createContext<Pigeonhole | undefined>(undefined);

/** Gives the client to all components below. `undefined`: it is not open yet, or this is a server. */
export function PigeonholeProvider({ client, children }: { client: Pigeonhole | undefined; children?: ReactNode }) {
  return createElement(Context.Provider, { value: client }, children);
}

/** Returns the client, for what no other hook does. */
export function usePigeonhole(): Pigeonhole | undefined {
  return useContext(Context);
}

/** Returns the conversation with this id. */
export function useChat(id: string): Chat | undefined {
  const client = usePigeonhole();
  return useMemo(() => client?.conversation(id), [client, id]);
}

/** Returns the value. On a server and while hydrating it is `undefined`. */
export function useChanging<T>(value: Changing<T> | undefined): T | undefined {
  return useSyncExternalStore<T | undefined>(value?.subscribe ?? never, value?.getSnapshot ?? nothing, nothing);
}

const never = () => () => {};
const nothing = () => undefined;
