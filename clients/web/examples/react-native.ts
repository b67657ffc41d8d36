import { type KeyValueStore, keyValueStorage, open } from "@pigeonhole/client";

// import AsyncStorage from "@react-native-async-storage/async-storage";
// import { AppState } from "react-native";
declare const AsyncStorage: KeyValueStore;
declare const AppState: { addEventListener(type: "change", listener: (state: string) => void): void };
declare function tokenFromMyBackend(): Promise<string>;

const pigeonhole = await open({
  url: "wss://example.execute-api.eu-west-1.amazonaws.com/v1",
  userId: "alice",
  token: tokenFromMyBackend,
  storage: keyValueStorage(AsyncStorage, "alice"),
});

AppState.addEventListener("change", (state) => {
  if (state === "active") {
    pigeonhole.wake();
  }
});
